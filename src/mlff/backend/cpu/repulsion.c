/* repulsion.c: adds the short-range repulsion of a model file to gradients and energies (mlff_zbl in ops_math.h).
 *
 * Mostly only steps with close atoms run it, so it is simple: in double, edge by edge.
 */
#include "cpu.h"

void MLFF_CPU(repulsion_cpu)(mlff_backend *backend, const mlff_repulsion_args *a)
{
  (void) backend;
  const mlff_edges *edges = a->edges;
  const mlff_repulsion *repulsion = edges->repulsion;
  const mlff_repulsion_pair *pairs = repulsion->pairs.data;
  const int64_t *row = edges->row.data;
  const int32_t *center_species = edges->center_species.data, *species = edges->species.data;
  const real(*vec)[4] = (const real(*)[4]) edges->vec.data;
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
      energy += mlff_zbl(repulsion->is_mace, repulsion->power, r, p->cutoff, p->inverse, p->factor, &slope);
      for (int c = 0; c < 3; c++) grad[e][c] += (real) (slope * (double) vec[e][c] / r);
    }
    if (node_energy) node_energy[i] += (real) energy;
    for (int k = 0; member_energy && k < a->n_members; k++)
      member_energy[(int64_t) k * edges->n_local + i] += (real) energy;
  }
}
