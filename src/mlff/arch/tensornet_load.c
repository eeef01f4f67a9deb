/* tensornet_load.c: reads the `tensornet` block and tensors of a model file and prepares them for tensornet.c.
 *
 * Computed in double on the host. Channels are padded with zeros to a multiple of MLFF_PAINN_BLOCK, and only species in
 * use have a slot. Folded into the next matrix: gains and biases of norms, the matrix of smooth Bessel functions, and
 * out.linear into the first layers of the readout.
 */
#include "tensornet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char part_names[] = "IAS";
static const char *const branch_names[] = {"value", "gate"};

/* State of loading; arrays are on the host, in double. */
typedef struct loader {
  tensornet_net *net;
  const mlff_modelfile *file;
  const mlff_species_use *use;
  const mlff_modelfile_head *head;
  mlff_error *error;
  int is_smooth, n_file; /* smooth Bessel functions; columns of radial matrices in the file */
  double exponent;
  double *first, *second, *smooth; /* [n_basis], [n_basis], [n_file][n_basis] */
  int32_t *slot;                   /* [n_elements] */
} loader;

static mlff_status no_memory(loader *in)
{
  return mlff_fail(in->error, MLFF_E_NOMEM, "out of memory while loading a tensornet model");
}

static double *zeros(size_t n)
{
  return calloc(n ? n : 1, sizeof(double));
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

/* A matrix [n_out][n_in] with its bias, whose memory is the caller's to free. */
typedef struct matrix {
  int n_out, n_in;
  double *w, *b;
} matrix;

static void free_matrix(matrix *m)
{
  free(m->w);
  free(m->b);
  *m = (matrix){.w = NULL};
}

/* Reads NAME.weight and NAME.bias. */
static mlff_status read_matrix(loader *in, int n_out, int n_in, matrix *m, const char *name)
{
  *m = (matrix){.n_out = n_out, .n_in = n_in};
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n_out, n_in, &m->w, "%s.weight", name));
  return mlff_modelfile_matrix(in->file, in->error, n_out, 0, &m->b, "%s.bias", name);
}

/* Position in a padded row of element k of n: parts of `size` elements become parts of `room`; interleaved: element
 * 3 c + p of the file is channel c of part p. */
typedef struct layout {
  int n, size, room, is_interleaved;
} layout;

static int padded_length(layout l)
{
  return l.n / l.size * l.room;
}

static int position(layout l, int k)
{
  const int parts = l.n / l.size;
  return l.is_interleaved ? k % parts * l.room + k / parts : k / l.size * l.room + k % l.size;
}

/* Replaces the matrix by its padded form. */
static mlff_status pad(loader *in, matrix *m, layout rows, layout cols)
{
  const int n_out = padded_length(rows), n_in = padded_length(cols);
  double *w = zeros((size_t) n_out * (size_t) n_in), *b = zeros((size_t) n_out);
  for (int r = 0; w && b && r < m->n_out; r++) {
    const size_t to = (size_t) position(rows, r) * (size_t) n_in, from = (size_t) r * (size_t) m->n_in;
    for (int c = 0; c < m->n_in; c++) w[to + (size_t) position(cols, c)] = m->w[from + (size_t) c];
    if (m->b) b[position(rows, r)] = m->b[r];
  }
  const mlff_status status = w && b ? MLFF_OK : no_memory(in);
  free_matrix(m);
  *m = (matrix){.n_out = n_out, .n_in = n_in, .w = w, .b = b};
  return status;
}

/* c = a b, biases included: a (b x + b.b) + a.b; frees both. */
static mlff_status merge(loader *in, matrix *a, matrix *b, matrix *c)
{
  *c = (matrix){.n_out = a->n_out, .n_in = b->n_in, .w = zeros((size_t) a->n_out * (size_t) b->n_in), .b = a->b};
  a->b = NULL;
  for (int r = 0; c->w && r < a->n_out; r++) {
    for (int k = 0; k < a->n_in; k++) {
      const double w = a->w[(size_t) r * (size_t) a->n_in + (size_t) k];
      c->b[r] += w * b->b[k];
      for (int q = 0; q < b->n_in; q++)
        c->w[(size_t) r * (size_t) b->n_in + (size_t) q] += w * b->w[(size_t) k * (size_t) b->n_in + (size_t) q];
    }
  }
  free_matrix(a);
  free_matrix(b);
  return c->w ? MLFF_OK : no_memory(in);
}

