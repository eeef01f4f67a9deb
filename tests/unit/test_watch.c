/* test_watch.c: structures against domains: findings, margins, single warnings and errors. Pairs and triples are
 * compared with a count over all of them. */
#include "mlff/mlff_watch.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_ELEMENTS = 3 };

static const char *const elements[N_ELEMENTS] = {"H", "C", "O"};

/* The domain of a model that was trained on everything. Tests remove parts of it. */
typedef struct domain {
  mlff_info info;
  int trained[N_ELEMENTS];
  double temperature[2], density[2], pressure[2], distances[N_ELEMENTS * N_ELEMENTS],
      triples[N_ELEMENTS * N_ELEMENTS * N_ELEMENTS];
} domain;

static void fill(domain *d, double distance, double triple)
{
  *d = (domain){.trained = {1, 1, 1}, .temperature = {280, 400}, .density = {0.9, 1.1}, .pressure = {-1, 3}};
  for (int k = 0; k < N_ELEMENTS * N_ELEMENTS; k++) d->distances[k] = distance;
  for (int k = 0; k < N_ELEMENTS * N_ELEMENTS * N_ELEMENTS; k++) d->triples[k] = triple;
  d->info = (mlff_info){.name = "seen",
                        .cutoff = 4.0,
                        .n_elements = N_ELEMENTS,
                        .elements = elements,
                        .trained = d->trained,
                        .temperature = d->temperature,
                        .density = d->density,
                        .pressure = d->pressure,
                        .distances = d->distances,
                        .triples = d->triples,
                        .max_force = 10};
}

static mlff_watch *watch_of(const domain *d)
{
  mlff_watch *watch = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_watch_create(&d->info, 100, "steps", &watch, &error), error);
  return watch;
}

static mlff_system *system_of(int n, const int32_t *species, const double (*x)[3], double reach)
{
  mlff_system *system = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_system_create(n, species, x, NULL, NULL, reach, &system, &error), error);
  return system;
}

/* ---- pairs and triples ------------------------------------------------------------------------------------------ */

typedef struct expected {
  double distance, pair, triple; /* least squared ratios */
} expected;

static double square_of(const mlff_graph *g, int32_t i, int32_t j)
{
  double sum = 0;
  for (int c = 0; c < 3; c++) sum += (g->pos[j][c] - g->pos[i][c]) * (g->pos[j][c] - g->pos[i][c]);
  return sum;
}

/* All pairs of neighbors of all atoms. */
static expected count(const domain *d, const mlff_graph *g)
{
  expected e = {INFINITY, INFINITY, INFINITY};
  for (int32_t i = 0; i < g->n_local; i++)
    for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
      const int s = g->species[i], t = g->species[g->nbr[p]];
      const double square = square_of(g, i, g->nbr[p]), known = d->distances[s * N_ELEMENTS + t];
      double *least = known > 0 ? &e.distance : &e.pair;
      *least = fmin(*least, square / pow(known > 0 ? known : d->info.cutoff, 2));
      for (int64_t q = g->row[i]; q < p; q++) {
        const int u = g->species[g->nbr[q]];
        const double r = d->triples[(s * N_ELEMENTS + t) * N_ELEMENTS + u], limit = r > 0 ? r : d->info.cutoff;
        if (!(known > 0) || !(d->distances[s * N_ELEMENTS + u] > 0)) continue;
        e.triple = fmin(e.triple, fmax(square, square_of(g, i, g->nbr[q])) / (limit * limit));
      }
    }
  return e;
}

