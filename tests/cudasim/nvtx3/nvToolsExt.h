/* nvToolsExt.h: NVIDIA's ranges for its profilers, for the simulated device: tests ask for them (cudasim.h). */
#ifndef MLFF_CUDASIM_NVTX_H
#define MLFF_CUDASIM_NVTX_H

#include "cudasim.h"

static inline int nvtxRangePushA(const char *name)
{
  return cudasim_push_range(name);
}
static inline int nvtxRangePop(void)
{
  return cudasim_pop_range();
}

#endif
