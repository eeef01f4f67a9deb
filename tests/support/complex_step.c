#include "complex_step.h"

#include "support.h"

#include <math.h>
#include <string.h>

/* Element (a, b) of basis matrix k. */
static double basis(int k, int a, int b)
{
  static const int pairs[3][2] = {{0, 1}, {0, 2}, {1, 2}};
  if (k == 0) return a == b ? 1 / sqrt(3) : 0;
  if (k < 4) return a == b || a == k - 1 || b == k - 1 ? 0 : ((b - a + 3) % 3 == 1 ? -1 : 1) / sqrt(2);
  if (k == 4) return a == b && a < 2 ? (a == 0 ? 1 : -1) / sqrt(2) : 0;
  if (k == 5) return a == b ? (a == 2 ? 2 : -1) / sqrt(6) : 0;
  return (a == pairs[k - 6][0] && b == pairs[k - 6][1]) || (b == pairs[k - 6][0] && a == pairs[k - 6][1]) ? 1 / sqrt(2)
                                                                                                          : 0;
}

void plain_expand(const double complex x[9], double complex m[3][3])
{
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 3; b++) {
      m[a][b] = 0;
      for (int k = 0; k < 9; k++) m[a][b] += basis(k, a, b) * x[k];
    }
}

void plain_reduce(double complex m[3][3], double complex x[9])
{
  for (int k = 0; k < 9; k++) {
    x[k] = 0;
    for (int a = 0; a < 3; a++)
      for (int b = 0; b < 3; b++) x[k] += basis(k, a, b) * m[a][b];
  }
}

void complex_step(complex_function *f, const void *context, int n_in, const double *x, int n_out, const double *g,
                  double *value, double *grad)
{
  const double h = 1e-100;
  double complex in[COMPLEX_STEP_MOST], out[COMPLEX_STEP_MOST];
  ck_assert(n_in <= COMPLEX_STEP_MOST && n_out <= COMPLEX_STEP_MOST);
  for (int k = 0; k < n_in; k++) in[k] = x[k];
  if (value) {
    f(context, in, out);
    for (int j = 0; j < n_out; j++) value[j] = creal(out[j]);
  }
  for (int k = 0; grad && k < n_in; k++) {
    in[k] = x[k] + I * h;
    f(context, in, out);
    in[k] = x[k];
    grad[k] = 0;
    for (int j = 0; j < n_out; j++) grad[k] += g[j] * cimag(out[j]) / h;
  }
}
