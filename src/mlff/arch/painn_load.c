/* painn_load.c: reads the `painn` block and tensors of a model file and prepares them for painn.c.
 *
 * Computed in double on the host. Features are padded with zeros to a multiple of MLFF_PAINN_BLOCK, and only species in
 * use have a slot. Filters become matrices of rows (ops_painn.h):
 *   bspline            the weights, with three rows of zeros for functions that do not exist
 *   gaussian, bessel   in double precision: one row per function and one for the bias, exactly;
 *                      in single precision: a cubic spline through the exact filter (painn_table.c), whose error is
 *                      below float rounding; layer 0 uses the exact functions, which are cheap in moments
 */
#include "painn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const basis_names[] = {"bspline", "gaussian", "bessel", NULL};
static const mlff_painn_kind basis_kinds[] = {MLFF_PAINN_CUBIC, MLFF_PAINN_GAUSSIAN, MLFF_PAINN_BESSEL};

/* State of loading; arrays are on the host, in double. */
typedef struct loader {
  painn_net *net;
  const mlff_modelfile *file;
  const mlff_species_use *use;
  double cutoff;
  mlff_painn_kind kind;
  int n_basis, n_elements;
  double *first, *second; /* [n_basis] offsets or freqs; 1/width^2 */
  mlff_error *error;
} loader;

static mlff_status out_of_memory(loader *in)
{
  return mlff_fail(in->error, MLFF_E_NOMEM, "out of memory while loading a painn model");
}

static double *zeros(size_t n)
{
  return calloc(n ? n : 1, sizeof(double));
}

static int padded(int n)
{
  return (n + MLFF_PAINN_BLOCK - 1) / MLFF_PAINN_BLOCK * MLFF_PAINN_BLOCK;
}

/* One side of a matrix: n parts of `size` elements, each padded to `room`; part `skip` is omitted (-1 = none). */
typedef struct side {
  int n, size, room, skip;
} side;

static int side_length(side s)
{
  return (s.n - (s.skip >= 0)) * s.room;
}

/* Source index of padded index k, or -1 where it is padding. */
static int side_source(side s, int k)
{
  const int kept = k / s.room, part = s.skip >= 0 && kept >= s.skip ? kept + 1 : kept, offset = k % s.room;
  return offset < s.size ? part * s.size + offset : -1;
}

static double *pad_matrix(const double *w, side rows, side cols)
{
  const int n_rows = side_length(rows), n_cols = side_length(cols), ld = cols.n * cols.size;
  double *out = zeros((size_t) n_rows * (size_t) n_cols);
  for (int r = 0; out && r < n_rows; r++) {
    for (int c = 0; c < n_cols; c++) {
      const int from_r = side_source(rows, r), from_c = side_source(cols, c);
      if (from_r >= 0 && from_c >= 0)
        out[(size_t) r * (size_t) n_cols + (size_t) c] = w[(size_t) from_r * (size_t) ld + (size_t) from_c];
    }
  }
  return out;
}

/* Packs W and b (NULL = none) for the forward GEMM, and W for the backward one. */
static mlff_status pack(loader *in, const double *w, const double *b, side rows, side cols, mlff_linear *forward,
                        mlff_linear *backward)
{
  mlff_backend *backend = in->net->backend;
  const int n_out = side_length(rows), n_in = side_length(cols);
  double *weight = pad_matrix(w, rows, cols), *bias = b ? pad_matrix(b, rows, (side){1, 1, 1, -1}) : NULL;
  mlff_status status = weight && (bias || !b) ? MLFF_OK : out_of_memory(in);
  if (!status) status = mlff_linear_make(backend, forward, backward, weight, bias, n_out, n_in, in->error);
  free(weight);
  free(bias);
  return status;
}

/* Reads NAME.weight and NAME.bias and packs both GEMMs. */
static mlff_status read_linear(loader *in, const char *name, side rows, side cols, int has_bias, mlff_linear *forward,
                               mlff_linear *backward)
{
  double *w = NULL, *b = NULL;
  const int n_rows = rows.n * rows.size, n_cols = cols.n * cols.size;
  mlff_status status = mlff_modelfile_matrix(in->file, in->error, n_rows, n_cols, &w, "%s.weight", name);
  if (!status && has_bias) status = mlff_modelfile_matrix(in->file, in->error, n_rows, 0, &b, "%s.bias", name);
  if (!status) status = pack(in, w, b, rows, cols, forward, backward);
  free(w);
  free(b);
  return status;
}

