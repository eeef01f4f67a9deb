/* atoms.cu: one kernel for operations on rows of the same atoms that would follow one another, for systems that are so
 * small that starting a kernel takes longer than its work. Twins: the operations themselves.
 *
 * A deferred operation may read what others have written for the same atom, and nothing that they write for other
 * atoms: blocks do not wait for each other. So an array has the same rows of atoms in all deferred operations
 * together; the simulated device looks at that (check_rows).
 */
#include "atoms.h"
#include "vectors.h"

#include <cstdio>
#include <cstdlib>

using namespace ATOMS;

/* Of a block: up to WORKERS compute, all of them where it has more than FEW_ATOMS; COPIERS copy weights. */
enum { WORKERS = MLFF_REAL_IS_DOUBLE ? 192 : 384, COPIERS = MLFF_REAL_IS_DOUBLE ? 64 : 128, FEW_ATOMS = 2 };
enum { MOST_STEPS = 20, MOST_PER_BLOCK = 16 };
/* CHUNKS times CHUNK weights are in shared memory or on their way there: those of the next products, too. */
enum { CHUNK = 16 * 1024 / sizeof(real), CHUNKS = 4, PIECE = 16 / sizeof(real) };
/* Weights of a column and numbers of x that are read at once, ahead of their use where there is one row; rows of a
 * worker. */
enum { VECTOR = 4, AHEAD = 8, MOST_ROWS = 16 };

namespace { /* kernels and their arguments differ between element types */

typedef struct atom_steps {
  int64_t n_atoms;
  int n_steps, per_block;
  atom_step of[MOST_STEPS];
} atom_steps;

static_assert(sizeof(atom_steps) <= MLFF_CUDA_QUEUE_BYTES, "the queue holds them, and 4 kB are the most of a kernel");
static_assert(sizeof(atom_step) * MOST_STEPS % 16 == 0, "vectors follow them in shared memory");

enum { SHARED_BEFORE_X = sizeof(atom_step) * MOST_STEPS + CHUNKS * CHUNK * sizeof(real) };

/* For n / d by a product: exact while n d < 2^32. */
uint32_t reciprocal(int d)
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
  real *chunks, *x;       /* [CHUNKS][CHUNK], [rows][ld] */
  int n_steps, n_workers; /* threads n_workers and more copy */
  int step, pass, row;    /* weights to be copied next */
  int n_started, n_taken; /* chunks */
  int unused;
} atom_block;

MLFF_DEVICE bool is_worker(const atom_block &b)
{
  return (int) threadIdx.x < b.n_workers;
}

/* Starts the copy of the next chunk of weights, those of all products in the order of their use. They depend on no
 * atom, so they come while earlier products are computed. */
