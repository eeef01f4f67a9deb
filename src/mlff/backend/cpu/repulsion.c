/* repulsion.c: adds the short-range repulsion of a model file to gradients and energies (mlff_zbl in ops_math.h).
 *
 * Mostly only steps with close atoms run it, so it is simple: in double, edge by edge.
 */
#include "cpu.h"

void MLFF_CPU(clamp_cpu)(mlff_backend *backend, const mlff_clamp_args *a)
{
  (void) backend;
  const mlff_edges *edges = a->edges;
  const mlff_repulsion *repulsion = edges->repulsion;
  const mlff_repulsion_pair *pairs = repulsion->pairs.data;
  const int64_t *row = edges->row.data;
  const int32_t *center_species = edges->center_species.data, *species = edges->species.data;
  real(*vec)[4] = edges->vec.data, (*kept)[4] = a->vec;
  if (edges->n_edges) memcpy(kept, vec, (size_t) edges->n_edges * sizeof *vec);
  for (int32_t i = 0; i < edges->n_local; i++) {
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const double r = (double) vec[e][3];
      if (!(r < repulsion->reach)) continue;
      const double cutoff = pairs[center_species[i] * repulsion->n_species + species[e]].cutoff;
      if (!(r < cutoff)) continue;
      double slope;
      const double scale = mlff_clamp(r, cutoff, &slope) / r;
      for (int c = 0; c < 4; c++) vec[e][c] = (real) (scale * (double) vec[e][c]);
    }
  }
}

/* Gradient of an edge by its own vector instead of the clamped one, which is restored. */
static void unclamp(double r, double cutoff, const real kept[4], real vec[4], real grad[4])
{
  const double v[3] = {(double) kept[0], (double) kept[1], (double) kept[2]};
  double g[3] = {(double) grad[0], (double) grad[1], (double) grad[2]};
  mlff_clamp_gradient(r, cutoff, v, g);
  for (int c = 0; c < 3; c++) grad[c] = (real) g[c];
  for (int c = 0; c < 4; c++) vec[c] = kept[c];
}

void MLFF_CPU(repulsion_cpu)(mlff_backend *backend, const mlff_repulsion_args *a)
{
  (void) backend;
  const mlff_edges *edges = a->edges;
  const mlff_repulsion *repulsion = edges->repulsion;
  const mlff_repulsion_pair *pairs = repulsion->pairs.data;
  const int64_t *row = edges->row.data;
  const int32_t *center_species = edges->center_species.data, *species = edges->species.data;
  real(*network)[4] = edges->vec.data;
  const real(*vec)[4] = (const real(*)[4])(a->vec ? a->vec : edges->vec.data);
  real(*grad)[4] = (real(*)[4]) a->grad;
  real *node_energy = a->node_energy, *member_energy = a->member_energy;
  for (int32_t i = 0; i < edges->n_local; i++) {
    double energy = 0.0;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const double r = (double) vec[e][3];
      if (!(r < repulsion->reach)) continue;
      const mlff_repulsion_pair *p = &pairs[center_species[i] * repulsion->n_species + species[e]];
      if (!(r < p->cutoff)) continue;
      double slope;
      if (a->vec) unclamp(r, p->cutoff, vec[e], network[e], grad[e]);
      energy += mlff_zbl(repulsion->is_mace, repulsion->power, r, p->cutoff, p->inverse, p->factor, &slope);
      for (int c = 0; c < 3; c++) grad[e][c] += (real) (slope * (double) vec[e][c] / r);
    }
    if (node_energy) node_energy[i] += (real) energy;
    for (int k = 0; member_energy && k < a->n_members; k++)
      member_energy[(int64_t) k * edges->n_local + i] += (real) energy;
  }
}
