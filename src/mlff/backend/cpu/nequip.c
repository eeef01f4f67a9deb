/* nequip.c: the NequIP ops of the CPU: radial network, first layer, gates and readout. Messages: nequip_message.c. */
#include "nequip.h"

#include "../nequip_radial.h"

/* ---- radial network ---------------------------------------------------------------------------------------------- */

static int32_t edge_pair(const mlff_nequip_terms_args *a, int64_t e)
{
  return line_load_index((const real *) a->lines->line.data + e * MLFF_PAINN_LINE).pair;
}

void MLFF_CPU(nequip_terms_cpu)(mlff_backend *backend, const mlff_nequip_terms_args *a)
{
  (void) backend;
  const real(*vec)[4] = a->edges->vec.data;
  real *terms = a->terms;
  const int width = mlff_nequip_n_units(a);
  for (int64_t e = 0; e < a->edges->n_edges; e++, terms += 2 * a->n_terms) {
    real value[MLFF_NEQUIP_HIDDEN], slope[MLFF_NEQUIP_HIDDEN];
    const double r0 = a->radius ? (double) ((const real *) a->radius)[edge_pair(a, e)] : 0;
    const real *bias = a->pair_bias ? (const real *) a->pair_bias + edge_pair(a, e) * (int64_t) a->width[0] : NULL;
    mlff_nequip_hidden(a, r0, bias, (double) vec[e][3], value, slope);
    memcpy(terms + a->first, value, (size_t) width * sizeof *terms);
    memcpy(terms + a->n_terms + a->first, slope, (size_t) width * sizeof *terms);
    for (int t = a->first + width; t < a->n_terms; t++) terms[t] = terms[a->n_terms + t] = 0;
  }
}

/* ---- first layer ------------------------------------------------------------------------------------------------- */

enum { FIRST_COLUMNS = 4 * 1024 }; /* maximum for one edge, checked by nequip_load.c */

/* R of the species of edge e's neighbor, NULL when it cannot occur. */
MLFF_INLINE const real *first_rows(const mlff_nequip_first_args *a, int64_t e)
{
  const int32_t slot = a->slot[line_load_index(edge_line(&a->radial, e)).species];
  return slot < 0 ? NULL : (const real *) a->rows + slot * a->n_rows * a->radial.n_weights;
}

static void first_begin(const mlff_nequip_first_args *a, int64_t i, real *z)
{
  const int32_t species = ((const int32_t *) a->edges->center_species.data)[i];
  memset(z, 0, (size_t) a->out.ld * sizeof *z);
  if (species >= 0 && a->slot[species] >= 0)
    memcpy(z, (const real *) a->bias + (int64_t) a->slot[species] * a->out.n[0], (size_t) a->out.n[0] * sizeof *z);
}

/* ---- the only layer ---------------------------------------------------------------------------------------------- */

/* Networks of one layer spend most of their time here. With the order l a constant, loops over m are unrolled and sums
 * stay in registers. Networks with more layers keep the code below, and with it the rounding of their results. */