/* Folds NAME.weight and NAME.bias of a norm into the matrix after it. */
static mlff_status fold_norm(loader *in, matrix *m, const char *name)
{
  matrix norm;
  mlff_status status = read_matrix(in, m->n_in, 0, &norm, name);
  for (int r = 0; !status && r < m->n_out; r++) {
    for (int c = 0; c < m->n_in; c++) {
      double *w = &m->w[(size_t) r * (size_t) m->n_in + (size_t) c];
      m->b[r] += *w * norm.b[c];
      *w *= norm.w[c];
    }
  }
  free_matrix(&norm);
  return status;
}

static mlff_status pack(loader *in, const matrix *m, tensornet_linear *to)
{
  return mlff_linear_make(in->net->backend, &to->forward, &to->back, m->w, m->b, m->n_out, m->n_in, in->error);
}

/* Reads NAME, pads and packs it. norm: a norm before it, or NULL. */
static mlff_status read_linear(loader *in, const char *name, layout rows, layout cols, const char *norm,
                               tensornet_linear *to)
{
  matrix m;
  mlff_status status = read_matrix(in, rows.n, cols.n, &m, name);
  if (!status && norm) status = fold_norm(in, &m, norm);
  if (!status) status = pad(in, &m, rows, cols);
  if (!status) status = pack(in, &m, to);
  free_matrix(&m);
  return status;
}

static layout channels(const loader *in, int parts)
{
  return (layout){parts * in->net->n_channels, in->net->n_channels, in->net->n_features, 0};
}

/* Reads NAME.I, NAME.A and NAME.S. */
static mlff_status read_mix(loader *in, const char *name, tensornet_linear *to)
{
  for (int p = 0; p < TENSORNET_PARTS; p++) {
    const int n = in->net->n_channels;
    matrix m = {.n_out = n, .n_in = n};
    mlff_status status = mlff_modelfile_matrix(in->file, in->error, n, n, &m.w, "%s.%c", name, part_names[p]);
    if (!status) status = pad(in, &m, channels(in, 1), channels(in, 1));
    if (!status)
      status = mlff_linear_make(in->net->backend, &to[p].forward, &to[p].back, m.w, NULL, m.n_out, m.n_in, in->error);
    free_matrix(&m);
    MLFF_TRY(status);
  }
  return MLFF_OK;
}

/* ---- radial functions -------------------------------------------------------------------------------------------- */

/* Smooth Bessel functions of sin(f_m r)/r, f_m = (m + 1) pi/cutoff: basis_k = sum_m smooth[k][m] sin(f_m r)/r. */
static void smooth_bessel(int n, double cutoff, double *smooth)
{
  const double pi = 3.14159265358979323846;
  double d = 1.0;
  for (int k = 0; k < n; k++) {
    const double k0 = k, e = k0 * k0 * (k0 + 2) * (k0 + 2) / (4 * pow(k0 + 1, 4) + 1), before = d;
    const double f = (k % 2 ? -1 : 1) * sqrt(2.0) * pi / pow(cutoff, 1.5) * (k0 + 1) * (k0 + 2) /
                     sqrt((k0 + 1) * (k0 + 1) + (k0 + 2) * (k0 + 2));
    double *row = smooth + k * (n + 1);
    d = k ? 1 - e / before : 1.0;
    row[k] = row[k + 1] = f;
    for (int m = 0; k && m <= n; m++) row[m] += sqrt(e / before) * row[m - n - 1];
    for (int m = 0; m <= n; m++) row[m] /= sqrt(d);
  }
  for (int k = 0; k < n; k++)
    for (int m = 0; m <= n; m++) smooth[k * (n + 1) + m] *= cutoff / ((m + 1) * pi);
}

