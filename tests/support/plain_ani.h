/* plain_ani.h: AEVs and networks of ANI as plain loops in double that follow the formulas of backend/ops_ani.h
 * literally (arccos and all), to compare the engine with. */
#ifndef MLFF_TEST_PLAIN_ANI_H
#define MLFF_TEST_PLAIN_ANI_H

#include "testmodel.h"

#include "backend/ops_ani.h"
#include "model/modelfile.h"

/* Neighbors of one centre, also beyond the cutoffs. */
typedef struct plain_star {
  int n;
  double (*d)[3]; /* x_j - x_i */
  int *species;   /* 0 .. n_species-1 */
} plain_star;

int plain_n_columns(const mlff_aev_constants *c, int n_species);
/* First column of the angular block of two species. */
int plain_angular_block(const mlff_aev_constants *c, int n_species, int t, int u);
/* AEV g [n_columns] of a star (NULL = not wanted), and the gradient of sum_columns weight g by the neighbors' vectors,
 * grad [s->n][3] (NULL = not wanted, then weight may be NULL). */
void plain_aev(const mlff_aev_constants *c, int n_species, const plain_star *s, double *g, const double *weight,
               double (*grad)[3]);

/* Parses a model; aborts the test on failure. Free with mlff_modelfile_free. */
mlff_modelfile *plain_parse(const test_model *model);

/* Energies of every member and atom, energy [n_members][atoms->n], without offsets, in the unit of the file. */
void plain_ani_energies(const test_model *model, const test_atoms *atoms, int n_members, double *energy);

#endif
