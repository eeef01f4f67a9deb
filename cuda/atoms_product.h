/* atoms_product.h: products of the rows of a block's few atoms, for atoms.cu: the weights come to shared memory ahead
 * of their use, copied by threads that do nothing else, and the others share out each sum as well. Twin: linear.cu,
 * whose sums have another order.
 */
#ifndef MLFF_CUDA_ATOMS_PRODUCT_H
#define MLFF_CUDA_ATOMS_PRODUCT_H

#include "atoms.h"
#include "vectors.h"

/* Threads of a block: workers compute, fewer of them where it has no more than FEW_ATOMS; COPIERS copy weights. */
enum { WORKERS = MLFF_REAL_IS_DOUBLE ? 192 : 384, FEW_WORKERS = WORKERS / 3 * 2, COPIERS = WORKERS / 3, FEW_ATOMS = 2 };
/* CHUNKS chunks of weights are in shared memory or on their way there: those of the next products, too. Each takes a
 * barrier, so they are as large as there is room for, at most: in float, a whole product of 64 x 192. */
enum { LEAST_CHUNK = 16 * 1024 / sizeof(real), MOST_CHUNK = 3 * LEAST_CHUNK, CHUNKS = 4, PIECE = 16 / sizeof(real) };
/* Numbers of x, and columns, that a worker reads at once; its rows where there are several, and many; into how many
 * slices a sum is parted at most. */
enum { VECTOR = 4, SOME_ROWS = 4, MOST_ROWS = 8, MOST_SLICES = 16 };

namespace ATOMS { /* structures differ between element types */

/* For n / d by a product: exact while n d < 2^32. */
static inline uint32_t reciprocal(int d)
{
  return d > 1 ? 0xffffffffu / (uint32_t) d + 1 : 0;
}

MLFF_DEVICE int quotient(int n, uint32_t of)
{
  return of ? (int) ((uint64_t) (uint32_t) n * of >> 32) : n;
}

/* What all threads of a block know: where steps, chunks of weights, rows that are kept and those of one product are in
 * shared memory, and how far they are. */
typedef struct atom_block {
  const atom_step *steps;
  real *chunks, *x, *rows;     /* [CHUNKS][chunk]; of a product [rows][ld], then [n_slices][rows][n_out]; kept */
  int n_steps, n_workers;      /* threads n_workers and more copy */
  int chunk;                   /* weights, at most */
  int step, pass, row;         /* weights to be copied next */
  unsigned n_started, n_taken; /* chunks */
} atom_block;

MLFF_DEVICE bool is_worker(const atom_block &b)
{
  return (int) threadIdx.x < b.n_workers;
}

/* Starts the copy of the next chunk of weights, those of all products in the order of their use. They depend on no
 * atom, so they come while earlier products are computed. */
MLFF_DEVICE void start_chunk(atom_block *b, const atom_step *steps)
{
  enum { AT_ONCE = 8 };
  while (b->step < b->n_steps && steps[b->step].kind != STEP_LINEAR) b->step++;
  if (b->step < b->n_steps) {
    const row_product &a = steps[b->step].of.product;
    const int most = a.chunk_rows, left = a.ld - b->row, n = (most < left ? most : left) * a.n_out;
    const int mine = ((int) threadIdx.x - b->n_workers) * PIECE;
    real *to = b->chunks + (int) (b->n_started % CHUNKS) * b->chunk;
    const real *from = a.weight + b->row * a.n_out;
#pragma unroll 1
    for (int q = mine; q < n; q += AT_ONCE * COPIERS * PIECE)
#pragma unroll
      for (int p = 0; p < AT_ONCE * COPIERS * PIECE; p += COPIERS * PIECE)
        if (p < n - q) copy_ahead<PIECE>(to + q + p, from + q + p);
    b->row += most;
    if (b->row >= a.ld) {
      b->row = 0;
      if (++b->pass == a.n_passes) {
        b->pass = 0;
        b->step++;
      }
    }
  }
  b->n_started++;
  __pipeline_commit();
}

/* The next chunk, once it is there; x is then, too, and the workers are done with the chunk before, in whose place the
 * next copy is started. */
MLFF_DEVICE const real *take_chunk(atom_block *b)
{
  if (!is_worker(*b)) __pipeline_wait_prior(CHUNKS - 2);
  __syncthreads();
  if (!is_worker(*b)) start_chunk(b, b->steps);
  return b->chunks + (int) (b->n_taken++ % CHUNKS) * b->chunk;
}

/* sum[r][c] += sum_k x[row_at[r] + k] weight[k][c],  k = first, .., first + VECTOR - 1, first + step, .. < n */
template <int ROWS, int COLUMNS>
MLFF_DEVICE void add_chunk(const real *x, const int *row_at, const real *weight, int n_out, int first, int n, int step,
                           vector_of<COLUMNS> *sum)
{
#pragma unroll 1
  for (int k = first; k < n; k += step) {
    vector_of<COLUMNS> w[VECTOR];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) w[j] = load_vector<COLUMNS>(weight + (k + j) * n_out);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const vector_of<VECTOR> v = load_vector<VECTOR>(x + row_at[r] + k);
#pragma unroll
      for (int j = 0; j < VECTOR; j++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) sum[r].of[c] += v.of[j] * w[j].of[c];
    }
  }
}

