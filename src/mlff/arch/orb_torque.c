/* orb_torque.c: the rigid rotation that removes a net torque, for open systems. */
#include "orb.h"

#include <math.h>

/* One Jacobi rotation in the plane (p, q) of a symmetric matrix and of the eigenvectors v (columns). */
static void rotate(double a[3][3], double v[3][3], int p, int q)
{
  if (a[p][q] == 0.0) return;
  const double theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
  const double t = (theta < 0.0 ? -1.0 : 1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
  const double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
  for (int k = 0; k < 3; k++) {
    const double x = a[k][p], y = a[k][q];
    a[k][p] = c * x - s * y;
    a[k][q] = s * x + c * y;
  }
  for (int k = 0; k < 3; k++) {
    const double x = a[p][k], y = a[q][k];
    a[p][k] = c * x - s * y;
    a[q][k] = s * x + c * y;
  }
  for (int k = 0; k < 3; k++) {
    const double x = v[k][p], y = v[k][q];
    v[k][p] = c * x - s * y;
    v[k][q] = s * x + c * y;
  }
}

void orb_rotation(const double moment[3][3], const double torque[3], double mu[3])
{
  const double trace = moment[0][0] + moment[1][1] + moment[2][2];
  double inertia[3][3], v[3][3], largest = 0.0;
  for (int a = 0; a < 3; a++) {
    mu[a] = 0.0;
    for (int b = 0; b < 3; b++) {
      v[a][b] = a == b;
      inertia[a][b] = (a == b ? trace : 0.0) - moment[a][b];
    }
  }
  for (int sweep = 0; sweep < 12; sweep++) {
    rotate(inertia, v, 0, 1);
    rotate(inertia, v, 0, 2);
    rotate(inertia, v, 1, 2);
  }
  for (int k = 0; k < 3; k++) largest = fmax(largest, inertia[k][k]);
  for (int k = 0; k < 3; k++) {
    if (!(inertia[k][k] > 1e-12 * largest)) continue; /* no moment of inertia about this axis */
    const double along = v[0][k] * torque[0] + v[1][k] * torque[1] + v[2][k] * torque[2];
    for (int a = 0; a < 3; a++) mu[a] += v[a][k] * along / inertia[k][k];
  }
}