static mlff_status read_basis(loader *in)
{
  tensornet_net *net = in->net;
  const int n = net->network.n_basis = in->is_smooth ? in->n_file + 1 : in->n_file, n_terms = tensornet_padded(n + 1);
  const double cutoff = net->network.cutoff = in->head->cutoff;
  net->network.kind = in->is_smooth ? MLFF_PAINN_BESSEL : MLFF_PAINN_GAUSSIAN;
  net->moments = (mlff_painn_basis){.kind = net->network.kind, .n = n, .n_terms = n_terms, .cutoff = cutoff};
  net->n_moment_rows = n + 1;
  if (!in->is_smooth) {
    MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n, 0, &in->first, "radial.centers"));
    if (!(in->second = zeros((size_t) n))) return no_memory(in);
    for (int k = 0; k < n; k++) in->second[k] = 2 * in->exponent;
  } else {
    in->first = zeros((size_t) n);
    in->smooth = zeros((size_t) in->n_file * (size_t) n);
    if (!in->first || !in->smooth) return no_memory(in);
    for (int k = 0; k < n; k++) in->first[k] = 3.14159265358979323846 * (k + 1) / cutoff;
    smooth_bessel(in->n_file, cutoff, in->smooth);
  }
  double wide[MLFF_TENSORNET_BASIS + MLFF_PAINN_BLOCK] = {0};
  memcpy(wide, in->first, (size_t) n * sizeof *wide);
  MLFF_TRY(mlff_buf_fill(net->backend, &net->moments.first, wide, n_terms, in->error));
  MLFF_TRY(mlff_buf_fill(net->backend, &net->first, wide, n, in->error));
  if (!in->second) return MLFF_OK;
  memcpy(wide, in->second, (size_t) n * sizeof *wide);
  MLFF_TRY(mlff_buf_fill(net->backend, &net->moments.second, wide, n_terms, in->error));
  return mlff_buf_fill(net->backend, &net->second, wide, n, in->error);
}

/* Reads NAME, a matrix of the radial functions of the file, as one of those of the network. */
static mlff_status read_radial(loader *in, int n_out, const char *name, matrix *m)
{
  MLFF_TRY(read_matrix(in, n_out, in->n_file, m, name));
  if (!in->is_smooth) return MLFF_OK;
  const int n = in->n_file + 1;
  double *w = zeros((size_t) n_out * (size_t) n);
  if (!w) return no_memory(in);
  for (int r = 0; r < n_out; r++)
    for (int k = 0; k < in->n_file; k++)
      for (int c = 0; c < n; c++) w[r * n + c] += m->w[r * in->n_file + k] * in->smooth[k * n + c];
  free(m->w);
  m->w = w;
  m->n_in = n;
  return MLFF_OK;
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

/* y[s] = W em[s] + b of the slots in use, [n_slots][n_channels]; b: NULL = none */
static mlff_status apply_to_species(loader *in, const double *embedding, const char *name, const double *b, double **y)
{
  const int n = in->net->n_channels;
  double *w = NULL;
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n, n, &w, "%s", name));
  *y = zeros((size_t) in->net->n_slots * (size_t) n);
  for (int s = 0; *y && s < in->head->n_elements; s++) {
    for (int r = 0; in->slot[s] >= 0 && r < n; r++) {
      double *out = *y + (size_t) in->slot[s] * (size_t) n + (size_t) r;
      *out = b ? b[r] : 0.0;
      for (int c = 0; c < n; c++)
        *out += w[(size_t) r * (size_t) n + (size_t) c] * embedding[(size_t) s * (size_t) n + (size_t) c];
    }
  }
  free(w);
  return *y ? MLFF_OK : no_memory(in);
}

/* The matrix from moments of part p to v, with the neighbors' part of pairs, and to u, without it. */
static mlff_status pack_moments(loader *in, int p, const double *neighbor, tensornet_linear *to)
{
  tensornet_net *net = in->net;
  const int n = net->n_channels, f = net->n_features, n_rows = net->n_moment_rows, n_used = net->n_slots * n_rows;
  const int ld = (int) net->moments_ld;
  char name[64];
  matrix m = {.w = NULL};
  snprintf(name, sizeof name, "embedding.radial.%c", part_names[p]);
  double *narrow = zeros((size_t) (2 * f) * (size_t) n_used), *wide = zeros((size_t) (2 * f) * (size_t) ld);
  mlff_status status = narrow && wide ? read_radial(in, n, name, &m) : no_memory(in);
  for (int c = 0; !status && c < n; c++) {
    for (int s = 0; s < net->n_slots; s++) {
      for (int k = 0; k < n_rows; k++) {
        const double w = k < m.n_in ? m.w[c * m.n_in + k] : m.b[c];
        const int at = s * n_rows + k;
        narrow[c * n_used + at] = wide[c * ld + at] = neighbor[s * n + c] * w;
        narrow[(f + c) * n_used + at] = wide[(f + c) * ld + at] = w;
      }
    }
  }
  if (!status) status = mlff_linear_make(net->backend, &to->forward, NULL, narrow, NULL, 2 * f, n_used, in->error);
  if (!status) status = net->backend->ops->linear_pack(net->backend, &to->back, wide, NULL, 2 * f, ld, 1, in->error);
  free_matrix(&m);
  free(narrow);
  free(wide);
  return status;
}

