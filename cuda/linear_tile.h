/* linear_tile.h: what kernels of products have in common: their arguments, and what comes behind the sums of a tile. */
#ifndef MLFF_CUDA_LINEAR_TILE_H
#define MLFF_CUDA_LINEAR_TILE_H

#include "atoms.h"
#include "vectors.h"

using namespace ATOMS;

namespace { /* kernels and their arguments differ between element types */

/* Numbers of a packed matrix. */
static __host__ __device__ __forceinline__ int64_t n_weights(int n_in, int n_out)
{
  return (int64_t) padded_rows(n_in) * n_out;
}

/* The products of one launch. */
enum { MANY = 32 };
template <int N> struct linear_group {
  linear_arrays of[N];
};

/* What is added to rows of edges before their activation, where there is a receiver: as in orb_gather. */
typedef struct edge_rows {
  const int32_t *receiver;                 /* [n_rows] */
  const real *from_sender, *from_receiver; /* [][ld] */
  int64_t ld;
  uint32_t first, stride; /* row r is that of edge first + r, which has sender edge / stride */
} edge_rows;
template <> struct linear_group<1> {
  linear_arrays of[1];
  edge_rows edges;
};

/* finish_value of columns col .. col + 4, as far as there are that many. */
template <int ACT> MLFF_DEVICE void finish_four(const linear_arrays &a, const vector_of<4> &sum, int64_t row, int col)
{
  if (!a.y_in_vectors || col + 4 > a.n_out) {
#pragma unroll
    for (int q = 0; q < 4; q++)
      if (col + q < a.n_out) finish_value<ACT>(a, sum.of[q], row, col + q);
    return;
  }
  vector_of<4> v = sum, slope;
  real *y = a.y + row * a.ldy + col;
  if ((ACT == MLFF_ACT_NONE || ACT == MLFF_ACT_CELU) && a.scale) {
    const vector_of<4> scale = load_vector<4>(a.scale + row * a.ld_scale + col);
#pragma unroll
    for (int q = 0; q < 4; q++)
      v.of[q] *= ACT == MLFF_ACT_CELU ? celu_slope(scale.of[q], 1 / (real) a.alpha) : scale.of[q];
  } else if (ACT != MLFF_ACT_NONE) {
#pragma unroll
    for (int q = 0; q < 4; q++) v.of[q] = activated<ACT>(ACT, (real) a.alpha, v.of[q], &slope.of[q]);
    if (a.slope) store_vector<4>(a.slope + row * a.ld_slope + col, slope);
  }
  if (a.accumulate) {
    const vector_of<4> before = load_vector<4>(y);
#pragma unroll
    for (int q = 0; q < 4; q++) v.of[q] += before.of[q];
  }
  store_vector<4>(y, v);
}

/* v += x[row][col] .. x[row][col + 4], as far as there are that many. */
MLFF_DEVICE void add_four(vector_of<4> *v, const linear_arrays &a, const real *x, int64_t at, int col)
{
  if (a.y_in_vectors && col + 4 <= a.n_out) {
    const vector_of<4> more = load_vector<4>(x + at + col);
#pragma unroll
    for (int q = 0; q < 4; q++) v->of[q] += more.of[q];
  } else {
    for (int q = 0; q < 4 && col + q < a.n_out; q++) v->of[q] += x[at + col + q];
  }
}

/* finish_tile for rows of edges. A thread of a row has the receiver of one of those that they share; what is added
 * comes for AT_ONCE rows together. */
template <int ROWS, int COLS, int PAD, int THREADS>
MLFF_DEVICE void finish_edges(const linear_group<1> &group, int64_t row0, int col0, const real *tile)
{
  enum { PER_ROW = COLS / 4, ROW_STEP = THREADS / PER_ROW, N = ROWS / ROW_STEP, AT_ONCE = 4 };
  static_assert(N <= PER_ROW && N % AT_ONCE == 0, "a thread for each row");
  const linear_arrays &a = group.of[0];
  const edge_rows &edges = group.edges;
  const int t = (int) threadIdx.x, mine = t % PER_ROW, first = t / PER_ROW, col = mine * 4;
  const int n_rows = a.n_rows - row0 < ROWS ? (int) (a.n_rows - row0) : ROWS;
  const bool has_row = mine < N && first + mine * ROW_STEP < n_rows;
  const int32_t receivers = has_row ? edges.receiver[row0 + first + mine * ROW_STEP] : -1;
  __syncthreads();
#pragma unroll 1
  for (int n = 0; n < N; n += AT_ONCE) {
    vector_of<4> v[AT_ONCE] = {};
#pragma unroll
    for (int q = 0; q < AT_ONCE; q++) {
      const int32_t receiver = __shfl_sync(FULL_WARP, receivers, n + q, PER_ROW);
      const int row = first + (n + q) * ROW_STEP;
      if (row < n_rows) v[q] = load_vector<4>(tile + row * (COLS + PAD) + col);
      if (receiver < 0) continue;
      const uint32_t sender = (edges.first + (uint32_t) (row0 + row)) / edges.stride;
      add_four(&v[q], a, edges.from_sender, sender * edges.ld, col0 + col);
      add_four(&v[q], a, edges.from_receiver, receiver * edges.ld, col0 + col);
    }
#pragma unroll
    for (int q = 0; q < AT_ONCE; q++) {
      const int row = first + (n + q) * ROW_STEP;
      if (row < n_rows) finish_four<MLFF_ACT_SSP>(a, v[q], row0 + row, col0 + col);
    }
  }
}

/* Does what comes behind the sums of a tile of y, [ROWS][COLS + PAD] in shared memory, bias included. A thread owns
 * four columns of some rows. */
template <int ACT, int ROWS, int COLS, int PAD, int THREADS, int N_PRODUCTS>
MLFF_DEVICE void finish_tile(const linear_group<N_PRODUCTS> &group, const linear_arrays &a, int64_t row0, int col0,
                             const real *tile)
{
  if constexpr (ACT == MLFF_ACT_SSP && N_PRODUCTS == 1)
    if (group.edges.receiver) {
      finish_edges<ROWS, COLS, PAD, THREADS>(group, row0, col0, tile);
      return;
    }
  enum { PER_ROW = COLS / 4, ROW_STEP = THREADS / PER_ROW };
  const int t = (int) threadIdx.x, col = t % PER_ROW * 4;
  const int n_rows = a.n_rows - row0 < ROWS ? (int) (a.n_rows - row0) : ROWS;
  __syncthreads();
#pragma unroll 2
  for (int row = t / PER_ROW; row < n_rows; row += ROW_STEP)
    finish_four<ACT>(a, load_vector<4>(tile + row * (COLS + PAD) + col), row0 + row, col0 + col);
}

} // namespace

#endif
