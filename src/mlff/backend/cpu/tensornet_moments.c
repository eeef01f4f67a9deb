/* tensornet_moments.c: radial networks and the moments of the embedding of TensorNet on the CPU (ops_tensornet.h). */
#include "tensornet.h"

/* ---- moments ----------------------------------------------------------------------------------------------------- */

void MLFF_CPU(tensornet_moments_cpu)(mlff_backend *backend, const mlff_tensornet_moments_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data;
  for (int64_t i = a->begin; i < a->end; i++) {
    real *moments = (real *) a->moments + (i - a->begin) * COMPONENTS * a->ld;
    memset(moments, 0, (size_t) (COMPONENTS * a->ld) * sizeof *moments);
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const real *line = (const real *) a->radial->line.data + e * MLFF_PAINN_LINE;
      const real *coef = (const real *) a->radial->terms.data + e * 2 * a->n_terms;
      const int32_t slot = a->slot[line_load_index(line).species];
      real unit[COMPONENTS];
      if (slot < 0) continue;
      mlff_tensornet_components(line + LINE_UNIT, unit);
      for (int t = 0; t < a->n_terms; t += MLFF_VLEN) { /* terms from n_rows on are zeros */
        const vreal v = vload(coef + t);
        real *m = moments + slot * a->n_rows + t;
#pragma GCC unroll 9
        for (int k = 0; k < COMPONENTS; k++) vstore(m + k * a->ld, vload(m + k * a->ld) + unit[k] * v);
      }
    }
  }
}

/* dE/d(x_j - x_i) = dE/dr u + (dE/du - u (u.dE/du))/r of an edge */
static v4 edge_gradient(const real *line, const real *by_unit, real gr)
{
  real g[3];
  mlff_tensornet_components_backward(line + LINE_UNIT, by_unit, g);
  const v4 u = v4_load(line + LINE_UNIT), gu = {g[0], g[1], g[2], 0};
  const real along = g[0] * u[0] + g[1] * u[1] + g[2] * u[2];
  v4 out = gu * line[LINE_INVERSE] + u * (gr - along * line[LINE_INVERSE]);
  out[3] = 0;
  return out;
}

void MLFF_CPU(tensornet_moments_backward_cpu)(mlff_backend *backend, const mlff_tensornet_moments_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data;
  for (int64_t i = a->begin; i < a->end; i++) {
    const real *moments = (const real *) a->moments + (i - a->begin) * COMPONENTS * a->ld;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const real *line = (const real *) a->radial->line.data + e * MLFF_PAINN_LINE;
      const real *coef = (const real *) a->radial->terms.data + e * 2 * a->n_terms, *slope = coef + a->n_terms;
      const int32_t slot = a->slot[line_load_index(line).species];
      real unit[COMPONENTS], by_unit[COMPONENTS], *grad = (real *) a->edge_grad + 4 * e;
      v4 sum = {0};
      if (slot >= 0) {
        vreal gu[COMPONENTS], gr = vset(0);
        mlff_tensornet_components(line + LINE_UNIT, unit);
        for (int k = 0; k < COMPONENTS; k++) gu[k] = vset(0);
        for (int t = 0; t < a->n_terms; t += MLFF_VLEN) {
          const vreal c = vload(coef + t), s = vload(slope + t);
          const real *m = moments + slot * a->n_rows + t;
#pragma GCC unroll 9
          for (int k = 0; k < COMPONENTS; k++) {
            const vreal g = vload(m + k * a->ld);
            gu[k] += c * g;
            gr += s * unit[k] * g;
          }
        }
        for (int k = 1; k < COMPONENTS; k++) by_unit[k] = vsum(gu[k]);
        by_unit[0] = 0; /* of a constant */
        sum = edge_gradient(line, by_unit, vsum(gr));
      }
      v4_store(grad, a->accumulate ? sum + v4_load(grad) : sum);
    }
  }
}

/* ---- radial networks --------------------------------------------------------------------------------------------- */

enum { OUTPUTS = 4 }; /* at a time: 8 accumulators hide the latency of multiply-adds */

