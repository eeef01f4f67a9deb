/* tensornet.h: a TensorNet network in memory, made by tensornet_load.c, evaluated by tensornet.c. */
#ifndef MLFF_ARCH_TENSORNET_H
#define MLFF_ARCH_TENSORNET_H

#include "../model/arch.h"

enum {
  TENSORNET_LAYERS = MLFF_TENSORNET_LAYERS, /* of a network */
  TENSORNET_COMPONENTS = MLFF_TENSORNET_COMPONENTS,
  TENSORNET_MAX_LAYERS = 16, /* of messages */
  TENSORNET_PARTS = 3
};

/* A matrix and its transpose for the backward pass. */
typedef struct tensornet_linear {
  mlff_linear forward, back;
} tensornet_linear;

typedef struct tensornet_layer {
  /* parameters */
  mlff_buf rows;                                             /* table, or: */
  mlff_buf weight[TENSORNET_LAYERS], bias[TENSORNET_LAYERS]; /* of the radial network */
  tensornet_linear mix_1[TENSORNET_PARTS], mix_2[TENSORNET_PARTS];
  /* kept from forward to backward; [kept]: n_local, in the last layer and in strictly local networks [block] */
  mlff_buf x, inverse; /* [n_local or block][9F], [..][F]: normalised features before the layer */
  mlff_buf y;          /* [n_nodes or block][9F] mix_1 of them                                  */
  mlff_buf m, d;       /* [kept][9F] sums of messages, mix_2 of their products                  */
  mlff_buf q_sums;     /* [block][3F], strictly local networks */
} tensornet_layer;

typedef struct tensornet_net {
  mlff_backend *backend;
  int n_channels, n_features; /* F of the file, and padded */
  int n_layers;
  int is_o3, is_local; /* messages carry the features of the center */
  double epsilon, energy_scale, bias[2];
  mlff_tensornet_network network; /* without its weights */
  mlff_buf first, second;
  int is_exact;             /* radial networks are evaluated without a table           */
  mlff_painn_basis moments; /* of the embedding                                        */
  mlff_painn_basis table;   /* CUBIC: intervals of the tables, basis of the edge lines */
  int n_slots, n_moment_rows;
  int64_t moments_ld;
  mlff_buf slot, z; /* int32 [n_elements]; [n_slots][F] part of the center in pairs */
  tensornet_linear embed[TENSORNET_PARTS], mix[TENSORNET_PARTS];
  int n_hidden; /* of the scalar network */
  tensornet_linear scalar[2];
  tensornet_linear readout, branch[2][2]; /* readout: of both branches, with the matrix before them */
  mlff_buf readout_weight;
  const mlff_last_features *wanted; /* of the evaluation */
  const mlff_weighting *weighting;  /* of the evaluation */
  tensornet_layer *layers;

  /* arrays of a step: see reserve() for their shapes */
  int64_t block;
  mlff_painn_radial radial;
  mlff_buf terms, node_energy, edge_grad;
  mlff_buf t, t_norm, t_inverse, mixed, s, slope_0, slope_1; /* embedding, kept */
  mlff_buf moments_array, vu, hidden, wide;
  mlff_buf r, last, invariants, last_inverse, h[2], h_slope[3];
  mlff_buf grad, grad_y, grad_m[2]; /* dE/dX of a layer's result; dE/dY; dE/dM */
} tensornet_net;

static inline int tensornet_padded(int n)
{
  return (n + MLFF_PAINN_BLOCK - 1) / MLFF_PAINN_BLOCK * MLFF_PAINN_BLOCK;
}

/* q(r) [width of the last layer] of a network whose arrays are doubles on the host, and its slope. */
void tensornet_exact(const mlff_tensornet_network *network, double r, double *q, double *slope);
/* Intervals that a table for floats should have: 64 .. MLFF_SPLINE_MAX. */
int tensornet_table_intervals(const mlff_tensornet_network *network);
/* Rows [n + 3][width of the last layer] of the cubic spline through it. */
void tensornet_table_rows(const mlff_tensornet_network *network, int n, double *rows);

mlff_status tensornet_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                             mlff_error *error);
void tensornet_destroy(void *net);

#endif
