/* mace.c: the MACE ops of the CPU (ops_mace.h). */
#include "nequip.h"

MLFF_INLINE int32_t slot_of(const mlff_mace_atoms *atoms, int64_t i)
{
  return atoms->species[i] < 0 ? -1 : atoms->slot[atoms->species[i]];
}

static int n_components(const mlff_nequip_row *row)
{
  return row->n_orders * row->n_orders;
}

static size_t bytes_of(int n)
{
  return (size_t) n * sizeof(real);
}

/* ---- matrices of an element -------------------------------------------------------------------------------------- */

void MLFF_CPU(mace_expand_cpu)(mlff_backend *backend, const mlff_mace_select_args *a)
{
  (void) backend;
  const mlff_nequip_row *row = &a->row, *wide_row = &a->wide;
  for (int64_t i = 0; i < a->atoms.n; i++) {
    const real *x = (const real *) a->x + i * row->ld;
    real *wide = (real *) a->wide_x + i * wide_row->ld;
    const int32_t slot = slot_of(&a->atoms, i);
    memset(wide, 0, (size_t) wide_row->ld * sizeof *wide);
    for (int l = 0; slot >= 0 && l < wide_row->n_orders; l++)
      for (int m = 0; m < 2 * l + 1; m++)
        memcpy(wide + wide_row->offset[l] + m * wide_row->n[l] + slot * row->n[l], x + row->offset[l] + m * row->n[l],
               bytes_of(row->n[l]));
  }
}

void MLFF_CPU(mace_pick_cpu)(mlff_backend *backend, const mlff_mace_select_args *a)
{
  (void) backend;
  const mlff_nequip_row *row = &a->row, *wide_row = &a->wide;
  for (int64_t i = 0; i < a->atoms.n; i++) {
    real *x = (real *) a->x + i * row->ld;
    const real *wide = (const real *) a->wide_x + i * wide_row->ld;
    const int32_t slot = slot_of(&a->atoms, i);
    memset(x, 0, (size_t) row->ld * sizeof *x);
    for (int l = 0; slot >= 0 && l < wide_row->n_orders; l++)
      for (int m = 0; m < 2 * l + 1; m++)
        memcpy(x + row->offset[l] + m * row->n[l], wide + wide_row->offset[l] + m * wide_row->n[l] + slot * row->n[l],
               bytes_of(row->n[l]));
  }
}

