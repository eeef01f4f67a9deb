/* ranks.h: a model on several ranks. Ranks are threads here, each with its own model on the CPU. They exchange rows
 * through memory. Rows in flight are NaN until they arrive, to detect early reads. */
#ifndef MLFF_TEST_RANKS_H
#define MLFF_TEST_RANKS_H

#include "testmodel.h"

enum { TEST_MAX_RANKS = 4 };

/* What all ranks found together; test_ranks_free releases it. Forces and energies are in the order of the atoms. */
typedef struct test_ranks_answer {
  double energy, virial[6];
  double (*forces)[3];
  double *atom_energy;   /* NULL for models without MLFF_NODE_ENERGIES                       */
  double (*centroid)[9]; /* NULL for models without MLFF_CONSERVATIVE                   */
  int n_interior;        /* atoms that have to do with their own rank only                   */
  int n_forward;         /* calls of the halo's functions on each rank, in one evaluation ... */
  int n_reverse, n_reduce;
  int has_parts; /* a rank had neighbors that another owns */
} test_ranks_answer;

/* Evaluates the atoms on n_ranks ranks, atom i on rank rank_of[i], twice and then with centroid virials. With "fp64"
 * exchanges are begun and finished, with work on interior atoms between; else they are one call. Aborts the test when a
 * rank fails. */
test_ranks_answer test_on_ranks(const test_model *file, const char *precision, const test_atoms *atoms, int n_ranks,
                                const int *rank_of);
void test_ranks_free(test_ranks_answer *answer);

#endif
