/* painn_message.c: messages between atoms, forward and backward, on the CPU.
 *
 * Nothing is stored per edge but its line of radial data: filters are rebuilt from rows of a matrix that stays in the
 * first-level cache. Forward owns the receiver: q and mu of some channels stay in registers over its edges. Backward
 * owns the sender over the same list, which is symmetric: it gathers adjoints and needs no atomics, so results do not
 * depend on anything but the list's order.
 *
 * Measured on an Ice Lake core (AVX-512, float, 54 neighbors, 192 atoms of water), us per atom: F = 64 forward 1.5,
 * backward 2.9; F = 128 3.6 and 6.4, with a table of 513 intervals 6.8 and 7.7. That core loads 1.4 vectors of 64 bytes
 * per cycle and not 2, so forward is bound by loads. What lost: one vector of channels at a time forward (2.0),
 * differences of rows for value and slope (backward 3 % faster, tables 20 % slower), unrolling the channels of the
 * backward pass (8 % slower).
 */
#include "painn.h"

/* sum_t coef_t R[t] at one vector of channels: four terms in registers, or n_terms from memory. */
MLFF_INLINE vreal combine4(const vreal coef[4], const real *r, int64_t ld)
{
  return coef[0] * vload(r) + coef[1] * vload(r + ld) + coef[2] * vload(r + 2 * ld) + coef[3] * vload(r + 3 * ld);
}

