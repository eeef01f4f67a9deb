/* painn_message.cu: messages between atoms, forward and backward, on the GPU. Twin: cpu/painn_message.c.
 *
 * Forward owns the receiver, backward the sender over the same list, which is symmetric: both gather, so there are no
 * atomics and results depend on nothing but the list's order. Filters are rebuilt from rows of R, which stay in cache.
 */
#include "painn.h"

/* Forward: channels of a thread; threads of a block, whose receivers, that are near one another, find each other's
 * neighbours in the cache of the multiprocessor; and its blocks at least, which leaves 128 registers (fp64: 168). */
enum { CHANNELS = 4, MESSAGE_THREADS = MLFF_REAL_IS_DOUBLE ? 64 : 256, MESSAGE_BLOCKS = MLFF_REAL_IS_DOUBLE ? 5 : 2 };
/* Of small systems SHARES threads or warps, of few atoms MOST_SHARES, share out the edges of an atom, which one alone
 * would wait for in turn; forward of those whose atom fits into a block. */
enum { SHARES = 4, MOST_SHARES = 8, BACKWARD_WARPS = 4, FEW_PER_SM = 4, MOST_THREADS = 256 };
/* Backward a lane has up to MOST_PER channels at a time, in registers. */
enum { MOST_PER = MLFF_REAL_IS_DOUBLE ? 2 : 4 };

static_assert(MLFF_PAINN_BLOCK % CHANNELS == 0, "channels are padded to whole vectors");

