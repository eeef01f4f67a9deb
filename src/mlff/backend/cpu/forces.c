/* forces.c: gradients by edge vectors -> forces and virials; the one place for signs and component order.
 *
 * Edge e of centre i has vector d = x_j - x_i and gradient g = dE/dd, so dE/dx_i = -g and dE/dx_j = +g:
 *   F_i += g,  F_j -= g,  W_ab = sum over edges of (x_i - x_j)_a (g)_b = - sum d_a g_b.
 * LAMMPS order of six: xx yy zz xy xz yz; of nine: xx yy zz xy xz yz yx zx zy. Sums are in double.
 */
#include "cpu.h"

/* Per-atom virials: half of each edge to both ends, or all of it to the neighbor (centroid). */
static void atom_virials(const mlff_forces_args *a)
{
  const mlff_edges *edges = a->edges;
  const int64_t *row = edges->row.data;
  const int32_t *node = edges->node.data;
  const real(*vec)[4] = (const real(*)[4]) edges->vec.data;
  const real(*grad)[4] = (const real(*)[4]) a->grad;
  double(*half)[9] = a->result->atom_virial, (*centroid)[9] = a->result->atom_centroid;
  if (half) memset(half, 0, (size_t) edges->n_nodes * sizeof *half);
  if (centroid) memset(centroid, 0, (size_t) edges->n_nodes * sizeof *centroid);
  for (int32_t i = 0; i < edges->n_local; i++) {
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const double d[3] = {(double) vec[e][0], (double) vec[e][1], (double) vec[e][2]};
      const double g[3] = {(double) grad[e][0], (double) grad[e][1], (double) grad[e][2]};
      double w[9];
      mlff_edge_virial(a->scale, d, g, w);
      for (int c = 0; half && c < 9; c++) {
        half[i][c] += 0.5 * w[c];
        half[node[e]][c] += 0.5 * w[c];
      }
      for (int c = 0; centroid && c < 9; c++) centroid[node[e]][c] += w[c];
    }
  }
}

static double sum_energies(const mlff_edges *edges, const real *energy)
{
  const int32_t *species = edges->center_species.data;
  double sum = 0;
  for (int32_t i = 0; i < edges->n_local; i++) sum += species[i] >= 0 ? (double) energy[i] : 0.0;
  return sum;
}

mlff_status MLFF_CPU(forces_cpu)(mlff_backend *backend, const mlff_forces_args *a, mlff_error *error)
{
  (void) backend;
  (void) error;
  const mlff_edges *edges = a->edges;
  const int64_t *row = edges->row.data;
  const int32_t *node = edges->node.data;
  const real(*vec)[4] = (const real(*)[4]) edges->vec.data;
  const real(*grad)[4] = (const real(*)[4]) a->grad;
  double(*forces)[3] = a->result->forces;
  double w[9] = {0};
  memset(forces, 0, (size_t) edges->n_nodes * sizeof *forces);
  for (int32_t i = 0; i < edges->n_local; i++) {
    double fx = 0.0, fy = 0.0, fz = 0.0;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const double d[3] = {(double) vec[e][0], (double) vec[e][1], (double) vec[e][2]};
      const double g[3] = {a->scale * (double) grad[e][0], a->scale * (double) grad[e][1],
                           a->scale * (double) grad[e][2]};
      double we[9];
      double *fj = forces[node[e]];
      fx += g[0];
      fy += g[1];
      fz += g[2];
      fj[0] -= g[0];
      fj[1] -= g[1];
      fj[2] -= g[2];
      mlff_edge_virial(1.0, d, g, we);
      for (int c = 0; c < 9; c++) w[c] += we[c];
    }
    forces[i][0] += fx;
    forces[i][1] += fy;
    forces[i][2] += fz;
  }
  mlff_virial_six(w, a->result->virial);
  if (a->result->atom_virial || a->result->atom_centroid) atom_virials(a);
  if (a->energy) *a->energy = sum_energies(edges, a->node_energy);
  if (a->bad) *a->bad = mlff_first_bad_force((const double(*)[3]) forces, edges->n_nodes);
  return MLFF_OK;
}
