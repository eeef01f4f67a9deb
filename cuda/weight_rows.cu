/* weight_rows.cu: multiplies rows of atoms by a weight of each atom. Twin: cpu/weight_rows.c. */
#include "ops_cuda.h"

enum { WEIGHT_WARPS = 4 };

namespace { /* kernels and their arguments differ between element types */

typedef struct weight_arrays {
  const real *weight; /* [n]     */
  const real *x;      /* [n][ld] */
  real *y;            /* [n][ld] */
  int64_t n, width, ld, accumulate;
} weight_arrays;

/* y[i][k] (+)= weight[i] x[i][k]. A warp owns row i, a lane every 32nd k. Deterministic. Twin: weight_rows_cpu. */
__global__ void __launch_bounds__(WARP *WEIGHT_WARPS) weight_rows_kernel(weight_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * WEIGHT_WARPS + threadIdx.x / WARP;
  if (i >= a.n) return;
  const real *x = a.x + i * a.ld;
  real *y = a.y + i * a.ld;
  for (int64_t k = lane; k < a.width; k += WARP) y[k] = (a.accumulate ? y[k] : (real) 0) + a.weight[i] * x[k];
}

} // namespace

void MLFF_CUDA(weight_rows_cuda)(mlff_backend *backend, const mlff_weight_rows_args *args)
{
  weight_arrays a;
  memset(&a, 0, sizeof a);
  a.weight = (const real *) args->weight;
  a.x = (const real *) args->x;
  a.y = (real *) args->y;
  a.n = args->n;
  a.width = args->width;
  a.ld = args->ld;
  a.accumulate = args->accumulate;
  MLFF_LAUNCH(backend, weight_rows_kernel, mlff_cuda_blocks(a.n, WEIGHT_WARPS), WARP * WEIGHT_WARPS, 0, a);
}
