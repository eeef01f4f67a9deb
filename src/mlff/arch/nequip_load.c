/* nequip_load.c: reads the `nequip` block and tensors of a model file and prepares them for nequip.c.
 *
 * Everything is done in double on the host. Channels are padded with zeros to a multiple of MLFF_NEQUIP_BLOCK; what
 * divides (square roots of the number of inputs, of neighbours) is folded into matrices. Radial weights become matrices
 * of rows (nequip_table.c): on backends of doubles those of the networks themselves, else a spline through them.
 * Layer 0 sees only the species of a neighbour, so its linear maps before and after the message are folded into the
 * rows, one matrix for each species in use.
 */
#include "nequip.h"

#include "../backend/nequip_cg.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATHS = 34, MAX_COLUMNS = MAX_PATHS * NEQUIP_MAX_CHANNELS };

/* Padded positions of a dimension: source[k] is the index in the file, or -1 where it is padding. */
typedef struct side {
  int n, n_file;
  int source[MAX_COLUMNS];
} side;

typedef struct loader {
  nequip_net *net;
  const mlff_modelfile *file;
  const mlff_species_use *use;
  const mlff_modelfile_head *head;
  mlff_error *error;
  int is_one_hot, is_trained, is_scaled, has_norm; /* what the block says */
  const double *divisor;                           /* [n_layers] of messages */
  int n_first;                                     /* channels that come into layer 0 */
  int n_readout;
  const double *readout_width;
  int32_t *slot;                     /* [n_elements] */
  double *frequency;                 /* [n_basis] */
  double *hidden[NEQUIP_MAX_HIDDEN]; /* of the layer at hand */
  mlff_nequip_path paths[MAX_PATHS]; /* the same */
  int n_paths;
  side rows, cols, scalars, orders[NEQUIP_ORDERS], columns, sums[NEQUIP_ORDERS]; /* the same; the first two: scratch */
} loader;

static mlff_status out_of_memory(loader *in)
{
  return mlff_fail(in->error, MLFF_E_NOMEM, "out of memory while loading a nequip model");
}

static double *zeros(size_t n)
{
  return calloc(n ? n : 1, sizeof(double));
}

/* Tensor [n_rows][n_cols] (n_cols = 0: a vector) named by a printf-style format. */
static mlff_status read_tensor(loader *in, int n_rows, int n_cols, double **values, const char *format, ...)
{
  char name[128];
  const int64_t shape[2] = {n_rows, n_cols};
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  return mlff_modelfile_tensor(in->file, name, n_cols ? 2 : 1, shape, values, in->error);
}

static mlff_status upload(loader *in, mlff_buf *buf, const double *values, int64_t n)
{
  mlff_backend *backend = in->net->backend;
  MLFF_TRY(mlff_buf_reserve(backend, buf, (size_t) n * backend->real_size, in->error));
  return backend->ops->upload_reals(backend, buf->data, values, n, in->error);
}