START_TEST(pairs_and_triples)
{
  static const int numbers[] = {1, 6, 8};
  test_rng rng = {40 + (uint64_t) _i};
  domain d;
  fill(&d, 0, 0);
  for (int s = 0; s < N_ELEMENTS; s++)
    for (int t = s; t < N_ELEMENTS; t++)
      d.distances[s * N_ELEMENTS + t] = d.distances[t * N_ELEMENTS + s] =
          test_uniform(&rng, 0, 1) < 0.3 ? 0.0 : test_uniform(&rng, 1, 2);
  for (int s = 0; s < N_ELEMENTS; s++)
    for (int t = 0; t < N_ELEMENTS; t++)
      for (int u = t; u < N_ELEMENTS; u++)
        d.triples[(s * N_ELEMENTS + t) * N_ELEMENTS + u] = d.triples[(s * N_ELEMENTS + u) * N_ELEMENTS + t] =
            test_uniform(&rng, 0, 1) < 0.3 ? 0.0 : test_uniform(&rng, 2, 3);
  test_atoms a = test_random(60, 8.0, 0.9, 1, numbers, 3, 50 + (uint64_t) _i);
  mlff_system *system = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_system_create(60, a.species, (const double(*)[3]) a.pos, (const double(*)[3]) a.cell, a.pbc, 5.0,
                             &system, &error),
          error);
  const mlff_graph *graph = mlff_system_graph(system);
  const expected e = count(&d, graph);
  mlff_watch *watch = watch_of(&d);
  mlff_finding found[MLFF_N_WATCHED];
  for (int k = 0; k < 2; k++) { /* the second time is as the first */
    mlff_watch_atoms(watch, graph, NULL, NULL, found);
    near_one(found[MLFF_WATCHED_DISTANCE].excess, 0.95 / sqrt(e.distance), 1e-12);
    near_one(found[MLFF_WATCHED_PAIR].excess, 0.95 / sqrt(e.pair), 1e-12);
    near_one(found[MLFF_WATCHED_TRIPLE].excess, 0.95 / sqrt(e.triple), 1e-12);
    near_one(found[MLFF_WATCHED_FORCE].excess, 0, 0);
  }
  mlff_watch_free(watch);
  mlff_system_free(system);
  test_atoms_free(&a);
}
END_TEST

static void name_atom(void *context, int32_t i, char text[64])
{
  snprintf(text, 64, "%s%d", (const char *) context, (int) i + 1);
}

/* O with H at 1 A and at 1.5 A, and C at 3 A from O. */
static const double bent[4][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1.5, 0}, {0, 0, 3}};
static const int32_t bent_species[4] = {2, 0, 0, 1};

/* Words and numbers, elements in the order of the model. */
START_TEST(what_is_said)
{
  domain d;
  fill(&d, 0.9, 1.4);
  d.distances[0 * N_ELEMENTS + 2] = d.distances[2 * N_ELEMENTS + 0] = 1.2;
  d.distances[1 * N_ELEMENTS + 2] = d.distances[2 * N_ELEMENTS + 1] = 0;
  d.triples[(2 * N_ELEMENTS + 0) * N_ELEMENTS + 0] = 1.6;
  mlff_watch *watch = watch_of(&d);
  mlff_system *system = system_of(4, bent_species, bent, 4.0);
  mlff_finding found[MLFF_N_WATCHED];
  const double forces[4][3] = {{0, 0, 1}, {3, 0, 0}, {0, 12, 5}, {0, 0, 0}};
  mlff_graph named = *mlff_system_graph(system);
  named.name = name_atom;
  named.name_context = "X";
  mlff_watch_atoms(watch, &named, forces, NULL, found);
  ck_assert_str_eq(found[MLFF_WATCHED_DISTANCE].text, "H-O distance 1 A (X2, X1) is below 1.2 A, the shortest one");
  ck_assert_str_eq(found[MLFF_WATCHED_PAIR].text,
                   "C-O distance 3 A (X4, X1) is below 4 A, the cutoff, within which there was no such pair");
  ck_assert_str_eq(found[MLFF_WATCHED_TRIPLE].text,
                   "H-O-H with both ends within 1.5 A (center X1, ends X2, X3) is below 1.6 A, the smallest one");
  ck_assert_str_eq(found[MLFF_WATCHED_FORCE].text, "force 13 eV/A on X3 (H) is above 10 eV/A, the largest one");
  d.triples[(2 * N_ELEMENTS + 0) * N_ELEMENTS + 0] = 0;
  mlff_watch_atoms(watch, mlff_system_graph(system), NULL, NULL, found);
  ck_assert_msg(strstr(found[MLFF_WATCHED_TRIPLE].text, "(center atom 1 counted from 1, ends") != NULL, "%s",
                found[MLFF_WATCHED_TRIPLE].text);
  ck_assert_msg(strstr(found[MLFF_WATCHED_TRIPLE].text, "4 A, the cutoff, within which there was no such triple"), "%s",
                found[MLFF_WATCHED_TRIPLE].text);
  mlff_watch_free(watch);
  mlff_system_free(system);
}
END_TEST

