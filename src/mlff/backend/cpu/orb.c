/* orb.c: the operations of ops_orb.h on the CPU. Products are linear.c's; what is here is linear in the edges. */
#include "cpu.h"

/* ---- the graph: nearest neighbours -------------------------------------------------------------------------------- */

typedef struct candidate {
  double d, v[3];
  int64_t tag;
  int32_t node;
} candidate;

static int is_nearer(const candidate *a, const candidate *b)
{
  return a->d < b->d;
}

/* Lower tags first, then vectors that are smaller in x, then y, then z; images of an atom differ by lattice vectors. */
static int is_before(const candidate *a, const candidate *b)
{
  if (a->tag != b->tag) return a->tag < b->tag;
  for (int c = 0; c < 3; c++)
    if (fabs(a->v[c] - b->v[c]) > 1e-6) return a->v[c] < b->v[c];
  return 0;
}

/* Puts *new into chosen[first .. *n), which is sorted by `less` and keeps at most `room` in all. */
static void insert(candidate *chosen, int first, int *n, int room, const candidate *new,
                   int (*less)(const candidate *, const candidate *))
{
  if (*n == room && !less(new, &chosen[room - 1])) return;
  int at = *n < room ? (*n)++ : room - 1;
  for (; at > first && less(new, &chosen[at - 1]); at--) chosen[at] = chosen[at - 1];
  chosen[at] = *new;
}

/* The nearest `room` of n candidates; ties with the last one are settled by is_before. */
static int choose(const candidate *all, int64_t n, int room, candidate *chosen)
{
  int n_chosen = 0, n_nearer = 0;
  for (int64_t k = 0; k < n; k++) insert(chosen, 0, &n_chosen, room, &all[k], is_nearer);
  if (n <= room) return n_chosen;
  const double limit = chosen[room - 1].d;
  while (chosen[n_nearer].d < limit - MLFF_ORB_TIE) n_nearer++;
  n_chosen = n_nearer;
  for (int64_t k = 0; k < n; k++)
    if (fabs(all[k].d - limit) <= MLFF_ORB_TIE) insert(chosen, n_nearer, &n_chosen, room, &all[k], is_before);
  return n_chosen;
}

static candidate candidate_of(const mlff_graph *graph, int32_t i, int32_t j, int32_t node)
{
  candidate c = {.tag = graph->tag ? graph->tag[j] : node, .node = node};
  for (int k = 0; k < 3; k++) c.v[k] = graph->pos[j][k] - graph->pos[i][k];
  c.d = sqrt(c.v[0] * c.v[0] + c.v[1] * c.v[1] + c.v[2] * c.v[2]);
  return c;
}

static void write_edge(mlff_orb_graph *out, int64_t e, const candidate *c, double cutoff)
{
  const double x = c->d / cutoff, x4 = x * x * x * x, scale = 1.0 / (c->d > 1e-12 ? c->d : 1e-12);
  real *vec = (real *) out->vec.data + 4 * e;
  for (int k = 0; k < 3; k++) vec[k] = (real) (c->v[k] * scale);
  vec[3] = (real) c->d;
  ((real *) out->env.data)[e] = x < 1.0 ? (real) (1.0 - x4 * (15.0 - x * (24.0 - 10.0 * x))) : (real) 0;
  ((int32_t *) out->node.data)[e] = c->node;
}

/* Edges that stay, and the most candidates of an atom. */
static void count_edges(const mlff_edges *edges, int n_neighbours, int64_t *longest, int64_t *n_edges)
{
  const int64_t *from = edges->row.data;
  *longest = *n_edges = 0;
  for (int32_t i = 0; i < edges->n_local; i++) {
    const int64_t n = from[i + 1] - from[i];
    if (n > *longest) *longest = n;
    *n_edges += n < n_neighbours ? n : n_neighbours;
  }
}

