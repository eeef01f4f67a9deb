/* painn.h: what the PaiNN ops of the CPU share: the line of an edge and short vectors of four reals. */
#ifndef MLFF_CPU_PAINN_H
#define MLFF_CPU_PAINN_H

#include "cpu.h"

/* Four reals: the terms of a cubic spline, or (x, y, z, 1/r). */
typedef real v4 __attribute__((vector_size(4 * sizeof(real))));
typedef real v4_unaligned __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));

MLFF_INLINE v4 v4_load(const real *p)
{
  return *(const v4_unaligned *) p;
}

MLFF_INLINE void v4_store(real *p, v4 v)
{
  *(v4_unaligned *) p = v;
}

/* (sum of a, sum of b, sum of c, sum of d) */
MLFF_INLINE v4 v4_sums(v4 a, v4 b, v4 c, v4 d)
{
  const v4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const v4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

MLFF_INLINE line_index line_load_index(const real *line)
{
  line_index index;
  memcpy(&index, line + LINE_INDEX, sizeof index);
  return index;
}

#endif