/* ---- filters ----------------------------------------------------------------------------------------------------- */

/* Reads the filter of layer l as rows [n_rows][3F] of a basis (caller frees). */
static mlff_status read_filter(loader *in, int l, const mlff_painn_basis *basis, double **rows, int *n_rows)
{
  const int n = in->n_basis, width = 3 * in->net->n_features;
  const int is_table = basis->kind == MLFF_PAINN_CUBIC && in->kind != MLFF_PAINN_CUBIC;
  double *w = NULL, *b = NULL;
  *n_rows = basis->kind == MLFF_PAINN_CUBIC ? basis->n + 3 : basis->n_terms;
  mlff_status status = mlff_modelfile_matrix(in->file, in->error, width, n, &w, "filter.%d.weight", l);
  if (!status && in->kind != MLFF_PAINN_CUBIC)
    status = mlff_modelfile_matrix(in->file, in->error, width, 0, &b, "filter.%d.bias", l);
  if (!status && !(*rows = zeros((size_t) *n_rows * (size_t) width))) status = out_of_memory(in);
  if (!status && is_table) {
    const painn_filter exact = {.kind = in->kind,
                                .n_basis = n,
                                .width = width,
                                .cutoff = in->cutoff,
                                .first = in->first,
                                .second = in->second,
                                .weight = w,
                                .bias = b};
    painn_spline_rows(&exact, basis->n, *rows);
  } else if (!status) {
    for (int c = 0; c < width; c++) {
      for (int k = 0; k < n; k++)
        (*rows)[(size_t) k * (size_t) width + (size_t) c] = w[(size_t) c * (size_t) n + (size_t) k];
      if (b) (*rows)[(size_t) n * (size_t) width + (size_t) c] = b[c];
    }
  }
  free(w);
  free(b);
  return status;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* y [n_out] = W x + b */
static void apply(const double *w, const double *b, const double *x, int n_out, int n_in, double *y)
{
  for (int r = 0; r < n_out; r++) {
    y[r] = b[r];
    for (int c = 0; c < n_in; c++) y[r] += w[(size_t) r * (size_t) n_in + (size_t) c] * x[c];
  }
}

/* x [n_elements][3F] = W2 silu(W1 embedding + b1) + b2: output of layer 0 by species. */
static mlff_status read_first_context(loader *in, const double *embedding, double **x)
{
  const int f = in->net->n_features;
  double *w1 = NULL, *b1 = NULL, *w2 = NULL, *b2 = NULL, *h = zeros((size_t) f);
  mlff_status status = h ? MLFF_OK : out_of_memory(in);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, f, f, &w1, "context.0.0.weight");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, f, 0, &b1, "context.0.0.bias");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, 3 * f, f, &w2, "context.0.1.weight");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, 3 * f, 0, &b2, "context.0.1.bias");
  if (!status && !(*x = zeros((size_t) in->n_elements * 3 * (size_t) f))) status = out_of_memory(in);
  for (int s = 0; !status && s < in->n_elements; s++) {
    apply(w1, b1, embedding + (size_t) s * (size_t) f, f, f, h);
    for (int k = 0; k < f; k++) h[k] /= 1.0 + exp(-h[k]);
    apply(w2, b2, h, 3 * f, f, *x + (size_t) s * 3 * (size_t) f);
  }
  free(w1);
  free(b1);
  free(w2);
  free(b2);
  free(h);
  return status;
}

/* Matrices from moments to q and mu: column (slot, k) is row k of the filter times x of the slot's species; q has an
 * additional column per slot, the embedding. */
