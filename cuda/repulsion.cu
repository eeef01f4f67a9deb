/* repulsion.cu: clamps the distances of a network, and adds the short-range repulsion of the model file to energies and
 * gradients. Twin: cpu/repulsion.c. */
#include "ops_cuda.h"

enum { REPULSION_THREADS = 128 };

namespace { /* kernels and their arguments differ between element types */

typedef struct repulsion_arrays {
  const mlff_repulsion_pair *pairs; /* [n_species][n_species] */
  const int64_t *row;
  const int32_t *center_species, *species;
  const real *vec;                   /* [n_edges][4] */
  real *network, *kept;              /* [n_edges][4] clamped vectors, copies of edges->vec or NULL */
  real *grad;                        /* [n_edges][4] */
  real *node_energy, *member_energy; /* [n_local], [n_members][n_local], or NULL */
  double reach, power;
  int32_t n_local, n_species, n_members, is_mace;
} repulsion_arrays;

/* kept[e] = d_e,  d_e *= clamp(r_e)/r_e  for the edges e of center i below the cutoff of their elements. One thread per
 * center, in double. Twin: clamp_cpu. */
__global__ void clamp_kernel(repulsion_arrays a)
{
  grid_dependency_wait();
  const int i = (int) (blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= a.n_local) return;
  for (int64_t e = a.row[i]; e < a.row[i + 1]; e++) {
    for (int c = 0; c < 4; c++) a.kept[4 * e + c] = a.network[4 * e + c];
    const double r = (double) a.network[4 * e + 3];
    if (!(r < a.reach)) continue;
    const double cutoff = a.pairs[a.center_species[i] * a.n_species + a.species[e]].cutoff;
    if (!(r < cutoff)) continue;
    double slope;
    const double scale = mlff_clamp(r, cutoff, &slope) / r;
    for (int c = 0; c < 4; c++) a.network[4 * e + c] = (real) (scale * (double) a.network[4 * e + c]);
  }
}

/* Gradient of an edge by its own vector instead of the clamped one, which is restored. Twin: unclamp. */
__device__ void unclamp(const repulsion_arrays &a, int64_t e, double r, double cutoff)
{
  double v[3], g[3];
  for (int c = 0; c < 3; c++) {
    v[c] = (double) a.kept[4 * e + c];
    g[c] = (double) a.grad[4 * e + c];
  }
  mlff_clamp_gradient(r, cutoff, v, g);
  for (int c = 0; c < 3; c++) a.grad[4 * e + c] = (real) g[c];
  for (int c = 0; c < 4; c++) a.network[4 * e + c] = a.kept[4 * e + c];
}

/* E_i += sum_e V(r_e),  grad[e] += V'(r_e) d_e/r_e  for the edges e of center i below the cutoff of their
 * elements, V = mlff_zbl. One thread per center, in double; deterministic. Twin: repulsion_cpu. */
__global__ void repulsion_kernel(repulsion_arrays a)
{
  grid_dependency_wait();
  const int i = (int) (blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= a.n_local) return;
  double energy = 0.0;
  for (int64_t e = a.row[i]; e < a.row[i + 1]; e++) {
    const double r = (double) a.vec[4 * e + 3];
    if (!(r < a.reach)) continue;
    const mlff_repulsion_pair p = a.pairs[a.center_species[i] * a.n_species + a.species[e]];
    if (!(r < p.cutoff)) continue;
    double slope;
    if (a.kept) unclamp(a, e, r, p.cutoff);
    energy += mlff_zbl(a.is_mace, a.power, r, p.cutoff, p.inverse, p.factor, &slope);
    for (int c = 0; c < 3; c++) a.grad[4 * e + c] += (real) (slope * (double) a.vec[4 * e + c] / r);
  }
  if (a.node_energy) a.node_energy[i] += (real) energy;
  for (int k = 0; a.member_energy && k < a.n_members; k++)
    a.member_energy[(int64_t) k * a.n_local + i] += (real) energy;
}

repulsion_arrays arrays_of(const mlff_edges *edges)
{
  repulsion_arrays a;
  memset(&a, 0, sizeof a);
  a.pairs = (const mlff_repulsion_pair *) edges->repulsion->pairs.data;
  a.row = (const int64_t *) edges->row.data;
  a.center_species = (const int32_t *) edges->center_species.data;
  a.species = (const int32_t *) edges->species.data;
  a.vec = (const real *) edges->vec.data;
  a.network = (real *) edges->vec.data;
  a.reach = edges->repulsion->reach;
  a.power = edges->repulsion->power;
  a.is_mace = edges->repulsion->is_mace;
  a.n_local = edges->n_local;
  a.n_species = edges->repulsion->n_species;
  return a;
}

} // namespace

void MLFF_CUDA(clamp_cuda)(mlff_backend *backend, const mlff_clamp_args *args)
{
  repulsion_arrays a = arrays_of(args->edges);
  a.kept = (real *) args->vec;
  MLFF_LAUNCH_INDEPENDENT(backend, clamp_kernel, mlff_cuda_blocks(a.n_local, REPULSION_THREADS), REPULSION_THREADS, a);
}

void MLFF_CUDA(repulsion_cuda)(mlff_backend *backend, const mlff_repulsion_args *args)
{
  repulsion_arrays a = arrays_of(args->edges);
  if (args->vec) a.vec = a.kept = (real *) args->vec;
  a.grad = (real *) args->grad;
  a.node_energy = (real *) args->node_energy;
  a.member_energy = (real *) args->member_energy;
  a.n_members = args->n_members;
  MLFF_LAUNCH_INDEPENDENT(backend, repulsion_kernel, mlff_cuda_blocks(a.n_local, REPULSION_THREADS), REPULSION_THREADS,
                          a);
}
