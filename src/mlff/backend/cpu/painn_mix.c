/* painn_mix.c: the steps of an atom's update between its matrix products, and the readout, on the CPU.
 *
 * Forward                                        Backward, in reversed order
 *   V, W = mu M^T            (matrix product)      g_mu += (g_V, g_W) M           (matrix product, mix_backward_sum)
 *   n = sqrt(V.V + epsilon)  mix_norm              g_V += g_n/n V                 mix_backward_vectors
 *   s, v, t = MLP(q, n)      (matrix products)     g_q, g_n from g_s, g_v, g_t    (matrix products)
 *   q += s + t V.W           mix_update            g_s, g_v, g_t                  mix_backward_gates
 *   mu += v W                mix_update            g_W = g_mu v + g_q t V         mix_backward_vectors
 */
#include "painn.h"

void MLFF_CPU(painn_mix_norm_cpu)(mlff_backend *backend, const mlff_painn_mix_args *a)
{
  (void) backend;
  const int f = a->n_features;
  const real epsilon = (real) a->epsilon;
  for (int64_t i = 0; i < a->n; i++) {
    const real *v = (const real *) a->vw + i * 6 * f;
    real *norm = (real *) a->qn + i * 2 * f + f, *inverse = (real *) a->inv_norm + i * f;
    for (int k = 0; k < f; k += MLFF_VLEN) {
      const vreal vx = vload(v + k), vy = vload(v + 2 * f + k), vz = vload(v + 4 * f + k);
      const vreal n = vsqrt(vx * vx + vy * vy + vz * vz + epsilon);
      vstore(norm + k, n);
      vstore(inverse + k, 1 / n);
    }
  }
}

/* The vector parts of one atom at channel k. */
typedef struct mix_vectors {
  vreal vx, vy, vz, wx, wy, wz;
} mix_vectors;

MLFF_INLINE mix_vectors load_vectors(const real *vw, int f)
{
  return (mix_vectors){.vx = vload(vw),
                       .wx = vload(vw + f),
                       .vy = vload(vw + 2 * f),
                       .wy = vload(vw + 3 * f),
                       .vz = vload(vw + 4 * f),
                       .wz = vload(vw + 5 * f)};
}

MLFF_INLINE vreal dot_vw(const mix_vectors *m)
{
  return m->vx * m->wx + m->vy * m->wy + m->vz * m->wz;
}

void MLFF_CPU(painn_mix_update_cpu)(mlff_backend *backend, const mlff_painn_mix_args *a)
{
  (void) backend;
  const int f = a->n_features, n_parts = a->last ? 2 : 3;
  for (int64_t i = 0; i < a->n; i++) {
    const real *y = (const real *) a->y + i * n_parts * f, *q = (const real *) a->qn + i * 2 * f;
    const real *t = y + (n_parts - 1) * f;
    real *q_out = (real *) a->q_out + i * f;
    for (int k = 0; k < f; k += MLFF_VLEN) {
      const mix_vectors m = load_vectors((const real *) a->vw + i * 6 * f + k, f);
      vstore(q_out + k, vload(q + k) + vload(y + k) + vload(t + k) * dot_vw(&m));
      if (a->last) continue;
      const real *mu = (const real *) a->mu + i * 3 * f + k;
      real *mu_out = (real *) a->state_out + i * 6 * f + 3 * f + k;
      const vreal v = vload(y + f + k);
      vstore(mu_out, vload(mu) + v * m.wx);
      vstore(mu_out + f, vload(mu + f) + v * m.wy);
      vstore(mu_out + 2 * f, vload(mu + 2 * f) + v * m.wz);
    }
  }
}

/* q_out = q + s + t V.W and mu_out = mu + v W reversed towards s, v, t. */
void MLFF_CPU(painn_mix_backward_gates_cpu)(mlff_backend *backend, const mlff_painn_mix_args *a)
{
  (void) backend;
  const int f = a->n_features, n_parts = a->last ? 2 : 3;
  for (int64_t i = 0; i < a->n; i++) {
    const real *grad = (const real *) a->grad + i * (a->last ? 1 : 4) * f;
    real *gy = (real *) a->grad_y + i * n_parts * f;
    for (int k = 0; k < f; k += MLFF_VLEN) {
      const mix_vectors m = load_vectors((const real *) a->vw + i * 6 * f + k, f);
      const vreal gq = vload(grad + k);
      vstore(gy + k, gq);
      vstore(gy + (n_parts - 1) * f + k, gq * dot_vw(&m));
      if (a->last) continue;
      const real *gmu = grad + f + k;
      vstore(gy + f + k, vload(gmu) * m.wx + vload(gmu + f) * m.wy + vload(gmu + 2 * f) * m.wz);
    }
  }
}