static mlff_status upload_bytes(loader *in, mlff_buf *buf, const void *values, size_t bytes)
{
  mlff_backend *backend = in->net->backend;
  MLFF_TRY(mlff_buf_reserve(backend, buf, bytes, in->error));
  return backend->ops->upload(backend, buf->data, values, bytes, in->error);
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */

static void side_start(side *s)
{
  s->n = s->n_file = 0;
}

/* Appends n numbers and what pads them. */
static void side_add(side *s, int n)
{
  for (int k = 0; k < nequip_padded(n); k++) s->source[s->n++] = k < n ? s->n_file + k : -1;
  s->n_file += n;
}

/* out [rows->n][cols->n] = scale w, padded with zeros. */
static double *pad_matrix(const double *w, const side *rows, const side *cols, double scale)
{
  double *out = zeros((size_t) rows->n * (size_t) cols->n);
  for (int r = 0; out && r < rows->n; r++) {
    for (int c = 0; c < cols->n; c++) {
      if (rows->source[r] >= 0 && cols->source[c] >= 0)
        out[(size_t) r * (size_t) cols->n + (size_t) c] =
            scale * w[(size_t) rows->source[r] * (size_t) cols->n_file + (size_t) cols->source[c]];
    }
  }
  return out;
}

/* Reads layers.T.NAME.lL and packs scale times it, both ways. */
static mlff_status read_map(loader *in, int t, const char *name, int l, const side *rows, const side *cols,
                            double scale, nequip_map *map)
{
  double *w = NULL, *padded = NULL;
  mlff_status status = read_tensor(in, rows->n_file, cols->n_file, &w, "layers.%d.%s.l%d", t, name, l);
  if (!status && !(padded = pad_matrix(w, rows, cols, scale))) status = out_of_memory(in);
  if (!status)
    status =
        mlff_linear_make(in->net->backend, &map->forward[l], &map->back[l], padded, NULL, rows->n, cols->n, in->error);
  if (!status && map->n <= l) map->n = l + 1;
  free(w);
  free(padded);
  return status;
}

/* ---- shapes of a layer ------------------------------------------------------------------------------------------- */

static int is_last(const loader *in, int t)
{
  return t == in->net->n_layers - 1;
}

static mlff_nequip_row make_row(int n_orders, const int *n)
{
  mlff_nequip_row row = {.n_orders = n_orders};
  for (int l = 0; l < n_orders; l++) {
    row.n[l] = n[l];
    row.at[l] = (int) row.ld;
    row.ld += (2 * l + 1) * n[l];
  }
  return row;
}

/* Paths of layer t >= 1, in the order of the file: l3 outermost, then l1, then l2; and what follows from them. */
static void list_paths(loader *in, int t)
{
  const nequip_net *net = in->net;
  in->n_paths = 0;
  side_start(&in->columns);
  for (int l3 = 0; l3 < (is_last(in, t) ? 1 : net->n_orders); l3++) {
    side_start(&in->sums[l3]);
    for (int l1 = 0; l1 < net->n_orders; l1++) {
      for (int l2 = abs(l1 - l3); l2 <= l1 + l3 && l2 <= net->lmax; l2++) {
        if (net->is_even && (l1 + l2 + l3) % 2) continue;
        in->paths[in->n_paths++] = (mlff_nequip_path){.l1 = l1,
                                                      .l2 = l2,
                                                      .l3 = l3,
                                                      .n = nequip_padded(net->n_channels[l1]),
                                                      .column = in->columns.n,
                                                      .out = in->sums[l3].n};
        side_add(&in->columns, net->n_channels[l1]);
        side_add(&in->sums[l3], net->n_channels[l1]);
      }
    }
  }
}

/* Rows before and after the gate of layer t, and of the sums of its message; in->scalars: order 0 before the gate. */
static mlff_status shape_layer(loader *in, int t)
{
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  const int n_orders = is_last(in, t) ? 1 : net->n_orders;
  int before[NEQUIP_ORDERS], after[NEQUIP_ORDERS], sums[NEQUIP_ORDERS];
  side_start(&in->scalars);
  for (int l = 0; l < n_orders; l++) side_add(&in->scalars, net->n_channels[l]);
  list_paths(in, t);
  for (int l = 0; l < n_orders; l++) {
    after[l] = nequip_padded(net->n_channels[l]);
    before[l] = l ? after[l] : in->scalars.n;
    sums[l] = in->sums[l].n;
  }
  layer->x = make_row(n_orders, after);
  layer->z = make_row(n_orders, before);
  layer->sums = make_row(n_orders, sums);
  for (int k = 0; k < in->n_paths; k++) in->paths[k].out += layer->sums.at[in->paths[k].l3];
  if (layer->z.ld <= NEQUIP_MAX_WIDTH) return MLFF_OK;
  return mlff_fail(in->error, MLFF_E_UNSUPPORTED,
                   "nequip: %lld numbers of an atom before a gate, at most %d are possible", (long long) layer->z.ld,
                   NEQUIP_MAX_WIDTH);
}

/* ---- couplings --------------------------------------------------------------------------------------------------- */

static const mlff_cg_entry *find_coefficients(int l1, int l2, int l3, int *n)
{
#define ENTRY(a, b, c, count) {a, b, c, count, mlff_cg_##a##b##c},
  static const struct {
    int l1, l2, l3, n;
    const mlff_cg_entry *entries;
  } all[] = {MLFF_CG_TRIPLES(ENTRY)};
#undef ENTRY
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    if (all[k].l1 != l1 || all[k].l2 != l2 || all[k].l3 != l3) continue;
    *n = all[k].n;
    return all[k].entries;
  }
  *n = 0;
  return NULL;
}

