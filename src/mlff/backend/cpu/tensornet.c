/* tensornet.c: node-local TensorNet ops of the CPU (ops_tensornet.h), one vector of channels at a time. */
#include "tensornet.h"

/* ---- embedding --------------------------------------------------------------------------------------------------- */

void MLFF_CPU(tensornet_pair_cpu)(mlff_backend *backend, const mlff_tensornet_pair_args *a)
{
  (void) backend;
  const int64_t f = a->n_features;
  for (int64_t i = 0; i < a->atoms.n; i++) {
    const int32_t slot = atom_slot(&a->atoms, i);
    const real *vu = (const real *) a->vu + i * COMPONENTS * 2 * f, *z = (const real *) a->z + slot * f;
    real *t = (real *) a->t + i * COMPONENTS * f;
    if (slot < 0) {
      memset(t, 0, (size_t) (COMPONENTS * f) * sizeof *t);
      continue;
    }
    for (int k = 0; k < COMPONENTS; k++, vu += 2 * f, t += f)
      for (int64_t c = 0; c < f; c += MLFF_VLEN) vstore(t + c, vload(vu + c) + vload(z + c) * vload(vu + f + c));
  }
}

void MLFF_CPU(tensornet_pair_backward_cpu)(mlff_backend *backend, const mlff_tensornet_pair_args *a)
{
  (void) backend;
  const int64_t f = a->n_features;
  for (int64_t i = 0; i < a->atoms.n; i++) {
    const int32_t slot = atom_slot(&a->atoms, i);
    real *vu = (real *) a->vu + i * COMPONENTS * 2 * f;
    const real *t = (const real *) a->t + i * COMPONENTS * f, *z = (const real *) a->z + slot * f;
    if (slot < 0) {
      memset(vu, 0, (size_t) (COMPONENTS * 2 * f) * sizeof *vu);
      continue;
    }
    for (int k = 0; k < COMPONENTS; k++, vu += 2 * f, t += f) {
      for (int64_t c = 0; c < f; c += MLFF_VLEN) {
        const vreal g = vload(t + c);
        vstore(vu + c, g);
        vstore(vu + f + c, vload(z + c) * g);
      }
    }
  }
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* Components first .. end of a group of parts. */
typedef struct group_range {
  int first, end;
} group_range;

static group_range group_of(int n_groups, int group)
{
  static const group_range parts[3] = {{0, 1}, {1, 4}, {4, 9}};
  return n_groups == 1 ? (group_range){0, COMPONENTS} : parts[group];
}

/* Sum of (x - shift)^power, power 1 or 2, over the first n channels of each group. */
static real group_sum(const mlff_tensornet_norm_args *a, const real *x, real shift, const int power)
{
  const int n = a->n_channels, whole = n / MLFF_VLEN * MLFF_VLEN;
  vreal sum = vset(0);
  real rest = 0;
  for (int g = 0; g < a->n_groups; g++, x += a->n_features) {
    for (int c = 0; c < whole; c += MLFF_VLEN) {
      const vreal d = vload(x + c) - shift;
      sum += power == 2 ? d * d : d;
    }
    for (int c = whole; c < n; c++) rest += power == 2 ? (x[c] - shift) * (x[c] - shift) : x[c] - shift;
  }
  return vsum(sum) + rest;
}

static void norm_atom(const mlff_tensornet_norm_args *a, const real *x, real *out, real *inverse)
{
  const int64_t f = a->n_features;
  const real count = (real) (a->n_groups * a->n_channels);
  for (int g = 0; g < a->n_groups; g++) {
    const group_range r = group_of(a->n_groups, g);
    for (int64_t c = 0; c < f; c += MLFF_VLEN) {
      vreal sum = vset(0);
      for (int k = r.first; k < r.end; k++) sum += vload(x + k * f + c) * vload(x + k * f + c);
      vstore(out + g * f + c, sum);
    }
  }
  const real mean = group_sum(a, out, 0, 1) / count;
  const real s = *inverse = (real) (1 / sqrt((double) (group_sum(a, out, mean, 2) / count) + a->epsilon));
  for (int g = 0; g < a->n_groups; g++, out += f) {
    for (int64_t c = 0; c < f; c += MLFF_VLEN) vstore(out + c, (vload(out + c) - mean) * s);
    for (int64_t c = a->n_channels; c < f; c++) out[c] = 0;
  }
}

void MLFF_CPU(tensornet_norm_cpu)(mlff_backend *backend, const mlff_tensornet_norm_args *a)
{
  (void) backend;
  for (int64_t i = 0; i < a->n; i++)
    norm_atom(a, (const real *) a->x + i * COMPONENTS * a->n_features,
              (real *) a->out + i * a->n_groups * a->n_features, (real *) a->inverse + i);
}

/* Sums over the channels of v and of v h; both are zero in padded channels. */
static void norm_sums(const real *v, const real *h, int64_t n, real *sum_v, real *sum_vh)
{
  vreal sv = vset(0), svh = vset(0);
  for (int64_t c = 0; c < n; c += MLFF_VLEN) {
    sv += vload(v + c);
    svh += vload(v + c) * vload(h + c);
  }
  *sum_v = vsum(sv);
  *sum_vh = vsum(svh);
}

void MLFF_CPU(tensornet_norm_backward_cpu)(mlff_backend *backend, const mlff_tensornet_norm_args *a)
{
  (void) backend;
  const int64_t f = a->n_features, width = a->n_groups * f;
  const real count = (real) (a->n_groups * a->n_channels);
  for (int64_t i = 0; i < a->n; i++) {
    const real *x = (const real *) a->x + i * COMPONENTS * f, *h = (const real *) a->out + i * width;
    const real *v = (const real *) a->grad_out + i * width;
    real *grad = (real *) a->grad + i * COMPONENTS * f, mean, slant;
    norm_sums(v, h, width, &mean, &slant);
    mean /= count;
    slant /= count;
    const real scale = 2 * ((const real *) a->inverse)[i];
    for (int g = 0; g < a->n_groups; g++, v += f, h += f) {
      const group_range r = group_of(a->n_groups, g);
      for (int64_t c = 0; c < f; c += MLFF_VLEN) {
        const vreal gs = scale * (vload(v + c) - mean - vload(h + c) * slant);
        for (int k = r.first; k < r.end; k++) {
          const vreal more = gs * vload(x + k * f + c);
          vstore(grad + k * f + c, a->accumulate ? vload(grad + k * f + c) + more : more);
        }
      }
    }
  }
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

MLFF_INLINE vreal activation(const mlff_tensornet_act act, vreal x, vreal *slope)
{
  if (act == MLFF_TENSORNET_TANH) {
    const vreal s = vsigmoid(2 * x), t = 2 * s - 1;
    *slope = 4 * s * (1 - s);
    return t;
  }
  const vreal s = vsigmoid(x);
  if (act == MLFF_TENSORNET_SILU) return mlff_silu(x, s, slope);
  *slope = act == MLFF_TENSORNET_SIGMOID ? s * (1 - s) : s;
  return act == MLFF_TENSORNET_SIGMOID ? s : vssp(x);
}

void MLFF_CPU(tensornet_activate_cpu)(mlff_backend *backend, const mlff_tensornet_activate_args *a)
{
  (void) backend;
  real *x = a->x, *slope = a->slope;
  for (int64_t k = 0; k < a->n; k += MLFF_VLEN) {
    const int n = a->n - k < MLFF_VLEN ? (int) (a->n - k) : MLFF_VLEN;
    vreal d;
    const vreal y = activation(a->act, vload_part(x + k, n), &d);
    vstore_part(x + k, y, n);
    vstore_part(slope + k, d, n);
  }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* y = x/(||x||^2 + 1); returns 1/(||x||^2 + 1) */
MLFF_INLINE vreal normalize(const vreal x[COMPONENTS], vreal y[COMPONENTS])
{
  const vreal inverse = 1 / (1 + mlff_tensornet_dot(x, x));
#pragma GCC unroll 9
  for (int k = 0; k < COMPONENTS; k++) y[k] = x[k] * inverse;
  return inverse;
}

/* g = dE/dx from g = dE/dy, with y and the result of normalize: g inverse - 2 y <g, y> */
MLFF_INLINE void normalize_backward(const vreal y[COMPONENTS], vreal inverse, vreal g[COMPONENTS])
{
  const vreal slant = 2 * mlff_tensornet_dot(g, y);
#pragma GCC unroll 9
  for (int k = 0; k < COMPONENTS; k++) g[k] = g[k] * inverse - y[k] * slant;
}

void MLFF_CPU(tensornet_gate_cpu)(mlff_backend *backend, const mlff_tensornet_gate_args *a)
{
  (void) backend;
  const int64_t f = a->n_features;
  for (int64_t i = 0; i < a->n; i++) {
    const real *s = (const real *) a->s + i * 3 * f, *t = (const real *) a->t + i * COMPONENTS * f;
    for (int64_t c = 0; c < f; c += MLFF_VLEN) {
      vreal x[COMPONENTS];
      load_row(t + c, f, x);
#pragma GCC unroll 9
      for (int k = 0; k < COMPONENTS; k++) x[k] *= vload(s + part_of(k) * f + c);
      vstore((real *) a->inverse + i * f + c, normalize(x, x));
      store_row((real *) a->x + i * COMPONENTS * f + c, f, x);
    }
  }
}

void MLFF_CPU(tensornet_gate_backward_cpu)(mlff_backend *backend, const mlff_tensornet_gate_args *a)
{
  (void) backend;
  const int64_t f = a->n_features;
  for (int64_t i = 0; i < a->n; i++) {
    const real *s = (const real *) a->s + i * 3 * f, *slope = (const real *) a->slope + i * 3 * f;
    const int64_t row = i * COMPONENTS * f;
    real *grad_s = (real *) a->grad_s + i * 3 * f;
    for (int64_t c = 0; c < f; c += MLFF_VLEN) {
      vreal x[COMPONENTS], t[COMPONENTS], g[COMPONENTS], gs[3] = {vset(0), vset(0), vset(0)};
      load_row((const real *) a->x + row + c, f, x);
      load_row((const real *) a->t + row + c, f, t);
      load_row((const real *) a->grad + row + c, f, g);
      normalize_backward(x, vload((const real *) a->inverse + i * f + c), g);
#pragma GCC unroll 9
      for (int k = 0; k < COMPONENTS; k++) {
        gs[part_of(k)] += g[k] * t[k];
        g[k] *= vload(s + part_of(k) * f + c);
      }
      store_row((real *) a->grad + row + c, f, g);
      for (int p = 0; p < 3; p++) vstore(grad_s + p * f + c, gs[p] * vload(slope + p * f + c));
    }
  }
}

/* Components of M Y + Y M or 2 Y M, from matrices. */
MLFF_INLINE void product(const int is_o3, const vreal y[COMPONENTS], const vreal m[COMPONENTS], vreal out[COMPONENTS])
{
  vreal q[COMPONENTS];
  mlff_tensornet_multiply(y, 0, m, 0, 0, q);
  if (is_o3) mlff_tensornet_multiply(m, 0, y, 0, 1, q);
  mlff_tensornet_reduce(q, out);
  for (int k = 0; !is_o3 && k < COMPONENTS; k++) out[k] *= 2;
}

MLFF_INLINE void load_matrix(const real *row, int64_t f, vreal matrix[COMPONENTS])
{
  vreal x[COMPONENTS];
  load_row(row, f, x);
  mlff_tensornet_expand(x, matrix);
}

MLFF_INLINE void product_rows(const int is_o3, const mlff_tensornet_product_args *a)
{
  const int64_t f = a->n_features;
  for (int64_t i = 0; i < a->n; i++) {
    const int64_t row = i * COMPONENTS * f;
    for (int64_t c = 0; c < f; c += MLFF_VLEN) {
      vreal x[COMPONENTS], y[COMPONENTS], m[COMPONENTS];
      load_matrix((const real *) a->y + row + c, f, y);
      load_matrix((const real *) a->m + row + c, f, m);
      product(is_o3, y, m, x);
      normalize(x, x);
      store_row((real *) a->r + row + c, f, x);
    }
  }
}

void MLFF_CPU(tensornet_product_cpu)(mlff_backend *backend, const mlff_tensornet_product_args *a)
{
  (void) backend;
  if (a->is_o3)
    product_rows(1, a);
  else
    product_rows(0, a);
}

/* grad_m = G Y^T + Y^T G and grad_y = M^T G + G M^T, or 2 Y^T G and 2 G M^T, G = dE/dQ */
MLFF_INLINE void product_backward_rows(const int is_o3, const mlff_tensornet_product_args *a)
{
  const int64_t f = a->n_features;
  for (int64_t i = 0; i < a->n; i++) {
    const int64_t row = i * COMPONENTS * f;
    for (int64_t c = 0; c < f; c += MLFF_VLEN) {
      vreal x[COMPONENTS], y[COMPONENTS], m[COMPONENTS], g[COMPONENTS], back[COMPONENTS];
      load_matrix((const real *) a->y + row + c, f, y);
      load_matrix((const real *) a->m + row + c, f, m);
      product(is_o3, y, m, x);
      const vreal inverse = normalize(x, x);
      load_row((const real *) a->grad_r + row + c, f, g);
      normalize_backward(x, inverse, g);
      for (int k = 0; !is_o3 && k < COMPONENTS; k++) g[k] *= 2;
      mlff_tensornet_expand(g, x);
      mlff_tensornet_multiply(y, 1, x, 0, 0, back);
      if (is_o3) mlff_tensornet_multiply(x, 0, y, 1, 1, back);
      mlff_tensornet_reduce(back, g);
      store_row((real *) a->grad_m + row + c, f, g);
      mlff_tensornet_multiply(x, 0, m, 1, 0, back);
      if (is_o3) mlff_tensornet_multiply(m, 1, x, 0, 1, back);
      mlff_tensornet_reduce(back, g);
      store_row((real *) a->grad_y + row + c, f, g);
    }
  }
}

void MLFF_CPU(tensornet_product_backward_cpu)(mlff_backend *backend, const mlff_tensornet_product_args *a)
{
  (void) backend;
  if (a->is_o3)
    product_backward_rows(1, a);
  else
    product_backward_rows(0, a);
}

/* ---- update ------------------------------------------------------------------------------------------------------ */

void MLFF_CPU(tensornet_update_cpu)(mlff_backend *backend, const mlff_tensornet_update_args *a)
{
  (void) backend;
  const int64_t f = a->n_features;
  for (int64_t i = 0; i < a->n; i++) {
    const int64_t row = i * COMPONENTS * f;
    for (int64_t c = 0; c < f; c += MLFF_VLEN) {
      vreal x[COMPONENTS], d[COMPONENTS], m[COMPONENTS], dd[COMPONENTS];
      load_row((const real *) a->d + row + c, f, d);
      mlff_tensornet_expand(d, m);
      mlff_tensornet_multiply(m, 0, m, 0, 0, dd);
      mlff_tensornet_reduce(dd, m);
      load_row((const real *) a->x + row + c, f, x);
#pragma GCC unroll 9
      for (int k = 0; k < COMPONENTS; k++) x[k] += d[k] + m[k];
      if (a->inverse) vstore((real *) a->inverse + i * f + c, normalize(x, x));
      store_row((real *) a->out + row + c, f, x);
    }
  }
}

/* grad_d = G + G D^T + D^T G, G = dE/dX */
void MLFF_CPU(tensornet_update_backward_cpu)(mlff_backend *backend, const mlff_tensornet_update_args *a)
{
  (void) backend;
  const int64_t f = a->n_features;
  for (int64_t i = 0; i < a->n; i++) {
    const int64_t row = i * COMPONENTS * f;
    for (int64_t c = 0; c < f; c += MLFF_VLEN) {
      vreal x[COMPONENTS], d[COMPONENTS], g[COMPONENTS], gd[COMPONENTS];
      load_row((const real *) a->grad + row + c, f, g);
      if (a->inverse) {
        load_row((const real *) a->out + row + c, f, x);
        normalize_backward(x, vload((const real *) a->inverse + i * f + c), g);
        store_row((real *) a->grad + row + c, f, g);
      }
      load_matrix((const real *) a->d + row + c, f, d);
      mlff_tensornet_expand(g, x);
      mlff_tensornet_multiply(x, 0, d, 1, 0, gd);
      mlff_tensornet_multiply(d, 1, x, 0, 1, gd);
      mlff_tensornet_reduce(gd, x);
#pragma GCC unroll 9
      for (int k = 0; k < COMPONENTS; k++) x[k] += g[k];
      store_row((real *) a->grad_d + row + c, f, x);
    }
  }
}

/* ---- readout ----------------------------------------------------------------------------------------------------- */

static real weighted_sum(const real *w, const real *h, int n)
{
  vreal sum = vset(0);
  for (int c = 0; c < n; c += MLFF_VLEN) sum += vload(w + c) * vload(h + c);
  return vsum(sum);
}

void MLFF_CPU(tensornet_readout_cpu)(mlff_backend *backend, const mlff_tensornet_readout_args *a)
{
  (void) backend;
  const int f = a->n_features;
  const real *w = a->weight;
  for (int64_t i = 0; i < a->atoms.n; i++) {
    const real *h = (const real *) a->h + i * 2 * f, *slope = (const real *) a->slope + i * 2 * f;
    real *grad = (real *) a->grad + i * 2 * f;
    if (atom_slot(&a->atoms, i) < 0) {
      memset(grad, 0, 2 * (size_t) f * sizeof *grad);
      ((real *) a->energy)[i] = 0;
      continue;
    }
    const real value = weighted_sum(w, h, f) + (real) a->bias[0], gate = weighted_sum(w + f, h + f, f);
    const real s = (real) (1.0 / (1.0 + exp(-((double) gate + a->bias[1])))), scale = (real) a->scale;
    ((real *) a->energy)[i] = scale * value * s;
    const real by_value = scale * s, by_gate = scale * value * s * (1 - s);
    for (int c = 0; c < f; c += MLFF_VLEN) {
      vstore(grad + c, by_value * vload(w + c) * vload(slope + c));
      vstore(grad + f + c, by_gate * vload(w + f + c) * vload(slope + f + c));
    }
  }
}