/* As in finish_value, for a sum: its activation, whose slope is written, or its factor; and what is added to it. */
MLFF_DEVICE real activate_row(const row_product &a, real v, int row, int col)
{
  real slope;
  v = activated<ANY_BUT_SSP>(a.act, (real) a.alpha, v, &slope);
  if (a.slope) a.slope[row * a.ld_slope + col] = slope;
  return v;
}

MLFF_DEVICE real scale_of(const row_product &a, int row, int col)
{
  return a.act == MLFF_ACT_NONE && a.scale ? a.scale[row * a.ld_scale + col] : (real) 1;
}

MLFF_DEVICE real before_of(const row_product &a, int row, int col)
{
  return a.accumulate ? a.y[row * a.ldy + col] : (real) 0;
}

/* x of a product in shared memory, n numbers at a time, zeros behind n_in. */
template <int N>
MLFF_DEVICE void copy_x(const row_product &a, uint32_t of_in, int row0, int n_rows, const atom_block *b)
{
  enum { AT_ONCE = 2 };
  const int ld = a.ld / N, n = n_rows * ld;
#pragma unroll 1
  for (int first = (int) threadIdx.x; first < n; first += AT_ONCE * b->n_workers) {
    vector_of<N> v[AT_ONCE] = {};
#pragma unroll
    for (int p = 0; p < AT_ONCE; p++) {
      const int q = first + p * b->n_workers, r = n_rows > 1 ? quotient(q, of_in) : 0, k = (q - r * ld) * N;
      if (q < n && k < a.n_in) v[p] = load_vector<N>(a.x + (row0 + r) * a.ldx + k);
    }
#pragma unroll
    for (int p = 0; p < AT_ONCE; p++) {
      const int q = first + p * b->n_workers;
      if (q < n) store_vector<N>(b->x + q * N, v[p]);
    }
  }
}

MLFF_DEVICE void bring_x(const row_product &a, uint32_t of_in, int row0, int n_rows, const atom_block *b)
{
  if (!is_worker(*b)) return;
  if (a.x_in_vectors)
    copy_x<VECTOR>(a, of_in, row0, n_rows, b);
  else
    copy_x<1>(a, of_in, row0, n_rows, b);
}

/* y of all rows and columns, from the sums of the slices, in their order. What it takes from global memory comes for
 * AT_ONCE numbers together. */
