/* test_nequip_math.c: what NequIP networks are made of, in double: spherical harmonics and Clebsch-Gordan coefficients,
 * against what defines them and literal formulas. Traps of NequIP (tests/README.md) that fail here: N2, N3, S1, S2. */
#include "painn_scene.h"
#include "plain_nequip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef double real;
typedef double mlff_value;
#define MLFF_MATH static inline
#include "backend/ops_math.h"

enum { MAX_L = 3, N_Y = MLFF_NEQUIP_HARMONICS };

/* ---- harmonics --------------------------------------------------------------------------------------------------- */

static void random_direction(test_rng *rng, double u[3])
{
  double n = 0;
  for (int d = 0; d < 3; d++) {
    u[d] = test_normal(rng);
    n += u[d] * u[d];
  }
  for (int d = 0; d < 3; d++) u[d] /= sqrt(n);
}

/* Points and weights whose sum is the mean over the sphere of every polynomial up to degree 7 (Lebedev). */
enum { N_POINTS = 26 };
static void quadrature(double u[N_POINTS][3], double weight[N_POINTS])
{
  static const double weights[4] = {0, 1.0 / 21, 4.0 / 105, 9.0 / 280};
  int n = 0;
  for (int k = 0; k < 27; k++) {
    const int v[3] = {k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1}, n2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    if (!n2) continue;
    weight[n] = weights[n2];
    for (int d = 0; d < 3; d++) u[n][d] = v[d] / sqrt(n2);
    n++;
  }
  ck_assert_int_eq(n, N_POINTS);
}

/* N2: the polar axis is y, so Y_l0, in the middle of an order, is that which is largest there. */
START_TEST(harmonics_on_the_axes)
{
  const double s3 = sqrt(3), s5 = sqrt(5), s7 = sqrt(7), s15 = sqrt(15);
  const double x[N_Y] = {1, s3, 0, 0, 0, 0, -s5 / 2, 0, -s15 / 2, -sqrt(35.0 / 8), 0, -sqrt(21.0 / 8), 0, 0, 0, 0};
  const double y[N_Y] = {1, 0, s3, 0, 0, 0, s5, 0, 0, 0, 0, 0, s7, 0, 0, 0};
  const double z[N_Y] = {1, 0, 0, s3, 0, 0, -s5 / 2, 0, s15 / 2, 0, 0, 0, 0, -sqrt(21.0 / 8), 0, sqrt(35.0 / 8)};
  const double *const expected[3] = {x, y, z};
  for (int d = 0; d < 3; d++) {
    double u[3] = {0}, got[N_Y];
    u[d] = 1;
    mlff_nequip_harmonics(u, got);
    near_all(got, expected[d], N_Y, 1e-15, 0);
  }
}
END_TEST

START_TEST(harmonics_are_orthogonal)
{
  double u[N_POINTS][3], weight[N_POINTS], sum[N_Y][N_Y] = {{0}}, one[N_Y][N_Y] = {{0}}, y[N_Y], plain[N_Y];
  test_rng rng = {3};
  quadrature(u, weight);
  for (int p = 0; p < N_POINTS; p++) {
    mlff_nequip_harmonics(u[p], y);
    for (int a = 0; a < N_Y; a++)
      for (int b = 0; b < N_Y; b++) sum[a][b] += weight[p] * y[a] * y[b];
  }
  for (int a = 0; a < N_Y; a++) one[a][a] = 1;
  near_all(sum, one, N_Y * N_Y, 1e-14, 0);
  for (int k = 0; k < 20; k++) {
    double v[3];
    random_direction(&rng, v);
    mlff_nequip_harmonics(v, y);
    plain_harmonics(v, plain);
    near_all(y, plain, N_Y, 1e-14, 0);
    for (int l = 0; l <= MAX_L; l++) {
      double squares = 0;
      for (int m = 0; m < 2 * l + 1; m++) squares += y[l * l + m] * y[l * l + m];
      near_one(squares, 2 * l + 1, 1e-14);
    }
  }
}
END_TEST

