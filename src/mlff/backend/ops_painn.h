/* ops_painn.h: operations of PaiNN (cpu/painn*.c; CUDA twins: cuda/painn*.cu).
 *
 * K. T. Schuett, O. T. Unke, M. Gastegger, ICML 2021. Symbols of the paper used here: F features (n_features), q scalar
 * and mu vector features of an atom, u unit vector of an edge, phi_k radial functions; a, b, c are the three parts of a
 * message, V, W the two channel mixes of mu, s, v, t the three parts of an update. g_ marks an adjoint, dE/d(...).
 *
 * n_features is a multiple of MLFF_PAINN_BLOCK: the architecture pads with channels whose weights are zero.
 * Row layouts, real, channels contiguous within each part:
 *   state  [n_nodes][6F]  x = (a, b, c) and mu = (x, y, z): what a layer gathers from a neighbor
 *   grad   [n_nodes][4F]  g_q and g_mu (x, y, z): what its backward pass gathers
 * Atoms of a call are begin <= i < end; arrays marked "block" start at atom `begin`, others at atom 0. painn_block:
 * most atoms per call of node-local work, to stay in cache or to limit memory. painn_depth_first: 1 if blocks of
 * several layers should follow each other depth first, to stay in cache.
 */
#ifndef MLFF_OPS_PAINN_H
#define MLFF_OPS_PAINN_H

#include "backend.h"

#include <limits.h>

struct mlff_edges;

enum { MLFF_PAINN_BLOCK = 16, MLFF_PAINN_MAX_FEATURES = 512, MLFF_PAINN_LINE = 16 };

/* ---- radial part: painn.c --------------------------------------------------------------------------------------- */

/* The filter of an edge (3F numbers) is a linear combination of rows of a matrix R [n_rows][3F] that each layer has:
 *   filter(r) = sum_t coef_t(r) R[first(r) + t],   d filter/dr = sum_t slope_t(r) R[first(r) + t].
 * CUBIC: four consecutive rows; phi_k(r) = B(r/h - (k-3)), B the uniform cubic B-spline on [0, 4] with sum_k phi_k = 1,
 * h = cutoff/n, first = floor(r/h), rows 0 .. n+2. This is exactly the B-spline basis (functions k >= n do not exist:
 * three rows of zeros), and with many intervals a table of any smooth filter. From interval `split` on there is a
 * second spline, whose rows follow those of the first: first = floor(r/h) + 3, and three more rows.
 * GAUSSIAN, BESSEL: all rows; coef_k = phi_k(r) fc(r) for k < n, coef_n = fc(r) (the row of the bias), then zeros up to
 * n_terms; fc(r) = (cos(pi r/cutoff) + 1)/2. phi_k = exp(-(r - center_k)^2 / (2 width_k^2)) or sin(freq_k r)/r. */
typedef enum mlff_painn_kind { MLFF_PAINN_CUBIC, MLFF_PAINN_GAUSSIAN, MLFF_PAINN_BESSEL } mlff_painn_kind;

typedef struct mlff_painn_basis {
  mlff_painn_kind kind;
  int n;       /* intervals of CUBIC, functions of the others                                              */
  int split;   /* of CUBIC, where a table has a kink at this knot; 0: none                                 */
  int n_terms; /* 4 for CUBIC, else n + 1 rounded up to a multiple of MLFF_PAINN_BLOCK                     */
  double cutoff;
  const int32_t *slot; /* on the backend: [n_species], position of a species, -1: cannot occur. NULL: no pairs     */
  int n_slots;
  int32_t pair_rows; /* rows of R of a pair of species, by edge_lines; 0: R does not depend on the pair            */
  mlff_buf first;    /* real [n_terms] GAUSSIAN: centers, BESSEL: freqs; zeros after n                       */
  mlff_buf second;   /* real [n_terms] GAUSSIAN: 1/width^2                                                   */
} mlff_painn_basis;

/* The spline of a basis CUBIC. */
typedef struct mlff_painn_spline {
  double cutoff;
  int n, split; /* as in the basis; n = 0: there is none */
} mlff_painn_spline;

/* Radial data of all edges, for all layers, forward and backward. CUBIC fills whole lines, the others `terms` and the
 * elements u, 1/r and indices of lines, with first row 0: with two bases on the same radial data call CUBIC last. A
 * line contains coef[4], slope[4] (CUBIC only), u = vec/r, 1/r, and from the address of element 12 four int32: first
 * row (CUBIC, else 0), node of the neighbor, species of the neighbor, pair of species (edge_lines, else 0).
 *   edge_lines    lines, for a basis CUBIC; with `slot` pair = slot of the center * n_slots + slot of the neighbor, and
 *                 pair * pair_rows is added to the first row
 *   painn_radial  input of moments and messages: terms; on the CPU lines; on a GPU the spline, from which they compute
 *                 lines */
typedef struct mlff_painn_radial {
  mlff_painn_spline spline;
  mlff_buf line;  /* real [n_edges][MLFF_PAINN_LINE]                                  */
  mlff_buf terms; /* real [n_edges][2][n_terms] coef and slope of GAUSSIAN and BESSEL */
} mlff_painn_radial;

/* ---- first layer: painn_moments.c ------------------------------------------------------------------------------ */

