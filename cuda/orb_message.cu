/* orb_message.cu: messages of Orb on the GPU (orb_message of ops_orb.h). Twin: cpu/orb.c.
 *
 * Sums of what arrives at a node go over a list of the edges that end there, made with the graph: no atomics.
 */
#include "orb.h"

/* AT_ONCE: edges of a thread that sums over them, whose numbers come together. MESSAGE_BLOCKS: of a multiprocessor.
 * SEND_BYTES: of shared memory, as long as the rows of an edge need no more. */
enum { MESSAGE_THREADS = 256, MESSAGE_BLOCKS = MLFF_REAL_IS_DOUBLE ? 1 : 4, AT_ONCE = 4, SEND_BYTES = 48 * 1024 };

namespace { /* kernels and their arguments differ between element types */

typedef struct message_arrays {
  int64_t begin, first, end, stride; /* first atom; its first row; end of the rows */
  const int64_t *in_row;
  const int32_t *in_edge, *receiver;
  const real *x, *gates, *gain, *shift, *env;
  real *factors, *e, *received, *sent;
  double epsilon, gate_bias[2];
  int width, last, at_once, unused; /* at_once: edges of a sender in shared memory */
} message_arrays;

/* Rows x and e of an edge, in shared memory: the lanes of a warp start their copies. */
template <int N> MLFF_DEVICE void bring_edge(const message_arrays &a, int64_t edge, real *x, real *e, int lane)
{
  enum { PIECE = N * sizeof(real) < 16 ? N : 16 / sizeof(real) };
  const real *from_x = a.x + (edge - a.first) * a.width, *from_e = a.e + edge * a.width;
  for (int k = lane * PIECE; k < a.width; k += WARP * PIECE) {
    copy_ahead<PIECE>(x + k, from_x + k);
    copy_ahead<PIECE>(e + k, from_e + k);
  }
}

/* The factors of an edge, from rows x and e, by a warp. Twin: edge_message. */
template <int N>
MLFF_DEVICE vector_of<N_FACTORS> make_factors(const message_arrays &a, const real *x, const real *e, real env, int lane)
{
  real receive = 0, send = 0;
  vector_of<N_FACTORS> factors;
#pragma unroll 8 / N
  for (int k = lane * N; k < a.width; k += WARP * N) {
    const vector_of<N> v = load_vector<N>(e + k);
    const vector_of<N> gates[2] = {load_vector<N>(a.gates + k), load_vector<N>(a.gates + a.width + k)};
#pragma unroll
    for (int c = 0; c < N; c++) {
      receive += gates[0].of[c] * v.of[c];
      send += gates[1].of[c] * v.of[c];
    }
  }
  receive = warp_sum(receive);
  send = warp_sum(send);
  row_moments<N>(x, a.width, a.epsilon, lane, &factors.of[FACTOR_MEAN], &factors.of[FACTOR_SCALE]);
  factors.of[FACTOR_RECEIVE] = env * real_sigmoid(receive + (real) a.gate_bias[0]);
  factors.of[FACTOR_SEND] = env * real_sigmoid(send + (real) a.gate_bias[1]);
  return factors;
}

/* Channels k .. k + N of the messages of a node's edges, by the threads of a block. Where the channels are fewer than
 * its threads, several have the same ones, and each every n_shares-th edge. */
template <int N> struct message_sums {
  int n_threads, n_shares, share, k;
  vector_of<N> gain, shift, sum;

  __device__ __forceinline__ message_sums(const message_arrays &a)
      : n_threads(a.width / N), n_shares(1), share(0), gain(), shift(), sum()
  {
    if (n_threads < MESSAGE_THREADS) n_shares = MESSAGE_THREADS / n_threads;
    if (n_shares > 1) share = (int) threadIdx.x / n_threads;
    k = ((int) threadIdx.x - share * n_threads) * N;
  }

  /* Whether the thread has channels. */
  __device__ __forceinline__ bool begin(const message_arrays &a)
  {
    sum = {};
    if (share >= n_shares || k >= a.width) return false;
    gain = load_vector<N>(a.gain + k);
    shift = load_vector<N>(a.shift + k);
    return true;
  }

  /* m[edge], which is added to the sum with a factor. */
  __device__ __forceinline__ vector_of<N> add(const vector_of<N_FACTORS> &factors, const vector_of<N> &x, real factor)
  {
    vector_of<N> m;
#pragma unroll
    for (int c = 0; c < N; c++) {
      m.of[c] = (x.of[c] - factors.of[FACTOR_MEAN]) * factors.of[FACTOR_SCALE] * gain.of[c] + shift.of[c];
      sum.of[c] += m.of[c] * factor;
    }
    return m;
  }

  /* The sum of all shares, in their order, for the threads of the first one. shared: [N][MESSAGE_THREADS] */
  __device__ __forceinline__ void add_up(real *shared)
  {
    if (n_shares == 1) return;
#pragma unroll
    for (int c = 0; c < N; c++) shared[c * MESSAGE_THREADS + (int) threadIdx.x] = sum.of[c];
    __syncthreads();
    for (int other = 1; other < n_shares && share == 0; other++)
#pragma unroll
      for (int c = 0; c < N; c++) sum.of[c] += shared[c * MESSAGE_THREADS + (int) threadIdx.x + other * n_threads];
  }
};

/* For the edges of sender i:  a_receive and a_send = env sigmoid(gate . e + bias) and the moments of x into factors;
 * with m = norm(x):  sent[i][k] = sum m[k] a_send,  e[k] += m[k] (unless `last`)
 *   x [end - first][width], e [n_edges][width], factors [n_edges][N_FACTORS], gates [2][width], sent [n_local][width]
 * A block owns sender i and takes at_once of its edges at a time, whose rows come to shared memory together: first a
 * warp every MESSAGE_THREADS/32-th edge, for its factors, by shuffles; then, behind a barrier, the message_sums.
 * orb_receive_kernel reads the factors, too. Dynamic shared memory. Deterministic. Twin: orb_message_cpu. */
template <int N> __global__ void __launch_bounds__(MESSAGE_THREADS, MESSAGE_BLOCKS) orb_send_kernel(message_arrays a)
{
  enum { N_WARPS = MESSAGE_THREADS / WARP };
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(real, shared); /* [N][MESSAGE_THREADS]; factors, x, e of at_once edges; their receivers */
  real *const factors = shared + N * MESSAGE_THREADS, *const x = factors + a.at_once * N_FACTORS;
  real *const e = x + a.at_once * a.width;
  int32_t *const receivers = (int32_t *) (void *) (e + a.at_once * a.width);
  const int64_t i = a.begin + blockIdx.x, begin = i * a.stride, end = begin + a.stride;
  const int warp = (int) threadIdx.x / WARP, lane = (int) threadIdx.x % WARP;
  for (int64_t first = begin; first < end; first += a.at_once) {
    const int n = end - first < a.at_once ? (int) (end - first) : a.at_once;
    const int mine = warp + lane * N_WARPS; /* a lane knows of one of the warp's edges */
    const int32_t receiver = mine < n ? a.receiver[first + mine] : -1;
    for (int q = warp; q < n; q += N_WARPS) bring_edge<N>(a, first + q, x + q * a.width, e + q * a.width, lane);
    __pipeline_commit();
    const real my_env = mine < n ? a.env[first + mine] : (real) 0;
    if (mine < n) receivers[mine] = receiver;
    __pipeline_wait_prior(0);
    __syncwarp();
    for (int q = warp; q < n; q += N_WARPS) {
      const real env = __shfl_sync(FULL_WARP, my_env, q / N_WARPS);
      if (__shfl_sync(FULL_WARP, receiver, q / N_WARPS) < 0) break;
      const vector_of<N_FACTORS> of = make_factors<N>(a, x + q * a.width, e + q * a.width, env, lane);
      if (lane) continue;
      store_vector<N_FACTORS>(factors + q * N_FACTORS, of);
      store_vector<N_FACTORS>(a.factors + (first + q) * N_FACTORS, of);
    }
    __syncthreads();
    for (message_sums<N> sums(a); sums.k < a.width; sums.k += MESSAGE_THREADS * N) {
      const bool is_mine = sums.begin(a), owns_sum = is_mine && sums.share == 0;
      real *const sent = a.sent + i * a.width + sums.k;
      if (owns_sum && first > begin) sums.sum = load_vector<N>(sent);
#pragma unroll 2
      for (int q = sums.share; q < n && is_mine; q += sums.n_shares) {
        if (receivers[q] < 0) continue;
        const vector_of<N_FACTORS> of = load_vector<N_FACTORS>(factors + q * N_FACTORS);
        const vector_of<N> m = sums.add(of, load_vector<N>(x + q * a.width + sums.k), of.of[FACTOR_SEND]);
        if (a.last) continue;
        vector_of<N> more = load_vector<N>(e + q * a.width + sums.k);
#pragma unroll
        for (int c = 0; c < N; c++) more.of[c] += m.of[c];
        store_vector<N>(a.e + (first + q) * a.width + sums.k, more);
      }
      sums.add_up(shared);
      if (owns_sum) store_vector<N>(sent, sums.sum);
    }
    __syncthreads(); /* all have read what the next edges come to */
  }
}

/* received[b][k] += sum m[edge][k] a_receive over the edges in first .. end that end at node b
 *   in_row [n_nodes][2], in_edge: of the graph; received [n_nodes][width]
 * A block owns node b and has the message_sums of its edges, which come to shared memory first, MESSAGE_THREADS at a
 * time, beside N numbers of a thread. After orb_send_kernel, which makes the factors. Deterministic. Twin:
 * orb_message_cpu. */
template <int N> __global__ void __launch_bounds__(MESSAGE_THREADS, MESSAGE_BLOCKS) orb_receive_kernel(message_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(real, shared, N * MESSAGE_THREADS);
  MLFF_SHARED(int32_t, edges, MESSAGE_THREADS);
  const int64_t b = blockIdx.x, begin = a.in_row[2 * b], end = a.in_row[2 * b + 1];
  for (int64_t first = begin; first < end; first += MESSAGE_THREADS) {
    const int t = (int) threadIdx.x, n = end - first < MESSAGE_THREADS ? (int) (end - first) : MESSAGE_THREADS;
    if (t < n) edges[t] = a.in_edge[first + t]; /* in ascending order */
    __syncthreads();
    const bool has_some = edges[0] < a.end && edges[n - 1] >= a.first;
    for (message_sums<N> sums(a); has_some && sums.k < a.width; sums.k += MESSAGE_THREADS * N) {
      const bool is_mine = sums.begin(a);
      real *const to = a.received + b * a.width + sums.k;
      for (int at = sums.share; at < n && is_mine; at += AT_ONCE * sums.n_shares) {
        vector_of<N_FACTORS> factors[AT_ONCE] = {};
        vector_of<N> x[AT_ONCE] = {};
        bool is_edge[AT_ONCE];
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++) {
          const int mine = at + q * sums.n_shares, edge = mine < n ? edges[mine] : -1;
          is_edge[q] = edge >= a.first && edge < a.end;
          if (!is_edge[q]) continue;
          factors[q] = load_vector<N_FACTORS>(a.factors + (int64_t) edge * N_FACTORS);
          x[q] = load_vector<N>(a.x + (edge - a.first) * a.width + sums.k);
        }
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++)
          if (is_edge[q]) sums.add(factors[q], x[q], factors[q].of[FACTOR_RECEIVE]);
      }
      sums.add_up(shared);
      if (!is_mine || sums.share) continue;
      vector_of<N> v = load_vector<N>(to);
#pragma unroll
      for (int c = 0; c < N; c++) v.of[c] += sums.sum.of[c];
      store_vector<N>(to, v);
    }
    __syncthreads(); /* all have read the edges */
  }
}

} // namespace