MLFF_INLINE vreal combine_dense(const real *coef, int n_terms, const real *r, int64_t ld)
{
  vreal sum = coef[0] * vload(r);
  for (int t = 1; t < n_terms; t++) sum += coef[t] * vload(r + t * ld);
  return sum;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* Atom i, channels c .. c + nb vectors; nb, dense and often f = n_features are constants at a call. */
MLFF_INLINE void message_channels(const mlff_painn_message_args *a, const int64_t f, int64_t i, int c, const int nb,
                                  const int dense)
{
  const int64_t ld = 3 * f;
  const int64_t *row = a->edges->row.data;
  const real *rows = (const real *) a->rows + c, *state = (const real *) a->state + c;
  const real *lines = a->radial->line.data, *terms = a->radial->terms.data;
  const real *q_in = (const real *) a->q_in + i * f + c, *mu_in = state + i * 6 * f + 3 * f;
  vreal q[4], x[4], y[4], z[4];
#pragma GCC unroll 4
  for (int b = 0; b < nb; b++) {
    q[b] = vload(q_in + b * MLFF_VLEN);
    x[b] = vload(mu_in + b * MLFF_VLEN);
    y[b] = vload(mu_in + f + b * MLFF_VLEN);
    z[b] = vload(mu_in + 2 * f + b * MLFF_VLEN);
  }
  for (int64_t e = row[i]; e < row[i + 1]; e++) {
    const real *line = lines + e * MLFF_PAINN_LINE, *coef = dense ? terms + e * 2 * a->n_terms : NULL;
    const line_index index = line_load_index(line);
    const real *r = rows + (dense ? 0 : index.first * ld), *s = state + index.node * 6 * f;
    const vreal k[4] = {vset(line[0]), vset(line[1]), vset(line[2]), vset(line[3])};
    const vreal ux = vset(line[LINE_UNIT]), uy = vset(line[LINE_UNIT + 1]), uz = vset(line[LINE_UNIT + 2]);
#pragma GCC unroll 4
    for (int b = 0; b < nb; b++) {
      const real *rb = r + b * MLFF_VLEN, *sb = s + b * MLFF_VLEN;
      const vreal fa = dense ? combine_dense(coef, a->n_terms, rb, ld) : combine4(k, rb, ld);
      const vreal fb = dense ? combine_dense(coef, a->n_terms, rb + f, ld) : combine4(k, rb + f, ld);
      const vreal fc = dense ? combine_dense(coef, a->n_terms, rb + 2 * f, ld) : combine4(k, rb + 2 * f, ld);
      q[b] += fa * vload(sb);
      const vreal mb = fb * vload(sb + f), mc = fc * vload(sb + 2 * f);
      x[b] = x[b] + mb * ux + mc * vload(sb + 3 * f);
      y[b] = y[b] + mb * uy + mc * vload(sb + 4 * f);
      z[b] = z[b] + mb * uz + mc * vload(sb + 5 * f);
    }
  }
  real *q_out = (real *) a->q + (i - a->begin) * a->ldq + c, *mu_out = (real *) a->mu + (i - a->begin) * 3 * f + c;
#pragma GCC unroll 4
  for (int b = 0; b < nb; b++) {
    vstore(q_out + b * MLFF_VLEN, q[b]);
    vstore(mu_out + b * MLFF_VLEN, x[b]);
    vstore(mu_out + f + b * MLFF_VLEN, y[b]);
    vstore(mu_out + 2 * f + b * MLFF_VLEN, z[b]);
  }
}

/* All channels, in blocks around the loop over atoms, so that few columns of R are in use at a time. */
MLFF_INLINE void message_cubic(const mlff_painn_message_args *a, const int f)
{
  int c = 0;
#if MLFF_32_REGISTERS /* 32 registers hold the sums of four vectors of channels */
  for (; c + 4 * MLFF_VLEN <= f; c += 4 * MLFF_VLEN)
    for (int64_t i = a->begin; i < a->end; i++) message_channels(a, f, i, c, 4, 0);
#endif
  for (; c < f; c += MLFF_VLEN)
    for (int64_t i = a->begin; i < a->end; i++) message_channels(a, f, i, c, 1, 0);
}

static void message_dense(const mlff_painn_message_args *a)
{
  for (int64_t i = a->begin; i < a->end; i++)
    for (int c = 0; c < a->n_features; c += MLFF_VLEN) message_channels(a, a->n_features, i, c, 1, 1);
}

/* Constant widths make addresses constant. */
void MLFF_CPU(painn_message_cpu)(mlff_backend *backend, const mlff_painn_message_args *a)
{
  (void) backend;
  if (a->n_terms != 4)
    message_dense(a);
  else if (a->n_features == 64)
    message_cubic(a, 64);
  else if (a->n_features == 128)
    message_cubic(a, 128);
  else
    message_cubic(a, a->n_features);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* Sums of four vectors' lanes. */
MLFF_INLINE v4 vsum4(vreal a, vreal b, vreal c, vreal d)
{
#if MLFF_KERNELS_AVX512 && !MLFF_REAL_IS_DOUBLE
  const __m512 ab =
      _mm512_add_ps(_mm512_unpacklo_ps((__m512) a, (__m512) b), _mm512_unpackhi_ps((__m512) a, (__m512) b));
  const __m512 cd =
      _mm512_add_ps(_mm512_unpacklo_ps((__m512) c, (__m512) d), _mm512_unpackhi_ps((__m512) c, (__m512) d));
  const __m512 s = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
  return (v4) _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
#else
  return (v4){vsum(a), vsum(b), vsum(c), vsum(d)};
#endif
}

/* What the sender j keeps over its edges, for one vector of channels at a time: a, b of x_j and m = c mu_j; and sums:
 * g_x for a and b, and S = sum filter_c g_mu[i], from which g_c = mu_j.S and g_mu[j] += c S follow. Together in few
 * cache lines, and without the strides of powers of two that separate arrays would have. */
enum { SENDER_A, SENDER_B, SENDER_M, SENDER_GA = SENDER_M + 3, SENDER_GB, SENDER_S, SENDER_SIZE = SENDER_S + 3 };

typedef struct sender {
  vreal v[MLFF_PAINN_MAX_FEATURES / MLFF_VLEN][SENDER_SIZE];
} sender;

/* Filter and slope of one part at one vector of channels. */
typedef struct filter_slope {
  vreal f, d;
} filter_slope;

/* Keeps v in a register: GCC would load rows again for each use, and loads limit these loops. */
MLFF_INLINE vreal keep(vreal v)
{
#if MLFF_KERNELS_AVX512
  __asm__("" : "+v"(v));
#elif MLFF_32_REGISTERS
  __asm__("" : "+w"(v));
#endif
  return v;
}

MLFF_INLINE filter_slope combine_both(const vreal coef[4], const vreal slope[4], const real *r, int64_t ld)
{
  const vreal r0 = keep(vload(r)), r1 = keep(vload(r + ld)), r2 = keep(vload(r + 2 * ld)), r3 = keep(vload(r + 3 * ld));
  return (filter_slope){coef[0] * r0 + coef[1] * r1 + coef[2] * r2 + coef[3] * r3,
                        slope[0] * r0 + slope[1] * r1 + slope[2] * r2 + slope[3] * r3};
}

MLFF_INLINE filter_slope combine_both_dense(const real *coef, int n_terms, const real *r, int64_t ld)
{
  return (filter_slope){combine_dense(coef, n_terms, r, ld), combine_dense(coef + n_terms, n_terms, r, ld)};
}

/* Adds one edge to the sums of the sender and of the edge, where u is that of the list, so opposite to the edge's own:
 *   q[i] += fa a          g_a += fa g_q;           dE/dr += g_q a da
 *   mu[i] -= fb b u       g_b -= fb g.u;           dE/dr -= g.u b db;         dE/du -= fb b g
 *   mu[i] += fc c mu_j    S += fc g;               dE/dr += g.(c mu_j) dc            with g = g_mu[i] */
MLFF_INLINE v4 backward_edge(const mlff_painn_message_args *a, const int64_t f, sender *j, int64_t e, const int dense)
{
  const int64_t ld = 3 * f;
  const real *line = (const real *) a->radial->line.data + e * MLFF_PAINN_LINE;
  const real *terms = dense ? (const real *) a->radial->terms.data + e * 2 * a->n_terms : NULL;
  const line_index index = line_load_index(line);
  const real *r = (const real *) a->rows + (dense ? 0 : index.first * ld),
             *g = (const real *) a->grad + index.node * 4 * f;
  const vreal p[4] = {vset(line[0]), vset(line[1]), vset(line[2]), vset(line[3])};
  const vreal d[4] = {vset(line[4]), vset(line[5]), vset(line[6]), vset(line[7])};
  const vreal ux = vset(line[LINE_UNIT]), uy = vset(line[LINE_UNIT + 1]), uz = vset(line[LINE_UNIT + 2]);
  vreal sum_x = vset(0), sum_y = vset(0), sum_z = vset(0), sum_r = vset(0);
  vreal *s = j->v[0];
  for (const real *end = r + f; r < end; r += MLFF_VLEN, g += MLFF_VLEN, s += SENDER_SIZE) {
    const filter_slope fa = dense ? combine_both_dense(terms, a->n_terms, r, ld) : combine_both(p, d, r, ld);
    const vreal gq = vload(g);
    s[SENDER_GA] += fa.f * gq;
    sum_r += (gq * s[SENDER_A]) * fa.d;
    const vreal gx = vload(g + f), gy = vload(g + 2 * f), gz = vload(g + 3 * f), gu = gx * ux + gy * uy + gz * uz;
    const filter_slope fb = dense ? combine_both_dense(terms, a->n_terms, r + f, ld) : combine_both(p, d, r + f, ld);
    const vreal b = keep(s[SENDER_B]), fbb = fb.f * b;
    s[SENDER_GB] -= fb.f * gu;
    sum_r -= (gu * b) * fb.d;
    sum_x -= fbb * gx;
    sum_y -= fbb * gy;
    sum_z -= fbb * gz;
    const filter_slope fc =
        dense ? combine_both_dense(terms, a->n_terms, r + 2 * f, ld) : combine_both(p, d, r + 2 * f, ld);
    sum_r += (gx * s[SENDER_M] + gy * s[SENDER_M + 1] + gz * s[SENDER_M + 2]) * fc.d;
    s[SENDER_S] += fc.f * gx;
    s[SENDER_S + 1] += fc.f * gy;
    s[SENDER_S + 2] += fc.f * gz;
  }
  return vsum4(sum_x, sum_y, sum_z, sum_r);
}

static void sender_begin(const mlff_painn_message_args *a, int64_t i, sender *j)
{
  const int f = a->n_features;
  const real *x = (const real *) a->state + i * 6 * f, *mu = x + 3 * f;
  for (int k = 0; k < f; k += MLFF_VLEN) {
    vreal *s = j->v[k / MLFF_VLEN];
    s[SENDER_A] = vload(x + k);
    s[SENDER_B] = vload(x + f + k);
    for (int d = 0; d < 3; d++) s[SENDER_M + d] = vload(x + 2 * f + k) * vload(mu + d * f + k);
    for (int d = SENDER_GA; d < SENDER_SIZE; d++) s[d] = vset(0);
  }
}

static void sender_end(const mlff_painn_message_args *a, int64_t i, const sender *j)
{
  const int f = a->n_features;
  const real *c = (const real *) a->state + i * 6 * f + 2 * f, *mu = c + f;
  const real *grad = (const real *) a->grad + i * 4 * f;
  real *grad_x = (real *) a->grad_x + (i - a->begin) * 3 * f, *grad_in = (real *) a->grad_in + (i - a->begin) * 4 * f;
  for (int k = 0; k < f; k += MLFF_VLEN) {
    const vreal *s = j->v[k / MLFF_VLEN], *sum = s + SENDER_S;
    vstore(grad_x + k, s[SENDER_GA]);
    vstore(grad_x + f + k, s[SENDER_GB]);
    vstore(grad_x + 2 * f + k, sum[0] * vload(mu + k) + sum[1] * vload(mu + f + k) + sum[2] * vload(mu + 2 * f + k));
    vstore(grad_in + k, vload(grad + k));
    for (int d = 0; d < 3; d++)
      vstore(grad_in + (d + 1) * f + k, vload(grad + (d + 1) * f + k) + vload(c + k) * sum[d]);
  }
}

MLFF_INLINE void message_backward(const mlff_painn_message_args *a, const int64_t f, const int dense)
{
  const int64_t *row = a->edges->row.data;
  real *edge_grad = a->edge_grad;
  sender j;
  for (int64_t i = a->begin; i < a->end; i++) {
    sender_begin(a, i, &j);
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      v4 sum = backward_edge(a, f, &j, e, dense);
      if (a->accumulate) sum += v4_load(edge_grad + 4 * e);
      v4_store(edge_grad + 4 * e, sum);
    }
    sender_end(a, i, &j);
  }
}

void MLFF_CPU(painn_message_backward_cpu)(mlff_backend *backend, const mlff_painn_message_args *a)
{
  (void) backend;
  if (a->n_terms != 4)
    message_backward(a, a->n_features, 1);
  else if (a->n_features == 64)
    message_backward(a, 64, 0);
  else if (a->n_features == 128)
    message_backward(a, 128, 0);
  else
    message_backward(a, a->n_features, 0);
}