static mlff_status read_pairs(loader *in)
{
  tensornet_net *net = in->net;
  const int n = net->n_channels, f = net->n_features;
  double *embedding = NULL, *bias = NULL, *center = NULL, *neighbor = NULL;
  double *z = zeros((size_t) net->n_slots * (size_t) f);
  mlff_status status = z ? MLFF_OK : no_memory(in);
  if (!status)
    status = mlff_modelfile_matrix(in->file, in->error, in->head->n_elements, n, &embedding, "embedding.species");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n, 0, &bias, "embedding.pair.bias");
  if (!status) status = apply_to_species(in, embedding, "embedding.pair.center", bias, &center);
  if (!status) status = apply_to_species(in, embedding, "embedding.pair.neighbor", NULL, &neighbor);
  for (int s = 0; !status && s < net->n_slots; s++)
    memcpy(z + (size_t) s * (size_t) f, center + (size_t) s * (size_t) n, (size_t) n * sizeof *z);
  if (!status) status = mlff_buf_fill(net->backend, &net->z, z, (int64_t) net->n_slots * f, in->error);
  for (int p = 0; !status && p < TENSORNET_PARTS; p++) status = pack_moments(in, p, neighbor, &net->embed[p]);
  double *const arrays[] = {embedding, bias, center, neighbor, z};
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) free(arrays[k]);
  return status;
}