/* Elements without training data, and limits that the file lacks. */
START_TEST(what_is_not_compared)
{
  domain d;
  fill(&d, 3.9, 3.9);
  mlff_system *system = system_of(4, bent_species, bent, 4.0);
  mlff_finding found[MLFF_N_WATCHED];
  d.trained[0] = d.trained[1] = 0; /* only O, of which there is one */
  mlff_watch *watch = watch_of(&d);
  mlff_watch_atoms(watch, mlff_system_graph(system), NULL, NULL, found);
  for (int k = 0; k < MLFF_N_WATCHED; k++) near_one(found[k].excess, 0, 0);
  mlff_watch_free(watch);
  fill(&d, 3.9, 3.9);
  d.info.temperature = d.info.density = d.info.pressure = d.info.distances = d.info.triples = NULL;
  d.info.max_force = 0;
  watch = watch_of(&d);
  const double forces[4][3] = {{1e9, 0, 0}};
  mlff_watch_atoms(watch, mlff_system_graph(system), forces, NULL, found);
  mlff_watch_state(watch, &(mlff_watch_system){1e9, 3, 1e9, 1e9, 0}, found);
  for (int k = 0; k < MLFF_N_WATCHED; k++) {
    near_one(found[k].excess, 0, 0);
    ck_assert(!mlff_watch_has(watch, (mlff_watched) k));
  }
  mlff_watch_free(watch);
  mlff_watch_free(NULL);
  mlff_system_free(system);
}
END_TEST

/* ---- the whole system ------------------------------------------------------------------------------------------- */

static void look(mlff_watch *watch, mlff_watch_system s, int n, mlff_finding found[MLFF_N_WATCHED])
{
  for (int k = 0; k < n; k++) {
    memset(found, 0, MLFF_N_WATCHED * sizeof *found);
    mlff_watch_state(watch, &s, found);
  }
}

START_TEST(margins)
{
  domain d;
  fill(&d, 1, 1);
  mlff_watch *watch = watch_of(&d);
  mlff_finding found[MLFF_N_WATCHED];
  const double hot = 400 * (1 + 0.02 + 4 * sqrt(2.0 / 300 / 5)), slack = 0.02 * 4; /* of a pressure from -1 to 3 GPa */
  const struct {
    mlff_watch_system system;
    mlff_watched kind;
    int is_outside;
  } cases[] = {{{0.999 * hot, 300, NAN, NAN, 0}, MLFF_WATCHED_TEMPERATURE, 0},
               {{1.001 * hot, 300, NAN, NAN, 0}, MLFF_WATCHED_TEMPERATURE, 1},
               {{0.5, 300, NAN, NAN, 0}, MLFF_WATCHED_TEMPERATURE, 0}, /* at rest */
               {{NAN, 1, 1.01 * 1.1, NAN, 0}, MLFF_WATCHED_DENSITY, 0},
               {{NAN, 1, 1.03 * 1.1, NAN, 0}, MLFF_WATCHED_DENSITY, 1},
               {{NAN, 1, 0.97 * 0.9, NAN, 1}, MLFF_WATCHED_DENSITY, 1},
               {{NAN, 1, NAN, 3 + 0.9 * slack, 0}, MLFF_WATCHED_PRESSURE, 0},
               {{NAN, 1, NAN, 3 + 1.1 * slack, 0}, MLFF_WATCHED_PRESSURE, 1},
               {{NAN, 1, NAN, -1 - 1.1 * slack, 0}, MLFF_WATCHED_PRESSURE, 1}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    mlff_watch_begin(watch);
    look(watch, cases[k].system, 9, found);
    const int is_mean = cases[k].kind != MLFF_WATCHED_DENSITY || cases[k].system.box_changes;
    ck_assert_int_eq(found[cases[k].kind].excess > 1, !is_mean && cases[k].is_outside); /* fewer than ten checks */
    look(watch, cases[k].system, 1, found);
    for (int kind = 0; kind < MLFF_N_WATCHED; kind++)
      ck_assert_msg((found[kind].excess > 1) == (kind == (int) cases[k].kind && cases[k].is_outside), "case %zu: %s", k,
                    mlff_watched_name(kind));
  }
  ck_assert_str_eq(found[MLFF_WATCHED_PRESSURE].text,
                   "pressure -1.088 GPa without its kinetic part (mean of 10 checks, "
                   "every 100 steps) is outside of -1 to 3 GPa");
  mlff_watch_free(watch);
}
END_TEST

