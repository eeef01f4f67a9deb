/* painn_message.cu: messages of PaiNN, forward and backward, on the GPU. Twin: cpu/painn_message.c.
 *
 *   q_i  += sum_j f_a x_a(j)
 *   mu_i += sum_j (f_b x_b(j) u_ij + f_c x_c(j) mu_j),   (f_a, f_b, f_c) = sum_t coef_t(r_ij) R[first + t]
 *
 * Forward owns the receiver, backward the sender over the same symmetric list. Both gather, so there are no atomics and
 * results only depend on the order of the list. Filters are recomputed from rows of R, which stay in cache.
 */
#include "painn.h"

/* Forward: channels of a thread. Receivers of a block are neighbors of each other and share the L1 cache, hence large
 * blocks. MESSAGE_BLOCKS blocks per multiprocessor bound a thread to 128 registers (fp64: 168). */
enum { CHANNELS = 4, MESSAGE_THREADS = MLFF_REAL_IS_DOUBLE ? 64 : 256, MESSAGE_BLOCKS = MLFF_REAL_IS_DOUBLE ? 5 : 2 };
/* Small systems, which are limited by latency, split the edges of an atom across SPLIT teams (forward) or warps
 * (backward), and across MAX_SPLIT with at most TINY_ATOMS_PER_SM atoms per multiprocessor. Forward does so if the
 * teams fit MAX_THREADS threads. */
enum { SPLIT = 4, MAX_SPLIT = 8, BACKWARD_WARPS = 4, TINY_ATOMS_PER_SM = 4, MAX_THREADS = 256 };
/* Backward: channels of a lane, bounded by the registers. */
enum { MAX_LANE_CHANNELS = MLFF_REAL_IS_DOUBLE ? 2 : 4 };

static_assert(MLFF_PAINN_BLOCK % CHANNELS == 0, "channels are padded to whole vectors");