/* dE/du of the polynomials, and dE/d(vector) of E = e(r) + g . Y(u). */
START_TEST(harmonics_backward)
{
  test_rng rng = {4};
  for (int k = 0; k < 20; k++) {
    double u[3], gy[N_Y], g[3], expected[3] = {0}, slope[N_Y][3], v[3];
    const double r = test_uniform(&rng, 0.5, 4), gr = test_uniform(&rng, -1, 1), h = 1e-3;
    random_direction(&rng, u);
    for (int q = 0; q < N_Y; q++) gy[q] = test_uniform(&rng, -1, 1);
    mlff_nequip_harmonics_backward(u, gy, g);
    plain_harmonics_slope(u, slope);
    for (int q = 0; q < N_Y; q++)
      for (int d = 0; d < 3; d++) expected[d] += gy[q] * slope[q][d];
    near_all(g, expected, 3, 1e-13, 0);
    mlff_nequip_edge_gradient(u, 1 / r, gy, gr, g);
    for (int d = 0; d < 3; d++) {
      double e[5] = {0};
      for (int p = -2; p <= 2; p++) {
        double y[N_Y];
        for (int c = 0; c < 3; c++) v[c] = r * u[c] + (c == d) * p * h;
        const double n = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (int c = 0; c < 3; c++) v[c] /= n;
        mlff_nequip_harmonics(v, y);
        e[p + 2] = gr * n;
        for (int q = 0; q < N_Y; q++) e[p + 2] += gy[q] * y[q];
      }
      expected[d] = (8 * (e[3] - e[1]) - (e[4] - e[0])) / (12 * h);
    }
    near_all(g, expected, 3, 1e-9, 0);
  }
}
END_TEST

/* ---- Clebsch-Gordan coefficients --------------------------------------------------------------------------------- */

static int couples(int l1, int l2, int l3)
{
  return l3 >= abs(l1 - l2) && l3 <= l1 + l2;
}

/* D of Y_l(R u) = D Y_l(u), l after one another, by projection. */
static void wigner(double r[3][3], double d[MAX_L + 1][7][7])
{
  double u[N_POINTS][3], weight[N_POINTS], before[N_Y], after[N_Y];
  quadrature(u, weight);
  memset(d, 0, (MAX_L + 1) * sizeof *d);
  for (int p = 0; p < N_POINTS; p++) {
    double v[3];
    for (int a = 0; a < 3; a++) v[a] = r[a][0] * u[p][0] + r[a][1] * u[p][1] + r[a][2] * u[p][2];
    mlff_nequip_harmonics(u[p], before);
    mlff_nequip_harmonics(v, after);
    for (int l = 0; l <= MAX_L; l++)
      for (int a = 0; a < 2 * l + 1; a++)
        for (int b = 0; b < 2 * l + 1; b++) d[l][a][b] += weight[p] * after[l * l + a] * before[l * l + b];
  }
}

/* c with each index turned: sum c_abk' D1_ai D2_bj D3_k'k */
static void turn(double c[7][7][7], double d1[7][7], double d2[7][7], double d3[7][7])
{
  double first[7][7][7] = {{{0}}}, second[7][7][7] = {{{0}}};
  for (int q = 0; q < 7 * 7 * 7 * 7; q++) {
    const int a = q % 7, i = q / 7 % 7, b = q / 49 % 7, k = q / 343;
    first[i][b][k] += c[a][b][k] * d1[a][i];
  }
  for (int q = 0; q < 7 * 7 * 7 * 7; q++) {
    const int b = q % 7, i = q / 7 % 7, j = q / 49 % 7, k = q / 343;
    second[i][j][k] += first[i][b][k] * d2[b][j];
  }
  memset(c, 0, 7 * sizeof *c);
  for (int q = 0; q < 7 * 7 * 7 * 7; q++) {
    const int e = q % 7, i = q / 7 % 7, j = q / 49 % 7, k = q / 343;
    c[i][j][k] += second[i][j][e] * d3[e][k];
  }
}

/* N3: sum c^2 = 2 l3 + 1, so that (l,0,l) is the identity, (0,l,l) copies and (l,l,0) is a product over sqrt(2l+1). */
START_TEST(coefficients_are_normalised)
{
  double c[7][7][7];
  for (int t = 0; t < 64; t++) {
    const int l1 = t / 16, l2 = t / 4 % 4, l3 = t % 4;
    double squares = 0;
    plain_coefficients(l1, l2, l3, c);
    for (int i = 0; i < 7; i++) {
      for (int j = 0; j < 7; j++) {
        for (int k = 0; k < 7; k++) {
          const int inside = i < 2 * l1 + 1 && j < 2 * l2 + 1 && k < 2 * l3 + 1;
          squares += c[i][j][k] * c[i][j][k];
          if (!inside || !couples(l1, l2, l3)) ck_assert(c[i][j][k] == 0);
          if (inside && l2 == 0 && l1 == l3) near_one(c[i][j][k], i == k, 1e-15);
          if (inside && l1 == 0 && l2 == l3) near_one(c[i][j][k], j == k, 1e-15);
          if (inside && l3 == 0 && l1 == l2) near_one(c[i][j][k], (i == j) / sqrt(2 * l1 + 1), 1e-15);
        }
      }
    }
    near_one(squares, couples(l1, l2, l3) ? 2 * l3 + 1 : 0, 1e-13);
  }
}
END_TEST

