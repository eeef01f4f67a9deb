/* atoms_product.h: products of the rows of a block's few atoms, for atoms.cu: the weights come to shared memory ahead
 * of their use, copied by threads that do nothing else. Twin: linear.cu, whose sums these are to the bit.
 */
#ifndef MLFF_CUDA_ATOMS_PRODUCT_H
#define MLFF_CUDA_ATOMS_PRODUCT_H

#include "atoms.h"
#include "vectors.h"

/* Of a block: up to WORKERS compute, all of them where it has more than FEW_ATOMS; COPIERS copy weights. */
enum { WORKERS = MLFF_REAL_IS_DOUBLE ? 192 : 384, COPIERS = MLFF_REAL_IS_DOUBLE ? 64 : 128, FEW_ATOMS = 2 };
/* CHUNKS chunks of weights are in shared memory or on their way there: those of the next products, too. Each takes a
 * barrier, so they are as large as there is room for, at most: in float, a whole product of 64 x 192. */
enum { LEAST_CHUNK = 16 * 1024 / sizeof(real), MOST_CHUNK = 3 * LEAST_CHUNK, CHUNKS = 4, PIECE = 16 / sizeof(real) };
/* Weights of a column and numbers of x that are read at once, ahead of their use where there is one row; rows of a
 * worker. */
enum { VECTOR = 4, AHEAD = 8, MOST_ROWS = 16 };

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

/* What all threads of a block know: where steps, chunks and x are in shared memory, and how far they are. */
typedef struct atom_block {
  const atom_step *steps;
  real *chunks, *x;            /* [CHUNKS][chunk], [rows][ld] */
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

/* sum[r] += sum_k x[r][k] weight[k][0],  k < n, a multiple of VECTOR */
template <int ROWS> MLFF_DEVICE void add_chunk(const real *x, int ld, const real *weight, int n_out, int n, real *sum)
{
  enum { AT_ONCE = ROWS > VECTOR ? 1 : 2 };
#pragma unroll AT_ONCE
  for (int k = 0; k < n; k += VECTOR) {
    real w[VECTOR];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) w[j] = weight[(k + j) * n_out];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const vector_of<VECTOR> v = load_vector<VECTOR>(x + r * ld + k);
#pragma unroll
      for (int j = 0; j < VECTOR; j++) sum[r] += v.of[j] * w[j];
    }
  }
}

MLFF_DEVICE void load_ahead(const real *x, const real *weight, int n_out, vector_of<VECTOR> *v, real *w)
{
#pragma unroll
  for (int k = 0; k < AHEAD; k++) w[k] = weight[k * n_out];
#pragma unroll
  for (int k = 0; k < AHEAD / VECTOR; k++) v[k] = load_vector<VECTOR>(x + k * VECTOR);
}

MLFF_DEVICE void add_ahead(const vector_of<VECTOR> *v, const real *w, real *sum)
{
#pragma unroll
  for (int k = 0; k < AHEAD; k++) *sum += v[k / VECTOR].of[k % VECTOR] * w[k];
}

