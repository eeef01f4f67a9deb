/* plain_tensornet.h: TensorNet as plain loops in double, written from the formulas of docs/model_file.md. */
#ifndef MLFF_TEST_PLAIN_TENSORNET_H
#define MLFF_TEST_PLAIN_TENSORNET_H

#include "reference.h"
#include "testmodel.h"

/* Energies of the atoms [n], without offsets. */
void plain_tensornet(const test_model *model, const test_atoms *atoms, double *energy);

#endif