/* Norm and equivariance leave a sign for each triple: what couples Y(u) with itself gives Y(u) times a positive number
 * for even sums of orders and nothing for odd ones, whose signs are those of e3nn. S1: older SevenNet files differ. */
START_TEST(coefficients_are_equivariant)
{
  double c[7][7][7], turned[7][7][7], r[3][3], d[MAX_L + 1][7][7];
  for (int t = 0; t < 64; t++) {
    const int l1 = t / 16, l2 = t / 4 % 4, l3 = t % 4;
    plain_coefficients(l1, l2, l3, c);
    for (uint64_t seed = 1; seed < 4; seed++) {
      test_rotation(seed, r);
      wigner(r, d);
      memcpy(turned, c, sizeof c);
      turn(turned, d[l1], d[l2], d[l3]);
      near_all(turned, c, 343, 1e-14, 0);
    }
  }
}
END_TEST

START_TEST(coefficients_have_their_signs)
{
  static const struct {
    int l[3], m[3], sign;
  } odd[] = {{{1, 1, 1}, {0, 1, 2}, 1},  {{1, 2, 2}, {0, 0, 1}, -1}, {{2, 1, 2}, {0, 0, 1}, 1},
             {{2, 2, 1}, {0, 1, 0}, -1}, {{1, 3, 3}, {0, 0, 1}, -1}, {{3, 1, 3}, {0, 0, 1}, 1},
             {{3, 3, 1}, {0, 1, 0}, -1}, {{2, 2, 3}, {0, 1, 0}, 1},  {{2, 3, 2}, {0, 0, 1}, -1},
             {{3, 2, 2}, {0, 0, 1}, 1},  {{3, 3, 3}, {0, 1, 2}, 1}};
  double c[7][7][7], y[N_Y], u[3];
  test_rng rng = {5};
  for (size_t q = 0; q < sizeof odd / sizeof *odd; q++) {
    plain_coefficients(odd[q].l[0], odd[q].l[1], odd[q].l[2], c);
    ck_assert_msg(c[odd[q].m[0]][odd[q].m[1]][odd[q].m[2]] * odd[q].sign > 0.2, "(%d, %d, %d)", odd[q].l[0],
                  odd[q].l[1], odd[q].l[2]);
  }
  for (int t = 0; t < 64; t++) {
    const int l1 = t / 16, l2 = t / 4 % 4, l3 = t % 4, is_even = (l1 + l2 + l3) % 2 == 0;
    double along = 0, square = 0;
    if (!couples(l1, l2, l3)) continue;
    plain_coefficients(l1, l2, l3, c);
    random_direction(&rng, u);
    mlff_nequip_harmonics(u, y);
    for (int k = 0; k < 2 * l3 + 1; k++) {
      double sum = 0;
      for (int i = 0; i < 2 * l1 + 1; i++)
        for (int j = 0; j < 2 * l2 + 1; j++) sum += c[i][j][k] * y[l1 * l1 + i] * y[l2 * l2 + j];
      along += sum * y[l3 * l3 + k] / (2 * l3 + 1);
      square += sum * sum / (2 * l3 + 1);
    }
    near_one(square, along * along, 1e-12); /* parallel */
    if (is_even)
      ck_assert_msg(along > 0.5, "(%d, %d, %d): %g", l1, l2, l3, along);
    else
      near_one(along, 0, 1e-14);
  }
}
END_TEST

/* S2: (l1, l2, l3) with its first indices exchanged is (l2, l1, l3), up to the sign that odd sums have. */
START_TEST(odd_coefficients_are_antisymmetric)
{
  double a[7][7][7], b[7][7][7];
  for (int t = 0; t < 64; t++) {
    const int l1 = t / 16, l2 = t / 4 % 4, l3 = t % 4;
    plain_coefficients(l1, l2, l3, a);
    plain_coefficients(l2, l1, l3, b);
    for (int q = 0; q < 343; q++)
      near_one(b[q / 7 % 7][q / 49][q % 7], ((l1 + l2 + l3) % 2 ? -1 : 1) * a[q / 49][q / 7 % 7][q % 7], 1e-15);
  }
}
END_TEST

static Suite *nequip_suite(void)
{
  Suite *suite = suite_create("nequip math");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_test(tcase, harmonics_on_the_axes);
  tcase_add_test(tcase, harmonics_are_orthogonal);
  tcase_add_test(tcase, harmonics_backward);
  tcase_add_test(tcase, coefficients_are_normalised);
  tcase_add_test(tcase, coefficients_are_equivariant);
  tcase_add_test(tcase, coefficients_have_their_signs);
  tcase_add_test(tcase, odd_coefficients_are_antisymmetric);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(nequip_suite);
}
