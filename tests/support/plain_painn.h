/* plain_painn.h: PaiNN as plain loops in double, written from the formulas at the top of arch/painn.c without any of
 * its specialisations, and published parameters as model files. */
#ifndef MLFF_TEST_PLAIN_PAINN_H
#define MLFF_TEST_PLAIN_PAINN_H

#include "reference.h"
#include "testmodel.h"

/* A random model like test_model_painn, but with messages so small that dense systems and many layers stay of the order
 * of 1 eV, where tolerances mean something. All options of the architecture must be set. */
test_model calm_painn(test_model_options options);

/* Energies of the atoms [n], without offsets, in the unit of the file. */
void plain_painn(const test_model *model, const test_atoms *atoms, double *energy);

/* The published model `name` of the shared directory (name.yaml, name.safetensors) for these elements, weights in
 * double exactly as stored, "eV" being its own unit of energy. Returns 0 (skipped) without the directory. */
int published_painn(const char *name, const char *const *elements, int n_elements, test_model *model);

#endif
