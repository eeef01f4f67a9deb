/* support.c: see support.h. */
#define _DEFAULT_SOURCE

#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- comparing ------------------------------------------------------------------------------------------------- */

int test_near(char *text, size_t text_size, const char *name, const double *got, const double *ref, int64_t n,
              double atol, double rtol)
{
  double max_ref = 0, worst = -1;
  int64_t at = -1;
  for (int64_t k = 0; k < n; ++k) {
    if (!isfinite(got[k]) || !isfinite(ref[k])) {
      snprintf(text, text_size, "%s[%lld] = %.17g, expected %.17g (not finite)", name, (long long) k, got[k], ref[k]);
      return 0;
    }
    max_ref = fmax(max_ref, fabs(ref[k]));
  }
  for (int64_t k = 0; k < n; ++k) {
    const double error = fabs(got[k] - ref[k]);
    if (error > worst) {
      worst = error;
      at = k;
    }
  }
  const double allowed = atol + rtol * max_ref;
  if (worst <= allowed) return 1;
  if (n == 0) return 1;
  snprintf(text, text_size, "%s[%lld] = %.17g, expected %.17g: off by %.3g, allowed %.3g (largest reference %.3g)",
           name, (long long) at, got[at], ref[at], worst, allowed, max_ref);
  return 0;
}

/* ---- running and skipping -------------------------------------------------------------------------------------- */

int test_cases(int n, int few)
{
#if MLFF_CUDASIM || defined(__SANITIZE_ADDRESS__)
  const char *nightly = getenv("NIGHTLY");
  if (!nightly || !nightly[0]) return few;
#else
  (void) few;
#endif
  return n;
}

static int *skipped; /* shared with the processes that Check forks */

void test_skip(const char *format, ...)
{
  va_list args;
  va_start(args, format);
  printf("SKIPPED: ");
  vprintf(format, args);
  printf("\n");
  fflush(stdout);
  va_end(args);
  if (skipped) __atomic_add_fetch(skipped, 1, __ATOMIC_SEQ_CST);
}

/* Check calls _mark_point for every assertion that holds; the linker puts this function in its place. */
static int n_asserted, n_skipped_before;

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
  n_asserted++;
  __real__mark_point(file, line);
}

static void test_begins(void)
{
  n_asserted = 0;
  n_skipped_before = skipped ? *skipped : 0;
}

static void test_ends(void)
{
  if (n_asserted == 0 && (!skipped || *skipped == n_skipped_before)) ck_abort_msg("the test has asserted nothing");
}

#undef tcase_create
TCase *test_tcase_create(const char *name)
{
  TCase *tcase = tcase_create(name);
  tcase_add_checked_fixture(tcase, test_begins, test_ends);
  return tcase;
}