/* Values and slopes of one layer for MLFF_VLEN edges, one in each lane. */
typedef struct lanes {
  vreal value[MLFF_TENSORNET_WIDTH], slope[MLFF_TENSORNET_WIDTH];
} lanes;

static void radial_functions(const mlff_tensornet_network *net, const real *r, lanes *out)
{
  const real *first = net->first, *second = net->second;
  for (int k = 0; k < net->n_basis; k++) {
    for (int q = 0; q < MLFF_VLEN; q++) {
      double slope;
      out->value[k][q] = (real) mlff_tensornet_function(net->kind, (double) first[k], second ? (double) second[k] : 0.0,
                                                        (double) r[q], &slope);
      out->slope[k][q] = (real) slope;
    }
  }
}

/* Outputs o .. o + n_out of one layer; n_out is a constant. */
MLFF_INLINE void radial_outputs(const mlff_tensornet_network *net, int layer, int n_in, const lanes *in, int o,
                                const int n_out, lanes *out)
{
  const int n = net->width[layer];
  const real *w = (const real *) net->weight[layer] + o, *bias = (const real *) net->bias[layer] + o;
  vreal x[OUTPUTS], dx[OUTPUTS];
  for (int k = 0; k < n_out; k++) {
    x[k] = vset(bias[k]);
    dx[k] = vset(0);
  }
  for (int c = 0; c < n_in; c++, w += n) {
#pragma GCC unroll 4
    for (int k = 0; k < n_out; k++) {
      x[k] += w[k] * in->value[c];
      dx[k] += w[k] * in->slope[c];
    }
  }
  for (int k = 0; k < n_out; k++) {
    for (int q = 0; q < MLFF_VLEN; q++) {
      double slope;
      out->value[o + k][q] = (real) mlff_tensornet_activation(net->act, (double) x[k][q], &slope);
      out->slope[o + k][q] = (real) slope * dx[k][q];
    }
  }
}

static void radial_layer(const mlff_tensornet_network *net, int layer, int n_in, const lanes *in, lanes *out)
{
  int o = 0;
  for (; o + OUTPUTS <= net->width[layer]; o += OUTPUTS) radial_outputs(net, layer, n_in, in, o, OUTPUTS, out);
  for (; o < net->width[layer]; o++) radial_outputs(net, layer, n_in, in, o, 1, out);
}

/* q and dq/dr of n edges, which follow one another */
static void radial_batch(const mlff_tensornet_network *net, const real (*vec)[4], int n, real *terms)
{
  lanes in, out;
  real r[MLFF_VLEN], fc[MLFF_VLEN], dfc[MLFF_VLEN];
  const int64_t width = net->width[MLFF_TENSORNET_LAYERS - 1];
  for (int q = 0; q < MLFF_VLEN; q++) {
    double slope;
    r[q] = vec[q < n ? q : 0][3];
    fc[q] = (real) mlff_tensornet_cutoff((double) r[q], net->cutoff, &slope);
    dfc[q] = (real) slope;
  }
  radial_functions(net, r, &in);
  radial_layer(net, 0, net->n_basis, &in, &out);
  radial_layer(net, 1, net->width[0], &out, &in);
  radial_layer(net, 2, net->width[1], &in, &out);
  for (int q = 0; q < n; q++, terms += 2 * width) {
    for (int64_t c = 0; c < width; c++) {
      terms[c] = out.value[c][q] * fc[q];
      terms[width + c] = out.slope[c][q] * fc[q] + out.value[c][q] * dfc[q];
    }
  }
}

void MLFF_CPU(tensornet_terms_cpu)(mlff_backend *backend, const mlff_tensornet_terms_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data, width = a->network.width[MLFF_TENSORNET_LAYERS - 1];
  const real(*vec)[4] = a->edges->vec.data;
  for (int64_t e = row[a->begin]; e < row[a->end]; e += MLFF_VLEN) {
    const int n = row[a->end] - e < MLFF_VLEN ? (int) (row[a->end] - e) : MLFF_VLEN;
    radial_batch(&a->network, vec + e, n, (real *) a->terms + (e - row[a->begin]) * 2 * width);
  }
}