static mlff_status graph_cpu(mlff_backend *backend, const mlff_graph *graph, const mlff_edges *edges, int n_neighbours,
                             mlff_orb_graph *out, mlff_error *error)
{
  const int64_t *from = edges->row.data;
  const int32_t *nbr = edges->nbr.data, *node = edges->node.data;
  int64_t longest = edges->longest_row, n_edges = (int64_t) edges->n_local * n_neighbours;
  if (!backend->forecast) count_edges(edges, n_neighbours, &longest, &n_edges);
  const size_t n = (size_t) n_edges, n_scratch = (size_t) (longest + n_neighbours);
  MLFF_TRY(mlff_buf_reserve(backend, &out->row, ((size_t) edges->n_local + 1) * sizeof(int64_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->node, n * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->vec, n * 4 * sizeof(real), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->env, n * sizeof(real), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->scratch, n_scratch * sizeof(candidate), error));
  out->n_edges = n_edges;
  if (backend->forecast) return MLFF_OK;
  int64_t *row = out->row.data;
  candidate *all = out->scratch.data, *chosen = all + longest;
  row[0] = 0;
  for (int32_t i = 0; i < edges->n_local; i++) {
    int64_t count = 0;
    for (int64_t e = from[i]; e < from[i + 1]; e++) all[count++] = candidate_of(graph, i, nbr[e], node[e]);
    const int n_chosen = choose(all, count, n_neighbours, chosen);
    for (int k = 0; k < n_chosen; k++) write_edge(out, row[i] + k, &chosen[k], edges->cutoff);
    row[i + 1] = row[i] + n_chosen;
  }
  return MLFF_OK;
}

/* ---- rows of any width ---------------------------------------------------------------------------------------------- */

/* Lanes of row element k on: all, or those that the width has left. */
MLFF_INLINE vreal row_load(const real *p, int64_t k, int64_t width)
{
  return k + MLFF_VLEN <= width ? vload(p + k) : vload_part(p + k, (int) (width - k));
}

MLFF_INLINE void row_store(real *p, int64_t k, int64_t width, vreal v)
{
  if (k + MLFF_VLEN <= width)
    vstore(p + k, v);
  else
    vstore_part(p + k, v, (int) (width - k));
}

MLFF_INLINE real row_dot(const real *a, const real *b, int64_t width)
{
  vreal sum = vset(0);
  for (int64_t k = 0; k < width; k += MLFF_VLEN) sum += row_load(a, k, width) * row_load(b, k, width);
  return vsum(sum);
}

/* Mean and 1/sqrt(variance + epsilon) of a row. */
MLFF_INLINE void row_moments(const real *x, int64_t width, double epsilon, real *mean, real *scale)
{
  vreal sum = vset(0), square = vset(0);
  for (int64_t k = 0; k < width; k += MLFF_VLEN) sum += row_load(x, k, width);
  *mean = vsum(sum) / (real) width;
  int64_t k = 0;
  for (; k + MLFF_VLEN <= width; k += MLFF_VLEN) {
    const vreal d = vload(x + k) - *mean;
    square += d * d;
  }
  double rest = (double) vsum(square);
  for (; k < width; k++) rest += (double) ((x[k] - *mean) * (x[k] - *mean));
  *scale = (real) (1.0 / sqrt(rest / (double) width + epsilon));
}

/* ---- edges ---------------------------------------------------------------------------------------------------------- */

static void features_cpu(mlff_backend *backend, const mlff_orb_features_args *a)
{
  (void) backend;
  const int64_t *row = a->graph->row.data, first = row[a->begin], n_columns = a->n_basis + 3;
  const real *vec = a->graph->vec.data;
  real counts[MLFF_VLEN];
  for (int c = 0; c < MLFF_VLEN; c++) counts[c] = (real) c;
  const vreal lanes = vload(counts);
  for (int64_t e = first; e < row[a->end]; e++) {
    real *out = (real *) a->out + (e - first) * n_columns;
    for (int k = 0; k < a->n_basis; k += MLFF_VLEN) {
      const vreal x = vec[4 * e + 3] - (lanes + (real) k) * (real) a->spacing;
      row_store(out, k, a->n_basis, vexp(-x * x));
    }
    for (int c = 0; c < 3; c++) out[a->n_basis + c] = vec[4 * e + c];
  }
}

static void gather_cpu(mlff_backend *backend, const mlff_orb_gather_args *a)
{
  (void) backend;
  const int64_t *row = a->graph->row.data, first = row[a->begin], width = a->width;
  const int32_t *node = a->graph->node.data;
  for (int64_t i = a->begin; i < a->end; i++) {
    const real *sender = (const real *) a->from_sender + i * width;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const real *receiver = (const real *) a->from_receiver + node[e] * width;
      real *y = (real *) a->y + (e - first) * width;
      for (int64_t k = 0; k < width; k += MLFF_VLEN) {
        const vreal x = row_load(y, k, width) + row_load(sender, k, width) + row_load(receiver, k, width);
        row_store(y, k, width, vssp(x));
      }
    }
  }
}

