/* table.cu: op table of the CUDA backend, compiled once per element type. Twin: cpu/table.c. */
#include "ops_cuda.h"

namespace { /* kernels differ between element types */

/* Empty kernel. Its attributes are available only if this build has code for the device. */
__global__ void probe_kernel(int *unused)
{
  grid_dependency_wait();
  (void) unused;
}

} // namespace

cudaError_t MLFF_CUDA(mlff_cuda_probe)(int *architecture)
{
  cudaFuncAttributes attributes = {};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (architecture) *architecture = attributes.ptxVersion;
  return error;
}

cudaError_t MLFF_CUDA(mlff_cuda_launch_empty)(cudaStream_t stream)
{
  return mlff_cuda_start("probe_kernel", 1, false, probe_kernel, 1, WARP, 0, stream, (int *) NULL);
}

void MLFF_CUDA(mlff_cuda_ops)(mlff_ops *ops)
{
#define OP(name, returns, parameters, arguments, span, forecast, bodies) ops->name = MLFF_CUDA(name##_cuda);
#define OP_HOST(...)
#define OP_SIZE(name, cpu, gpu) ops->name = gpu;
#include "../src/mlff/backend/op_list.h"
}
