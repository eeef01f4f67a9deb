/* atoms.cu: one kernel for operations on rows of the same atoms that would follow one another, for systems that are so
 * small that starting a kernel takes longer than its work. Twins: the operations themselves.
 *
 * A deferred operation may read what others have written for the same atom, and nothing that they write for other
 * atoms: blocks do not wait for each other. So an array has the same rows of atoms in all deferred operations
 * together; the simulated device looks at that (check_rows).
 */
#include "atoms_rows.h"

using namespace ATOMS;

enum { MOST_PER_BLOCK = 16 };

namespace { /* kernels differ between element types */

static_assert(sizeof(atom_steps) <= MLFF_CUDA_QUEUE_BYTES, "the queue holds them, and 4 kB are the most of a kernel");
enum { STEPS_BYTES = sizeof(atom_step) * MOST_STEPS };
static_assert(STEPS_BYTES % 16 == 0, "vectors follow them in shared memory");

MLFF_DEVICE void mix_step(const atom_step &step, int begin, int n, int n_workers)
{
  const mix_arrays a = step.of.mix;
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
  const readout_arrays a = step.of.readout;
  for (int i = (int) threadIdx.x / WARP; i < n; i += n_workers / WARP)
    readout_atom(a, begin + i, (int) threadIdx.x % WARP);
}

/* All steps, one after another, for per_block atoms of a block: updates and readouts as in the kernels of their own,
 * products in slices. What a step writes, the next one reads behind a barrier: in shared memory, as far as there is
 * room, where all rows come at once before the steps, and from where they go at the end. COPIERS bring the weights
 * ahead of their use, the first ones while the kernel before may still run. Dynamic shared memory: the steps, chunks of
 * weights, x and slices of a product, rows that are kept. Deterministic. Twins: those of the operations. */
template <int IS_FEW> __global__ void __launch_bounds__(WORKERS + COPIERS, 1) atoms_kernel(atom_steps s)
{
  MLFF_SHARED_DYNAMIC(char, shared);
  atom_step *const steps = (atom_step *) (void *) shared;
  atom_block b = {};
  b.steps = steps;
  b.chunks = (real *) (void *) (shared + STEPS_BYTES);
  b.chunk = s.chunk;
  b.x = b.chunks + CHUNKS * s.chunk;
  b.rows = b.x + s.x_room;
  b.n_steps = s.n_steps;
  b.n_workers = IS_FEW ? FEW_WORKERS : WORKERS;
  if (is_worker(b)) {
    const int n = s.n_steps * (int) (sizeof(atom_step) / sizeof(real));
#pragma unroll 1
    for (int q = (int) threadIdx.x * PIECE; q < n; q += b.n_workers * PIECE)
      store_vector<PIECE>((real *) (void *) steps + q, load_vector<PIECE>((const real *) (const void *) s.of + q));
  } else {
    start_chunk(&b, s.of);
  }
  __syncthreads();
  const int begin = (int) blockIdx.x * s.per_block, left = (int) s.n_atoms - begin;
  const int n = left < s.per_block ? left : s.per_block;
  if (is_worker(b)) place_pointers(s, steps, b.rows, begin, b.n_workers);
#pragma unroll 1
  for (int k = 1; k < CHUNKS - 1 && !is_worker(b); k++) start_chunk(&b, steps);
  grid_dependency_wait();
  if (is_worker(b)) bring_rows(s, b.rows, begin, n, b.n_workers);
  __syncthreads();
  for (int k = 0; k < s.n_steps; k++) {
    const atom_step &step = steps[k];
    if (step.kind == STEP_LINEAR) {
      product_step<IS_FEW>(step, begin * step.rows_per_atom, n * step.rows_per_atom, &b);
      continue;
    }
    __syncthreads();
    if (!is_worker(b)) continue;
    if (step.kind == STEP_READOUT)
      readout_step(step, begin, n, b.n_workers);
    else
      mix_step(step, begin, n, b.n_workers);
  }
  __syncthreads();
  return_rows(s, b.rows, begin, n);
}

int workers_of(int per_block)
{
  return per_block > FEW_ATOMS ? (int) WORKERS : (int) FEW_WORKERS;
}

/* Shares out the sums of a product of per_block atoms among the workers of a block: the fewest rows for each with which
 * all are done at once, then as many slices as there are workers for. */
void share_out(row_product *a, int n_rows, int per_block)
{
  const int n_workers = workers_of(per_block);
  a->columns = a->n_out % VECTOR ? 1 : (int) VECTOR;
  const int across = a->n_out / a->columns;
  const auto groups = [&] { return (n_rows + a->rows - 1) / a->rows; };
  a->rows = n_rows == 1 && per_block <= FEW_ATOMS ? 1 : (int) SOME_ROWS;
  if (per_block > FEW_ATOMS && groups() * across > n_workers) a->rows = MOST_ROWS;
  const int n = groups() * across;
  a->n_slices = std::clamp(n_workers / n, 1, std::min(a->ld / VECTOR, (int) MOST_SLICES));
  a->n_passes = (n + n_workers - 1) / n_workers;
  a->of_columns = reciprocal(across);
  a->of_slices = reciprocal(a->n_slices);
}

/* What a product of n_rows rows takes of shared memory beside its weights, in numbers; sets where its slices are. */
int64_t room_of(row_product *a, int64_t n_rows)
{
  const int64_t x = a->x_at < 0 ? (n_rows * a->ld + PIECE - 1) / PIECE * PIECE : 0;
  a->parts_at = (int) x;
  return x + (a->n_slices * n_rows * a->n_out + PIECE - 1) / PIECE * PIECE;
}

/* The most of a product. */
int64_t room_of(atom_steps *s)
{
  int64_t most = 0;
  for (int k = 0; k < s->n_steps; k++) {
    if (s->of[k].kind != STEP_LINEAR) continue;
    const int64_t room = room_of(&s->of[k].of.product, s->of[k].rows_per_atom * s->per_block);
    most = room > most ? room : most;
  }
  return most;
}

/* Numbers of a chunk where a block has so many others. */
int chunk_beside(const mlff_cuda_queue &queue, int64_t others)
{
  const int64_t room = ((queue.most_shared - STEPS_BYTES) / (int64_t) sizeof(real) - others) / CHUNKS;
  return room < MOST_CHUNK ? (int) (room / WARP * WARP) : (int) MOST_CHUNK;
}

/* Whether a block has room for this with per_block atoms, among whose workers it is shared out. */
bool fits(const mlff_cuda_queue &queue, atom_step *step, int per_block)
{
  if (step->kind != STEP_LINEAR) return true;
  row_product *a = &step->of.product;
  const int n_rows = step->rows_per_atom * per_block;
  share_out(a, n_rows, per_block);
  return a->n_out * VECTOR <= LEAST_CHUNK && chunk_beside(queue, room_of(a, n_rows)) >= LEAST_CHUNK;
}

bool all_fit(const mlff_cuda_queue &queue, atom_steps *s, int per_block)
{
  bool fit = true;
  for (int k = 0; k < s->n_steps; k++) fit &= fits(queue, &s->of[k], per_block);
  return fit;
}

/* Shares out the shared memory of a block: rows are kept as far as chunks of LEAST_CHUNK leave room, and chunks get
 * what is left. Returns its bytes. */
int64_t share_memory(atom_steps *s, const mlff_cuda_queue &queue)
{
  const int64_t most = room_of(s);
  row_arrays arrays;
  find_arrays(&arrays, *s);
#if MLFF_CUDASIM
  check_rows(arrays, s->n_atoms);
#endif
  const int64_t left = (queue.most_shared - STEPS_BYTES) / (int64_t) sizeof(real) - most;
  const int64_t rows = keep_rows(s, arrays, left - CHUNKS * LEAST_CHUNK);
  s->x_room = (int) room_of(s);
  s->chunk = chunk_beside(queue, s->x_room + rows);
  return STEPS_BYTES + (CHUNKS * s->chunk + s->x_room + rows) * (int64_t) sizeof(real);
}

/* Rows of weights of a chunk: even parts of a product. */
void part_weights(row_product *a, int chunk)
{
  const int fit = chunk / a->n_out / VECTOR * VECTOR, n_parts = (a->ld + fit - 1) / fit;
  a->chunk_rows = ((a->ld + n_parts - 1) / n_parts + VECTOR - 1) / VECTOR * VECTOR;
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
  p.ld = (a.n_in + VECTOR - 1) / VECTOR * VECTOR;
  p.x_at = -1;
  p.x_in_vectors = a.x_in_vectors;
  memset(&step->of, 0, sizeof step->of);
  step->of.product = p;
  step->of_in = reciprocal(p.x_in_vectors ? p.ld / VECTOR : p.ld);
  step->of_out = reciprocal(a.n_out);
}

} // namespace

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
  if (!steps.n_steps || cuda->replay.mode == MLFF_CUDA_REPLAYING) return; /* it ran with the recorded step */
  const int64_t even = (steps.n_atoms + cuda->n_multiprocessors - 1) / cuda->n_multiprocessors;
  int per_block = even < MOST_PER_BLOCK ? (int) even : (int) MOST_PER_BLOCK;
  while (!all_fit(cuda->queue, &steps, per_block)) per_block--; /* one atom does: put_off */
  steps.per_block = per_block;
  const int64_t bytes = share_memory(&steps, cuda->queue);
  for (int k = 0; k < steps.n_steps; k++)
    if (steps.of[k].kind == STEP_LINEAR) part_weights(&steps.of[k].of.product, steps.chunk);
  mlff_cuda_launch(backend, "atoms_kernel", 0, per_block > FEW_ATOMS ? atoms_kernel<0> : atoms_kernel<1>,
                   mlff_cuda_blocks(steps.n_atoms, per_block), (unsigned) (workers_of(per_block) + COPIERS),
                   (size_t) bytes, steps);
}

void MLFF_CUDA(atoms_begin_cuda)(mlff_backend *backend, int64_t n_atoms)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (backend->forecast) return;
  if (!mlff_cuda_is_small_system(cuda, n_atoms)) return;
  if (!cuda->queue.most_shared) {
    const cudaError_t failed =
        mlff_cuda_opt_in_shared(cuda, &cuda->queue.most_shared, atoms_kernel<0>, atoms_kernel<1>);
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
  if (!fits(*queue, step, 1)) return false;
  if (queue->n == MOST_STEPS) start_steps(backend);
  memcpy(queue->steps + (size_t) queue->n++ * sizeof *step, step, sizeof *step);
  return true;
}
