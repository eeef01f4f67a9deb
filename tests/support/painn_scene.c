#include "painn_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

array array_of(mlff_backend *backend, const double *x, int64_t n)
{
  mlff_error error = {0};
  array a = {.n = n, .host = malloc((size_t) (n + 1) * sizeof(double))};
  for (int64_t k = 0; k < n; k++) a.host[k] = backend->real_size == sizeof(float) ? (double) (float) x[k] : x[k];
  test_ok(mlff_buf_reserve(backend, &a.buf, (size_t) n * backend->real_size, &error), error);
  test_ok(backend->ops->upload_reals(backend, a.buf.data, a.host, n, &error), error);
  return a;
}

array random_array(mlff_backend *backend, test_rng *rng, int64_t n)
{
  double *x = malloc((size_t) (n + 1) * sizeof *x);
  for (int64_t k = 0; k < n; k++) x[k] = test_uniform(rng, -1.0, 1.0);
  array a = array_of(backend, x, n);
  free(x);
  return a;
}

void array_free(mlff_backend *backend, array *a)
{
  free(a->host);
  mlff_buf_release(backend, &a->buf);
}

void check_array(mlff_backend *backend, const char *name, const array *a, double factor)
{
  mlff_error error = {0};
  char text[512];
  double *got = malloc((size_t) (a->n + 1) * sizeof *got);
  test_ok(backend->ops->download_reals(backend, got, a->buf.data, a->n, &error), error);
  const double tolerance = factor * rounding(backend);
  if (!test_near(text, sizeof text, name, got, a->host, a->n, tolerance, tolerance))
    ck_abort_msg("%s %s: %s", backend->kernels, backend->precision, text);
  mark_point();
  free(got);
}

/* ---- radial data ------------------------------------------------------------------------------------------------ */

/* B on [0, 4] by truncated powers, and its slope; these powers cancel, so with more digits than those of the result. */
static double spline(long double x, double *slope)
{
  static const int factor[5] = {1, -4, 6, -4, 1};
  long double value = 0, derivative = 0;
  *slope = 0;
  if (x <= 0 || x >= 4) return 0;
  for (int k = 0; k < 5; k++) {
    const long double y = x > k ? x - k : 0;
    value += factor[k] * y * y * y / 6;
    derivative += factor[k] * y * y / 2;
  }
  *slope = (double) derivative;
  return (double) value;
}

double radial_function(const mlff_painn_basis *basis, const double *first, const double *second, int k, double r,
                       double *slope)
{
  const double pi = acos(-1.0), x = pi * r / basis->cutoff;
  double phi = 1.0, dphi = 0.0;
  if (basis->kind == MLFF_PAINN_CUBIC) {
    const long double h = (long double) basis->cutoff / basis->n;
    const int behind = basis->split && k >= basis->split + 3;
    *slope = 0.0;
    if (basis->split && behind != (r >= basis->split * h)) return 0.0;
    phi = spline(r / h - (k - 3 - 3 * behind), slope);
    *slope /= (double) h;
    return phi;
  }
  *slope = 0.0;
  if (k > basis->n) return 0.0;
  if (k < basis->n && basis->kind == MLFF_PAINN_GAUSSIAN) {
    phi = exp(-0.5 * (r - first[k]) * (r - first[k]) * second[k]);
    dphi = -(r - first[k]) * second[k] * phi;
  } else if (k < basis->n) {
    phi = sin(first[k] * r) / r;
    dphi = (first[k] * cos(first[k] * r) - phi) / r;
  }
  const double fc = 0.5 * (cos(x) + 1.0), dfc = -0.5 * pi / basis->cutoff * sin(x);
  *slope = dphi * fc + phi * dfc;
  return phi * fc;
}

