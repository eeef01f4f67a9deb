/* ani_ops.cu: the small operations around ANI's networks on the GPU. Twin: cpu/ani_ops.c. */
#include "atoms.h"

using namespace ATOMS;

enum { READOUT_WARPS = 4, COLLECT_THREADS = 128 };

namespace { /* kernels and their arguments differ between element types */

typedef struct ani_readout_arrays {
  int64_t n_rows, ld_hidden;
  const real *weight;
  real *hidden, *energy;
  real inverse_alpha, bias, factor;
  int n;
#if MLFF_REAL_IS_DOUBLE
  int unused;
#endif
} ani_readout_arrays;

enum { MANY = 32 };
template <int N> struct ani_readout_group {
  ani_readout_arrays of[N];
};

/* energy[r] = bias + sum_k w[k] h[r][k],  h[r][k] = slope of CELU there w[k] factor;  h [n_rows][ld_hidden]
 * A warp owns row r of the network blockIdx.y, a lane every 32nd k; the sum goes through shuffles. A block has
 * READOUT_WARPS warps; no shared memory; deterministic. Twin: ani_readout_cpu. */
template <int N> __global__ void __launch_bounds__(WARP *READOUT_WARPS) ani_readout_kernel(ani_readout_group<N> group)
{
  grid_dependency_wait();
  const ani_readout_arrays &a = group.of[N == 1 ? 0 : blockIdx.y];
  const int lane = (int) threadIdx.x % WARP;
  const int64_t r = (int64_t) blockIdx.x * READOUT_WARPS + threadIdx.x / WARP;
  if (r >= a.n_rows) return;
  real sum = 0;
  for (int k = lane; k < a.n; k += WARP) {
    real *h = &a.hidden[r * a.ld_hidden + k];
    const real v = *h, w = a.weight[k];
    sum += w * v;
    *h = celu_slope(v, a.inverse_alpha) * w * a.factor;
  }
  sum = warp_sum(sum);
  if (lane == 0) a.energy[r] = sum + a.bias;
}

typedef struct collect_arrays {
  int64_t n_rows, n_local;
  const int32_t *centers;
  const real *energy;  /* [n_members][n_rows]  */
  real *node, *member; /* [n_local], [n_members][n_local] */
  int n_members, unused;
} collect_arrays;

/* member[m][centers[r]] = energy[m][r],  node[centers[r]] = mean over m, summed in double; 0 behind the rows. One
 * thread per atom, which reads AT_ONCE members before it writes them; no centre occurs twice, so deterministic. Twin:
 * ani_collect_cpu. */
__global__ void __launch_bounds__(COLLECT_THREADS) collect_kernel(collect_arrays a)
{
  grid_dependency_wait();
  enum { AT_ONCE = 8 };
  const int64_t r = (int64_t) blockIdx.x * COLLECT_THREADS + threadIdx.x;
  if (r >= a.n_local) return;
  const int32_t i = a.centers[r];
  double sum = 0;
  for (int first = 0; first < a.n_members; first += AT_ONCE) {
    real e[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
      e[k] = first + k < a.n_members && r < a.n_rows ? a.energy[(first + k) * a.n_rows + r] : (real) 0;
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      if (first + k < a.n_members) a.member[(first + k) * a.n_local + i] = e[k];
      sum += (double) e[k];
    }
  }
  a.node[i] = (real) (sum / a.n_members);
}

} // namespace

static ani_readout_arrays arrays_of(const mlff_ani_readout_args *args)
{
  ani_readout_arrays a;
  memset(&a, 0, sizeof a);
  a.n_rows = args->n_rows;
  a.ld_hidden = args->ld_hidden;
  a.hidden = (real *) args->hidden;
  a.weight = (const real *) args->weight;
  a.energy = (real *) args->energy;
  a.inverse_alpha = (real) (1 / args->alpha);
  a.bias = (real) args->bias;
  a.factor = (real) args->factor;
  a.n = args->n;
  return a;
}

void MLFF_CUDA(ani_readout_cuda)(mlff_backend *backend, int n, const mlff_ani_readout_args *args)
{
  if (n == 1) {
    const ani_readout_group<1> group = {{arrays_of(args)}};
    MLFF_LAUNCH(backend, ani_readout_kernel<1>, mlff_cuda_blocks(args->n_rows, READOUT_WARPS), WARP * READOUT_WARPS, 0,
                group);
    return;
  }
  for (int begin = 0; begin < n; begin += MANY) {
    const int n_here = n - begin < MANY ? n - begin : MANY;
    ani_readout_group<MANY> group;
    int64_t n_rows = 0;
    memset(&group, 0, sizeof group);
    for (int k = 0; k < n_here; k++) {
      group.of[k] = arrays_of(&args[begin + k]);
      n_rows = group.of[k].n_rows > n_rows ? group.of[k].n_rows : n_rows;
    }
    MLFF_LAUNCH(backend, ani_readout_kernel<MANY>, dim3(mlff_cuda_blocks(n_rows, READOUT_WARPS), (unsigned) n_here),
                WARP * READOUT_WARPS, 0, group);
  }
}

void MLFF_CUDA(ani_collect_cuda)(mlff_backend *backend, const mlff_ani_collect_args *args)
{
  collect_arrays a;
  memset(&a, 0, sizeof a);
  a.n_rows = args->n_rows;
  a.n_local = args->n_local;
  a.centers = args->centers;
  a.energy = (const real *) args->energy;
  a.node = (real *) args->node;
  a.member = (real *) args->member;
  a.n_members = args->n_members;
  MLFF_LAUNCH_INDEPENDENT(backend, collect_kernel, mlff_cuda_blocks(a.n_local, COLLECT_THREADS), COLLECT_THREADS, a);
}