MLFF_DEVICE void start_chunk(atom_block *b, const atom_step *steps)
{
  while (b->step < b->n_steps && steps[b->step].kind != STEP_LINEAR) b->step++;
  if (b->step < b->n_steps) {
    const row_product &a = steps[b->step].of.product;
    const int n_all = a.ld, most = a.chunk_rows, n_out = a.n_out, n_passes = a.n_passes, left = n_all - b->row;
    const int n = (most < left ? most : left) * n_out;
    real *to = b->chunks + b->n_started % CHUNKS * CHUNK;
    const real *from = a.weight + b->row * n_out;
    const int mine = ((int) threadIdx.x - b->n_workers) * PIECE;
    to += mine;
    from += mine;
#pragma unroll 4
    for (int q = 0; q < n - mine; q += COPIERS * PIECE) copy_ahead<PIECE>(to + q, from + q);
    b->row += most;
    if (b->row >= n_all) {
      b->row = 0;
      if (++b->pass == n_passes) {
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
  return b->chunks + b->n_taken++ % CHUNKS * CHUNK;
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

/* What becomes of a sum, as in finish_value. */
MLFF_DEVICE void finish_row(const row_product &a, real v, int row, int col, real scale, real before)
{
  if (a.act != MLFF_ACT_NONE) {
    real slope;
    v = activated<ANY_BUT_SSP>(a.act, (real) a.alpha, v, &slope);
    if (a.slope) a.slope[row * a.ld_slope + col] = slope;
  } else {
    v *= scale;
  }
  if (a.accumulate) v += before;
  a.y[row * a.ldy + col] = v;
}

MLFF_DEVICE real scale_of(const row_product &a, int row, int col)
{
  return a.act == MLFF_ACT_NONE && a.scale ? a.scale[row * a.ld_scale + col] : (real) 1;
}

MLFF_DEVICE real before_of(const row_product &a, int row, int col)
{
  return a.accumulate ? a.y[row * a.ldy + col] : (real) 0;
}

/* One row: a worker owns a column; sums over k in order, as in linear_kernel. */
MLFF_DEVICE void add_row(const row_product &a, int row, atom_block *b)
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
    for (int k0 = 0; k0 < a.ld; k0 += a.chunk_rows) {
      const real *chunk = take_chunk(b);
      const int left = a.ld - k0;
      if (is_mine) add_row_chunk(b->x + k0, chunk + col, a.n_out, a.chunk_rows < left ? a.chunk_rows : left, &sum);
    }
    if (is_mine) finish_row(a, sum, row, col, scale, before);
  }
}

/* Several rows: a worker owns a column of ROWS of them. */
template <int ROWS>
MLFF_DEVICE void add_rows(const row_product &a, uint32_t of_out, int row0, int n_rows, atom_block *b)
{
  const int n_columns = is_worker(*b) ? (n_rows + ROWS - 1) / ROWS * a.n_out : 0, ld = a.ld, most = a.chunk_rows;
  for (int pass = 0; pass < a.n_passes; pass++) {
    const int q = (int) threadIdx.x + pass * b->n_workers, group = quotient(q, of_out), first = group * ROWS;
    const int col = q - group * a.n_out, n_out = a.n_out;
    const bool is_mine = q < n_columns;
    real sum[ROWS];
    if (is_mine) {
      const real bias = a.bias[col];
#pragma unroll
      for (int r = 0; r < ROWS; r++) sum[r] = bias;
    }
    for (int k0 = 0; k0 < ld; k0 += most) {
      const real *chunk = take_chunk(b);
      if (is_mine)
        add_chunk<ROWS>(b->x + first * ld + k0, ld, chunk + col, n_out, most < ld - k0 ? most : ld - k0, sum);
    }
    if (!is_mine) continue;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const int row = row0 + first + r;
      if (first + r < n_rows) finish_row(a, sum[r], row, col, scale_of(a, row, col), before_of(a, row, col));
    }
  }
}

/* Pointers that come from shared memory point to global memory, which the compiler could not know. */
template <typename T> MLFF_DEVICE void set_global(T *&p)
{
#if !MLFF_CUDASIM
  __builtin_assume(__isGlobal(p));
#endif
}

/* Rows row0 .. row0 + n_rows of a product; x has room for whole groups of rows. */
template <int IS_FEW> MLFF_DEVICE void product_step(const atom_step &step, int row0, int n_rows, atom_block *b)
{
  row_product a = step.of.product;
  set_global(a.x), set_global(a.bias), set_global(a.scale), set_global(a.y), set_global(a.slope);
  const uint32_t of_in = step.of_in, of_out = step.of_out;
  if (IS_FEW && n_rows == 1) {
    const real *from = a.x + row0 * a.ldx;
#pragma unroll 1
    for (int k = (int) threadIdx.x; k < a.ld && is_worker(*b); k += b->n_workers)
      b->x[k] = k < a.n_in ? from[k] : (real) 0;
    add_row(a, row0, b);
    return;
  }
#pragma unroll 1
  for (int q = (int) threadIdx.x; q < n_rows * a.ld && is_worker(*b); q += b->n_workers) {
    const int r = quotient(q, of_in), k = q - r * a.ld;
    b->x[q] = k < a.n_in ? a.x[(row0 + r) * a.ldx + k] : (real) 0;
  }
  if (IS_FEW || a.rows == VECTOR)
    add_rows<VECTOR>(a, of_out, row0, n_rows, b);
  else if (a.rows == 8)
    add_rows<8>(a, of_out, row0, n_rows, b);
  else
    add_rows<MOST_ROWS>(a, of_out, row0, n_rows, b);
}

MLFF_DEVICE void mix_step(const atom_step &step, int begin, int n, int n_workers)
{
  mix_arrays a = step.of.mix;
  set_global(a.vw), set_global(a.y), set_global(a.mu), set_global(a.grad), set_global(a.grad_qn), set_global(a.grad_m);
  set_global(a.qn), set_global(a.inv_norm), set_global(a.q_out), set_global(a.state_out), set_global(a.grad_y);
  set_global(a.grad_vw), set_global(a.grad_q_out), set_global(a.grad_mu_out);
  const uint32_t of_f = step.of_out;
#pragma unroll 1
  for (int q = (int) threadIdx.x; q < n * a.f; q += n_workers) {
    const int i = n > 1 ? quotient(q, of_f) : 0, k = q - i * a.f;
    switch (step.kind) {
    case STEP_NORM: mix_norm(a, begin + i, k); break;
    case STEP_UPDATE: mix_update(a, begin + i, k); break;
    case STEP_BACKWARD_GATES: mix_backward_gates(a, begin + i, k); break;
    case STEP_BACKWARD_VECTORS: mix_backward_vectors(a, begin + i, k); break;
    default: mix_backward_sum(a, begin + i, k);
    }
  }
}

MLFF_DEVICE void readout_step(const atom_step &step, int begin, int n, int n_workers)
{
  readout_arrays a = step.of.readout;
  set_global(a.h), set_global(a.slope), set_global(a.weight), set_global(a.species), set_global(a.energy);
  set_global(a.grad_h);
  for (int i = (int) threadIdx.x / WARP; i < n; i += n_workers / WARP)
    readout_atom(a, begin + i, (int) threadIdx.x % WARP);
}

/* All steps, one after another, for per_block atoms of a block: products, updates and readouts as in the kernels of
 * their own. What a step writes, the next one reads through global memory; a barrier lies between. COPIERS bring the
 * weights ahead of their use. Dynamic shared memory: the steps, chunks of weights, and the rows of x of a product.
 * Deterministic. Twins: those of the operations. */
template <int IS_FEW> __global__ void __launch_bounds__(WORKERS + COPIERS) atoms_kernel(atom_steps s)
{
  MLFF_SHARED_DYNAMIC(char, shared);
  atom_step *const steps = (atom_step *) (void *) shared;
  atom_block b = {};
  b.steps = steps;
  b.chunks = (real *) (void *) (shared + sizeof(atom_step) * MOST_STEPS);
  b.x = b.chunks + CHUNKS * CHUNK;
  b.n_steps = s.n_steps;
  b.n_workers = IS_FEW ? (int) blockDim.x - COPIERS : WORKERS;
  if (is_worker(b)) {
    const int n = s.n_steps * (int) (sizeof(atom_step) / sizeof(int64_t));
    for (int q = (int) threadIdx.x; q < n; q += b.n_workers)
      ((int64_t *) (void *) steps)[q] = ((const int64_t *) (const void *) s.of)[q];
  } else {
    for (int k = 0; k < CHUNKS - 1; k++) start_chunk(&b, s.of);
  }
  __syncthreads();
  const int begin = (int) blockIdx.x * s.per_block, left = (int) s.n_atoms - begin;
  const int n = left < s.per_block ? left : s.per_block;
  for (int k = 0; k < s.n_steps; k++) {
    const atom_step &step = steps[k];
    if (step.kind == STEP_LINEAR) {
      product_step<IS_FEW>(step, begin * step.rows_per_atom, n * step.rows_per_atom, &b);
    } else if (is_worker(b)) {
      if (step.kind == STEP_READOUT) {
        readout_step(step, begin, n, b.n_workers);
      } else {
        mix_step(step, begin, n, b.n_workers);
      }
    }
    __syncthreads();
  }
}

/* Of a block: a warp for every 32 columns of the widest product where it has few atoms. */
int workers_of(const atom_steps &s, int per_block)
{
  int n = WARP;
  for (int k = 0; k < s.n_steps; k++)
    if (s.of[k].kind == STEP_LINEAR && s.of[k].of.product.n_out > n) n = s.of[k].of.product.n_out;
  n = (n + WARP - 1) / WARP * WARP;
  return per_block > FEW_ATOMS || n > WORKERS ? (int) WORKERS : n;
}

/* Shares out the columns of a product of per_block atoms among n_workers: the fewest rows for each with which all are
 * done at once. */
void share_out(atom_step *step, int per_block, int n_workers)
{
  row_product &a = step->of.product;
  const int n_rows = step->rows_per_atom * per_block;
  a.rows = n_rows == 1 ? 1 : VECTOR;
  while (per_block > FEW_ATOMS && a.rows < MOST_ROWS && (n_rows + a.rows - 1) / a.rows * a.n_out > n_workers)
    a.rows *= 2;
  a.n_passes = ((n_rows + a.rows - 1) / a.rows * a.n_out + n_workers - 1) / n_workers;
}

/* Bytes of x for per_block atoms. */
int64_t x_bytes(const atom_step &step, int per_block)
{
  if (step.kind != STEP_LINEAR) return 0;
  const int64_t n_rows = (step.rows_per_atom * per_block + MOST_ROWS - 1) / MOST_ROWS * MOST_ROWS;
  return n_rows * step.of.product.ld * (int64_t) sizeof(real);
}

/* Whether a block has room for this with per_block atoms. */
bool fits(const mlff_cuda_queue &queue, const atom_step &step, int per_block)
{
  if (step.kind != STEP_LINEAR) return true;
  return step.of.product.chunk_rows > 0 && SHARED_BEFORE_X + x_bytes(step, per_block) <= queue.most_shared;
}

/* The same product with indices that are int. */
void narrow(atom_step *step)
{
  const linear_arrays a = step->of.linear;
  row_product p;
  const int ld = padded_rows(a.n_in), most = CHUNK / a.n_out, whole = most < AHEAD ? VECTOR : AHEAD;
  const int fit = most / whole * whole;
  memset(&p, 0, sizeof p);
  p.x = a.x;
  p.weight = a.weight;
  p.bias = a.bias;
  p.scale = a.scale;
  p.y = a.y;
  p.slope = a.slope;
  p.alpha = a.alpha;
  p.ldx = (int) a.ldx;
  p.ldy = (int) a.ldy;
  p.ld_slope = (int) a.ld_slope;
  p.ld_scale = (int) a.ld_scale;
  p.n_in = a.n_in;
  p.n_out = a.n_out;
  p.act = a.act;
  p.accumulate = a.accumulate;
  p.ld = ld;
  p.chunk_rows = fit < ld ? fit : ld;
  memset(&step->of, 0, sizeof step->of);
  step->of.product = p;
  step->of_in = reciprocal(ld);
  step->of_out = reciprocal(a.n_out);
}

} // namespace

