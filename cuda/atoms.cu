/* atoms.cu: one kernel for a sequence of operations on the same atoms, for systems so small that launching a kernel
 * takes longer than its work. Twins: the operations themselves, whose bits these are, FMA contraction aside.
 *
 * A deferred operation may read what the others have written for the same atom, but not for other atoms: blocks do not
 * synchronise. An array must have the same rows of an atom in all deferred operations; the simulator checks that
 * (tests/cudasim/atoms_check.h).
 *
 * GEMMs are warp-specialised: worker threads compute, COPIERS prefetch the weights of all GEMMs of the kernel, in the
 * order of their use, into a ring of CHUNKS buffers in shared memory.
 */
#include "atoms.h"
#include "vectors.h"

using namespace ATOMS;

/* Threads of a block: at most WORKERS, all of them with more than FEW_ATOMS atoms. */
enum { WORKERS = MLFF_REAL_IS_DOUBLE ? 192 : 384, COPIERS = MLFF_REAL_IS_DOUBLE ? 64 : 128, FEW_ATOMS = 2 };
/* Each chunk costs a barrier: 16 kB are up to 18 % slower than 48 kB (PaiNN 128/3, 63 atoms, H200, 2026-11-28). */
enum { LEAST_CHUNK = 16 * 1024 / sizeof(real), MOST_CHUNK = 3 * LEAST_CHUNK, CHUNKS = 4, PIECE = 16 / sizeof(real) };
/* VECTOR: values of x per load. PREFETCH: rows of weights in registers ahead of their use. MOST_ROWS: of a worker. */
enum { VECTOR = 4, PREFETCH = 8, MOST_ROWS = 16, MOST_PER_BLOCK = 16 };

