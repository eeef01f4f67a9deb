/* painn_message.c: messages between atoms, forward and backward, on the CPU.
 *
 * Nothing is stored per edge but its line of radial data: filters are rebuilt from rows of a matrix that stays in the
 * first-level cache. Forward owns the receiver: q and mu of some channels stay in registers over its edges. Backward
 * owns the sender over the same list, which is symmetric: it gathers adjoints and needs no atomics, so results do not
 * depend on anything but the list's order.
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

/* Atom i, channels c .. c + nb vectors; nb and dense are constants at every call. */
MLFF_INLINE void message_channels(const mlff_painn_message_args *a, int64_t i, int c, const int nb, const int dense)
{
  const int64_t f = a->n_features, ld = 3 * f;
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
    const real *line = lines + e * MLFF_PAINN_LINE, *coef = terms + e * 2 * a->n_terms;
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
      x[b] += mb * ux + mc * vload(sb + 3 * f);
      y[b] += mb * uy + mc * vload(sb + 4 * f);
      z[b] += mb * uz + mc * vload(sb + 5 * f);
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

static void message_dense(const mlff_painn_message_args *a)
{
  for (int64_t i = a->begin; i < a->end; i++)
    for (int c = 0; c < a->n_features; c += MLFF_VLEN) message_channels(a, i, c, 1, 1);
}

/* Channels are the outer loop over the block of atoms, so that few columns of R are in use at a time. */
void MLFF_CPU(painn_message_cpu)(mlff_backend *backend, const mlff_painn_message_args *a)
{
  (void) backend;
  if (a->n_terms != 4) {
    message_dense(a);
    return;
  }
  int c = 0;
#if MLFF_KERNELS_AVX512 /* 32 registers hold the sums of four vectors of channels */
  for (; c + 4 * MLFF_VLEN <= a->n_features; c += 4 * MLFF_VLEN)
    for (int64_t i = a->begin; i < a->end; i++) message_channels(a, i, c, 4, 0);
  for (; c + 2 * MLFF_VLEN <= a->n_features; c += 2 * MLFF_VLEN)
    for (int64_t i = a->begin; i < a->end; i++) message_channels(a, i, c, 2, 0);
#endif
  for (; c < a->n_features; c += MLFF_VLEN)
    for (int64_t i = a->begin; i < a->end; i++) message_channels(a, i, c, 1, 0);
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* Sums of four vectors' lanes. */
MLFF_INLINE v4 vsum4(vreal a, vreal b, vreal c, vreal d)
{
#if MLFF_KERNELS_AVX512 && !MLFF_REAL_IS_DOUBLE
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512) a, (__m512) b), _mm512_unpackhi_ps((__m512) a, (__m512) b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512) c, (__m512) d), _mm512_unpackhi_ps((__m512) c, (__m512) d));
  const __m512 s = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
  return (v4) _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
#else
  return (v4){vsum(a), vsum(b), vsum(c), vsum(d)};
#endif
}

/* What the sender j keeps over its edges, n_features each; owner: a, b of x_j and c mu_j; sums: g_x for a and b, and
 * S = sum filter_c g_mu[i], from which g_c = mu_j.S and g_mu[j] += c S follow. */
typedef struct sender {
  real a[MLFF_PAINN_MAX_FEATURES], b[MLFF_PAINN_MAX_FEATURES], m[3][MLFF_PAINN_MAX_FEATURES];
  real ga[MLFF_PAINN_MAX_FEATURES], gb[MLFF_PAINN_MAX_FEATURES], s[3][MLFF_PAINN_MAX_FEATURES];
} sender;

MLFF_INLINE void add_to(real *p, vreal v)
{
  vstore(p, vload(p) + v);
}

/* One edge at one vector of channels. With g = g_mu[i], (fa, fb, fc) the filter and (da, db, dc) its slope:
 *   q[i] += fa a                g_a += fa g_q;             dE/dr += g_q a da
 *   mu[i] += fb b u             g_b += fb g.u;             dE/dr += g.u b db;      dE/du += fb b g
 *   mu[i] += fc c mu_j          S += fc g;                 dE/dr += g.(c mu_j) dc                            */
MLFF_INLINE void backward_channels(sender *j, int k, const real *grad, int64_t f, const vreal u[3], vreal fa, vreal fb,
                                   vreal fc, vreal da, vreal db, vreal dc, vreal sum[4])
{
  const vreal gq = vload(grad), gx = vload(grad + f), gy = vload(grad + 2 * f), gz = vload(grad + 3 * f);
  const vreal gu = gx * u[0] + gy * u[1] + gz * u[2];
  const vreal gm = gx * vload(j->m[0] + k) + gy * vload(j->m[1] + k) + gz * vload(j->m[2] + k);
  const vreal b = vload(j->b + k), fbb = fb * b;
  add_to(j->ga + k, fa * gq);
  add_to(j->gb + k, fb * gu);
  add_to(j->s[0] + k, fc * gx);
  add_to(j->s[1] + k, fc * gy);
  add_to(j->s[2] + k, fc * gz);
  sum[0] += fbb * gx;
  sum[1] += fbb * gy;
  sum[2] += fbb * gz;
  sum[3] += (gq * vload(j->a + k)) * da + (gu * b) * db + gm * dc;
}