/* Places of the paths in the couplings of an edge, and the matrices from harmonics to them. */
static mlff_status make_couplings(loader *in, nequip_layer *layer)
{
  int64_t n = 0;
  int begin = 0;
  for (int l2 = 1; l2 < NEQUIP_ORDERS; l2++) {
    int end = begin;
    for (int k = 0; k < in->n_paths; k++) {
      if (in->paths[k].l2 != l2) continue;
      in->paths[k].coupling = end;
      end += (2 * in->paths[k].l1 + 1) * (2 * in->paths[k].l3 + 1);
    }
    layer->n_coupling[l2] = nequip_padded(end - begin);
    n += (int64_t) (2 * l2 + 1) * layer->n_coupling[l2];
    begin += layer->n_coupling[l2];
  }
  double *values = zeros((size_t) n), *part = values;
  if (!values) return out_of_memory(in);
  begin = 0;
  for (int l2 = 1; l2 < NEQUIP_ORDERS; l2++) {
    for (int k = 0; k < in->n_paths; k++) {
      const mlff_nequip_path *p = &in->paths[k];
      int n_entries;
      const mlff_cg_entry *cg = find_coefficients(p->l1, p->l2, p->l3, &n_entries);
      for (int q = 0; p->l2 == l2 && q < n_entries; q++)
        part[cg[q].j * layer->n_coupling[l2] + p->coupling - begin + cg[q].i * (2 * p->l3 + 1) + cg[q].k] = cg[q].c;
    }
    part += (2 * l2 + 1) * layer->n_coupling[l2];
    begin += layer->n_coupling[l2];
  }
  const mlff_status status = upload(in, &layer->coupling, values, n);
  free(values);
  MLFF_TRY(status);
  layer->n_paths = in->n_paths;
  return upload_bytes(in, &layer->paths, in->paths, (size_t) in->n_paths * sizeof *in->paths);
}

/* ---- radial networks --------------------------------------------------------------------------------------------- */

static double fan_in(const loader *in, int n)
{
  return in->is_scaled ? 1.0 / sqrt(n) : 1.0;
}

static void free_hidden(loader *in)
{
  for (int k = 0; k < NEQUIP_MAX_HIDDEN; k++) {
    free(in->hidden[k]);
    in->hidden[k] = NULL;
  }
}

/* The matrices of layer t but the last one, which goes to *last [n_weights][last hidden layer]. */
static mlff_status read_network(loader *in, int t, int n_weights, double **last)
{
  const mlff_nequip_terms_args *a = &in->net->network;
  int n_in = a->basis.n;
  free_hidden(in);
  for (int k = 0; k <= a->n_hidden; k++) {
    const int n_out = k < a->n_hidden ? a->width[k] : n_weights;
    double **w = k < a->n_hidden ? &in->hidden[k] : last;
    MLFF_TRY(read_tensor(in, n_out, n_in, w, "layers.%d.radial_mlp.%d", t, k));
    for (size_t q = 0; q < (size_t) n_out * (size_t) n_in; q++) (*w)[q] *= fan_in(in, n_in);
    if (k < a->n_hidden && in->net->is_exact)
      MLFF_TRY(upload(in, &in->net->layers[t].hidden[k], *w, (int64_t) n_out * n_in));
    n_in = n_out;
  }
  return MLFF_OK;
}

