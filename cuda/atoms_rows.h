/* atoms_rows.h: the rows of atoms that the steps of atoms.cu read and write, and those that a block keeps in shared
 * memory meanwhile: what a step writes is there for the next one, without a way through global memory.
 */
#ifndef MLFF_CUDA_ATOMS_ROWS_H
#define MLFF_CUDA_ATOMS_ROWS_H

#include "atoms_product.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

/* Steps, and arrays of rows that are kept, of a kernel; arrays of a step, rows of an atom apart. A kernel of PaiNN has
 * 18 steps where there is one layer, else 14 at most. */
enum { MOST_STEPS = 18, MOST_KEPT = 32, MOST_ARRAYS = 16 };

namespace ATOMS { /* structures differ between element types */

/* Of rows that are kept: whether they are copied in before the steps and out behind them; whether a step reads them;
 * whether they are copied PIECE numbers at a time, or one. */
enum { ROWS_COME = 1, ROWS_GO = 2, ROWS_READ = 4, ROWS_IN_PIECES = 8 };
typedef struct kept_rows {
  real *base;    /* of the first atom */
  int stride, n; /* numbers from atom to atom, and of an atom. stride 0: all atoms share them */
  int at, use;   /* at: in shared memory */
} kept_rows;

typedef struct atom_steps {
  int64_t n_atoms;
  int n_steps, per_block, n_kept;
  int chunk, x_room, unused; /* numbers: weights that are copied at once, at most; of x in atom_block */
  atom_step of[MOST_STEPS];
  kept_rows kept[MOST_KEPT];
} atom_steps;

/* Numbers of n atoms, as they follow one another in memory. */
static __host__ __device__ __forceinline__ int numbers_of(const kept_rows &r, int n)
{
  return (n - 1) * r.stride + r.n;
}

/* A mark stands for a pointer into rows that are kept: which rows, from 1 on, in bits that no address has, and below
 * them which of their numbers, counted from the first atom. */
enum { MARK_SHIFT = 58 };

/* ---- of a block: atoms begin .. begin + n ------------------------------------------------------------------------ */

/* For workers: pointers into shared memory in place of the marks of mark_pointers. Atoms keep their numbers; the first
 * one there has `begin`. */
MLFF_DEVICE void place_pointers(const atom_steps &s, atom_step *steps, real *rows, int begin, int n_workers)
{
#pragma unroll 1
  for (int q = (int) threadIdx.x; q < s.n_steps * POINTERS; q += n_workers) {
    atom_step *step = steps + q / POINTERS;
    real **p = &step->of.pointer[q % POINTERS];
    if (q % POINTERS >= pointers_of(step->kind)) continue;
    const uint64_t mark = (uint64_t) (uintptr_t) *p;
    const int which = (int) (mark >> MARK_SHIFT);
    if (!which) continue;
    const kept_rows &r = s.kept[which - 1];
    *p = rows + (r.at + (int) (uint32_t) mark - begin * r.stride);
  }
}

template <int N> MLFF_DEVICE void bring_array(real *to, const real *from, int n)
{
  for (int q = (int) threadIdx.x % WARP * N; q < n; q += WARP * N) copy_ahead<N>(to + q, from + q);
}

/* Rows that come, for workers, an array for a warp: all are on their way at once. They are there behind the next
 * barrier. */
MLFF_DEVICE void bring_rows(const atom_steps &s, real *rows, int begin, int n, int n_workers)
{
#pragma unroll 1
  for (int k = (int) threadIdx.x / WARP; k < s.n_kept; k += n_workers / WARP) {
    const kept_rows &r = s.kept[k];
    const real *from = r.base + (int64_t) begin * r.stride;
    if (!(r.use & ROWS_COME)) continue;
    if (r.use & ROWS_IN_PIECES)
      bring_array<PIECE>(rows + r.at, from, numbers_of(r, n));
    else
      bring_array<1>(rows + r.at, from, numbers_of(r, n));
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

/* Rows that go, in pieces, for all threads of a block. */
MLFF_DEVICE void return_rows(const atom_steps &s, const real *rows, int begin, int n)
{
#pragma unroll 1
  for (int k = (int) threadIdx.x / WARP; k < s.n_kept; k += (int) blockDim.x / WARP) {
    const kept_rows &r = s.kept[k];
    if (!(r.use & ROWS_GO)) continue;
    real *to = r.base + (int64_t) begin * r.stride;
    for (int q = (int) threadIdx.x % WARP * PIECE; q < numbers_of(r, n); q += WARP * PIECE)
      store_vector<PIECE>(to + q, load_vector<PIECE>(rows + r.at + q));
  }
}

/* ---- arrays of the steps ----------------------------------------------------------------------------------------- */

/* What a step reads, or writes, in the rows of atoms: columns without holes. Numbers as in kept_rows. */
typedef struct row_array {
  const real *base;
  int64_t stride, n, is_written;
} row_array;

/* In the order of the steps; what a step reads is before what it writes. */
typedef struct row_arrays {
  int64_t n;
  row_array of[MOST_ARRAYS * MOST_STEPS];
} row_arrays;

static inline void add_array(row_arrays *all, const real *base, int64_t stride, int64_t n, int is_written)
{
  if (base) all->of[all->n++] = {base, stride, n, is_written};
}

static inline void add_product(row_arrays *all, const row_product &p, int64_t rows)
{
  const bool has_act = p.act != MLFF_ACT_NONE;
  const struct {
    const real *base;
    int64_t ld, n, is_written;
  } arrays[] = {{p.x, p.ldx, p.n_in, 0},
                {has_act ? NULL : p.scale, p.ld_scale, p.n_out, 0},
                {p.accumulate ? p.y : NULL, p.ldy, p.n_out, 0},
                {has_act ? p.slope : NULL, p.ld_slope, p.n_out, 1},
                {p.y, p.ldy, p.n_out, 1}};
  add_array(all, p.bias, 0, p.n_out, 0);
  for (const auto &a : arrays)
    for (int64_t r = 0; a.base && r < rows; r++) add_array(all, a.base + r * a.ld, rows * a.ld, a.n, a.is_written);
}

static inline void add_readout(row_arrays *all, const readout_arrays &a)
{
  add_array(all, a.weight, 0, a.width, 0);
  add_array(all, a.h, a.width, a.width, 0);
  add_array(all, a.slope, a.width, a.width, 0);
  add_array(all, a.grad_h, a.width, a.width, 1);
  add_array(all, a.energy, 1, 1, 1);
}

static inline void add_mix(row_arrays *all, int kind, const mix_arrays &a)
{
  const int64_t f = a.f, n_parts = a.last ? 2 : 3, n_grads = a.last ? 1 : 4;
  if (kind != STEP_BACKWARD_SUM) add_array(all, a.vw, 6 * f, 6 * f, 0);
  switch (kind) {
  case STEP_NORM:
    add_array(all, a.qn + f, 2 * f, f, 1);
    add_array(all, a.inv_norm, f, f, 1);
    break;
  case STEP_UPDATE:
    add_array(all, a.y, n_parts * f, n_parts * f, 0);
    add_array(all, a.qn, 2 * f, f, 0);
    if (!a.last) add_array(all, a.mu, 3 * f, 3 * f, 0);
    if (!a.last) add_array(all, a.state_out + 3 * f, 6 * f, 3 * f, 1);
    add_array(all, a.q_out, f, f, 1);
    break;
  case STEP_BACKWARD_GATES:
    add_array(all, a.grad, n_grads * f, n_grads * f, 0);
    add_array(all, a.grad_y, n_parts * f, n_parts * f, 1);
    break;
  case STEP_BACKWARD_VECTORS:
    add_array(all, a.grad, n_grads * f, n_grads * f, 0);
    add_array(all, a.y, n_parts * f, n_parts * f, 0);
    add_array(all, a.grad_qn + f, 2 * f, f, 0);
    add_array(all, a.inv_norm, f, f, 0);
    add_array(all, a.grad_vw, 6 * f, 6 * f, 1);
    break;
  default:
    add_array(all, a.grad, n_grads * f, n_grads * f, 0);
    add_array(all, a.grad_qn, 2 * f, f, 0);
    add_array(all, a.grad_m, 3 * f, 3 * f, 0);
    add_array(all, a.grad_q_out, a.ld_grad_q, f, 1);
    add_array(all, a.grad_mu_out, a.ld_grad_mu, 3 * f, 1);
  }
}

static inline void find_arrays(row_arrays *all, const atom_steps &s)
{
  all->n = 0;
  for (int k = 0; k < s.n_steps; k++) {
    const atom_step &step = s.of[k];
    if (step.kind == STEP_LINEAR)
      add_product(all, step.of.product, step.rows_per_atom);
    else if (step.kind == STEP_READOUT)
      add_readout(all, step.of.readout);
    else
      add_mix(all, step.kind, step.of.mix);
  }
}

/* Ends the program when an array that is written shares bytes with another one of different atoms: what one block
 * writes, another one would read. For the simulated device. */
static inline void check_rows(const row_arrays &all, int64_t n_atoms)
{
  for (int64_t p = 0; p < all.n; p++)
    for (int64_t q = 0; q < p; q++) {
      const bool in_order = all.of[p].base < all.of[q].base;
      const row_array &a = all.of[in_order ? p : q], &b = all.of[in_order ? q : p];
      const int64_t between = b.base - a.base;
      if (between >= (n_atoms - 1) * a.stride + a.n || (!a.is_written && !b.is_written)) continue;
      if (a.stride && a.stride == b.stride && between % a.stride + b.n <= a.stride && between < a.stride) continue;
      std::fprintf(stderr, "atoms_kernel: arrays that share memory have rows of %lld and %lld numbers per atom\n",
                   (long long) a.stride, (long long) b.stride);
      std::abort();
    }
}

/* ---- rows that are kept ------------------------------------------------------------------------------------------ */

/* Makes r both of them where they overlap or touch, in rows of the same atoms. */
static inline bool join(kept_rows *r, const kept_rows &other)
{
  real *const base = r->base < other.base ? r->base : other.base;
  real *const end = r->base + r->n > other.base + other.n ? r->base + r->n : other.base + other.n;
  const int more = r->n > other.n ? r->n : other.n;
  if (r->stride != other.stride || end - base > r->n + other.n) return false;
  if (end - base > (r->stride > more ? r->stride : more)) return false;
  r->base = base;
  r->n = (int) (end - base);
  r->use |= other.use;
  return true;
}

static inline bool contains(const kept_rows &r, const row_array &a)
{
  return r.stride == a.stride && a.base >= r.base && a.base + a.n <= r.base + r.n;
}

/* Arrays in rows of the same atoms as one, with all of their columns. Those come of which a step reads something that
 * no step before it has written. Returns how many there are. */
static inline int join_arrays(kept_rows *found, const row_arrays &all)
{
  int n = 0;
  for (int64_t q = 0; q < all.n; q++) {
    const row_array &a = all.of[q];
    kept_rows r = {(real *) a.base, (int) a.stride, (int) a.n, 0, a.is_written ? ROWS_GO : ROWS_READ | ROWS_COME};
    for (int k = 0; k < n; k++)
      if (contains(found[k], a)) r.use &= ~ROWS_COME;
    for (int k = 0; k < n;) {
      if (join(&r, found[k]))
        found[k] = found[--n];
      else
        k++;
    }
    found[n++] = r;
  }
  return n;
}

/* Puts marks in place of pointers to rows that are kept. Others stay, also all that are no rows: they point to none of
 * these numbers. Of products, x is read where it is kept. */
static inline void mark_pointers(atom_steps *s)
{
  for (int q = 0; q < s->n_steps * POINTERS; q++) {
    atom_step *step = &s->of[q / POINTERS];
    if (q % POINTERS >= pointers_of(step->kind)) continue;
    real **p = &step->of.pointer[q % POINTERS];
    for (int k = 0; k < s->n_kept; k++) {
      const int64_t from = *p - s->kept[k].base;
      if (from < 0 || from >= numbers_of(s->kept[k], (int) s->n_atoms)) continue;
      *p = (real *) (uintptr_t) ((uint64_t) (k + 1) << MARK_SHIFT | (uint64_t) from);
      if (step->kind == STEP_LINEAR && q % POINTERS == 0 && step->of.product.x_in_vectors)
        step->of.product.x_at = s->kept[k].at + (int) from;
      break;
    }
  }
}

/* Whether r can be kept, and how it is copied. Whole rows: nothing goes that no step has written and that did not come.
 * Rows have the alignment that they have in global memory. */
static inline bool can_keep(kept_rows *r)
{
  if (r->n % PIECE == 0) r->use |= ROWS_IN_PIECES;
  const bool is_whole = r->stride == 0 || r->stride == r->n, can_go = r->use & ROWS_IN_PIECES || !(r->use & ROWS_GO);
  return r->use & ROWS_READ && is_whole && can_go && (uintptr_t) r->base % 16 == 0;
}

/* Keeps rows that a step reads, the smallest first, as many as fit into `room` numbers. Returns how many they take. */
static inline int64_t keep_rows(atom_steps *s, const row_arrays &all, int64_t room)
{
  kept_rows found[MOST_ARRAYS * MOST_STEPS];
  const int n = join_arrays(found, all);
  int64_t taken = 0;
  std::sort(found, found + n, [](const kept_rows &a, const kept_rows &b) { return a.n < b.n; });
  for (int k = 0; k < n && s->n_kept < MOST_KEPT; k++) {
    const int need = (numbers_of(found[k], s->per_block) + PIECE - 1) / PIECE * PIECE;
    if (!can_keep(&found[k]) || taken + need > room) continue;
    found[k].at = (int) taken;
    taken += need;
    s->kept[s->n_kept++] = found[k];
  }
  mark_pointers(s);
  return taken;
}

} // namespace ATOMS

#endif