basis_setup make_basis(mlff_backend *backend, mlff_painn_kind kind, int n, double cutoff)
{
  basis_setup s = {.basis = {.kind = kind, .n = n, .n_terms = 4, .cutoff = cutoff}};
  if (kind != MLFF_PAINN_CUBIC) s.basis.n_terms = (n + 1 + MLFF_PAINN_BLOCK - 1) / MLFF_PAINN_BLOCK * MLFF_PAINN_BLOCK;
  double *first = calloc((size_t) s.basis.n_terms, sizeof *first),
         *second = calloc((size_t) s.basis.n_terms, sizeof *second);
  const double width = n > 1 ? cutoff / (n - 1) : cutoff;
  for (int k = 0; k < n && kind != MLFF_PAINN_CUBIC; k++) {
    first[k] = kind == MLFF_PAINN_GAUSSIAN ? k * width : (k + 1) * acos(-1.0) / cutoff;
    second[k] = 1.0 / (width * width);
  }
  s.first = array_of(backend, first, s.basis.n_terms);
  s.second = array_of(backend, second, s.basis.n_terms);
  s.basis.first = s.first.buf;
  s.basis.second = s.second.buf;
  free(first);
  free(second);
  return s;
}

void free_basis(mlff_backend *backend, basis_setup *s)
{
  array_free(backend, &s->first);
  array_free(backend, &s->second);
}

int n_rows_of(const mlff_painn_basis *basis)
{
  return basis->kind == MLFF_PAINN_CUBIC ? basis->n + (basis->split ? 6 : 3) : basis->n_terms;
}

/* ---- a system with edges and radial data ------------------------------------------------------------------------ */

void make_radial(scene *s)
{
  mlff_error error = {0};
  const mlff_painn_basis *basis = &s->basis.basis;
  const mlff_ops *ops = s->backend->ops;
  test_ok(ops->painn_radial(s->backend, basis, &s->edges, &s->radial, &error), error);
  if (basis->kind == MLFF_PAINN_CUBIC)
    test_ok(ops->edge_lines(s->backend, basis, &s->edges, &s->radial, &error), error);
}

scene make_scene(mlff_backend *backend, mlff_painn_kind kind, int n_atoms)
{
  static const int numbers[] = {1, 6, 8};
  mlff_error error = {0};
  scene s = {.backend = backend, .n_atoms = n_atoms, .n_species = 3};
  s.atoms = test_random(n_atoms, n_atoms ? 1.6 * cbrt((double) n_atoms) + 1.5 : 5.0, 0.7, 1, numbers, 3, 11);
  s.system = test_system(&s.atoms, 4.0);
  s.basis = make_basis(backend, kind, 9, 3.5);
  test_ok(backend->ops->edges(backend, mlff_system_graph(s.system), 3.5, &s.edges, &error), error);
  make_radial(&s);
  s.row = bytes_from_backend(backend, s.edges.row.data, ((size_t) n_atoms + 1) * sizeof *s.row);
  s.node = bytes_from_backend(backend, s.edges.node.data, (size_t) s.edges.n_edges * sizeof *s.node);
  s.species = bytes_from_backend(backend, s.edges.species.data, (size_t) s.edges.n_edges * sizeof *s.species);
  s.vec = malloc((size_t) (4 * s.edges.n_edges + 1) * sizeof *s.vec);
  test_ok(backend->ops->download_reals(backend, s.vec, s.edges.vec.data, 4 * s.edges.n_edges, &error), error);
  ck_assert(n_atoms == 0 || s.edges.n_edges > 5 * n_atoms);
  return s;
}

void free_scene(scene *s)
{
  release_edges(s->backend, &s->edges);
  mlff_buf_release(s->backend, &s->radial.line);
  mlff_buf_release(s->backend, &s->radial.terms);
  free_basis(s->backend, &s->basis);
  mlff_system_free(s->system);
  test_atoms_free(&s->atoms);
  free(s->row);
  free(s->node);
  free(s->species);
  free(s->vec);
}

double coef_of(const scene *s, int64_t e, int k, double *slope)
{
  return radial_function(&s->basis.basis, s->basis.first.host, s->basis.second.host, k, s->vec[4 * e + 3], slope);
}
