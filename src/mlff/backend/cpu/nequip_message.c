/* nequip_message.c: messages of NequIP networks, forward and backward, on the CPU.
 *
 * Nothing is stored per edge: radial weights are rebuilt from the table, and the Clebsch-Gordan coefficients are
 * contracted with the harmonics of the edge first, once for all channels of a path: a (2l1+1) x (2l3+1) matrix K, by
 * which a vector of channels is multiplied with scalars from memory. Both passes own the receiver i. Forward takes
 * MLFF_NEQUIP_SCRATCH edges at a time, so that sums are loaded and stored once for all of them. Backward scatters to
 * the neighbors' adjoints, one after the other.
 * The adjoint of K is reduced over channels, and then contracted with the coefficients, while its lanes are still
 * apart: these are constants of the code, and of 16 lanes only the 16 harmonics of an edge have to be summed.
 *
 * Measured on a Zen 4 core (AVX-512, float) with nequix-oam-1-pft, whole evaluations: 64 atoms of silicon, 42
 * neighbors each, 18.4 ms; 192 atoms of water, 84 each, 106 ms. What lost: one edge at a time forward (3 % slower),
 * two (1 %); eight are no faster than four.
 */
#include "nequip.h"

#include "../nequip_cg.h"

enum { EDGES = MLFF_NEQUIP_SCRATCH };

/* The edges of a batch. */
typedef struct edge_work {
  const real *y[EDGES];           /* features of the neighbor            */
  real *w[EDGES], *dw, *k[EDGES]; /* radial weights, their slopes, couplings */
} edge_work;

MLFF_INLINE int sum_couplings(const mlff_nequip_message_args *a)
{
  return a->n_coupling[1] + a->n_coupling[2] + a->n_coupling[3];
}

/* k = sum_j Y_j coupling[j], order after order. */
MLFF_INLINE void edge_couplings(const mlff_nequip_message_args *a, const real *unit, real *k)
{
  real y[MLFF_NEQUIP_HARMONICS];
  const real *c = a->coupling;
  mlff_nequip_harmonics(unit, y);
  for (int l = 1; l < MLFF_NEQUIP_ORDERS; l++) {
    const int n = a->n_coupling[l];
    for (int x = 0; x < n; x += MLFF_VLEN) {
      vreal sum = y[l * l] * vload(c + x);
      for (int j = 1; j < 2 * l + 1; j++) sum += y[l * l + j] * vload(c + j * n + x);
      vstore(k + x, sum);
    }
    c += (2 * l + 1) * n;
    k += n;
  }
}

