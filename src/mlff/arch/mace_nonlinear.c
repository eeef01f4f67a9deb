/* mace_nonlinear.c: loads what non-linear blocks of MACE have beyond plain ones. */
#include "mace_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

mlff_status mace_read_nonlinear_block(mace_block *b, const mlff_yaml *block)
{
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  mlff_nequip_terms_args *network = &net->network;
  const mlff_yaml *part = NULL;
  const double *sent = NULL;
  double norm = 1.0, gate_norm = 1.0;
  int n = 0;
  for (int l = 0; l <= net->lmax; l++) net->n_sent[l] = b->n_channels;
  in->n_input = in->n_first = b->n_channels;
  b->is_nonlinear = mlff_yaml_has(block, "nonlinear");
  if (!b->is_nonlinear) return MLFF_OK;
  MLFF_TRY(mlff_yaml_map(in->file, block, "nonlinear", &part, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, part, "n_edge_first", 1, MACE_MAX_CHANNELS, &in->n_first, in->error));
  MLFF_TRY(nequip_read_counts(in, part, "n_edge", net->n_orders, net->n_orders, NEQUIP_MAX_CHANNELS, &n, &sent));
  MLFF_TRY(mlff_yaml_int(in->file, part, "n_density", 1, MLFF_NEQUIP_HIDDEN - 1, &b->n_density, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, part, "norm_epsilon", 1e-30, 1.0, &network->epsilon, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, part, "activation_norm", 1e-3, 1e3, &norm, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, part, "gate_norm", 1e-3, 1e3, &gate_norm, in->error));
  for (int l = 0; l < n; l++) net->n_sent[l] = (int) sent[l];
  network->is_normed = 1;
  b->gain = 1.0 / norm;
  b->gate_gain = 1.0 / gate_norm;
  for (int t = 0; t < net->n_layers; t++)
    if (strcmp(b->skip[t], "features") != 0 || strcmp(b->divisor[t], "density") != 0)
      return mlff_yaml_fail(in->file, block, in->error,
                            "mace.nonlinear: layer %d has skip %s and divisor %s, needs features and density", t,
                            b->skip[t], b->divisor[t]);
  if (in->is_scaled || network->width[network->n_hidden - 1] >= MLFF_NEQUIP_HIDDEN)
    return mlff_yaml_fail(in->file, block, in->error,
                          "mace.nonlinear: radial_network must have fan_in none and a last width below %d",
                          MLFF_NEQUIP_HIDDEN);
  return MLFF_OK;
}

/* out [n_out][n_elements] = scale W in [n_in][n_elements], W the matrix of this name */
static mlff_status map_elements(mace_block *b, const char *name, int n_out, int n_in, double scale, double **values)
{
  nequip_loader *in = b->in;
  const int n = in->head->n_elements;
  double *w = NULL, *out = nequip_zeros((size_t) n_out * (size_t) n);
  mlff_status status = out ? MLFF_OK : nequip_no_memory(in);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n_out, n_in, &w, "layers.0.%s.l0", name);
  for (int o = 0; !status && o < n_out; o++)
    for (int c = 0; c < n_in; c++)
      for (int s = 0; s < n; s++)
        out[o * n + s] += scale * w[(size_t) o * (size_t) n_in + (size_t) c] * (*values)[c * n + s];
  free(w);
  free(*values);
  *values = out;
  return status;
}

/* Rows of the slots [n_slots][side->n] from values [side->n_file][n_elements]. */
static mlff_status fill_slots(mace_block *b, const nequip_side *side, const double *values, mlff_buf *buf)
{
  nequip_loader *in = b->in;
  const int n_elements = in->head->n_elements, n_slots = in->net->n_slots;
  double *rows = nequip_zeros((size_t) n_slots * (size_t) side->n);
  if (!rows) return nequip_no_memory(in);
  for (int s = 0; s < n_slots; s++)
    for (int k = 0; k < side->n; k++)
      if (side->source[k] >= 0) rows[s * side->n + k] = values[side->source[k] * n_elements + in->element[s]];
  const mlff_status status = mlff_buf_fill(in->net->backend, buf, rows, (int64_t) n_slots * side->n, in->error);
  free(rows);
  return status;
}

