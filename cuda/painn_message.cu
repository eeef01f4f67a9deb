/* painn_message.cu: messages between atoms, forward and backward, on the GPU. Twin: cpu/painn_message.c.
 *
 * Forward owns the receiver, backward the sender over the same list, which is symmetric: both gather, so there are no
 * atomics and results depend on nothing but the list's order. Filters are rebuilt from rows of R, which stay in cache.
 */
#include "painn.h"

enum { MESSAGE_THREADS = 128, BACKWARD_WARPS = 4 };

namespace { /* kernels and their arguments differ between element types */

typedef struct message_arrays {
  int64_t begin, end, ldq;
  const int64_t *row;
  const real *lines, *terms, *rows, *state, *q_in, *grad;
  real *q, *mu, *grad_in, *grad_x, *edge_grad;
  int n_terms, n_features, accumulate, unused;
} message_arrays;

/* sum_t coef[t] R[t] at one channel; n_terms is a constant 4 for cubic splines. */
template <int DENSE> MLFF_DEVICE real combine(const real *coef, int n_terms, const real *r, int64_t ld)
{
  if (!DENSE) return coef[0] * r[0] + coef[1] * r[ld] + coef[2] * r[2 * ld] + coef[3] * r[3 * ld];
  real sum = coef[0] * r[0];
  for (int t = 1; t < n_terms; t++) sum += coef[t] * r[t * ld];
  return sum;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* With j the node of the neighbour at edge e of i and (f_a, f_b, f_c) = sum_t coef_t R[first + t]:
 *   q[i][k]  = q_in[i][k] + sum_e f_a x_j[0][k]
 *   mu[i][k] = mu_i[k] + sum_e (f_b x_j[1][k] u_e + f_c x_j[2][k] mu_j[k])
 *   rows R [n_rows][3F], state (x, mu) [n_nodes][6F], q [n][ldq], mu [n][3][F]
 * A block owns receiver i, a thread every blockDim-th channel k; sums in registers over the edges in order. No
 * shared memory; deterministic. Twin: painn_message_cpu, message_channels. */
template <int DENSE> __global__ void __launch_bounds__(MESSAGE_THREADS) message_kernel(message_arrays a)
{
  const int64_t block = blockIdx.x, i = a.begin + block, f = a.n_features, ld = 3 * f, end = a.row[i + 1];
  for (int k = (int) threadIdx.x; k < a.n_features; k += (int) blockDim.x) {
    const real *own = a.state + i * 6 * f + 3 * f + k;
    real q = a.q_in[i * f + k], x = own[0], y = own[f], z = own[2 * f];
    for (int64_t e = a.row[i]; e < end; e++) {
      const real *line = a.lines + e * MLFF_PAINN_LINE, *coef = DENSE ? a.terms + e * 2 * a.n_terms : line + LINE_COEF;
      const line_index index = line_load_index(line);
      const real *r = a.rows + (DENSE ? 0 : index.first * ld) + k, *s = a.state + index.node * 6 * f + k;
      const real ux = line[LINE_UNIT], uy = line[LINE_UNIT + 1], uz = line[LINE_UNIT + 2];
      q += combine<DENSE>(coef, a.n_terms, r, ld) * s[0];
      const real mb = combine<DENSE>(coef, a.n_terms, r + f, ld) * s[f];
      const real mc = combine<DENSE>(coef, a.n_terms, r + 2 * f, ld) * s[2 * f];
      x += mb * ux + mc * s[3 * f];
      y += mb * uy + mc * s[4 * f];
      z += mb * uz + mc * s[5 * f];
    }
    a.q[block * a.ldq + k] = q;
    real *mu = a.mu + block * 3 * f + k;
    mu[0] = x;
    mu[f] = y;
    mu[2 * f] = z;
  }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Sums of a, b, c, d over the warp: lanes 0-7 get that of a, 8-15 b, 16-23 c, 24-31 d. Each step halves what a lane
 * keeps. */
MLFF_DEVICE real warp_sum4(real a, real b, real c, real d, int lane)
{
  const bool high = (lane & 16) != 0, odd = (lane & 8) != 0;
  real keep0 = high ? c : a, keep1 = high ? d : b;
  keep0 += __shfl_xor_sync(FULL_WARP, high ? a : c, 16);
  keep1 += __shfl_xor_sync(FULL_WARP, high ? b : d, 16);
  real keep = odd ? keep1 : keep0;
  keep += __shfl_xor_sync(FULL_WARP, odd ? keep0 : keep1, 8);
  for (int with = 4; with > 0; with /= 2) keep += __shfl_xor_sync(FULL_WARP, keep, with);
  return keep;
}

/* What the sender keeps at one channel: a, b of x_j and m = c mu_j; sums g_a, g_b and s = sum f_c g_mu. */
typedef struct sender {
  real a, b, mx, my, mz, ga, gb, sx, sy, sz;
} sender;

MLFF_DEVICE sender sender_begin(const message_arrays &a, int64_t j, int k)
{
  const int64_t f = a.n_features;
  const real *x = a.state + j * 6 * f + k, c = x[2 * f];
  const sender s = {x[0], x[f], c * x[3 * f], c * x[4 * f], c * x[5 * f], 0, 0, 0, 0, 0};
  return s;
}

MLFF_DEVICE void sender_end(const message_arrays &a, int64_t j, int k, const sender &s)
{
  const int64_t f = a.n_features, block = j - a.begin;
  const real *c = a.state + j * 6 * f + 2 * f + k, *mu = c + f, *grad = a.grad + j * 4 * f + k;
  real *grad_x = a.grad_x + block * 3 * f + k, *grad_in = a.grad_in + block * 4 * f + k;
  grad_x[0] = s.ga;
  grad_x[f] = s.gb;
  grad_x[2 * f] = s.sx * mu[0] + s.sy * mu[f] + s.sz * mu[2 * f];
  grad_in[0] = grad[0];
  grad_in[f] = grad[f] + c[0] * s.sx;
  grad_in[2 * f] = grad[2 * f] + c[0] * s.sy;
  grad_in[3 * f] = grad[3 * f] + c[0] * s.sz;
}

/* Adds one edge at one channel, where u is that of the list, so opposite to the edge's own:
 *   q[i] += fa a          g_a += fa g_q;           dE/dr += g_q a da
 *   mu[i] -= fb b u       g_b -= fb g.u;           dE/dr -= g.u b db;         dE/du -= fb b g
 *   mu[i] += fc c mu_j    s += fc g;               dE/dr += g.(c mu_j) dc            with g = g_mu[i] */
template <int DENSE>
MLFF_DEVICE void backward_channel(const message_arrays &a, const real *line, const real *coef, const real *slope,
                                  const line_index &index, int k, sender *s, real sum[4])
{
  const int64_t f = a.n_features, ld = 3 * f;
  const real *r = a.rows + (DENSE ? 0 : index.first * ld) + k, *g = a.grad + index.node * 4 * f + k;
  const real ux = line[LINE_UNIT], uy = line[LINE_UNIT + 1], uz = line[LINE_UNIT + 2];
  const real gq = g[0], gx = g[f], gy = g[2 * f], gz = g[3 * f], gu = gx * ux + gy * uy + gz * uz;
  const real fa = combine<DENSE>(coef, a.n_terms, r, ld), da = combine<DENSE>(slope, a.n_terms, r, ld);
  const real fb = combine<DENSE>(coef, a.n_terms, r + f, ld), db = combine<DENSE>(slope, a.n_terms, r + f, ld);
  const real fc = combine<DENSE>(coef, a.n_terms, r + 2 * f, ld), dc = combine<DENSE>(slope, a.n_terms, r + 2 * f, ld);
  const real fbb = fb * s->b;
  s->ga += fa * gq;
  s->gb -= fb * gu;
  s->sx += fc * gx;
  s->sy += fc * gy;
  s->sz += fc * gz;
  sum[0] -= fbb * gx;
  sum[1] -= fbb * gy;
  sum[2] -= fbb * gz;
  sum[3] += gq * s->a * da - gu * s->b * db + (gx * s->mx + gy * s->my + gz * s->mz) * dc;
}

/* Reverses message_kernel for sender j over its edges, i the node of the neighbour:
 *   g_x[j] = sum_e (g_q[i], g_mu[i].u, g_mu[i].mu_j) * filter,  grad_in[j] = grad[j] + (0, sum_e g_mu[i] f_c c)
 *   edge_grad[e] = or += (dE/du, dE/dr)
 *   grad [n_nodes][4F], grad_x [n][3F], grad_in [n][4F], edge_grad [n_edges][4]
 * A warp owns sender j, a lane PER channels of a chunk of 32 PER; chunks follow one another and add to edge_grad. A
 * block has BACKWARD_WARPS warps. The four sums of an edge go through shuffles. No shared memory; deterministic.
 * Twin: painn_message_backward_cpu, backward_edge. */
template <int DENSE, int PER>
__global__ void __launch_bounds__(WARP *BACKWARD_WARPS) message_backward_kernel(message_arrays a)
{
  const int lane = (int) threadIdx.x % WARP;
  const int64_t j = a.begin + (int64_t) blockIdx.x * BACKWARD_WARPS + threadIdx.x / WARP;
  if (j >= a.end) return;
  for (int k0 = 0; k0 < a.n_features; k0 += WARP * PER) {
    sender s[PER];
#pragma unroll
    for (int b = 0; b < PER; b++)
      if (k0 + b * WARP + lane < a.n_features) s[b] = sender_begin(a, j, k0 + b * WARP + lane);
    for (int64_t e = a.row[j]; e < a.row[j + 1]; e++) {
      const real *line = a.lines + e * MLFF_PAINN_LINE;
      const real *coef = DENSE ? a.terms + e * 2 * a.n_terms : line + LINE_COEF;
      const real *slope = DENSE ? coef + a.n_terms : line + LINE_SLOPE;
      const line_index index = line_load_index(line);
      real sum[4] = {0, 0, 0, 0};
#pragma unroll
      for (int b = 0; b < PER; b++)
        if (k0 + b * WARP + lane < a.n_features)
          backward_channel<DENSE>(a, line, coef, slope, index, k0 + b * WARP + lane, &s[b], sum);
      real total = warp_sum4(sum[0], sum[1], sum[2], sum[3], lane);
      if (lane % 8) continue;
      real *grad = a.edge_grad + 4 * e + lane / 8;
      if (a.accumulate || k0) total += *grad;
      *grad = total;
    }
#pragma unroll
    for (int b = 0; b < PER; b++)
      if (k0 + b * WARP + lane < a.n_features) sender_end(a, j, k0 + b * WARP + lane, s[b]);
  }
}

} // namespace

static message_arrays arrays_of(const mlff_painn_message_args *args)
{
  message_arrays a;
  memset(&a, 0, sizeof a);
  a.begin = args->begin;
  a.end = args->end;
  a.ldq = args->ldq;
  a.row = (const int64_t *) args->edges->row.data;
  a.lines = (const real *) args->radial->line.data;
  a.terms = (const real *) args->radial->terms.data;
  a.rows = (const real *) args->rows;
  a.state = (const real *) args->state;
  a.q_in = (const real *) args->q_in;
  a.grad = (const real *) args->grad;
  a.q = (real *) args->q;
  a.mu = (real *) args->mu;
  a.grad_in = (real *) args->grad_in;
  a.grad_x = (real *) args->grad_x;
  a.edge_grad = (real *) args->edge_grad;
  a.n_terms = args->n_terms;
  a.n_features = args->n_features;
  a.accumulate = args->accumulate;
  return a;
}

void MLFF_CUDA(painn_message_cuda)(mlff_backend *backend, const mlff_painn_message_args *args)
{
  const int f = args->n_features, n_threads = f < MESSAGE_THREADS ? (f + WARP - 1) / WARP * WARP : MESSAGE_THREADS;
  const unsigned n = (unsigned) (args->end - args->begin);
  if (args->n_terms == 4)
    MLFF_LAUNCH_INDEPENDENT(backend, message_kernel<0>, n, (unsigned) n_threads, arrays_of(args));
  else
    MLFF_LAUNCH_INDEPENDENT(backend, message_kernel<1>, n, (unsigned) n_threads, arrays_of(args));
}

void MLFF_CUDA(painn_message_backward_cuda)(mlff_backend *backend, const mlff_painn_message_args *args)
{
  const unsigned n_blocks = mlff_cuda_blocks(args->end - args->begin, BACKWARD_WARPS),
                 n_threads = WARP * BACKWARD_WARPS;
  const message_arrays a = arrays_of(args);
  void (*kernel)(message_arrays) = NULL;
  if (args->n_terms == 4)
    kernel = a.n_features <= WARP       ? message_backward_kernel<0, 1>
             : a.n_features <= 2 * WARP ? message_backward_kernel<0, 2>
                                        : message_backward_kernel<0, 4>;
  else
    kernel = message_backward_kernel<1, 2>;
  mlff_cuda_launch(backend, "message_backward_kernel", 0, kernel, n_blocks, n_threads, 0, a);
}
