/* rows.cu: packs rows of features for GPU-aware MPI. No twin: on the CPU the sender packs them. */
#include "ops_cuda.h"

enum { ROW_THREADS = 128 };

namespace { /* kernels and their arguments differ between element types */

typedef struct row_arrays {
  const real *rows;    /* [n_nodes][width] */
  const int32_t *sent; /* [n_sent] */
  real *packed;        /* [n_sent][width] */
  int64_t n, width;    /* n = n_sent width */
} row_arrays;

/* packed[k][c] = rows[sent[k]][c]. One thread per element; deterministic. */
__global__ void pack_rows_kernel(row_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  if (q < a.n) a.packed[q] = a.rows[a.sent[q / a.width] * a.width + q % a.width];
}

} // namespace

void MLFF_CUDA(mlff_cuda_pack_rows)(mlff_backend *backend, const void *rows, const int32_t *sent, int64_t n_sent,
                                    int64_t width, void *packed)
{
  const row_arrays a = {(const real *) rows, sent, (real *) packed, n_sent * width, width};
  MLFF_LAUNCH_INDEPENDENT(backend, pack_rows_kernel, mlff_cuda_blocks(a.n, ROW_THREADS), ROW_THREADS, a);
}
