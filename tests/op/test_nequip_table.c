/* test_nequip_table.c: radial functions of NequIP networks, in double, against literal formulas, and tables of radial
 * networks. Traps of NequIP (tests/README.md) that fail here: N8, N12, S5. */
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
/* ---- radial functions -------------------------------------------------------------------------------------------- */

static const mlff_nequip_basis bases[] = {
    {.n = 8, .cutoff = 6.0, .prefactor = 2 / 6.0, .power = 6},
    {.n = 5, .cutoff = 4.0, .prefactor = 2 / 4.0, .power = 5},
    {.n = 8, .cutoff = 5.0, .prefactor = 2 / 5.0, .power = 4},
    {.n = 8, .cutoff = 5.0, .prefactor = 2 / 5.0, .onset = 4.5},
    {.n = 6, .cutoff = 4.2, .prefactor = 2 / 4.2, .onset = 3.4},
    {.n = 6, .cutoff = 4.0, .prefactor = 2 / 4.0, .onset = 0.0},
    {.n = 8,
     .cutoff = 4.0,
     .prefactor = 0.7,
     .power = 5,
     .transform = MLFF_NEQUIP_AGNESI,
     .a = 1.08,
     .p = 4.6,
     .q = 0.92},
    {.n = 8, .cutoff = 4.0, .prefactor = 1, .power = 6, .coefficient = -1.1, .transform = MLFF_NEQUIP_SOFT, .a = 4.0},
};
enum { N_BASES = sizeof bases / sizeof *bases };
static const double r0 = 2.1; /* of a pair, which only transforms read */

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

/* At r -> 0 both transforms are finite, and so are the functions of them. */
START_TEST(transforms)
{
  for (int b = 0; b < N_BASES; b++) {
    const mlff_nequip_basis *basis = &bases[b];
    const mlff_nequip_basis no_cutoff = {.n = 1, .prefactor = 1, .onset = 1e9, .cutoff = 2e9, .coefficient = -1e-3};
    mlff_nequip_basis only = no_cutoff; /* exp(-(t - 5)^2/1000) tells t */
    only.transform = basis->transform;
    only.a = basis->a;
    only.p = basis->p;
    only.q = basis->q;
    double slope, at_zero = mlff_nequip_argument(basis, r0, 0, &slope);
    ck_assert(isfinite(at_zero) && isfinite(slope));
    for (double r = 0.05; r < 6; r += 0.01) {
      const double t = mlff_nequip_argument(basis, r0, r, &slope);
      const double complex plain = plain_radial(&only, r0, 5, r + 1e-40 * I);
      const double value = exp(-1e-3 * (t - 5) * (t - 5));
      near_one(value, creal(plain), 1e-14);
      near_one(-2e-3 * (t - 5) * value * slope, cimag(plain) / 1e-40, 1e-13);
    }
  }
}
END_TEST

/* At r -> 0 the slope is a difference of almost equal numbers: eps k/r. */
START_TEST(bessel_functions)
{
  test_rng rng = {7};
  for (int b = 0; b < N_BASES && !bases[b].transform; b++) {
    const mlff_nequip_basis *basis = &bases[b];
    const double pi = acos(-1.0);
    for (int q = 0; q < 300; q++) {
      const double r = q < 12 ? 3 * pow(10.0, -q) : test_uniform(&rng, 0, basis->cutoff);
      const double k = q % 10 == 9 ? 2.9e-4 : (1 + q % 8) * pi / basis->cutoff;
      double df, slope, f = mlff_nequip_cutoff(basis, r, &df);
      const double value = mlff_nequip_function(basis, k, r, 1, f, df, &slope);
      /* N8: 2/r_c, not its root */
      const double plain = 2 / basis->cutoff * sin(k * r) / r * creal(plain_cutoff(basis, r));
      near_one(value, plain, 1e-13 * (1 + k));
      near_one(slope, cimag(plain_radial(basis, 0, k, r + 1e-40 * I)) / 1e-40, 1e-13 * (1 + k * k) + 1e-15 * k / r);
    }
    double df, slope, f = mlff_nequip_cutoff(basis, 0, &df);
    near_one(mlff_nequip_function(basis, 3.0, 0, 1, f, df, &slope), 3.0 * basis->prefactor, 1e-15);
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
                               .gain = in->gain,
                               .r0 = r0};
  const int n_rows = n_rows_of(table);
  double *units = calloc((size_t) n_rows * LAST, sizeof *units), value[LAST], slope[LAST];
  double *rows = calloc((size_t) n_rows * N_WEIGHTS, sizeof *rows);
  nequip_unit_rows(in, r0, table, units);
  for (int q = 0; q < n_rows * N_WEIGHTS; q++)
    for (int t = 0; t < LAST; t++)
      rows[q] += units[q / N_WEIGHTS * LAST + t] * c->matrix[t * N_WEIGHTS + q % N_WEIGHTS];
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
  free(units);
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
    const int n = nequip_table_intervals(&c->network, r0);
    nequip_choose_table(basis, n, &table);
    for (int unit = 0; unit < LAST; unit++) {
      memset(c->matrix, 0, sizeof c->matrix);
      c->matrix[unit * N_WEIGHTS] = 1;
      table_errors(c, &table, 0.9, basis->cutoff - 1e-3, error);
      off = fmax(off, error[1]);
    }
    for (double r = 0.9; r < basis->cutoff; r += 1e-3) {
      mlff_nequip_hidden(&c->network, r0, NULL, r, value, slope);
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
  ck_assert_int_eq(nequip_table_intervals(&c->network, r0), 4096);
  memset(c->weight[0], 0, sizeof c->weight[0]);
  ck_assert_int_eq(nequip_table_intervals(&c->network, r0), 64);
  free(c);
}
END_TEST

static Suite *nequip_suite(void)
{
  Suite *suite = suite_create("nequip tables");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_test(tcase, cutoff_functions);
  tcase_add_test(tcase, transforms);
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
