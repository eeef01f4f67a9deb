/* cpu.h: the ops of the CPU backends, declared under their name of this compilation (see simd.h). */
#ifndef MLFF_CPU_H
#define MLFF_CPU_H

#include "../ops.h"
#include "simd.h"

typedef vreal mlff_value;
#define MLFF_MATH MLFF_INLINE
#include "../ops_math.h"

mlff_status MLFF_CPU(linear_pack_cpu)(mlff_backend *, mlff_linear *, const double *weight, const double *bias,
                                      int n_out, int n_in, int transpose, mlff_error *);
void MLFF_CPU(linear_cpu)(mlff_backend *, const mlff_linear *, const mlff_linear_args *);
/* linear_mixed.c: the same in bf16; and both into a table. */
mlff_status MLFF_CPU(linear_pack_mixed)(mlff_backend *, mlff_linear *, const double *weight, const double *bias,
                                        int n_out, int n_in, int transpose, mlff_error *);
void MLFF_CPU(linear_mixed)(mlff_backend *, const mlff_linear *, const mlff_linear_args *);
void MLFF_CPU(ops_mixed)(mlff_ops *);
mlff_status MLFF_CPU(edges_cpu)(mlff_backend *, const mlff_graph *, double cutoff, mlff_edges *, mlff_error *);
mlff_status MLFF_CPU(forces_cpu)(mlff_backend *, const mlff_forces_args *, mlff_error *);

/* Fill in the architectures' ops: painn.c, aev.c, orb.c. */
void MLFF_CPU(painn_ops_cpu)(mlff_painn_ops *);
void MLFF_CPU(ani_ops_cpu)(mlff_ani_ops *);
void MLFF_CPU(orb_ops_cpu)(mlff_orb_ops *);

/* table.c: fills the table of this compilation. */
void MLFF_CPU(ops_cpu)(mlff_ops *);

#endif