/* out[k] = vsum(v[k]): halves of vectors are paired before they are added, 15 additions instead of 64. */
MLFF_INLINE void sum_harmonics(const vreal v[MLFF_NEQUIP_HARMONICS], real out[MLFF_NEQUIP_HARMONICS])
{
#if MLFF_KERNELS_AVX512 && !MLFF_REAL_IS_DOUBLE
#define PAIR(shuffle, a, b, low, high) _mm512_add_ps(shuffle(a, b, low), shuffle(a, b, high))
  __m512 s[4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; q++) {
    const __m512 ab = PAIR(_mm512_shuffle_f32x4, (__m512) v[q], (__m512) v[4 + q], 0x44, 0xEE);
    const __m512 cd = PAIR(_mm512_shuffle_f32x4, (__m512) v[8 + q], (__m512) v[12 + q], 0x44, 0xEE);
    s[q] = PAIR(_mm512_shuffle_f32x4, ab, cd, 0x88, 0xDD);
  }
  const __m512 low = PAIR(_mm512_shuffle_ps, s[0], s[1], 0x44, 0xEE);
  const __m512 high = PAIR(_mm512_shuffle_ps, s[2], s[3], 0x44, 0xEE);
  _mm512_storeu_ps(out, PAIR(_mm512_shuffle_ps, low, high, 0x88, 0xDD));
#undef PAIR
#elif MLFF_KERNELS_AVX2 && !MLFF_REAL_IS_DOUBLE
#define PAIR(shuffle, a, b, low, high) _mm256_add_ps(shuffle(a, b, low), shuffle(a, b, high))
#pragma GCC unroll 2
  for (int half = 0; half < MLFF_NEQUIP_HARMONICS; half += 8) {
    __m256 s[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++)
      s[q] = PAIR(_mm256_permute2f128_ps, (__m256) v[half + q], (__m256) v[half + 4 + q], 0x20, 0x31);
    const __m256 low = PAIR(_mm256_shuffle_ps, s[0], s[1], 0x44, 0xEE);
    const __m256 high = PAIR(_mm256_shuffle_ps, s[2], s[3], 0x44, 0xEE);
    _mm256_storeu_ps(out + half, PAIR(_mm256_shuffle_ps, low, high, 0x88, 0xDD));
  }
#undef PAIR
#else
  for (int k = 0; k < MLFF_NEQUIP_HARMONICS; k++) out[k] = vsum(v[k]);
#endif
}

/* z[m][o] += w[o] Y[m] of the order l */
MLFF_INLINE void order_forward(const int l, int n, const real *w, const real *harmonic, real *z)
{
  for (int o = 0; o < n; o += MLFF_VLEN) {
    const vreal wo = vload(w + o);
#pragma GCC unroll 7
    for (int m = 0; m < 2 * l + 1; m++) vstore(z + m * n + o, vload(z + m * n + o) + harmonic[m] * wo);
  }
}

/* reverses order_forward, g the adjoint of z: writes dE/dY in gy, and returns gr with the part of dE/dr added */
MLFF_INLINE vreal order_backward(const int l, int n, const real *g, const real *harmonic, const real *w, const real *dw,
                                 vreal gr, vreal *gy)
{
  vreal sum[7];
#pragma GCC unroll 7
  for (int m = 0; m < 2 * l + 1; m++) sum[m] = vset(0);
  for (int o = 0; o < n; o += MLFF_VLEN) {
    const vreal wo = vload(w + o);
    vreal gw = vset(0);
#pragma GCC unroll 7
    for (int m = 0; m < 2 * l + 1; m++) {
      const vreal gm = vload(g + m * n + o);
      gw += harmonic[m] * gm;
      sum[m] += wo * gm;
    }
    gr += gw * vload(dw + o);
  }
#pragma GCC unroll 7
  for (int m = 0; m < 2 * l + 1; m++) gy[m] = sum[m];
  return gr;
}

static void single_layer(const mlff_nequip_first_args *a)
{
  const int64_t *row = a->edges->row.data;
  real w[FIRST_COLUMNS] __attribute__((aligned(64))), harmonic[MLFF_NEQUIP_HARMONICS];
  for (int64_t i = a->begin; i < a->end; i++) {
    real *z = (real *) a->z + (i - a->begin) * a->out.ld;
    first_begin(a, i, z);
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const real *rows = first_rows(a, e), *wl = w;
      if (!rows) continue;
      edge_weights(&a->radial, rows, e, w, NULL);
      mlff_nequip_harmonics(edge_line(&a->radial, e) + LINE_UNIT, harmonic);
#pragma GCC unroll 4
      for (int l = 0; l < MLFF_NEQUIP_ORDERS; l++) {
        if (l >= a->out.n_orders) break;
        order_forward(l, a->out.n[l], wl, harmonic + l * l, z + a->out.offset[l]);
        wl += a->out.n[l];
      }
    }
  }
}