MLFF_INLINE v4 backward_edge(const mlff_painn_message_args *a, sender *j, int64_t e, const int dense)
{
  const int64_t f = a->n_features, ld = 3 * f;
  const real *line = (const real *) a->radial->line.data + e * MLFF_PAINN_LINE;
  const real *coef = (const real *) a->radial->terms.data + e * 2 * a->n_terms, *slope = coef + a->n_terms;
  const line_index index = line_load_index(line);
  const real *r = (const real *) a->rows + (dense ? 0 : index.first * ld), *grad = (const real *) a->grad + index.node * 4 * f;
  const vreal p[4] = {vset(line[0]), vset(line[1]), vset(line[2]), vset(line[3])};
  const vreal d[4] = {vset(line[4]), vset(line[5]), vset(line[6]), vset(line[7])};
  const vreal u[3] = {vset(-line[LINE_UNIT]), vset(-line[LINE_UNIT + 1]), vset(-line[LINE_UNIT + 2])};
  vreal sum[4] = {{0}, {0}, {0}, {0}};
  const int n = a->n_terms;
  for (int k = 0; k < (int) f; k += MLFF_VLEN) {
    const real *ra = r + k, *rb = ra + f, *rc = rb + f;
    if (dense) {
      backward_channels(j, k, grad + k, f, u, combine_dense(coef, n, ra, ld), combine_dense(coef, n, rb, ld),
                        combine_dense(coef, n, rc, ld), combine_dense(slope, n, ra, ld), combine_dense(slope, n, rb, ld),
                        combine_dense(slope, n, rc, ld), sum);
    } else {
      backward_channels(j, k, grad + k, f, u, combine4(p, ra, ld), combine4(p, rb, ld), combine4(p, rc, ld),
                        combine4(d, ra, ld), combine4(d, rb, ld), combine4(d, rc, ld), sum);
    }
  }
  return vsum4(sum[0], sum[1], sum[2], sum[3]);
}

static void sender_begin(const mlff_painn_message_args *a, int64_t i, sender *j)
{
  const int f = a->n_features;
  const real *x = (const real *) a->state + i * 6 * f, *mu = x + 3 * f;
  memset(j->ga, 0, (size_t) f * sizeof(real));
  memset(j->gb, 0, (size_t) f * sizeof(real));
  memcpy(j->a, x, (size_t) f * sizeof(real));
  memcpy(j->b, x + f, (size_t) f * sizeof(real));
  for (int d = 0; d < 3; d++) {
    memset(j->s[d], 0, (size_t) f * sizeof(real));
    for (int k = 0; k < f; k += MLFF_VLEN) vstore(j->m[d] + k, vload(x + 2 * f + k) * vload(mu + d * f + k));
  }
}

static void sender_end(const mlff_painn_message_args *a, int64_t i, const sender *j)
{
  const int f = a->n_features;
  const real *c = (const real *) a->state + i * 6 * f + 2 * f, *mu = c + f;
  const real *grad = (const real *) a->grad + i * 4 * f;
  real *grad_x = (real *) a->grad_x + (i - a->begin) * 3 * f, *grad_in = (real *) a->grad_in + (i - a->begin) * 4 * f;
  memcpy(grad_x, j->ga, (size_t) f * sizeof(real));
  memcpy(grad_x + f, j->gb, (size_t) f * sizeof(real));
  memcpy(grad_in, grad, (size_t) f * sizeof(real));
  for (int k = 0; k < f; k += MLFF_VLEN) {
    const vreal sx = vload(j->s[0] + k), sy = vload(j->s[1] + k), sz = vload(j->s[2] + k), ck = vload(c + k);
    vstore(grad_x + 2 * f + k, sx * vload(mu + k) + sy * vload(mu + f + k) + sz * vload(mu + 2 * f + k));
    vstore(grad_in + f + k, vload(grad + f + k) + ck * sx);
    vstore(grad_in + 2 * f + k, vload(grad + 2 * f + k) + ck * sy);
    vstore(grad_in + 3 * f + k, vload(grad + 3 * f + k) + ck * sz);
  }
}

void MLFF_CPU(painn_message_backward_cpu)(mlff_backend *backend, const mlff_painn_message_args *a)
{
  (void) backend;
  const v4 sign = {-1, -1, -1, 1}; /* u above points from i to j, that of the list from j to i */
  const int64_t *row = a->edges->row.data;
  real *edge_grad = a->edge_grad;
  sender j;
  for (int64_t i = a->begin; i < a->end; i++) {
    sender_begin(a, i, &j);
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      v4 sum = sign * (a->n_terms == 4 ? backward_edge(a, &j, e, 0) : backward_edge(a, &j, e, 1));
      if (a->accumulate) sum += v4_load(edge_grad + 4 * e);
      v4_store(edge_grad + 4 * e, sum);
    }
    sender_end(a, i, &j);
  }
}
