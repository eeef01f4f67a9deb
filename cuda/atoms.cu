/* atoms.cu: one kernel for operations on rows of the same atoms that would follow one another, for systems that are so
 * small that starting a kernel takes longer than its work. Twins: the operations themselves.
 *
 * A deferred operation may read what others have written for the same atom, and nothing that they write for other
 * atoms: blocks do not wait for each other. So an array has the same rows of atoms in all deferred operations
 * together; the simulated device looks at that (check_rows).
 */
#include "atoms_product.h"

#include <cstdio>
#include <cstdlib>

using namespace ATOMS;

enum { MOST_STEPS = 20, MOST_PER_BLOCK = 16 };

namespace { /* kernels and their arguments differ between element types */

typedef struct atom_steps {
  int64_t n_atoms;
  int n_steps, per_block, chunk, unused[3]; /* chunk: weights that are copied at once, at most */
  atom_step of[MOST_STEPS];
} atom_steps;

static_assert(sizeof(atom_steps) <= MLFF_CUDA_QUEUE_BYTES, "the queue holds them, and 4 kB are the most of a kernel");
enum { STEPS_BYTES = sizeof(atom_step) * MOST_STEPS };
static_assert(STEPS_BYTES % 16 == 0, "vectors follow them in shared memory");

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
 * weights ahead of their use, the first ones while the kernel before may still run. Dynamic shared memory: the steps,
 * chunks of weights, and the rows of x of a product. Deterministic. Twins: those of the operations. */
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
      store_vector<PIECE>((real *) (void *) steps + q, load_vector<PIECE>((const real *) (const void *) s.of + q));
  } else {
    start_chunk(&b, s.of);
  }
  __syncthreads();
#pragma unroll 1
  for (int k = 1; k < CHUNKS - 1 && !is_worker(b); k++) start_chunk(&b, steps);
  mlff_after_others();
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

/* Weights of a chunk where a block has so many bytes of x. */
int chunk_beside(const mlff_cuda_queue &queue, int64_t bytes)
{
  const int64_t room = (queue.most_shared - STEPS_BYTES - bytes) / (CHUNKS * (int64_t) sizeof(real));
  return room < MOST_CHUNK ? (int) (room / WARP * WARP) : (int) MOST_CHUNK;
}

/* Whether a block has room for this with per_block atoms. */
bool fits(const mlff_cuda_queue &queue, const atom_step &step, int per_block)
{
  if (step.kind != STEP_LINEAR) return true;
  return step.of.product.n_out * VECTOR <= LEAST_CHUNK && chunk_beside(queue, x_bytes(step, per_block)) >= LEAST_CHUNK;
}

/* Rows of weights of a chunk: even parts of a product, whole steps of a worker. */
void part_weights(row_product *a, int chunk)
{
  const int most = chunk / a->n_out, whole = most < AHEAD ? VECTOR : AHEAD, fit = most / whole * whole;
  const int parts = (a->ld + fit - 1) / fit;
  a->chunk_rows = ((a->ld + parts - 1) / parts + whole - 1) / whole * whole;
}

/* The same product with indices that are int. */
void narrow(atom_step *step)
{
  const linear_arrays a = step->of.linear;
  row_product p;
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
  memset(&step->of, 0, sizeof step->of);
  step->of.product = p;
  step->of_in = reciprocal(p.x_in_vectors ? p.ld / VECTOR : p.ld);
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
  for (int k = 0; k < steps.n_steps; k++)
    while (!fits(cuda->queue, steps.of[k], per_block)) per_block--; /* one atom does: put_off */
  const int n_workers = workers_of(steps, per_block);
  int64_t bytes = 0;
  for (int k = 0; k < steps.n_steps; k++) {
    const int64_t need = x_bytes(steps.of[k], per_block);
    bytes = need > bytes ? need : bytes;
  }
  steps.chunk = chunk_beside(cuda->queue, bytes);
  bytes += STEPS_BYTES + CHUNKS * steps.chunk * (int64_t) sizeof(real);
  for (int k = 0; k < steps.n_steps; k++) {
    if (steps.of[k].kind != STEP_LINEAR) continue;
    part_weights(&steps.of[k].of.product, steps.chunk);
    share_out(&steps.of[k], per_block, n_workers);
  }
  steps.per_block = per_block;
#if MLFF_CUDASIM
  check_rows(steps);
#endif
  mlff_cuda_launch(backend, "atoms_kernel", 0, per_block > FEW_ATOMS ? atoms_kernel<0> : atoms_kernel<1>,
                   mlff_cuda_blocks(steps.n_atoms, per_block), (unsigned) (n_workers + COPIERS), (size_t) bytes, steps);
}

void MLFF_CUDA(atoms_begin_cuda)(mlff_backend *backend, int64_t n_atoms)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (backend->forecast) return;
  if (!mlff_cuda_is_small(cuda, n_atoms)) return;
  if (!cuda->queue.most_shared) {
    const cudaError_t failed =
        mlff_cuda_ask_for_shared(cuda, &cuda->queue.most_shared, atoms_kernel<0>, atoms_kernel<1>);
    if (failed != cudaSuccess) mlff_cuda_remember(cuda, failed, "shared memory of atoms_kernel");
  }
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
