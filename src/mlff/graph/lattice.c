/* lattice.c: see lattice.h. */
#include "lattice.h"

#include "../errors.h"

#include <math.h>

static void cross(const double a[3], const double b[3], double c[3])
{
  c[0] = a[1] * b[2] - a[2] * b[1];
  c[1] = a[2] * b[0] - a[0] * b[2];
  c[2] = a[0] * b[1] - a[1] * b[0];
}

double mlff_dot(const double a[3], const double b[3])
{
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

mlff_status mlff_check_position(int32_t i, const double x[3], mlff_error *error)
{
  if (isfinite(x[0]) && isfinite(x[1]) && isfinite(x[2])) return MLFF_OK;
  return mlff_fail(error, MLFF_E_NUMERIC, "position of atom %d counted from 1 is not finite: (%g, %g, %g)", (int) i + 1,
                   x[0], x[1], x[2]);
}

mlff_status mlff_check_turns(const mlff_lattice *l, int32_t i, int k, double turns, mlff_error *error)
{
  const double length = fabs(turns) * sqrt(mlff_dot(l->a[k], l->a[k]));
  if (length <= MLFF_MOST_LENGTH) return MLFF_OK;
  return mlff_fail(error, MLFF_E_NUMERIC,
                   "atom %d counted from 1 is %g A (%g cells) away from the cell along vector %c; wrap the positions "
                   "(accurate up to %g A)",
                   (int) i + 1, length, turns, 'a' + k, MLFF_MOST_LENGTH);
}

/* Checks a periodic vector. */
static mlff_status check_vector(int k, const double a[3], mlff_error *error)
{
  for (int c = 0; c < 3; c++)
    if (!isfinite(a[c])) return mlff_fail(error, MLFF_E_ARG, "cell vector %c has component %g", 'a' + k, a[c]);
  const double length = sqrt(mlff_dot(a, a));
  if (length <= MLFF_MOST_LENGTH) return MLFF_OK;
  return mlff_fail(error, MLFF_E_ARG,
                   "cell vector %c is %g A long; make the direction non-periodic or shorten the vector to at most %g A",
                   'a' + k, length, MLFF_MOST_LENGTH);
}

/* Replaces the vectors of directions without periodicity by unit vectors normal to all others. */
static void complete_cell(mlff_lattice *l)
{
  const int n_periodic = l->pbc[0] + l->pbc[1] + l->pbc[2];
  for (int k = 0; k < 3; k++) {
    double *a = l->a[k], *b = l->a[(k + 1) % 3], *c = l->a[(k + 2) % 3];
    if (n_periodic == 2 && !l->pbc[k]) {
      cross(b, c, a);
      const double length = sqrt(mlff_dot(a, a));
      for (int d = 0; d < 3 && length > 0; d++) a[d] /= length;
    }
    if (n_periodic == 1 && l->pbc[k]) {
      int least = 0; /* axis least parallel to a */
      for (int d = 1; d < 3; d++)
        if (fabs(a[d]) < fabs(a[least])) least = d;
      double axis[3] = {0, 0, 0};
      axis[least] = 1;
      cross(a, axis, b);
      const double length_b = sqrt(mlff_dot(b, b));
      for (int d = 0; d < 3 && length_b > 0; d++) b[d] /= length_b;
      cross(a, b, c);
      const double length_c = sqrt(mlff_dot(c, c));
      for (int d = 0; d < 3 && length_c > 0; d++) c[d] /= length_c;
    }
    if (n_periodic == 0)
      for (int d = 0; d < 3; d++) a[d] = d == k;
  }
}

mlff_status mlff_lattice_make(const double (*cell)[3], const int *pbc, double cutoff, mlff_lattice *l,
                              mlff_error *error)
{
  *l = (mlff_lattice){.pbc = {0, 0, 0}};
  for (int k = 0; k < 3; k++) {
    l->pbc[k] = cell ? !pbc || pbc[k] : 0;
    if (!cell && pbc && pbc[k])
      return mlff_fail(error, MLFF_E_ARG, "direction %d is periodic, but there is no cell", k);
    if (!l->pbc[k]) continue;
    MLFF_TRY(check_vector(k, cell[k], error));
    for (int c = 0; c < 3; c++) l->a[k][c] = cell[k][c];
  }
  complete_cell(l);
  double normal[3][3], lengths = 1;
  for (int k = 0; k < 3; k++) {
    cross(l->a[(k + 1) % 3], l->a[(k + 2) % 3], normal[k]);
    lengths *= sqrt(mlff_dot(l->a[k], l->a[k]));
  }
  const double volume = mlff_dot(l->a[0], normal[0]);
  if (!(fabs(volume) > 1e-10 * lengths) || !(lengths > 0))
    return mlff_fail(error, MLFF_E_ARG,
                     "the periodic cell vectors are zero or (nearly) linearly dependent: volume %g A^3", volume);
  l->volume = fabs(volume);
  for (int k = 0; k < 3; k++) {
    for (int c = 0; c < 3; c++) l->to_frac[k][c] = normal[k][c] / volume;
    l->reach[k] = cutoff * sqrt(mlff_dot(l->to_frac[k], l->to_frac[k])) * (1 + 1e-8);
  }
  return MLFF_OK;
}
