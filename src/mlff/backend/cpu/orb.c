/* orb.c: the operations of ops_orb.h on the CPU, except the graph (orb_graph.c) and the GEMMs (linear.c). */
#include "cpu.h"

/* ---- rows of any width ------------------------------------------------------------------------------------------- */

/* Mask of the lanes from element k of a row: all, or those up to the width. */
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

/* ---- edges ------------------------------------------------------------------------------------------------------- */

void MLFF_CPU(orb_features_cpu)(mlff_backend *backend, const mlff_orb_features_args *a)
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

void MLFF_CPU(orb_gather_cpu)(mlff_backend *backend, const mlff_orb_gather_args *a)
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

void MLFF_CPU(orb_norm_cpu)(mlff_backend *backend, const mlff_orb_norm_args *a)
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

/* Adds the message of an edge to the sums of its ends and to the features of the edge. */
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

void MLFF_CPU(orb_message_cpu)(mlff_backend *backend, const mlff_orb_message_args *a)
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

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

void MLFF_CPU(orb_concat_cpu)(mlff_backend *backend, const mlff_orb_concat_args *a)
{
  (void) backend;
  const void *const parts[3] = {a->a, a->b, a->c};
  const size_t bytes = (size_t) a->width * sizeof(real);
  for (int64_t i = 0; i < a->n; i++)
    for (int p = 0; p < 3; p++)
      memcpy((real *) a->out + (3 * i + p) * a->width, (const real *) parts[p] + i * a->width, bytes);
}

void MLFF_CPU(orb_embed_cpu)(mlff_backend *backend, const mlff_orb_embed_args *a)
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

mlff_status MLFF_CPU(orb_sum_cpu)(mlff_backend *backend, const void *x, int64_t n, int64_t width,
                                  const int32_t *species, double *sum, mlff_error *error)
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
