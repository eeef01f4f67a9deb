/* tensornet.h: what the TensorNet ops of the CPU share: rows of features, one vector of channels at a time. */
#ifndef MLFF_CPU_TENSORNET_H
#define MLFF_CPU_TENSORNET_H

#include "painn.h"

#include "../tensornet_math.h"

enum { COMPONENTS = MLFF_TENSORNET_COMPONENTS };

/* Part of component k: 0 of I, 1 of A, 2 of S. */
MLFF_INLINE int part_of(const int k)
{
  return k == 0 ? 0 : k < 4 ? 1 : 2;
}

/* x[k] = row[k][c ..], f channels per component */
MLFF_INLINE void load_row(const real *row, int64_t f, vreal x[COMPONENTS])
{
#pragma GCC unroll 9
  for (int k = 0; k < COMPONENTS; k++) x[k] = vload(row + k * f);
}

MLFF_INLINE void store_row(real *row, int64_t f, const vreal x[COMPONENTS])
{
#pragma GCC unroll 9
  for (int k = 0; k < COMPONENTS; k++) vstore(row + k * f, x[k]);
}

MLFF_INLINE int32_t atom_slot(const mlff_mace_atoms *atoms, int64_t i)
{
  return atoms->species[i] < 0 ? -1 : atoms->slot[atoms->species[i]];
}

#endif
