/* tensornet_message.c: messages of TensorNet on the CPU (ops_tensornet.h).
 *
 * Nothing is stored per edge: weights are rebuilt from four rows of the table. An atom takes its edges in batches and
 * vector after vector of channels, whose nine sums stay in registers. Lists are symmetric, so the backward pass gathers
 * as the forward pass does, and nothing is scattered.
 */
#include "tensornet.h"

enum { BATCH = 64 };

/* Edges of a batch: n of them from `first` on. */
typedef struct edge_batch {
  int n;
  int64_t first;
  const real *line[BATCH], *q[BATCH], *other[BATCH]; /* weights or first row of the table; features of the neighbor */
} edge_batch;

MLFF_INLINE void make_batch(const mlff_tensornet_message_args *a, int64_t block_start, int64_t first, int64_t end,
                            const real *features, edge_batch *b)
{
  const int64_t width = 3 * (int64_t) a->n_features;
  b->first = first;
  b->n = end - first < BATCH ? (int) (end - first) : BATCH;
  for (int k = 0; k < b->n; k++) {
    const int64_t e = first + k;
    const real *line = (const real *) a->radial->line.data + e * MLFF_PAINN_LINE;
    const line_index index = line_load_index(line);
    b->line[k] = line;
    b->q[k] = a->rows ? (const real *) a->rows + index.first * width
                      : (const real *) a->terms + (e - block_start) * 2 * width;
    b->other[k] = features + (int64_t) index.node * COMPONENTS * a->n_features;
  }
}