/* R of a matrix [n][last hidden layer], n columns of it, at `at` of the layer's rows. */
static void make_rows(loader *in, const double *matrix, int n, double *rows)
{
  mlff_nequip_terms_args a = in->net->network;
  a.frequency = in->frequency;
  for (int k = 0; k < a.n_hidden; k++) a.weight[k] = in->hidden[k];
  nequip_rows(&a, in->net->is_exact ? NULL : &in->net->table, matrix, n, rows);
}

/* ---- layer 0 ----------------------------------------------------------------------------------------------------- */

typedef struct first_tensors {
  double *embedding, *linear_1, *linear_2[NEQUIP_ORDERS], *skip, *last;
  double *x, *y;  /* [n_first] features of a species, and linear_1 of them */
  double *matrix; /* [n_weights][last hidden layer] */
} first_tensors;

static mlff_status read_first(loader *in, first_tensors *f)
{
  const nequip_net *net = in->net;
  const nequip_layer *layer = &net->layers[0];
  const int n = in->n_first, width = net->network.width[net->network.n_hidden - 1];
  if (!in->is_one_hot) MLFF_TRY(read_tensor(in, n, in->head->n_elements, &f->embedding, "embedding"));
  MLFF_TRY(read_tensor(in, n, n, &f->linear_1, "layers.0.linear_1.l0"));
  for (int l = 0; l < layer->z.n_orders; l++)
    MLFF_TRY(
        read_tensor(in, l ? net->n_channels[l] : in->scalars.n_file, n, &f->linear_2[l], "layers.0.linear_2.l%d", l));
  MLFF_TRY(read_tensor(in, in->scalars.n_file, n, &f->skip, "layers.0.skip.l0"));
  MLFF_TRY(read_network(in, 0, layer->z.n_orders * n, &f->last));
  f->x = zeros((size_t) n);
  f->y = zeros((size_t) n);
  f->matrix = zeros((size_t) net->layers[0].n_weights * (size_t) width);
  return f->x && f->y && f->matrix ? MLFF_OK : out_of_memory(in);
}

/* out [n] = scale w [n][n_in] x */
static void apply(const double *w, int n, int n_in, double scale, const double *x, double *out)
{
  for (int o = 0; o < n; o++) {
    out[o] = 0.0;
    for (int c = 0; c < n_in; c++) out[o] += scale * w[(size_t) o * (size_t) n_in + (size_t) c] * x[c];
  }
}

/* Features that come into layer 0 and linear_1 of them, for species s. */
static void first_features(loader *in, first_tensors *f, int s)
{
  const int n = in->n_first, n_elements = in->head->n_elements;
  for (int c = 0; c < n; c++)
    f->x[c] = in->is_one_hot ? c == s : f->embedding[(size_t) c * (size_t) n_elements + (size_t) s] / sqrt(n_elements);
  apply(f->linear_1, n, n, 1 / sqrt(n), f->x, f->y);
}

/* Radial weights of species s, straight to the channels of z: sum_c linear_2[o][c] y[c] last[column + c]. */
static void fold_first(loader *in, first_tensors *f)
{
  const nequip_net *net = in->net;
  const nequip_layer *layer = &net->layers[0];
  const int n = in->n_first, width = net->network.width[net->network.n_hidden - 1];
  const double scale = 1 / (sqrt(n) * in->divisor[0]);
  double *row = f->matrix;
  memset(row, 0, (size_t) layer->n_weights * (size_t) width * sizeof *row);
  for (int l = 0; l < layer->z.n_orders; l++) {
    side_start(&in->rows);
    side_add(&in->rows, net->n_channels[l]);
    const side *to = l ? &in->rows : &in->scalars;
    for (int o = 0; o < to->n; o++, row += width) {
      if (to->source[o] < 0) continue;
      for (int c = 0; c < n; c++) {
        const double factor = scale * f->linear_2[l][(size_t) to->source[o] * (size_t) n + (size_t) c] * f->y[c];
        const double *last = f->last + (size_t) (l * n + c) * (size_t) width;
        for (int h = 0; h < width; h++) row[h] += factor * last[h];
      }
    }
  }
}

