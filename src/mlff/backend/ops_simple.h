/* ops_simple.h: the operations of architectures that have one argument and cannot fail, as a list: family, name, type of
 * the argument, span that their time belongs to (model/spans.c). */
#ifndef MLFF_OPS_SIMPLE_H
#define MLFF_OPS_SIMPLE_H

#include "ops.h"

#define MLFF_SIMPLE_OPS(X)                                              \
  X(painn, moments, mlff_painn_moments_args, MESSAGE)                   \
  X(painn, moments_backward, mlff_painn_moments_args, MESSAGE_BACKWARD) \
  X(painn, message, mlff_painn_message_args, MESSAGE)                   \
  X(painn, message_backward, mlff_painn_message_args, MESSAGE_BACKWARD) \
  X(painn, mix_norm, mlff_painn_mix_args, DENSE)                        \
  X(painn, mix_update, mlff_painn_mix_args, DENSE)                      \
  X(painn, mix_backward_gates, mlff_painn_mix_args, DENSE_BACKWARD)     \
  X(painn, mix_backward_vectors, mlff_painn_mix_args, DENSE_BACKWARD)   \
  X(painn, mix_backward_sum, mlff_painn_mix_args, DENSE_BACKWARD)       \
  X(painn, readout, mlff_painn_readout_args, DENSE)                     \
  X(ani, readout, mlff_ani_readout_args, DENSE)                         \
  X(ani, collect, mlff_ani_collect_args, DENSE)                         \
  X(ani, sum, mlff_ani_sum_args, DENSE_BACKWARD)                        \
  X(orb, features, mlff_orb_features_args, DESCRIPTOR)                  \
  X(orb, gather, mlff_orb_gather_args, MESSAGE)                         \
  X(orb, norm, mlff_orb_norm_args, DENSE)                               \
  X(orb, message, mlff_orb_message_args, MESSAGE)                       \
  X(orb, concat, mlff_orb_concat_args, DENSE)                           \
  X(orb, embed, mlff_orb_embed_args, DENSE)

#endif
