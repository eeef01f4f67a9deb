/* neighbor.c: a neighbor graph from positions and a cell, for callers without a neighbor list.
 *
 * Atoms are wrapped into the cell along periodic directions, images within the cutoff of the occupied region become
 * explicit ghosts, and owned atoms and ghosts are sorted into bins (bins.h). O(N) for any cell, also if it is much
 * smaller than the cutoff. Fractional coordinates: lattice.h.
 */
#include "../errors.h"
#include "bins.h"
#include "lattice.h"
#include "system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Limits against mistakes: images of one atom in a cell with an edge of a thirtieth of the cutoff, or 200 per atom. */
enum { MOST_IMAGES = 200000, MOST_IMAGES_EACH = 200 };

/* Copies owned atoms, wrapped, and stores the range of their fractional coordinates. */
static mlff_status place_owned(mlff_lattice *l, int32_t n, const double (*x)[3], double (*pos)[3], double (*frac)[3],
                               mlff_error *error)
{
  for (int k = 0; k < 3; k++) l->low[k] = l->high[k] = 0;
  for (int32_t i = 0; i < n; i++) {
    MLFF_TRY(mlff_check_position(i, x[i], error));
    memcpy(pos[i], x[i], sizeof pos[i]);
    for (int k = 0; k < 3; k++) {
      double s = mlff_dot(l->to_frac[k], x[i]);
      const double turns = l->pbc[k] ? floor(s) : 0.0;
      MLFF_TRY(mlff_check_turns(l, i, k, turns, error));
      for (int c = 0; c < 3 && turns != 0.0; c++) pos[i][c] -= turns * l->a[k][c];
      s -= turns;
      frac[i][k] = s;
      if (i == 0 || s < l->low[k]) l->low[k] = s;
      if (i == 0 || s > l->high[k]) l->high[k] = s;
    }
  }
  return MLFF_OK;
}

/* Selects from the n owned atoms in `subset` (NULL: 0, 1, ...) those whose images, `shift` cells along direction k, are
 * in reach, to `near`, in the same order. Returns their number. */
static int32_t select_near(const mlff_lattice *l, int k, int shift, const double (*frac)[3], const int32_t *subset,
                           int32_t n, int32_t *near)
{
  const double low = l->low[k] - l->reach[k], high = l->high[k] + l->reach[k];
  int32_t n_near = 0;
  for (int32_t m = 0; m < n; m++) {
    const int32_t i = subset ? subset[m] : m;
    const double s = frac[i][k] + shift;
    near[n_near] = i;
    n_near += (s >= low) & (s <= high);
  }
  return n_near;
}

/* Growing arrays of atoms: owned ones, then images. */
typedef struct atoms {
  double (*pos)[3], (*frac)[3];
  int32_t *node; /* of images */
  int32_t n_owned, n, room;
} atoms;

static mlff_status make_room(atoms *a, int64_t n, mlff_error *error)
{
  if (n <= a->room) return MLFF_OK;
  const int64_t room = n + n / 4 < INT32_MAX ? n + n / 4 : INT32_MAX;
  void *pos = realloc(a->pos, (size_t) room * sizeof *a->pos);
  if (pos) a->pos = pos;
  void *frac = realloc(a->frac, (size_t) room * sizeof *a->frac);
  if (frac) a->frac = frac;
  void *node = realloc(a->node, (size_t) room * sizeof *a->node);
  if (node) a->node = node;
  if (!pos || !frac || !node) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %lld atoms", (long long) room);
  a->room = (int32_t) room;
  return MLFF_OK;
}

/* Adds the images of n owned atoms, `shift` cells away. */
static mlff_status add_images(const mlff_lattice *l, const int shift[3], const int32_t *near, int32_t n, atoms *a,
                              mlff_error *error)
{
  const int64_t most = MOST_IMAGES + (int64_t) MOST_IMAGES_EACH * a->n_owned, wanted = (int64_t) a->n + n;
  double vector[3];
  if (wanted - a->n_owned > most || wanted > INT32_MAX / 2)
    return mlff_fail(error, MLFF_E_ARG, "the cutoff includes more than %lld images of %d atoms; use a larger cell",
                     (long long) (wanted - a->n_owned), (int) a->n_owned);
  MLFF_TRY(make_room(a, wanted, error));
  for (int c = 0; c < 3; c++) vector[c] = shift[0] * l->a[0][c] + shift[1] * l->a[1][c] + shift[2] * l->a[2][c];
  for (int32_t m = 0; m < n; m++, a->n++) {
    for (int c = 0; c < 3; c++) {
      a->pos[a->n][c] = a->pos[near[m]][c] + vector[c];
      a->frac[a->n][c] = a->frac[near[m]][c] + shift[c];
    }
    a->node[a->n] = near[m];
  }
  return MLFF_OK;
}