namespace { /* kernels differ between element types */

static_assert(sizeof(atom_steps) <= MLFF_CUDA_QUEUE_BYTES, "kernel arguments have at most 4 kB, as the queue");
enum { STEPS_BYTES = sizeof(atom_step) * MOST_STEPS };
static_assert(STEPS_BYTES % 16 == 0, "vectors follow in shared memory");

/* n / d as a multiplication: exact while n d < 2^32. */
uint32_t reciprocal(int d)
{
  return d > 1 ? 0xffffffffu / (uint32_t) d + 1 : 0;
}

MLFF_DEVICE int quotient(int n, uint32_t inverse)
{
  return inverse ? (int) ((uint64_t) (uint32_t) n * inverse >> 32) : n;
}

/* State of a block, the same in all threads. */
typedef struct atom_block {
  const atom_step *steps;
  real *chunks, *x;            /* shared memory: [CHUNKS][chunk], [rows][ld] */
  int n_steps, n_workers;      /* threads from n_workers on copy */
  int chunk;                   /* values of a buffer of weights */
  int step, pass, row;         /* next weights to copy */
  unsigned n_started, n_taken; /* chunks */
} atom_block;

MLFF_DEVICE bool is_worker(const atom_block &b)
{
  return (int) threadIdx.x < b.n_workers;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Starts the asynchronous copy of the next chunk of weights. Weights depend on no atom: they are copied while earlier
 * GEMMs are computed. Always commits, possibly an empty batch. */
MLFF_DEVICE void prefetch_chunk(atom_block *b, const atom_step *steps)
{
  enum { COPIES_PER_BATCH = 8 };
  while (b->step < b->n_steps && steps[b->step].kind != STEP_LINEAR) b->step++;
  if (b->step < b->n_steps) {
    const row_gemm &a = steps[b->step].args.gemm;
    const int most = a.chunk_rows, left = a.ld - b->row, n = (most < left ? most : left) * a.n_out;
    const int first = ((int) threadIdx.x - b->n_workers) * PIECE;
    real *chunk = b->chunks + (int) (b->n_started % CHUNKS) * b->chunk;
    const real *weight = a.weight + b->row * a.n_out;
#pragma unroll 1
    for (int q = first; q < n; q += COPIES_PER_BATCH * COPIERS * PIECE)
#pragma unroll
      for (int p = 0; p < COPIES_PER_BATCH * COPIERS * PIECE; p += COPIERS * PIECE)
        if (p < n - q) copy_async<PIECE>(chunk + q + p, weight + q + p);
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

/* Waits for the next chunk. The barrier also publishes x and ends the use of the previous chunk, whose buffer the next
 * copy fills. */
MLFF_DEVICE const real *wait_chunk(atom_block *b)
{
  if (!is_worker(*b)) __pipeline_wait_prior(CHUNKS - 2);
  __syncthreads();
  if (!is_worker(*b)) prefetch_chunk(b, b->steps);
  return b->chunks + (int) (b->n_taken++ % CHUNKS) * b->chunk;
}

/* ---- accumulators ------------------------------------------------------------------------------------------------ */

/* sum[r] += sum_k x[r][k] weight[k][0],  k < n, a multiple of VECTOR */
template <int ROWS> MLFF_DEVICE void add_chunk(const real *x, int ld, const real *weight, int n_out, int n, real *sum)
{
  enum { UNROLL = ROWS > VECTOR ? 1 : 2 };
#pragma unroll UNROLL
  for (int k = 0; k < n; k += VECTOR) {
    real w[VECTOR];
#pragma unroll
    for (int j = 0; j < VECTOR; j++) w[j] = weight[(k + j) * n_out];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const vector_of<VECTOR> v = load_vector<VECTOR>(x + r * ld + k);
#pragma unroll
      for (int j = 0; j < VECTOR; j++) sum[r] += v.v[j] * w[j];
    }
  }
}

MLFF_DEVICE void load_row(const real *x, const real *weight, int n_out, vector_of<VECTOR> *v, real *w)
{
#pragma unroll
  for (int k = 0; k < PREFETCH; k++) w[k] = weight[k * n_out];
#pragma unroll
  for (int k = 0; k < PREFETCH / VECTOR; k++) v[k] = load_vector<VECTOR>(x + k * VECTOR);
}

MLFF_DEVICE void add_loaded(const vector_of<VECTOR> *v, const real *w, real *sum)
{
#pragma unroll
  for (int k = 0; k < PREFETCH; k++) *sum += v[k / VECTOR].v[k % VECTOR] * w[k];
}

/* The same for one row, double-buffered in registers: one accumulator cannot hide the latency of its loads. */
MLFF_DEVICE void add_row_chunk(const real *x, const real *weight, int n_out, int n, real *sum)
{
  if (n % PREFETCH) { /* chunks of wide layers */
    add_chunk<1>(x, 0, weight, n_out, n, sum);
    return;
  }
  vector_of<VECTOR> even[PREFETCH / VECTOR], odd[PREFETCH / VECTOR];
  real w_even[PREFETCH], w_odd[PREFETCH];
  load_row(x, weight, n_out, even, w_even);
#pragma unroll 1
  for (n -= PREFETCH; n > 0; n -= 2 * PREFETCH) {
    load_row(x + PREFETCH, weight + PREFETCH * n_out, n_out, odd, w_odd);
    add_loaded(even, w_even, sum);
    x += 2 * PREFETCH;
    weight += 2 * PREFETCH * n_out;
    if (n > PREFETCH) load_row(x, weight, n_out, even, w_even);
    add_loaded(odd, w_odd, sum);
  }
  if (n == 0) add_loaded(even, w_even, sum);
}

/* ---- epilogue, as in finish_value -------------------------------------------------------------------------------- */

MLFF_DEVICE real activate_row(const row_gemm &a, real v, int row, int col)
{
  real slope;
  v = activated<ANY_BUT_SSP>(a.act, (real) a.alpha, v, &slope);
  if (a.slope) a.slope[row * a.ld_slope + col] = slope;
  return v;
}

MLFF_DEVICE real scale_of(const row_gemm &a, int row, int col)
{
  return a.act == MLFF_ACT_NONE && a.scale ? a.scale[row * a.ld_scale + col] : (real) 1;
}

MLFF_DEVICE real previous_y(const row_gemm &a, int row, int col)
{
  return a.accumulate ? a.y[row * a.ldy + col] : (real) 0;
}

/* y of n rows of a column. */
template <int ROWS> MLFF_DEVICE void finish_rows(const row_gemm &a, real *sum, int row, int n, int col)
{
  enum { LOADS_PER_BATCH = VECTOR };
  if (a.act != MLFF_ACT_NONE) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      if (r < n) sum[r] = activate_row(a, sum[r], row + r, col);
  }
#pragma unroll
  for (int r0 = 0; r0 < ROWS; r0 += LOADS_PER_BATCH) {
    real scale[LOADS_PER_BATCH], previous[LOADS_PER_BATCH];
#pragma unroll
    for (int r = 0; r < LOADS_PER_BATCH; r++) {
      scale[r] = r0 + r < n ? scale_of(a, row + r0 + r, col) : (real) 1;
      previous[r] = r0 + r < n ? previous_y(a, row + r0 + r, col) : (real) 0;
    }
#pragma unroll
    for (int r = 0; r < LOADS_PER_BATCH; r++)
      if (r0 + r < n) a.y[(row + r0 + r) * a.ldy + col] = sum[r0 + r] * scale[r] + previous[r];
  }
}

/* ---- GEMM -------------------------------------------------------------------------------------------------------- */

/* x of a GEMM to shared memory, N values per load, zeros from n_in on. */
template <int N>
MLFF_DEVICE void copy_x(const row_gemm &a, uint32_t inverse_in, int row0, int n_rows, const atom_block *b)
{
  enum { LOADS_PER_BATCH = 2 };
  const int ld = a.ld / N, n = n_rows * ld;
#pragma unroll 1
  for (int first = (int) threadIdx.x; first < n; first += LOADS_PER_BATCH * b->n_workers) {
    vector_of<N> v[LOADS_PER_BATCH] = {};
#pragma unroll
    for (int p = 0; p < LOADS_PER_BATCH; p++) {
      const int q = first + p * b->n_workers, r = n_rows > 1 ? quotient(q, inverse_in) : 0, k = (q - r * ld) * N;
      if (q < n && k < a.n_in) v[p] = load_vector<N>(a.x + (row0 + r) * a.ldx + k);
    }
#pragma unroll
    for (int p = 0; p < LOADS_PER_BATCH; p++) {
      const int q = first + p * b->n_workers;
      if (q < n) store_vector<N>(b->x + q * N, v[p]);
    }
  }
}

MLFF_DEVICE void load_x(const row_gemm &a, uint32_t inverse_in, int row0, int n_rows, const atom_block *b)
{
  if (!is_worker(*b)) return;
  if (a.x_in_vectors)
    copy_x<VECTOR>(a, inverse_in, row0, n_rows, b);
  else
    copy_x<1>(a, inverse_in, row0, n_rows, b);
}

/* One row: a worker owns a column and sums over k in order, as linear_kernel. Its loads from global memory are in
 * flight before the first barrier. */
MLFF_DEVICE void compute_row(const row_gemm &a, uint32_t inverse_in, int row, atom_block *b)
{
  for (int pass = 0; pass < a.n_passes; pass++) {
    const int col = (int) threadIdx.x + pass * b->n_workers;
    const bool has_column = is_worker(*b) && col < a.n_out;
    real sum = 0, scale = 1, previous = 0;
    if (has_column) {
      sum = a.bias[col];
      scale = scale_of(a, row, col);
      previous = previous_y(a, row, col);
    }
    if (pass == 0) load_x(a, inverse_in, row, 1, b);
    for (int k0 = 0; k0 < a.ld; k0 += a.chunk_rows) {
      const real *chunk = wait_chunk(b);
      const int left = a.ld - k0;
      if (has_column) add_row_chunk(b->x + k0, chunk + col, a.n_out, a.chunk_rows < left ? a.chunk_rows : left, &sum);
    }
    if (!has_column) continue;
    sum = a.act != MLFF_ACT_NONE ? activate_row(a, sum, row, col) : sum * scale;
    a.y[row * a.ldy + col] = sum + previous;
  }
}

/* Several rows: a worker owns ROWS rows of a column. Rows from n_rows on are computed from garbage and not stored. */
template <int ROWS>
MLFF_DEVICE void compute_rows(const row_gemm &a, const atom_step &step, int row0, int n_rows, atom_block *b)
{
  const int n_columns = is_worker(*b) ? (n_rows + ROWS - 1) / ROWS * a.n_out : 0, ld = a.ld, most = a.chunk_rows;
  const uint32_t inverse_in = step.inverse_in, inverse_out = step.inverse_out;
  for (int pass = 0; pass < a.n_passes; pass++) {
    const int q = (int) threadIdx.x + pass * b->n_workers, batch = quotient(q, inverse_out), first = batch * ROWS;
    const int col = q - batch * a.n_out, n_out = a.n_out;
    const bool has_column = q < n_columns;
    const real bias = has_column ? a.bias[col] : (real) 0;
    if (pass == 0) load_x(a, inverse_in, row0, n_rows, b);
    real sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = bias;
    for (int k0 = 0; k0 < ld; k0 += most) {
      const real *chunk = wait_chunk(b);
      if (has_column)
        add_chunk<ROWS>(b->x + first * ld + k0, ld, chunk + col, n_out, most < ld - k0 ? most : ld - k0, sum);
    }
    if (!has_column) continue;
    finish_rows<ROWS>(a, sum, row0 + first, n_rows - first, col);
  }
}

/* Rows row0 .. row0 + n_rows of a GEMM. */
template <int IS_FEW> MLFF_DEVICE void gemm_step(const atom_step &step, int row0, int n_rows, atom_block *b)
{
  row_gemm a = step.args.gemm;
  set_global(a.x), set_global(a.bias), set_global(a.scale), set_global(a.y), set_global(a.slope);
  if (IS_FEW && n_rows == 1)
    compute_row(a, step.inverse_in, row0, b);
  else if (IS_FEW || a.rows == VECTOR)
    compute_rows<VECTOR>(a, step, row0, n_rows, b);
  else if (a.rows == 8)
    compute_rows<8>(a, step, row0, n_rows, b);
  else
    compute_rows<MOST_ROWS>(a, step, row0, n_rows, b);
}

/* ---- kernel ------------------------------------------------------------------------------------------------------ */

MLFF_DEVICE void mix_step(const atom_step &step, int begin, int n, int n_workers)
{
  mix_arrays a = step.args.mix;
  set_global(a.vw), set_global(a.y), set_global(a.mu), set_global(a.grad), set_global(a.grad_qn), set_global(a.grad_m);
  set_global(a.qn), set_global(a.inv_norm), set_global(a.q_out), set_global(a.state_out), set_global(a.grad_y);
  set_global(a.grad_vw), set_global(a.grad_q_out), set_global(a.grad_mu_out);
  const uint32_t inverse_f = step.inverse_out;
#pragma unroll 1
  for (int q = (int) threadIdx.x; q < n * a.f; q += n_workers) {
    const int i = n > 1 ? quotient(q, inverse_f) : 0, k = q - i * a.f;
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
  readout_arrays a = step.args.readout;
  set_global(a.h), set_global(a.slope), set_global(a.weight), set_global(a.species), set_global(a.energy);
  set_global(a.grad_h);
  for (int i = (int) threadIdx.x / WARP; i < n; i += n_workers / WARP)
    readout_atom(a, begin + i, (int) threadIdx.x % WARP);
}

/* All steps, one after another, for the per_block atoms of a block. Steps exchange data through global memory, with a
 * barrier after each. Dynamic shared memory: the steps, chunks of weights, x of one GEMM. IS_FEW: at most FEW_ATOMS
 * atoms. Deterministic. Twins: those of the operations. */
template <int IS_FEW> __global__ void __launch_bounds__(WORKERS + COPIERS, 1) atoms_kernel(atom_steps s)
{
  MLFF_SHARED_DYNAMIC(char, shared);
  atom_step *const steps = (atom_step *) (void *) shared;
  atom_block b = {};
  b.steps = steps;
  b.chunks = (real *) (void *) (shared + STEPS_BYTES);
  b.chunk = s.chunk;
  b.x = b.chunks + CHUNKS * s.chunk;
  b.n_steps = s.n_steps;
  b.n_workers = IS_FEW ? (int) blockDim.x - COPIERS : WORKERS;
  if (is_worker(b)) {
    const int n = s.n_steps * (int) (sizeof(atom_step) / sizeof(real));
#pragma unroll 1
    for (int q = (int) threadIdx.x * PIECE; q < n; q += b.n_workers * PIECE)
      store_vector<PIECE>((real *) (void *) steps + q, load_vector<PIECE>((const real *) (const void *) s.steps + q));
  } else {
    prefetch_chunk(&b, s.steps);
  }
  __syncthreads();
#pragma unroll 1
  for (int k = 1; k < CHUNKS - 1 && !is_worker(b); k++) prefetch_chunk(&b, steps);
  grid_dependency_wait(); /* weights are constant, so their copies may start before it */
  const int begin = (int) blockIdx.x * s.per_block, left = (int) s.n_atoms - begin;
  const int n = left < s.per_block ? left : s.per_block;
  for (int k = 0; k < s.n_steps; k++) {
    const atom_step &step = steps[k];
    if (step.kind == STEP_LINEAR) {
      gemm_step<IS_FEW>(step, begin * step.rows_per_atom, n * step.rows_per_atom, &b);
    } else if (is_worker(b)) {
      if (step.kind == STEP_READOUT)
        readout_step(step, begin, n, b.n_workers);
      else
        mix_step(step, begin, n, b.n_workers);
    }
    __syncthreads();
  }
}

/* ---- launch parameters ------------------------------------------------------------------------------------------- */

/* Worker threads of a block: with few atoms, one for each column of the widest GEMM. */
int count_workers(const atom_steps &s, int per_block)
{
  int n = WARP;
  for (int k = 0; k < s.n_steps; k++)
    if (s.steps[k].kind == STEP_LINEAR && s.steps[k].args.gemm.n_out > n) n = s.steps[k].args.gemm.n_out;
  n = (n + WARP - 1) / WARP * WARP;
  return per_block > FEW_ATOMS || n > WORKERS ? (int) WORKERS : n;
}

/* Splits a GEMM of per_block atoms across n_workers: the fewest rows per worker that need one pass. */
void split_rows(atom_step *step, int per_block, int n_workers)
{
  row_gemm &a = step->args.gemm;
  const int n_rows = step->rows_per_atom * per_block;
  a.rows = n_rows == 1 ? 1 : VECTOR;
  while (per_block > FEW_ATOMS && a.rows < MOST_ROWS && (n_rows + a.rows - 1) / a.rows * a.n_out > n_workers)
    a.rows *= 2;
  a.n_passes = ((n_rows + a.rows - 1) / a.rows * a.n_out + n_workers - 1) / n_workers;
}

/* Bytes of x of per_block atoms, in whole batches of rows. */
int64_t x_bytes(const atom_step &step, int per_block)
{
  if (step.kind != STEP_LINEAR) return 0;
  const int64_t n_rows = (step.rows_per_atom * per_block + MOST_ROWS - 1) / MOST_ROWS * MOST_ROWS;
  return n_rows * step.args.gemm.ld * (int64_t) sizeof(real);
}

/* Values of a chunk when x takes so many bytes. */
int chunk_size(const mlff_cuda_queue &queue, int64_t bytes)
{
  const int64_t room = (queue.most_shared - STEPS_BYTES - bytes) / (CHUNKS * (int64_t) sizeof(real));
  return room < MOST_CHUNK ? (int) (room / WARP * WARP) : (int) MOST_CHUNK;
}

/* Whether the shared memory of a block suffices for per_block atoms. */
bool fits(const mlff_cuda_queue &queue, const atom_step &step, int per_block)
{
  if (step.kind != STEP_LINEAR) return true;
  return step.args.gemm.n_out * VECTOR <= LEAST_CHUNK && chunk_size(queue, x_bytes(step, per_block)) >= LEAST_CHUNK;
}

/* Splits weights into chunks of equal rows, multiples of what a worker loads. */
void split_weights(row_gemm *a, int chunk)
{
  const int most = chunk / a->n_out, whole = most < PREFETCH ? VECTOR : PREFETCH, fit = most / whole * whole;
  const int parts = (a->ld + fit - 1) / fit;
  a->chunk_rows = ((a->ld + parts - 1) / parts + whole - 1) / whole * whole;
}

/* args.linear to args.gemm. */
void narrow_indices(atom_step *step)
{
  const linear_arrays a = step->args.linear;
  row_gemm p;
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
  p.ld = padded_rows(a.n_in);
  p.x_in_vectors = a.x_in_vectors;
  memset(&step->args, 0, sizeof step->args);
  step->args.gemm = p;
  step->inverse_in = reciprocal(p.x_in_vectors ? p.ld / VECTOR : p.ld);
  step->inverse_out = reciprocal(a.n_out);
}

} // namespace

/* ---- the queue --------------------------------------------------------------------------------------------------- */

static void launch_queue(mlff_backend *backend)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  atom_steps s;
  memset(&s, 0, sizeof s);
  s.n_atoms = cuda->queue.n_atoms;
  s.n_steps = cuda->queue.n;
  memcpy(s.steps, cuda->queue.steps, (size_t) cuda->queue.n * sizeof *s.steps);
  cuda->queue.n = 0;
  if (!s.n_steps || cuda->replay.mode == MLFF_CUDA_REPLAYING) return; /* it ran with the captured step */
  const int64_t even = (s.n_atoms + cuda->n_multiprocessors - 1) / cuda->n_multiprocessors;
  int per_block = even < MOST_PER_BLOCK ? (int) even : (int) MOST_PER_BLOCK;
  for (int k = 0; k < s.n_steps; k++)
    while (!fits(cuda->queue, s.steps[k], per_block)) per_block--; /* ends at 1: defer */
  s.per_block = per_block;
  const int n_workers = count_workers(s, per_block);
  int64_t bytes = 0;
  for (int k = 0; k < s.n_steps; k++) {
    const int64_t need = x_bytes(s.steps[k], per_block);
    bytes = need > bytes ? need : bytes;
  }
  s.chunk = chunk_size(cuda->queue, bytes);
  bytes += STEPS_BYTES + CHUNKS * s.chunk * (int64_t) sizeof(real);
  for (int k = 0; k < s.n_steps; k++) {
    if (s.steps[k].kind != STEP_LINEAR) continue;
    split_weights(&s.steps[k].args.gemm, s.chunk);
    split_rows(&s.steps[k], per_block, n_workers);
  }
  mlff_cuda_launch(backend, "atoms_kernel", 0, per_block > FEW_ATOMS ? atoms_kernel<0> : atoms_kernel<1>,
                   mlff_cuda_blocks(s.n_atoms, per_block), (unsigned) (n_workers + COPIERS), (size_t) bytes, s);
}

void MLFF_CUDA(atoms_begin_cuda)(mlff_backend *backend, int64_t n_atoms)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (!mlff_cuda_is_small_system(cuda, n_atoms)) return;
  if (!cuda->queue.most_shared) {
    const cudaError_t failed =
        mlff_cuda_opt_in_shared(cuda, &cuda->queue.most_shared, atoms_kernel<0>, atoms_kernel<1>);
    if (failed != cudaSuccess) mlff_cuda_remember(cuda, failed, "shared memory of atoms_kernel");
  }
  cuda->queue.n_atoms = n_atoms;
  cuda->queue.start = launch_queue;
}

void MLFF_CUDA(atoms_end_cuda)(mlff_backend *backend)
{
  launch_queue(backend);
  mlff_cuda_of(backend)->queue.n_atoms = 0;
}

bool MLFF_CUDA(defer)(mlff_backend *backend, atom_step *step, int64_t n_rows, int most_per_atom)
{
  mlff_cuda_queue *queue = &mlff_cuda_of(backend)->queue;
  if (!queue->n_atoms || n_rows % queue->n_atoms || n_rows > most_per_atom * queue->n_atoms) return false;
  step->rows_per_atom = (int) (n_rows / queue->n_atoms);
  if (step->kind == STEP_LINEAR)
    narrow_indices(step);
  else
    step->inverse_out = step->kind == STEP_READOUT ? 0 : reciprocal(step->args.mix.f);
  if (!fits(*queue, *step, 1)) return false;
  if (queue->n == MOST_STEPS) launch_queue(backend);
  memcpy(queue->steps + (size_t) queue->n++ * sizeof *step, step, sizeof *step);
  return true;
}
