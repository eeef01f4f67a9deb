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

enum { ATOM_THREADS = 256, ROWS_AT_ONCE = 4, MOST_STEPS = 20, MOST_PER_BLOCK = 8, MOST_SHARED = 40 * 1024 };
enum { VECTOR = 4 }; /* numbers of x that are read at once */

namespace { /* kernels and their arguments differ between element types */

typedef struct atom_steps {
  int64_t n_atoms;
  int n_steps, per_block;
  atom_step of[MOST_STEPS];
} atom_steps;

static_assert(sizeof(atom_steps) <= MLFF_CUDA_QUEUE_BYTES, "the queue holds them, and 4 kB are the most of a kernel");

/* The next AHEAD weights of a column, from index `at` on: all are on their way at once. */
template <int AHEAD> MLFF_DEVICE void load_weights(const linear_arrays &a, int at, real *w)
{
#pragma unroll
  for (int k = 0; k < AHEAD; k++, at += a.n_out) w[k] = a.weight[at];
}

/* sum[r] += sum_k own[r][k0 + k] w[k],  k < AHEAD */
template <int ROWS, int AHEAD> MLFF_DEVICE void add_weights(const real *const *own, int k0, const real *w, real *sum)
{
#pragma unroll
  for (int v = 0; v < AHEAD / VECTOR; v++)
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const vector_of<VECTOR> x = load_vector<VECTOR>(own[r] + k0 + v * VECTOR);
#pragma unroll
      for (int k = 0; k < VECTOR; k++) sum[r] += x.of[k] * w[v * VECTOR + k];
    }
}

/* A thread owns a column of ROWS rows of x [n_rows][ld], summed over k in order as in linear_kernel; it loads the AHEAD
 * weights of a step while it adds those of the step before, since a few warps of few atoms have nothing else to wait
 * with. */
template <int ROWS, int AHEAD>
MLFF_DEVICE void add_rows(const linear_arrays &a, int64_t row0, int n_rows, const real *x)
{
  const int ld = padded_rows(a.n_in), n_groups = (n_rows + ROWS - 1) / ROWS;
  for (int q = (int) threadIdx.x; q < n_groups * a.n_out; q += ATOM_THREADS) {
    const int col = q % a.n_out, first = q / a.n_out * ROWS;
    const real *own[ROWS];
    real sum[ROWS], even[AHEAD], odd[AHEAD];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      own[r] = x + (first + r < n_rows ? first + r : n_rows - 1) * ld;
      sum[r] = a.bias[col];
    }
    load_weights<AHEAD>(a, col, even);
    for (int k0 = 0; k0 < ld; k0 += 2 * AHEAD) {
      const bool has_odd = 2 * AHEAD <= PADDED_ROWS || k0 + AHEAD < ld;
      load_weights<AHEAD>(a, (has_odd ? k0 + AHEAD : 0) * a.n_out + col, odd);
      add_weights<ROWS, AHEAD>(own, k0, even, sum);
      load_weights<AHEAD>(a, (k0 + 2 * AHEAD < ld ? k0 + 2 * AHEAD : 0) * a.n_out + col, even);
      if (has_odd) add_weights<ROWS, AHEAD>(own, k0 + AHEAD, odd, sum);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      if (first + r < n_rows) finish_value<ANY_BUT_SSP>(a, sum[r], row0 + first + r, col);
  }
}

/* Rows row0 .. row0 + n_rows of a product; x [n_rows][padded_rows(n_in)] in shared memory. */
MLFF_DEVICE void product_step(const linear_arrays &a, int64_t row0, int n_rows, real *x)
{
  const int ld = padded_rows(a.n_in);
  for (int q = (int) threadIdx.x; q < n_rows * ld; q += ATOM_THREADS) {
    const int r = q / ld, k = q % ld;
    x[q] = k < a.n_in ? a.x[(row0 + r) * a.ldx + k] : (real) 0;
  }
  __syncthreads();
  if (n_rows == 1)
    add_rows<1, PADDED_ROWS>(a, row0, n_rows, x);
  else
    add_rows<ROWS_AT_ONCE, PADDED_ROWS / 2>(a, row0, n_rows, x);
}

