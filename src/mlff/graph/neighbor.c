/* neighbor.c: a neighbour graph from positions and a cell, for callers that have no neighbour list.
 *
 * Atoms are wrapped into the cell along periodic directions, every image within the cutoff of the occupied region
 * becomes an explicit ghost, and owned atoms and ghosts are sorted into bins at least one cutoff thick, so that the
 * neighbours of an atom are in 27 bins: O(N) for any cell, also one much smaller than the cutoff.
 *
 * Fractional coordinates: x = sum_k s_k a_k. Directions without periodicity get unit vectors normal to the periodic
 * ones, so the same code serves all cases. h_k is the distance between the cell's faces along direction k; a sphere of
 * radius r spans s_k +- r/h_k.
 */
#include "../status.h"
#include "system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct lattice {
  int pbc[3];
  double a[3][3];         /* rows are vectors                                     */
  double to_frac[3][3];   /* s_k = sum_c to_frac[k][c] x_c                        */
  double reach[3];        /* cutoff / h_k                                         */
  double low[3], high[3]; /* range of s over the owned atoms, after wrapping    */
  double volume;          /* of the cell as completed by complete_cell          */
} lattice;

typedef struct bins {
  int n[3];
  double low[3], per_unit[3]; /* bin = (s - low) * per_unit */
  int32_t *bin, *start, *order;
} bins;

static void cross(const double a[3], const double b[3], double c[3])
{
  c[0] = a[1] * b[2] - a[2] * b[1];
  c[1] = a[2] * b[0] - a[0] * b[2];
  c[2] = a[0] * b[1] - a[1] * b[0];
}