/* Adds all images in reach, cell by cell. near: capacity for three lists of the owned atoms. */
static mlff_status place_images(const mlff_lattice *l, atoms *a, int32_t *near, mlff_error *error)
{
  const int32_t n = a->n_owned;
  int32_t *const near_p = near, *const near_q = near + n, *const near_r = near + 2 * (size_t) n;
  int last[3];
  for (int k = 0; k < 3; k++) {
    const double span = l->pbc[k] ? ceil(l->reach[k] + (l->high[k] - l->low[k])) : 0.0;
    if (span > MOST_IMAGES + MOST_IMAGES_EACH * (double) n)
      return mlff_fail(error, MLFF_E_ARG, "the cutoff includes %g images of the cell; use a larger cell", span);
    last[k] = (int) span;
  }
  for (int p = -last[0]; p <= last[0]; p++) {
    const int32_t n_p = select_near(l, 0, p, a->frac, NULL, n, near_p);
    for (int q = -last[1]; q <= last[1] && n_p; q++) {
      const int32_t n_q = select_near(l, 1, q, a->frac, near_p, n_p, near_q);
      for (int r = -last[2]; r <= last[2] && n_q; r++) {
        const int shift[3] = {p, q, r};
        if (!p && !q && !r) continue;
        const int32_t n_r = select_near(l, 2, r, a->frac, near_q, n_q, near_r);
        MLFF_TRY(add_images(l, shift, near_r, n_r, a, error));
      }
    }
  }
  return MLFF_OK;
}

/* Bins over owned atoms and images. */
static mlff_status make_bins(const mlff_lattice *l, const atoms *all, mlff_bins *b, mlff_error *error)
{
  double low[3], high[3];
  for (int k = 0; k < 3; k++) {
    const double margin = l->pbc[k] ? l->reach[k] : 0.0;
    low[k] = l->low[k] - margin;
    high[k] = l->high[k] + margin;
  }
  return mlff_bins_make(all->n, (const double(*)[3]) all->frac, low, high, l->reach, (const double(*)[3]) all->pos, b,
                        error);
}

/* Candidates of owned atom i in `order`: up to nine ranges begin[k] .. end[k] - 1. Returns their number. */
static int find_stretches(const mlff_bins *b, int32_t i, int32_t begin[9], int32_t end[9])
{
  const int bin[3] = {b->bin[i] / (b->n[1] * b->n[2]), b->bin[i] / b->n[2] % b->n[1], b->bin[i] % b->n[2]};
  int first[3], last[3], n = 0;
  for (int k = 0; k < 3; k++) {
    first[k] = bin[k] > 0 ? bin[k] - 1 : 0;
    last[k] = bin[k] < b->n[k] - 1 ? bin[k] + 1 : bin[k];
  }
  for (int p = first[0]; p <= last[0]; p++) {
    for (int q = first[1]; q <= last[1]; q++) {
      const int32_t line = (p * b->n[1] + q) * b->n[2];
      begin[n] = b->start[line + first[2]];
      end[n++] = b->start[line + last[2] + 1];
    }
  }
  return n;
}

/* Writes the neighbors of atom i at x among candidates begin .. end - 1 to nbr, which has capacity for all of them.
 * Branch-free: every candidate is written, and overwritten if it is too far. Returns their number. */
static int64_t scan(const mlff_bins *b, int32_t begin, int32_t end, int32_t i, const double x[3], double cutoff2,
                    int32_t *nbr)
{
  int64_t n = 0;
  for (int32_t m = begin; m < end; m++) {
    const double dx = b->x[m] - x[0], dy = b->y[m] - x[1], dz = b->z[m] - x[2];
    nbr[n] = b->order[m];
    n += (dx * dx + dy * dy + dz * dz < cutoff2) & (b->order[m] != i);
  }
  return n;
}

