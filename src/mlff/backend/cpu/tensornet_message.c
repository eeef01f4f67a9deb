/* tensornet_message.c: messages of TensorNet on the CPU (ops_tensornet.h).
 *
 * Nothing is stored per edge: weights are rebuilt from four rows of the table. An atom takes PAIR edges at a time, so
 * that its sums are loaded and stored once for them, with the coefficients of both in registers. Lists are symmetric,
 * so the backward pass gathers as the forward pass does, and nothing is scattered.
 */
#include "tensornet.h"

enum { PAIR = 2 };

/* One edge: coefficients of the rows of its weights and of their slopes, the first row (or the weights themselves), and
 * the features of the neighbor. */
typedef struct edge_source {
  vreal coef[4], slope[4];
  const real *line, *q, *other;
} edge_source;

/* slopes, is_table and the edge count n below are constants. */
MLFF_INLINE void open_edge(const mlff_tensornet_message_args *a, const int is_table, const int slopes,
                           int64_t block_start, int64_t e, const real *features, edge_source *to)
{
  const int64_t width = 3 * (int64_t) a->n_features;
  const real *line = (const real *) a->radial->line.data + e * MLFF_PAINN_LINE;
  const line_index index = line_load_index(line);
  to->line = line;
  to->q =
      is_table ? (const real *) a->rows + index.first * width : (const real *) a->terms + (e - block_start) * 2 * width;
  to->other = features + (int64_t) index.node * COMPONENTS * a->n_features;
#pragma GCC unroll 4
  for (int t = 0; t < 4; t++) {
    to->coef[t] = vset(line[LINE_COEF + t]);
    if (slopes) to->slope[t] = vset(line[LINE_SLOPE + t]);
  }
}

/* Weights of an edge at column c of [3][f], and their slopes. */
MLFF_INLINE vreal edge_q(const int is_table, const int slopes, const edge_source *e, int64_t width, int64_t c,
                         vreal *slope)
{
  const real *r = e->q + c;
  if (!is_table) {
    if (slopes) *slope = vload(r + width);
    return vload(r);
  }
  const vreal r0 = vload(r), r1 = vload(r + width), r2 = vload(r + 2 * width), r3 = vload(r + 3 * width);
  if (slopes) *slope = e->slope[0] * r0 + e->slope[1] * r1 + e->slope[2] * r2 + e->slope[3] * r3;
  return e->coef[0] * r0 + e->coef[1] * r1 + e->coef[2] * r2 + e->coef[3] * r3;
}

/* dE/d(x_j - x_i) of an edge whose energy depends on its length only */
MLFF_INLINE void store_gradient(const mlff_tensornet_message_args *a, int64_t e, const real *line, real gr)
{
  real *grad = (real *) a->edge_grad + 4 * e;
  v4 sum = v4_load(line + LINE_UNIT) * gr;
  sum[3] = 0;
  if (a->accumulate) sum += v4_load(grad);
  v4_store(grad, sum);
}

static int64_t block_start_of(const mlff_tensornet_message_args *a)
{
  return ((const int64_t *) a->edges->row.data)[a->begin];
}

/* Calls STEP(is_table, n, first) for all edges of atom i, with constants. */
#define FOR_EDGES(STEP)                                 \
  for (int64_t e = row[i]; e < row[i + 1]; e += PAIR) { \
    if (a->rows && e + 1 < row[i + 1])                  \
      STEP(1, 2, e);                                    \
    else if (a->rows)                                   \
      STEP(1, 1, e);                                    \
    else if (e + 1 < row[i + 1])                        \
      STEP(0, 2, e);                                    \
    else                                                \
      STEP(0, 1, e);                                    \
  }

/* ---- messages of neighbors --------------------------------------------------------------------------------------- */

