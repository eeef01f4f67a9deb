/* tensornet_table.c: radial networks of TensorNet as cubic splines, so that an edge reads four rows. */
#include "tensornet.h"

#include "../model/spline.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef double real;
typedef double mlff_value;
#define MLFF_MATH static inline
#include "../backend/tensornet_math.h"

enum { WIDTH = MLFF_TENSORNET_WIDTH };

void tensornet_exact(const mlff_tensornet_network *net, double r, double *q, double *slope)
{
  double value[WIDTH], d_value[WIDTH], dfc;
  const double *first = net->first, *second = net->second, fc = mlff_tensornet_cutoff(r, net->cutoff, &dfc);
  for (int k = 0; k < net->n_basis; k++)
    value[k] = mlff_tensornet_function(net->kind, first[k], second ? second[k] : 0.0, r, &d_value[k]);
  for (int layer = 0, n_in = net->n_basis; layer < TENSORNET_LAYERS; n_in = net->width[layer++]) {
    const double *w = net->weight[layer];
    const int n = net->width[layer];
    memcpy(q, net->bias[layer], (size_t) n * sizeof *q);
    memset(slope, 0, (size_t) n * sizeof *slope);
    for (int c = 0; c < n_in; c++, w += n) {
      for (int o = 0; o < n; o++) {
        q[o] += w[o] * value[c];
        slope[o] += w[o] * d_value[c];
      }
    }
    for (int o = 0; o < n; o++) {
      double d;
      value[o] = mlff_tensornet_activation(net->act, q[o], &d);
      d_value[o] = d * slope[o];
    }
  }
  for (int o = 0; o < net->width[TENSORNET_LAYERS - 1]; o++) {
    q[o] = value[o] * fc;
    slope[o] = d_value[o] * fc + value[o] * dfc;
  }
}

/* As of NequIP's tables (nequip_table.c): the interpolation error of slopes, sqrt(3)/216 h^3 times the fourth
 * derivative, equals their rounding error in floats, eps value/h. Root mean squares over channels and distances from
 * 0.9 A on; RMS errors of forces of water, ethanol and four crystals are smallest with 500 to 1000 intervals, where
 * this gives 470 to 1100. */
int tensornet_table_intervals(const mlff_tensornet_network *net)
{
  enum { N = 256 };
  const double d = net->cutoff / N;
  const int first = (int) ceil(fmin(0.9 / d, N)), width = net->width[TENSORNET_LAYERS - 1];
  double value[WIDTH], slope[4][WIDTH], values = 0.0, bends = 0.0;
  for (int m = first; m <= N; m++) {
    tensornet_exact(net, m * d, value, slope[m % 4]);
    const double *s0 = slope[m % 4], *s1 = slope[(m + 3) % 4], *s2 = slope[(m + 2) % 4], *s3 = slope[(m + 1) % 4];
    for (int c = 0; m >= first + 3 && c < width; c++) {
      const double bend = s0[c] - 3 * s1[c] + 3 * s2[c] - s3[c];
      values += value[c] * value[c];
      bends += bend * bend;
    }
  }
  const double wanted = N * pow(sqrt(3) / 216 * d / FLT_EPSILON * sqrt(bends / fmax(values, 1e-300)), 0.25);
  return mlff_spline_intervals(bends > 0 ? wanted : 0.0);
}

void tensornet_table_rows(const mlff_tensornet_network *net, int n, double *rows)
{
  const size_t ld = (size_t) net->width[TENSORNET_LAYERS - 1];
  const double h = net->cutoff / n;
  double value[WIDTH], slope[WIDTH];
  for (int m = 0; m <= n; m++) {
    tensornet_exact(net, m * h, value, slope);
    memcpy(rows + (size_t) (m + 1) * ld, value, ld * sizeof *rows);
    if (m == 0) memcpy(rows, slope, ld * sizeof *rows);
    if (m == n) memcpy(rows + (size_t) (n + 2) * ld, slope, ld * sizeof *rows);
  }
  mlff_spline_solve(rows, n, (int) ld, h);
}
