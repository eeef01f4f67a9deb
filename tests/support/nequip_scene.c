#include "nequip_scene.h"

#include "plain_nequip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

weights_case make_weights(scene *s, test_rng *rng, int n_terms, int n_weights)
{
  ck_assert_int_le(n_weights, NEQUIP_SCENE_WEIGHTS);
  return (weights_case){.n_terms = n_terms,
                        .n_rows = n_terms == 4 ? n_rows_of(&s->basis.basis) : n_terms,
                        .n_weights = n_weights,
                        .terms = random_array(s->backend, rng, n_terms == 4 ? 0 : 2 * n_terms * s->edges.n_edges)};
}

mlff_nequip_radial radial_of(const scene *s, const weights_case *c)
{
  return (mlff_nequip_radial){.lines = &s->radial,
                              .terms = c->n_terms == 4 ? NULL : c->terms.buf.data,
                              .n_terms = c->n_terms,
                              .n_weights = c->n_weights};
}

void plain_weights(const scene *s, const weights_case *c, const double *rows, int64_t e, double *w, double *dw)
{
  memset(w, 0, (size_t) c->n_weights * sizeof *w);
  memset(dw, 0, (size_t) c->n_weights * sizeof *dw);
  for (int t = 0; t < c->n_rows; t++, rows += c->n_weights) {
    double slope, coef;
    if (c->n_terms == 4) {
      coef = coef_of(s, e, t, &slope);
    } else {
      coef = c->terms.host[2 * e * c->n_terms + t];
      slope = c->terms.host[(2 * e + 1) * c->n_terms + t];
    }
    if (coef == 0 && slope == 0) continue;
    for (int k = 0; k < c->n_weights; k++) {
      w[k] += coef * rows[k];
      dw[k] += slope * rows[k];
    }
  }
}

void edge_harmonics(const scene *s, int64_t e, double u[3], double y[16])
{
  for (int d = 0; d < 3; d++) u[d] = s->vec[4 * e + d] / s->vec[4 * e + 3];
  plain_harmonics(u, y);
}

void add_edge_gradient(const scene *s, int64_t e, const double u[3], const double gy[16], double gr, int accumulate,
                       double *edge_grad)
{
  double slope[16][3], g[3] = {0}, along = 0;
  plain_harmonics_slope(u, slope);
  for (int q = 0; q < 16; q++)
    for (int d = 0; d < 3; d++) g[d] += gy[q] * slope[q][d];
  for (int d = 0; d < 3; d++) along += g[d] * u[d];
  for (int d = 0; d < 3; d++) {
    double *to = edge_grad + 4 * e + d;
    *to = gr * u[d] + (g[d] - along * u[d]) / s->vec[4 * e + 3] + (accumulate ? *to : 0);
  }
}

void check_edge_grad(scene *s, array *a, int64_t begin, int64_t end, double factor)
{
  double *got = reals_from_backend(s->backend, a->buf.data, a->n);
  for (int64_t e = s->row[begin]; e < s->row[end]; e++) a->host[4 * e + 3] = got[4 * e + 3];
  free(got);
  check_array(s->backend, "edge_grad", a, factor);
}

mlff_nequip_row make_row(int n_orders, const int *n)
{
  mlff_nequip_row row = {.n_orders = n_orders};
  for (int l = 0; l < n_orders; l++) {
    row.n[l] = n[l];
    row.offset[l] = (int) row.ld;
    row.ld += (2 * l + 1) * n[l];
  }
  return row;
}

scene split_scene(mlff_backend *backend, int n_atoms)
{
  scene s = make_scene(backend, MLFF_PAINN_CUBIC, n_atoms);
  s.basis.basis.split = 5;
  make_radial(&s);
  return s;
}

void difference_of_edge(scene *s, int64_t e, double (*energy)(void *context), void *context, double g[3])
{
  const double h = 2e-4;
  double old[4], *v = s->vec + 4 * e;
  memcpy(old, v, sizeof old);
  for (int d = 0; d < 3; d++) {
    double at[5];
    for (int k = -2; k <= 2; k++) {
      v[d] = old[d] + k * h;
      v[3] = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
      at[k + 2] = k ? energy(context) : 0;
    }
    g[d] = (8 * (at[3] - at[1]) - (at[4] - at[0])) / (12 * h);
    memcpy(v, old, sizeof old);
  }
}
