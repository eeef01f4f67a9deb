/* nequip_message.cu: messages of NequIP networks, forward and backward, on the GPU. Twin: cpu/nequip_message.c.
 *
 *   sums[i][p][k][u] = sum_e w_pu(e) sum_i' K_p[i'][k](e) y[j][l1][i'][u],  K_p[i'][k] = sum_m c_i'mk Y_m,
 *   w = sum_t coef_t R[first + t]
 *
 * Both passes own the receiver. A block computes the couplings K of some of its edges in shared memory, a lane per
 * edge, with the Clebsch-Gordan coefficients c as compile-time constants. Then a warp processes CHUNK channels of SLOTS
 * edges at a time (nequip.h): forward one path, with its sums in registers; backward one order of the neighbor with all
 * of its paths. Gradients of neighbors are stored per edge and summed by a kernel that owns the neighbor: no atomics,
 * deterministic. If args->messages cannot hold all edges, receivers are processed in several batches.
 *
 * This file is longer than 500 lines because both passes share the couplings.
 */
#include "edges.h"
#include "nequip.h"

#include <utility>

#define MLFF_CG_TABLE static constexpr
#include "../src/mlff/backend/nequip_cg.h"

enum { MOST_PATHS = 34 }; /* of orders up to 3 */
/* SHARED_BYTES: couplings of a block, small enough for two blocks per multiprocessor. */
enum { FORWARD_WARPS = 8, BACKWARD_WARPS = 4, SUM_THREADS = 192, SHARED_BYTES = 40960 };
static_assert(2 * WARP >= MOST_PATHS, "load_paths has a thread for each path");
enum { BACKWARD_BLOCKS = MLFF_REAL_IS_DOUBLE ? 2 : 3 }; /* per multiprocessor: bounds the registers */

