/* painn_mix.cu: element-wise steps of the PaiNN update between its GEMMs, and the readout, on the GPU. Twin:
 * cpu/painn_mix.c, which lists the steps of both passes. */
#include "atoms.h"
#include "painn.h"

using namespace ATOMS;

enum { MIX_THREADS = 128, READOUT_WARPS = 4 };

namespace { /* kernels and their arguments differ between element types */

/* Sets atom i and channel k of this thread; false beyond the end. A thread owns one channel of one atom; no shared
 * memory; deterministic. */
MLFF_DEVICE int own_channel(const mix_arrays &a, int64_t *i, int *k)
{
  const int64_t t = (int64_t) blockIdx.x * MIX_THREADS + threadIdx.x;
  *i = t / a.f;
  *k = (int) (t % a.f);
  return *i < a.n;
}

#define MIX_KERNEL(name)                                                     \
  __global__ void __launch_bounds__(MIX_THREADS) name##_kernel(mix_arrays a) \
  {                                                                          \
    grid_dependency_wait();                                                  \
    int64_t i;                                                               \
    int k;                                                                   \
    if (own_channel(a, &i, &k)) name(a, i, k);                               \
  }
MIX_KERNEL(mix_norm)
MIX_KERNEL(mix_update)
MIX_KERNEL(mix_backward_gates)
MIX_KERNEL(mix_backward_vectors)
MIX_KERNEL(mix_backward_sum)

} // namespace

static mix_arrays arrays_of(const mlff_painn_mix_args *args)
{
  mix_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.ld_grad_q = args->ld_grad_q;
  a.ld_grad_mu = args->ld_grad_mu;
  a.vw = (const real *) args->vw;
  a.y = (const real *) args->y;
  a.mu = (const real *) args->mu;
  a.grad = (const real *) args->grad;
  a.grad_qn = (const real *) args->grad_qn;
  a.grad_m = (const real *) args->grad_m;
  a.qn = (real *) args->qn;
  a.inv_norm = (real *) args->inv_norm;
  a.q_out = (real *) args->q_out;
  a.state_out = (real *) args->state_out;
  a.grad_y = (real *) args->grad_y;
  a.grad_vw = (real *) args->grad_vw;
  a.grad_q_out = (real *) args->grad_q_out;
  a.grad_mu_out = (real *) args->grad_mu_out;
  a.epsilon = args->epsilon;
  a.f = args->n_features;
  a.last = args->last;
  return a;
}

static bool defer(mlff_backend *backend, int kind, const mix_arrays &a)
{
  atom_step step;
  memset(&step, 0, sizeof step);
  step.kind = kind;
  step.args.mix = a;
  return MLFF_CUDA(defer)(backend, &step, a.n, 1);
}

#define MIX_OP(op, name, step_kind)                                                      \
  void MLFF_CUDA(op##_cuda)(mlff_backend * backend, const mlff_painn_mix_args *args)     \
  {                                                                                      \
    const unsigned n_blocks = mlff_cuda_blocks(args->n * args->n_features, MIX_THREADS); \
    const mix_arrays a = arrays_of(args);                                                \
    if (defer(backend, step_kind, a)) return;                                            \
    MLFF_LAUNCH_INDEPENDENT(backend, name##_kernel, n_blocks, MIX_THREADS, a);           \
  }
MIX_OP(painn_mix_norm, mix_norm, STEP_NORM)
MIX_OP(painn_mix_update, mix_update, STEP_UPDATE)
MIX_OP(painn_mix_backward_gates, mix_backward_gates, STEP_BACKWARD_GATES)
MIX_OP(painn_mix_backward_vectors, mix_backward_vectors, STEP_BACKWARD_VECTORS)
MIX_OP(painn_mix_backward_sum, mix_backward_sum, STEP_BACKWARD_SUM)

/* ---- readout ----------------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

/* A warp owns atom i. A block has READOUT_WARPS warps; no shared memory; deterministic. Twin: painn_readout_cpu. */
__global__ void __launch_bounds__(WARP *READOUT_WARPS) painn_readout_kernel(readout_arrays a)
{
  grid_dependency_wait();
  const int64_t i = (int64_t) blockIdx.x * READOUT_WARPS + threadIdx.x / WARP;
  if (i < a.n) readout_atom(a, i, (int) threadIdx.x % WARP);
}

} // namespace

void MLFF_CUDA(painn_readout_cuda)(mlff_backend *backend, const mlff_painn_readout_args *args)
{
  atom_step step;
  memset(&step, 0, sizeof step);
  step.kind = STEP_READOUT;
  readout_arrays &a = step.args.readout;
  a.n = args->n;
  a.h = (const real *) args->h;
  a.slope = (const real *) args->slope;
  a.weight = (const real *) args->weight;
  a.species = args->species;
  a.energy = (real *) args->energy;
  a.grad_h = (real *) args->grad_h;
  a.bias = args->bias;
  a.width = args->width;
  if (MLFF_CUDA(defer)(backend, &step, a.n, 1)) return;
  MLFF_LAUNCH(backend, painn_readout_kernel, mlff_cuda_blocks(a.n, READOUT_WARPS), WARP * READOUT_WARPS, 0, a);
}
