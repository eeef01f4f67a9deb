/* painn_scene.h: what the op tests of PaiNN share: arrays on host and backend, radial bases, a system with its edges,
 * all with plain formulas in double. */
#ifndef MLFF_TEST_PAINN_SCENE_H
#define MLFF_TEST_PAINN_SCENE_H

#include "backends.h"

/* An array on the host, in double and rounded to the backend's reals, and on the backend. */
typedef struct array {
  int64_t n;
  double *host;
  mlff_buf buf;
} array;

array array_of(mlff_backend *backend, const double *x, int64_t n);
/* Uniform in [-1, 1). Outputs start like this on both sides, so that what an op must leave alone is compared too. */
array random_array(mlff_backend *backend, test_rng *rng, int64_t n);
void array_free(mlff_backend *backend, array *a);
/* Backend against host: |difference| <= factor * rounding * (1 + max|host|). */
void check_array(mlff_backend *backend, const char *name, const array *a, double factor);

/* A basis with its parameters, as the architecture makes it. */
typedef struct basis_setup {
  mlff_painn_basis basis;
  array first, second;
} basis_setup;

basis_setup make_basis(mlff_backend *backend, mlff_painn_kind kind, int n, double cutoff);
void free_basis(mlff_backend *backend, basis_setup *s);
/* Rows that a filter has in this basis. */
int n_rows_of(const mlff_painn_basis *basis);
/* coef_k and its slope at r, k < n_rows_of(basis). */
double radial_function(const mlff_painn_basis *basis, const double *first, const double *second, int k, double r,
                       double *slope);

/* Random atoms of three species in a periodic box, with edges and radial data. */
typedef struct scene {
  mlff_backend *backend;
  mlff_system *system;
  test_atoms atoms;
  mlff_edges edges;
  mlff_painn_radial radial;
  basis_setup basis;
  int n_atoms, n_species;
  /* on the host: */
  int64_t *row;
  int32_t *node, *species;
  double *vec; /* [n_edges][4] */
} scene;

/* Radial data of its edges, what PaiNN and what NequIP reads. */
void make_radial(scene *s);
scene make_scene(mlff_backend *backend, mlff_painn_kind kind, int n_atoms);
void free_scene(scene *s);
/* coef and slope of row k at edge e. */
double coef_of(const scene *s, int64_t e, int k, double *slope);

#endif