static mlff_status make_first(loader *in, first_tensors *f)
{
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[0];
  const size_t n_rows = (size_t) net->n_rows * (size_t) layer->n_weights, n_scalars = (size_t) layer->z.n[0];
  double *rows = zeros((size_t) net->n_slots * n_rows), *bias = zeros((size_t) net->n_slots * n_scalars),
         *scalars = zeros((size_t) in->scalars.n_file);
  mlff_status status = rows && bias && scalars ? MLFF_OK : out_of_memory(in);
  for (int s = 0; !status && s < in->head->n_elements; s++) {
    if (in->slot[s] < 0) continue;
    first_features(in, f, s);
    fold_first(in, f);
    make_rows(in, f->matrix, layer->n_weights, rows + (size_t) in->slot[s] * n_rows);
    apply(f->skip, in->scalars.n_file, in->n_first, 1 / sqrt(in->n_first), f->x, scalars);
    for (size_t k = 0; k < n_scalars; k++)
      if (in->scalars.source[k] >= 0) bias[(size_t) in->slot[s] * n_scalars + k] = scalars[in->scalars.source[k]];
  }
  if (!status) status = upload(in, &layer->rows, rows, net->n_slots * (int64_t) n_rows);
  if (!status) status = upload(in, &net->bias, bias, net->n_slots * (int64_t) n_scalars);
  free(rows);
  free(bias);
  free(scalars);
  return status;
}

static mlff_status read_first_layer(loader *in)
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

/* ---- the other layers -------------------------------------------------------------------------------------------- */

/* The rows R of layer t >= 1 in padded columns. */
static mlff_status read_weights(loader *in, int t)
{
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  const int width = net->network.width[net->network.n_hidden - 1];
  const int64_t n_rows = net->n_rows * in->columns.n;
  double *last = NULL, *padded = NULL, *rows = zeros((size_t) n_rows);
  side_start(&in->rows);
  for (int k = 0; k < width; k++) in->rows.source[in->rows.n++] = in->rows.n_file++;
  layer->n_weights = in->columns.n;
  mlff_status status = rows ? read_network(in, t, in->columns.n_file, &last) : out_of_memory(in);
  if (!status && !(padded = pad_matrix(last, &in->columns, &in->rows, 1.0))) status = out_of_memory(in);
  if (!status) make_rows(in, padded, layer->n_weights, rows);
  if (!status) status = upload(in, &layer->rows, rows, n_rows);
  free(last);
  free(padded);
  free(rows);
  return status;
}

static mlff_status read_layer(loader *in, int t)
{
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  MLFF_TRY(read_weights(in, t));
  MLFF_TRY(make_couplings(in, layer));
  for (int l = 0; l < net->n_orders; l++) {
    const int n = net->n_channels[l];
    side_start(&in->rows);
    side_add(&in->rows, n);
    MLFF_TRY(read_map(in, t, "linear_1", l, &in->rows, &in->rows, 1 / sqrt(n), &layer->linear_1));
    if (l >= layer->z.n_orders) continue;
    const side *out = l ? &in->rows : &in->scalars;
    MLFF_TRY(read_map(in, t, "skip", l, out, &in->rows, 1 / sqrt(n), &layer->skip));
    MLFF_TRY(read_map(in, t, "linear_2", l, out, &in->sums[l], 1 / (sqrt(in->sums[l].n_file) * in->divisor[t]),
                      &layer->linear_2));
  }
  return MLFF_OK;
}

static mlff_status read_norm(loader *in, int t)
{
  nequip_layer *layer = &in->net->layers[t];
  double *g = NULL, *all = zeros(NEQUIP_MAX_WIDTH);
  int n = 0;
  mlff_status status = all ? MLFF_OK : out_of_memory(in);
  for (int l = 0; !status && l < layer->z.n_orders; l++) {
    side_start(&in->rows);
    side_add(&in->rows, in->net->n_channels[l]);
    const side *to = l ? &in->rows : &in->scalars;
    status = read_tensor(in, to->n_file, 0, &g, "layers.%d.norm.l%d", t, l);
    for (int k = 0; !status && k < to->n; k++) all[n++] = to->source[k] < 0 ? 0.0 : g[to->source[k]];
    free(g);
    g = NULL;
  }
  if (!status) status = upload(in, &layer->norm, all, n);
  free(all);
  return status;
}

