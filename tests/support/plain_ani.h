/* plain_ani.h: AEVs of ANI as plain loops in double that follow the formulas of backend/ops_ani.h literally (arccos and
 * all), to compare the engine with. */
#ifndef MLFF_TEST_PLAIN_ANI_H
#define MLFF_TEST_PLAIN_ANI_H

#include "support.h"

#include "backend/ops_ani.h"

/* Neighbours of one centre, also beyond the cutoffs. */
typedef struct plain_star {
  int n;
  double (*d)[3]; /* x_j - x_i */
  int *species;   /* 0 .. n_species-1 */
} plain_star;

int plain_n_columns(const mlff_aev_constants *c, int n_species);
/* First column of the angular block of two species. */
int plain_angular_block(const mlff_aev_constants *c, int n_species, int t, int u);
/* AEV g [n_columns] of a star (NULL = not wanted), and the gradient of sum_columns weight g by the neighbours' vectors,
 * grad [s->n][3] (NULL = not wanted, then weight may be NULL). */
void plain_aev(const mlff_aev_constants *c, int n_species, const plain_star *s, double *g, const double *weight,
               double (*grad)[3]);

#endif
