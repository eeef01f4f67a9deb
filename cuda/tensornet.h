/* tensornet.h: what the TensorNet ops of the GPU share. Twin: cpu/tensornet.h. */
#ifndef MLFF_CUDA_TENSORNET_H
#define MLFF_CUDA_TENSORNET_H

#include "nequip.h"

#include "../src/mlff/backend/tensornet_math.h"

enum { COMPONENTS = MLFF_TENSORNET_COMPONENTS };

/* Part of component k: 0 of I, 1 of A, 2 of S. */
MLFF_DEVICE int component_part(int k)
{
  return k == 0 ? 0 : k < 4 ? 1 : 2;
}

/* x[k] = row[k][c ..], f channels per component */
MLFF_DEVICE void row_load(const real *row, int64_t f, real x[COMPONENTS])
{
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) x[k] = row[k * f];
}

MLFF_DEVICE void row_store(real *row, int64_t f, const real x[COMPONENTS])
{
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) row[k * f] = x[k];
}

MLFF_DEVICE int32_t atom_slot(const mlff_mace_atoms &atoms, int64_t i)
{
  return atoms.species[i] < 0 ? -1 : atoms.slot[atoms.species[i]];
}

#endif
