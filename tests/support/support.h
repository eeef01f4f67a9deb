/* support.h: what every C test of this project shares.
 *
 * Comparisons are written so that NaN fails, and name the index and both values. Skipping is visible and counted.
 * Test systems come from a seeded generator, so every run sees the same numbers.
 */
#ifndef MLFF_TEST_SUPPORT_H
#define MLFF_TEST_SUPPORT_H

#include "mlff/mlff.h"

#include <check.h>

/* ---- comparing ------------------------------------------------------------------------------------------------- */

/* 1 when |got[k] - ref[k]| <= atol + rtol * max|ref| for all k; otherwise 0 and the reason in text. NaN and infinity in
 * either array fail. */
int test_near(char *text, size_t text_size, const char *name, const double *got, const double *ref, int64_t n,
              double atol, double rtol);

/* Fails the test unless the arrays of n doubles are near. `got` and `ref` may be pointers to [][3] and the like. */
#define near_all(got, ref, n, atol, rtol)                                                                            \
  do {                                                                                                               \
    char near_text_[512];                                                                                            \
    if (!test_near(near_text_, sizeof near_text_, #got, (const double *) (got), (const double *) (ref), (n), (atol), \
                   (rtol)))                                                                                          \
      ck_abort_msg("%s", near_text_);                                                                                \
    mark_point();                                                                                                    \
  } while (0)

/* The same for one pair of numbers: |got - ref| <= tol. */
#define near_one(got, ref, tol)                                                                 \
  do {                                                                                          \
    const double near_got_ = (got), near_ref_ = (ref);                                          \
    char near_text_[512];                                                                       \
    if (!test_near(near_text_, sizeof near_text_, #got, &near_got_, &near_ref_, 1, (tol), 0.0)) \
      ck_abort_msg("%s", near_text_);                                                           \
    mark_point();                                                                               \
  } while (0)

/* Fails the test with the error's text unless call returns MLFF_OK; `error` is an mlff_error variable. */
#define test_ok(call, error)                                                                           \
  do {                                                                                                 \
    const mlff_status test_status_ = (call);                                                           \
    if (test_status_) ck_abort_msg("%s: %s: %s", #call, mlff_status_name(test_status_), (error).text); \
    mark_point();                                                                                      \
  } while (0)

/* Fails unless call returns `status` and the text contains `part`. */
#define test_fails(call, error, status, part)                                                          \
  do {                                                                                                 \
    (error).text[0] = 0;                                                                               \
    const mlff_status test_status_ = (call);                                                           \
    if (test_status_ != (status) || !strstr((error).text, (part)))                                     \
      ck_abort_msg("%s: expected %s with '%s', got %s: '%s'", #call, mlff_status_name(status), (part), \
                   mlff_status_name(test_status_), (error).text);                                      \
    mark_point();                                                                                      \
  } while (0)

/* ---- running and skipping -------------------------------------------------------------------------------------- */

/* Prints "SKIPPED: why" and counts it; the test then returns. */
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef Suite *test_make_suite(void);

/* A test that neither asserts nor skips anything fails: a loop over nothing, or an `if` that is never true. */
TCase *test_tcase_create(const char *name);
#define tcase_create test_tcase_create

/* Runs the suite that `make` makes, reports how many tests were skipped, and returns main's exit code: 0 passed, 1
 * failed, 77 when every test was skipped. Each test is a process of its own, but in builds with CUDA, where none is: a
 * failed test leaves its memory behind, and the others run all the same. */
int test_main(test_make_suite *make);
/* A process for each test in all builds, for tests that end theirs. CUDA must not be called but in tests. */
int test_main_forked(test_make_suite *make);

/* How many of n cases a test takes: all, but on the simulated device and under AddressSanitizer, where they take
 * minutes, the first `few`; in `make nightly` all there, too. */
int test_cases(int n, int few);

/* The repository (environment variable MLFF_TEST_SOURCE_DIR, for programs that were built elsewhere, else the one at
 * compile time). */
const char *test_source_dir(void);

/* Writes the path of a file in the shared directory (environment variable MLFF_SHARED_DIR, else the directory given at
 * compile time) into path. Returns 0, and skips by test_skip, when there is no such file. */
int test_shared(const char *relative, char *path, size_t path_size);

/* Makes a fresh directory for a test's files; test_tmp_remove deletes it with the plain files in it. */
void test_tmp_make(char *dir, size_t dir_size);
void test_tmp_remove(const char *dir);

/* ---- random numbers -------------------------------------------------------------------------------------------- */

typedef struct test_rng {
  uint64_t state;
} test_rng;

double test_uniform(test_rng *rng, double low, double high);
double test_normal(test_rng *rng);
int test_below(test_rng *rng, int n); /* 0..n-1 */

/* ---- atoms ----------------------------------------------------------------------------------------------------- */

/* Atoms of a test; test_atoms_free releases the arrays. */
typedef struct test_atoms {
  int n;
  int pbc[3];
  double cell[3][3]; /* rows are vectors; unused where not periodic */
  int *number;       /* [n] atomic numbers                          */
  int32_t *species;  /* [n] set by test_atoms_species               */
  double (*pos)[3];  /* [n]                                         */
} test_atoms;

test_atoms test_atoms_new(int n);
void test_atoms_free(test_atoms *atoms);
test_atoms test_atoms_copy(const test_atoms *atoms);

/* Chemical symbol of an atomic number 1..118, and the reverse (0 when unknown). */
const char *test_symbol(int number);
int test_number(const char *symbol);

/* Fills species with positions in the element list; aborts the test when an element is missing. */
void test_atoms_species(test_atoms *atoms, const char *const *elements, int n_elements);

/* One water molecule: O H H; species 1 0 0 for elements H, O. */
test_atoms test_water(void);
/* Eight atoms (H2O, H2O, C, H) in a triclinic cell of 4.6 A, smaller than the usual cutoffs. */
test_atoms test_triclinic(void);
/* n atoms at random in a cube of this edge, no two (images too when periodic) closer than min_distance; numbers are
 * drawn from numbers[n_numbers] and species is the position in it. */
test_atoms test_random(int n, double edge, double min_distance, int periodic, const int *numbers, int n_numbers,
                       uint64_t seed);
/* n_side^3 water molecules, randomly turned on a cubic lattice of density 1 g/cm3, periodic: liquid-like numbers. */
test_atoms test_water_box(int n_side, uint64_t seed);

/* A random proper rotation; x' = R x for positions and cell vectors. */
void test_rotation(uint64_t seed, double r[3][3]);
void test_atoms_rotate(test_atoms *atoms, double r[3][3]);
void test_atoms_shift(test_atoms *atoms, const double by[3]);
/* x' = (1 + e) x for positions and cell vectors. */
void test_atoms_strain(test_atoms *atoms, double e[3][3]);
/* New atom k is old atom order[k]. */
void test_atoms_permute(test_atoms *atoms, const int *order);
void test_order(int n, uint64_t seed, int *order);

/* Graph of the atoms; free with mlff_system_free. Aborts the test when it cannot be made. */
mlff_system *test_system(const test_atoms *atoms, double cutoff);

#endif