static void single_layer_backward(const mlff_nequip_first_args *a)
{
  const int64_t *row = a->edges->row.data;
  real w[FIRST_COLUMNS] __attribute__((aligned(64))), dw[FIRST_COLUMNS] __attribute__((aligned(64)));
  real harmonic[MLFF_NEQUIP_HARMONICS], sums[MLFF_NEQUIP_HARMONICS], out[3];
  for (int64_t i = a->begin; i < a->end; i++) {
    const real *g = (const real *) a->z + (i - a->begin) * a->out.ld;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      vreal gy[MLFF_NEQUIP_HARMONICS] = {{0}}, gr = vset(0);
      const real *rows = first_rows(a, e), *line = edge_line(&a->radial, e);
      if (rows) {
        const real *wl = w, *dwl = dw;
        edge_weights(&a->radial, rows, e, w, dw);
        mlff_nequip_harmonics(line + LINE_UNIT, harmonic);
#pragma GCC unroll 4
        for (int l = 0; l < MLFF_NEQUIP_ORDERS; l++) {
          if (l >= a->out.n_orders) break;
          gr = order_backward(l, a->out.n[l], g + a->out.offset[l], harmonic + l * l, wl, dwl, gr, gy + l * l);
          wl += a->out.n[l];
          dwl += a->out.n[l];
        }
      }
      gy[0] = gr; /* in the place of dE/dY_00, which is a constant's */
      sum_harmonics(gy, sums);
      mlff_nequip_edge_gradient(line + LINE_UNIT, line[LINE_INVERSE], sums, sums[0], out);
      v4_store((real *) a->edge_grad + 4 * e, (v4){out[0], out[1], out[2], 0});
    }
  }
}

/* ---- the first layer of several ---------------------------------------------------------------------------------- */

void MLFF_CPU(nequip_first_cpu)(mlff_backend *backend, const mlff_nequip_first_args *a)
{
  (void) backend;
  if (!a->accumulate) {
    single_layer(a);
    return;
  }
  const int64_t *row = a->edges->row.data;
  real w[FIRST_COLUMNS] __attribute__((aligned(64))), harmonic[MLFF_NEQUIP_HARMONICS];
  for (int64_t i = a->begin; i < a->end; i++) {
    real *z = (real *) a->z + (i - a->begin) * a->out.ld;
    first_begin(a, i, z);
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const real *rows = first_rows(a, e), *wl = w;
      if (!rows) continue;
      edge_weights(&a->radial, rows, e, w, NULL);
      mlff_nequip_harmonics(edge_line(&a->radial, e) + LINE_UNIT, harmonic);
      for (int l = 0; l < a->out.n_orders; wl += a->out.n[l++]) {
        for (int m = 0; m < 2 * l + 1; m++) {
          real *out_row = z + a->out.offset[l] + m * a->out.n[l];
          const vreal y = vset(harmonic[l * l + m]);
          for (int o = 0; o < a->out.n[l]; o += MLFF_VLEN) vstore(out_row + o, vload(out_row + o) + y * vload(wl + o));
        }
      }
    }
  }
}

/* reverses z[l][m][o] += w_{l,o} Y_lm for one edge, g the adjoint of z: returns dE/dr, and dE/dY in gy */
MLFF_INLINE vreal first_edge(const mlff_nequip_first_args *a, const real *g, const real *harmonic, const real *w,
                             const real *dw, vreal *gy)
{
  vreal gr = vset(0);
  for (int l = 0, column = 0; l < a->out.n_orders; column += a->out.n[l++]) {
    vreal y[7], sum[7];
    for (int m = 0; m < 2 * l + 1; m++) {
      y[m] = vset(harmonic[l * l + m]);
      sum[m] = vset(0);
    }
    for (int o = 0; o < a->out.n[l]; o += MLFF_VLEN) {
      const vreal wo = vload(w + column + o);
      vreal gw = vset(0);
      for (int m = 0; m < 2 * l + 1; m++) {
        const vreal gm = vload(g + a->out.offset[l] + m * a->out.n[l] + o);
        gw += y[m] * gm;
        sum[m] += wo * gm;
      }
      gr += gw * vload(dw + column + o);
    }
    for (int m = 0; m < 2 * l + 1; m++) gy[l * l + m] = sum[m];
  }
  return gr;
}

