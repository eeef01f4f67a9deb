/* test_nequip_math.c: what NequIP networks are made of, in double: spherical harmonics, Clebsch-Gordan coefficients,
 * radial functions and the tables of radial networks, against what defines them and literal formulas. Traps of NequIP
 * (tests/README.md) that fail here: N2, N3, N8, N12, S1, S2, S5. */
#include "painn_scene.h"
#include "plain_nequip.h"

#include "arch/nequip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef double real;
typedef double mlff_value;
#define MLFF_MATH static inline
#include "backend/nequip_radial.h"
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
    int l[3], at[3], sign;
  } odd[] = {{{1, 1, 1}, {0, 1, 2}, 1},  {{1, 2, 2}, {0, 0, 1}, -1}, {{2, 1, 2}, {0, 0, 1}, 1},
             {{2, 2, 1}, {0, 1, 0}, -1}, {{1, 3, 3}, {0, 0, 1}, -1}, {{3, 1, 3}, {0, 0, 1}, 1},
             {{3, 3, 1}, {0, 1, 0}, -1}, {{2, 2, 3}, {0, 1, 0}, 1},  {{2, 3, 2}, {0, 0, 1}, -1},
             {{3, 2, 2}, {0, 0, 1}, 1},  {{3, 3, 3}, {0, 1, 2}, 1}};
  double c[7][7][7], y[N_Y], u[3];
  test_rng rng = {5};
  for (size_t q = 0; q < sizeof odd / sizeof *odd; q++) {
    plain_coefficients(odd[q].l[0], odd[q].l[1], odd[q].l[2], c);
    ck_assert_msg(c[odd[q].at[0]][odd[q].at[1]][odd[q].at[2]] * odd[q].sign > 0.2, "(%d, %d, %d)", odd[q].l[0],
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

/* ---- radial functions -------------------------------------------------------------------------------------------- */

static const mlff_nequip_basis bases[] = {
    {.n = 8, .cutoff = 6.0, .prefactor = 2 / 6.0, .power = 6},
    {.n = 5, .cutoff = 4.0, .prefactor = 2 / 4.0, .power = 5},
    {.n = 8, .cutoff = 5.0, .prefactor = 2 / 5.0, .power = 4},
    {.n = 8, .cutoff = 5.0, .prefactor = 2 / 5.0, .onset = 4.5},
    {.n = 6, .cutoff = 4.2, .prefactor = 2 / 4.2, .onset = 3.4},
    {.n = 6, .cutoff = 4.0, .prefactor = 2 / 4.0, .onset = 0.0},
};
enum { N_BASES = sizeof bases / sizeof *bases };

START_TEST(cutoff_functions)
{
  test_rng rng = {6};
  double slope;
  for (int b = 0; b < N_BASES; b++) {
    const double cutoff = bases[b].cutoff, onset = bases[b].onset;
    for (int k = 0; k < 500; k++) {
      const double r = test_uniform(&rng, 0, cutoff), f = mlff_nequip_cutoff(&bases[b], r, &slope);
      const double complex plain = plain_cutoff(&bases[b], r + 1e-40 * I);
      near_one(f, creal(plain), 1e-13);
      near_one(slope, cimag(plain) / 1e-40, 1e-13);
      ck_assert(slope <= 1e-14); /* it only falls */
    }
    near_one(mlff_nequip_cutoff(&bases[b], 0, &slope), 1, 1e-15);
    near_one(slope, 0, 1e-15);
    near_one(mlff_nequip_cutoff(&bases[b], cutoff, &slope), 0, 1e-13);
    near_one(slope, 0, 1e-13);
    for (int side = -1; side < 2 && onset > 0; side++) { /* only the curvature jumps */
      near_one(mlff_nequip_cutoff(&bases[b], onset + side * 1e-7, &slope), 1, 1e-12);
      near_one(slope, 0, 1e-5);
    }
  }
  for (int k = 1; k < 200; k++) { /* N12 */
    const double x = 1 - 1e-4 * k, y = 1 - x, r = 6 * x, f = mlff_nequip_cutoff(&bases[0], r, &slope);
    near_one(f, y * y * y * (1 + 3 * x + 6 * pow(x, 2) + 10 * pow(x, 3) + 15 * pow(x, 4) + 21 * pow(x, 5)), 2e-14);
    near_one(slope, -168 * pow(x, 5) * y * y / 6, 1e-15);
  }
}
END_TEST

/* At r -> 0 the slope is a difference of almost equal numbers: eps k/r. */
START_TEST(bessel_functions)
{
  test_rng rng = {7};
  for (int b = 0; b < N_BASES; b++) {
    const mlff_nequip_basis *basis = &bases[b];
    const double pi = acos(-1.0);
    for (int q = 0; q < 300; q++) {
      const double r = q < 12 ? 3 * pow(10.0, -q) : test_uniform(&rng, 0, basis->cutoff);
      const double k = q % 10 == 9 ? 2.9e-4 : (1 + q % 8) * pi / basis->cutoff;
      double df, slope, f = mlff_nequip_cutoff(basis, r, &df);
      const double value = mlff_nequip_function(basis, k, r, f, df, &slope);
      /* N8: 2/r_c, not its root */
      const double plain = 2 / basis->cutoff * sin(k * r) / r * creal(plain_cutoff(basis, r));
      near_one(value, plain, 1e-13 * (1 + k));
      near_one(slope, cimag(plain_radial(basis, k, r + 1e-40 * I)) / 1e-40, 1e-13 * (1 + k * k) + 1e-15 * k / r);
    }
    double df, slope, f = mlff_nequip_cutoff(basis, 0, &df);
    near_one(mlff_nequip_function(basis, 3.0, 0, f, df, &slope), 3.0 * basis->prefactor, 1e-15);
    near_one(slope, 0, 1e-15);
  }
}
END_TEST

/* ---- tables ------------------------------------------------------------------------------------------------------ */

enum { N_WEIGHTS = 3, LAST = 8 };

typedef struct table_case {
  mlff_nequip_terms_args network;
  double frequency[8], weight[2][64], matrix[N_WEIGHTS * LAST];
} table_case;

static table_case *make_case(const mlff_nequip_basis *basis)
{
  table_case *c = calloc(1, sizeof *c);
  test_rng rng = {8};
  c->network = (mlff_nequip_terms_args){.basis = *basis,
                                        .frequency = c->frequency,
                                        .n_hidden = 2,
                                        .width = {8, LAST},
                                        .gain = 1.5};
  for (int k = 0; k < 2; k++) {
    c->network.weight[k] = c->weight[k];
    for (int q = 0; q < 64; q++) c->weight[k][q] = test_uniform(&rng, -1, 1);
  }
  for (int k = 0; k < 8; k++) c->frequency[k] = (k + 1) * acos(-1.0) / basis->cutoff;
  for (int k = 0; k < N_WEIGHTS * LAST; k++) c->matrix[k] = test_uniform(&rng, -1, 1);
  return c;
}

/* Largest differences of a table and what it is of, in values and slopes, from low to high. */
static void table_errors(const table_case *c, const mlff_painn_basis *table, double low, double high, double error[2])
{
  const mlff_nequip_terms_args *in = &c->network;
  const plain_network plain = {.basis = in->basis,
                               .frequency = c->frequency,
                               .n_hidden = 2,
                               .width = {8, LAST},
                               .weight = {c->weight[0], c->weight[1]},
                               .gain = in->gain};
  const int n_rows = n_rows_of(table);
  double *rows = calloc((size_t) n_rows * N_WEIGHTS, sizeof *rows), value[LAST], slope[LAST];
  nequip_rows(in, table, c->matrix, N_WEIGHTS, rows);
  error[0] = error[1] = 0;
  for (int k = 0; k < 700; k++) {
    const double r = low + (high - low) * (k + 0.5) / 700;
    plain_hidden(&plain, r, value, slope);
    for (int o = 0; o < N_WEIGHTS; o++) {
      double e[2] = {0};
      for (int t = 0; t < LAST; t++) {
        e[0] -= c->matrix[t * N_WEIGHTS + o] * value[t];
        e[1] -= c->matrix[t * N_WEIGHTS + o] * slope[t];
      }
      const int first = (int) (r / table->cutoff * table->n);
      for (int q = first; q < first + 7 && q < n_rows; q++) {
        double d, f = radial_function(table, NULL, NULL, q, r, &d);
        e[0] += f * rows[q * N_WEIGHTS + o];
        e[1] += d * rows[q * N_WEIGHTS + o];
      }
      for (int q = 0; q < 2; q++) error[q] = fmax(error[q], fabs(e[q]));
    }
  }
  free(rows);
}

/* Values are of fourth order and slopes of third: twice the intervals, 16 and 8 times smaller. */
START_TEST(tables_converge)
{
  for (int b = 0; b < N_BASES; b++) {
    table_case *c = make_case(&bases[b]);
    double coarse[2] = {0}, fine[2];
    int before = 0;
    for (int n = 128; n <= 512; n *= 2) {
      mlff_painn_basis table;
      nequip_choose_table(&bases[b], n, &table);
      ck_assert_int_ge(table.n, n);
      table_errors(c, &table, 1e-3, bases[b].cutoff - 1e-3, fine);
      for (int q = 0; q < 2 && before; q++) {
        const double order = log(coarse[q] / fine[q]) / log((double) table.n / before);
        ck_assert_msg(order > 3.8 - q && order < 4.4 - q, "basis %d, %d intervals, %s: %g then %g, order %g", b, n,
                      q ? "slopes" : "values", coarse[q], fine[q], order);
      }
      memcpy(coarse, fine, sizeof fine);
      before = table.n;
    }
    free(c);
  }
}
END_TEST

/* S5: a spline across the kink of XPLOR loses two orders there. */
START_TEST(a_knot_is_at_the_kink)
{
  table_case *c = make_case(&bases[4]);
  const double onset = bases[4].onset;
  double with[2], without[2];
  for (int n = 100; n < 4096; n += 333) {
    mlff_painn_basis table;
    nequip_choose_table(&bases[4], n, &table);
    ck_assert(table.n >= n && table.n < 2 * n && table.n <= 4096);
    near_one(table.split * bases[4].cutoff / table.n, onset, 1e-9);
    if (n > 1000) continue;
    table_errors(c, &table, onset - 0.05, onset + 0.05, with);
    table.split = 0;
    table.n++;
    table_errors(c, &table, onset - 0.05, onset + 0.05, without);
    ck_assert_msg(with[1] < 0.05 * without[1], "%d intervals: %g with, %g without", n, with[1], without[1]);
  }
  free(c);
}
END_TEST

/* Whatever the network: as many intervals as make the error of slopes that of rounding in floats, eps value/h. */
START_TEST(tables_are_as_fine_as_floats)
{
  for (int k = 0; k < 3 * N_BASES; k++) {
    const mlff_nequip_basis *basis = &bases[k % N_BASES];
    table_case *c = make_case(basis);
    mlff_painn_basis table;
    double error[2], value[LAST], slope[LAST], off = 0, most = 0;
    for (int q = 0; q < 64; q++) c->weight[0][q] *= 1 + k / N_BASES; /* steeper */
    const int n = nequip_table_intervals(&c->network);
    nequip_choose_table(basis, n, &table);
    for (int unit = 0; unit < LAST; unit++) {
      memset(c->matrix, 0, sizeof c->matrix);
      c->matrix[unit * N_WEIGHTS] = 1;
      table_errors(c, &table, 0.7, basis->cutoff - 1e-3, error);
      off = fmax(off, error[1]);
    }
    for (double r = 0.7; r < basis->cutoff; r += 1e-3) {
      mlff_nequip_hidden(&c->network, r, value, slope);
      for (int unit = 0; unit < LAST; unit++) most = fmax(most, fabs(value[unit]));
    }
    const double rounding = 1.2e-7 * most * n / basis->cutoff;
    ck_assert_msg(off > 0.4 * rounding && off < 1.2 * rounding, "case %d, %d intervals: %g, %g", k, n, off, rounding);
    free(c);
  }
}
END_TEST

/* One interval; an onset that no knot can be at; the most intervals; functions that a spline is exact for. */
START_TEST(sizes_of_tables)
{
  mlff_painn_basis table;
  mlff_nequip_basis basis = bases[0];
  nequip_choose_table(&basis, 750, &table);
  ck_assert_int_eq(table.n, 750);
  ck_assert_int_eq(table.split, 0);
  nequip_choose_table(&basis, 1, &table);
  ck_assert_int_eq(table.n, 1);
  basis = bases[3];
  nequip_choose_table(&basis, 625, &table);
  ck_assert_int_eq(table.n, 630); /* 4.5 of 5 A is a knot */
  ck_assert_int_eq(table.split, 567);
  nequip_choose_table(&basis, 4096, &table);
  ck_assert_int_eq(table.n, 4096);
  ck_assert_int_eq(table.split, 0);
  basis.onset = basis.cutoff / sqrt(2);
  nequip_choose_table(&basis, 700, &table);
  ck_assert_int_eq(table.n, 700);
  ck_assert_int_eq(table.split, 0);
  table_case *c = make_case(&basis);
  for (int q = 0; q < 64; q++) c->weight[0][q] *= 1e6; /* steps */
  ck_assert_int_eq(nequip_table_intervals(&c->network), 4096);
  memset(c->weight[0], 0, sizeof c->weight[0]);
  ck_assert_int_eq(nequip_table_intervals(&c->network), 64);
  free(c);
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
  tcase_add_test(tcase, cutoff_functions);
  tcase_add_test(tcase, bessel_functions);
  tcase_add_test(tcase, tables_converge);
  tcase_add_test(tcase, a_knot_is_at_the_kink);
  tcase_add_test(tcase, tables_are_as_fine_as_floats);
  tcase_add_test(tcase, sizes_of_tables);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(nequip_suite);
}