/* 64 atoms, whose temperatures at one temperature of a thermostat are correlated (AR(1), half of the variance). At the
 * border of the domain 20,000 checks give no warning. 13 % beyond it the first 200 do. */
START_TEST(canonical_temperatures)
{
  const double forget = exp(-1 / 1.5), n_free = 189;
  const struct {
    double kelvin;
    int n_checks, is_outside;
  } cases[] = {{400, 20000, 0}, {280, 20000, 0}, {400 * 1700 / 1500.0, 200, 1}, {280 / 1.15, 200, 1}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    domain d;
    fill(&d, 1, 1);
    mlff_watch *watch = watch_of(&d);
    mlff_finding found[MLFF_N_WATCHED];
    test_rng rng = {60 + (uint64_t) k};
    double slow = test_normal(&rng);
    int n_outside = 0;
    for (int n = 0; n < cases[k].n_checks; n++) {
      slow = forget * slow + sqrt(1 - forget * forget) * test_normal(&rng);
      const double deviation = sqrt(2 / n_free) * sqrt(0.5) * (slow + test_normal(&rng));
      look(watch, (mlff_watch_system){cases[k].kelvin * (1 + deviation), n_free, NAN, NAN, 0}, 1, found);
      n_outside += found[MLFF_WATCHED_TEMPERATURE].excess > 1;
    }
    ck_assert_msg((n_outside > 0) == cases[k].is_outside, "%g K: %d of %d", cases[k].kelvin, n_outside,
                  cases[k].n_checks);
    mlff_watch_free(watch);
  }
}
END_TEST

/* A mean is that of the last ten. */
START_TEST(means_forget)
{
  domain d;
  fill(&d, 1, 1);
  mlff_watch *watch = watch_of(&d);
  mlff_finding found[MLFF_N_WATCHED];
  look(watch, (mlff_watch_system){NAN, 1, NAN, 100, 0}, 25, found);
  ck_assert(found[MLFF_WATCHED_PRESSURE].excess > 1);
  look(watch, (mlff_watch_system){NAN, 1, NAN, 1, 0}, 9, found);
  ck_assert(found[MLFF_WATCHED_PRESSURE].excess > 1);
  look(watch, (mlff_watch_system){NAN, 1, NAN, 1, 0}, 1, found);
  ck_assert(!(found[MLFF_WATCHED_PRESSURE].excess > 1));
  mlff_watch_free(watch);
}
END_TEST

/* ---- verdicts --------------------------------------------------------------------------------------------------- */

static void judge(mlff_watch *watch, mlff_watched kind, double excess, int is_first, mlff_verdict expected_verdict)
{
  mlff_finding found[MLFF_N_WATCHED] = {{.excess = 0}};
  found[kind].excess = excess;
  mlff_watch_judge(watch, is_first, found);
  for (int k = 0; k < MLFF_N_WATCHED; k++)
    ck_assert_int_eq(found[k].verdict, k == (int) kind ? expected_verdict : MLFF_VERDICT_NONE);
}

