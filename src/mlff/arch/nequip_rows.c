/* nequip_rows.c: reads radial networks and makes the matrix of rows of their weights (nequip_table.c): on backends of
 * doubles the last matrix of the network itself, otherwise splines through it. */
#include "nequip_load.h"

#include <math.h>
#include <stdlib.h>

mlff_status nequip_no_memory(nequip_loader *in)
{
  return mlff_fail(in->error, MLFF_E_NOMEM, "out of memory while loading a model");
}

double *nequip_zeros(size_t n)
{
  return calloc(n ? n : 1, sizeof(double));
}

static double fan_in(const nequip_loader *in, int n)
{
  return in->is_scaled ? 1.0 / sqrt(n) : 1.0;
}

void nequip_free_network(nequip_loader *in)
{
  free(in->units);
  in->units = NULL;
  free(in->pair_bias);
  in->pair_bias = NULL;
  for (int k = 0; k < NEQUIP_MAX_HIDDEN; k++) {
    free(in->hidden[k]);
    free(in->affine[k]);
    in->hidden[k] = in->affine[k] = NULL;
  }
}

mlff_nequip_terms_args nequip_host_network(const nequip_loader *in, const mlff_nequip_terms_args *shape)
{
  mlff_nequip_terms_args a = *shape;
  a.frequency = in->frequency;
  a.pair_bias = in->pair_bias;
  for (int k = 0; k < a.n_hidden; k++) {
    a.weight[k] = in->hidden[k];
    a.affine[k] = in->affine[k];
  }
  return a;
}

mlff_nequip_terms_args nequip_network_of_pair(const mlff_nequip_terms_args *network, int pair)
{
  mlff_nequip_terms_args a = *network;
  if (a.pair_bias) a.pair_bias = (const double *) a.pair_bias + (size_t) pair * (size_t) a.width[0];
  return a;
}

int nequip_is_paired(const mlff_nequip_terms_args *network)
{
  return network->basis.transform || network->is_normed;
}

int nequip_n_pairs(const nequip_net *net)
{
  return nequip_is_paired(&net->network) && !net->is_exact ? net->n_slots * net->n_slots : 1;
}

double nequip_pair_radius(const nequip_loader *in, int pair)
{
  const int n = in->net->n_slots;
  return in->radius ? in->radius[in->element[pair / n]] + in->radius[in->element[pair % n]] : 0.0;
}

int nequip_twin_pair(const nequip_net *net, int pair)
{
  const int n = net->n_slots ? net->n_slots : 1;
  if (net->network.is_normed) return pair;
  return pair % n * n + pair / n;
}

/* Units that do not depend on the pair are made once. */
mlff_status nequip_make_units(nequip_loader *in, const mlff_nequip_terms_args *network, int pair)
{
  const int width = mlff_nequip_n_units(network);
  if (in->net->is_exact || (in->units && !nequip_is_paired(network))) return MLFF_OK;
  if (!in->units && !(in->units = nequip_zeros((size_t) in->net->n_rows * (size_t) width))) return nequip_no_memory(in);
  const mlff_nequip_terms_args of_pair = nequip_network_of_pair(network, pair);
  nequip_unit_rows(&of_pair, nequip_pair_radius(in, pair), &in->net->table, in->units);
  return MLFF_OK;
}

/* With `last`: also reads the last matrix. */
mlff_status nequip_read_network(nequip_loader *in, int t, int n_weights, double **last)
{
  const mlff_nequip_terms_args *a = &in->net->network;
  int n_in = a->basis.n;
  nequip_free_network(in);
  if (a->is_normed) return nequip_read_normed(in, t, "radial_mlp", a, n_weights, last, &in->net->layers[t].network);
  for (int k = 0; k < a->n_hidden + (last != NULL); k++) {
    const int n_out = k < a->n_hidden ? a->width[k] : n_weights;
    double **w = k < a->n_hidden ? &in->hidden[k] : last;
    MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n_out, n_in, w, "layers.%d.radial_mlp.%d", t, k));
    for (size_t q = 0; q < (size_t) n_out * (size_t) n_in; q++) (*w)[q] *= fan_in(in, n_in);
    if (k < a->n_hidden && in->net->is_exact)
      MLFF_TRY(mlff_buf_fill(in->net->backend, &in->net->layers[t].network.weight[k], *w, (int64_t) n_out * n_in,
                             in->error));
    n_in = n_out;
  }
  return MLFF_OK;
}

/* row [n] = sum_h x[h] matrix[h], matrix [width][n] */
static void multiply(const double *restrict matrix, size_t n, size_t width, const double *x, double *restrict row)
{
  for (size_t o = 0; o < n; o++) row[o] = 0.0;
  for (size_t h = 0; h < width; h++, matrix += n)
    for (size_t o = 0; o < n; o++) row[o] += x[h] * matrix[o];
}

/* R: without a table the transposed matrix, with a table its splines. */
mlff_status nequip_make_rows(nequip_loader *in, const double *matrix, int n, int width, double *rows)
{
  const size_t ld = (size_t) n, n_units = (size_t) width;
  double *transposed = in->units ? nequip_zeros(n_units * ld) : rows;
  if (!transposed) return nequip_no_memory(in);
  for (size_t o = 0; o < ld; o++)
    for (size_t h = 0; h < n_units; h++) transposed[h * ld + o] = matrix[o * n_units + h];
  if (!in->units) return MLFF_OK;
  for (size_t q = 0; q < (size_t) in->net->n_rows; q++)
    multiply(transposed, ld, n_units, in->units + q * n_units, rows + q * ld);
  free(transposed);
  return MLFF_OK;
}