void MLFF_CPU(nequip_first_backward_cpu)(mlff_backend *backend, const mlff_nequip_first_args *a)
{
  (void) backend;
  if (!a->accumulate) {
    single_layer_backward(a);
    return;
  }
  const int64_t *row = a->edges->row.data;
  real w[FIRST_COLUMNS] __attribute__((aligned(64))), dw[FIRST_COLUMNS] __attribute__((aligned(64)));
  real harmonic[MLFF_NEQUIP_HARMONICS];
  for (int64_t i = a->begin; i < a->end; i++) {
    const real *g = (const real *) a->z + (i - a->begin) * a->out.ld;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      vreal gy[MLFF_NEQUIP_HARMONICS] = {{0}}, gr = vset(0);
      const real *rows = first_rows(a, e);
      if (rows) {
        edge_weights(&a->radial, rows, e, w, dw);
        mlff_nequip_harmonics(edge_line(&a->radial, e) + LINE_UNIT, harmonic);
        gr = first_edge(a, g, harmonic, w, dw, gy);
      }
      edge_store_gradient(&a->radial, e, gy, gr, a->edge_grad, a->accumulate);
    }
  }
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* 1/((2l+1)^2 n_orders): what a square of order l counts in the norm */
MLFF_INLINE real norm_share(const mlff_nequip_row *row, int l)
{
  return (real) (1.0 / ((2 * l + 1) * (2 * l + 1) * row->n_orders));
}

/* s = epsilon + sum z^2/((2l+1)^2 n_orders) of a row */
static double norm_square(const mlff_nequip_row *row, const real *z, double epsilon)
{
  double s = epsilon;
  for (int l = 0; l < row->n_orders; l++) {
    vreal sum = vset(0);
    for (int c = 0; c < (2 * l + 1) * row->n[l]; c += MLFF_VLEN) {
      const vreal v = vload(z + row->offset[l] + c);
      sum += v * v;
    }
    s += (double) (vsum(sum) * norm_share(row, l));
  }
  return s;
}

/* g/sqrt(s) of the vector of channels at `channel`, counted over all orders. */
MLFF_INLINE vreal channel_scale(const mlff_nequip_gate_args *a, int channel, real scale)
{
  return a->weight ? vload((const real *) a->weight + channel) * scale : vset(1);
}

/* What multiplies an order l > 0 but for its gain. */
MLFF_INLINE vreal gate_of(const mlff_nequip_gate_args *a, vreal q, vreal *slope)
{
  const vreal s = vsigmoid(q);
  if (a->gate_gain == 0) return mlff_silu(q, s, slope);
  *slope = s * (1 - s);
  return s;
}

MLFF_INLINE real gain_of_gates(const mlff_nequip_gate_args *a)
{
  return (real) (a->gate_gain == 0 ? a->gain : a->gate_gain);
}

static void gate_row(const mlff_nequip_gate_args *a, const real *z, real scale, real *x)
{
  const mlff_nequip_row *in = &a->in, *out = &a->out;
  const real gain = (real) a->gain, gate_gain = gain_of_gates(a);
  vreal slope;
  for (int c = 0; c < out->n[0]; c += MLFF_VLEN) {
    const vreal q = vload(z + c) * channel_scale(a, c, scale);
    vstore(x + c, gain * mlff_silu(q, vsigmoid(q), &slope));
  }
  for (int l = 1, gates = out->n[0], channel = in->n[0]; l < out->n_orders;
       gates += out->n[l], channel += out->n[l++]) {
    for (int c = 0; c < out->n[l]; c += MLFF_VLEN) {
      const vreal q = vload(z + gates + c) * channel_scale(a, gates + c, scale);
      const vreal gate = gate_gain * gate_of(a, q, &slope) * channel_scale(a, channel + c, scale);
      for (int m = 0; m < 2 * l + 1; m++)
        vstore(x + out->offset[l] + m * out->n[l] + c, gate * vload(z + in->offset[l] + m * in->n[l] + c));
    }
  }
}

void MLFF_CPU(nequip_gate_cpu)(mlff_backend *backend, const mlff_nequip_gate_args *a)
{
  (void) backend;
  for (int64_t i = 0; i < a->n; i++) {
    const real *z = (const real *) a->z + i * a->in.ld;
    real scale = 1;
    if (a->weight) ((real *) a->scale)[i] = scale = (real) (1.0 / sqrt(norm_square(&a->in, z, a->epsilon)));
    gate_row(a, z, scale, (real *) a->x + i * a->out.ld);
  }
}

