/* move.c: moves the atoms and the cell of a system and reuses its list while it contains all pairs.
 *
 * F maps the cell of the list to the current one (y = x F), and atom i is at y_i = x_i F + d_i. A pair that is not in
 * the list was more than `reach` apart, and is now more than reach (1 - |F - 1|) - 2 max |d| apart: the list is stale
 * if that is below the cutoff. Images move with their owner and a lattice vector, which F transforms.
 */
#include "../errors.h"
#include "system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* x F */
static void map(const double f[3][3], const double x[3], double y[3])
{
  for (int d = 0; d < 3; d++) y[d] = x[0] * f[0][d] + x[1] * f[1][d] + x[2] * f[2][d];
}

/* Computes F, and returns an upper bound of the norm of F - 1. */
static double deformation(const mlff_lattice *before, const mlff_lattice *lattice, double f[3][3])
{
  double sum = 0;
  for (int c = 0; c < 3; c++) {
    for (int d = 0; d < 3; d++) {
      f[c][d] = 0;
      for (int k = 0; k < 3; k++) f[c][d] += before->to_frac[k][c] * lattice->a[k][d];
      sum += (f[c][d] - (c == d)) * (f[c][d] - (c == d));
    }
  }
  return sqrt(sum);
}

/* Moves owned atoms, each to its nearest image; *most: the longest d squared. */
static mlff_status move_owned(mlff_system *s, const mlff_lattice *lattice, const double f[3][3], const double (*x)[3],
                              double *most, mlff_error *error)
{
  *most = 0;
  for (int32_t i = 0; i < s->graph.n_local; i++) {
    double was[3], d[3];
    MLFF_TRY(mlff_check_position(i, x[i], error));
    map(f, s->made_at[i], was);
    memcpy(s->pos[i], x[i], sizeof s->pos[i]);
    for (int c = 0; c < 3; c++) d[c] = was[c] - x[i][c];
    for (int k = 0; k < 3; k++) {
      const double turns = lattice->pbc[k] ? floor(mlff_dot(lattice->to_frac[k], d) + 0.5) : 0.0;
      MLFF_TRY(mlff_check_turns(lattice, i, k, turns, error));
      for (int c = 0; c < 3 && turns != 0.0; c++) s->pos[i][c] += turns * lattice->a[k][c];
    }
    for (int c = 0; c < 3; c++) d[c] = s->pos[i][c] - was[c];
    *most = fmax(*most, mlff_dot(d, d));
  }
  return MLFF_OK;
}

static void move_images(mlff_system *s, const double f[3][3])
{
  for (int32_t a = s->graph.n_local; a < s->graph.n_all; a++) {
    const double *owner = s->pos[s->node[a]];
    double away[3];
    map(f, s->made_at[a], away);
    for (int c = 0; c < 3; c++) s->pos[a][c] = owner[c] + away[c];
  }
}

/* Stores the positions of the list, for later moves. */
static mlff_status remember(mlff_system *s, mlff_error *error)
{
  const size_t n = (size_t) s->graph.n_all + 1;
  if (s->made_at) return MLFF_OK;
  s->made_at = malloc(n * sizeof *s->made_at);
  if (!s->made_at) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %zu positions", n);
  for (int32_t a = 0; a < s->graph.n_all; a++)
    for (int c = 0; c < 3; c++) s->made_at[a][c] = s->pos[a][c] - (a < s->graph.n_local ? 0.0 : s->pos[s->node[a]][c]);
  return MLFF_OK;
}

mlff_status mlff_system_move(mlff_system *system, const double (*pos)[3], const double (*cell)[3], double cutoff,
                             int *is_stale, mlff_error *error)
{
  mlff_lattice lattice;
  double f[3][3], most = 0;
  if (!system || !is_stale || (!pos && system->graph.n_local))
    return mlff_fail(error, MLFF_E_ARG, "mlff_system_move: system, pos or is_stale is NULL");
  if (!(system->reach > 0))
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "mlff_system_move: joined systems cannot be moved");
  if (!(cutoff > 0 && cutoff <= system->reach))
    return mlff_fail(error, MLFF_E_ARG, "mlff_system_move: cutoff %g A exceeds the %g A that the list was made for",
                     cutoff, system->reach);
  MLFF_TRY(mlff_lattice_make(cell, cell ? system->lattice.pbc : NULL, cutoff, &lattice, error));
  if (memcmp(lattice.pbc, system->lattice.pbc, sizeof lattice.pbc) != 0)
    return mlff_fail(error, MLFF_E_ARG, "mlff_system_move: the system has periodic directions, but cell is NULL");
  MLFF_TRY(remember(system, error));
  const double strain = deformation(&system->lattice, &lattice, f);
  MLFF_TRY(move_owned(system, &lattice, (const double(*)[3]) f, pos, &most, error));
  move_images(system, (const double(*)[3]) f);
  if (system->graph.boundary == MLFF_BOUNDARY_PERIODIC) system->graph.volume = lattice.volume;
  *is_stale = !(system->reach * (1 - strain) - 2 * sqrt(most) >= cutoff * (1 + 1e-9));
  return MLFF_OK;
}