static mlff_status read_embedding(loader *in)
{
  tensornet_net *net = in->net;
  const int n = net->n_channels;
  const size_t bytes = (size_t) in->head->n_elements * sizeof *in->slot;
  if (!(in->slot = malloc(bytes))) return no_memory(in);
  for (int s = 0; s < in->head->n_elements; s++)
    in->slot[s] = s < in->use->n_species && in->use->use[s] ? net->n_slots++ : -1;
  MLFF_TRY(mlff_buf_reserve(net->backend, &net->slot, bytes, in->error));
  MLFF_TRY(net->backend->ops->upload(net->backend, net->slot.data, in->slot, bytes, in->error));
  net->moments_ld = tensornet_padded(net->n_slots * net->n_moment_rows + net->moments.n_terms);
  MLFF_TRY(read_pairs(in));
  net->n_hidden = tensornet_padded(2 * n);
  const layout hidden = {2 * n, 2 * n, net->n_hidden, 0}, scalars = {3 * n, n, net->n_features, 1};
  MLFF_TRY(read_linear(in, "embedding.scalar.0", hidden, channels(in, 1), "embedding.norm", &net->scalar[0]));
  MLFF_TRY(read_linear(in, "embedding.scalar.1", scalars, hidden, NULL, &net->scalar[1]));
  return read_mix(in, "embedding.mix", net->mix);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* [n_out][n_in] to [n_in][n_out] */
static double *transposed(const matrix *m)
{
  double *t = zeros((size_t) m->n_out * (size_t) m->n_in);
  for (int r = 0; t && r < m->n_out; r++)
    for (int c = 0; c < m->n_in; c++)
      t[(size_t) c * (size_t) m->n_out + (size_t) r] = m->w[(size_t) r * (size_t) m->n_in + (size_t) c];
  return t;
}

/* Reads the radial network of layer t. w: transposed weights; both are the caller's to free. */
static mlff_status read_network(loader *in, int t, double **w, double **b)
{
  tensornet_net *net = in->net;
  const int n = net->n_channels;
  const layout layouts[] = {{n, n, n, 0}, {2 * n, 2 * n, 2 * n, 0}, {3 * n, n, net->n_features, 1}};
  for (int k = 0; k < TENSORNET_LAYERS; k++) {
    matrix m = {.w = NULL};
    char name[64];
    snprintf(name, sizeof name, "layers.%d.radial.%d", t, k);
    mlff_status status =
        k == 0 ? read_radial(in, layouts[0].n, name, &m) : read_matrix(in, layouts[k].n, layouts[k - 1].n, &m, name);
    const layout plain = {m.n_in, m.n_in, m.n_in, 0};
    if (!status) status = pad(in, &m, layouts[k], plain);
    if (!status && !(w[k] = transposed(&m))) status = no_memory(in);
    net->network.width[k] = padded_length(layouts[k]);
    b[k] = m.b;
    m.b = NULL;
    free_matrix(&m);
    MLFF_TRY(status);
  }
  return MLFF_OK;
}

/* The network of a layer with arrays on the host. */
static mlff_tensornet_network host_network(const loader *in, double *const *w, double *const *b)
{
  mlff_tensornet_network network = in->net->network;
  network.first = in->first;
  network.second = in->second;
  for (int k = 0; k < TENSORNET_LAYERS; k++) {
    network.weight[k] = w[k];
    network.bias[k] = b[k];
  }
  return network;
}

static mlff_status fill_network(loader *in, tensornet_layer *layer, double *const *w, double *const *b)
{
  const mlff_tensornet_network *net = &in->net->network;
  for (int k = 0, n_in = net->n_basis; k < TENSORNET_LAYERS; n_in = net->width[k++]) {
    const int64_t n = (int64_t) n_in * net->width[k];
    MLFF_TRY(mlff_buf_fill(in->net->backend, &layer->weight[k], w[k], n, in->error));
    MLFF_TRY(mlff_buf_fill(in->net->backend, &layer->bias[k], b[k], net->width[k], in->error));
  }
  return MLFF_OK;
}

static mlff_status fill_table(loader *in, tensornet_layer *layer, const mlff_tensornet_network *network)
{
  const int n = in->net->table.n;
  const int64_t size = (int64_t) (n + 3) * network->width[TENSORNET_LAYERS - 1];
  double *rows = zeros((size_t) size);
  if (!rows) return no_memory(in);
  tensornet_table_rows(network, n, rows);
  const mlff_status status = mlff_buf_fill(in->net->backend, &layer->rows, rows, size, in->error);
  free(rows);
  return status;
}

/* Radial networks of all layers: themselves, or tables with the intervals that the most curved one needs. */
static mlff_status read_networks(loader *in)
{
  tensornet_net *net = in->net;
  double *w[TENSORNET_MAX_LAYERS][TENSORNET_LAYERS] = {{0}}, *b[TENSORNET_MAX_LAYERS][TENSORNET_LAYERS] = {{0}};
  mlff_status status = MLFF_OK;
  net->is_exact = net->backend->real_size == sizeof(double) && !in->use->radial_intervals;
  int n_intervals = in->use->radial_intervals;
  for (int t = 0; !status && t < net->n_layers; t++) {
    status = read_network(in, t, w[t], b[t]);
    const mlff_tensornet_network network = host_network(in, w[t], b[t]);
    const int wanted = status || net->is_exact || in->use->radial_intervals ? 0 : tensornet_table_intervals(&network);
    if (wanted > n_intervals) n_intervals = wanted;
  }
  net->table = (mlff_painn_basis){.kind = MLFF_PAINN_CUBIC,
                                  .n = n_intervals ? n_intervals : 64,
                                  .n_terms = 4,
                                  .cutoff = in->head->cutoff};
  for (int t = 0; t < net->n_layers; t++) {
    const mlff_tensornet_network network = host_network(in, w[t], b[t]);
    if (!status && net->is_exact) status = fill_network(in, &net->layers[t], w[t], b[t]);
    if (!status && !net->is_exact) status = fill_table(in, &net->layers[t], &network);
    for (int k = 0; k < TENSORNET_LAYERS; k++) {
      free(w[t][k]);
      free(b[t][k]);
    }
  }
  return status;
}

static mlff_status read_layer(loader *in, int t)
{
  char name[64];
  snprintf(name, sizeof name, "layers.%d.mix_1", t);
  MLFF_TRY(read_mix(in, name, in->net->layers[t].mix_1));
  snprintf(name, sizeof name, "layers.%d.mix_2", t);
  return read_mix(in, name, in->net->layers[t].mix_2);
}

/* ---- readout ----------------------------------------------------------------------------------------------------- */

/* The first layer of both branches, one below the other, with out.linear and out.norm. */
static mlff_status read_first(loader *in)
{
  const int n = in->net->n_channels;
  matrix first[2] = {{.w = NULL}}, linear = {.w = NULL}, both = {.n_out = 2 * n, .n_in = n}, merged = {.w = NULL};
  mlff_status status = read_matrix(in, n, 3 * n, &linear, "out.linear");
  if (!status) status = fold_norm(in, &linear, "out.norm");
  if (!status) status = read_matrix(in, n, n, &first[0], "readout.value.0");
  if (!status) status = read_matrix(in, n, n, &first[1], "readout.gate.0");
  both.w = zeros(2 * (size_t) n * (size_t) n);
  both.b = zeros(2 * (size_t) n);
  if (!status && !(both.w && both.b)) status = no_memory(in);
  for (int k = 0; !status && k < 2; k++) {
    memcpy(both.w + (size_t) k * (size_t) n * (size_t) n, first[k].w, (size_t) n * (size_t) n * sizeof *both.w);
    memcpy(both.b + (size_t) k * (size_t) n, first[k].b, (size_t) n * sizeof *both.b);
  }
  if (!status) status = merge(in, &both, &linear, &merged);
  if (!status) status = pad(in, &merged, channels(in, 2), channels(in, 3));
  if (!status) status = pack(in, &merged, &in->net->readout);
  matrix *const all[] = {&first[0], &first[1], &linear, &both, &merged};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) free_matrix(all[k]);
  return status;
}