/* Self connection and residual of layer 0, constants of the element. */
static mlff_status read_constants(mace_block *b, mace_layer *mace)
{
  nequip_loader *in = b->in;
  const int n = b->n_channels, n_sent = in->n_first, n_elements = in->head->n_elements;
  double *start = NULL, *own = NULL;
  nequip_side_start(&in->rows);
  nequip_side_add(&in->rows, n);
  mlff_status status = mlff_modelfile_matrix(in->file, in->error, n, n_elements, &start, "embedding");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n, n_elements, &own, "embedding");
  if (!status) status = map_elements(b, "skip", n, n, 1 / sqrt((double) n * n_elements), &start);
  if (!status) status = map_elements(b, in->linear_1, n_sent, n, 1 / sqrt((double) n * n_elements), &own);
  if (!status) status = map_elements(b, "linear_res", in->scalars.n_file, n_sent, 1 / sqrt(n_sent), &own);
  if (!status) status = fill_slots(b, &in->rows, start, &mace->start);
  if (!status) status = fill_slots(b, &in->scalars, own, &mace->residual_bias);
  free(start);
  free(own);
  return status;
}

mlff_status mace_read_nonlinear(mace_block *b, int t, mace_layer *mace)
{
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  const double scale = 1 / sqrt(b->n_channels);
  nequip_side sent;
  mace->gain = b->gain;
  mace->gate_gain = b->gate_gain;
  net->n_wide = layer->z.ld;
  net->n_gated = layer->a.ld;
  nequip_side_start(&in->rows);
  nequip_side_add(&in->rows, b->n_channels);
  for (int l = 0; l <= net->lmax; l++)
    MLFF_TRY(nequip_read_map(in, t, "linear_2", l, &in->rows, &in->rows, scale, &mace->gated));
  if (t == 0) return read_constants(b, mace);
  for (int l = 0; l < net->n_orders; l++) {
    nequip_side_start(&sent);
    nequip_side_add(&sent, net->n_sent[l]);
    MLFF_TRY(nequip_read_map(in, t, "linear_res", l, l ? &in->rows : &in->scalars, &sent, 1 / sqrt(net->n_sent[l]),
                             &mace->residual));
  }
  for (int l = 0; l < layer->x.n_orders; l++)
    MLFF_TRY(nequip_read_map(in, t, "skip", l, &in->rows, &in->rows, scale, &layer->skip));
  return MLFF_OK;
}

/* Adds the density of layer t, times beta, to the rows of all pairs. */
static mlff_status add_density(mace_block *b, int t, double beta, double *rows)
{
  enum { N = MLFF_NEQUIP_BLOCK };
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  mace_density *density = net->density;
  const int64_t n_rows = net->n_rows;
  MLFF_TRY(nequip_read_normed(in, t, "density", &density->args, 0, NULL, &density->networks[t]));
  const mlff_nequip_terms_args network = nequip_host_network(in, &density->args);
  if (net->is_exact) rows[t * N + t] = beta;
  for (int pair = 0; !net->is_exact && pair < nequip_n_pairs(net); pair++) {
    MLFF_TRY(nequip_make_units(in, &network, pair));
    for (int64_t q = 0; q < n_rows; q++) rows[(pair * n_rows + q) * N + t] = beta * in->units[q];
  }
  return MLFF_OK;
}

static mlff_status read_number(mace_block *b, int t, const char *name, double *value)
{
  double *v = NULL;
  MLFF_TRY(mlff_modelfile_matrix(b->in->file, b->in->error, 1, 0, &v, "layers.%d.%s", t, name));
  *value = v[0];
  free(v);
  return MLFF_OK;
}

mlff_status mace_read_normed_density(mace_block *b)
{
  enum { N = MLFF_NEQUIP_BLOCK };
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  mace_density *density = net->density;
  const int64_t n_rows = nequip_n_pairs(net) * net->n_rows * N;
  double *rows = nequip_zeros((size_t) n_rows), *bias = nequip_zeros((size_t) net->n_slots * N), alpha = 1, beta = 1;
  mlff_status status = rows && bias ? MLFF_OK : nequip_no_memory(in);
  density->args.n_hidden = 2;
  density->args.width[0] = b->n_density;
  density->args.width[1] = 1;
  for (int t = 0; !status && t < net->n_layers; t++) {
    status = read_number(b, t, "alpha", &alpha);
    if (!status) status = read_number(b, t, "beta", &beta);
    for (int s = 0; !status && s < net->n_slots; s++) bias[s * N + t] = alpha;
    if (!status) status = add_density(b, t, beta, rows);
  }
  if (!status) status = mlff_buf_fill(net->backend, &density->rows, rows, n_rows, in->error);
  if (!status) status = mlff_buf_fill(net->backend, &density->bias, bias, (int64_t) net->n_slots * N, in->error);
  free(rows);
  free(bias);
  return status;
}