static mlff_status pack_moments(loader *in, const int32_t *slot, const double *embedding, const double *x,
                                const double *rows, int n_rows)
{
  painn_net *net = in->net;
  const int f = net->n_features, n_columns = net->n_slots * n_rows, n_q = n_columns + net->n_slots;
  const side features = {1, f, net->n_padded, -1};
  double *mq = zeros((size_t) f * (size_t) n_q), *mm = zeros((size_t) f * (size_t) n_columns);
  mlff_status status = mq && mm ? MLFF_OK : out_of_memory(in);
  for (int s = 0; !status && s < in->n_elements; s++) {
    if (slot[s] < 0) continue;
    for (int c = 0; c < f; c++) {
      double *q = mq + (size_t) c * (size_t) n_q, *m = mm + (size_t) c * (size_t) n_columns;
      const double *xs = x + (size_t) s * 3 * (size_t) f;
      for (int k = 0; k < n_rows; k++) {
        q[slot[s] * n_rows + k] = xs[c] * rows[(size_t) k * 3 * (size_t) f + (size_t) c];
        m[slot[s] * n_rows + k] = xs[f + c] * rows[(size_t) k * 3 * (size_t) f + (size_t) (f + c)];
      }
      q[n_columns + slot[s]] = embedding[(size_t) s * (size_t) f + (size_t) c];
    }
  }
  if (!status)
    status = pack(in, mm, NULL, features, (side){1, n_columns, n_columns, -1}, &net->moment_mu, &net->moment_mu_back);
  if (!status) status = pack(in, mq, NULL, features, (side){1, n_q, n_q, -1}, &net->moment_q, &net->moment_q_back);
  free(mq);
  free(mm);
  return status;
}

static mlff_status read_first_layer(loader *in)
{
  painn_net *net = in->net;
  double *embedding = NULL, *x = NULL, *rows = NULL;
  int n_rows = 0;
  int32_t *slot = calloc((size_t) in->n_elements, sizeof *slot);
  mlff_status status = slot ? MLFF_OK : out_of_memory(in);
  for (int s = 0; slot && s < in->n_elements; s++)
    slot[s] = s < in->use->n_species && in->use->use[s] ? net->n_slots++ : -1;
  if (!status)
    status = mlff_modelfile_matrix(in->file, in->error, in->n_elements, net->n_features, &embedding, "embedding");
  if (!status) status = read_first_context(in, embedding, &x);
  if (!status) status = read_filter(in, 0, net->moment_basis, &rows, &n_rows);
  net->n_moment_rows = n_rows;
  if (!status) status = pack_moments(in, slot, embedding, x, rows, n_rows);
  const size_t bytes = (size_t) in->n_elements * sizeof *slot;
  if (!status) status = mlff_buf_reserve(net->backend, &net->slot, bytes, in->error);
  if (!status) status = net->backend->ops->upload(net->backend, net->slot.data, slot, bytes, in->error);
  free(slot);
  free(embedding);
  free(x);
  free(rows);
  return status;
}

static mlff_status read_message(loader *in, int l)
{
  painn_net *net = in->net;
  painn_layer *layer = &net->layers[l];
  const side one = {1, net->n_features, net->n_padded, -1}, three = {3, net->n_features, net->n_padded, -1};
  char name[64];
  double *rows = NULL, *wide = NULL;
  int n_rows = 0;
  mlff_status status = read_filter(in, l, &net->message_basis, &rows, &n_rows);
  if (!status && !(wide = pad_matrix(rows, (side){1, n_rows, n_rows, -1}, three))) status = out_of_memory(in);
  if (!status)
    status = mlff_buf_fill(in->net->backend, &layer->rows, wide, (int64_t) n_rows * 3 * net->n_padded, in->error);
  free(rows);
  free(wide);
  MLFF_TRY(status);
  snprintf(name, sizeof name, "context.%d.0", l);
  MLFF_TRY(read_linear(in, name, one, one, 1, &layer->context[0], &layer->context_back[0]));
  snprintf(name, sizeof name, "context.%d.1", l);
  return read_linear(in, name, three, one, 1, &layer->context[1], &layer->context_back[1]);
}

static mlff_status read_update(loader *in, int l)
{
  painn_net *net = in->net;
  painn_layer *layer = &net->layers[l];
  const side one = {1, net->n_features, net->n_padded, -1}, two = {2, net->n_features, net->n_padded, -1};
  const side gates = {3, net->n_features, net->n_padded, l == net->n_layers - 1 ? 1 : -1}; /* no v in the last layer */
  char name[64];
  snprintf(name, sizeof name, "channel_mix.%d", l);
  MLFF_TRY(read_linear(in, name, two, one, 0, &layer->channel_mix, &layer->channel_mix_back));
  snprintf(name, sizeof name, "mixing.%d.0", l);
  MLFF_TRY(read_linear(in, name, one, two, 1, &layer->mixing[0], &layer->mixing_back[0]));
  snprintf(name, sizeof name, "mixing.%d.1", l);
  return read_linear(in, name, gates, one, 1, &layer->mixing[1], &layer->mixing_back[1]);
}