static mlff_status make_rows(mlff_system *s, const mlff_bins *b, double cutoff, mlff_error *error)
{
  mlff_graph *g = &s->graph;
  const double reach2 = cutoff * cutoff * (1 + 1e-9); /* rounding must not break the symmetry of pairs at the cutoff */
  int32_t begin[9], end[9];
  int64_t room = 0, n = 0;
  s->row = malloc(((size_t) g->n_local + 1) * sizeof *s->row);
  if (!s->row) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a neighbor list");
  s->row[0] = 0;
  for (int32_t i = 0; i < g->n_local; i++) {
    const int n_stretches = find_stretches(b, i, begin, end);
    int64_t most = n;
    for (int k = 0; k < n_stretches; k++) most += end[k] - begin[k];
    if (most > room) {
      room = most + most / 2;
      int32_t *grown = realloc(s->nbr, (size_t) room * sizeof *grown);
      if (!grown)
        return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a neighbor list of %lld pairs", (long long) room);
      s->nbr = grown;
    }
    for (int k = 0; k < n_stretches; k++) n += scan(b, begin[k], end[k], i, s->pos[i], reach2, s->nbr + n);
    s->row[i + 1] = n;
  }
  int32_t *fitting = realloc(s->nbr, ((size_t) n + 1) * sizeof *fitting);
  if (!fitting) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a neighbor list of %lld pairs", (long long) n);
  s->nbr = fitting;
  g->n_pairs = n;
  return MLFF_OK;
}

static mlff_status finish_graph(mlff_system *s, const mlff_lattice *l, const int32_t *species, mlff_error *error)
{
  mlff_graph *g = &s->graph;
  const int n_periodic = l->pbc[0] + l->pbc[1] + l->pbc[2];
  g->boundary = n_periodic == 3 ? MLFF_BOUNDARY_PERIODIC : n_periodic == 0 ? MLFF_BOUNDARY_OPEN : MLFF_BOUNDARY_MIXED;
  g->volume = n_periodic == 3 ? l->volume : 0.0;
  s->species = malloc(((size_t) g->n_all + 1) * sizeof *s->species);
  if (!s->species) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %d atoms", (int) g->n_all);
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
  return MLFF_OK;
}

/* Collects owned atoms and their images. The caller owns the arrays of `a`, also after an error. */
static mlff_status place_atoms(mlff_lattice *l, int32_t n, const double (*x)[3], atoms *a, mlff_error *error)
{
  MLFF_TRY(make_room(a, (int64_t) n + 1, error));
  MLFF_TRY(place_owned(l, n, x, a->pos, a->frac, error));
  a->n = a->n_owned = n;
  if (!n) return MLFF_OK;
  int32_t *near = malloc((size_t) n * 3 * sizeof *near);
  if (!near) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %d atoms", (int) n);
  const mlff_status status = place_images(l, a, near, error);
  free(near);
  return status;
}

mlff_status mlff_system_create(int32_t n_atoms, const int32_t *species, const double (*pos)[3], const double (*cell)[3],
                               const int *pbc, double cutoff, mlff_system **system, mlff_error *error)
{
  mlff_lattice l;
  mlff_bins b = {.bin = NULL};
  atoms a = {.pos = NULL};
  if (!system || n_atoms < 0 || (n_atoms && (!species || !pos)))
    return mlff_fail(error, MLFF_E_ARG, "mlff_system_create: n_atoms %d, or species, pos or system is NULL",
                     (int) n_atoms);
  if (!(cutoff > 0) || !isfinite(cutoff))
    return mlff_fail(error, MLFF_E_ARG, "mlff_system_create: cutoff is %g A, expected a positive number", cutoff);
  MLFF_TRY(mlff_lattice_make(cell, pbc, cutoff, &l, error));
  mlff_system *s = calloc(1, sizeof *s);
  if (!s) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a system");
  mlff_status status = place_atoms(&l, n_atoms, pos, &a, error);
  s->lattice = l;
  s->reach = cutoff;
  s->pos = a.pos;
  s->node = a.node;
  s->graph.n_local = a.n_owned;
  s->graph.n_all = a.n;
  if (!status) status = make_bins(&l, &a, &b, error);
  if (!status) status = make_rows(s, &b, cutoff, error);
  if (!status) status = finish_graph(s, &l, species, error);
  if (!status)
    *system = s;
  else
    mlff_system_free(s);
  free(a.frac);
  mlff_bins_free(&b);
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
  free(system->made_at);
  free(system);
}
