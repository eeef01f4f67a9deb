/* plain_repulsion.h: the short-range repulsion of a model file by plain loops in double, written from
 * docs/model_file.md alone. */
#ifndef MLFF_TEST_PLAIN_REPULSION_H
#define MLFF_TEST_PLAIN_REPULSION_H

#include "support.h"

/* Energy (eV) of a pair r apart, and dV/dr; 0 from the cutoff on. */
double plain_repulsion(int z_i, int z_j, double cutoff, double r, double *slope);

/* That of all pairs of a graph: cutoff[number][number] in A, 0: none. Forces, energies and virials of atoms are of
 * owned atoms, the system being whole. */
enum { PLAIN_MOST_ATOMS = 100, PLAIN_MOST_NUMBER = 9 };
typedef struct plain_repelled {
  int n_close; /* directed pairs */
  double energy, virial[6];
  double atom_energy[PLAIN_MOST_ATOMS], forces[PLAIN_MOST_ATOMS][3];
  double atom_virial[PLAIN_MOST_ATOMS][9], centroid[PLAIN_MOST_ATOMS][9];
} plain_repelled;

typedef double plain_cutoffs[PLAIN_MOST_NUMBER][PLAIN_MOST_NUMBER];

void plain_repel(const mlff_graph *graph, const int *number, const plain_cutoffs cutoff, plain_repelled *all);

#endif