static mlff_status read_readout(loader *in)
{
  tensornet_net *net = in->net;
  double wide[2 * MLFF_TENSORNET_WIDTH] = {0};
  char name[64];
  MLFF_TRY(read_first(in));
  for (int branch = 0; branch < 2; branch++) {
    for (int k = 0; k < 2; k++) {
      snprintf(name, sizeof name, "readout.%s.%d", branch_names[branch], k + 1);
      MLFF_TRY(read_linear(in, name, channels(in, 1), channels(in, 1), NULL, &net->branch[k][branch]));
    }
    matrix last;
    snprintf(name, sizeof name, "readout.%s.3", branch_names[branch]);
    const mlff_status status = read_matrix(in, 1, net->n_channels, &last, name);
    for (int c = 0; !status && c < net->n_channels; c++) wide[branch * net->n_features + c] = last.w[c];
    if (!status) net->bias[branch] = last.b[0];
    free_matrix(&last);
    MLFF_TRY(status);
  }
  return mlff_buf_fill(net->backend, &net->readout_weight, wide, 2 * net->n_features, in->error);
}

/* ---- the block of the file --------------------------------------------------------------------------------------- */

static mlff_status read_block(loader *in)
{
  static const char *const kinds[] = {"bessel_smooth", "gaussian", NULL};
  static const char *const activations[] = {"silu", "tanh", "sigmoid", "softplus", NULL};
  static const char *const groups[] = {"o3", "so3", NULL}, *const sources[] = {"neighbor", "center", NULL};
  tensornet_net *net = in->net;
  const mlff_yaml *block = NULL, *basis = NULL;
  int kind = 0, act = 0, group = 0, source = 0;
  MLFF_TRY(mlff_yaml_map(in->file, mlff_modelfile_root(in->file), "tensornet", &block, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_features", 1, MLFF_TENSORNET_WIDTH / 3, &net->n_channels, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_layers", 1, TENSORNET_MAX_LAYERS, &net->n_layers, in->error));
  MLFF_TRY(mlff_yaml_map(in->file, block, "radial_basis", &basis, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, basis, "kind", kinds, &kind, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, basis, "n", 1, kind ? MLFF_TENSORNET_BASIS : 32, &in->n_file, in->error));
  if (kind) MLFF_TRY(mlff_yaml_double(in->file, basis, "exponent", 1e-6, 1e6, &in->exponent, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, block, "activation", activations, &act, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, block, "group", groups, &group, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, block, "message_from", sources, &source, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, block, "norm_epsilon", 1e-30, 1.0, &net->epsilon, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, block, "energy_scale", -1e6, 1e6, &net->energy_scale, in->error));
  in->is_smooth = kind == 0;
  net->is_o3 = group == 0;
  net->is_local = source == 1;
  net->network.act = (mlff_tensornet_act) act;
  net->n_features = tensornet_padded(net->n_channels);
  return MLFF_OK;
}

