/* painn.h: what the PaiNN ops of the GPU share. Twin: cpu/painn.h. */
#ifndef MLFF_CUDA_PAINN_H
#define MLFF_CUDA_PAINN_H

#include "ops_cuda.h"

MLFF_DEVICE line_index line_load_index(const real *line)
{
  const int4 raw = *(const int4 *) (const void *) (line + LINE_INDEX);
  const line_index index = {raw.x, raw.y, raw.z, raw.w};
  return index;
}

MLFF_DEVICE void line_store_index(real *line, line_index index)
{
  int4 raw;
  raw.x = index.first;
  raw.y = index.node;
  raw.z = index.species;
  raw.w = index.unused;
  *(int4 *) (void *) (line + LINE_INDEX) = raw;
}

#endif