/* Weights of part p of an edge, and with `slopes` their slopes, at the channels from c on. Both flags are constants. */
MLFF_INLINE vreal edge_q(const int is_table, const int slopes, const real *line, const real *q, int64_t f, int p,
                         int64_t c, vreal *slope)
{
  const int64_t width = 3 * f;
  const real *r = q + p * f + c;
  if (!is_table) {
    if (slopes) *slope = vload(r + width);
    return vload(r);
  }
  const vreal r0 = vload(r), r1 = vload(r + width), r2 = vload(r + 2 * width), r3 = vload(r + 3 * width);
  if (slopes)
    *slope = line[LINE_SLOPE] * r0 + line[LINE_SLOPE + 1] * r1 + line[LINE_SLOPE + 2] * r2 + line[LINE_SLOPE + 3] * r3;
  return line[LINE_COEF] * r0 + line[LINE_COEF + 1] * r1 + line[LINE_COEF + 2] * r2 + line[LINE_COEF + 3] * r3;
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

/* ---- messages of neighbors --------------------------------------------------------------------------------------- */

MLFF_INLINE void message_batch(const int is_table, const edge_batch *b, int64_t f, real *sums)
{
  for (int64_t c = 0; c < f; c += MLFF_VLEN) {
    vreal sum[COMPONENTS];
    load_row(sums + c, f, sum);
    for (int k = 0; k < b->n; k++) {
      vreal q[3];
#pragma GCC unroll 3
      for (int p = 0; p < 3; p++) q[p] = edge_q(is_table, 0, b->line[k], b->q[k], f, p, c, NULL);
#pragma GCC unroll 9
      for (int m = 0; m < COMPONENTS; m++) sum[m] += q[part_of(m)] * vload(b->other[k] + m * f + c);
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
    for (int64_t e = row[i]; e < row[i + 1]; e += BATCH) {
      edge_batch b;
      make_batch(a, start, e, row[i + 1], a->y, &b);
      if (a->rows)
        message_batch(1, &b, f, sums);
      else
        message_batch(0, &b, f, sums);
    }
  }
}

/* sums += q grad[j];  gr[k] += q' <grad[j], y>, lanes apart */
MLFF_INLINE void message_backward_batch(const int is_table, const edge_batch *b, int64_t f, const real *y, real *sums,
                                        vreal *gr)
{
  for (int64_t c = 0; c < f; c += MLFF_VLEN) {
    vreal sum[COMPONENTS], own[COMPONENTS];
    load_row(sums + c, f, sum);
    load_row(y + c, f, own);
    for (int k = 0; k < b->n; k++) {
      vreal q[3], slope[3], dot[3] = {vset(0), vset(0), vset(0)};
#pragma GCC unroll 3
      for (int p = 0; p < 3; p++) q[p] = edge_q(is_table, 1, b->line[k], b->q[k], f, p, c, &slope[p]);
#pragma GCC unroll 9
      for (int m = 0; m < COMPONENTS; m++) {
        const vreal g = vload(b->other[k] + m * f + c);
        sum[m] += q[part_of(m)] * g;
        dot[part_of(m)] += own[m] * g;
      }
      gr[k] += slope[0] * dot[0] + slope[1] * dot[1] + slope[2] * dot[2];
    }
    store_row(sums + c, f, sum);
  }
}

void MLFF_CPU(tensornet_message_backward_cpu)(mlff_backend *backend, const mlff_tensornet_message_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data, f = a->n_features, start = block_start_of(a);
  for (int64_t i = a->begin; i < a->end; i++) {
    real *sums = (real *) a->sums + (i - a->begin) * COMPONENTS * f;
    const real *y = (const real *) a->y + i * COMPONENTS * f;
    for (int64_t e = row[i]; e < row[i + 1]; e += BATCH) {
      edge_batch b;
      vreal gr[BATCH];
      make_batch(a, start, e, row[i + 1], a->grad, &b);
      for (int k = 0; k < b.n; k++) gr[k] = vset(0);
      if (a->rows)
        message_backward_batch(1, &b, f, y, sums, gr);
      else
        message_backward_batch(0, &b, f, y, sums, gr);
      for (int k = 0; k < b.n; k++) store_gradient(a, e + k, b.line[k], vsum(gr[k]));
    }
  }
}

/* ---- messages of the center -------------------------------------------------------------------------------------- */

MLFF_INLINE void local_batch(const int is_table, const edge_batch *b, int64_t f, real *q_sums)
{
  for (int64_t c = 0; c < 3 * f; c += MLFF_VLEN) {
    vreal sum = vload(q_sums + c);
    for (int k = 0; k < b->n; k++) sum += edge_q(is_table, 0, b->line[k], b->q[k], f, 0, c, NULL);
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
    for (int64_t e = row[i]; e < row[i + 1]; e += BATCH) {
      edge_batch b;
      make_batch(a, start, e, row[i + 1], a->y, &b);
      if (a->rows)
        local_batch(1, &b, f, q_sums);
      else
        local_batch(0, &b, f, q_sums);
    }
    multiply_parts(q_sums, (const real *) a->y + at * COMPONENTS * f, f, 0, (real *) a->sums + at * COMPONENTS * f);
  }
}

/* gr[k] = sum over the channels of all parts of q' by_q, lanes apart */
MLFF_INLINE void local_backward_batch(const int is_table, const edge_batch *b, int64_t f, const real *by_q, vreal *gr)
{
  for (int k = 0; k < b->n; k++) {
    vreal sum = vset(0), slope;
    for (int64_t c = 0; c < 3 * f; c += MLFF_VLEN) {
      edge_q(is_table, 1, b->line[k], b->q[k], f, 0, c, &slope);
      sum += vload(by_q + c) * slope;
    }
    gr[k] = sum;
  }
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
    for (int64_t e = row[i]; e < row[i + 1]; e += BATCH) {
      edge_batch b;
      vreal gr[BATCH];
      make_batch(a, start, e, row[i + 1], a->y, &b);
      if (a->rows)
        local_backward_batch(1, &b, f, by_q, gr);
      else
        local_backward_batch(0, &b, f, by_q, gr);
      for (int k = 0; k < b.n; k++) store_gradient(a, e + k, b.line[k], vsum(gr[k]));
    }
  }
}
