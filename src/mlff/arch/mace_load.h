/* mace_load.h: internals of loading a MACE network. */
#ifndef MLFF_ARCH_MACE_LOAD_H
#define MLFF_ARCH_MACE_LOAD_H

#include "mace.h"
#include "nequip_load.h"

/* Keys of the block that only loading needs. */
typedef struct mace_block {
  nequip_loader *in;
  const mlff_yaml *yaml;
  int n_channels, n_readout, n_readout_layers;
  int is_common, is_last_only;              /* product_weights, readouts */
  int is_nonlinear, n_density;              /* block `nonlinear` */
  double gain, gate_gain;                   /* of it */
  const double *degree;                     /* [n_layers] of the polynomials */
  const char *const *skip, *const *divisor; /* [n_layers] */
  const double *products;                   /* rows and weights of each polynomial */
  double *average;                          /* [n_layers] divides messages; 1 with a density */
  int n_products, next_product;             /* numbers in `products`, and the first one that is not yet used */
} mace_block;

/* mace_nonlinear.c: what non-linear blocks have beyond plain ones. */
mlff_status mace_read_nonlinear_block(mace_block *b, const mlff_yaml *block);
/* Maps, gates and self connection of layer t, whose rows are set. */
mlff_status mace_read_nonlinear(mace_block *b, int t, mace_layer *mace);
/* Networks of the densities of all layers and their rows. */
mlff_status mace_read_normed_density(mace_block *b);

#endif
