/* atoms_check.h: included before cuda/atoms.cu in simulator builds (cuda/CMakeLists.txt). Checks the arguments of
 * atoms_kernel: arrays that share memory must have the same rows of an atom, or one block would read what another one
 * writes.
 */
#ifndef CUDASIM_ATOMS_CHECK_H
#define CUDASIM_ATOMS_CHECK_H

#include "../../cuda/atoms.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace ATOMS {

/* An array of a step: its address, bytes from atom to atom, bytes of an atom. */
struct footprint {
  const char *base;
  int64_t stride, bytes;
};

static inline void add_footprint(std::vector<footprint> *all, const void *base, int64_t stride, int64_t reals)
{
  const int64_t size = sizeof(real);
  if (base) all->push_back({(const char *) base, stride * size, reals * size});
}

static inline void add_footprints(std::vector<footprint> *all, const atom_step &s)
{
  const row_gemm &l = s.args.gemm;
  const mix_arrays &m = s.args.mix;
  const readout_arrays &r = s.args.readout;
  const int64_t rows = s.rows_per_atom;
  if (s.kind == STEP_LINEAR) {
    add_footprint(all, l.x, rows * l.ldx, (rows - 1) * l.ldx + l.n_in);
    add_footprint(all, l.y, rows * l.ldy, (rows - 1) * l.ldy + l.n_out);
    add_footprint(all, l.slope, rows * l.ld_slope, (rows - 1) * l.ld_slope + l.n_out);
    add_footprint(all, l.scale, rows * l.ld_scale, (rows - 1) * l.ld_scale + l.n_out);
  } else if (s.kind == STEP_READOUT) {
    for (const real *base : {r.h, r.slope, (const real *) r.grad_h}) add_footprint(all, base, r.width, r.width);
    add_footprint(all, r.energy, 1, 1);
  } else {
    const int64_t f = m.f, n_parts = m.last ? 2 : 3, grad = m.last ? 1 : 4;
    const struct {
      const real *base;
      int64_t stride, reals;
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
    for (const auto &a : arrays) add_footprint(all, a.base, a.stride, a.reals);
  }
}

/* Called by cudasim_launch_kernel for each argument. Ends the program when two arrays share bytes of different
 * atoms. */
static inline void cudasim_check_argument(const atom_steps &steps)
{
  std::vector<footprint> all;
  for (int k = 0; k < steps.n_steps; k++) add_footprints(&all, steps.steps[k]);
  for (size_t p = 0; p < all.size(); p++)
    for (size_t q = 0; q < p; q++) {
      const bool in_order = all[p].base < all[q].base;
      const footprint a = in_order ? all[p] : all[q], b = in_order ? all[q] : all[p];
      const int64_t between = b.base - a.base;
      if (between >= (steps.n_atoms - 1) * a.stride + a.bytes) continue;
      if (a.stride == b.stride && between % a.stride + b.bytes <= a.stride && between < a.stride) continue;
      std::fprintf(stderr, "atoms_kernel: arrays that share memory have rows of %lld and %lld bytes per atom\n",
                   (long long) a.stride, (long long) b.stride);
      std::abort();
    }
}

} // namespace ATOMS

#endif
