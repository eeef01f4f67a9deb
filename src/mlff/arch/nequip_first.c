/* nequip_first.c: loads layer 0 of a NequIP network. Its input is the species of a neighbor, so the linear maps before
 * and after the message are folded into the radial weights: a matrix of rows for each species in use. */
#include "nequip_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct first_tensors {
  double *embedding, *linear_1, *linear_2[NEQUIP_ORDERS], *skip, *last;
  double *x, *y;  /* [n_first] features of a species, and linear_1 of them */
  double *matrix; /* [n_weights][last hidden layer] */
} first_tensors;

static mlff_status read_first(nequip_loader *in, first_tensors *f)
{
  const nequip_net *net = in->net;
  const nequip_layer *layer = &net->layers[0];
  const int n = in->n_first, width = mlff_nequip_n_units(&net->network);
  if (!in->is_one_hot)
    MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, in->n_input, in->head->n_elements, &f->embedding, "embedding"));
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n, in->n_input, &f->linear_1, "layers.0.%s.l0", in->linear_1));
  for (int l = 0; l < layer->z.n_orders; l++)
    MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, l ? net->n_channels[l] : in->scalars.n_file, n, &f->linear_2[l],
                                   "layers.0.%s.l%d", in->linear_2, l));
  if (in->has_skip)
    MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, in->scalars.n_file, n, &f->skip, "layers.0.skip.l0"));
  MLFF_TRY(nequip_read_network(in, 0, layer->z.n_orders * n, &f->last));
  f->x = nequip_zeros((size_t) in->n_input);
  f->y = nequip_zeros((size_t) n);
  f->matrix = nequip_zeros((size_t) net->layers[0].n_weights * (size_t) width);
  return f->x && f->y && f->matrix ? MLFF_OK : nequip_no_memory(in);
}

/* out [n] = scale w [n][n_in] x */
static void apply(const double *w, int n, int n_in, double scale, const double *x, double *out)
{
  for (int o = 0; o < n; o++) {
    out[o] = 0.0;
    for (int c = 0; c < n_in; c++) out[o] += scale * w[(size_t) o * (size_t) n_in + (size_t) c] * x[c];
  }
}

/* Input features of layer 0 and linear_1 of them, for species s. */
static void first_features(nequip_loader *in, first_tensors *f, int s)
{
  const int n = in->n_input, n_elements = in->head->n_elements;
  const double divisor = in->is_embedded ? 1.0 : sqrt(n_elements);
  for (int c = 0; c < n; c++)
    f->x[c] = in->is_one_hot ? c == s : f->embedding[(size_t) c * (size_t) n_elements + (size_t) s] / divisor;
  apply(f->linear_1, in->n_first, n, 1 / sqrt(n) / (in->neighbor_divisor ? in->neighbor_divisor[s] : 1.0), f->x, f->y);
}

/* Radial weights of species s for the channels of z: sum_c linear_2[o][c] y[c] last[column + c]. */
static void fold_first(nequip_loader *in, first_tensors *f)
{
  const nequip_net *net = in->net;
  const nequip_layer *layer = &net->layers[0];
  const int n = in->n_first, width = mlff_nequip_n_units(&net->network);
  const double scale = 1 / (sqrt(n) * in->divisor[0]);
  double *row = f->matrix;
  memset(row, 0, (size_t) layer->n_weights * (size_t) width * sizeof *row);
  for (int l = 0; l < layer->z.n_orders; l++) {
    nequip_side_start(&in->rows);
    nequip_side_add(&in->rows, net->n_channels[l]);
    const nequip_side *side = l ? &in->rows : &in->scalars;
    for (int o = 0; o < side->n; o++, row += width) {
      if (side->source[o] < 0) continue;
      for (int c = 0; c < n; c++) {
        const double factor = scale * f->linear_2[l][(size_t) side->source[o] * (size_t) n + (size_t) c] * f->y[c];
        const double *last = f->last + (size_t) (l * n + c) * (size_t) width;
        for (int h = 0; h < width; h++) row[h] += factor * last[h];
      }
    }
  }
}

static mlff_status make_first(nequip_loader *in, first_tensors *f)
{
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[0];
  const int n_centers = nequip_n_pairs(net) > 1 ? net->n_slots : 1; /* with their own rows */
  const size_t n_rows = (size_t) net->n_rows * (size_t) layer->n_weights, n_scalars = (size_t) layer->z.n[0];
  const int64_t n_all = (int64_t) n_centers * net->n_slots * (int64_t) n_rows;
  const mlff_nequip_terms_args network = nequip_host_network(in, &net->network);
  double *rows = nequip_zeros((size_t) n_all), *bias = nequip_zeros((size_t) net->n_slots * n_scalars),
         *scalars = nequip_zeros((size_t) in->scalars.n_file);
  mlff_status status = rows && bias && scalars ? MLFF_OK : nequip_no_memory(in);
  for (int s = 0; !status && s < in->head->n_elements; s++) {
    if (in->slot[s] < 0) continue;
    first_features(in, f, s);
    fold_first(in, f);
    for (int c = 0; !status && c < n_centers; c++) {
      const int k = c * net->n_slots + in->slot[s];
      status = nequip_make_units(in, &network, k);
      if (!status)
        status = nequip_make_rows(in, f->matrix, layer->n_weights, mlff_nequip_n_units(&network),
                                  rows + (size_t) k * n_rows);
    }
    if (f->skip) apply(f->skip, in->scalars.n_file, in->n_input, 1 / sqrt(in->n_input), f->x, scalars);
    for (size_t k = 0; f->skip && k < n_scalars; k++)
      if (in->scalars.source[k] >= 0) bias[(size_t) in->slot[s] * n_scalars + k] = scalars[in->scalars.source[k]];
  }
  if (!status) status = mlff_buf_fill(in->net->backend, &layer->rows, rows, n_all, in->error);
  if (!status)
    status = mlff_buf_fill(in->net->backend, &net->bias, bias, net->n_slots * (int64_t) n_scalars, in->error);
  free(rows);
  free(bias);
  free(scalars);
  return status;
}

mlff_status nequip_read_first_layer(nequip_loader *in)
{
  first_tensors f = {NULL};
  nequip_layer *layer = &in->net->layers[0];
  layer->n_weights = 0;
  for (int l = 0; l < layer->z.n_orders; l++) layer->n_weights += layer->z.n[l];
  mlff_status status = read_first(in, &f);
  if (!status) status = make_first(in, &f);
  double *const all[] = {f.embedding, f.linear_1, f.linear_2[0], f.linear_2[1], f.linear_2[2], f.linear_2[3],
                         f.skip,      f.last,     f.x,           f.y,           f.matrix};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
  return status;
}