static mlff_status read_all(loader *in)
{
  tensornet_net *net = in->net;
  MLFF_TRY(read_block(in));
  if (!(net->layers = calloc((size_t) net->n_layers, sizeof *net->layers))) return no_memory(in);
  MLFF_TRY(read_basis(in));
  MLFF_TRY(read_embedding(in));
  MLFF_TRY(read_networks(in));
  for (int t = 0; t < net->n_layers; t++) MLFF_TRY(read_layer(in, t));
  return read_readout(in);
}

mlff_status tensornet_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                             mlff_error *error)
{
  loader in = {.file = file, .use = use, .head = mlff_modelfile_get_head(file), .error = error};
  if (!(in.net = calloc(1, sizeof *in.net))) return no_memory(&in);
  in.net->backend = backend;
  const mlff_status status = read_all(&in);
  free(in.first);
  free(in.second);
  free(in.smooth);
  free(in.slot);
  if (status)
    tensornet_destroy(in.net);
  else
    *net = in.net;
  return status;
}

static void release_linears(mlff_backend *backend, tensornet_linear *linears, int n)
{
  for (int k = 0; k < n; k++) {
    mlff_linear_release(backend, &linears[k].forward);
    mlff_linear_release(backend, &linears[k].back);
  }
}

static void release_bufs(mlff_backend *backend, mlff_buf *const *bufs, size_t n)
{
  for (size_t k = 0; k < n; k++) mlff_buf_release(backend, bufs[k]);
}

static void release_layer(mlff_backend *backend, tensornet_layer *layer)
{
  mlff_buf *const bufs[] = {&layer->rows, &layer->x, &layer->inverse, &layer->y, &layer->m, &layer->d, &layer->q_sums};
  release_bufs(backend, bufs, sizeof bufs / sizeof *bufs);
  for (int k = 0; k < TENSORNET_LAYERS; k++) {
    mlff_buf_release(backend, &layer->weight[k]);
    mlff_buf_release(backend, &layer->bias[k]);
  }
  release_linears(backend, layer->mix_1, TENSORNET_PARTS);
  release_linears(backend, layer->mix_2, TENSORNET_PARTS);
}

void tensornet_destroy(void *opaque)
{
  tensornet_net *net = opaque;
  if (!net) return;
  mlff_backend *backend = net->backend;
  for (int t = 0; net->layers && t < net->n_layers; t++) release_layer(backend, &net->layers[t]);
  free(net->layers);
  release_linears(backend, net->embed, TENSORNET_PARTS);
  release_linears(backend, net->mix, TENSORNET_PARTS);
  release_linears(backend, net->scalar, 2);
  release_linears(backend, &net->readout, 1);
  release_linears(backend, net->branch[0], 2);
  release_linears(backend, net->branch[1], 2);
  mlff_buf *const bufs[] = {&net->first,
                            &net->second,
                            &net->moments.first,
                            &net->moments.second,
                            &net->slot,
                            &net->z,
                            &net->readout_weight,
                            &net->radial.line,
                            &net->radial.terms,
                            &net->terms,
                            &net->node_energy,
                            &net->edge_grad,
                            &net->t,
                            &net->t_norm,
                            &net->t_inverse,
                            &net->mixed,
                            &net->s,
                            &net->slope_0,
                            &net->slope_1,
                            &net->moments_array,
                            &net->vu,
                            &net->hidden,
                            &net->wide,
                            &net->r,
                            &net->last,
                            &net->invariants,
                            &net->last_inverse,
                            &net->h[0],
                            &net->h[1],
                            &net->h_slope[0],
                            &net->h_slope[1],
                            &net->h_slope[2],
                            &net->grad,
                            &net->grad_y,
                            &net->grad_m[0],
                            &net->grad_m[1]};
  release_bufs(backend, bufs, sizeof bufs / sizeof *bufs);
  free(net);
}