/* The same towards V and W, together with n = sqrt(V.V + epsilon). */
void MLFF_CPU(painn_mix_backward_vectors_cpu)(mlff_backend *backend, const mlff_painn_mix_args *a)
{
  (void) backend;
  const int f = a->n_features, n_parts = a->last ? 2 : 3;
  for (int64_t i = 0; i < a->n; i++) {
    const real *grad = (const real *) a->grad + i * (a->last ? 1 : 4) * f, *y = (const real *) a->y + i * n_parts * f;
    const real *gn = (const real *) a->grad_qn + i * 2 * f + f, *inverse = (const real *) a->inv_norm + i * f;
    for (int k = 0; k < f; k += MLFF_VLEN) {
      const mix_vectors m = load_vectors((const real *) a->vw + i * 6 * f + k, f);
      real *gv = (real *) a->grad_vw + i * 6 * f + k, *gw = gv + f;
      const vreal gdot = vload(grad + k) * vload(y + (n_parts - 1) * f + k), gnn = vload(gn + k) * vload(inverse + k);
      vstore(gv, gdot * m.wx + gnn * m.vx);
      vstore(gv + 2 * f, gdot * m.wy + gnn * m.vy);
      vstore(gv + 4 * f, gdot * m.wz + gnn * m.vz);
      vreal gx = gdot * m.vx, gy = gdot * m.vy, gz = gdot * m.vz;
      if (!a->last) {
        const vreal v = vload(y + f + k);
        gx += v * vload(grad + f + k);
        gy += v * vload(grad + 2 * f + k);
        gz += v * vload(grad + 3 * f + k);
      }
      vstore(gw, gx);
      vstore(gw + 2 * f, gy);
      vstore(gw + 4 * f, gz);
    }
  }
}

/* q and mu reach the update directly and through the matrix products: both adjoints are added. */
void MLFF_CPU(painn_mix_backward_sum_cpu)(mlff_backend *backend, const mlff_painn_mix_args *a)
{
  (void) backend;
  const int f = a->n_features;
  for (int64_t i = 0; i < a->n; i++) {
    const real *grad = (const real *) a->grad + i * (a->last ? 1 : 4) * f, *gmu = grad + f;
    const real *through_q = (const real *) a->grad_qn + i * 2 * f, *through_mu = (const real *) a->grad_m + i * 3 * f;
    real *gq_out = (real *) a->grad_q_out + i * a->ld_grad_q, *gmu_out = (real *) a->grad_mu_out + i * a->ld_grad_mu;
    for (int k = 0; k < f; k += MLFF_VLEN) vstore(gq_out + k, vload(grad + k) + vload(through_q + k));
    for (int k = 0; k < 3 * f; k += MLFF_VLEN)
      vstore(gmu_out + k, a->last ? vload(through_mu + k) : vload(gmu + k) + vload(through_mu + k));
  }
}

void MLFF_CPU(painn_readout_cpu)(mlff_backend *backend, const mlff_painn_readout_args *a)
{
  (void) backend;
  const real *weight = a->weight;
  for (int64_t i = 0; i < a->n; i++) {
    const real *h = (const real *) a->h + i * a->width, *slope = (const real *) a->slope + i * a->width;
    real *grad_h = (real *) a->grad_h + i * a->width;
    vreal sum = vset(0);
    for (int k = 0; k < a->width; k += MLFF_VLEN) {
      const vreal w = vload(weight + k);
      sum += w * vload(h + k);
      vstore(grad_h + k, w * vload(slope + k));
    }
    ((real *) a->energy)[i] = a->species[i] < 0 ? 0 : (real) a->bias + vsum(sum);
  }
}