namespace { /* kernels and their arguments differ between element types */

typedef struct message_arrays {
  int64_t begin, end, ldq;
  const int64_t *row;
  line_source source;
  const real *terms, *rows, *state, *q_in, *grad;
  real *q, *mu, *grad_in, *grad_x, *edge_grad;
  int n_terms, n_features, accumulate, n_split;
} message_arrays;

/* Offset of row i: one 32-bit multiplication. */
MLFF_DEVICE uint64_t row_of(int i, int width)
{
  return (uint64_t) (unsigned) i * (unsigned) width;
}

/* sum_t coef[t] R[t]; n_terms is 4 unless DENSE. */
template <int DENSE, int LANE_CHANNELS>
MLFF_DEVICE vector_of<LANE_CHANNELS> combine(const real *coef, int n_terms, const real *r, int ld)
{
  vector_of<LANE_CHANNELS> sum = {};
  const int n = DENSE ? n_terms : 4;
#pragma unroll DENSE ? 1 : 4
  for (int t = 0; t < n; t++) {
    const vector_of<LANE_CHANNELS> v = load_vector<LANE_CHANNELS>(r + t * ld);
#pragma unroll
    for (int b = 0; b < LANE_CHANNELS; b++) sum.v[b] = t ? sum.v[b] + coef[t] * v.v[b] : coef[t] * v.v[b];
  }
  return sum;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* q and mu of a receiver at CHANNELS channels. */
typedef struct receiver {
  vector_of<CHANNELS> q, x, y, z;
} receiver;

/* Adds edge e to the sums of its receiver. rows, state: at the channels of the thread. */
template <int DENSE>
MLFF_DEVICE void receive(const message_arrays &a, const edge_line &line, int64_t e, const real *rows, const real *state,
                         receiver *sum)
{
  const int f = a.n_features, ld = 3 * f;
  const vector_of<4> cubic = line.coef, unit = line.unit;
  const real *coef = DENSE ? a.terms + e * 2 * a.n_terms : cubic.v, *r = rows + line.row;
  const real *s = state + row_of(line.node, 6 * f);
  const vector_of<CHANNELS> fa = combine<DENSE, CHANNELS>(coef, a.n_terms, r, ld);
  const vector_of<CHANNELS> fb = combine<DENSE, CHANNELS>(coef, a.n_terms, r + f, ld);
  const vector_of<CHANNELS> fc = combine<DENSE, CHANNELS>(coef, a.n_terms, r + 2 * f, ld);
  vector_of<CHANNELS> v[6];
#pragma unroll
  for (int c = 0; c < 6; c++) v[c] = load_vector<CHANNELS>(s + c * f);
#pragma unroll
  for (int b = 0; b < CHANNELS; b++) {
    const real mb = fb.v[b] * v[1].v[b], mc = fc.v[b] * v[2].v[b];
    sum->q.v[b] += fa.v[b] * v[0].v[b];
    sum->x.v[b] += mb * unit.v[0];
    sum->y.v[b] += mb * unit.v[1];
    sum->z.v[b] += mb * unit.v[2];
    sum->x.v[b] += mc * v[3].v[b];
    sum->y.v[b] += mc * v[4].v[b];
    sum->z.v[b] += mc * v[5].v[b];
  }
}

MLFF_DEVICE void add_receiver(receiver *sum, const receiver &part)
{
#pragma unroll
  for (int b = 0; b < CHANNELS; b++) {
    sum->q.v[b] += part.q.v[b];
    sum->x.v[b] += part.x.v[b];
    sum->y.v[b] += part.y.v[b];
    sum->z.v[b] += part.z.v[b];
  }
}

/* Edges of a team: n edges begin, begin + step ... of a receiver. A team is the threads with all channels of a
 * receiver, or of one part of its edges if they are split. */
typedef struct team_edges {
  int64_t begin;
  int n, unused;
} team_edges;

/* Edges of a team from number `skip` on. Teams are numbered over the grid, or over the block if edges are split. */
template <int SPLIT_EDGES> MLFF_DEVICE team_edges team_edges_from(const message_arrays &a, unsigned team, int skip)
{
  const int64_t i = a.begin + (SPLIT_EDGES ? blockIdx.x : team);
  const int step = SPLIT_EDGES ? a.n_split : 1;
  team_edges edges = {0, 0, 0};
  if (SPLIT_EDGES ? team >= (unsigned) step : i >= a.end) return edges;
  edges.begin = a.row[i] + (SPLIT_EDGES ? team : 0) + skip * step;
  edges.n = ((int) (a.row[i + 1] - edges.begin) + step - 1) / step;
  return edges;
}

/* With j the node of the neighbor at edge e of i:
 *   q[i][k]  = q_in[i][k] + sum_e f_a x_j[0][k]
 *   mu[i][k] = mu_i[k] + sum_e (f_b x_j[1][k] u_e + f_c x_j[2][k] mu_j[k])
 *   rows R [n_rows][3F], state (x, mu) [n_nodes][6F], q [n][ldq], mu [n][3][F]
 * A thread owns CHANNELS channels of receiver i. SPLIT_EDGES: a block owns receiver i, and its teams split the edges.
 * Each lane computes one line at a time in dynamic shared memory, divided equally among the teams of a warp. Sums over
 * the edges are in registers, in order. Sums of the teams of a split are added in order, in the same shared memory:
 * receiver [n_split - 1][n_groups]. Deterministic. Twin: painn_message_cpu, message_channels. */
template <int DENSE, int SPLIT_EDGES>
__global__ void __launch_bounds__(SPLIT_EDGES ? MAX_THREADS : MESSAGE_THREADS, SPLIT_EDGES ? 1 : MESSAGE_BLOCKS)
    message_kernel(message_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(edge_line, lines);
  const unsigned thread = SPLIT_EDGES ? threadIdx.x : blockIdx.x * MESSAGE_THREADS + threadIdx.x, lane = thread % WARP;
  const unsigned n_groups = (unsigned) a.n_features / CHANNELS, team = thread / n_groups;
  const unsigned first_team = (thread - lane) / n_groups,
                 n_teams = (thread - lane + WARP - 1) / n_groups - first_team + 1;
  const unsigned n_lines = WARP / n_teams;
  const int64_t f = a.n_features, block = SPLIT_EDGES ? blockIdx.x : team, i = a.begin + block;
  const int k = (int) (thread % n_groups) * CHANNELS, step = SPLIT_EDGES ? a.n_split : 1;
  const bool has_sum = i < a.end && (!SPLIT_EDGES || team == 0);
  edge_line *warp_lines = lines + (threadIdx.x - lane), *team_lines = warp_lines + (team - first_team) * n_lines;
  team_edges edges = team_edges_from<SPLIT_EDGES>(a, team, 0);
  team_edges lane_edges = team_edges_from<SPLIT_EDGES>(a, first_team + lane / n_lines, (int) (lane % n_lines));
  if (lane >= n_teams * n_lines) lane_edges.n = 0;
  receiver sum = {};
  if (has_sum) {
    const real *state = a.state + i * 6 * f + 3 * f + k;
    sum = {load_vector<CHANNELS>(a.q_in + i * f + k), load_vector<CHANNELS>(state), load_vector<CHANNELS>(state + f),
           load_vector<CHANNELS>(state + 2 * f)};
  }
  for (int n = 0; __any_sync(FULL_WARP, n < edges.n); n += (int) n_lines) {
    if (n < lane_edges.n) warp_lines[lane] = make_line(a.source, lane_edges.begin + n * step, 0);
    __syncwarp();
    for (int b = 0; b < (int) n_lines && n + b < edges.n; b++)
      receive<DENSE>(a, team_lines[b], edges.begin + (n + b) * step, a.rows + k, a.state + k, &sum);
    __syncwarp();
  }
  if (SPLIT_EDGES) {
    receiver *const partial = (receiver *) (void *) lines;
    __syncthreads();
    if (team > 0 && team < (unsigned) step) partial[(team - 1) * n_groups + k / CHANNELS] = sum;
    __syncthreads();
    for (int s = 0; s < step - 1 && team == 0; s++) add_receiver(&sum, partial[s * n_groups + k / CHANNELS]);
  }
  if (!has_sum) return;
  store_vector<CHANNELS>(a.q + block * a.ldq + k, sum.q);
  real *mu = a.mu + block * 3 * f + k;
  store_vector<CHANNELS>(mu, sum.x);
  store_vector<CHANNELS>(mu + f, sum.y);
  store_vector<CHANNELS>(mu + 2 * f, sum.z);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Sum over the warp of a in lanes 0-7, of b in 8-15, of c in 16-23, of d in 24-31. Each step halves the values of a
 * lane. */
MLFF_DEVICE real warp_sum4(real a, real b, real c, real d, int lane)
{
  const bool high = (lane & 16) != 0, odd = (lane & 8) != 0;
  real keep0 = high ? c : a, keep1 = high ? d : b;
  keep0 += __shfl_xor_sync(FULL_WARP, high ? a : c, 16);
  keep1 += __shfl_xor_sync(FULL_WARP, high ? b : d, 16);
  real keep = odd ? keep1 : keep0;
  keep += __shfl_xor_sync(FULL_WARP, odd ? keep0 : keep1, 8);
  for (int distance = 4; distance > 0; distance /= 2) keep += __shfl_xor_sync(FULL_WARP, keep, distance);
  return keep;
}

/* Sums of a sender: g_a, g_b and s = sum f_c g_mu. */
template <int LANE_CHANNELS> struct sender_sums {
  vector_of<LANE_CHANNELS> ga, gb, s[3];
};

/* A sender j: a and b of x_j, m = c mu_j, and its sums. */
template <int LANE_CHANNELS> struct sender {
  vector_of<LANE_CHANNELS> a, b, m[3];
  sender_sums<LANE_CHANNELS> sums;
};

template <int LANE_CHANNELS>
MLFF_DEVICE void add_sums(sender_sums<LANE_CHANNELS> *sum, const sender_sums<LANE_CHANNELS> &part)
{
#pragma unroll
  for (int b = 0; b < LANE_CHANNELS; b++) {
    sum->ga.v[b] += part.ga.v[b];
    sum->gb.v[b] += part.gb.v[b];
#pragma unroll
    for (int d = 0; d < 3; d++) sum->s[d].v[b] += part.s[d].v[b];
  }
}

/* Adds the sums of the other warps to those of warp 0, in order. partial: shared memory, [step - 1][WARP]. Called by
 * all threads. */
template <int LANE_CHANNELS>
MLFF_DEVICE void sum_warps(int step, int warp, int lane, sender_sums<LANE_CHANNELS> *partial,
                           sender_sums<LANE_CHANNELS> *sums)
{
  __syncthreads();
  if (warp) partial[(warp - 1) * WARP + lane] = *sums;
  __syncthreads();
  for (int s = 0; s < step - 1 && warp == 0; s++) add_sums<LANE_CHANNELS>(sums, partial[s * WARP + lane]);
  __syncthreads();
}

template <int LANE_CHANNELS>
MLFF_DEVICE void sender_begin(const message_arrays &a, int64_t j, int k, sender<LANE_CHANNELS> *sender_j)
{
  const int64_t f = a.n_features;
  const real *x = a.state + j * 6 * f + k;
  const vector_of<LANE_CHANNELS> c = load_vector<LANE_CHANNELS>(x + 2 * f);
  sender_j->a = load_vector<LANE_CHANNELS>(x);
  sender_j->b = load_vector<LANE_CHANNELS>(x + f);
#pragma unroll
  for (int d = 0; d < 3; d++) {
    sender_j->m[d] = load_vector<LANE_CHANNELS>(x + (3 + d) * f);
#pragma unroll
    for (int b = 0; b < LANE_CHANNELS; b++) {
      sender_j->m[d].v[b] *= c.v[b];
      sender_j->sums.s[d].v[b] = sender_j->sums.ga.v[b] = sender_j->sums.gb.v[b] = 0;
    }
  }
}

template <int LANE_CHANNELS>
MLFF_DEVICE void sender_end(const message_arrays &a, int64_t j, int k, const sender<LANE_CHANNELS> &sender_j)
{
  const int64_t f = a.n_features, block = j - a.begin;
  const real *x = a.state + j * 6 * f + 2 * f + k, *grad = a.grad + j * 4 * f + k;
  real *grad_x = a.grad_x + block * 3 * f + k, *grad_in = a.grad_in + block * 4 * f + k;
  vector_of<LANE_CHANNELS> state[4], g[4], gc; /* c and mu */
#pragma unroll
  for (int d = 0; d < 4; d++) { /* all loads before the stores, which may alias for the compiler */
    state[d] = load_vector<LANE_CHANNELS>(x + d * f);
    g[d] = load_vector<LANE_CHANNELS>(grad + d * f);
  }
#pragma unroll
  for (int b = 0; b < LANE_CHANNELS; b++) {
    const real sx = sender_j.sums.s[0].v[b], sy = sender_j.sums.s[1].v[b], sz = sender_j.sums.s[2].v[b];
    gc.v[b] = sx * state[1].v[b] + sy * state[2].v[b] + sz * state[3].v[b];
    g[1].v[b] += state[0].v[b] * sx;
    g[2].v[b] += state[0].v[b] * sy;
    g[3].v[b] += state[0].v[b] * sz;
  }
  store_vector<LANE_CHANNELS>(grad_x, sender_j.sums.ga);
  store_vector<LANE_CHANNELS>(grad_x + f, sender_j.sums.gb);
  store_vector<LANE_CHANNELS>(grad_x + 2 * f, gc);
#pragma unroll
  for (int d = 0; d < 4; d++) store_vector<LANE_CHANNELS>(grad_in + d * f, g[d]);
}

/* Launch shape of the backward kernel. WARPS: of a block, at most. BLOCKS: per multiprocessor, which bounds a thread to
 * 128 registers (fp64: 168) with MAX_LANE_CHANNELS, otherwise to 96. STAGES: pipeline of asynchronous copies of
 * adjoints. LINES: lines that a warp computes at a time. */
template <int LANE_CHANNELS, int SPLIT_EDGES> struct backward_shape {
  enum { WARPS = SPLIT_EDGES ? MAX_SPLIT : BACKWARD_WARPS, BLOCKS_OF_MAX = MLFF_REAL_IS_DOUBLE ? 3 : 4 };
  enum {
    BLOCKS = SPLIT_EDGES                          ? (LANE_CHANNELS == MAX_LANE_CHANNELS ? 1 : 2)
             : LANE_CHANNELS == MAX_LANE_CHANNELS ? BLOCKS_OF_MAX
                                                  : 5
  };
  enum {
    STAGES = SPLIT_EDGES && LANE_CHANNELS == MAX_LANE_CHANNELS ? 2 : 4,
    LINES = (SPLIT_EDGES ? 64 : 128) / sizeof(real)
  };
};

/* Adjoints (q, mu) of a neighbor at the channels of each lane. */
template <int LANE_CHANNELS> struct neighbor_grads {
  vector_of<LANE_CHANNELS> adjoint[4][WARP];
};

/* Starts the asynchronous copy of the adjoints of a node at the channels of a lane. */
template <int LANE_CHANNELS>
MLFF_DEVICE void copy_grad(const message_arrays &a, int node, int k, int lane, neighbor_grads<LANE_CHANNELS> *stage)
{
  const int f = a.n_features;
  const real *grad = a.grad + k + row_of(node, 4 * f);
  if (k < f)
    for (int part = 0; part < 4; part++) copy_async<LANE_CHANNELS>(stage->adjoint[part][lane].v, grad + part * f);
}

/* Adds edge e of sender j at LANE_CHANNELS channels. u = u_ji is opposite to the direction of the message, hence the
 * signs:
 *   q[i] += fa a          g_a += fa g_q;           dE/dr += g_q a da
 *   mu[i] -= fb b u       g_b -= fb g.u;           dE/dr -= g.u b db;         dE/du -= fb b g
 *   mu[i] += fc c mu_j    s += fc g;               dE/dr += g.(c mu_j) dc            with g = g_mu[i] */
template <int DENSE, int LANE_CHANNELS>
MLFF_DEVICE void send(const message_arrays &a, int64_t e, const edge_line &line,
                      const neighbor_grads<LANE_CHANNELS> &grad, int k, int lane, sender<LANE_CHANNELS> *sender_j,
                      real sum[4])
{
  const vector_of<4> c = line.coef, s = line.slope, unit = line.unit;
  const real *coef = DENSE ? a.terms + e * 2 * a.n_terms : c.v, *slope = DENSE ? coef + a.n_terms : s.v;
  const int f = a.n_features, ld = 3 * f;
  const real *r = a.rows + k + line.row;
  const real *u = unit.v;
  vector_of<LANE_CHANNELS> value[3], change[3];
#pragma unroll
  for (int part = 0; part < 3; part++) {
    value[part] = combine<DENSE, LANE_CHANNELS>(coef, a.n_terms, r + part * f, ld);
    change[part] = combine<DENSE, LANE_CHANNELS>(slope, a.n_terms, r + part * f, ld);
  }
  const vector_of<LANE_CHANNELS> gq = grad.adjoint[0][lane],
                                 g[3] = {grad.adjoint[1][lane], grad.adjoint[2][lane], grad.adjoint[3][lane]};
#pragma unroll
  for (int b = 0; b < LANE_CHANNELS; b++) {
    const real gx = g[0].v[b], gy = g[1].v[b], gz = g[2].v[b], gu = gx * u[0] + gy * u[1] + gz * u[2];
    const real fbb = value[1].v[b] * sender_j->b.v[b];
    sender_j->sums.ga.v[b] += value[0].v[b] * gq.v[b];
    sender_j->sums.gb.v[b] -= value[1].v[b] * gu;
#pragma unroll
    for (int d = 0; d < 3; d++) {
      sender_j->sums.s[d].v[b] += value[2].v[b] * g[d].v[b];
      sum[d] -= fbb * g[d].v[b];
    }
    sum[3] += gq.v[b] * sender_j->a.v[b] * change[0].v[b] - gu * sender_j->b.v[b] * change[1].v[b] +
              (gx * sender_j->m[0].v[b] + gy * sender_j->m[1].v[b] + gz * sender_j->m[2].v[b]) * change[2].v[b];
  }
}

/* Starts the copies of the adjoints of the first STAGES - 1 neighbors. Returns the node of the next neighbor. */
template <int LANE_CHANNELS, int STAGES>
__device__ __forceinline__ int prefetch_grads(const message_arrays &a, const int32_t *node, int step, int n_edges,
                                              int k, int lane, neighbor_grads<LANE_CHANNELS> *stages)
{
  int nodes[STAGES];
#pragma unroll
  for (int n = 0; n < STAGES; n++) nodes[n] = n < n_edges ? node[n * step] : 0;
#pragma unroll
  for (int n = 0; n < STAGES - 1; n++) {
    if (n < n_edges) copy_grad<LANE_CHANNELS>(a, nodes[n], k, lane, &stages[n]);
    __pipeline_commit();
  }
  return nodes[STAGES - 1];
}

/* Adjoint of message_kernel for sender j over its edges, i the node of the neighbor:
 *   g_x[j] = sum_e (g_q[i], g_mu[i].u, g_mu[i].mu_j) * filter,  grad_in[j] = grad[j] + (0, sum_e g_mu[i] f_c c)
 *   edge_grad[e] = (or +=) (dE/du, dE/dr)
 *   grad [n_nodes][4F], grad_x [n][3F], grad_in [n][4F], edge_grad [n_edges][4]
 * A warp owns sender j, a lane LANE_CHANNELS consecutive channels; chunks of 32 LANE_CHANNELS are processed in order
 * and add to edge_grad. A block has BACKWARD_WARPS warps. SPLIT_EDGES: a block owns sender j, and its warps split the
 * edges. Lines and prefetched adjoints of neighbors are in shared memory. The four sums of an edge are reduced by
 * shuffles, the sums of warps in order through shared memory. Deterministic. Twin: painn_message_backward_cpu,
 * backward_edge. */
template <int DENSE, int LANE_CHANNELS, int SPLIT_EDGES>
__global__ void __launch_bounds__(WARP *backward_shape<LANE_CHANNELS, SPLIT_EDGES>::WARPS,
                                  backward_shape<LANE_CHANNELS, SPLIT_EDGES>::BLOCKS)
    message_backward_kernel(message_arrays a)
{
  grid_dependency_wait();
  typedef backward_shape<LANE_CHANNELS, SPLIT_EDGES> sizes;
  enum { WARPS = sizes::WARPS, STAGES = sizes::STAGES, LINES = sizes::LINES };
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int64_t j = a.begin + (SPLIT_EDGES ? (int64_t) blockIdx.x : (int64_t) blockIdx.x * BACKWARD_WARPS + warp);
  if (j >= a.end) return;
  const int step = SPLIT_EDGES ? (int) blockDim.x / WARP : 1;
  const int64_t begin = a.row[j] + (SPLIT_EDGES ? warp : 0);
  const int n_edges = ((int) (a.row[j + 1] - begin) + step - 1) / step;
  const int32_t *node = a.source.node + begin;
  MLFF_SHARED(neighbor_grads<LANE_CHANNELS>, all_stages, WARPS * STAGES);
  MLFF_SHARED(edge_line, lines, WARPS * LINES);
  neighbor_grads<LANE_CHANNELS> *const stages = all_stages + warp * STAGES;
  edge_line *const own_lines = lines + warp * LINES;
  for (int k0 = 0; k0 < a.n_features; k0 += WARP * LANE_CHANNELS) {
    const int k = k0 + lane * LANE_CHANNELS;
    const bool has_channels = k < a.n_features;
    sender<LANE_CHANNELS> sender_j = {};
    if (has_channels) sender_begin<LANE_CHANNELS>(a, j, k, &sender_j);
    int next = prefetch_grads<LANE_CHANNELS, STAGES>(a, node, step, n_edges, k, lane, stages);
    for (int n = 0; n < n_edges; n++) {
      const int later = n + STAGES - 1;
      if (later < n_edges) copy_grad<LANE_CHANNELS>(a, next, k, lane, &stages[later % STAGES]);
      __pipeline_commit();
      next = later + 1 < n_edges ? node[(later + 1) * step] : 0;
      const int made = n + lane;
      if (n % LINES == 0 && lane < LINES && made < n_edges)
        own_lines[lane] = make_line(a.source, begin + made * step, 0);
      __pipeline_wait_prior(STAGES - 1);
      __syncwarp();
      real sum[4] = {0, 0, 0, 0};
      if (has_channels)
        send<DENSE, LANE_CHANNELS>(a, begin + n * step, own_lines[n % LINES], stages[n % STAGES], k, lane, &sender_j,
                                   sum);
      real total = warp_sum4(sum[0], sum[1], sum[2], sum[3], lane);
      __syncwarp();
      if (lane % 8) continue;
      real *grad = a.edge_grad + 4 * (begin + n * step) + lane / 8;
      if (a.accumulate || k0) total += *grad;
      *grad = total;
    }
    if (SPLIT_EDGES) {
      static_assert((MAX_SPLIT - 1) * WARP * sizeof(sender_sums<LANE_CHANNELS>) <= WARPS * STAGES * sizeof *all_stages,
                    "the sums of warps fit the stages");
      sum_warps<LANE_CHANNELS>(step, warp, lane, (sender_sums<LANE_CHANNELS> *) (void *) all_stages, &sender_j.sums);
    }
    if (has_channels && (!SPLIT_EDGES || warp == 0)) sender_end<LANE_CHANNELS>(a, j, k, sender_j);
  }
}

} // namespace

static message_arrays arrays_of(const mlff_painn_message_args *args, int n_split)
{
  message_arrays a;
  memset(&a, 0, sizeof a);
  a.begin = args->begin;
  a.end = args->end;
  a.ldq = args->ldq;
  a.row = (const int64_t *) args->edges->row.data;
  a.source = line_source_of(args->edges, args->radial, args->n_terms, 3 * args->n_features);
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
  a.n_split = n_split;
  return a;
}

/* Number of teams, of `width` threads each, that split the edges of an atom; 1: no split. */
static int split_of_edges(const mlff_cuda_backend *cuda, const mlff_painn_message_args *args, int width)
{
  if (!mlff_cuda_is_small_system(cuda, args->edges->n_local) || SPLIT * width > MAX_THREADS) return 1;
  const bool is_tiny = args->edges->n_local <= (int64_t) TINY_ATOMS_PER_SM * cuda->n_multiprocessors;
  return is_tiny && MAX_SPLIT * width <= MAX_THREADS ? MAX_SPLIT : SPLIT;
}

template <int DENSE> static void start_message(mlff_backend *backend, const mlff_painn_message_args *args)
{
  const int n_groups = args->n_features / CHANNELS, n_split = split_of_edges(mlff_cuda_of(backend), args, n_groups);
  const bool is_split = n_split > 1;
  const int64_t n_atoms = args->end - args->begin;
  const int n_threads = is_split ? (n_split * n_groups + WARP - 1) / WARP * WARP : MESSAGE_THREADS;
  const size_t line_bytes = (size_t) n_threads * sizeof(edge_line),
               sum_bytes = (size_t) ((n_split - 1) * n_groups) * sizeof(receiver);
  mlff_cuda_launch(backend, "message_kernel", 0, is_split ? message_kernel<DENSE, 1> : message_kernel<DENSE, 0>,
                   is_split ? (unsigned) n_atoms : mlff_cuda_blocks(n_atoms * n_groups, MESSAGE_THREADS),
                   (unsigned) n_threads, line_bytes > sum_bytes ? line_bytes : sum_bytes, arrays_of(args, n_split));
}

void MLFF_CUDA(painn_message_cuda)(mlff_backend *backend, const mlff_painn_message_args *args)
{
  if (args->n_terms == 4)
    start_message<0>(backend, args);
  else
    start_message<1>(backend, args);
}

template <int SPLIT_EDGES> static void (*backward_kernel(int n_terms, int n_features))(message_arrays)
{
  if (n_terms != 4) return message_backward_kernel<1, 2, SPLIT_EDGES>;
  if (n_features <= WARP) return message_backward_kernel<0, 1, SPLIT_EDGES>;
  if (n_features <= 2 * WARP) return message_backward_kernel<0, 2, SPLIT_EDGES>;
  return message_backward_kernel<0, MAX_LANE_CHANNELS, SPLIT_EDGES>;
}

void MLFF_CUDA(painn_message_backward_cuda)(mlff_backend *backend, const mlff_painn_message_args *args)
{
  const int n_split = split_of_edges(mlff_cuda_of(backend), args, WARP);
  const bool is_split = n_split > 1;
  const unsigned n_blocks = mlff_cuda_blocks(args->end - args->begin, is_split ? 1 : BACKWARD_WARPS);
  mlff_cuda_launch(backend, "message_backward_kernel", 0,
                   is_split ? backward_kernel<1>(args->n_terms, args->n_features)
                            : backward_kernel<0>(args->n_terms, args->n_features),
                   n_blocks, (unsigned) (WARP * (is_split ? n_split : BACKWARD_WARPS)), 0, arrays_of(args, n_split));
}