/* ---- rows of atoms ----------------------------------------------------------------------------------------------- */

#if MLFF_CUDASIM
namespace {

/* An array of a step: where it is, bytes from atom to atom, bytes of an atom. */
typedef struct footprint {
  const char *base;
  int64_t step, bytes;
} footprint;

typedef struct footprints {
  int64_t n;
  footprint of[16 * MOST_STEPS];
} footprints;

void add(footprints *all, const void *base, int64_t step, int64_t reals)
{
  if (base) all->of[all->n++] = {(const char *) base, step * (int64_t) sizeof(real), reals * (int64_t) sizeof(real)};
}

void add_step(footprints *all, const atom_step &s)
{
  const row_product &l = s.of.product;
  const mix_arrays &m = s.of.mix;
  const readout_arrays &r = s.of.readout;
  const int64_t rows = s.rows_per_atom, f = m.f, n_parts = m.last ? 2 : 3, grad = m.last ? 1 : 4;
  if (s.kind == STEP_LINEAR) {
    add(all, l.x, rows * l.ldx, (rows - 1) * l.ldx + l.n_in);
    add(all, l.y, rows * l.ldy, (rows - 1) * l.ldy + l.n_out);
    add(all, l.slope, rows * l.ld_slope, (rows - 1) * l.ld_slope + l.n_out);
    add(all, l.scale, rows * l.ld_scale, (rows - 1) * l.ld_scale + l.n_out);
  } else if (s.kind == STEP_READOUT) {
    add(all, r.h, r.width, r.width);
    add(all, r.slope, r.width, r.width);
    add(all, r.grad_h, r.width, r.width);
    add(all, r.energy, 1, 1);
  } else {
    const struct {
      const real *base;
      int64_t step, reals;
    } arrays[] = {{m.vw, 6 * f, 6 * f},
                  {m.y, n_parts * f, n_parts * f},
                  {m.mu, 3 * f, 3 * f},
                  {m.grad, grad * f, grad * f},
                  {m.grad_qn, 2 * f, 2 * f},
                  {m.grad_m, 3 * f, 3 * f},
                  {m.qn, 2 * f, 2 * f},
                  {m.inv_norm, f, f},
                  {m.q_out, f, f},
                  {m.state_out, 6 * f, 6 * f},
                  {m.grad_y, n_parts * f, n_parts * f},
                  {m.grad_vw, 6 * f, 6 * f},
                  {m.grad_q_out, m.ld_grad_q, f},
                  {m.grad_mu_out, m.ld_grad_mu, 3 * f}};
    for (const auto &a : arrays) add(all, a.base, a.step, a.reals);
  }
}

/* Ends the program when two arrays share bytes of different atoms: what one block writes, another one would read. */
void check_rows(const atom_steps &steps)
{
  footprints all;
  all.n = 0;
  for (int k = 0; k < steps.n_steps; k++) add_step(&all, steps.of[k]);
  for (int64_t p = 0; p < all.n; p++)
    for (int64_t q = 0; q < p; q++) {
      const footprint a = all.of[p].base < all.of[q].base ? all.of[p] : all.of[q],
                      b = all.of[p].base < all.of[q].base ? all.of[q] : all.of[p];
      const int64_t between = b.base - a.base;
      if (between >= (steps.n_atoms - 1) * a.step + a.bytes) continue;
      if (a.step == b.step && between % a.step + b.bytes <= a.step && between < a.step) continue;
      std::fprintf(stderr, "atoms_kernel: arrays that share memory have rows of %lld and %lld bytes per atom\n",
                   (long long) a.step, (long long) b.step);
      std::abort();
    }
}

} // namespace
#endif