void MLFF_CPU(mace_start_cpu)(mlff_backend *backend, const mlff_mace_start_args *a)
{
  (void) backend;
  const int n = a->row.n[0];
  for (int64_t i = 0; i < a->atoms.n; i++) {
    real *x = (real *) a->x + i * a->row.ld;
    const int32_t slot = slot_of(&a->atoms, i);
    memset(x, 0, (size_t) a->row.ld * sizeof *x);
    if (slot >= 0 && a->bias) memcpy(x, (const real *) a->bias + (int64_t) slot * n, (size_t) n * sizeof *x);
  }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

enum { HARMONICS = MLFF_NEQUIP_HARMONICS };

/* What multiplies a of atom i. */
MLFF_INLINE real inverse_density(const mlff_mace_product_args *a, int64_t i)
{
  return a->density ? 1 / ((const real *) a->density)[i * MLFF_NEQUIP_BLOCK] : 1;
}

/* One vector of channels. */
MLFF_INLINE void product_forward(const mlff_mace_product_args *a, const real *coef, const real *in, real scale,
                                 int64_t n, real *out)
{
  const int32_t *t = a->terms;
  vreal x[HARMONICS];
  const int n_a = n_components(&a->a_row), n_p = n_components(&a->p_row);
  for (int k = 0; k < n_a; k++) x[k] = scale * vload(in + k * n);
  for (int p = 0; p < n_p; p++) {
    vreal sum = vset(0);
    for (int n_i = *t++; n_i > 0; n_i--) {
      const vreal xi = x[*t++];
      vreal si = vload(coef);
      coef += n;
      for (int n_j = *t++; n_j > 0; n_j--) {
        const vreal xj = x[*t++];
        vreal sij = vload(coef);
        coef += n;
        for (int n_k = *t++; n_k > 0; n_k--, coef += n) sij += vload(coef) * x[*t++];
        si += sij * xj;
      }
      sum += si * xi;
    }
    vstore(out + p * n, sum);
  }
}

/* reverses product_forward: g = dE/dp, grad = dE/da; returns the part of dE/dscale * scale */
MLFF_INLINE vreal product_backward(const mlff_mace_product_args *a, const real *coef, const real *in, const real *g,
                                   real scale, int64_t n, real *grad)
{
  const int32_t *t = a->terms;
  vreal x[HARMONICS], gx[HARMONICS];
  const int n_a = n_components(&a->a_row), n_p = n_components(&a->p_row);
  for (int k = 0; k < n_a; k++) {
    x[k] = scale * vload(in + k * n);
    gx[k] = vset(0);
  }
  for (int p = 0; p < n_p; p++) {
    const vreal gp = vload(g + p * n);
    for (int n_i = *t++; n_i > 0; n_i--) {
      const int i = *t++;
      const vreal g_si = gp * x[i];
      vreal si = vload(coef);
      coef += n;
      for (int n_j = *t++; n_j > 0; n_j--) {
        const int j = *t++;
        const vreal g_sij = g_si * x[j];
        vreal sij = vload(coef);
        coef += n;
        for (int n_k = *t++; n_k > 0; n_k--, coef += n, t++) {
          const vreal c = vload(coef);
          sij += c * x[*t];
          gx[*t] += c * g_sij;
        }
        gx[j] += g_si * sij;
        si += sij * x[j];
      }
      gx[i] += gp * si;
    }
  }
  vreal sum = vset(0);
  for (int k = 0; k < n_a; k++) {
    vstore(grad + k * n, scale * gx[k]);
    sum += gx[k] * x[k];
  }
  return sum;
}

void MLFF_CPU(mace_product_cpu)(mlff_backend *backend, const mlff_mace_product_args *a)
{
  (void) backend;
  const int64_t n = a->a_row.n[0];
  for (int64_t i = 0; i < a->atoms.n; i++) {
    const int32_t slot = slot_of(&a->atoms, i);
    real *p = (real *) a->p + i * a->p_row.ld;
    if (slot < 0) {
      memset(p, 0, (size_t) a->p_row.ld * sizeof *p);
      continue;
    }
    const real *in = (const real *) a->a + i * a->a_row.ld, *coef = (const real *) a->coef + slot * a->n_coef * n;
    const real scale = inverse_density(a, i);
    for (int64_t c = 0; c < n; c += MLFF_VLEN) product_forward(a, coef + c, in + c, scale, n, p + c);
  }
}

void MLFF_CPU(mace_product_backward_cpu)(mlff_backend *backend, const mlff_mace_product_args *a)
{
  (void) backend;
  const int64_t n = a->a_row.n[0];
  for (int64_t i = 0; i < a->atoms.n; i++) {
    const int32_t slot = slot_of(&a->atoms, i);
    real *grad = (real *) a->grad_a + i * a->a_row.ld;
    if (slot < 0) {
      memset(grad, 0, (size_t) a->a_row.ld * sizeof *grad);
      continue;
    }
    const real *in = (const real *) a->a + i * a->a_row.ld, *coef = (const real *) a->coef + slot * a->n_coef * n;
    const real *g = (const real *) a->grad_p + i * a->p_row.ld;
    const real scale = inverse_density(a, i);
    vreal sum = vset(0);
    for (int64_t c = 0; c < n; c += MLFF_VLEN) sum += product_backward(a, coef + c, in + c, g + c, scale, n, grad + c);
    if (a->grad_density) ((real *) a->grad_density)[i * MLFF_NEQUIP_BLOCK] = -scale * vsum(sum);
  }
}

void MLFF_CPU(mace_divide_cpu)(mlff_backend *backend, const mlff_mace_divide_args *a)
{
  (void) backend;
  for (int64_t i = 0; i < a->atoms.n; i++) {
    const int32_t slot = slot_of(&a->atoms, i);
    real *out = (real *) a->out + i * a->ld;
    if (slot < 0) {
      memset(out, 0, (size_t) a->ld * sizeof *out);
      continue;
    }
    const real *in = (const real *) a->in + i * a->ld,
               *bias = a->bias ? (const real *) a->bias + slot * a->n_bias : NULL;
    const real scale = a->density ? 1 / ((const real *) a->density)[i * MLFF_NEQUIP_BLOCK] : 1;
    for (int64_t c = 0; c < a->ld; c += MLFF_VLEN) {
      const vreal x = scale * vload(in + c);
      vstore(out + c, bias && c < a->n_bias ? x + vload(bias + c) : x);
    }
    if (!a->grad_density) continue;
    vreal sum = vset(0);
    for (int64_t c = 0; c < a->ld; c += MLFF_VLEN) sum += vload(out + c) * vload((const real *) a->z + i * a->ld + c);
    ((real *) a->grad_density)[i * MLFF_NEQUIP_BLOCK] = -scale * vsum(sum);
  }
}

/* ---- readout ----------------------------------------------------------------------------------------------------- */

static real dot(const real *x, const real *y, int n)
{
  vreal sum = vset(0);
  for (int c = 0; c < n; c += MLFF_VLEN) sum += vload(x + c) * vload(y + c);
  return vsum(sum);
}

/* grad += factor w */
static void add_row(real factor, const real *w, int n, real *grad)
{
  for (int c = 0; c < n; c += MLFF_VLEN) vstore(grad + c, vload(grad + c) + factor * vload(w + c));
}

/* silu or tanh, and its slope */
static real activate(real v, int is_tanh, real *slope)
{
  const real s = (real) (is_tanh ? tanh((double) v) : 1.0 / (1.0 + exp(-(double) v)));
  *slope = is_tanh ? 1 - s * s : s * (1 + v * (1 - s));
  return is_tanh ? s : v * s;
}

/* Energy of an atom with two hidden layers; its gradient is added to grad. */
static real readout_twice(const mlff_mace_readout_args *a, const real *x, real *grad)
{
  const int n = a->n_channels, n_hidden = a->n_hidden;
  const real *w = a->weight, *middle = a->middle, *bias = a->bias, *last = a->last, gain = (real) a->gain;
  real v[MLFF_MACE_HIDDEN], slope[MLFF_MACE_HIDDEN], g[MLFF_MACE_HIDDEN] = {0}, energy = 0;
  for (int h = 0; h < n_hidden; h++) v[h] = gain * activate(dot(w + (int64_t) h * n, x, n), a->is_tanh, &slope[h]);
  for (int k = 0; k < n_hidden; k++, middle += n_hidden) {
    real u = bias[k], d;
    for (int h = 0; h < n_hidden; h++) u += middle[h] * v[h];
    energy += last[k] * gain * activate(u, a->is_tanh, &d);
    for (int h = 0; h < n_hidden; h++) g[h] += last[k] * gain * d * middle[h];
  }
  for (int h = 0; grad && h < n_hidden; h++) add_row(g[h] * gain * slope[h], w + (int64_t) h * n, n, grad);
  return energy;
}

/* Energy of an atom; its gradient is added to grad. */
static real readout_atom(const mlff_mace_readout_args *a, int32_t slot, const real *x, real *grad)
{
  const real *w = a->weight;
  const int n = a->n_channels;
  if (a->n_hidden == 0) {
    if (grad) add_row(1, w, n, grad);
    return a->energy ? dot(w, x, n) : 0;
  }
  if (a->middle) return readout_twice(a, x, grad);
  real energy = 0;
  for (int h = 0; h < a->n_hidden; h++, w += n) {
    real slope;
    const real v = activate(dot(w, x, n), a->is_tanh, &slope),
               last = ((const real *) a->last)[slot * a->ld_last + h] * (real) a->gain;
    energy += last * v;
    if (grad) add_row(last * slope, w, n, grad);
  }
  return energy;
}

void MLFF_CPU(mace_readout_cpu)(mlff_backend *backend, const mlff_mace_readout_args *a)
{
  (void) backend;
  for (int64_t i = 0; i < a->atoms.n; i++) {
    real *grad = a->grad ? (real *) a->grad + i * a->ld : NULL;
    if (grad && !a->add_grad) memset(grad, 0, (size_t) a->ld * sizeof *grad);
    const int32_t slot = slot_of(&a->atoms, i);
    const real e = slot < 0 ? 0 : readout_atom(a, slot, (const real *) a->x + i * a->ld, grad);
    if (a->energy) ((real *) a->energy)[i] = (a->add_energy ? ((real *) a->energy)[i] : 0) + e;
  }
}