/* Linear layers without activations: their product, times the scale of each species. */
static mlff_status read_readout(loader *in)
{
  nequip_net *net = in->net;
  const int n0 = net->n_channels[0], padded = nequip_padded(n0);
  double *vector = NULL, *w = NULL, *next = NULL, *scale = NULL;
  double *all = zeros((size_t) net->n_slots * (size_t) padded);
  mlff_status status = all ? MLFF_OK : out_of_memory(in);
  for (int k = in->n_readout; !status && k >= 0; k--) { /* from the energy back to the features */
    const int n_out = k < in->n_readout ? (int) in->readout_width[k] : 1;
    const int n_in = k ? (int) in->readout_width[k - 1] : n0;
    status = read_tensor(in, n_out, n_in, &w, "readout.%d", k);
    if (!status && !(next = zeros((size_t) n_in))) status = out_of_memory(in);
    for (int o = 0; !status && o < n_out; o++)
      for (int c = 0; c < n_in; c++)
        next[c] += (vector ? vector[o] : 1.0) * w[(size_t) o * (size_t) n_in + (size_t) c] / sqrt(n_in);
    free(vector);
    free(w);
    vector = next;
    w = next = NULL;
  }
  if (!status) status = read_tensor(in, in->head->n_elements, 0, &scale, "energy_scale");
  for (int s = 0; !status && s < in->head->n_elements; s++)
    for (int c = 0; in->slot[s] >= 0 && c < n0; c++) all[in->slot[s] * padded + c] = scale[s] * vector[c];
  if (!status) status = upload(in, &net->readout, all, (int64_t) net->n_slots * padded);
  free(vector);
  free(scale);
  free(all);
  return status;
}

/* ---- the block of the file --------------------------------------------------------------------------------------- */

/* Sequence of n_low to n_high whole numbers of 1 to high. */
static mlff_status read_counts(loader *in, const mlff_yaml *parent, const char *key, int n_low, int n_high, int high,
                               int *n, const double **values)
{
  MLFF_TRY(mlff_yaml_doubles(in->file, parent, key, -1, values, n, in->error));
  int bad = *n < n_low || *n > n_high;
  for (int k = 0; !bad && k < *n; k++)
    bad = !((*values)[k] >= 1 && (*values)[k] <= high && floor((*values)[k]) == (*values)[k]);
  if (!bad) return MLFF_OK;
  return mlff_yaml_fail(in->file, parent, in->error, "%s: %d to %d whole numbers of 1 to %d are expected", key, n_low,
                        n_high, high);
}

static mlff_status read_basis(loader *in, const mlff_yaml *block)
{
  static const char *const kinds[] = {"bessel", "trained", NULL}, *const cutoffs[] = {"polynomial", "xplor", NULL};
  mlff_nequip_basis *basis = &in->net->network.basis;
  const mlff_yaml *part = NULL;
  const double cutoff = in->head->cutoff;
  int kind = 0;
  MLFF_TRY(mlff_yaml_map(in->file, block, "radial_basis", &part, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "kind", kinds, &in->is_trained, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, part, "n", 1, MLFF_NEQUIP_HIDDEN, &basis->n, in->error));
  MLFF_TRY(mlff_yaml_map(in->file, block, "cutoff_function", &part, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "kind", cutoffs, &kind, in->error));
  if (kind == 0)
    MLFF_TRY(mlff_yaml_double(in->file, part, "p", 2.0, 64.0, &basis->power, in->error));
  else
    MLFF_TRY(mlff_yaml_double(in->file, part, "onset", 0.0, 0.999 * cutoff, &basis->onset, in->error));
  basis->cutoff = cutoff;
  basis->prefactor = 2.0 / cutoff;
  if (in->is_trained) return read_tensor(in, basis->n, 0, &in->frequency, "radial_frequencies");
  if (!(in->frequency = zeros((size_t) basis->n))) return out_of_memory(in);
  for (int k = 0; k < basis->n; k++) in->frequency[k] = (k + 1) * 3.14159265358979323846 / cutoff;
  return MLFF_OK;
}