static mlff_status read_readout(loader *in)
{
  painn_net *net = in->net;
  const side features = {1, net->n_features, net->n_padded, -1},
             hidden = {1, net->n_readout, net->n_readout_padded, -1};
  double *w = NULL, *b = NULL, *wide = NULL;
  MLFF_TRY(read_linear(in, "readout.0", hidden, features, 1, &net->readout, &net->readout_back));
  mlff_status status = mlff_modelfile_matrix(in->file, in->error, 1, net->n_readout, &w, "readout.1.weight");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, 1, 0, &b, "readout.1.bias");
  if (!status && !(wide = pad_matrix(w, (side){1, 1, 1, -1}, hidden))) status = out_of_memory(in);
  if (!status) status = mlff_buf_fill(in->net->backend, &net->readout_weight, wide, net->n_readout_padded, in->error);
  if (!status) net->readout_bias = b[0];
  free(w);
  free(b);
  free(wide);
  return status;
}

/* ---- the block of the file --------------------------------------------------------------------------------------- */

static mlff_status read_block(loader *in)
{
  static const char *const cutoff_names[] = {"none", "cosine", NULL};
  painn_net *net = in->net;
  const mlff_yaml *block = NULL, *basis = NULL;
  int kind = 0, cutoff_function = 0;
  MLFF_TRY(mlff_yaml_map(in->file, mlff_modelfile_root(in->file), "painn", &block, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_features", 1, MLFF_PAINN_MAX_FEATURES, &net->n_features, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_interactions", 1, PAINN_MAX_LAYERS, &net->n_layers, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_readout", 1, 4096, &net->n_readout, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, block, "epsilon", 1e-30, 1.0, &net->epsilon, in->error));
  MLFF_TRY(mlff_yaml_map(in->file, block, "radial_basis", &basis, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, basis, "kind", basis_names, &kind, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, basis, "n", 1, 1024, &in->n_basis, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, block, "cutoff_function", cutoff_names, &cutoff_function, in->error));
  in->kind = basis_kinds[kind];
  if (cutoff_function != (in->kind != MLFF_PAINN_CUBIC))
    return mlff_yaml_fail(in->file, block, in->error,
                          "cutoff_function: '%s' expected with the radial basis %s, found '%s'",
                          cutoff_names[in->kind != MLFF_PAINN_CUBIC], basis_names[kind], cutoff_names[cutoff_function]);
  net->n_padded = padded(net->n_features);
  net->n_readout_padded = padded(net->n_readout);
  return MLFF_OK;
}

/* Reads the parameters of the radial functions and chooses the basis of the layers (see the top of this file). */
static mlff_status read_basis(loader *in)
{
  painn_net *net = in->net;
  const mlff_painn_basis cubic = {.kind = MLFF_PAINN_CUBIC, .n = in->n_basis, .n_terms = 4, .cutoff = in->cutoff};
  net->message_basis = cubic;
  net->moment_basis = &net->message_basis;
  if (in->kind == MLFF_PAINN_CUBIC && in->use->radial_intervals)
    return mlff_fail(in->error, MLFF_E_UNSUPPORTED,
                     "radial_intervals %d: this model's radial functions are splines of %d intervals themselves",
                     in->use->radial_intervals, in->n_basis);
  if (in->kind == MLFF_PAINN_CUBIC) return MLFF_OK;
  const int n = in->n_basis, n_terms = padded(n + 1);
  const int is_exact = net->backend->real_size == sizeof(double) && !in->use->radial_intervals;
  mlff_painn_basis *dense = is_exact ? &net->message_basis : &net->dense_basis;
  *dense = (mlff_painn_basis){.kind = in->kind, .n = n, .n_terms = n_terms, .cutoff = in->cutoff};
  net->moment_basis = dense;
  const char *name = in->kind == MLFF_PAINN_GAUSSIAN ? "basis.offsets" : "basis.freqs";
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n, 0, &in->first, "%s", name));
  if (in->kind == MLFF_PAINN_GAUSSIAN) {
    MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n, 0, &in->second, "basis.widths"));
    for (int k = 0; k < n; k++) in->second[k] = 1.0 / (in->second[k] * in->second[k]);
  }
  if (!is_exact) {
    const painn_filter exact = {.kind = in->kind,
                                .n_basis = n,
                                .cutoff = in->cutoff,
                                .first = in->first,
                                .second = in->second};
    net->message_basis.n = in->use->radial_intervals ? in->use->radial_intervals : painn_table_intervals(&exact);
  }
  double *wide = pad_matrix(in->first, (side){1, 1, 1, -1}, (side){1, n, n_terms, -1});
  mlff_status status =
      wide ? mlff_buf_fill(in->net->backend, &dense->first, wide, n_terms, in->error) : out_of_memory(in);
  free(wide);
  if (status || !in->second) return status;
  wide = pad_matrix(in->second, (side){1, 1, 1, -1}, (side){1, n, n_terms, -1});
  status = wide ? mlff_buf_fill(in->net->backend, &dense->second, wide, n_terms, in->error) : out_of_memory(in);
  free(wide);
  return status;
}

