/* last_features.cu: copies the features of the last layer, and measures how unusual they are. Twin:
 * cpu/last_features.c. */
#include "ops_cuda.h"

enum { FEATURES_WARPS = 4 };

namespace { /* kernels and their arguments differ between element types */

typedef struct features_arrays {
  const real *features; /* [n][ld]                        */
  const real *weights;  /* [n_species][width + 1][width]  */
  const int32_t *atoms, *center_species;
  real *uncertainty, *rows; /* [n_local], [n_local][width] */
  int64_t n, first, n_features, ld, width;
} features_arrays;

/* A warp owns one row. Uncertainty: |A f + b|, a lane per element of the vector. Deterministic. Twin:
 * last_features_cpu. */
__global__ void __launch_bounds__(WARP *FEATURES_WARPS) last_features_kernel(features_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t k = (int64_t) blockIdx.x * FEATURES_WARPS + threadIdx.x / WARP;
  if (k >= a.n) return;
  const int64_t i = a.atoms ? a.atoms[k] : a.first + k;
  const int32_t species = a.center_species[i];
  const real *f = a.features + k * a.ld;
  if (a.rows)
    for (int64_t c = lane; c < a.width; c += WARP)
      a.rows[i * a.width + c] = species >= 0 && c < a.n_features ? f[c] : (real) 0;
  if (!a.uncertainty) return;
  real total = 0;
  const real *weights = a.weights + species * (a.width + 1) * a.width;
  for (int64_t r = lane; species >= 0 && r < a.width; r += WARP) {
    real sum = weights[a.width * a.width + r];
    for (int64_t c = 0; c < a.n_features; c++) sum += f[c] * weights[c * a.width + r];
    total += sum * sum;
  }
  total = warp_sum(total);
  if (lane == 0) a.uncertainty[i] = real_sqrt(total);
}

} // namespace

void MLFF_CUDA(last_features_cuda)(mlff_backend *backend, const mlff_last_features_args *args)
{
  features_arrays a;
  memset(&a, 0, sizeof a);
  a.features = (const real *) args->features;
  a.weights = (const real *) args->last->weights;
  a.atoms = args->atoms;
  a.center_species = args->center_species;
  a.uncertainty = (real *) args->last->uncertainty;
  a.rows = (real *) args->last->rows;
  a.n = args->n;
  a.first = args->first;
  a.n_features = args->width;
  a.ld = args->ld;
  a.width = args->last->width;
  MLFF_LAUNCH(backend, last_features_kernel, mlff_cuda_blocks(a.n, FEATURES_WARPS), WARP * FEATURES_WARPS, 0, a);
}