/* The same of one row, whose worker has nothing else to wait with: what is added next is read before. */
MLFF_DEVICE void add_row_chunk(const real *x, const real *weight, int n_out, int n, real *sum)
{
  if (n % AHEAD) { /* chunks of wide layers */
    add_chunk<1>(x, 0, weight, n_out, n, sum);
    return;
  }
  vector_of<VECTOR> even[AHEAD / VECTOR], odd[AHEAD / VECTOR];
  real w_even[AHEAD], w_odd[AHEAD];
  load_ahead(x, weight, n_out, even, w_even);
#pragma unroll 1
  for (n -= AHEAD; n > 0; n -= 2 * AHEAD) {
    load_ahead(x + AHEAD, weight + AHEAD * n_out, n_out, odd, w_odd);
    add_ahead(even, w_even, sum);
    x += 2 * AHEAD;
    weight += 2 * AHEAD * n_out;
    if (n > AHEAD) load_ahead(x, weight, n_out, even, w_even);
    add_ahead(odd, w_odd, sum);
  }
  if (n == 0) add_ahead(even, w_even, sum);
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

/* One row: a worker owns a column; sums over k in order, as in linear_kernel. What it takes from global memory is on
 * its way before it waits for anything. */
MLFF_DEVICE void add_row(const row_product &a, uint32_t of_in, int row, atom_block *b)
{
  for (int pass = 0; pass < a.n_passes; pass++) {
    const int col = (int) threadIdx.x + pass * b->n_workers;
    const bool is_mine = is_worker(*b) && col < a.n_out;
    real sum = 0, scale = 1, before = 0;
    if (is_mine) {
      sum = a.bias[col];
      scale = scale_of(a, row, col);
      before = before_of(a, row, col);
    }
    if (pass == 0) bring_x(a, of_in, row, 1, b);
    for (int k0 = 0; k0 < a.ld; k0 += a.chunk_rows) {
      const real *chunk = take_chunk(b);
      const int left = a.ld - k0;
      if (is_mine) add_row_chunk(b->x + k0, chunk + col, a.n_out, a.chunk_rows < left ? a.chunk_rows : left, &sum);
    }
    if (!is_mine) continue;
    sum = a.act != MLFF_ACT_NONE ? activate_row(a, sum, row, col) : sum * scale;
    a.y[row * a.ldy + col] = sum + before;
  }
}

/* n sums of a column; what they take from global memory comes for AT_ONCE of them together. */
template <int ROWS> MLFF_DEVICE void finish_rows(const row_product &a, real *sum, int row, int n, int col)
{
  enum { AT_ONCE = VECTOR };
  if (a.act != MLFF_ACT_NONE) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      if (r < n) sum[r] = activate_row(a, sum[r], row + r, col);
  }
#pragma unroll
  for (int r0 = 0; r0 < ROWS; r0 += AT_ONCE) {
    real scale[AT_ONCE], before[AT_ONCE];
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++) {
      scale[r] = r0 + r < n ? scale_of(a, row + r0 + r, col) : (real) 1;
      before[r] = r0 + r < n ? before_of(a, row + r0 + r, col) : (real) 0;
    }
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++)
      if (r0 + r < n) a.y[(row + r0 + r) * a.ldy + col] = sum[r0 + r] * scale[r] + before[r];
  }
}

/* Several rows: a worker owns a column of ROWS of them. */
template <int ROWS>
MLFF_DEVICE void add_rows(const row_product &a, uint32_t of_in, uint32_t of_out, int row0, int n_rows, atom_block *b)
{
  const int n_columns = is_worker(*b) ? (n_rows + ROWS - 1) / ROWS * a.n_out : 0, ld = a.ld, most = a.chunk_rows;
  for (int pass = 0; pass < a.n_passes; pass++) {
    const int q = (int) threadIdx.x + pass * b->n_workers, group = quotient(q, of_out), first = group * ROWS;
    const int col = q - group * a.n_out, n_out = a.n_out;
    const bool is_mine = q < n_columns;
    const real bias = is_mine ? a.bias[col] : (real) 0;
    if (pass == 0) bring_x(a, of_in, row0, n_rows, b);
    real sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = bias;
    for (int k0 = 0; k0 < ld; k0 += most) {
      const real *chunk = take_chunk(b);
      if (is_mine)
        add_chunk<ROWS>(b->x + first * ld + k0, ld, chunk + col, n_out, most < ld - k0 ? most : ld - k0, sum);
    }
    if (!is_mine) continue;
    finish_rows<ROWS>(a, sum, row0 + first, n_rows - first, col);
  }
}

/* Rows row0 .. row0 + n_rows of a product; x has room for whole groups of rows. */
template <int IS_FEW> MLFF_DEVICE void product_step(const atom_step &step, int row0, int n_rows, atom_block *b)
{
  const row_product a = step.of.product;
  const uint32_t of_in = step.of_in, of_out = step.of_out;
  if (IS_FEW && n_rows == 1)
    add_row(a, of_in, row0, b);
  else if (IS_FEW || a.rows == VECTOR)
    add_rows<VECTOR>(a, of_in, of_out, row0, n_rows, b);
  else if (a.rows == 8)
    add_rows<8>(a, of_in, of_out, row0, n_rows, b);
  else
    add_rows<MOST_ROWS>(a, of_in, of_out, row0, n_rows, b);
}

} // namespace ATOMS

#endif
