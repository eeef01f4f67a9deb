/* mace.h: what a MACE network has beyond a NequIP network (nequip.h). Made by mace_load.c, evaluated by nequip.c and
 * mace.c. */
#ifndef MLFF_ARCH_MACE_H
#define MLFF_ARCH_MACE_H

#include "nequip.h"

enum { MACE_MAX_CHANNELS = 512 }; /* of features of non-linear blocks, on nodes */

typedef struct mace_layer {
  nequip_map select;              /* of messages by the center's element; none: is_residual */
  nequip_map out;                 /* of products                                            */
  mlff_nequip_row wide_z, wide_x; /* rows of z and of the previous x for all elements   */
  nequip_map gated, residual;     /* non-linear blocks: of gated messages, of y; z_values are messages before gates */
  double gain, gate_gain;         /* of their gates; 0: plain block */
  mlff_buf residual_bias;         /* of layer 0, whose y is a constant: [n_slots][z.n[0]] */
  int is_residual;      /* features of the previous layer are added: nequip_layer.skip, or `start` in layer 0 */
  mlff_buf start;       /* [n_slots][C] */
  mlff_buf terms, coef; /* of ops_mace.h */
  int64_t n_coef;
  int has_density; /* messages are divided by 1 + density, not by an average */
  int has_readout;
  int n_hidden; /* of the readout; 0 except in the last layer */
  mlff_buf weight, middle, middle_bias, last;
} mace_layer;

/* Densities of the layers: those of a radial network with one hidden layer, summed over neighbors, plus 1. Non-linear
 * blocks: alpha + beta times the sum over neighbors of a network of each layer. */
typedef struct mace_density {
  mlff_nequip_terms_args args;
  nequip_network networks[16]; /* [n_layers]; one for all layers of plain blocks */
  mlff_buf rows, bias;
} mace_density;

extern const nequip_update mace_products;
void mace_release(nequip_net *net);
mlff_status mace_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                        mlff_error *error);

#endif