static mlff_status read_all(loader *in)
{
  painn_net *net = in->net;
  MLFF_TRY(read_block(in));
  MLFF_TRY(read_basis(in));
  if (!(net->layers = calloc((size_t) net->n_layers, sizeof *net->layers))) return out_of_memory(in);
  MLFF_TRY(read_first_layer(in));
  for (int l = 0; l < net->n_layers; l++) {
    if (l > 0) MLFF_TRY(read_message(in, l));
    MLFF_TRY(read_update(in, l));
  }
  return read_readout(in);
}

mlff_status painn_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                         mlff_error *error)
{
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  loader in = {.file = file, .use = use, .cutoff = head->cutoff, .n_elements = head->n_elements, .error = error};
  if (!(in.net = calloc(1, sizeof *in.net))) return out_of_memory(&in);
  in.net->backend = backend;
  const mlff_status status = read_all(&in);
  free(in.first);
  free(in.second);
  if (status)
    painn_destroy(in.net);
  else
    *net = in.net;
  return status;
}

static void release_linears(mlff_backend *backend, mlff_linear *linears, int n)
{
  for (int k = 0; k < n; k++) mlff_linear_release(backend, &linears[k]);
}

static void release_layer(mlff_backend *backend, painn_layer *layer)
{
  release_linears(backend, layer->context, 2);
  release_linears(backend, layer->context_back, 2);
  release_linears(backend, &layer->channel_mix, 1);
  release_linears(backend, &layer->channel_mix_back, 1);
  release_linears(backend, layer->mixing, 2);
  release_linears(backend, layer->mixing_back, 2);
  mlff_buf *const bufs[] = {&layer->rows,     &layer->state, &layer->context_slope, &layer->vw,
                            &layer->inv_norm, &layer->y,     &layer->mix_slope};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(backend, bufs[k]);
}

void painn_destroy(void *opaque)
{
  painn_net *net = opaque;
  if (!net) return;
  mlff_backend *backend = net->backend;
  for (int l = 0; net->layers && l < net->n_layers; l++) release_layer(backend, &net->layers[l]);
  free(net->layers);
  free(net->reach);
  mlff_linear *const linears[] = {&net->moment_q,       &net->moment_q_back, &net->moment_mu,
                                  &net->moment_mu_back, &net->readout,       &net->readout_back};
  for (size_t k = 0; k < sizeof linears / sizeof *linears; k++) mlff_linear_release(backend, linears[k]);
  mlff_buf *const bufs[] = {&net->message_basis.first,
                            &net->message_basis.second,
                            &net->dense_basis.first,
                            &net->dense_basis.second,
                            &net->slot,
                            &net->readout_weight,
                            &net->radial.line,
                            &net->radial.terms,
                            &net->q,
                            &net->grad[0],
                            &net->grad[1],
                            &net->node_energy,
                            &net->edge_grad,
                            &net->moments_q,
                            &net->moments_mu,
                            &net->mu,
                            &net->qn,
                            &net->hidden,
                            &net->readout_hidden,
                            &net->readout_slope,
                            &net->grad_after,
                            &net->grad_y,
                            &net->grad_qn,
                            &net->grad_vw,
                            &net->grad_m,
                            &net->grad_x,
                            &net->grad_q0,
                            &net->grad_mu0};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(backend, bufs[k]);
  free(net);
}
