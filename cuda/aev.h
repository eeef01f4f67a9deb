/* aev.h: constants of the descriptors of ANI, for aev.cu and aev_setup.cu. */
#ifndef MLFF_CUDA_AEV_H
#define MLFF_CUDA_AEV_H

#include "ops_cuda.h"

#define AEV MLFF_CUDA(aev_constants)

namespace AEV { /* structures differ between element types */

/* A constant as the sum of two reals: in float a rounded constant would bias every atom the same way. */
typedef struct split {
  real high, low;
} split;

/* A cutoff function fc(r) = (cos(pi r / rc) + 1) / 2. */
typedef struct cutoff {
  split rc, factor; /* pi / (2 rc) */
  real slope;       /* -pi / rc */
} cutoff;

static inline split split_of(double x)
{
  const split s = {(real) x, (real) (x - (double) (real) x)};
  return s;
}

static inline cutoff cutoff_of(double rc)
{
  const double pi = 3.14159265358979323846;
  const cutoff c = {split_of(rc), split_of(pi / (2 * rc)), (real) (-pi / rc)};
  return c;
}

} // namespace AEV

using namespace AEV;

#endif