static int run_suite(test_make_suite *make, enum fork_status fork_status)
{
  setenv("CK_DEFAULT_TIMEOUT", "300", 0);
  skipped = mmap(NULL, sizeof *skipped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (skipped == MAP_FAILED) skipped = NULL;
  SRunner *runner = srunner_create(make());
  srunner_set_fork_status(runner, fork_status);
  srunner_run_all(runner, CK_NORMAL);
  const int n_failed = srunner_ntests_failed(runner), n_run = srunner_ntests_run(runner);
  const int n_skipped = skipped ? *skipped : 0;
  srunner_free(runner);
  if (n_skipped) printf("SKIPPED %d of %d tests\n", n_skipped, n_run);
  if (n_run == 0) {
    printf("no test was run\n");
    return 1;
  }
  if (n_failed) return 1;
  return n_skipped >= n_run ? 77 : 0;
}

/* CUDA is of the process that calls it first, and make() does when it asks for backends: children could not use it. */
int test_main(test_make_suite *make)
{
#if MLFF_HAVE_CUDA
  return run_suite(make, CK_NOFORK);
#else
  return run_suite(make, CK_FORK_GETENV);
#endif
}

int test_main_forked(test_make_suite *make)
{
  return run_suite(make, CK_FORK);
}

const char *test_source_dir(void)
{
  const char *dir = getenv("MLFF_TEST_SOURCE_DIR");
  return dir && *dir ? dir : MLFF_TEST_SOURCE_DIR;
}

int test_shared(const char *relative, char *path, size_t path_size)
{
  const char *dir = getenv("MLFF_SHARED_DIR");
#ifdef MLFF_SHARED_DIR
  if (!dir || !*dir) dir = MLFF_SHARED_DIR;
#endif
  if (!dir || !*dir) {
    test_skip("%s: MLFF_SHARED_DIR is not set", relative);
    return 0;
  }
  snprintf(path, path_size, "%s/%s", dir, relative);
  if (access(path, R_OK)) {
    test_skip("%s is not there", path);
    return 0;
  }
  return 1;
}

void test_tmp_make(char *dir, size_t dir_size)
{
  const char *base = getenv("TMPDIR");
  const int length = snprintf(dir, dir_size, "%s/mlff-test-XXXXXX", base && *base ? base : "/tmp");
  if (length < 0 || (size_t) length >= dir_size || !mkdtemp(dir)) ck_abort_msg("cannot make a directory like %s", dir);
}

void test_tmp_remove(const char *dir)
{
  DIR *listing = opendir(dir);
  if (!listing) return;
  for (const struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
    char path[4096];
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
    unlink(path);
  }
  closedir(listing);
  rmdir(dir);
}

/* ---- random numbers -------------------------------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t next_bits(test_rng *rng)
{
  uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double test_uniform(test_rng *rng, double low, double high)
{
  return low + (high - low) * ((double) (next_bits(rng) >> 11) * 0x1p-53);
}

double test_normal(test_rng *rng)
{
  const double u = 1.0 - test_uniform(rng, 0, 1), v = test_uniform(rng, 0, 1);
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

int test_below(test_rng *rng, int n)
{
  return (int) (next_bits(rng) % (uint64_t) n);
}

/* ---- atoms ----------------------------------------------------------------------------------------------------- */

static const char *const symbols[] = {"X",  "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na",
                                      "Mg", "Al", "Si", "P",  "S",  "Cl", "Ar", "K",  "Ca", "Sc", "Ti", "V",
                                      "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br",
                                      "Kr", "Rb", "Sr", "Y",  "Zr", "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag",
                                      "Cd", "In", "Sn", "Sb", "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr",
                                      "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu",
                                      "Hf", "Ta", "W",  "Re", "Os", "Ir", "Pt", "Au", "Hg", "Tl", "Pb", "Bi",
                                      "Po", "At", "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U",  "Np", "Pu", "Am",
                                      "Cm", "Bk", "Cf", "Es", "Fm", "Md", "No", "Lr", "Rf", "Db", "Sg", "Bh",
                                      "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};
enum { N_SYMBOLS = sizeof symbols / sizeof symbols[0] };

const char *test_symbol(int number)
{
  return number > 0 && number < N_SYMBOLS ? symbols[number] : "?";
}

int test_number(const char *symbol)
{
  for (int z = 1; z < N_SYMBOLS; ++z)
    if (!strcmp(symbols[z], symbol)) return z;
  return 0;
}

test_atoms test_atoms_new(int n)
{
  test_atoms atoms = {.n = n};
  const size_t count = n > 0 ? (size_t) n : 1;
  atoms.number = calloc(count, sizeof *atoms.number);
  atoms.species = calloc(count, sizeof *atoms.species);
  atoms.pos = calloc(count, sizeof *atoms.pos);
  if (!atoms.number || !atoms.species || !atoms.pos) ck_abort_msg("out of memory");
  return atoms;
}

void test_atoms_free(test_atoms *atoms)
{
  free(atoms->number);
  free(atoms->species);
  free(atoms->pos);
  *atoms = (test_atoms){0};
}

test_atoms test_atoms_copy(const test_atoms *atoms)
{
  test_atoms copy = test_atoms_new(atoms->n);
  memcpy(copy.pbc, atoms->pbc, sizeof copy.pbc);
  memcpy(copy.cell, atoms->cell, sizeof copy.cell);
  memcpy(copy.number, atoms->number, (size_t) atoms->n * sizeof *copy.number);
  memcpy(copy.species, atoms->species, (size_t) atoms->n * sizeof *copy.species);
  memcpy(copy.pos, atoms->pos, (size_t) atoms->n * sizeof *copy.pos);
  return copy;
}

void test_atoms_species(test_atoms *atoms, const char *const *elements, int n_elements)
{
  for (int i = 0; i < atoms->n; ++i) {
    const char *symbol = test_symbol(atoms->number[i]);
    int s = 0;
    while (s < n_elements && strcmp(elements[s], symbol)) ++s;
    if (s == n_elements) ck_abort_msg("element %s of atom %d is not in the list", symbol, i);
    atoms->species[i] = s;
  }
}

static test_atoms atoms_from(int n, const int *number, const double (*pos)[3])
{
  static const char *const elements[] = {"H", "C", "O"};
  test_atoms atoms = test_atoms_new(n);
  memcpy(atoms.number, number, (size_t) n * sizeof *number);
  memcpy(atoms.pos, pos, (size_t) n * sizeof *pos);
  test_atoms_species(&atoms, elements, 3);
  return atoms;
}

test_atoms test_water(void)
{
  static const int number[3] = {8, 1, 1};
  static const double pos[3][3] = {{0.0, 0.0, 0.119262}, {0.0, 0.763239, -0.477047}, {0.0, -0.763239, -0.477047}};
  test_atoms atoms = atoms_from(3, number, pos);
  atoms.species[0] = 1; /* elements H, O */
  return atoms;
}

test_atoms test_triclinic(void)
{
  static const int number[8] = {8, 1, 1, 8, 1, 1, 6, 1};
  static const double pos[8][3] = {{0.31, 0.42, 0.55}, {0.95, 0.98, 1.02},  {-0.38, 0.93, 0.13}, {2.61, 2.87, 0.41},
                                   {3.19, 2.21, 0.83}, {1.93, 2.38, -0.05}, {1.12, 2.05, 3.27},  {1.87, 1.46, 3.81}};
  static const double cell[3][3] = {{4.6, 0.0, 0.0}, {0.9, 4.9, 0.0}, {-0.6, 0.7, 5.2}};
  test_atoms atoms = atoms_from(8, number, pos);
  memcpy(atoms.cell, cell, sizeof cell);
  atoms.pbc[0] = atoms.pbc[1] = atoms.pbc[2] = 1;
  return atoms;
}

static int is_free_place(const test_atoms *atoms, int n, const double x[3], double edge, double min_distance)
{
  for (int i = 0; i < n; ++i) {
    double r2 = 0;
    for (int k = 0; k < 3; ++k) {
      double d = x[k] - atoms->pos[i][k];
      if (atoms->pbc[k]) d -= edge * nearbyint(d / edge);
      r2 += d * d;
    }
    if (r2 < min_distance * min_distance) return 0;
  }
  return 1;
}

test_atoms test_random(int n, double edge, double min_distance, int periodic, const int *numbers, int n_numbers,
                       uint64_t seed)
{
  test_rng rng = {seed};
  test_atoms atoms = test_atoms_new(n);
  for (int k = 0; k < 3; ++k) {
    atoms.pbc[k] = periodic != 0;
    atoms.cell[k][k] = edge;
  }
  for (int i = 0; i < n; ++i) {
    int tries = 0;
    do {
      if (++tries > 100000) ck_abort_msg("%d atoms %g A apart do not fit a cube of %g A", n, min_distance, edge);
      for (int k = 0; k < 3; ++k) atoms.pos[i][k] = test_uniform(&rng, 0, edge);
    } while (!is_free_place(&atoms, i, atoms.pos[i], edge, min_distance));
    atoms.species[i] = test_below(&rng, n_numbers);
    atoms.number[i] = numbers[atoms.species[i]];
  }
  return atoms;
}

test_atoms test_water_box(int n_side, uint64_t seed)
{
  const double spacing = 3.1042; /* (18.0154 g/mol / (1 g/cm3 N_A))^(1/3) */
  test_atoms one = test_water();
  test_atoms atoms = test_atoms_new(3 * n_side * n_side * n_side);
  int n = 0;
  for (int k = 0; k < 3; ++k) {
    atoms.pbc[k] = 1;
    atoms.cell[k][k] = spacing * n_side;
  }
  for (int cell = 0; cell < n_side * n_side * n_side; ++cell) {
    const double at[3] = {spacing * (cell % n_side), spacing * (cell / n_side % n_side),
                          spacing * (cell / n_side / n_side)};
    double r[3][3];
    test_atoms turned = test_atoms_copy(&one);
    test_rotation(seed * 1000003u + (uint64_t) cell, r);
    test_atoms_rotate(&turned, r);
    for (int i = 0; i < 3; ++i, ++n) {
      for (int k = 0; k < 3; ++k) atoms.pos[n][k] = at[k] + turned.pos[i][k];
      atoms.number[n] = one.number[i];
      atoms.species[n] = one.species[i];
    }
    test_atoms_free(&turned);
  }
  test_atoms_free(&one);
  return atoms;
}

void test_rotation(uint64_t seed, double r[3][3])
{
  test_rng rng = {seed};
  double q[4], norm = 0;
  for (int k = 0; k < 4; ++k) {
    q[k] = test_normal(&rng);
    norm += q[k] * q[k];
  }
  for (int k = 0; k < 4; ++k) q[k] /= sqrt(norm);
  const double w = q[0], x = q[1], y = q[2], z = q[3];
  const double m[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                          {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                          {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
  memcpy(r, m, sizeof m);
}

static void transform(double m[3][3], double x[3])
{
  double y[3];
  for (int a = 0; a < 3; ++a) y[a] = m[a][0] * x[0] + m[a][1] * x[1] + m[a][2] * x[2];
  memcpy(x, y, sizeof y);
}

void test_atoms_rotate(test_atoms *atoms, double r[3][3])
{
  for (int i = 0; i < atoms->n; ++i) transform(r, atoms->pos[i]);
  for (int k = 0; k < 3; ++k) transform(r, atoms->cell[k]);
}

void test_atoms_shift(test_atoms *atoms, const double by[3])
{
  for (int i = 0; i < atoms->n; ++i)
    for (int k = 0; k < 3; ++k) atoms->pos[i][k] += by[k];
}

void test_atoms_strain(test_atoms *atoms, double e[3][3])
{
  double m[3][3];
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) m[a][b] = (a == b) + e[a][b];
  test_atoms_rotate(atoms, m);
}

void test_atoms_permute(test_atoms *atoms, const int *order)
{
  test_atoms old = test_atoms_copy(atoms);
  for (int i = 0; i < atoms->n; ++i) {
    atoms->number[i] = old.number[order[i]];
    atoms->species[i] = old.species[order[i]];
    memcpy(atoms->pos[i], old.pos[order[i]], sizeof atoms->pos[i]);
  }
  test_atoms_free(&old);
}

void test_order(int n, uint64_t seed, int *order)
{
  test_rng rng = {seed};
  for (int i = 0; i < n; ++i) order[i] = i;
  for (int i = n - 1; i > 0; --i) {
    const int j = test_below(&rng, i + 1), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
}

mlff_system *test_system(const test_atoms *atoms, double cutoff)
{
  mlff_system *system = NULL;
  mlff_error error = {0};
  test_ok(mlff_system_create(atoms->n, atoms->species, (const double(*)[3]) atoms->pos,
                             (const double(*)[3]) atoms->cell, atoms->pbc, cutoff, &system, &error),
          error);
  return system;
}