/* Fills place q of the scratch for edge e, with slopes if `slopes`, which is a constant. */
MLFF_INLINE void edge_begin(const mlff_nequip_message_args *a, int64_t e, int q, const int slopes, edge_work *work)
{
  const int64_t n_weights = a->radial.n_weights;
  const real *line = edge_line(&a->radial, e);
  real *room = (real *) a->scratch + q * (2 * n_weights + sum_couplings(a));
  work->w[q] = room;
  work->k[q] = room + 2 * n_weights;
  if (slopes) work->dw = room + n_weights;
  work->y[q] = (const real *) a->y + line_load_index(line).node * a->in.ld;
  edge_weights(&a->radial, a->rows, e, room, slopes ? room + n_weights : NULL);
  edge_couplings(a, line + LINE_UNIT, work->k[q]);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

/* sums[k] += w sum_i K[i][k] y[i] of n edges at one path, n1 = 2l1+1 and n3 = 2l3+1; l2 = 0: K is the identity. */
MLFF_INLINE void path_forward(const int n1, const int n3, const int identity, const mlff_nequip_message_args *a,
                              const mlff_nequip_path *p, const edge_work *work, int n, real *sums)
{
  const int64_t ld1 = a->in.n[p->l1], ld3 = a->out.n[p->l3], in = a->in.offset[p->l1];
  for (int c = 0; c < p->n; c += MLFF_VLEN) {
    real *out = sums + p->out + c;
    vreal sum[7];
#pragma GCC unroll 7
    for (int k = 0; k < n3; k++) sum[k] = vload(out + k * ld3);
    for (int q = 0; q < n; q++) {
      const real *y = work->y[q] + in + c, *coupling = work->k[q] + p->coupling;
      const vreal w = vload(work->w[q] + p->column + c);
#pragma GCC unroll 7
      for (int i = 0; i < n1; i++) {
        const vreal wy = w * vload(y + i * ld1);
        if (identity) {
          sum[i] += wy;
          continue;
        }
#pragma GCC unroll 7
        for (int k = 0; k < n3; k++) sum[k] += coupling[i * n3 + k] * wy;
      }
    }
#pragma GCC unroll 7
    for (int k = 0; k < n3; k++) vstore(out + k * ld3, sum[k]);
  }
}

#define FORWARD(l1, l3)                                               \
  case 4 * (l1) + (l3):                                               \
    path_forward(2 * (l1) + 1, 2 * (l3) + 1, 0, a, p, work, n, sums); \
    break;
#define FORWARD_IDENTITY(l)                                         \
  case 16 + (l):                                                    \
    path_forward(2 * (l) + 1, 2 * (l) + 1, 1, a, p, work, n, sums); \
    break;
#define FORWARD_FROM(l1) FORWARD(l1, 0) FORWARD(l1, 1) FORWARD(l1, 2) FORWARD(l1, 3) FORWARD_IDENTITY(l1)

static void edges_forward(const mlff_nequip_message_args *a, const edge_work *work, int n, real *sums)
{
  for (const mlff_nequip_path *p = a->paths; p < a->paths + a->n_paths; p++) {
    switch (p->l2 == 0 ? 16 + p->l1 : 4 * p->l1 + p->l3) {
      FORWARD_FROM(0)
      FORWARD_FROM(1)
      FORWARD_FROM(2)
      FORWARD_FROM(3)
    }
  }
}

void MLFF_CPU(nequip_message_cpu)(mlff_backend *backend, const mlff_nequip_message_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data;
  edge_work work;
  for (int64_t i = a->begin; i < a->end; i++) {
    real *sums = (real *) a->sums + (i - a->begin) * a->out.ld;
    memset(sums, 0, (size_t) a->out.ld * sizeof *sums);
    for (int64_t e = row[i]; e < row[i + 1]; e += EDGES) {
      const int n = row[i + 1] - e < EDGES ? (int) (row[i + 1] - e) : EDGES;
      for (int q = 0; q < n; q++) edge_begin(a, e + q, q, 0, &work);
      edges_forward(a, &work, n, sums);
    }
  }
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

/* reverses path_forward for one edge, with g = g_sums: for each i and channel
 *   A = sum_k K[i][k] g[k];  dE/dr += dw A y[i];  grad[i] += w A;  g_K[i][k] = sum_u w y[i] g[k]
 * and dE/dY_j += sum_ik c_ijk g_K[i][k], by the n_cg entries of cg. Returns the part of dE/dr. */
MLFF_INLINE vreal path_backward(const int l1, const int l2, const int l3, const mlff_cg_entry *cg, const int n_cg,
                                const mlff_nequip_message_args *a, const mlff_nequip_path *p, const edge_work *work,
                                const real *g, real *grad, vreal *gy)
{
  const int n1 = 2 * l1 + 1, n3 = 2 * l3 + 1;
  const int64_t ld1 = a->in.n[l1], ld3 = a->out.n[l3], in = a->in.offset[l1];
  const real *w = work->w[0] + p->column, *dw = work->dw + p->column, *coupling = work->k[0] + p->coupling;
  vreal gr = vset(0), sum[7];
  if (l2 > 0) {
#pragma GCC unroll 7
    for (int j = 0; j < 2 * l2 + 1; j++) sum[j] = gy[l2 * l2 + j];
  }
#pragma GCC unroll 7
  for (int i = 0; i < n1; i++) {
    const real *y = work->y[0] + in + i * ld1;
    real *grad_in = grad + in + i * ld1;
    vreal gk[7];
#pragma GCC unroll 7
    for (int k = 0; k < n3; k++) gk[k] = vset(0);
    for (int c = 0; c < p->n; c += MLFF_VLEN) {
      const real *grad_out = g + p->out + c;
      const vreal yi = vload(y + c), wi = vload(w + c), wy = wi * yi;
      vreal back = l2 == 0 ? vload(grad_out + i * ld3) : vset(0);
      if (l2 > 0) {
#pragma GCC unroll 7
        for (int k = 0; k < n3; k++) {
          const vreal gc = vload(grad_out + k * ld3);
          back += coupling[i * n3 + k] * gc;
          gk[k] += wy * gc;
        }
      }
      gr += back * yi * vload(dw + c);
      vstore(grad_in + c, vload(grad_in + c) + wi * back);
    }
    if (l2 == 0) continue;
#pragma GCC unroll 42
    for (int q = 0; q < n_cg; q++)
      if (cg[q].i == i) sum[cg[q].j] += (real) cg[q].c * gk[cg[q].k];
  }
  if (l2 > 0) {
#pragma GCC unroll 7
    for (int j = 0; j < 2 * l2 + 1; j++) gy[l2 * l2 + j] = sum[j];
  }
  return gr;
}

#define BACKWARD(l1, l2, l3, n)                                                        \
  case 16 * (l1) + 4 * (l2) + (l3):                                                    \
    gr += path_backward(l1, l2, l3, mlff_cg_##l1##l2##l3, n, a, p, work, g, grad, gy); \
    break;

/* dE/dr of one edge, with lanes apart; dE/dY in gy [16], and the neighbor's adjoints in grad. */
static vreal edge_backward(const mlff_nequip_message_args *a, const edge_work *work, const real *g, real *grad,
                           vreal *gy)
{
  vreal gr = vset(0);
  for (const mlff_nequip_path *p = a->paths; p < a->paths + a->n_paths; p++) {
    switch (16 * p->l1 + 4 * p->l2 + p->l3) {
      MLFF_CG_TRIPLES(BACKWARD)
    }
  }
  return gr;
}

void MLFF_CPU(nequip_message_backward_cpu)(mlff_backend *backend, const mlff_nequip_message_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data;
  edge_work work;
  for (int64_t i = a->begin; i < a->end; i++) {
    const real *g = (const real *) a->sums + (i - a->begin) * a->out.ld;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      vreal gy[MLFF_NEQUIP_HARMONICS];
      for (int k = 0; k < MLFF_NEQUIP_HARMONICS; k++) gy[k] = vset(0);
      edge_begin(a, e, 0, 1, &work);
      real *grad = (real *) a->grad + (work.y[0] - (const real *) a->y);
      const vreal gr = edge_backward(a, &work, g, grad, gy);
      edge_store_gradient(&a->radial, e, gy, gr, a->edge_grad, a->accumulate);
    }
  }
}