MLFF_DEVICE void mix_step(int kind, const mix_arrays &a, int64_t begin, int n)
{
  for (int q = (int) threadIdx.x; q < n * a.f; q += ATOM_THREADS) {
    const int64_t i = begin + q / a.f;
    const int k = q % a.f;
    if (kind == STEP_NORM) mix_norm(a, i, k);
    if (kind == STEP_UPDATE) mix_update(a, i, k);
    if (kind == STEP_BACKWARD_GATES) mix_backward_gates(a, i, k);
    if (kind == STEP_BACKWARD_VECTORS) mix_backward_vectors(a, i, k);
    if (kind == STEP_BACKWARD_SUM) mix_backward_sum(a, i, k);
  }
}

/* All steps, one after another, for per_block atoms of a block: products, updates and readouts as in the kernels of
 * their own. What a step writes, the next one reads through global memory; a barrier lies between. Dynamic shared
 * memory: the rows of x of a product. Deterministic. Twins: those of the operations. */
__global__ void __launch_bounds__(ATOM_THREADS) atoms_kernel(atom_steps s)
{
  MLFF_SHARED_DYNAMIC(real, x);
  const int64_t begin = (int64_t) blockIdx.x * s.per_block;
  const int n = s.n_atoms - begin < s.per_block ? (int) (s.n_atoms - begin) : s.per_block;
  for (int k = 0; k < s.n_steps; k++) {
    const atom_step &step = s.of[k];
    if (step.kind == STEP_LINEAR) {
      product_step(step.of.linear, begin * step.rows_per_atom, n * step.rows_per_atom, x);
    } else if (step.kind == STEP_READOUT) {
      for (int i = (int) threadIdx.x / WARP; i < n; i += ATOM_THREADS / WARP)
        readout_atom(step.of.readout, begin + i, (int) threadIdx.x % WARP);
    } else {
      mix_step(step.kind, step.of.mix, begin, n);
    }
    __syncthreads();
  }
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
  const linear_arrays &l = s.of.linear;
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
  int64_t per_block = (steps.n_atoms + cuda->n_multiprocessors - 1) / cuda->n_multiprocessors, most = 1;
  for (int k = 0; k < steps.n_steps; k++) {
    const int64_t n = (int64_t) steps.of[k].rows_per_atom * padded_rows(steps.of[k].of.linear.n_in);
    if (steps.of[k].kind == STEP_LINEAR && n > most) most = n;
  }
  const int64_t fit = MOST_SHARED / (most * (int64_t) sizeof(real));
  per_block = per_block < MOST_PER_BLOCK ? per_block : (int64_t) MOST_PER_BLOCK;
  steps.per_block = (int) (per_block < fit ? per_block : fit);
#if MLFF_CUDASIM
  check_rows(steps);
#endif
  MLFF_LAUNCH(backend, atoms_kernel, mlff_cuda_blocks(steps.n_atoms, steps.per_block), ATOM_THREADS,
              (size_t) (steps.per_block * most) * sizeof(real), steps);
}

void MLFF_CUDA(atoms_begin_cuda)(mlff_backend *backend, int64_t n_atoms)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (backend->forecast) return;
  if (!mlff_cuda_is_small(cuda, n_atoms)) return;
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
  const int64_t n_in =
      step->kind == STEP_LINEAR ? (int64_t) step->rows_per_atom * padded_rows(step->of.linear.n_in) : 0;
  if (n_in * (int64_t) sizeof(real) > MOST_SHARED) return false;
  if (queue->n == MOST_STEPS) start_steps(backend);
  memcpy(queue->steps + (size_t) queue->n++ * sizeof *step, step, sizeof *step);
  return true;
}
