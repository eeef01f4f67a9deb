/* nequip_load.h: internals of loading a NequIP network. */
#ifndef MLFF_ARCH_NEQUIP_LOAD_H
#define MLFF_ARCH_NEQUIP_LOAD_H

#include "nequip.h"

enum { NEQUIP_MAX_PATHS = 34, NEQUIP_MAX_COLUMNS = NEQUIP_MAX_PATHS * NEQUIP_MAX_CHANNELS };

/* Padded positions of a dimension: source[k] is the index in the file, or -1 where it is padding. */
typedef struct nequip_side {
  int n, n_file;
  int source[NEQUIP_MAX_COLUMNS];
} nequip_side;

typedef struct nequip_loader {
  nequip_net *net;
  const mlff_modelfile *file;
  const mlff_species_use *use;
  const mlff_modelfile_head *head;
  mlff_error *error;
  int is_one_hot, is_trained, is_scaled, has_norm; /* keys of the block */
  const double *divisor;                           /* [n_layers] of messages */
  int n_first;                                     /* input channels of layer 0 */
  int n_readout;
  const double *readout_width;
  int32_t *slot;                            /* [n_elements] */
  double *frequency;                        /* [n_basis] */
  double *hidden[NEQUIP_MAX_HIDDEN];        /* of the current layer */
  double *units;                            /* the same: [n_rows][last hidden layer], with a table */
  mlff_nequip_path paths[NEQUIP_MAX_PATHS]; /* the same */
  int n_paths;
  nequip_side rows, scalars, columns, sums[NEQUIP_ORDERS]; /* the same; rows: scratch */
} nequip_loader;

static inline void nequip_side_start(nequip_side *s)
{
  s->n = s->n_file = 0;
}

/* Appends n positions and their padding. */
static inline void nequip_side_add(nequip_side *s, int n)
{
  for (int k = 0; k < nequip_padded(n); k++) s->source[s->n++] = k < n ? s->n_file + k : -1;
  s->n_file += n;
}

/* nequip_rows.c: radial networks and their rows. */
mlff_status nequip_no_memory(nequip_loader *in);
double *nequip_zeros(size_t n);
/* Reads the matrices of the radial network of layer t: in->hidden, and unless last is NULL the last one,
 * [n_weights][last hidden layer]. */
mlff_status nequip_read_network(nequip_loader *in, int t, int n_weights, double **last);
/* The network that was read last, on the host. */
mlff_nequip_terms_args nequip_host_network(const nequip_loader *in);
void nequip_free_network(nequip_loader *in);
/* Matrix R of `matrix` [n][last hidden layer]. rows: zeros. */
mlff_status nequip_make_rows(nequip_loader *in, const double *matrix, int n, double *rows);

/* nequip_block.c: reads the block `nequip` of the file, and the radial frequencies. */
mlff_status nequip_read_block(nequip_loader *in);
/* nequip_first.c: reads layer 0, whose shape is set. */
mlff_status nequip_read_first_layer(nequip_loader *in);

#endif