START_TEST(verdicts)
{
  domain d;
  fill(&d, 1, 1);
  mlff_watch *watch = watch_of(&d);
  const double far = 0.95 / 0.75; /* three quarters of the shortest distance */
  judge(watch, MLFF_WATCHED_PAIR, 1.0, 1, MLFF_VERDICT_NONE);
  judge(watch, MLFF_WATCHED_PAIR, 1.01, 1, MLFF_VERDICT_STOP);
  judge(watch, MLFF_WATCHED_DISTANCE, 0.99 * far, 1, MLFF_VERDICT_WARN);
  mlff_watch_begin(watch);
  judge(watch, MLFF_WATCHED_DISTANCE, 1.01 * far, 1, MLFF_VERDICT_STOP);
  mlff_watch_begin(watch);
  judge(watch, MLFF_WATCHED_DISTANCE, 1.01 * far, 0, MLFF_VERDICT_WARN);
  judge(watch, MLFF_WATCHED_DISTANCE, 1.01 * far, 0, MLFF_VERDICT_NONE); /* reported */
  judge(watch, MLFF_WATCHED_PAIR, 2.0, 0, MLFF_VERDICT_WARN);
  judge(watch, MLFF_WATCHED_TRIPLE, 9.0, 1, MLFF_VERDICT_WARN);
  judge(watch, MLFF_WATCHED_FORCE, 9.0, 1, MLFF_VERDICT_WARN);
  judge(watch, MLFF_WATCHED_TEMPERATURE, 2.0, 1, MLFF_VERDICT_WARN);
  const mlff_watch_counts counts = mlff_watch_count(watch);
  ck_assert_int_eq(counts.n_checks, 10);
  const int64_t expected_counts[MLFF_N_WATCHED] = {1, 0, 0, 2, 4, 1, 1};
  for (int k = 0; k < MLFF_N_WATCHED; k++) ck_assert_int_eq(counts.n_outside[k], expected_counts[k]);
  mlff_watch_free(watch);
}
END_TEST

START_TEST(one_line)
{
  domain d;
  char text[400], small[20];
  fill(&d, 1, 1);
  mlff_domain_text(&d.info, text, sizeof text);
  ck_assert_str_eq(text, "280 to 400 K, 0.9 to 1.1 g/cm3, -1 to 3 GPa, forces up to 10 eV/A, 6 pairs of elements, 18 "
                         "triples");
  d.info.pressure = d.info.triples = NULL;
  mlff_domain_text(&d.info, text, sizeof text);
  ck_assert_str_eq(text, "280 to 400 K, 0.9 to 1.1 g/cm3, forces up to 10 eV/A, 6 pairs of elements; not known: "
                         "pressure, triples");
  mlff_domain_text(&d.info, small, sizeof small);
  ck_assert_uint_eq(strlen(small), sizeof small - 1);
  d.info.temperature = d.info.density = d.info.distances = NULL;
  d.info.max_force = 0;
  mlff_domain_text(&d.info, text, sizeof text);
  ck_assert_str_eq(text, "not known: temperature, density, pressure, largest force, pairs, triples");
  ck_assert(mlff_watched_name(MLFF_N_WATCHED) == NULL && mlff_watched_name(-1) == NULL);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("watch");
  TCase *t = tcase_create("atoms");
  tcase_add_loop_test(t, pairs_and_triples, 0, 8);
  tcase_add_test(t, what_is_said);
  tcase_add_test(t, what_is_not_compared);
  suite_add_tcase(s, t);
  t = tcase_create("system");
  tcase_add_test(t, margins);
  tcase_add_test(t, canonical_temperatures);
  tcase_add_test(t, means_forget);
  tcase_add_test(t, verdicts);
  tcase_add_test(t, one_line);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