static mlff_status read_network_shape(loader *in, const mlff_yaml *block)
{
  static const char *const scalings[] = {"none", "sqrt", NULL};
  mlff_nequip_terms_args *network = &in->net->network;
  const mlff_yaml *part = NULL;
  const double *widths = NULL;
  double norm = 1.0;
  MLFF_TRY(mlff_yaml_map(in->file, block, "radial_network", &part, in->error));
  MLFF_TRY(read_counts(in, part, "hidden", 1, NEQUIP_MAX_HIDDEN, MLFF_NEQUIP_HIDDEN, &network->n_hidden, &widths));
  for (int k = 0; k < network->n_hidden; k++) network->width[k] = (int) widths[k];
  MLFF_TRY(mlff_yaml_double(in->file, part, "activation_norm", 1e-3, 1e3, &norm, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "fan_in", scalings, &in->is_scaled, in->error));
  network->gain = 1.0 / norm;
  return MLFF_OK;
}

static mlff_status read_channels(loader *in, const mlff_yaml *block)
{
  static const char *const paths[] = {"all", "even", NULL}, *const embeddings[] = {"linear", "one_hot", NULL};
  nequip_net *net = in->net;
  const double *channels = NULL;
  int n_divisors = 0;
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_layers", 1, 16, &net->n_layers, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "lmax", 0, NEQUIP_ORDERS - 1, &net->lmax, in->error));
  MLFF_TRY(read_counts(in, block, "n_channels", 1, net->lmax + 1, NEQUIP_MAX_CHANNELS, &net->n_orders, &channels));
  for (int l = 0; l < net->n_orders; l++) net->n_channels[l] = (int) channels[l];
  MLFF_TRY(mlff_yaml_choice(in->file, block, "paths", paths, &net->is_even, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, block, "embedding", embeddings, &in->is_one_hot, in->error));
  MLFF_TRY(mlff_yaml_doubles(in->file, block, "message_divisor", net->n_layers, &in->divisor, &n_divisors, in->error));
  for (int t = 0; t < n_divisors; t++)
    if (!(in->divisor[t] > 0))
      return mlff_yaml_fail(in->file, block, in->error, "message_divisor: %g is not positive", in->divisor[t]);
  in->n_first = in->is_one_hot ? in->head->n_elements : net->n_channels[0];
  return MLFF_OK;
}

static mlff_status read_block(loader *in)
{
  static const char *const norms[] = {"none", "rms", NULL};
  nequip_net *net = in->net;
  const mlff_yaml *block = NULL, *part = NULL;
  double norm = 1.0;
  MLFF_TRY(mlff_yaml_map(in->file, mlff_modelfile_root(in->file), "nequip", &block, in->error));
  MLFF_TRY(read_channels(in, block));
  MLFF_TRY(read_basis(in, block));
  MLFF_TRY(read_network_shape(in, block));
  MLFF_TRY(mlff_yaml_map(in->file, block, "norm", &part, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "kind", norms, &in->has_norm, in->error));
  if (in->has_norm) MLFF_TRY(mlff_yaml_double(in->file, part, "epsilon", 1e-30, 1.0, &net->epsilon, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, block, "activation_norm", 1e-3, 1e3, &norm, in->error));
  net->gain = 1.0 / norm;
  return read_counts(in, block, "n_readout", 0, 4, 4096, &in->n_readout, &in->readout_width);
}

