/* table.cu: the op table of the CUDA backend; compiled once for each element type. Twin: cpu/table.c. */
#include "atoms.h"

namespace { /* kernels differ between element types */

/* Does nothing; whether it can be found tells whether this build has code for the device. */
__global__ void probe_kernel(int *unused)
{
  (void) unused;
}

} // namespace

cudaError_t MLFF_CUDA(mlff_cuda_probe)(void)
{
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, probe_kernel);
}

cudaError_t MLFF_CUDA(mlff_cuda_launch_empty)(cudaStream_t stream)
{
  return mlff_cuda_start("probe_kernel", 1, probe_kernel, 1, WARP, 0, stream, (int *) NULL);
}

void MLFF_CUDA(mlff_cuda_ops)(mlff_ops *ops)
{
  ops->linear_pack = MLFF_CUDA(linear_pack_cuda);
  ops->linear = MLFF_CUDA(linear_cuda);
  ops->linear_many = MLFF_CUDA(linear_many_cuda);
  ops->atoms_begin = MLFF_CUDA(atoms_begin_cuda);
  ops->atoms_end = MLFF_CUDA(atoms_end_cuda);
  ops->edges = MLFF_CUDA(edges_cuda);
  ops->forces = MLFF_CUDA(forces_cuda);
  MLFF_CUDA(painn_ops_cuda)(&ops->painn);
  MLFF_CUDA(ani_ops_cuda)(&ops->ani);
  MLFF_CUDA(orb_ops_cuda)(&ops->orb);
}
