/* nequip_message.cu: messages of NequIP networks, forward and backward, on the GPU. Twin: cpu/nequip_message.c.
 *
 * Both passes own the receiver. A block makes the couplings K of some edges in shared memory, a lane an edge, from the
 * Clebsch-Gordan coefficients, which are constants of the code as in the CPU's backward pass. Then a warp takes CHUNK
 * channels of SLOTS edges at a time (nequip.h): forward one path, whose sums stay in registers, backward one order of
 * the neighbour with all of its paths. What goes back to neighbours is written for each edge and added up by a kernel
 * that owns the neighbour: no atomics, and the same bits in every run. As much of it is held as args->messages has room
 * for; larger systems take some receivers at a time.
 *
 * Machine code of sm_90, float: 127 and 168 registers, no spills, no generic loads. Of 358 instructions of the loop
 * over edges at a path of l1 = l3 = 3, 244 are products and 25 are loads of 16 bytes; at (0, 0, 0) 32 of 123 are.
 * Rows of R come from the second-level cache, 16 bytes for each weight, edge and pass: by a model that bounds both
 * passes as much as arithmetic does (docs/gpu.md). Nothing here has been measured.
 */
#include "edges.h"
#include "nequip_couplings.h"

enum { FORWARD_WARPS = 8, BACKWARD_WARPS = 4, SUM_THREADS = 192, SHARED_BYTES = 40960 };
static_assert(2 * WARP >= MOST_PATHS, "bring_paths has a thread for each path");
enum { BACKWARD_BLOCKS = MLFF_REAL_IS_DOUBLE ? 2 : 3 }; /* of a multiprocessor: registers for so many */