/* painn_moments, painn_moments_backward. Without vectors and with q = embedding, the first message is linear in moments
 * of the environment, for each species s of neighbors and each row k of the filter:
 *   m_q[i][s][k] = sum_{j of s} coef_k(r_ij),   m_mu[i][s][k] = sum_{j of s} coef_k(r_ij) u_ij,
 * so that the cost per edge does not depend on F and the rest is a GEMM.
 *   moments_q   real [n][ld] block: n_slots * n_rows moments, then n_slots columns that are 1 at the slot of atom i
 *   moments_mu  real [n][3][ld_mu] block
 *   slot        int32 [n_species], on the backend: position of a species, -1 if it cannot occur */
typedef struct mlff_painn_moments_args {
  const struct mlff_edges *edges;
  const mlff_painn_radial *radial;
  int n_terms, n_rows, n_slots; /* n_rows per slot, >= first + n_terms of every edge */
  const int32_t *slot;
  int64_t begin, end;
  void *moments_q, *moments_mu;
  int64_t ld_q, ld_mu;
  /* backward: the arrays above contain adjoints (unit columns are ignored); edge_grad: dE/d(x_j - x_i) of the block's
   * edges */
  void *edge_grad;
  int accumulate; /* edge_grad contains sums of later layers */
} mlff_painn_moments_args;

/* ---- messages: painn_message.c --------------------------------------------------------------------------------- */

/* painn_message, forward, for receiver i over its edges, j = node of the neighbor, (a, b, c) = filter * x_j:
 *   q[i] = q_in[i] + sum a;   mu[i] = mu_i of state + sum (b u + c mu_j of state)
 * painn_message_backward, for sender j over its edges (the list is symmetric), i = node of the neighbor, u the unit
 * vector from i to j = minus that of the list:
 *   g_x[j] = sum (g_q[i], g_mu[i].u, g_mu[i].mu_j) * filter
 *   grad_in[j] = grad[j] + (0, sum g_mu[i] c)
 *   edge_grad[e] = or += (dE/du, dE/dr) of the edge, with u of the list: the edge that j sends along e
 */
typedef struct mlff_painn_message_args {
  const struct mlff_edges *edges;
  const mlff_painn_radial *radial;
  int n_terms, n_features;
  const void *rows; /* real [n_rows][3F] R of this layer */
  int64_t begin, end;
  const void *state; /* real [n_nodes][6F]             */
  const void *q_in;  /* real [n_local][F]              */
  void *q;           /* real [n][ldq] block            */
  int64_t ldq;
  void *mu;         /* real [n][3][F] block           */
  const void *grad; /* real [n_nodes][4F]             */
  void *grad_in;    /* real [n][4F] block             */
  void *grad_x;     /* real [n][3F] block             */
  void *edge_grad;  /* real [n_edges][4]              */
  int accumulate;   /* edge_grad += instead of =      */
} mlff_painn_message_args;

/* ---- update of an atom: painn_mix.c ---------------------------------------------------------------------------- */

/* The steps between the GEMMs of one update. All arrays are blocks of n atoms. `last`: no layer follows, so mu is not
 * updated, v does not exist and g_mu is zero; y and g_y have two parts.
 *   painn_mix_norm              n = sqrt(V.V + epsilon) into qn, 1/n into inv_norm
 *   painn_mix_update            q_out = q + s + t V.W,  mu_out = mu + v W
 *   painn_mix_backward_gates    g_y = (g_q, g_mu.W, g_q V.W)
 *   painn_mix_backward_vectors  g_W = g_mu v + g_q t V,  g_V = g_q t W + g_n/n V
 *   painn_mix_backward_sum      grad_q_out = g_q + grad_qn (its q part),  grad_mu_out = g_mu + grad_m */
typedef struct mlff_painn_mix_args {
  int64_t n;
  int n_features, last;
  double epsilon;
  const void *vw;  /* real [n][3][2F] V, W                                     */
  void *qn;        /* real [n][2F] q and the norm n of V                       */
  void *inv_norm;  /* real [n][F] 1/n                                          */
  const void *y;   /* real [n][3F] s, v, t  (last: [n][2F] s, t)               */
  const void *mu;  /* real [n][3][F] before the update                         */
  void *q_out;     /* real [n][F]                                              */
  void *state_out; /* real [n][6F]: its mu part is written                     */
  /* backward */
  const void *grad;    /* real [n][4F] adjoints after the update; last: [n][F] g_q   */
  void *grad_y;        /* real [n][3F] (last: [n][2F])                               */
  const void *grad_qn; /* real [n][2F]                                               */
  void *grad_vw;       /* real [n][3][2F]                                            */
  const void *grad_m;  /* real [n][3][F] adjoint of mu through the channel mix       */
  void *grad_q_out;    /* real [n][ld_grad_q] adjoints before the update             */
  void *grad_mu_out;   /* real [n][ld_grad_mu], 3F of each row are written           */
  int64_t ld_grad_q, ld_grad_mu;
} mlff_painn_mix_args;

/* painn_readout. energy[i] = bias + sum_k weight_k h[i][k] (0 for atoms of species -1); grad_h = weight * slope (may
 * alias slope). */
typedef struct mlff_painn_readout_args {
  int64_t n;
  int width;
  const void *h;      /* real [n][width]                                      */
  const void *slope;  /* real [n][width]                                      */
  const void *weight; /* real [width]                                         */
  double bias;
  const int32_t *species; /* [n] of the atoms, on the backend                 */
  void *energy;           /* real [n]                                             */
  void *grad_h;           /* real [n][width]                                      */
} mlff_painn_readout_args;

#endif