/* ---- the queue --------------------------------------------------------------------------------------------------- */

static void start_steps(mlff_backend *backend)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  atom_steps steps;
  memset(&steps, 0, sizeof steps);
  steps.n_atoms = cuda->queue.n_atoms;
  steps.n_steps = cuda->queue.n;
  memcpy(steps.of, cuda->queue.steps, (size_t) cuda->queue.n * sizeof *steps.of);
  cuda->queue.n = 0;
  if (!steps.n_steps) return;
  const int64_t even = (steps.n_atoms + cuda->n_multiprocessors - 1) / cuda->n_multiprocessors;
  int per_block = even < MOST_PER_BLOCK ? (int) even : (int) MOST_PER_BLOCK;
  int64_t bytes = 0;
  for (int k = 0; k < steps.n_steps; k++)
    while (!fits(cuda->queue, steps.of[k], per_block)) per_block--; /* one atom does: put_off */
  const int n_workers = workers_of(steps, per_block);
  for (int k = 0; k < steps.n_steps; k++) {
    const int64_t need = x_bytes(steps.of[k], per_block);
    bytes = need > bytes ? need : bytes;
    if (steps.of[k].kind == STEP_LINEAR) share_out(&steps.of[k], per_block, n_workers);
  }
  steps.per_block = per_block;
