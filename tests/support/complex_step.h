/* complex_step.h: derivatives of plain formulas to rounding: the imaginary part of f(x + ih) over a tiny h. */
#ifndef MLFF_TEST_COMPLEX_STEP_H
#define MLFF_TEST_COMPLEX_STEP_H

#include <complex.h>

/* The matrix of nine components x in the basis of TensorNet (backend/tensornet_math.h), and the reverse. */
void plain_expand(const double complex x[9], double complex m[3][3]);
void plain_reduce(double complex m[3][3], double complex x[9]);

enum { COMPLEX_STEP_MOST = 512 };

/* f(context, in [n_in], out [n_out]). value [n_out]: f(x); grad [n_in]: sum_j g_j df_j/dx. Either may be NULL. */
typedef void complex_function(const void *context, const double complex *in, double complex *out);
void complex_step(complex_function *f, const void *context, int n_in, const double *x, int n_out, const double *g,
                  double *value, double *grad);

#endif
