/* plain_repulsion.c: see plain_repulsion.h. */
#include "plain_repulsion.h"

#include <math.h>
#include <string.h>

double plain_repulsion(int z_i, int z_j, double cutoff, double r, double *slope)
{
  const double a = 0.46850 / (pow(z_i, 0.23) + pow(z_j, 0.23)), q = 14.399645 * z_i * z_j, x = r / cutoff;
  *slope = 0.0;
  if (!(r < cutoff)) return 0.0;
  const double phi = 0.18175 * exp(-3.19980 * r / a) + 0.50986 * exp(-0.94229 * r / a) +
                     0.28022 * exp(-0.40290 * r / a) + 0.02817 * exp(-0.20162 * r / a);
  const double dphi = -(0.18175 * 3.19980 * exp(-3.19980 * r / a) + 0.50986 * 0.94229 * exp(-0.94229 * r / a) +
                        0.28022 * 0.40290 * exp(-0.40290 * r / a) + 0.02817 * 0.20162 * exp(-0.20162 * r / a)) /
                      a;
  const double s = pow(1 - x, 3) * (1 + 3 * x + 6 * x * x), ds = -30 * x * x * pow(1 - x, 2) / cutoff;
  *slope = q / r * (dphi * s + phi * ds - phi * s / r);
  return q / r * phi * s;
}

/* The directed edge i -> j, node `owner` being j's. */
static void add_pair(plain_repelled *all, int i, int owner, const double d[3], double r, double v, double slope)
{
  static const int order[9][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}, {1, 0}, {2, 0}, {2, 1}};
  all->n_close++;
  all->energy += 0.5 * v;
  all->atom_energy[i] += 0.5 * v;
  for (int c = 0; c < 3; c++) { /* half the pair's force on both ends; the edge j -> i brings the other half */
    const double f = 0.5 * slope * d[c] / r;
    all->forces[i][c] += f;
    all->forces[owner][c] -= f;
  }
  for (int k = 0; k < 9; k++) {
    const double w = -0.5 * slope * d[order[k][0]] * d[order[k][1]] / r;
    if (k < 6) all->virial[k] += w;
    all->atom_virial[i][k] += 0.5 * w;
    all->atom_virial[owner][k] += 0.5 * w;
    all->centroid[owner][k] += w;
  }
}

void plain_repel(const mlff_graph *graph, const int *number, const plain_cutoffs cutoff, plain_repelled *all)
{
  memset(all, 0, sizeof *all);
  if (graph->n_local > PLAIN_MOST_ATOMS) ck_abort_msg("%d atoms", (int) graph->n_local);
  for (int32_t i = 0; i < graph->n_local; i++) {
    for (int64_t p = graph->row[i]; p < graph->row[i + 1]; p++) {
      const int32_t j = graph->nbr[p], owner = graph->node[j];
      const double longest = cutoff[number[i]][number[owner]];
      double d[3], r2 = 0, slope;
      for (int c = 0; c < 3; c++) {
        d[c] = graph->pos[j][c] - graph->pos[i][c];
        r2 += d[c] * d[c];
      }
      if (graph->species[i] < 0 || graph->species[j] < 0 || !(sqrt(r2) < longest)) continue;
      const double v = plain_repulsion(number[i], number[owner], longest, sqrt(r2), &slope);
      add_pair(all, i, owner, d, sqrt(r2), v, slope);
    }
  }
}