MLFF_DEVICE void add_slices(const atom_step &step, int row0, int n_rows, const atom_block *b)
{
  enum { AT_ONCE = 2 };
  const row_product a = step.of.product;
  const uint32_t of_out = step.of_out;
  const real *parts = b->x + a.parts_at;
  const int n = n_rows * a.n_out;
#pragma unroll 1
  for (int first = (int) threadIdx.x; first < n; first += AT_ONCE * b->n_workers) {
    real sum[AT_ONCE], scale[AT_ONCE], before[AT_ONCE];
    int row[AT_ONCE], col[AT_ONCE];
#pragma unroll
    for (int p = 0; p < AT_ONCE; p++) {
      const int q = first + p * b->n_workers, r = quotient(q, of_out);
      if (q >= n) break;
      row[p] = row0 + r;
      col[p] = q - r * a.n_out;
      sum[p] = a.bias[col[p]];
      scale[p] = scale_of(a, row[p], col[p]);
      before[p] = before_of(a, row[p], col[p]);
      for (int k = 0; k < a.n_slices; k++) sum[p] += parts[k * n + q];
    }
#pragma unroll
    for (int p = 0; p < AT_ONCE; p++) {
      if (first + p * b->n_workers >= n) break;
      const real v = a.act != MLFF_ACT_NONE ? activate_row(a, sum[p], row[p], col[p]) : sum[p] * scale[p];
      a.y[row[p] * a.ldy + col[p]] = v + before[p];
    }
  }
}

/* Sums of n_rows rows of a product, x [n_rows][ld]: a worker has ROWS rows and COLUMNS columns, over a slice of k,
 * which is every n_slices-th VECTOR of a chunk. Workers with the same rows and slice are neighbours. */
template <int ROWS, int COLUMNS>
MLFF_DEVICE void add_rows(const row_product &a, const real *x, int ld, int n_rows, atom_block *b)
{
  const int n_in = a.ld, n_out = a.n_out, most = a.chunk_rows, n_passes = a.n_passes, n_slices = a.n_slices;
  real *const parts = b->x + a.parts_at;
  for (int pass = 0; pass < n_passes; pass++) {
    const int q = (int) threadIdx.x + pass * b->n_workers, part = quotient(q, a.of_columns);
    const int group = quotient(part, a.of_slices), slice = part - group * n_slices, row = group * ROWS;
    const int col = (q - part * (n_out / COLUMNS)) * COLUMNS;
    const bool is_mine = is_worker(*b) && row < n_rows;
    vector_of<COLUMNS> sum[ROWS] = {};
    int row_at[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) row_at[r] = (row + r < n_rows ? row + r : n_rows - 1) * ld;
    for (int k0 = 0; k0 < n_in; k0 += most) {
      const real *chunk = take_chunk(b);
      const int n = most < n_in - k0 ? most : n_in - k0;
      if (is_mine)
        add_chunk<ROWS, COLUMNS>(x + k0, row_at, chunk + col, n_out, slice * VECTOR, n, n_slices * VECTOR, sum);
    }
    if (!is_mine) continue;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      if (row + r < n_rows) store_vector<COLUMNS>(parts + (slice * n_rows + row + r) * n_out + col, sum[r]);
  }
}

/* Rows row0 .. row0 + n_rows of a product, which waits for the step before with its first chunk, or before it copies
 * x. */
template <int IS_FEW> MLFF_DEVICE void product_step(const atom_step &step, int row0, int n_rows, atom_block *b)
{
  enum { ROWS = IS_FEW ? 1 : MOST_ROWS };
  const row_product &a = step.of.product;
  const bool is_kept = a.x_at >= 0;
  const real *x = is_kept ? b->rows + a.x_at : b->x;
  const int ld = is_kept ? a.ldx : a.ld;
  if (!is_kept) {
    __syncthreads();
    bring_x(a, step.of_in, row0, n_rows, b);
  }
  if (a.columns == 1)
    a.rows == ROWS ? add_rows<ROWS, 1>(a, x, ld, n_rows, b) : add_rows<SOME_ROWS, 1>(a, x, ld, n_rows, b);
  else
    a.rows == ROWS ? add_rows<ROWS, VECTOR>(a, x, ld, n_rows, b) : add_rows<SOME_ROWS, VECTOR>(a, x, ld, n_rows, b);
  __syncthreads();
  if (is_worker(*b)) add_slices(step, row0, n_rows, b);
}

} // namespace ATOMS

#endif