#if MLFF_CUDASIM
  check_rows(steps);
#endif
  mlff_cuda_launch(backend, "atoms_kernel", 0, per_block > FEW_ATOMS ? atoms_kernel<0> : atoms_kernel<1>,
                   mlff_cuda_blocks(steps.n_atoms, per_block), (unsigned) (n_workers + COPIERS),
                   (size_t) (SHARED_BEFORE_X + bytes), steps);
}

/* Bytes of shared memory that a block of this GPU can have, which the kernel is allowed then; 0: it failed. */
static int ask_for_shared_memory(mlff_cuda_backend *cuda)
{
  int most = 0;
  cudaError_t failed = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->device);
  const cudaFuncAttribute what = cudaFuncAttributeMaxDynamicSharedMemorySize;
  if (failed == cudaSuccess) failed = cudaFuncSetAttribute(atoms_kernel<0>, what, most);
  if (failed == cudaSuccess) failed = cudaFuncSetAttribute(atoms_kernel<1>, what, most);
  if (failed != cudaSuccess) mlff_cuda_remember(cuda, failed, "shared memory of atoms_kernel");
  return failed == cudaSuccess ? most : 0;
}

void MLFF_CUDA(atoms_begin_cuda)(mlff_backend *backend, int64_t n_atoms)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (backend->forecast) return;
  if (!mlff_cuda_is_small(cuda, n_atoms)) return;
  if (!cuda->queue.most_shared) cuda->queue.most_shared = ask_for_shared_memory(cuda);
  cuda->queue.n_atoms = n_atoms;
  cuda->queue.start = start_steps;
}

void MLFF_CUDA(atoms_end_cuda)(mlff_backend *backend)
{
  start_steps(backend);
  mlff_cuda_of(backend)->queue.n_atoms = 0;
}

bool MLFF_CUDA(put_off)(mlff_backend *backend, atom_step *step, int64_t n_rows, int most_per_atom)
{
  mlff_cuda_queue *queue = &mlff_cuda_of(backend)->queue;
  if (!queue->n_atoms || n_rows % queue->n_atoms || n_rows > most_per_atom * queue->n_atoms) return false;
  step->rows_per_atom = (int) (n_rows / queue->n_atoms);
  if (step->kind == STEP_LINEAR)
    narrow(step);
  else
    step->of_out = step->kind == STEP_READOUT ? 0 : reciprocal(step->of.mix.f);
  if (!fits(*queue, *step, 1)) return false;
  if (queue->n == MOST_STEPS) start_steps(backend);
  memcpy(queue->steps + (size_t) queue->n++ * sizeof *step, step, sizeof *step);
  return true;
}
