/* painn.h: a PaiNN network in memory, made by painn_load.c, evaluated by painn.c and painn_block.c. */
#ifndef MLFF_ARCH_PAINN_H
#define MLFF_ARCH_PAINN_H

#include "../model/arch.h"

typedef struct painn_layer {
  /* Parameters; *_back: of the backward GEMM. */
  mlff_buf rows; /* R of ops_painn.h; none in layer 0 */
  mlff_linear context[2], context_back[2];
  mlff_linear channel_mix, channel_mix_back;
  mlff_linear mixing[2], mixing_back[2];
  /* kept from forward to backward; widths in features: */
  mlff_buf state;         /* [n_nodes][6F] x and mu that messages gather                   */
  mlff_buf context_slope; /* [n_local][F]                                                  */
  mlff_buf vw;            /* [n_local][3][2F]; this and the next: the last layer's [block] */
  mlff_buf inv_norm;      /* [n_local][F]                                                  */
  mlff_buf y;             /* [n_local][3F] s, v, t                                         */
  mlff_buf mix_slope;     /* [n_local][F]                                                  */
} painn_layer;

typedef struct painn_net {
  mlff_backend *backend;
  int n_features, n_padded; /* F of the file, and rounded up to MLFF_PAINN_BLOCK */
  int n_layers;
  int n_readout, n_readout_padded;
  double epsilon, readout_bias;
  mlff_painn_basis message_basis;       /* of layers 1 .. */
  mlff_painn_basis dense_basis;         /* of layer 0 where messages use a table of the filters */
  const mlff_painn_basis *moment_basis; /* of layer 0: one of the two */
  int n_slots, n_moment_rows;           /* species in use; rows of the filter per species in the moments */
  mlff_buf slot;                        /* int32 [n_elements], -1 = not in use */
  mlff_linear moment_q, moment_q_back, moment_mu, moment_mu_back;
  mlff_linear readout, readout_back;
  mlff_buf readout_weight;
  painn_layer *layers;

  const mlff_weighting *weighting; /* of the evaluation */
  /* arrays of a step: see reserve() for their shapes */
  int64_t block;
  mlff_painn_radial radial;
  mlff_buf q, grad[2], node_energy, edge_grad;
  mlff_buf moments_q, moments_mu, mu, qn, hidden, readout_hidden, readout_slope;
  mlff_buf grad_after, grad_y, grad_qn, grad_vw, grad_m, grad_x, grad_q0, grad_mu0;

  /* Depth-first order: [blocks], for this list, number of atoms and block size. */
  int64_t *reach, reach_room, reach_block;
  int32_t reach_n_local;
  uint64_t reach_list_id;
} painn_net;

enum { PAINN_MAX_LAYERS = 64 };

/* Atoms begin .. begin + n. */
typedef struct painn_atoms {
  int64_t begin, n;
} painn_atoms;

/* Layer l for a block of atoms. The last layer includes the energies and the backward pass through its update. */
void painn_forward_block(painn_net *net, const mlff_edges *edges, int l, painn_atoms s);
/* Reverses the message of layer l >= 1, and the update of the layer before it. */
void painn_backward_block(painn_net *net, const mlff_edges *edges, int l, painn_atoms s);

/* filter(r) = (weight phi(r) + bias) fc(r) of a layer with Gaussian or Bessel functions (ops_painn.h). */
typedef struct painn_filter {
  mlff_painn_kind kind;
  int n_basis, width; /* width = 3F */
  double cutoff;
  const double *first, *second; /* [n_basis] centers or freqs; 1/width^2 of Gaussians */
  const double *weight, *bias;  /* [width][n_basis], [width]                          */
} painn_filter;

/* filter [width], or its slope, exactly; finite at r = 0. */
void painn_exact_filter(const painn_filter *in, double r, int want_slope, double *filter);
/* Intervals that a table for floats should have, from the basis alone: 64 .. MLFF_SPLINE_MAX. */
int painn_table_intervals(const painn_filter *filter);
/* Rows [n + 3][width] of the cubic spline through it in n <= MLFF_SPLINE_MAX intervals. */
void painn_spline_rows(const painn_filter *filter, int n, double *rows);

mlff_status painn_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                         mlff_error *error);
void painn_destroy(void *net);

#endif