/* Whether networks or tables of them are used, and their size; the wave numbers for the former. */
static mlff_status choose_table(loader *in)
{
  nequip_net *net = in->net;
  mlff_nequip_terms_args *network = &net->network;
  const int wanted = in->use->radial_intervals;
  net->is_exact = !wanted && net->backend->real_size == sizeof(double);
  nequip_choose_table(&network->basis, net->is_exact ? 1 : wanted, &net->table);
  network->n_terms = net->is_exact ? nequip_padded(network->width[network->n_hidden - 1]) : 4;
  net->n_rows = net->is_exact ? network->n_terms : net->table.n + (net->table.split ? 6 : 3);
  return net->is_exact ? upload(in, &net->frequency, in->frequency, network->basis.n) : MLFF_OK;
}

static mlff_status choose_species(loader *in)
{
  const size_t n = (size_t) in->head->n_elements;
  if (!(in->slot = calloc(n, sizeof *in->slot))) return out_of_memory(in);
  for (int s = 0; s < in->head->n_elements; s++)
    in->slot[s] = s < in->use->n_species && in->use->use[s] ? in->net->n_slots++ : -1;
  return upload_bytes(in, &in->net->slot, in->slot, n * sizeof *in->slot);
}

static mlff_status read_all(loader *in)
{
  nequip_net *net = in->net;
  MLFF_TRY(read_block(in));
  MLFF_TRY(choose_table(in));
  MLFF_TRY(choose_species(in));
  if (!(net->layers = calloc((size_t) net->n_layers, sizeof *net->layers))) return out_of_memory(in);
  for (int t = 0; t < net->n_layers; t++) {
    MLFF_TRY(shape_layer(in, t));
    MLFF_TRY(t ? read_layer(in, t) : read_first_layer(in));
    if (in->has_norm) MLFF_TRY(read_norm(in, t));
  }
  return read_readout(in);
}

mlff_status nequip_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                          mlff_error *error)
{
  loader *in = calloc(1, sizeof *in);
  nequip_net *made = calloc(1, sizeof *made);
  mlff_status status = MLFF_OK;
  if (!in || !made) {
    status = mlff_fail(error, MLFF_E_NOMEM, "out of memory while loading a nequip model");
    free(made);
  } else {
    made->backend = backend;
    *in = (loader){.net = made, .file = file, .use = use, .head = mlff_modelfile_get_head(file), .error = error};
    status = read_all(in);
    free_hidden(in);
    free(in->frequency);
    free(in->slot);
    if (status)
      nequip_destroy(made);
    else
      *net = made;
  }
  free(in);
  return status;
}

static void release_map(mlff_backend *backend, nequip_map *map)
{
  for (int l = 0; l < NEQUIP_ORDERS; l++) {
    mlff_linear_release(backend, &map->forward[l]);
    mlff_linear_release(backend, &map->back[l]);
  }
}

static void release_layer(mlff_backend *backend, nequip_layer *layer)
{
  release_map(backend, &layer->linear_1);
  release_map(backend, &layer->linear_2);
  release_map(backend, &layer->skip);
  for (int k = 0; k < NEQUIP_MAX_HIDDEN; k++) mlff_buf_release(backend, &layer->hidden[k]);
  mlff_buf *const bufs[] = {&layer->rows, &layer->paths,    &layer->coupling, &layer->norm,
                            &layer->y,    &layer->z_values, &layer->scale};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(backend, bufs[k]);
}

void nequip_destroy(void *opaque)
{
  nequip_net *net = opaque;
  if (!net) return;
  mlff_backend *backend = net->backend;
  for (int t = 0; net->layers && t < net->n_layers; t++) release_layer(backend, &net->layers[t]);
  free(net->layers);
  mlff_buf *const bufs[] = {&net->frequency,    &net->slot,   &net->bias,   &net->readout, &net->radial.line,
                            &net->terms,        &net->x,      &net->grad_x, &net->grad_y,  &net->node_energy,
                            &net->edge_grad,    &net->sums,   &net->grad_z, &net->last_x,  &net->last_grad,
                            &net->radial.terms, &net->scratch};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(backend, bufs[k]);
  free(net);
}