namespace { /* kernels and their arguments differ between element types */

typedef struct message_arrays {
  int64_t begin, end, in_ld, out_ld;
  const int64_t *row;
  const mlff_nequip_path *paths;
  const real *y;
  real *sums; /* [n][out_ld] block */
  real *messages, *edge_grad;
  radial_part radial;
  int n_in[MLFF_NEQUIP_ORDERS], in_offset[MLFF_NEQUIP_ORDERS], n_out[MLFF_NEQUIP_ORDERS];
  int n_paths, n_orders;
  int n_edges, stride; /* edges with couplings in shared memory, and their stride in reals */
  int n_teams, accumulate;
} message_arrays;

/* ---- paths and couplings ----------------------------------------------------------------------------------------- */

/* Clebsch-Gordan coefficients of a triple (l1, l2, l3) as compile-time constants. */
template <int L1, int L2, int L3> struct coefficients;
template <int L1, int L2, int L3, int Q> struct coefficient;
#define COEFFICIENTS(l1, l2, l3, n)                                 \
  template <> struct coefficients<l1, l2, l3> {                     \
    using all = std::make_integer_sequence<int, n>;                 \
  };                                                                \
  template <int Q> struct coefficient<l1, l2, l3, Q> {              \
    static constexpr mlff_cg_entry value = mlff_cg_##l1##l2##l3[Q]; \
  };
MLFF_CG_TRIPLES(COEFFICIENTS)

/* Reals of K of a path in shared memory; 0 if K is the identity. */
MLFF_DEVICE int coupling_size(const mlff_nequip_path &p)
{
  return p.l2 == 0 ? 0 : ((2 * p.l1 + 1) * (2 * p.l3 + 1) + 3) / 4 * 4;
}

/* Loads the paths into shared memory, sorted by l1, those of an l1 from first[l1] on, and sets `coupling`, the offset
 * of K in shared memory. Called by all threads. */
MLFF_DEVICE void load_paths(const mlff_nequip_path *src, int n_paths, mlff_nequip_path *scratch,
                            mlff_nequip_path *paths, int *first)
{
  const int t = (int) threadIdx.x;
  if (t < n_paths) scratch[t] = src[t];
  __syncthreads();
  if (t < n_paths) {
    mlff_nequip_path p = scratch[t];
    int place = 0;
    p.coupling = MLFF_NEQUIP_HARMONICS;
    for (int q = 0; q < n_paths; q++) {
      if (scratch[q].l1 > p.l1 || (scratch[q].l1 == p.l1 && q >= t)) continue;
      p.coupling += coupling_size(scratch[q]);
      place++;
    }
    paths[place] = p;
  }
  if (t <= MLFF_NEQUIP_ORDERS) {
    first[t] = 0;
    for (int q = 0; q < n_paths; q++) first[t] += scratch[q].l1 < t;
  }
  __syncthreads();
}

/* sum[i][k] += c_ijk y[j] for coefficient Q. */
template <int L1, int L2, int L3, int Q> MLFF_DEVICE void couple_one(const real *y, vec *sum)
{
  constexpr mlff_cg_entry c = coefficient<L1, L2, L3, Q>::value;
  constexpr int x = c.i * (2 * L3 + 1) + c.k, j = L2 * L2 + c.j;
  constexpr real value = (real) c.c;
  sum[x / VEC].v[x % VEC] += value * y[j];
}

template <int L1, int L2, int L3, int... Q>
MLFF_DEVICE void couple_all(const real *y, vec *sum, std::integer_sequence<int, Q...>)
{
  (couple_one<L1, L2, L3, Q>(y, sum), ...);
}

/* K[i][k] = sum_j c_ijk Y_j of a path; y: harmonics of the edge. */
template <int L1, int L2, int L3> MLFF_DEVICE void couple(const real *y, real *k)
{
  constexpr int n = (2 * L1 + 1) * (2 * L3 + 1), n_vecs = (n + VEC - 1) / VEC;
  vec sum[n_vecs];
#pragma unroll
  for (int x = 0; x < n_vecs; x++) sum[x] = vec_zero();
  couple_all<L1, L2, L3>(y, sum, typename coefficients<L1, L2, L3>::all());
#pragma unroll
  for (int x = 0; x < n_vecs; x++) vec_store(k + x * VEC, sum[x]);
}

#define COUPLE(l1, l2, l3, n)                                      \
  case 16 * (l1) + 4 * (l2) + (l3):                                \
    if constexpr ((l2) > 0) couple<l1, l2, l3>(y, y + p.coupling); \
    break;

/* couplings[q] = harmonics [16] of edge e + q, then K of all paths; q < n <= 32, `stride` reals apart. A lane owns an
 * edge, a warp every n-th path. Called by all threads. The harmonics are reread from shared memory: in registers, the
 * compiler would hoist their products with all coefficients out of the loop and spill. */
MLFF_DEVICE void compute_couplings(const mlff_nequip_path *paths, int n_paths, const real *lines, int64_t e, int n,
                                   real *couplings, int stride)
{
  const int lane = (int) threadIdx.x % WARP;
  real *y = couplings + lane * stride;
  if ((int) threadIdx.x < n) mlff_nequip_harmonics(lines + (e + lane) * MLFF_PAINN_LINE + LINE_UNIT, y);
  __syncthreads();
  for (int q = (int) threadIdx.x / WARP; lane < n && q < n_paths; q += (int) blockDim.x / WARP) {
    const mlff_nequip_path &p = paths[q];
    switch (16 * p.l1 + 4 * p.l2 + p.l3) {
      MLFF_CG_TRIPLES(COUPLE)
    }
  }
  __syncthreads();
}

/* v[j] += c_ijk g[k] for coefficient Q if it belongs to row i; i is a compile-time constant at every call. */
template <int L1, int L2, int L3, int Q> MLFF_DEVICE void couple_backward_one(const int i, const real *g, real *v)
{
  constexpr mlff_cg_entry c = coefficient<L1, L2, L3, Q>::value;
  constexpr int row = c.i, j = L2 * L2 + c.j, k = c.k;
  constexpr real value = (real) c.c;
  if (row == i) v[j] += value * g[k];
}

template <int L1, int L2, int L3, int... Q>
MLFF_DEVICE void couple_backward_all(const int i, const real *g, real *v, std::integer_sequence<int, Q...>)
{
  (couple_backward_one<L1, L2, L3, Q>(i, g, v), ...);
}

/* Returns the features of the neighbor of the edge with this line; *rows: its rows of R. */
MLFF_DEVICE const real *neighbor_features(const message_arrays &a, const real *line, const real **rows)
{
  const line_index index = line_load_index(line);
  *rows = a.radial.rows + (a.radial.n_terms == 4 ? (int64_t) index.first * a.radial.n_weights : 0);
  return a.y + index.node * a.in_ld;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* sums[k] (+)= sum over edges e0 .. e0 + n of w sum_i K[i][k] y[i] at channels c .. of a path, N1 = 2l1+1, N3 = 2l3+1.
 * IDENTITY: K is the identity. */
template <int N1, int N3, int IDENTITY>
MLFF_DEVICE void path_forward(const message_arrays &a, const mlff_nequip_path &p, int64_t e0, int n, int c, int slot,
                              const real *couplings, real *sums, bool is_first)
{
  const int64_t ld1 = a.n_in[p.l1], ld3 = a.n_out[p.l3];
  const bool inside = c < p.n;
  vec sum[N3];
#pragma unroll
  for (int k = 0; k < N3; k++) sum[k] = vec_zero();
#pragma unroll(N1 *N3 > 5 ? 1 : 2)
  for (int q = slot; q < (inside ? n : 0); q += SLOTS) {
    const real *line = a.radial.lines + (e0 + q) * MLFF_PAINN_LINE, *rows;
    const real *y = neighbor_features(a, line, &rows) + a.in_offset[p.l1] + c,
               *coupling = couplings + q * a.stride + p.coupling;
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
    if (!is_first) vec_add(&sum[k], 1, vec_load(sums + k * ld3));
    vec_store(sums + k * ld3, sum[k]);
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

/* sums as above;  R [n_rows][n_weights], y [n_nodes][in_ld], sums [n][out_ld]
 * Grid: x over receivers, y over the split of the tasks; a task is CHUNK channels of a path. A block owns receiver i
 * and processes a.n_edges of its edges at a time: it computes their couplings [n_edges][stride] in shared memory, then
 * each warp runs its tasks, which add to the sums of the previous edges. A task belongs to one warp for any grid;
 * deterministic. Twin: nequip_message_cpu. */
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
  load_paths(a.paths, a.n_paths, scratch, paths, first);
  for (int64_t e0 = begin; e0 == begin || e0 < end; e0 += a.n_edges) {
    const int n = end - e0 < a.n_edges ? (int) (end - e0) : a.n_edges;
    const bool is_first = e0 == begin;
    int own_task = (int) (blockIdx.y * FORWARD_WARPS + threadIdx.x / WARP), task = 0;
    compute_couplings(paths, a.n_paths, a.radial.lines, e0, n, couplings, a.stride);
    for (int q = 0; q < a.n_paths; q++) {
      const mlff_nequip_path &p = paths[q];
      for (int c0 = 0; c0 < p.n; c0 += CHUNK, task++) {
        if (task != own_task) continue;
        own_task += (int) gridDim.y * FORWARD_WARPS;
        const int c = c0 + lane % LANES * VEC;
        switch (p.l2 == 0 ? 16 + p.l1 : 4 * p.l1 + p.l3) {
          FORWARD_FROM(0)
          FORWARD_FROM(1)
          FORWARD_FROM(2)
          FORWARD_FROM(3)
        }
      }
    }
    __syncthreads(); /* before the couplings are overwritten */
  }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Adjoint of path_forward for one edge, g the adjoint of sums: for each i and channel
 *   A = sum_k K[i][k] g[k];  dE/dr += dw/dr A y[i];  dE/dy[i] += w A;  g_K[i][k] = sum_u w y[i] g[k]
 * and dE/dY_j += sum_ik c_ijk g_K[i][k]. v = (dE/dr, dE/dY); rows, g: at the columns and channels of the path. */
template <int L1, int L2, int L3>
MLFF_DEVICE void path_backward(const message_arrays &a, const real *line, int64_t e, const real *rows, const real *g,
                               const real *coupling, const vec *y, vec *dE_dy, real *v)
{
  constexpr int n1 = 2 * L1 + 1, n3 = 2 * L3 + 1;
  const int64_t ld3 = a.n_out[L3];
  vec w, dw, gk[n3], dE_dw = vec_zero(), kv = vec_zero();
  edge_weights(a.radial, rows, line, e, &w, &dw);
#pragma unroll
  for (int k = 0; k < n3; k++) gk[k] = vec_load(g + k * ld3);
#pragma unroll
  for (int i = 0; i < n1; i++) {
    const vec wy = vec_product(w, y[i]);
    vec dE_dwy = L2 == 0 ? gk[i % n3] : vec_zero();
    real g_coupling[n3];
#pragma unroll
    for (int k = 0; k < (L2 > 0 ? n3 : 0); k++) {
      const int x = i * n3 + k;
      if (x % VEC == 0) kv = vec_load(coupling + x);
      vec_add(&dE_dwy, kv.v[x % VEC], gk[k]);
      g_coupling[k] = vec_dot(wy, gk[k]);
    }
    vec_add_product(&dE_dw, dE_dwy, y[i]);
    vec_add_product(&dE_dy[i], w, dE_dwy);
    if constexpr (L2 > 0) couple_backward_all<L1, L2, L3>(i, g_coupling, v, typename coefficients<L1, L2, L3>::all());
  }
  v[0] += vec_dot(dE_dw, dw);
}

#define BACKWARD(l1, l2, l3, n)                                                                                 \
  case 16 * (l1) + 4 * (l2) + (l3):                                                                             \
    if constexpr (L1 == (l1)) path_backward<L1, l2, l3>(a, line, e, r, gp, coupling + p.coupling, y, dE_dy, v); \
    break;

/* Adjoint of all paths from order L1 of the neighbor at channels c .. of edge e; stores dE/dy in `message`. */
template <int L1>
MLFF_DEVICE void order_backward(const message_arrays &a, const mlff_nequip_path *paths, const mlff_nequip_path *end,
                                int64_t e, int c, const real *g, const real *coupling, real *message, real *v)
{
  const real *line = a.radial.lines + e * MLFF_PAINN_LINE, *rows,
             *features = neighbor_features(a, line, &rows) + a.in_offset[L1] + c;
  const int64_t ld1 = a.n_in[L1];
  vec y[2 * L1 + 1], dE_dy[2 * L1 + 1];
#pragma unroll
  for (int i = 0; i < 2 * L1 + 1; i++) {
    y[i] = vec_load(features + i * ld1);
    dE_dy[i] = vec_zero();
  }
  for (const mlff_nequip_path *path = paths; path < end; path++) {
    const mlff_nequip_path &p = *path;
    const real *r = rows + p.column + c, *gp = g + p.out + c;
    switch (16 * L1 + 4 * p.l2 + p.l3) {
      MLFF_CG_TRIPLES(BACKWARD)
    }
  }
#pragma unroll
  for (int i = 0; i < 2 * L1 + 1; i++) vec_store(message + a.in_offset[L1] + i * ld1 + c, dE_dy[i]);
}

/* With g = g_sums[i] and K, w of edge e:
 *   messages[e - e_0][l1][i'][u] = sum_p w_pu sum_k K_p[i'][k] g[p][k][u],  e_0 the first edge of a.begin
 *   dE/dr, dE/dY of edge e from all paths, and from them edge_grad[e] = (or +=) dE/d(x_j - x_i)
 * Grid: x over receivers, y over the split of their edges. A block owns receiver i and processes a.n_edges of its edges
 * at a time, with their couplings in shared memory. Its warps form n_teams teams. A team owns SLOTS edges; its warps
 * split the channels of an order, CHUNK at a time: one warp per team in large systems, all warps in small ones. Shared
 * memory: couplings [n_edges][stride], and 16 sums per slot and warp, added in the order of warps. Deterministic. Twin:
 * nequip_message_backward_cpu, edge_backward. */
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
  load_paths(a.paths, a.n_paths, scratch, paths, first);
  for (int64_t e0 = a.row[i] + (int64_t) blockIdx.y * a.n_edges; e0 < end; e0 += step) {
    const int n = end - e0 < a.n_edges ? (int) (end - e0) : a.n_edges, q = team * SLOTS + slot;
    const int64_t e = e0 + q;
    real v[MLFF_NEQUIP_HARMONICS];
#pragma unroll
    for (int k = 0; k < MLFF_NEQUIP_HARMONICS; k++) v[k] = 0;
    compute_couplings(paths, a.n_paths, a.radial.lines, e0, n, couplings, a.stride);
    const real *coupling = couplings + q * a.stride;
    real *message = a.messages + (e - a.row[a.begin]) * a.in_ld;
    for (int l = 0, task = 0; l < a.n_orders; l++) {
      for (int c = lane % LANES * VEC, c0 = 0; c0 < a.n_in[l]; c += CHUNK, c0 += CHUNK) {
        if (task++ % n_members != member || c >= a.n_in[l] || q >= n) continue;
        const mlff_nequip_path *begin = paths + first[l], *last = paths + first[l + 1];
        if (l == 0) order_backward<0>(a, begin, last, e, c, g, coupling, message, v);
        if (l == 1) order_backward<1>(a, begin, last, e, c, g, coupling, message, v);
        if (l == 2) order_backward<2>(a, begin, last, e, c, g, coupling, message, v);
        if (l == 3) order_backward<3>(a, begin, last, e, c, g, coupling, message, v);
      }
    }
    slot_sum(v, lane, sums + (warp * SLOTS + slot) * MLFF_NEQUIP_HARMONICS);
    __syncthreads();
    if (member == 0 && lane % LANES == 0 && q < n)
      store_gradient(a.radial.lines + e * MLFF_PAINN_LINE, sums + (warp * SLOTS + slot) * MLFF_NEQUIP_HARMONICS,
                     n_members, SLOTS * MLFF_NEQUIP_HARMONICS, a.edge_grad + 4 * e, a.accumulate);
  }
}

typedef struct neighbor_arrays {
  int64_t begin, end, ld;
  const int64_t *row, *list_row, *in_row;
  const int32_t *in_pair, *edge;
  const real *messages;
  real *grad;
  int64_t is_whole; /* receivers begin .. end are all receivers */
} neighbor_arrays;

/* First q in low .. high with in_pair[q] >= p (binary search). */
MLFF_DEVICE int64_t first_place(const neighbor_arrays &a, int64_t low, int64_t high, int64_t p)
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

/* grad[j] += sum of messages[e - e_0] over the edges e of receivers begin .. end that end at node j, in list
 * order; rows of ld
 * A block owns node j, a thread every blockDim-th VEC columns. A warp loads the edges of 32 candidates at a time and
 * broadcasts them by shuffles. No shared memory; deterministic. The CPU scatters instead. */
__global__ void __launch_bounds__(SUM_THREADS) nequip_neighbors_kernel(neighbor_arrays a)
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
      const int32_t own_edge = q + lane < end ? a.edge[a.in_pair[q + lane]] : -1;
      const int n = end - q < WARP ? (int) (end - q) : WARP;
#pragma unroll 4
      for (int t = 0; t < n; t++) {
        const int32_t e = __shfl_sync(FULL_WARP, own_edge, t);
        if (e >= 0 && c < a.ld) vec_add(&sum, 1, vec_load(a.messages + (e - e_0) * a.ld + c));
      }
    }
    if (c >= a.ld) continue;
    real *grad = a.grad + j * a.ld + c;
    vec_add(&sum, 1, vec_load(grad));
    vec_store(grad, sum);
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
    a.in_offset[l] = l < args->in.n_orders ? args->in.offset[l] : 0;
    a.n_out[l] = l < args->out.n_orders ? args->out.n[l] : 0;
  }
  a.n_paths = args->n_paths;
  a.n_orders = args->in.n_orders;
  a.accumulate = args->accumulate;
  /* K of each path is padded to a multiple of 4; edges are 16 bytes apart modulo the banks */
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
  const unsigned n_tasks = mlff_cuda_blocks(a.radial.n_weights, CHUNK),
                 max_split = mlff_cuda_blocks(n_tasks, FORWARD_WARPS);
  const unsigned n_target = 2 * (unsigned) mlff_cuda_of(backend)->n_multiprocessors;
  const unsigned n_split = n_atoms ? (n_target + n_atoms - 1) / n_atoms : 1;
  for (a.n_edges = WARP; a.n_edges > SLOTS && shared_bytes(a, a.n_edges) > SHARED_BYTES;) a.n_edges -= SLOTS;
  MLFF_LAUNCH(backend, nequip_message_kernel, dim3(n_atoms, n_split < max_split ? n_split : max_split),
              FORWARD_WARPS * WARP, shared_bytes(a, a.n_edges), a);
}