namespace { /* kernels and their arguments differ between element types */

typedef struct message_arrays {
  int64_t begin, end, ldq;
  const int64_t *row;
  line_source from;
  const real *terms, *rows, *state, *q_in, *grad;
  real *q, *mu, *grad_in, *grad_x, *edge_grad;
  int n_terms, n_features, accumulate, n_shares;
} message_arrays;

/* Where a row begins, by one multiplication of 32 bits. */
MLFF_DEVICE uint64_t row_of(int i, int width)
{
  return (uint64_t) (unsigned) i * (unsigned) width;
}

/* sum_t coef[t] R[t]; n_terms is a constant 4 for cubic splines. */
template <int DENSE, int PER> MLFF_DEVICE vector_of<PER> combine(const real *coef, int n_terms, const real *r, int ld)
{
  vector_of<PER> sum = {};
  const int n = DENSE ? n_terms : 4;
#pragma unroll DENSE ? 1 : 4
  for (int t = 0; t < n; t++) {
    const vector_of<PER> v = load_vector<PER>(r + t * ld);
#pragma unroll
    for (int b = 0; b < PER; b++) sum.of[b] = t ? sum.of[b] + coef[t] * v.of[b] : coef[t] * v.of[b];
  }
  return sum;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* q and mu of a receiver. */
typedef struct receiver {
  vector_of<CHANNELS> q, x, y, z;
} receiver;

/* rows, state: at the thread's channels. */
template <int DENSE>
MLFF_DEVICE void receive(const message_arrays &a, const edge_line &line, int64_t e, const real *rows, const real *state,
                         receiver *sum)
{
  const int f = a.n_features, ld = 3 * f;
  const vector_of<4> own = line.coef, unit = line.unit;
  const real *coef = DENSE ? a.terms + e * 2 * a.n_terms : own.of, *r = rows + line.row;
  const real *s = state + row_of(line.node, 6 * f);
  const vector_of<CHANNELS> fa = combine<DENSE, CHANNELS>(coef, a.n_terms, r, ld);
  const vector_of<CHANNELS> fb = combine<DENSE, CHANNELS>(coef, a.n_terms, r + f, ld);
  const vector_of<CHANNELS> fc = combine<DENSE, CHANNELS>(coef, a.n_terms, r + 2 * f, ld);
  vector_of<CHANNELS> v[6];
#pragma unroll
  for (int c = 0; c < 6; c++) v[c] = load_vector<CHANNELS>(s + c * f);
#pragma unroll
  for (int b = 0; b < CHANNELS; b++) {
    const real mb = fb.of[b] * v[1].of[b], mc = fc.of[b] * v[2].of[b];
    sum->q.of[b] += fa.of[b] * v[0].of[b];
    sum->x.of[b] += mb * unit.of[0];
    sum->y.of[b] += mb * unit.of[1];
    sum->z.of[b] += mb * unit.of[2];
    sum->x.of[b] += mc * v[3].of[b];
    sum->y.of[b] += mc * v[4].of[b];
    sum->z.of[b] += mc * v[5].of[b];
  }
}

MLFF_DEVICE void add_receiver(receiver *sum, const receiver &share)
{
#pragma unroll
  for (int b = 0; b < CHANNELS; b++) {
    sum->q.of[b] += share.q.of[b];
    sum->x.of[b] += share.x.of[b];
    sum->y.of[b] += share.y.of[b];
    sum->z.of[b] += share.z.of[b];
  }
}

/* Edges of a team, the threads that have all channels of a receiver or of one of its shares: begin, begin + step ... */
typedef struct team_edges {
  int64_t begin;
  int n, unused;
} team_edges;

/* Those from the `skip`-th on. Teams are numbered as receivers of all blocks, or as shares of the block's. */
template <int IS_SHARED> MLFF_DEVICE team_edges edges_of_team(const message_arrays &a, unsigned team, int skip)
{
  const int64_t i = a.begin + (IS_SHARED ? blockIdx.x : team);
  const int step = IS_SHARED ? a.n_shares : 1;
  team_edges of = {0, 0, 0};
  if (IS_SHARED ? team >= (unsigned) step : i >= a.end) return of;
  of.begin = a.row[i] + (IS_SHARED ? team : 0) + skip * step;
  of.n = ((int) (a.row[i + 1] - of.begin) + step - 1) / step;
  return of;
}

/* With j the node of the neighbour at edge e of i and (f_a, f_b, f_c) = sum_t coef_t R[first + t]:
 *   q[i][k]  = q_in[i][k] + sum_e f_a x_j[0][k]
 *   mu[i][k] = mu_i[k] + sum_e (f_b x_j[1][k] u_e + f_c x_j[2][k] mu_j[k])
 *   rows R [n_rows][3F], state (x, mu) [n_nodes][6F], q [n][ldq], mu [n][3][F]
 * A thread owns CHANNELS channels of receiver i, or, where IS_SHARED, a block owns receiver i, whose teams share out
 * its edges. A lane makes a line at a time, in dynamic shared memory, which the teams of a warp have in equal parts.
 * Sums in registers over the edges in order; then those of the shares in order through the same memory: a receiver for
 * each group of channels and share but the first. Deterministic. Twin: painn_message_cpu, message_channels. */
template <int DENSE, int IS_SHARED>
__global__ void __launch_bounds__(IS_SHARED ? MOST_THREADS : MESSAGE_THREADS, IS_SHARED ? 1 : MESSAGE_BLOCKS)
    message_kernel(message_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(edge_line, lines);
  const unsigned thread = IS_SHARED ? threadIdx.x : blockIdx.x * MESSAGE_THREADS + threadIdx.x, lane = thread % WARP;
  const unsigned n_groups = (unsigned) a.n_features / CHANNELS, team = thread / n_groups;
  const unsigned first_team = (thread - lane) / n_groups,
                 n_teams = (thread - lane + WARP - 1) / n_groups - first_team + 1;
  const unsigned n_lines = WARP / n_teams;
  const int64_t f = a.n_features, block = IS_SHARED ? blockIdx.x : team, i = a.begin + block;
  const int k = (int) (thread % n_groups) * CHANNELS, step = IS_SHARED ? a.n_shares : 1;
  const bool has_sum = i < a.end && (!IS_SHARED || team == 0);
  edge_line *of_warp = lines + (threadIdx.x - lane), *of_team = of_warp + (team - first_team) * n_lines;
  team_edges own = edges_of_team<IS_SHARED>(a, team, 0);
  team_edges made = edges_of_team<IS_SHARED>(a, first_team + lane / n_lines, (int) (lane % n_lines));
  if (lane >= n_teams * n_lines) made.n = 0;
  receiver sum = {};
  if (has_sum) {
    const real *state = a.state + i * 6 * f + 3 * f + k;
    sum = {load_vector<CHANNELS>(a.q_in + i * f + k), load_vector<CHANNELS>(state), load_vector<CHANNELS>(state + f),
           load_vector<CHANNELS>(state + 2 * f)};
  }
  for (int n = 0; __any_sync(FULL_WARP, n < own.n); n += (int) n_lines) {
    if (n < made.n) of_warp[lane] = make_line(a.from, made.begin + n * step, 0);
    __syncwarp();
    for (int b = 0; b < (int) n_lines && n + b < own.n; b++)
      receive<DENSE>(a, of_team[b], own.begin + (n + b) * step, a.rows + k, a.state + k, &sum);
    __syncwarp();
  }
  if (IS_SHARED) {
    receiver *const shares = (receiver *) (void *) lines;
    __syncthreads();
    if (team > 0 && team < (unsigned) step) shares[(team - 1) * n_groups + k / CHANNELS] = sum;
    __syncthreads();
    for (int s = 0; s < step - 1 && team == 0; s++) add_receiver(&sum, shares[s * n_groups + k / CHANNELS]);
  }
  if (!has_sum) return;
  store_vector<CHANNELS>(a.q + block * a.ldq + k, sum.q);
  real *mu = a.mu + block * 3 * f + k;
  store_vector<CHANNELS>(mu, sum.x);
  store_vector<CHANNELS>(mu + f, sum.y);
  store_vector<CHANNELS>(mu + 2 * f, sum.z);
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

/* Of PER channels: sums g_a, g_b and s = sum f_c g_mu. */
template <int PER> struct sender_sums {
  vector_of<PER> ga, gb, s[3];
};

/* What the sender keeps of them: a, b of x_j and m = c mu_j, and its sums. */
template <int PER> struct sender {
  vector_of<PER> a, b, m[3];
  sender_sums<PER> sums;
};

template <int PER> MLFF_DEVICE void add_sums(sender_sums<PER> *sum, const sender_sums<PER> &share)
{
#pragma unroll
  for (int b = 0; b < PER; b++) {
    sum->ga.of[b] += share.ga.of[b];
    sum->gb.of[b] += share.gb.of[b];
#pragma unroll
    for (int d = 0; d < 3; d++) sum->s[d].of[b] += share.s[d].of[b];
  }
}

/* Adds the sums of the other warps to those of the first one, in order; all threads call it. shares: shared memory,
 * [step - 1][WARP]. */
template <int PER>
MLFF_DEVICE void join_shares(int step, int warp, int lane, sender_sums<PER> *shares, sender_sums<PER> *own)
{
  __syncthreads();
  if (warp) shares[(warp - 1) * WARP + lane] = *own;
  __syncthreads();
  for (int s = 0; s < step - 1 && warp == 0; s++) add_sums<PER>(own, shares[s * WARP + lane]);
  __syncthreads();
}

template <int PER> MLFF_DEVICE void sender_begin(const message_arrays &a, int64_t j, int k, sender<PER> *own)
{
  const int64_t f = a.n_features;
  const real *x = a.state + j * 6 * f + k;
  const vector_of<PER> c = load_vector<PER>(x + 2 * f);
  own->a = load_vector<PER>(x);
  own->b = load_vector<PER>(x + f);
#pragma unroll
  for (int d = 0; d < 3; d++) {
    own->m[d] = load_vector<PER>(x + (3 + d) * f);
#pragma unroll
    for (int b = 0; b < PER; b++) {
      own->m[d].of[b] *= c.of[b];
      own->sums.s[d].of[b] = own->sums.ga.of[b] = own->sums.gb.of[b] = 0;
    }
  }
}

template <int PER> MLFF_DEVICE void sender_end(const message_arrays &a, int64_t j, int k, const sender<PER> &own)
{
  const int64_t f = a.n_features, block = j - a.begin;
  const real *x = a.state + j * 6 * f + 2 * f + k, *grad = a.grad + j * 4 * f + k;
  real *grad_x = a.grad_x + block * 3 * f + k, *grad_in = a.grad_in + block * 4 * f + k;
  vector_of<PER> state[4], g[4], gc; /* c and mu */
#pragma unroll
  for (int d = 0; d < 4; d++) { /* all before anything is written: atoms.h */
    state[d] = load_vector<PER>(x + d * f);
    g[d] = load_vector<PER>(grad + d * f);
  }
#pragma unroll
  for (int b = 0; b < PER; b++) {
    const real sx = own.sums.s[0].of[b], sy = own.sums.s[1].of[b], sz = own.sums.s[2].of[b];
    gc.of[b] = sx * state[1].of[b] + sy * state[2].of[b] + sz * state[3].of[b];
    g[1].of[b] += state[0].of[b] * sx;
    g[2].of[b] += state[0].of[b] * sy;
    g[3].of[b] += state[0].of[b] * sz;
  }
  store_vector<PER>(grad_x, own.sums.ga);
  store_vector<PER>(grad_x + f, own.sums.gb);
  store_vector<PER>(grad_x + 2 * f, gc);
#pragma unroll
  for (int d = 0; d < 4; d++) store_vector<PER>(grad_in + d * f, g[d]);
}

/* Warps of a block at most; blocks of a multiprocessor at least, which leaves 128 registers (fp64: 168) for MOST_PER
 * channels of a lane and 96 for fewer; adjoints of neighbours of a warp in shared memory or on their way there; and
 * lines of a warp that are made together. */
template <int PER, int IS_SHARED> struct backward_of {
  enum { WARPS = IS_SHARED ? MOST_SHARES : BACKWARD_WARPS, BLOCKS_OF_MOST = MLFF_REAL_IS_DOUBLE ? 3 : 4 };
  enum { BLOCKS = IS_SHARED ? (PER == MOST_PER ? 1 : 2) : PER == MOST_PER ? BLOCKS_OF_MOST : 5 };
  enum { AHEAD = IS_SHARED && PER == MOST_PER ? 2 : 4, LINES = (IS_SHARED ? 64 : 128) / sizeof(real) };
};

/* What backward reads of a neighbour: adjoints at every lane's channels. */
template <int PER> struct grad_ahead {
  vector_of<PER> of[4][WARP];
};

/* Starts the copy of a node's adjoints; each lane waits for the channels that are its own. */
template <int PER> MLFF_DEVICE void copy_grad(const message_arrays &a, int node, int k, int lane, grad_ahead<PER> *to)
{
  const int f = a.n_features;
  const real *grad = a.grad + k + row_of(node, 4 * f);
  if (k < f)
    for (int part = 0; part < 4; part++) copy_ahead<PER>(to->of[part][lane].of, grad + part * f);
}

/* Adds one edge at PER channels, where u is that of the list, so opposite to the edge's own:
 *   q[i] += fa a          g_a += fa g_q;           dE/dr += g_q a da
 *   mu[i] -= fb b u       g_b -= fb g.u;           dE/dr -= g.u b db;         dE/du -= fb b g
 *   mu[i] += fc c mu_j    s += fc g;               dE/dr += g.(c mu_j) dc            with g = g_mu[i] */
template <int DENSE, int PER>
MLFF_DEVICE void send(const message_arrays &a, int64_t e, const edge_line &line, const grad_ahead<PER> &grad, int k,
                      int lane, sender<PER> *own, real sum[4])
{
  const vector_of<4> c = line.coef, s = line.slope, unit = line.unit;
  const real *coef = DENSE ? a.terms + e * 2 * a.n_terms : c.of, *slope = DENSE ? coef + a.n_terms : s.of;
  const int f = a.n_features, ld = 3 * f;
  const real *r = a.rows + k + line.row;
  const real *u = unit.of;
  vector_of<PER> value[3], change[3];
#pragma unroll
  for (int part = 0; part < 3; part++) {
    value[part] = combine<DENSE, PER>(coef, a.n_terms, r + part * f, ld);
    change[part] = combine<DENSE, PER>(slope, a.n_terms, r + part * f, ld);
  }
  const vector_of<PER> gq = grad.of[0][lane], g[3] = {grad.of[1][lane], grad.of[2][lane], grad.of[3][lane]};
#pragma unroll
  for (int b = 0; b < PER; b++) {
    const real gx = g[0].of[b], gy = g[1].of[b], gz = g[2].of[b], gu = gx * u[0] + gy * u[1] + gz * u[2];
    const real fbb = value[1].of[b] * own->b.of[b];
    own->sums.ga.of[b] += value[0].of[b] * gq.of[b];
    own->sums.gb.of[b] -= value[1].of[b] * gu;
#pragma unroll
    for (int d = 0; d < 3; d++) {
      own->sums.s[d].of[b] += value[2].of[b] * g[d].of[b];
      sum[d] -= fbb * g[d].of[b];
    }
    sum[3] += gq.of[b] * own->a.of[b] * change[0].of[b] - gu * own->b.of[b] * change[1].of[b] +
              (gx * own->m[0].of[b] + gy * own->m[1].of[b] + gz * own->m[2].of[b]) * change[2].of[b];
  }
}

/* Reverses message_kernel for sender j over its edges, i the node of the neighbour:
 *   g_x[j] = sum_e (g_q[i], g_mu[i].u, g_mu[i].mu_j) * filter,  grad_in[j] = grad[j] + (0, sum_e g_mu[i] f_c c)
 *   edge_grad[e] = or += (dE/du, dE/dr)
 *   grad [n_nodes][4F], grad_x [n][3F], grad_in [n][4F], edge_grad [n_edges][4]
 * A warp owns sender j, a lane PER channels that follow one another of a chunk of 32 PER; chunks follow one another and
 * add to edge_grad. A block has BACKWARD_WARPS warps; where IS_SHARED, it owns sender j, and its warps share out the
 * edges. Lanes make lines in shared memory, where adjoints of neighbours come ahead of their use. The four sums of an
 * edge go through shuffles, those of the sender's shares in order through shared memory. Deterministic.
 * Twin: painn_message_backward_cpu, backward_edge. */
template <int DENSE, int PER, int IS_SHARED>
__global__ void __launch_bounds__(WARP *backward_of<PER, IS_SHARED>::WARPS, backward_of<PER, IS_SHARED>::BLOCKS)
    message_backward_kernel(message_arrays a)
{
  grid_dependency_wait();
  typedef backward_of<PER, IS_SHARED> sizes;
  enum { WARPS = sizes::WARPS, AHEAD = sizes::AHEAD, LINES = sizes::LINES };
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int64_t j = a.begin + (IS_SHARED ? (int64_t) blockIdx.x : (int64_t) blockIdx.x * BACKWARD_WARPS + warp);
  if (j >= a.end) return;
  const int step = IS_SHARED ? (int) blockDim.x / WARP : 1;
  const int64_t begin = a.row[j] + (IS_SHARED ? warp : 0);
  const int n_edges = ((int) (a.row[j + 1] - begin) + step - 1) / step;
  const int32_t *node = a.from.node + begin;
  MLFF_SHARED(grad_ahead<PER>, ahead, WARPS * AHEAD);
  MLFF_SHARED(edge_line, lines, WARPS * LINES);
  grad_ahead<PER> *const own_ahead = ahead + warp * AHEAD;
  edge_line *const own_lines = lines + warp * LINES;
  for (int k0 = 0; k0 < a.n_features; k0 += WARP * PER) {
    const int k = k0 + lane * PER;
    const bool has_channels = k < a.n_features;
    sender<PER> own = {};
    if (has_channels) sender_begin<PER>(a, j, k, &own);
    int nodes[AHEAD];
#pragma unroll
    for (int n = 0; n < AHEAD; n++) nodes[n] = n < n_edges ? node[n * step] : 0;
#pragma unroll
    for (int n = 0; n < AHEAD - 1; n++) {
      if (n < n_edges) copy_grad<PER>(a, nodes[n], k, lane, &own_ahead[n]);
      __pipeline_commit();
    }
    int next = nodes[AHEAD - 1];
    for (int n = 0; n < n_edges; n++) {
      const int later = n + AHEAD - 1;
      if (later < n_edges) copy_grad<PER>(a, next, k, lane, &own_ahead[later % AHEAD]);
      __pipeline_commit();
      next = later + 1 < n_edges ? node[(later + 1) * step] : 0;
      const int made = n + lane;
      if (n % LINES == 0 && lane < LINES && made < n_edges) own_lines[lane] = make_line(a.from, begin + made * step, 0);
      __pipeline_wait_prior(AHEAD - 1);
      __syncwarp();
      real sum[4] = {0, 0, 0, 0}, before = 0;
      if (IS_SHARED && lane % 8 == 0 && (a.accumulate || k0)) /* comes meanwhile; else there is no register for it */
        before = a.edge_grad[4 * (begin + n * step) + lane / 8];
      if (has_channels)
        send<DENSE, PER>(a, begin + n * step, own_lines[n % LINES], own_ahead[n % AHEAD], k, lane, &own, sum);
      real total = warp_sum4(sum[0], sum[1], sum[2], sum[3], lane);
      __syncwarp();
      if (lane % 8) continue;
      real *grad = a.edge_grad + 4 * (begin + n * step) + lane / 8;
      if (IS_SHARED || a.accumulate || k0) total += IS_SHARED ? before : *grad;
      *grad = total;
    }
    if (IS_SHARED) {
      static_assert((MOST_SHARES - 1) * WARP * sizeof(sender_sums<PER>) <= WARPS * AHEAD * sizeof *ahead, "they fit");
      join_shares<PER>(step, warp, lane, (sender_sums<PER> *) (void *) ahead, &own.sums);
    }
    if (has_channels && (!IS_SHARED || warp == 0)) sender_end<PER>(a, j, k, own);
  }
}

} // namespace

static message_arrays arrays_of(const mlff_painn_message_args *args, int n_shares)
{
  message_arrays a;
  memset(&a, 0, sizeof a);
  a.begin = args->begin;
  a.end = args->end;
  a.ldq = args->ldq;
  a.row = (const int64_t *) args->edges->row.data;
  a.from = line_source_of(args->edges, args->radial, args->n_terms, 3 * args->n_features);
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
  a.n_shares = n_shares;
  return a;
}

/* Threads or warps that share out the edges of an atom, which has `width` threads for each; 1: one does them all. */
static int shares_of(const mlff_cuda_backend *cuda, const mlff_painn_message_args *args, int width)
{
  if (!mlff_cuda_is_small_system(cuda, args->edges->n_local) || SHARES * width > MOST_THREADS) return 1;
  const bool is_few = args->edges->n_local <= (int64_t) FEW_PER_SM * cuda->n_multiprocessors;
  return is_few && MOST_SHARES * width <= MOST_THREADS ? MOST_SHARES : SHARES;
}

template <int DENSE> static void start_message(mlff_backend *backend, const mlff_painn_message_args *args)
{
  const int n_groups = args->n_features / CHANNELS, n_shares = shares_of(mlff_cuda_of(backend), args, n_groups);
  const bool shared = n_shares > 1;
  const int64_t n_atoms = args->end - args->begin;
  const int n_threads = shared ? (n_shares * n_groups + WARP - 1) / WARP * WARP : MESSAGE_THREADS;
  const size_t for_lines = (size_t) n_threads * sizeof(edge_line),
               for_shares = (size_t) ((n_shares - 1) * n_groups) * sizeof(receiver);
  mlff_cuda_launch(backend, "message_kernel", 0, shared ? message_kernel<DENSE, 1> : message_kernel<DENSE, 0>,
                   shared ? (unsigned) n_atoms : mlff_cuda_blocks(n_atoms * n_groups, MESSAGE_THREADS),
                   (unsigned) n_threads, for_lines > for_shares ? for_lines : for_shares, arrays_of(args, n_shares));
}

void MLFF_CUDA(painn_message_cuda)(mlff_backend *backend, const mlff_painn_message_args *args)
{
  if (args->n_terms == 4)
    start_message<0>(backend, args);
  else
    start_message<1>(backend, args);
}

template <int IS_SHARED> static void (*backward_kernel(int n_terms, int n_features))(message_arrays)
{
  if (n_terms != 4) return message_backward_kernel<1, 2, IS_SHARED>;
  if (n_features <= WARP) return message_backward_kernel<0, 1, IS_SHARED>;
  if (n_features <= 2 * WARP) return message_backward_kernel<0, 2, IS_SHARED>;
  return message_backward_kernel<0, MOST_PER, IS_SHARED>;
}

void MLFF_CUDA(painn_message_backward_cuda)(mlff_backend *backend, const mlff_painn_message_args *args)
{
  const int n_shares = shares_of(mlff_cuda_of(backend), args, WARP);
  const bool shared = n_shares > 1;
  const unsigned n_blocks = mlff_cuda_blocks(args->end - args->begin, shared ? 1 : BACKWARD_WARPS);
  mlff_cuda_launch(backend, "message_backward_kernel", 0,
                   shared ? backward_kernel<1>(args->n_terms, args->n_features)
                          : backward_kernel<0>(args->n_terms, args->n_features),
                   n_blocks, (unsigned) (WARP * (shared ? n_shares : BACKWARD_WARPS)), 0, arrays_of(args, n_shares));
}
