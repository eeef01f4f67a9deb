/* ani_ops.cu: readout and collection of energies of ANI networks on the GPU. Twin: cpu/ani_ops.c. */
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

enum { MOST_NETWORKS = 32 }; /* of a launch */
template <int N> struct ani_readout_batch {
  ani_readout_arrays networks[N];
};

/* energy[r] = bias + sum_k w[k] h[r][k],  g[r][k] = celu' w[k] factor, which replaces h;  h [n_rows][ld_hidden]
 * A warp owns row r of the network blockIdx.y, a lane every 32nd k; the sum goes through shuffles. A block has
 * READOUT_WARPS warps; no shared memory; deterministic. Twin: ani_readout_cpu. */
template <int N> __global__ void __launch_bounds__(WARP *READOUT_WARPS) ani_readout_kernel(ani_readout_batch<N> batch)
{
  grid_dependency_wait();
  const ani_readout_arrays &a = batch.networks[N == 1 ? 0 : blockIdx.y];
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

/* member[m][centers[r]] = energy[m][r],  node[centers[r]] = mean over m, summed in double; 0 for atoms without a row.
 * One thread per atom, which loads MEMBERS_PER_BATCH members before it stores them. No centre occurs twice:
 * deterministic. Twin: ani_collect_cpu. */
__global__ void __launch_bounds__(COLLECT_THREADS) collect_kernel(collect_arrays a)
{
  grid_dependency_wait();
  enum { MEMBERS_PER_BATCH = 8 };
  const int64_t r = (int64_t) blockIdx.x * COLLECT_THREADS + threadIdx.x;
  if (r >= a.n_local) return;
  const int32_t i = a.centers[r];
  double sum = 0;
  for (int first = 0; first < a.n_members; first += MEMBERS_PER_BATCH) {
    real e[MEMBERS_PER_BATCH];
#pragma unroll
    for (int k = 0; k < MEMBERS_PER_BATCH; k++)
      e[k] = first + k < a.n_members && r < a.n_rows ? a.energy[(first + k) * a.n_rows + r] : (real) 0;
#pragma unroll
    for (int k = 0; k < MEMBERS_PER_BATCH; k++) {
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
    const ani_readout_batch<1> batch = {{arrays_of(args)}};
    MLFF_LAUNCH(backend, ani_readout_kernel<1>, mlff_cuda_blocks(args->n_rows, READOUT_WARPS), WARP * READOUT_WARPS, 0,
                batch);
    return;
  }
  for (int begin = 0; begin < n; begin += MOST_NETWORKS) {
    const int n_here = n - begin < MOST_NETWORKS ? n - begin : MOST_NETWORKS;
    ani_readout_batch<MOST_NETWORKS> batch;
    int64_t n_rows = 0;
    memset(&batch, 0, sizeof batch);
    for (int k = 0; k < n_here; k++) {
      batch.networks[k] = arrays_of(&args[begin + k]);
      n_rows = batch.networks[k].n_rows > n_rows ? batch.networks[k].n_rows : n_rows;
    }
    MLFF_LAUNCH(backend, ani_readout_kernel<MOST_NETWORKS>,
                dim3(mlff_cuda_blocks(n_rows, READOUT_WARPS), (unsigned) n_here), WARP * READOUT_WARPS, 0, batch);
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