void MLFF_CUDA(orb_message_cuda)(mlff_backend *backend, const mlff_orb_message_args *args)
{
  const mlff_orb_graph *graph = args->graph;
  message_arrays a;
  memset(&a, 0, sizeof a);
  a.begin = args->begin;
  a.first = mlff_orb_first_row(graph, args->begin);
  a.end = mlff_orb_first_row(graph, args->end);
  a.stride = graph->stride;
  a.width = (int) args->width;
  a.in_row = (const int64_t *) graph->in_row.data;
  a.in_edge = (const int32_t *) graph->in_edge.data;
  a.receiver = (const int32_t *) graph->node.data;
  a.x = (const real *) args->x;
  a.gates = (const real *) args->gates;
  a.gain = (const real *) args->norm->gain.data;
  a.shift = (const real *) args->norm->shift.data;
  a.env = (const real *) graph->env.data;
  a.factors = (real *) graph->scratch.data;
  a.e = (real *) args->e;
  a.received = (real *) args->received;
  a.sent = (real *) args->sent;
  a.epsilon = args->norm->epsilon;
  for (int k = 0; k < 2; k++) a.gate_bias[k] = args->gate_bias[k];
  a.last = args->last;
  const bool in_vectors = is_in_vectors(a.width);
  void (*const send)(message_arrays) = in_vectors ? orb_send_kernel<VECTOR> : orb_send_kernel<1>;
  const size_t of_sums = (in_vectors ? VECTOR : 1) * MESSAGE_THREADS * sizeof(real);
  const size_t of_edge = (size_t) (2 * a.width + N_FACTORS) * sizeof(real) + sizeof(int32_t);
  const int64_t most = (int64_t) ((SEND_BYTES - of_sums) / of_edge), room = most > 1 ? most : 1;
  a.at_once = (int) (graph->stride < room ? graph->stride : room);
  if (a.at_once > MESSAGE_THREADS) a.at_once = MESSAGE_THREADS;
  const size_t bytes = of_sums + (size_t) a.at_once * of_edge;
  if (bytes > SEND_BYTES) {
    int most_shared = 0;
    const cudaError_t failed = mlff_cuda_opt_in_shared(mlff_cuda_of(backend), &most_shared, send);
    if (failed != cudaSuccess) mlff_cuda_remember(mlff_cuda_of(backend), failed, "shared memory of orb_send_kernel");
  }
  mlff_cuda_launch(backend, "orb_send_kernel", 0, send, (unsigned) (args->end - args->begin), MESSAGE_THREADS, bytes,
                   a);
  mlff_cuda_launch(backend, "orb_receive_kernel", 0, in_vectors ? orb_receive_kernel<VECTOR> : orb_receive_kernel<1>,
                   (unsigned) graph->n_nodes, MESSAGE_THREADS, 0, a);
}