/* reverses gate_row: v = g_q g/sqrt(s), that is g_z without the norm's own part; returns sum v z. v may alias z. */
static double gate_row_backward(const mlff_nequip_gate_args *a, const real *z, real scale, const real *g, real *v)
{
  const mlff_nequip_row *in = &a->in, *out = &a->out;
  const real gain = (real) a->gain, gate_gain = gain_of_gates(a);
  vreal dot = vset(0);
  for (int l = 1, gates = out->n[0], channel = in->n[0]; l < out->n_orders;
       gates += out->n[l], channel += out->n[l++]) {
    for (int c = 0; c < out->n[l]; c += MLFF_VLEN) {
      const vreal gate_scale = channel_scale(a, gates + c, scale), z_gate = vload(z + gates + c);
      const vreal x_scale = channel_scale(a, channel + c, scale), q = z_gate * gate_scale;
      vreal slope, sum = vset(0);
      const vreal gate = gate_gain * x_scale * gate_of(a, q, &slope);
      for (int m = 0; m < 2 * l + 1; m++) {
        const int column = in->offset[l] + m * in->n[l] + c;
        const vreal gm = vload(g + out->offset[l] + m * out->n[l] + c), zm = vload(z + column);
        sum += gm * zm;
        dot += gm * gate * zm;
        vstore(v + column, gm * gate);
      }
      const vreal v_gate = gate_gain * x_scale * sum * slope * gate_scale;
      dot += v_gate * z_gate;
      vstore(v + gates + c, v_gate);
    }
  }
  for (int c = 0; c < out->n[0]; c += MLFF_VLEN) {
    const vreal s = channel_scale(a, c, scale), zc = vload(z + c), q = zc * s;
    vreal slope;
    mlff_silu(q, vsigmoid(q), &slope);
    const vreal vc = gain * vload(g + c) * slope * s;
    dot += vc * zc;
    vstore(v + c, vc);
  }
  return (double) vsum(dot);
}

/* g_z = v - z sum(v z)/(s (2l+1)^2 n_orders), where v has 1/sqrt(s) in it already */
void MLFF_CPU(nequip_gate_backward_cpu)(mlff_backend *backend, const mlff_nequip_gate_args *a)
{
  (void) backend;
  for (int64_t i = 0; i < a->n; i++) {
    const real *z = (const real *) a->z + i * a->in.ld;
    real *grad = (real *) a->grad_z + i * a->in.ld;
    const real scale = a->weight ? ((const real *) a->scale)[i] : 1;
    real v[FIRST_COLUMNS] __attribute__((aligned(64)));
    const double dot =
        gate_row_backward(a, z, scale, (const real *) a->grad_x + i * a->out.ld, a->gate_gain == 0 ? v : grad);
    if (a->gate_gain != 0) continue; /* without a norm */
    for (int l = 0; l < a->in.n_orders; l++) {
      const real share = a->weight ? (real) (dot * (double) (scale * scale * norm_share(&a->in, l))) : 0;
      for (int c = 0; c < (2 * l + 1) * a->in.n[l]; c += MLFF_VLEN) {
        const int column = a->in.offset[l] + c;
        vstore(grad + column, vload(v + column) - share * vload(z + column));
      }
    }
  }
}

void MLFF_CPU(nequip_readout_cpu)(mlff_backend *backend, const mlff_nequip_readout_args *a)
{
  (void) backend;
  for (int64_t i = 0; i < a->n; i++) {
    const real *x = (const real *) a->x + i * a->width;
    real *grad = (real *) a->grad + i * a->width, *energy = (real *) a->energy + i;
    const int32_t slot = a->species[i] < 0 ? -1 : a->slot[a->species[i]];
    vreal sum = vset(0);
    if (slot < 0) memset(grad, 0, (size_t) a->width * sizeof *grad);
    for (int c = 0; slot >= 0 && c < a->width; c += MLFF_VLEN) {
      const vreal w = vload((const real *) a->weight + (int64_t) slot * a->width + c);
      sum += w * vload(x + c);
      vstore(grad + c, w);
    }
    *energy = vsum(sum);
  }
}
