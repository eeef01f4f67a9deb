/* plain_mace.h: a MACE network as plain loops in double, written from the formulas of docs/model_file.md. */
#ifndef MLFF_TEST_PLAIN_MACE_H
#define MLFF_TEST_PLAIN_MACE_H

#include "plain_nequip.h"

/* Energies of the atoms [n], without offsets. */
void plain_mace(const test_model *model, const test_atoms *atoms, double *energy);

#endif
