/* plain_orb.h: Orb-v2 as plain loops in double, written from the formulas of docs/model_file.md. */
#ifndef MLFF_TEST_PLAIN_ORB_H
#define MLFF_TEST_PLAIN_ORB_H

#include "testmodel.h"

/* The outputs of the network, in the units of the file: energy without offsets, forces [n][3], virial [6] (xx yy zz xy
 * xz yz). The atoms are periodic in all directions or in none, and do not lie on one line when they are three or
 * more. */
void plain_orb(const test_model *model, const test_atoms *atoms, double *energy, double (*forces)[3], double *virial);

#endif