MLFF_INLINE void message_edges(const mlff_tensornet_message_args *a, const int is_table, const int n, int64_t start,
                               int64_t first, real *sums)
{
  const int64_t f = a->n_features;
  edge_source e[PAIR];
  for (int k = 0; k < n; k++) open_edge(a, is_table, 0, start, first + k, a->y, &e[k]);
  for (int64_t c = 0; c < f; c += MLFF_VLEN) {
    vreal sum[COMPONENTS];
    load_row(sums + c, f, sum);
#pragma GCC unroll 2
    for (int k = 0; k < n; k++) {
      vreal q[3];
#pragma GCC unroll 3
      for (int p = 0; p < 3; p++) q[p] = edge_q(is_table, 0, &e[k], 3 * f, p * f + c, NULL);
#pragma GCC unroll 9
      for (int m = 0; m < COMPONENTS; m++) sum[m] += q[part_of(m)] * vload(e[k].other + m * f + c);
    }
    store_row(sums + c, f, sum);
  }
}

void MLFF_CPU(tensornet_message_cpu)(mlff_backend *backend, const mlff_tensornet_message_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data, f = a->n_features, start = block_start_of(a);
  for (int64_t i = a->begin; i < a->end; i++) {
    real *sums = (real *) a->sums + (i - a->begin) * COMPONENTS * f;
    memset(sums, 0, (size_t) (COMPONENTS * f) * sizeof *sums);
#define STEP(is_table, n, first) message_edges(a, is_table, n, start, first, sums)
    FOR_EDGES(STEP)
#undef STEP
  }
}

/* sums += q grad[j];  edge_grad from q' <grad[j], y> */
MLFF_INLINE void message_edges_backward(const mlff_tensornet_message_args *a, const int is_table, const int n,
                                        int64_t start, int64_t first, const real *y, real *sums)
{
  const int64_t f = a->n_features;
  edge_source e[PAIR];
  vreal gr[PAIR];
  for (int k = 0; k < n; k++) {
    open_edge(a, is_table, 1, start, first + k, a->grad, &e[k]);
    gr[k] = vset(0);
  }
  for (int64_t c = 0; c < f; c += MLFF_VLEN) {
#pragma GCC unroll 3
    for (int p = 0; p < 3; p++) {
      vreal q[PAIR], slope[PAIR], dot[PAIR];
#pragma GCC unroll 2
      for (int k = 0; k < n; k++) {
        q[k] = edge_q(is_table, 1, &e[k], 3 * f, p * f + c, &slope[k]);
        dot[k] = vset(0);
      }
#pragma GCC unroll 5
      for (int m = p * p; m < (p + 1) * (p + 1); m++) {
        const vreal own = vload(y + m * f + c);
        vreal sum = vload(sums + m * f + c);
#pragma GCC unroll 2
        for (int k = 0; k < n; k++) {
          const vreal g = vload(e[k].other + m * f + c);
          sum += q[k] * g;
          dot[k] += own * g;
        }
        vstore(sums + m * f + c, sum);
      }
#pragma GCC unroll 2
      for (int k = 0; k < n; k++) gr[k] += slope[k] * dot[k];
    }
  }
  for (int k = 0; k < n; k++) store_gradient(a, first + k, e[k].line, vsum(gr[k]));
}

void MLFF_CPU(tensornet_message_backward_cpu)(mlff_backend *backend, const mlff_tensornet_message_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data, f = a->n_features, start = block_start_of(a);
  for (int64_t i = a->begin; i < a->end; i++) {
    real *sums = (real *) a->sums + (i - a->begin) * COMPONENTS * f;
    const real *y = (const real *) a->y + i * COMPONENTS * f;
#define STEP(is_table, n, first) message_edges_backward(a, is_table, n, start, first, y, sums)
    FOR_EDGES(STEP)
#undef STEP
  }
}

/* ---- messages of the center -------------------------------------------------------------------------------------- */