static double dot(const double a[3], const double b[3])
{
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Replaces the vectors of directions without periodicity by unit vectors normal to all others. */
static void complete_cell(lattice *l)
{
  const int n_periodic = l->pbc[0] + l->pbc[1] + l->pbc[2];
  for (int k = 0; k < 3; k++) {
    double *a = l->a[k], *b = l->a[(k + 1) % 3], *c = l->a[(k + 2) % 3];
    if (n_periodic == 2 && !l->pbc[k]) {
      cross(b, c, a);
      const double length = sqrt(dot(a, a));
      for (int d = 0; d < 3 && length > 0; d++) a[d] /= length;
    }
    if (n_periodic == 1 && l->pbc[k]) {
      int least = 0; /* axis least parallel to a */
      for (int d = 1; d < 3; d++)
        if (fabs(a[d]) < fabs(a[least])) least = d;
      double axis[3] = {0, 0, 0};
      axis[least] = 1;
      cross(a, axis, b);
      const double length_b = sqrt(dot(b, b));
      for (int d = 0; d < 3 && length_b > 0; d++) b[d] /= length_b;
      cross(a, b, c);
      const double length_c = sqrt(dot(c, c));
      for (int d = 0; d < 3 && length_c > 0; d++) c[d] /= length_c;
    }
    if (n_periodic == 0)
      for (int d = 0; d < 3; d++) a[d] = d == k;
  }
}

static mlff_status make_lattice(const double (*cell)[3], const int *pbc, double cutoff, lattice *l, mlff_error *error)
{
  *l = (lattice){.pbc = {0, 0, 0}};
  for (int k = 0; k < 3; k++) {
    l->pbc[k] = cell ? !pbc || pbc[k] : 0;
    if (!cell && pbc && pbc[k])
      return mlff_fail(error, MLFF_E_ARG, "direction %d is periodic, but there is no cell", k);
    for (int c = 0; c < 3 && l->pbc[k]; c++) {
      l->a[k][c] = cell[k][c];
      if (!isfinite(cell[k][c])) return mlff_fail(error, MLFF_E_ARG, "cell vector %d has component %g", k, cell[k][c]);
    }
  }
  complete_cell(l);
  double normal[3][3], lengths = 1;
  for (int k = 0; k < 3; k++) {
    cross(l->a[(k + 1) % 3], l->a[(k + 2) % 3], normal[k]);
    lengths *= sqrt(dot(l->a[k], l->a[k]));
  }
  const double volume = dot(l->a[0], normal[0]);
  if (!(fabs(volume) > 1e-10 * lengths) || !(lengths > 0))
    return mlff_fail(error, MLFF_E_ARG,
                     "the periodic cell vectors are zero or (nearly) linearly dependent: volume %g A^3", volume);
  l->volume = fabs(volume);
  for (int k = 0; k < 3; k++) {
    for (int c = 0; c < 3; c++) l->to_frac[k][c] = normal[k][c] / volume;
    l->reach[k] = cutoff * sqrt(dot(l->to_frac[k], l->to_frac[k])) * (1 + 1e-8);
  }
  return MLFF_OK;
}

/* Copies owned atoms, wrapped, and notes the range of their fractional coordinates. */
static mlff_status place_owned(lattice *l, int32_t n, const double (*x)[3], double (*pos)[3], double (*frac)[3],
                               mlff_error *error)
{
  for (int k = 0; k < 3; k++) l->low[k] = l->high[k] = 0;
  for (int32_t i = 0; i < n; i++) {
    if (!isfinite(x[i][0]) || !isfinite(x[i][1]) || !isfinite(x[i][2]))
      return mlff_fail(error, MLFF_E_NUMERIC, "position of atom %d is not finite: (%g, %g, %g)", (int) i, x[i][0],
                       x[i][1], x[i][2]);
    memcpy(pos[i], x[i], sizeof pos[i]);
    for (int k = 0; k < 3; k++) {
      double s = dot(l->to_frac[k], x[i]);
      const double turns = l->pbc[k] ? floor(s) : 0.0;
      if (fabs(turns) > 1e9)
        return mlff_fail(error, MLFF_E_NUMERIC, "atom %d is %g cells away from the origin", (int) i, turns);
      for (int c = 0; c < 3 && turns != 0.0; c++) pos[i][c] -= turns * l->a[k][c];
      s -= turns;
      frac[i][k] = s;
      if (i == 0 || s < l->low[k]) l->low[k] = s;
      if (i == 0 || s > l->high[k]) l->high[k] = s;
    }
  }
  return MLFF_OK;
}

/* Counts the images (pos NULL) or writes them after the owned atoms. */
static int64_t place_images(const lattice *l, int32_t n, int64_t limit, double (*pos)[3], double (*frac)[3],
                            int32_t *node)
{
  int64_t n_all = n;
  int first[3], last[3];
  for (int k = 0; k < 3; k++) {
    const double span = l->pbc[k] ? ceil(l->reach[k] + (l->high[k] - l->low[k])) : 0.0;
    first[k] = -(int) span;
    last[k] = (int) span;
  }
  for (int p = first[0]; p <= last[0]; p++) {
    for (int q = first[1]; q <= last[1]; q++) {
      for (int r = first[2]; r <= last[2]; r++) {
        const int shift[3] = {p, q, r};
        if (!p && !q && !r) continue;
        for (int32_t i = 0; i < n; i++) {
          int near = 1;
          for (int k = 0; k < 3; k++) {
            const double s = frac[i][k] + shift[k];
            near &= s >= l->low[k] - l->reach[k] && s <= l->high[k] + l->reach[k];
          }
          if (!near) continue;
          if (pos) {
            for (int c = 0; c < 3; c++) {
              pos[n_all][c] = pos[i][c] + (p * l->a[0][c] + q * l->a[1][c] + r * l->a[2][c]);
              frac[n_all][c] = frac[i][c] + shift[c];
            }
            node[n_all] = i;
          }
          if (++n_all > limit) return n_all;
        }
      }
    }
  }
  return n_all;
}

/* Bins at least one cutoff thick over owned atoms and ghosts; never many more bins than atoms. */
static mlff_status make_bins(const lattice *l, int32_t n_all, const double (*frac)[3], bins *b, mlff_error *error)
{
  double count[3], extent[3];
  for (int k = 0; k < 3; k++) {
    const double margin = l->pbc[k] ? l->reach[k] : 0.0;
    b->low[k] = l->low[k] - margin;
    extent[k] = l->high[k] + margin - b->low[k];
    count[k] = fmax(1.0, floor(fmin(extent[k] / l->reach[k], 1e6)));
  }
  while (count[0] * count[1] * count[2] > 4.0 * n_all + 64.0) {
    int most = 0;
    for (int k = 1; k < 3; k++)
      if (count[k] > count[most]) most = k;
    count[most] = ceil(count[most] / 2);
  }
  for (int k = 0; k < 3; k++) {
    b->n[k] = (int) count[k];
    b->per_unit[k] = extent[k] > 0 ? count[k] / extent[k] : 0.0;
  }
  const int32_t n_bins = b->n[0] * b->n[1] * b->n[2];
  b->bin = malloc(((size_t) n_all + 1) * sizeof *b->bin);
  b->order = malloc(((size_t) n_all + 1) * sizeof *b->order);
  b->start = calloc((size_t) n_bins + 2, sizeof *b->start);
  if (!b->bin || !b->order || !b->start) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a neighbour list");
  for (int32_t a = 0; a < n_all; a++) {
    int32_t at = 0;
    for (int k = 0; k < 3; k++) {
      int c = (int) ((frac[a][k] - b->low[k]) * b->per_unit[k]);
      c = c < 0 ? 0 : c >= b->n[k] ? b->n[k] - 1 : c;
      at = at * b->n[k] + c;
    }
    b->bin[a] = at;
    b->start[at + 2]++;
  }
  for (int32_t k = 2; k <= n_bins + 1; k++) b->start[k] += b->start[k - 1];
  for (int32_t a = 0; a < n_all; a++) b->order[b->start[b->bin[a] + 1]++] = a;
  return MLFF_OK;
}

/* Neighbours of owned atom i: counts them (nbr NULL) or writes them. */
static int64_t scan_atom(const bins *b, const double (*pos)[3], int32_t i, double cutoff2, int32_t *nbr)
{
  const int at[3] = {b->bin[i] / (b->n[1] * b->n[2]), b->bin[i] / b->n[2] % b->n[1], b->bin[i] % b->n[2]};
  int first[3], last[3];
  int64_t n = 0;
  for (int k = 0; k < 3; k++) {
    first[k] = at[k] > 0 ? at[k] - 1 : 0;
    last[k] = at[k] < b->n[k] - 1 ? at[k] + 1 : at[k];
  }
  for (int p = first[0]; p <= last[0]; p++) {
    for (int q = first[1]; q <= last[1]; q++) {
      const int32_t line = (p * b->n[1] + q) * b->n[2];
      for (int32_t m = b->start[line + first[2]]; m < b->start[line + last[2] + 1]; m++) {
        const int32_t j = b->order[m];
        const double x = pos[j][0] - pos[i][0], y = pos[j][1] - pos[i][1], z = pos[j][2] - pos[i][2];
        if (!(x * x + y * y + z * z < cutoff2) || j == i) continue;
        if (nbr) nbr[n] = j;
        n++;
      }
    }
  }
  return n;
}

static mlff_status make_rows(mlff_system *s, const bins *b, double cutoff, mlff_error *error)
{
  mlff_graph *g = &s->graph;
  const double(*pos)[3] = (const double(*)[3]) s->pos;
  const double reach2 = cutoff * cutoff * (1 + 1e-9); /* rounding must not make a shell at the cutoff one-sided */
  s->row = malloc(((size_t) g->n_local + 1) * sizeof *s->row);
  if (!s->row) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a neighbour list");
  s->row[0] = 0;
  for (int32_t i = 0; i < g->n_local; i++) s->row[i + 1] = s->row[i] + scan_atom(b, pos, i, reach2, NULL);
  g->n_pairs = s->row[g->n_local];
  s->nbr = malloc(((size_t) g->n_pairs + 1) * sizeof *s->nbr);
  if (!s->nbr)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a neighbour list of %lld pairs", (long long) g->n_pairs);
  for (int32_t i = 0; i < g->n_local; i++) scan_atom(b, pos, i, reach2, s->nbr + s->row[i]);
  return MLFF_OK;
}

static void finish_graph(mlff_system *s, const lattice *l, const int32_t *species)
{
  mlff_graph *g = &s->graph;
  const int n_periodic = l->pbc[0] + l->pbc[1] + l->pbc[2];
  g->boundary = n_periodic == 3 ? MLFF_BOUNDARY_PERIODIC : n_periodic == 0 ? MLFF_BOUNDARY_OPEN : MLFF_BOUNDARY_MIXED;
  g->volume = n_periodic == 3 ? l->volume : 0.0;
  for (int32_t a = 0; a < g->n_all; a++) {
    if (a < g->n_local) s->node[a] = a;
    s->species[a] = species ? species[s->node[a]] : 0;
  }
  g->n_interior = g->n_nodes = g->n_local;
  mlff_system_point(s);
  uint64_t hash = mlff_hash_begin;
  hash = mlff_hash_bytes(hash, s->row, ((size_t) g->n_local + 1) * sizeof *s->row);
  hash = mlff_hash_bytes(hash, s->nbr, (size_t) g->n_pairs * sizeof *s->nbr);
  hash = mlff_hash_bytes(hash, s->node, (size_t) g->n_all * sizeof *s->node);
  hash = mlff_hash_bytes(hash, s->species, (size_t) g->n_all * sizeof *s->species);
  g->list_id = hash ? hash : 1;
}

/* Reserves for n owned atoms and their images and places both; *frac is the caller's to free. */
static mlff_status place_atoms(mlff_system *s, lattice *l, int32_t n, const double (*x)[3], double (**frac)[3],
                               mlff_error *error)
{
  double images = n;
  s->pos = malloc(((size_t) n + 1) * sizeof *s->pos);
  *frac = malloc(((size_t) n + 1) * sizeof **frac);
  if (!s->pos || !*frac) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %d atoms", (int) n);
  MLFF_TRY(place_owned(l, n, x, s->pos, *frac, error));
  for (int k = 0; k < 3; k++)
    if (l->pbc[k]) images *= l->high[k] - l->low[k] + 2 * l->reach[k] + 1;
  if (images > 4e8)
    return mlff_fail(error, MLFF_E_ARG,
                     "the cutoff reaches about %.3g images of %d atoms: the cell is too small for it", images, (int) n);
  const int64_t n_all = place_images(l, n, INT32_MAX - 1, NULL, *frac, NULL);
  void *pos = realloc(s->pos, ((size_t) n_all + 1) * sizeof *s->pos);
  if (pos) s->pos = pos;
  void *grown = realloc(*frac, ((size_t) n_all + 1) * sizeof **frac);
  if (grown) *frac = grown;
  s->node = malloc(((size_t) n_all + 1) * sizeof *s->node);
  s->species = malloc(((size_t) n_all + 1) * sizeof *s->species);
  if (!pos || !grown || !s->node || !s->species)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %lld images of %d atoms", (long long) n_all, (int) n);
  place_images(l, n, INT32_MAX - 1, s->pos, *frac, s->node);
  s->graph.n_local = n;
  s->graph.n_all = (int32_t) n_all;
  return MLFF_OK;
}

mlff_status mlff_system_create(int32_t n_atoms, const int32_t *species, const double (*pos)[3], const double (*cell)[3],
                               const int *pbc, double cutoff, mlff_system **system, mlff_error *error)
{
  lattice l;
  bins b = {.bin = NULL};
  double(*frac)[3] = NULL;
  if (!system || n_atoms < 0 || (n_atoms && (!species || !pos)))
    return mlff_fail(error, MLFF_E_ARG, "mlff_system_create: n_atoms %d, or species, pos or system is NULL",
                     (int) n_atoms);
  if (!(cutoff > 0) || !isfinite(cutoff))
    return mlff_fail(error, MLFF_E_ARG, "mlff_system_create: cutoff is %g A, expected a positive number", cutoff);
  MLFF_TRY(make_lattice(cell, pbc, cutoff, &l, error));
  mlff_system *s = calloc(1, sizeof *s);
  if (!s) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a system");
  mlff_status status = place_atoms(s, &l, n_atoms, pos, &frac, error);
  if (!status) status = make_bins(&l, s->graph.n_all, (const double(*)[3]) frac, &b, error);
  if (!status) status = make_rows(s, &b, cutoff, error);
  if (!status) {
    finish_graph(s, &l, species);
    *system = s;
  } else {
    mlff_system_free(s);
  }
  free(frac);
  free(b.bin);
  free(b.order);
  free(b.start);
  return status;
}

const mlff_graph *mlff_system_graph(const mlff_system *system)
{
  return &system->graph;
}

void mlff_system_free(mlff_system *system)
{
  if (!system) return;
  free(system->species);
  free(system->node);
  free(system->nbr);
  free(system->row);
  free(system->pos);
  free(system);
}
