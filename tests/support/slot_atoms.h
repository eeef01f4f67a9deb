/* slot_atoms.h: atoms of several elements for op tests whose arguments depend on the element; arrays of a test. */
#ifndef MLFF_TEST_SLOT_ATOMS_H
#define MLFF_TEST_SLOT_ATOMS_H

#include "painn_scene.h"

enum { N_ATOMS = 7, N_SLOTS = 2 };

/* Position of the species of atom i; -1 if it has none, or one that does not occur for the network. */
int slot_of(int64_t i);

/* Elements of the first n atoms. */
typedef struct atoms_case {
  mlff_buf slot, species;
  mlff_mace_atoms args;
} atoms_case;

atoms_case make_atoms(mlff_backend *b, int64_t n);
void free_atoms(mlff_backend *b, atoms_case *c);
void free_arrays(mlff_backend *b, array **all, size_t n);

#endif