/* Backward pass of receivers begin .. end of a, whose messages fit the array. */
static void message_backward(mlff_backend *backend, const mlff_nequip_message_args *args, message_arrays a,
                             bool is_whole)
{
  const mlff_edges *edges = args->edges;
  const graph_arrays graph = graph_of(edges);
  const unsigned n_atoms = (unsigned) (a.end - a.begin);
  int n_warps = BACKWARD_WARPS;
  while (n_warps > 2 && shared_bytes(a, n_warps * SLOTS) > SHARED_BYTES) n_warps--;
  /* small systems: all warps of a block split SLOTS edges */
  const unsigned n_split = edge_split(backend, edges, n_atoms, n_warps * SLOTS);
  const bool small_system = n_atoms * n_split < 2 * (unsigned) mlff_cuda_of(backend)->n_multiprocessors;
  a.n_teams = small_system ? 1 : n_warps;
  a.n_edges = a.n_teams * SLOTS;
  const dim3 grid(n_atoms, small_system ? edge_split(backend, edges, n_atoms, SLOTS) : n_split);
  MLFF_LAUNCH(backend, nequip_message_backward_kernel, grid, (unsigned) (n_warps * WARP), shared_bytes(a, a.n_edges),
              a);
  neighbor_arrays b;
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
  MLFF_LAUNCH(backend, nequip_neighbors_kernel, (unsigned) edges->n_nodes,
              (unsigned) (n_vecs < SUM_THREADS ? n_vecs : (int64_t) SUM_THREADS), 0, b);
}

void MLFF_CUDA(nequip_message_backward_cuda)(mlff_backend *backend, const mlff_nequip_message_args *args)
{
  message_arrays a = arrays_of(args);
  const mlff_edges *edges = args->edges;
  const int64_t longest =
      (edges->longest_row + 63) / 64 * 64; /* rounded up, so that similar lists can share a captured step */
  const int64_t n_atoms = args->end - args->begin;
  int64_t n_batch = n_atoms;
  if (edges->n_room > args->n_messages && longest > 0) n_batch = args->n_messages / longest;
  if (n_batch < 1) n_batch = 1;
  for (int64_t begin = args->begin; begin < args->end; begin += n_batch) {
    a.begin = begin;
    a.end = args->end - begin < n_batch ? args->end : begin + n_batch;
    a.sums = (real *) args->sums + (begin - args->begin) * a.out_ld;
    message_backward(backend, args, a, a.end - a.begin == edges->n_local);
  }
}
