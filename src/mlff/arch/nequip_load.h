/* nequip_load.h: internals of loading a NequIP network. */
#ifndef MLFF_ARCH_NEQUIP_LOAD_H
#define MLFF_ARCH_NEQUIP_LOAD_H

#include "nequip.h"

/* NEQUIP_MAX_PAIRED: most elements with a table for each pair; more use the networks. */
enum { NEQUIP_MAX_PAIRED = 20, NEQUIP_MAX_PATHS = 34, NEQUIP_MAX_COLUMNS = NEQUIP_MAX_PATHS * NEQUIP_MAX_CHANNELS };

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
  int is_embedded, skips_by_element;               /* the same: kinds `element` */
  const double *divisor;                           /* [n_layers] of messages */
  const double *neighbor_divisor;                  /* [n_elements], or NULL */
  int n_input, n_first;                            /* channels of x and of y in layer 0 */
  const char *linear_1, *linear_2;                 /* names of the matrices before and after messages */
  int has_skip;                                    /* layer 0 adds its input to the messages */
  int n_readout;
  const double *readout_width;
  int32_t *slot;                            /* [n_elements] */
  int *element;                             /* [n_slots] */
  double *radius;                           /* [n_elements], r0 of a pair is the sum; NULL without a transform */
  double *frequency;                        /* [n_basis] */
  double *hidden[NEQUIP_MAX_HIDDEN];        /* of the current layer */
  double *affine[NEQUIP_MAX_HIDDEN];        /* the same, of networks with layer norms */
  double *pair_bias;                        /* the same: [n_slots][n_slots][first hidden layer] */
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
 * [n_weights][last hidden layer]. Then the splines of its units for a pair of slots, unless networks are exact. */
mlff_status nequip_read_network(nequip_loader *in, int t, int n_weights, double **last);
/* The network of this shape that was read last, on the host, and that of one pair. */
mlff_nequip_terms_args nequip_host_network(const nequip_loader *in, const mlff_nequip_terms_args *shape);
mlff_nequip_terms_args nequip_network_of_pair(const mlff_nequip_terms_args *network, int pair);
/* Whether weights depend on the elements of a pair. */
int nequip_is_paired(const mlff_nequip_terms_args *network);
mlff_status nequip_make_units(nequip_loader *in, const mlff_nequip_terms_args *network, int pair);
void nequip_free_network(nequip_loader *in);
/* Pairs of slots, numbered slot of the center * n_slots + slot of the neighbor; 1 if weights do not depend on them. */
int nequip_n_pairs(const nequip_net *net);
/* r0 of a pair, and the first pair that has the same weights: both slots exchanged, or itself. */
double nequip_pair_radius(const nequip_loader *in, int pair);
int nequip_twin_pair(const nequip_net *net, int pair);
/* Matrix R of `matrix` [n][width of the last hidden layer]. rows: zeros. */
mlff_status nequip_make_rows(nequip_loader *in, const double *matrix, int n, int width, double *rows);

/* nequip_normed.c: reads a radial network with layer norms, layers.T.NAME: in->hidden, in->affine and in->pair_bias,
 * unless last is NULL the last matrix [n_out][units], and if networks are exact `network`. */
mlff_status nequip_read_normed(nequip_loader *in, int t, const char *name, const mlff_nequip_terms_args *shape,
                               int n_out, double **last, nequip_network *network);
void nequip_release_network(mlff_backend *backend, nequip_network *network);

/* nequip_load.c. */
mlff_status nequip_load(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use,
                        mlff_status (*read)(nequip_loader *), void **net, mlff_error *error);
mlff_status nequip_upload_bytes(nequip_loader *in, mlff_buf *buf, const void *values, size_t bytes);
mlff_nequip_row nequip_make_row(int n_orders, const int *n);
/* Paths to orders 0 .. n_orders - 1 for layers >= 1. */
void nequip_list_paths(nequip_loader *in, int n_orders);
mlff_status nequip_make_couplings(nequip_loader *in, nequip_layer *layer);
/* A new matrix [rows->n][cols->n] = scale w, padded with zeros; NULL: out of memory. */
double *nequip_pad_matrix(const double *w, const nequip_side *rows, const nequip_side *cols, double scale);
/* Reads layers.T.NAME.lL and packs it times scale, for the forward and backward pass. */
mlff_status nequip_read_map(nequip_loader *in, int t, const char *name, int l, const nequip_side *rows,
                            const nequip_side *cols, double scale, nequip_map *map);
mlff_status nequip_read_weights(nequip_loader *in, int t);
mlff_status nequip_choose_radial(nequip_loader *in);
mlff_status nequip_choose_species(nequip_loader *in);
void nequip_release_map(mlff_backend *backend, nequip_map *map);

/* nequip_elements.c. */
/* A row for all elements of orders 0 .. n_orders - 1 of the features. */
mlff_nequip_row nequip_make_wide_row(nequip_loader *in, int n_orders);
/* linear_1 of order l, divided by what divides messages of the neighbor's element. */
mlff_status nequip_read_divided_map(nequip_loader *in, int t, int l, const nequip_side *side, nequip_layer *layer);
/* skip of order l: a matrix for each element, which the embedding makes of one with three dimensions. */
mlff_status nequip_read_element_skip(nequip_loader *in, int t, int l, const nequip_side *out, const nequip_side *cols,
                                     nequip_map *map);

/* nequip_block.c: the parts of the block that MACE has, too. */
mlff_status nequip_read_cutoff_function(nequip_loader *in, const mlff_yaml *block);
mlff_status nequip_read_counts(nequip_loader *in, const mlff_yaml *parent, const char *key, int n_low, int n_high,
                               int high, int *n, const double **values);
mlff_status nequip_read_network_shape(nequip_loader *in, const mlff_yaml *block);
/* nequip_block.c: reads the block `nequip` of the file, and the radial frequencies. */
mlff_status nequip_read_block(nequip_loader *in);
/* nequip_first.c: reads layer 0, whose shape is set. */
mlff_status nequip_read_first_layer(nequip_loader *in);

#endif
