#include "plain_nequip.h"

#include "backend/nequip_cg.h"

#include <math.h>
#include <string.h>

/* ---- edges ------------------------------------------------------------------------------------------------------- */

void plain_harmonics(const double u[3], double y[16])
{
  const double x = u[0], v = u[1], z = u[2], s3 = sqrt(3), s5 = sqrt(5), s7 = sqrt(7), s15 = sqrt(15);
  const double all[16] = {1,
                          s3 * x,
                          s3 * v,
                          s3 * z,
                          s5 * s3 * x * z,
                          s5 * s3 * x * v,
                          s5 * (v * v - (x * x + z * z) / 2),
                          s5 * s3 * v * z,
                          s5 * s3 / 2 * (z * z - x * x),
                          s7 * sqrt(5.0 / 8) * x * (3 * z * z - x * x),
                          s7 * s15 * x * v * z,
                          s7 * sqrt(3.0 / 8) * x * (4 * v * v - x * x - z * z),
                          s7 * v * (2 * v * v - 3 * x * x - 3 * z * z) / 2,
                          s7 * sqrt(3.0 / 8) * z * (4 * v * v - x * x - z * z),
                          s7 * s15 / 2 * v * (z * z - x * x),
                          s7 * sqrt(5.0 / 8) * z * (z * z - 3 * x * x)};
  memcpy(y, all, sizeof all);
}

/* A difference of fourth order is exact for polynomials of third order, whatever its step. */
void plain_harmonics_slope(const double u[3], double slope[16][3])
{
  for (int d = 0; d < 3; d++) {
    double at[5][16];
    for (int k = -2; k <= 2; k++) {
      double v[3] = {u[0], u[1], u[2]};
      v[d] += 0.5 * k;
      plain_harmonics(v, at[k + 2]);
    }
    for (int q = 0; q < 16; q++) slope[q][d] = (8 * (at[3][q] - at[1][q]) - (at[4][q] - at[0][q])) / 6;
  }
}

void plain_coefficients(int l1, int l2, int l3, double c[7][7][7])
{
#define ENTRY(a, b, d, count) {a, b, d, count, mlff_cg_##a##b##d},
  static const struct {
    int l1, l2, l3, n;
    const mlff_cg_entry *entries;
  } all[] = {MLFF_CG_TRIPLES(ENTRY)};
#undef ENTRY
  memset(c, 0, 7 * sizeof *c);
  for (size_t t = 0; t < sizeof all / sizeof *all; t++) {
    if (all[t].l1 != l1 || all[t].l2 != l2 || all[t].l3 != l3) continue;
    for (int q = 0; q < all[t].n; q++)
      c[all[t].entries[q].i][all[t].entries[q].j][all[t].entries[q].k] = all[t].entries[q].c;
  }
}

/* ---- radial network ---------------------------------------------------------------------------------------------- */

double complex plain_cutoff(const mlff_nequip_basis *basis, double complex r)
{
  const double p = basis->power, c = basis->cutoff, o = basis->onset;
  const double complex x = r / c;
  if (creal(r) >= c) return 0;
  if (p > 0)
    return 1 - (p + 1) * (p + 2) / 2 * cpow(x, p) + p * (p + 2) * cpow(x, p + 1) - p * (p + 1) / 2 * cpow(x, p + 2);
  if (creal(r) < o) return 1;
  return (c * c - r * r) * (c * c - r * r) * (c * c + 2 * r * r - 3 * o * o) / pow(c * c - o * o, 3);
}

/* As mace-torch writes them, M8: the cutoff function takes the distance itself. */
static double complex plain_argument(const mlff_nequip_basis *basis, double r0, double complex r)
{
  const double a = basis->a, p = basis->p, q = basis->q, low = 0.75 * r0, high = 4 * r0 / 3;
  if (basis->transform == MLFF_NEQUIP_AGNESI) return 1 / (1 + a * cpow(r / r0, q) / (1 + cpow(r / r0, q - p)));
  if (basis->transform == MLFF_NEQUIP_SOFT)
    return low + (r - low) * (0.5 + 0.5 * ctanh(a * (r - (low + high) / 2) / (high - low)));
  return r;
}

double complex plain_function(const mlff_nequip_basis *basis, double r0, double frequency, double complex r)
{
  const double complex t = plain_argument(basis, r0, r);
  if (basis->coefficient != 0) return basis->prefactor * cexp(basis->coefficient * (t - frequency) * (t - frequency));
  return basis->prefactor * csin(frequency * t) / t;
}

double complex plain_radial(const mlff_nequip_basis *basis, double r0, double frequency, double complex r)
{
  return plain_function(basis, r0, frequency, r) * plain_cutoff(basis, r);
}

/* As torch.nn.LayerNorm: the biased variance, epsilon below the root. */
static void plain_layer_norm(const plain_network *network, int k, double complex *h)
{
  const int n = network->width[k];
  double complex mean = 0, variance = 0;
  for (int o = 0; o < n; o++) mean += h[o] / n;
  for (int o = 0; o < n; o++) variance += (h[o] - mean) * (h[o] - mean) / n;
  for (int o = 0; o < n; o++)
    h[o] =
        network->affine[k][n + o] * (h[o] - mean) / csqrt(variance + network->epsilon) + network->affine[k][2 * n + o];
}

void plain_hidden(const plain_network *network, double r, double *value, double *slope)
{
  const double tiny = 1e-40;
  double complex in[128], out[128];
  int n = network->basis.n;
  const double complex f = network->is_normed ? plain_cutoff(&network->basis, r + I * tiny) : 1;
  for (int k = 0; k < n; k++)
    in[k] = (network->is_normed ? plain_function : plain_radial)(&network->basis, network->r0, network->frequency[k],
                                                                 r + I * tiny);
  for (int k = 0; k < network->n_hidden; k++) {
    for (int o = 0; o < network->width[k]; o++) {
      double complex h = 0;
      for (int c = 0; c < n; c++) h += network->weight[k][o * n + c] * in[c];
      out[o] = h;
      if (network->is_normed) out[o] += network->affine[k][o] + (k ? 0 : network->pair_bias[o]);
    }
    n = network->width[k];
    const int is_end = network->is_density && k + 1 == network->n_hidden;
    if (network->is_normed && !is_end) plain_layer_norm(network, k, out);
    for (int o = 0; o < n; o++) out[o] = is_end ? ctanh(out[o] * out[o]) : network->gain * out[o] / (1 + cexp(-out[o]));
    memcpy(in, out, (size_t) n * sizeof *in);
  }
  if (network->is_normed && !network->is_density) in[n++] = 1;
  for (int o = 0; o < n; o++) {
    in[o] *= f;
    value[o] = creal(in[o]);
    if (slope) slope[o] = cimag(in[o]) / tiny;
  }
}
