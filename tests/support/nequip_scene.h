/* nequip_scene.h: shared by the op tests of NequIP: radial weights of edges and adjoints of their vectors, by plain
 * formulas in double. Messages read the table of cubic splines of the PaiNN scene. */
#ifndef MLFF_TEST_NEQUIP_SCENE_H
#define MLFF_TEST_NEQUIP_SCENE_H

#include "painn_scene.h"

enum { NEQUIP_SCENE_WEIGHTS = 2048 }; /* at most */

/* Radial weights of the scene's edges: n_terms = 4 is its table, others are random terms. */
typedef struct weights_case {
  int n_terms, n_rows, n_weights;
  array terms;
} weights_case;

weights_case make_weights(scene *s, test_rng *rng, int n_terms, int n_weights);
mlff_nequip_radial radial_of(const scene *s, const weights_case *c);
/* The weights [n_weights] of edge e and their slopes, from R [n_rows][n_weights]. */
void plain_weights(const scene *s, const weights_case *c, const double *rows, int64_t e, double *w, double *dw);

/* Unit vector and harmonics of edge e. */
void edge_harmonics(const scene *s, int64_t e, double u[3], double y[16]);
/* dE/d(x_j - x_i) of edge e from dE/dY and dE/dr. */
void add_edge_gradient(const scene *s, int64_t e, const double u[3], const double gy[16], double gr, int accumulate,
                       double *edge_grad);
/* check_array of edge_grad [n_edges][4], whose fourth numbers mean nothing for the edges of atoms begin .. end. */
void check_edge_grad(scene *s, array *a, int64_t begin, int64_t end, double factor);

mlff_nequip_row make_row(int n_orders, const int *n);
/* A table with a kink. */
scene split_scene(mlff_backend *backend, int n_atoms);

/* dE/d(vec[e]) of the scene by differences of energy(context), d < 3, in double. */
void difference_of_edge(scene *s, int64_t e, double (*energy)(void *context), void *context, double g[3]);

#endif
