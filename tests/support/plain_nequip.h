/* plain_nequip.h: NequIP as plain loops in double, written from the formulas of the papers. */
#ifndef MLFF_TEST_PLAIN_NEQUIP_H
#define MLFF_TEST_PLAIN_NEQUIP_H

#include "reference.h"
#include "testmodel.h"

#include "backend/ops_nequip.h"

#include <complex.h>

/* Real spherical harmonics (l, m), l = 0 .. 3, as the packages write them, as polynomials in u (N2: polar axis y), and
 * their derivatives d/du_d, unprojected. */
void plain_harmonics(const double u[3], double y[16]);
void plain_harmonics_slope(const double u[3], double slope[16][3]);

/* c_ijk of a triple; 0 where a triple does not couple. */
void plain_coefficients(int l1, int l2, int l3, double c[7][7][7]);

/* Cutoff function and radial functions as the papers write them, of complex distances: the imaginary part of f(r + ih)
 * over a tiny h is the slope, to rounding. */
double complex plain_cutoff(const mlff_nequip_basis *basis, double complex r);
/* r0: radius of the pair, for a transform. */
double complex plain_radial(const mlff_nequip_basis *basis, double r0, double frequency, double complex r);
/* The same without the cutoff function. */
double complex plain_function(const mlff_nequip_basis *basis, double r0, double frequency, double complex r);

/* The radial network but its last matrix: matrices [width[k]][inputs], act = silu times gain, or with is_density
 * tanh of the square. With is_normed: biases and layer norms, affine [3][width[k]]; the last layer of a density has the
 * bias only. The cutoff function then multiplies the units and, unless is_density, is one more. */
typedef struct plain_network {
  mlff_nequip_basis basis;
  const double *frequency;
  int n_hidden, width[4];
  const double *weight[4];
  double gain, r0, epsilon;
  int is_density, is_normed;
  const double *pair_bias, *affine[4];
} plain_network;

/* Units of the last hidden layer at r, and their slopes when `slope` is not NULL. */
void plain_hidden(const plain_network *network, double r, double *value, double *slope);

/* Energies of the atoms [n], without offsets: plain_nequip_model.c. */
void plain_nequip(const test_model *model, const test_atoms *atoms, double *energy);

/* The published network `name` of the shared directory (name.yaml, name.safetensors), in double exactly as stored.
 * Returns 0 (skipped) without the directory. */
int published_nequip(const char *name, test_model *model);

#endif
