/* ops_ani.h: operations of ANI (cpu/aev.c and cpu/ani_ops.c; CUDA twins: cuda/).
 *
 * The atomic environment vector (AEV) of a center i, after Smith, Isayev, Roitberg, Chem. Sci. 8, 3192 (2017), with the
 * factors of the published parameters as constants (prefactors p, scale s of the cosine):
 *   fc(r; Rc)    = (cos(pi r / Rc) + 1) / 2 for r < Rc, else 0
 *   G_R[t,k]     = sum over neighbors j of species t:  p_R exp(-eta_R (r_ij - R_k)^2) fc(r_ij; Rc_R)
 *   G_A[t,u,a,z] = sum over unordered pairs {j,k} of neighbors of species {t,u}, each pair once:
 *                  p_A ((1 + cos(theta - theta_z)) / 2)^zeta exp(-eta_A ((r_ij + r_ik)/2 - R_a)^2) fc(r_ij; Rc_A)
 *                  fc(r_ik; Rc_A)
 *                  theta = arccos(s cos(angle j-i-k)),  0 < s < 1
 * Only columns of the n_used species in use exist: first the radial blocks [n_used][n_radial], then for each pair t <=
 * u of used species, in the order (0,0) (0,1) .. (1,1) .., an angular block [n_angular][n_sections].
 *
 * ani_block: rows of AEVs and activations per block. ani_members: members of the ensemble per block: 1, or all, and
 * then of all elements.
 */
#ifndef MLFF_OPS_ANI_H
#define MLFF_OPS_ANI_H

#include "backend.h"

struct mlff_edges;
struct mlff_linear;

/* Constants of an AEV, in A, A^-2 and radian. zeta >= 1 (below 1 forces are not continuous). */
typedef struct mlff_aev_constants {
  double radial_cutoff, radial_eta, radial_prefactor;
  double angular_cutoff, angular_eta, angular_zeta, angular_prefactor, cos_scale;
  int n_radial, n_angular, n_sections; /* numbers of R_k, R_a, theta_z; each at least 1 */
  const double *radial_shifts, *angular_shifts, *angular_sections;
} mlff_aev_constants;

/* An AEV prepared for a backend. Zero-initialise; made by aev_setup, released by mlff_aev_release. aev_setup may be
 * called again to change the species in use (use: host, [n_species], non-zero = in use). */
typedef struct mlff_aev {
  mlff_aev_constants constants; /* its pointers are NULL */
  int n_species;                /* of the model */
  int n_used;                   /* of them in use */
  int n_columns;                /* n_used n_radial + n_used (n_used+1)/2 n_angular n_sections */
  mlff_buf compact;             /* int32 [n_species]: index among the used species, -1 = not in use */
  mlff_buf tables;              /* real: shifts and sections, layout of the backend */
  mlff_buf scratch;
} mlff_aev;

/* Rows of AEVs: aev_forward, aev_backward, which fail only if memory is short. Edges beyond the two cutoffs contribute
 * nothing. All species that occur are in use (checked by the caller). Row k belongs to center centers[k] (an owned
 * atom, no duplicates).
 *   centers  int32 [n_rows], on the backend
 *   rows     real  [n_rows][ld]: AEVs (forward: output; backward: dE/dAEV); first n_columns columns. Backward, where
 *            ani_members is more than 1: [n_parts][n_rows][ld], whose sums are dE/dAEV, in the order of the parts
 *   grad     real  [n_edges][4], backward only: dE/d(x_j - x_i) = of the edges of these centers, others are unchanged;
 *            fourth element 0 */
typedef struct mlff_aev_args {
  const struct mlff_edges *edges;
  const int32_t *centers;
  int64_t n_rows;
  void *rows;
  int64_t ld;
  void *grad;
  int n_parts;
} mlff_aev_args;

/* ani_readout, a batch of n: last layer of a network and the seed of its backward pass.
 *   hidden  real [n_rows][ld_hidden]   in: h, values of CELU, first n columns; out: its slope there * weight * factor =
 *                                      dE/d(pre-activation)
 *   weight  real [n], on the backend
 *   energy  real [n_rows]              = sum_k weight_k h_k + bias */
typedef struct mlff_ani_readout_args {
  int64_t n_rows;
  int n;
  void *hidden;
  int64_t ld_hidden;
  const void *weight;
  double alpha, bias, factor; /* alpha: of CELU */
  void *energy;
} mlff_ani_readout_args;

/* ani_collect: energies of members from rows to atoms.
 *   centers [n_local]                    atoms of the rows, then atoms without a row
 *   energy  real [n_members][n_rows]
 *   node    real [n_local]             = mean over members;  0 for atoms without a row
 *   member  real [n_members][n_local]  = energy;             0 likewise */
typedef struct mlff_ani_collect_args {
  int n_members;
  int64_t n_rows, n_local;
  const int32_t *centers;
  const void *energy;
  void *node, *member;
} mlff_ani_collect_args;

enum { MLFF_ANI_MOST_HIDDEN = 4, MLFF_ANI_MOST_GROUPS = 32 };

/* A whole network: hidden layers with CELU between AEV and readout. At most MLFF_ANI_MOST_HIDDEN of them.
 *   forward, backward  packed matrices of the hidden layers, and transposed
 *   readout            real [width of the last hidden layer], on the backend */
typedef struct mlff_ani_network {
  int n_hidden;
  const struct mlff_linear *forward[MLFF_ANI_MOST_HIDDEN], *backward[MLFF_ANI_MOST_HIDDEN];
  const void *readout;
  double readout_bias;
} mlff_ani_network;

/* The networks of a model, prepared for a backend. Zero-initialise; made by ani_networks_setup at load, released by
 * mlff_ani_networks_release; refers to the packed matrices. */
typedef struct mlff_ani_networks {
  int n;
  int reals_per_row; /* of intermediate results, in the largest network; 0: cannot be fused */
  int most_shared;   /* bytes of shared memory per block */
  mlff_buf table;
} mlff_ani_networks;

/* Rows row .. row + n_rows, which belong to networks network .. network + n_members. */
typedef struct mlff_ani_rows {
  int64_t row, n_rows;
  int network;
} mlff_ani_rows;

/* ani_networks: all networks of some groups of rows fused, from AEVs to gradients: hidden layers, readout and their
 * backward pass. Except for rounding, the same as linear, ani_readout and linear. Returns 1 if done, 0 if these rows
 * must be evaluated layer by layer (nothing was done). NULL if the backend gains nothing from it.
 *   aevs    real [n_rows][ld]
 *   energy  real [n_members][ld_energy]   = of the rows of the groups
 *   grads   real [n_members][n_rows][ld]  = d(energy)/dAEV times factor */
typedef struct mlff_ani_networks_args {
  int n_groups, n_members;
  const mlff_ani_rows *groups;
  int64_t n_rows, ld, ld_energy;
  double alpha, factor; /* alpha: of CELU */
  const void *aevs;
  void *energy, *grads;
} mlff_ani_networks_args;

static inline void mlff_aev_release(mlff_backend *backend, mlff_aev *aev)
{
  mlff_buf_release(backend, &aev->compact);
  mlff_buf_release(backend, &aev->tables);
  mlff_buf_release(backend, &aev->scratch);
}

static inline void mlff_ani_networks_release(mlff_backend *backend, mlff_ani_networks *networks)
{
  mlff_buf_release(backend, &networks->table);
}

#endif