MLFF_INLINE void local_edges(const mlff_tensornet_message_args *a, const int is_table, const int n, int64_t start,
                             int64_t first, real *q_sums)
{
  const int64_t width = 3 * (int64_t) a->n_features;
  edge_source e[PAIR];
  for (int k = 0; k < n; k++) open_edge(a, is_table, 0, start, first + k, a->y, &e[k]);
  for (int64_t c = 0; c < width; c += MLFF_VLEN) {
    vreal sum = vload(q_sums + c);
#pragma GCC unroll 2
    for (int k = 0; k < n; k++) sum += edge_q(is_table, 0, &e[k], width, c, NULL);
    vstore(q_sums + c, sum);
  }
}

/* out (+)= q x, part by part */
MLFF_INLINE void multiply_parts(const real *q, const real *x, int64_t f, const int add, real *out)
{
  for (int k = 0; k < COMPONENTS; k++, x += f, out += f)
    for (int64_t c = 0; c < f; c += MLFF_VLEN) {
      const vreal v = vload(q + part_of(k) * f + c) * vload(x + c);
      vstore(out + c, add ? vload(out + c) + v : v);
    }
}

void MLFF_CPU(tensornet_local_cpu)(mlff_backend *backend, const mlff_tensornet_message_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data, f = a->n_features, start = block_start_of(a);
  for (int64_t i = a->begin; i < a->end; i++) {
    const int64_t at = i - a->begin;
    real *q_sums = (real *) a->q_sums + at * 3 * f;
    memset(q_sums, 0, (size_t) (3 * f) * sizeof *q_sums);
#define STEP(is_table, n, first) local_edges(a, is_table, n, start, first, q_sums)
    FOR_EDGES(STEP)
#undef STEP
    multiply_parts(q_sums, (const real *) a->y + at * COMPONENTS * f, f, 0, (real *) a->sums + at * COMPONENTS * f);
  }
}

/* edge_grad from the sum over the channels of all parts of q' by_q */
MLFF_INLINE void local_edges_backward(const mlff_tensornet_message_args *a, const int is_table, const int n,
                                      int64_t start, int64_t first, const real *by_q)
{
  const int64_t width = 3 * (int64_t) a->n_features;
  edge_source e[PAIR];
  vreal gr[PAIR];
  for (int k = 0; k < n; k++) {
    open_edge(a, is_table, 1, start, first + k, a->y, &e[k]);
    gr[k] = vset(0);
  }
  for (int64_t c = 0; c < width; c += MLFF_VLEN) {
    const vreal g = vload(by_q + c);
#pragma GCC unroll 2
    for (int k = 0; k < n; k++) {
      vreal slope;
      edge_q(is_table, 1, &e[k], width, c, &slope);
      gr[k] += g * slope;
    }
  }
  for (int k = 0; k < n; k++) store_gradient(a, first + k, e[k].line, vsum(gr[k]));
}

/* by_q = <g, y> of each part */
static void part_products(const real *g, const real *y, int64_t f, real *by_q)
{
  for (int64_t c = 0; c < f; c += MLFF_VLEN) {
    vreal dot[3] = {vset(0), vset(0), vset(0)};
#pragma GCC unroll 9
    for (int k = 0; k < COMPONENTS; k++) dot[part_of(k)] += vload(g + k * f + c) * vload(y + k * f + c);
    for (int p = 0; p < 3; p++) vstore(by_q + p * f + c, dot[p]);
  }
}

void MLFF_CPU(tensornet_local_backward_cpu)(mlff_backend *backend, const mlff_tensornet_message_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data, f = a->n_features, start = block_start_of(a);
  for (int64_t i = a->begin; i < a->end; i++) {
    const int64_t at = i - a->begin;
    const real *g = (const real *) a->grad + at * COMPONENTS * f;
    real by_q[MLFF_TENSORNET_WIDTH];
    part_products(g, (const real *) a->y + at * COMPONENTS * f, f, by_q);
    multiply_parts((const real *) a->q_sums + at * 3 * f, g, f, 1, (real *) a->sums + at * COMPONENTS * f);
#define STEP(is_table, n, first) local_edges_backward(a, is_table, n, start, first, by_q)
    FOR_EDGES(STEP)
#undef STEP
  }
}