namespace { /* kernels and their arguments differ between element types */

typedef struct message_arrays {
  int64_t begin, end, in_ld, out_ld;
  const int64_t *row;
  const mlff_nequip_path *paths;
  const real *y;
  real *sums; /* [n][out_ld] block */
  real *messages, *edge_grad;
  radial_part radial;
  int n_in[MLFF_NEQUIP_ORDERS], in_at[MLFF_NEQUIP_ORDERS], n_out[MLFF_NEQUIP_ORDERS];
  int n_paths, n_orders;
  int n_edges, stride; /* edges whose couplings are in shared memory, and reals from one to the next */
  int n_teams, accumulate;
} message_arrays;

/* Where lane's edge e reads the features of its neighbour, and its rows of R. */
MLFF_DEVICE const real *neighbour(const message_arrays &a, const real *line, const real **rows)
{
  const line_index index = line_load_index(line);
  *rows = a.radial.rows + (a.radial.n_terms == 4 ? (int64_t) index.first * a.radial.n_weights : 0);
  return a.y + index.node * a.in_ld;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* sums[k] (+)= sum over edges of w sum_i K[i][k] y[i] at channels c .. of a path, n1 = 2l1+1 and n3 = 2l3+1; IDENTITY:
 * K is. Edges e0 .. e0 + n, whose couplings are in shared memory. */
template <int N1, int N3, int IDENTITY>
MLFF_DEVICE void path_forward(const message_arrays &a, const mlff_nequip_path &p, int64_t e0, int n, int c, int slot,
                              const real *couplings, real *to, bool is_first)
{
  const int64_t ld1 = a.n_in[p.l1], ld3 = a.n_out[p.l3];
  const bool inside = c < p.n;
  vec sum[N3];
#pragma unroll
  for (int k = 0; k < N3; k++) sum[k] = vec_zero();
#pragma unroll(N1 *N3 > 5 ? 1 : 2)
  for (int q = slot; q < (inside ? n : 0); q += SLOTS) {
    const real *line = a.radial.lines + (e0 + q) * MLFF_PAINN_LINE, *rows;
    const real *y = neighbour(a, line, &rows) + a.in_at[p.l1] + c, *coupling = couplings + q * a.stride + p.coupling;
    vec w, kv = vec_zero();
    edge_weights(a.radial, rows + p.column + c, line, e0 + q, &w, NULL);
#pragma unroll
    for (int i = 0; i < N1; i++) {
      const vec wy = vec_product(w, vec_load(y + i * ld1));
      if (IDENTITY) vec_add(&sum[i % N3], 1, wy);
#pragma unroll
      for (int k = 0; k < (IDENTITY ? 0 : N3); k++) {
        const int x = i * N3 + k;
        if (x % VEC == 0) kv = vec_load(coupling + x);
        vec_add(&sum[k], kv.v[x % VEC], wy);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < N3; k++) {
    slots_sum(&sum[k]);
    if (!inside || k % SLOTS != slot) continue;
    if (!is_first) vec_add(&sum[k], 1, vec_load(to + k * ld3));
    vec_store(to + k * ld3, sum[k]);
  }
}

#define FORWARD(l1, l3)                                                                                       \
  case 4 * (l1) + (l3):                                                                                       \
    path_forward<2 * (l1) + 1, 2 * (l3) + 1, 0>(a, p, e0, n, c, slot, couplings, sums + p.out + c, is_first); \
    break;
#define FORWARD_IDENTITY(l)                                                                                 \
  case 16 + (l):                                                                                            \
    path_forward<2 * (l) + 1, 2 * (l) + 1, 1>(a, p, e0, n, c, slot, couplings, sums + p.out + c, is_first); \
    break;
#define FORWARD_FROM(l1) FORWARD(l1, 0) FORWARD(l1, 1) FORWARD(l1, 2) FORWARD(l1, 3) FORWARD_IDENTITY(l1)

/* sums[i][p][k][u] = sum_e w_pu(e) sum_i' K_p[i'][k](e) y[j][l1][i'][u],  w = sum_t coef_t R[first + t]
 *   R [n_rows][n_weights], y [n_nodes][in_ld], sums [n][out_ld]
 * Grid: x over receivers, y over shares of the tasks; a task is CHUNK channels of a path. A block owns receiver i and
 * takes a.n_edges of its edges at a time: their harmonics and couplings [n_edges][stride] go to shared memory, then
 * each warp does its tasks, whose sums over the slots are registers and are added to those of the edges before. A task
 * has one warp, whatever the grid; deterministic. Twin: nequip_message_cpu. */
__global__ void __launch_bounds__(FORWARD_WARPS *WARP, 2) nequip_message_kernel(message_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(real, couplings);
  MLFF_SHARED(mlff_nequip_path, scratch, MOST_PATHS);
  MLFF_SHARED(mlff_nequip_path, paths, MOST_PATHS);
  MLFF_SHARED(int, first, MLFF_NEQUIP_ORDERS + 1);
  const int lane = (int) threadIdx.x % WARP, slot = lane / LANES;
  const int64_t i = a.begin + blockIdx.x, begin = a.row[i], end = a.row[i + 1];
  real *sums = a.sums + (i - a.begin) * a.out_ld;
  bring_paths(a.paths, a.n_paths, scratch, paths, first);
  for (int64_t e0 = begin; e0 == begin || e0 < end; e0 += a.n_edges) {
    const int n = end - e0 < a.n_edges ? (int) (end - e0) : a.n_edges;
    const bool is_first = e0 == begin;
    int mine = (int) (blockIdx.y * FORWARD_WARPS + threadIdx.x / WARP), task = 0;
    make_couplings(paths, a.n_paths, a.radial.lines, e0, n, couplings, a.stride);
    for (int q = 0; q < a.n_paths; q++) {
      const mlff_nequip_path &p = paths[q];
      for (int c0 = 0; c0 < p.n; c0 += CHUNK, task++) {
        if (task != mine) continue;
        mine += (int) gridDim.y * FORWARD_WARPS;
        const int c = c0 + lane % LANES * VEC;
        switch (p.l2 == 0 ? 16 + p.l1 : 4 * p.l1 + p.l3) {
          FORWARD_FROM(0)
          FORWARD_FROM(1)
          FORWARD_FROM(2)
          FORWARD_FROM(3)
        }
      }
    }
    __syncthreads(); /* the couplings are about to be overwritten */
  }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* reverses path_forward for one edge, g = g_sums: for each i and channel
 *   A = sum_k K[i][k] g[k];  dE/dr += dw A y[i];  back[i] += w A;  g_K[i][k] = sum_u w y[i] g[k]
 * and dE/dY_j += sum_ik c_ijk g_K[i][k]. v = (dE/dr, dE/dY); rows, g: at the path's columns and channels */
template <int L1, int L2, int L3>
MLFF_DEVICE void path_backward(const message_arrays &a, const real *line, int64_t e, const real *rows, const real *g,
                               const real *coupling, const vec *y, vec *back, real *v)
{
  constexpr int n1 = 2 * L1 + 1, n3 = 2 * L3 + 1;
  const int64_t ld3 = a.n_out[L3];
  vec w, dw, gk[n3], along = vec_zero(), kv = vec_zero();
  edge_weights(a.radial, rows, line, e, &w, &dw);
#pragma unroll
  for (int k = 0; k < n3; k++) gk[k] = vec_load(g + k * ld3);
#pragma unroll
  for (int i = 0; i < n1; i++) {
    const vec wy = vec_product(w, y[i]);
    vec back_y = L2 == 0 ? gk[i % n3] : vec_zero();
    real g_coupling[n3];
#pragma unroll
    for (int k = 0; k < (L2 > 0 ? n3 : 0); k++) {
      const int x = i * n3 + k;
      if (x % VEC == 0) kv = vec_load(coupling + x);
      vec_add(&back_y, kv.v[x % VEC], gk[k]);
      g_coupling[k] = vec_dot(wy, gk[k]);
    }
    vec_add_product(&along, back_y, y[i]);
    vec_add_product(&back[i], w, back_y);
    if constexpr (L2 > 0) uncouple_all<L1, L2, L3>(i, g_coupling, v, typename coefficients<L1, L2, L3>::all());
  }
  v[0] += vec_dot(along, dw);
}

#define BACKWARD(l1, l2, l3, n)                                                                                \
  case 16 * (l1) + 4 * (l2) + (l3):                                                                            \
    if constexpr (L1 == (l1)) path_backward<L1, l2, l3>(a, line, e, r, gp, coupling + p.coupling, y, back, v); \
    break;

/* All paths from order L1 of the neighbour at channels c .. of edge e; what goes back to them into `message`. */
template <int L1>
MLFF_DEVICE void order_backward(const message_arrays &a, const mlff_nequip_path *paths, const mlff_nequip_path *end,
                                int64_t e, int c, const real *g, const real *coupling, real *message, real *v)
{
  const real *line = a.radial.lines + e * MLFF_PAINN_LINE, *rows, *from = neighbour(a, line, &rows) + a.in_at[L1] + c;
  const int64_t ld1 = a.n_in[L1];
  vec y[2 * L1 + 1], back[2 * L1 + 1];
#pragma unroll
  for (int i = 0; i < 2 * L1 + 1; i++) {
    y[i] = vec_load(from + i * ld1);
    back[i] = vec_zero();
  }
  for (const mlff_nequip_path *at = paths; at < end; at++) {
    const mlff_nequip_path &p = *at;
    const real *r = rows + p.column + c, *gp = g + p.out + c;
    switch (16 * L1 + 4 * p.l2 + p.l3) {
      MLFF_CG_TRIPLES(BACKWARD)
    }
  }
#pragma unroll
  for (int i = 0; i < 2 * L1 + 1; i++) vec_store(message + a.in_at[L1] + i * ld1 + c, back[i]);
}

/* With g = g_sums[i] and K, w of edge e:
 *   messages[e - e_0][l1][i'][u] = sum_p w_pu sum_k K_p[i'][k] g[p][k][u],  e_0 the first edge of a.begin
 *   dE/dr, dE/dY of edge e from all paths, and from them edge_grad[e] = or += dE/d(x_j - x_i)
 * Grid: x over receivers, y over shares of their edges. A block owns receiver i and takes a.n_edges of its edges at a
 * time, whose couplings go to shared memory. Its warps are n_teams teams; a team owns SLOTS edges, its warps take turns
 * at CHUNK channels of an order: one warp has all where there are many atoms, four share where there are few. Shared
 * memory: couplings [n_edges][stride], and 16 sums for each slot of each warp, added in the order of warps.
 * Deterministic. Twin: nequip_message_backward_cpu, edge_backward. */
__global__ void __launch_bounds__(BACKWARD_WARPS *WARP, BACKWARD_BLOCKS)
    nequip_message_backward_kernel(message_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(real, couplings);
  MLFF_SHARED(mlff_nequip_path, scratch, MOST_PATHS);
  MLFF_SHARED(mlff_nequip_path, paths, MOST_PATHS);
  MLFF_SHARED(int, first, MLFF_NEQUIP_ORDERS + 1);
  MLFF_SHARED(real, sums, BACKWARD_WARPS * SLOTS * MLFF_NEQUIP_HARMONICS);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP, slot = lane / LANES;
  const int n_members = (int) blockDim.x / WARP / a.n_teams, team = warp / n_members, member = warp % n_members;
  const int64_t i = a.begin + blockIdx.x, end = a.row[i + 1], step = (int64_t) gridDim.y * a.n_edges;
  const real *g = a.sums + (i - a.begin) * a.out_ld;
  bring_paths(a.paths, a.n_paths, scratch, paths, first);
  for (int64_t e0 = a.row[i] + (int64_t) blockIdx.y * a.n_edges; e0 < end; e0 += step) {
    const int n = end - e0 < a.n_edges ? (int) (end - e0) : a.n_edges, q = team * SLOTS + slot;
    const int64_t e = e0 + q;
    real v[MLFF_NEQUIP_HARMONICS];
#pragma unroll
    for (int k = 0; k < MLFF_NEQUIP_HARMONICS; k++) v[k] = 0;
    make_couplings(paths, a.n_paths, a.radial.lines, e0, n, couplings, a.stride);
    const real *coupling = couplings + q * a.stride;
    real *message = a.messages + (e - a.row[a.begin]) * a.in_ld;
    for (int l = 0, task = 0; l < a.n_orders; l++) {
      for (int c = lane % LANES * VEC, c0 = 0; c0 < a.n_in[l]; c += CHUNK, c0 += CHUNK) {
        if (task++ % n_members != member || c >= a.n_in[l] || q >= n) continue;
        const mlff_nequip_path *at = paths + first[l], *last = paths + first[l + 1];
        if (l == 0) order_backward<0>(a, at, last, e, c, g, coupling, message, v);
        if (l == 1) order_backward<1>(a, at, last, e, c, g, coupling, message, v);
        if (l == 2) order_backward<2>(a, at, last, e, c, g, coupling, message, v);
        if (l == 3) order_backward<3>(a, at, last, e, c, g, coupling, message, v);
      }
    }
    slot_sum(v, lane, sums + (warp * SLOTS + slot) * MLFF_NEQUIP_HARMONICS);
    __syncthreads();
    if (member == 0 && lane % LANES == 0 && q < n)
      store_gradient(a.radial.lines + e * MLFF_PAINN_LINE, sums + (warp * SLOTS + slot) * MLFF_NEQUIP_HARMONICS,
                     n_members, SLOTS * MLFF_NEQUIP_HARMONICS, a.edge_grad + 4 * e, a.accumulate);
  }
}

typedef struct neighbour_arrays {
  int64_t begin, end, ld;
  const int64_t *row, *list_row, *in_row;
  const int32_t *in_pair, *edge;
  const real *messages;
  real *grad;
  int64_t is_whole; /* receivers begin .. end are all that there are */
} neighbour_arrays;

/* First place q in low .. high of in_pair whose candidate is not before p. */
MLFF_DEVICE int64_t first_place(const neighbour_arrays &a, int64_t low, int64_t high, int64_t p)
{
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (a.in_pair[middle] < p)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* grad[j] += sum of messages[e - e_0] over the edges e of receivers begin .. end that end at node j, in the order of
 * the list; rows of ld
 * A block owns node j = 0 .. n_nodes-1, a thread every blockDim-th VEC columns; a warp reads the edges of 32 candidates
 * at once and hands them round. No shared memory; deterministic. The CPU scatters instead. */
__global__ void __launch_bounds__(SUM_THREADS) nequip_neighbours_kernel(neighbour_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t j = blockIdx.x, e_0 = a.row[a.begin];
  int64_t begin = a.in_row[j], end = a.in_row[j + 1];
  if (!a.is_whole) {
    begin = first_place(a, begin, end, a.list_row[a.begin]);
    end = first_place(a, begin, end, a.list_row[a.end]);
  }
  if (begin >= end) return;
  for (int64_t c0 = 0; c0 < a.ld; c0 += (int64_t) blockDim.x * VEC) {
    const int64_t c = c0 + (int64_t) threadIdx.x * VEC;
    vec sum = vec_zero();
    for (int64_t q = begin; q < end; q += WARP) {
      const int32_t mine = q + lane < end ? a.edge[a.in_pair[q + lane]] : -1;
      const int n = end - q < WARP ? (int) (end - q) : WARP;
#pragma unroll 4
      for (int t = 0; t < n; t++) {
        const int32_t e = __shfl_sync(FULL_WARP, mine, t);
        if (e >= 0 && c < a.ld) vec_add(&sum, 1, vec_load(a.messages + (e - e_0) * a.ld + c));
      }
    }
    if (c >= a.ld) continue;
    real *to = a.grad + j * a.ld + c;
    vec_add(&sum, 1, vec_load(to));
    vec_store(to, sum);
  }
}

} // namespace

static message_arrays arrays_of(const mlff_nequip_message_args *args)
{
  message_arrays a;
  memset(&a, 0, sizeof a);
  a.begin = args->begin;
  a.end = args->end;
  a.in_ld = args->in.ld;
  a.out_ld = args->out.ld;
  a.row = (const int64_t *) args->edges->row.data;
  a.paths = args->paths;
  a.y = (const real *) args->y;
  a.sums = (real *) args->sums;
  a.messages = (real *) args->messages;
  a.edge_grad = (real *) args->edge_grad;
  a.radial = radial_of(&args->radial, args->rows);
  for (int l = 0; l < MLFF_NEQUIP_ORDERS; l++) {
    a.n_in[l] = l < args->in.n_orders ? args->in.n[l] : 0;
    a.in_at[l] = l < args->in.n_orders ? args->in.at[l] : 0;
    a.n_out[l] = l < args->out.n_orders ? args->out.n[l] : 0;
  }
  a.n_paths = args->n_paths;
  a.n_orders = args->in.n_orders;
  a.accumulate = args->accumulate;
  /* what the paths take, each filled up to 4, and from one edge to the next 16 bytes more than all banks */
  const int n =
      MLFF_NEQUIP_HARMONICS + args->n_coupling[1] + args->n_coupling[2] + args->n_coupling[3] + 3 * args->n_paths;
  const int all_banks = 128 / (int) sizeof(real);
  a.stride = (n + all_banks - 1) / all_banks * all_banks + VEC;
  return a;
}

static size_t shared_bytes(const message_arrays &a, int n_edges)
{
  return (size_t) n_edges * (size_t) a.stride * sizeof(real);
}

void MLFF_CUDA(nequip_message_cuda)(mlff_backend *backend, const mlff_nequip_message_args *args)
{
  message_arrays a = arrays_of(args);
  const unsigned n_atoms = (unsigned) (a.end - a.begin);
  const unsigned n_tasks = mlff_cuda_blocks(a.radial.n_weights, CHUNK), most = mlff_cuda_blocks(n_tasks, FORWARD_WARPS);
  const unsigned wanted = 2 * (unsigned) mlff_cuda_of(backend)->n_multiprocessors;
  const unsigned shares = n_atoms ? (wanted + n_atoms - 1) / n_atoms : 1;
  for (a.n_edges = WARP; a.n_edges > SLOTS && shared_bytes(a, a.n_edges) > SHARED_BYTES;) a.n_edges -= SLOTS;
  MLFF_LAUNCH(backend, nequip_message_kernel, dim3(n_atoms, shares < most ? shares : most), FORWARD_WARPS * WARP,
              shared_bytes(a, a.n_edges), a);
}

/* Receivers begin .. end of a, whose messages there is room for. */
static void message_backward(mlff_backend *backend, const mlff_nequip_message_args *args, message_arrays a,
                             bool is_whole)
{
  const mlff_edges *edges = args->edges;
  const graph_arrays graph = graph_of(edges);
  const unsigned n_atoms = (unsigned) (a.end - a.begin);
  int n_warps = BACKWARD_WARPS;
  while (n_warps > 2 && shared_bytes(a, n_warps * SLOTS) > SHARED_BYTES) n_warps--;
  /* a warp for each SLOTS edges fills the GPU, or several share them */
  const unsigned n_shares = edge_shares(backend, edges, n_atoms, n_warps * SLOTS);
  const bool is_small = n_atoms * n_shares < 2 * (unsigned) mlff_cuda_of(backend)->n_multiprocessors;
  a.n_teams = is_small ? 1 : n_warps;
  a.n_edges = a.n_teams * SLOTS;
  const dim3 grid(n_atoms, is_small ? edge_shares(backend, edges, n_atoms, SLOTS) : n_shares);
  MLFF_LAUNCH(backend, nequip_message_backward_kernel, grid, (unsigned) (n_warps * WARP), shared_bytes(a, a.n_edges),
              a);
  neighbour_arrays b;
  memset(&b, 0, sizeof b);
  b.begin = a.begin;
  b.end = a.end;
  b.ld = a.in_ld;
  b.row = a.row;
  b.list_row = graph.row;
  b.in_row = graph.in_row;
  b.in_pair = graph.in_pair;
  b.edge = graph.edge;
  b.messages = a.messages;
  b.grad = (real *) args->grad;
  b.is_whole = is_whole;
  const int64_t n_vecs = (a.in_ld / VEC + WARP - 1) / WARP * WARP;
  MLFF_LAUNCH(backend, nequip_neighbours_kernel, (unsigned) edges->n_nodes,
              (unsigned) (n_vecs < SUM_THREADS ? n_vecs : (int64_t) SUM_THREADS), 0, b);
}

void MLFF_CUDA(nequip_message_backward_cuda)(mlff_backend *backend, const mlff_nequip_message_args *args)
{
  message_arrays a = arrays_of(args);
  const mlff_edges *edges = args->edges;
  const int64_t longest = (edges->longest_row + 63) / 64 * 64; /* the same for similar lists: replay.cpp */
  const int64_t n_atoms = args->end - args->begin;
  int64_t at_once = n_atoms;
  if (edges->n_room > args->n_messages && longest > 0) at_once = args->n_messages / longest;
  if (at_once < 1) at_once = 1;
  for (int64_t begin = args->begin; begin < args->end; begin += at_once) {
    a.begin = begin;
    a.end = args->end - begin < at_once ? args->end : begin + at_once;
    a.sums = (real *) args->sums + (begin - args->begin) * a.out_ld;
    message_backward(backend, args, a, a.end - a.begin == edges->n_local);
  }
}