static void norm_cpu(mlff_backend *backend, const mlff_orb_norm_args *a)
{
  (void) backend;
  const int64_t width = a->width;
  const real *gain = a->norm->gain.data, *shift = a->norm->shift.data;
  for (int64_t i = 0; i < a->n; i++) {
    const real *x = (const real *) a->x + i * width;
    real *y = (real *) a->y + i * width, mean, scale;
    row_moments(x, width, a->norm->epsilon, &mean, &scale);
    for (int64_t k = 0; k < width; k += MLFF_VLEN) {
      vreal v = (row_load(x, k, width) - mean) * scale * row_load(gain, k, width) + row_load(shift, k, width);
      if (a->accumulate) v += row_load(y, k, width);
      row_store(y, k, width, v);
    }
  }
}

/* One edge: its message goes to the sums of its ends and to its own features. */
MLFF_INLINE void edge_message(const mlff_orb_message_args *a, int64_t edge, const real *x, real *sent, real *received)
{
  const int64_t width = a->width;
  const real *gates = a->gates, *gain = a->norm->gain.data, *shift = a->norm->shift.data;
  const real env = ((const real *) a->graph->env.data)[edge];
  real *e = (real *) a->e + edge * width, mean, scale, gate[2];
  for (int k = 0; k < 2; k++) {
    const double z = (double) row_dot(gates + k * width, e, width) + a->gate_bias[k];
    gate[k] = env * (real) (1.0 / (1.0 + exp(-z)));
  }
  row_moments(x, width, a->norm->epsilon, &mean, &scale);
  for (int64_t k = 0; k < width; k += MLFF_VLEN) {
    const vreal m = (row_load(x, k, width) - mean) * scale * row_load(gain, k, width) + row_load(shift, k, width);
    row_store(received, k, width, row_load(received, k, width) + m * gate[0]);
    row_store(sent, k, width, row_load(sent, k, width) + m * gate[1]);
    if (!a->last) row_store(e, k, width, row_load(e, k, width) + m);
  }
}

static void message_cpu(mlff_backend *backend, const mlff_orb_message_args *a)
{
  (void) backend;
  const int64_t *row = a->graph->row.data, first = row[a->begin], width = a->width;
  const int32_t *node = a->graph->node.data;
  for (int64_t i = a->begin; i < a->end; i++) {
    real *sent = (real *) a->sent + i * width;
    memset(sent, 0, (size_t) width * sizeof *sent);
    for (int64_t e = row[i]; e < row[i + 1]; e++)
      edge_message(a, e, (const real *) a->x + (e - first) * width, sent, (real *) a->received + node[e] * width);
  }
}

/* ---- nodes ---------------------------------------------------------------------------------------------------------- */

static void concat_cpu(mlff_backend *backend, const mlff_orb_concat_args *a)
{
  (void) backend;
  const void *const parts[3] = {a->a, a->b, a->c};
  const size_t bytes = (size_t) a->width * sizeof(real);
  for (int64_t i = 0; i < a->n; i++)
    for (int p = 0; p < 3; p++)
      memcpy((real *) a->out + (3 * i + p) * a->width, (const real *) parts[p] + i * a->width, bytes);
}

static void embed_cpu(mlff_backend *backend, const mlff_orb_embed_args *a)
{
  (void) backend;
  const size_t bytes = (size_t) a->width * sizeof(real);
  for (int64_t i = 0; i < a->n; i++) {
    real *out = (real *) a->out + i * a->width;
    if (a->species[i] < 0)
      memset(out, 0, bytes);
    else
      memcpy(out, (const real *) a->table + a->species[i] * a->width, bytes);
  }
}

static mlff_status sum_cpu(mlff_backend *backend, const void *x, int64_t n, int64_t width, const int32_t *species,
                           double *sum, mlff_error *error)
{
  (void) backend;
  (void) error;
  for (int64_t k = 0; k < width; k++) sum[k] = 0.0;
  for (int64_t i = 0; i < n; i++) {
    const real *row = (const real *) x + i * width;
    for (int64_t k = 0; k < width && species[i] >= 0; k++) sum[k] += (double) row[k];
  }
  return MLFF_OK;
}

void MLFF_CPU(orb_ops_cpu)(mlff_orb_ops *ops)
{
  ops->block = 160; /* with H = 512 floats, two hidden arrays are 0.6 MB */
  ops->graph = graph_cpu;
  ops->features = features_cpu;
  ops->gather = gather_cpu;
  ops->norm = norm_cpu;
  ops->message = message_cpu;
  ops->concat = concat_cpu;
  ops->embed = embed_cpu;
  ops->sum = sum_cpu;
}
