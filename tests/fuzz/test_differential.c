/* test_differential.c: random valid models of every architecture, on random atoms in random cells: kernels in double
 * and in single precision against plain loops that know none of the engine's ways, their forces against differences of
 * the plain energies, and one to three ranks against one.
 *
 * Each architecture takes its share of MLFF_FUZZ_SECONDS (4), from model number 0 of MLFF_FUZZ_SEED (1) on; what
 * failed is the number that was printed last, and MLFF_FUZZ_FIRST begins there. Forces and virial of Orb, which are
 * outputs, are compared with those of its plain loops.
 */
#define _POSIX_C_SOURCE 200809L

#include "backends.h"
#include "plain_ani.h"
#include "plain_mace.h"
#include "plain_nequip.h"
#include "plain_orb.h"
#include "plain_painn.h"
#include "plain_tensornet.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int from_to(test_rng *rng, int low, int high)
{
  return low + test_below(rng, high - low + 1);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static test_model_options options_of(test_rng *rng, double least_cutoff, double most_cutoff)
{
  test_model_options o = test_three_elements();
  o.seed = (uint64_t) test_below(rng, 1 << 30);
  o.cutoff = test_uniform(rng, least_cutoff, most_cutoff);
  return o;
}

static test_model random_painn(test_rng *rng)
{
  static const char *const bases[] = {"bspline", "gaussian", "bessel"};
  test_model_options o = options_of(rng, 3.0, 5.5);
  o.basis = bases[test_below(rng, 3)];
  o.n_features = from_to(rng, 1, 40);
  o.n_interactions = from_to(rng, 1, 4);
  o.n_readout = from_to(rng, 1, 20);
  o.n_basis = from_to(rng, strcmp(o.basis, "gaussian") ? 1 : 2, 20);
  return calm_painn(o);
}

static test_model random_ani(test_rng *rng)
{
  test_model_options o = options_of(rng, 3.5, 5.2);
  o.n_members = from_to(rng, 1, 4);
  o.n_radial = from_to(rng, 1, 16);
  o.n_angular = from_to(rng, 1, 5);
  o.n_sections = from_to(rng, 1, 5);
  o.n_hidden = from_to(rng, 1, 3);
  o.width = from_to(rng, 6, 30);
  o.angular_cutoff = o.cutoff * test_uniform(rng, 0.6, 1.0);
  o.radial_eta = test_uniform(rng, 4.0, 20.0);
  return test_model_ani(o);
}

static test_model random_orb(test_rng *rng)
{
  test_model_options o = options_of(rng, 4.0, 6.0);
  o.n_features = from_to(rng, 2, 14);
  o.n_interactions = from_to(rng, 1, 3);
  o.n_readout = from_to(rng, 2, 12);
  o.width = from_to(rng, 2, 20);
  o.n_neighbours = from_to(rng, 3, 60);
  return test_model_orb(o);
}

static test_model random_nequip(test_rng *rng)
{
  test_model_options o = options_of(rng, 3.5, 5.0);
  o.lmax = test_below(rng, 4);
  o.is_sevennet = test_below(rng, 2);
  o.is_package = !o.is_sevennet && test_below(rng, 2);
  o.n_features = from_to(rng, 4, 12);
  o.n_interactions = from_to(rng, 1, 3);
  o.n_basis = from_to(rng, 2, 8);
  o.width = from_to(rng, 4, 20);
  return test_model_nequip(o);
}

static test_model random_mace(test_rng *rng)
{
  test_model_options o = options_of(rng, 3.2, 4.2);
  o.lmax = from_to(rng, 0, 3);
  o.n_orders = from_to(rng, 1, o.lmax + 1);
  o.n_features = from_to(rng, 2, 10);
  o.n_interactions = from_to(rng, 1, 3);
  o.n_readout = test_below(rng, 2) ? from_to(rng, 1, 9) : -1;
  o.n_basis = from_to(rng, 2, 8);
  o.width = from_to(rng, 4, 20);
  o.selects = test_below(rng, 2);
  o.densities = test_below(rng, 8);
  o.transform = test_below(rng, 3);
  o.is_nonlinear = test_below(rng, 2);
  o.is_common = test_below(rng, 2);
  o.reads_last = test_below(rng, 2);
  o.reads_twice = o.n_readout > 0 && test_below(rng, 2);
  return test_model_mace(o);
}

static test_model random_tensornet(test_rng *rng)
{
  static const char *const activations[] = {"silu", "tanh", "sigmoid", "softplus"};
  test_model_options o = options_of(rng, 3.2, 4.5);
  o.n_features = from_to(rng, 2, 20);
  o.n_interactions = from_to(rng, 1, 3);
  o.basis = test_below(rng, 2) ? "gaussian" : "bessel";
  o.n_basis = from_to(rng, 1, 8);
  o.activation = activations[test_below(rng, 4)];
  o.is_so3 = test_below(rng, 2);
  o.from_center = test_below(rng, 2);
  return test_model_tensornet(o);
}

static void plain_ani_mean(const test_model *file, const test_atoms *atoms, double *energy)
{
  mlff_model *model = test_model_open(file, "fp64"); /* says how many members there are */
  const int n_members = mlff_model_info(model)->n_members, n = atoms->n;
  double *each = calloc((size_t) (n * n_members) + 1, sizeof *each);
  plain_ani_energies(file, atoms, n_members, each);
  for (int i = 0; i < n; i++) energy[i] = 0;
  for (int k = 0; k < n * n_members; k++) energy[k % n] += each[k] / n_members;
  free(each);
  mlff_model_close(model);
}

/* As the rows of test_archs, which an architecture must have; lint asks that it has one here, too. */
static const struct {
  const char *name;
  test_model (*make)(test_rng *rng);
  void (*plain)(const test_model *file, const test_atoms *atoms, double *energy); /* of atoms, without offsets */
  void (*direct)(const test_model *file, const test_atoms *atoms, double *energy, double (*forces)[3], double *virial);
} archs[] = {
    {.name = "painn", .make = random_painn, .plain = plain_painn},
    {.name = "ani", .make = random_ani, .plain = plain_ani_mean},
    {.name = "orb", .make = random_orb, .direct = plain_orb},
    {.name = "nequip", .make = random_nequip, .plain = plain_nequip},
    {.name = "mace", .make = random_mace, .plain = plain_mace},
    {.name = "tensornet", .make = random_tensornet, .plain = plain_tensornet},
};
enum { N_ARCHS = sizeof archs / sizeof *archs };

/* ---- atoms ------------------------------------------------------------------------------------------------------- */

/* Up to 30 atoms of one to three elements, from dense to alone, in a strained and turned cell that is periodic in any
 * of its directions, or in all or none, as Orb asks for; small cells have many images of each atom in reach. */
static test_atoms random_atoms(test_rng *rng, int all_or_none)
{
  static const int numbers[] = {1, 6, 8};
  const int n = from_to(rng, 1, 30);
  const double edge = test_uniform(rng, 1.7, 2.6) * cbrt((double) n) + 0.8;
  test_atoms atoms = test_random(n, edge, 0.9, 1, numbers, from_to(rng, 1, 3), (uint64_t) test_below(rng, 1 << 30));
  double strain[3][3], turn[3][3];
  for (int k = 0; k < 9; k++) strain[k / 3][k % 3] = test_uniform(rng, -0.12, 0.12);
  test_atoms_strain(&atoms, strain);
  test_rotation((uint64_t) test_below(rng, 1 << 30), turn);
  test_atoms_rotate(&atoms, turn);
  for (int k = 0; k < 3; k++) atoms.pbc[k] = all_or_none && k ? atoms.pbc[0] : test_below(rng, 4) > 0;
  return atoms;
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

static double largest(const void *numbers, int64_t n)
{
  const double *x = numbers;
  double most = 0;
  for (int64_t k = 0; k < n; k++) most = fmax(most, fabs(x[k]));
  return most;
}

/* On a random kernel path of this machine, in single or in double precision. */
static mlff_model *open_somewhere(const test_model *file, test_rng *rng, int is_double)
{
  mlff_options options = {.skip_self_test = 1};
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  do options = (mlff_options){.skip_self_test = 1};
  while (!choose_backend(2 * test_below(rng, n_backends() / 2) + is_double, &options));
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

/* Rounding error of the sum of n atomic energies. */
static double rounding_of_energy(const test_answer *a, int n, double rounding)
{
  return rounding * n * (1 + largest(a->result.atom_energy, a->result.atom_energy ? n : 0));
}

/* Rounding error of sums of about 100 terms. In single precision networks amplify it. */
static void compare(const test_answer *a, const test_answer *b, double rounding)
{
  const int n = a->n_nodes;
  near_one(a->result.energy, b->result.energy, rounding_of_energy(b, n, rounding));
  near_all(a->result.forces, b->result.forces, 3 * n, rounding, rounding);
  near_all(a->result.virial, b->result.virial, 6, rounding * n, rounding);
  if (b->result.atom_energy) near_all(a->result.atom_energy, b->result.atom_energy, n, rounding, rounding);
  if (b->result.atom_virial) near_all(a->result.atom_virial, b->result.atom_virial, 6 * n, rounding, rounding);
}

static double largest_change(const test_answer *a, const test_answer *b)
{
  double change = 0;
  for (int k = 0; k < 3 * a->n_nodes; k++)
    change = fmax(change, fabs(a->result.forces[k / 3][k % 3] - b->result.forces[k / 3][k % 3]));
  return change;
}

/* What single precision may be off by: networks amplify its rounding a hundredfold, steep ones more. How much one does
 * is what its forces (`exact`, of these atoms) change by in double when atoms move by 3e-7 A, the rounding of a
 * distance: of 769 of TensorNet one changed by 1e-3 of the largest force, and was off by 1.3e-4. Orb's outputs may be
 * off by 20 times that change: of 6,000 two were off by more than 1e-4 of the largest force, by 0.5 and 11 times it. */
static double single_rounding(mlff_model *oracle, const test_atoms *atoms, const test_answer *exact, double factor,
                              test_rng *rng)
{
  double change = 0;
  for (int repeat = 0; repeat < 3; repeat++) {
    test_atoms moved = test_atoms_copy(atoms);
    for (int k = 0; k < 3 * atoms->n; k++) moved.pos[k / 3][k % 3] += test_uniform(rng, -3e-7, 3e-7);
    test_answer b = test_evaluate(oracle, &moved);
    change = fmax(change, largest_change(&b, exact));
    test_answer_free(&b);
    test_atoms_free(&moved);
  }
  return fmax(1e-4, factor * change / (1 + largest(exact->result.forces, 3 * atoms->n)));
}

static double plain_sum(int arch, const test_model *file, const test_atoms *atoms)
{
  double sum = 0, *energy = calloc((size_t) atoms->n + 1, sizeof *energy);
  archs[arch].plain(file, atoms, energy);
  for (int i = 0; i < atoms->n; i++) sum += energy[i];
  free(energy);
  return sum;
}

static double offset(const test_atoms *atoms, int i)
{
  return -13.6 * (atoms->species[i] + 1);
}

static void compare_outputs(int arch, const test_model *file, const test_atoms *atoms, const test_answer *a)
{
  const int n = atoms->n;
  double energy, virial[6], (*forces)[3] = malloc((size_t) n * sizeof *forces);
  archs[arch].direct(file, atoms, &energy, forces, virial);
  for (int i = 0; i < n; i++) energy += offset(atoms, i);
  near_one(a->result.energy, energy, rounding_of_energy(a, n, 1e-11));
  near_all(a->result.forces, forces, 3 * n, 1e-11, 1e-11);
  near_all(a->result.virial, virial, 6, 1e-11 * n, 1e-11);
  free(forces);
}

/* Energies of atoms, and the forces along a random direction, of length 1 for each atom. At a cutoff the second
 * derivative may jump, so that the error of a difference is proportional to its step: that of 1e-6 A is below 2e-5 of
 * the largest force, where 1e-5 A had 5e-5. */
static void compare_with_plain(int arch, const test_model *file, const test_atoms *atoms, const test_answer *a,
                               test_rng *rng)
{
  const int n = atoms->n;
  const double h = 1e-6, tolerance = 1e-5 * (1 + largest(a->result.forces, 3 * n)) * n;
  double *energy = calloc((size_t) n + 1, sizeof *energy), sum[2], along = 0;
  archs[arch].plain(file, atoms, energy);
  for (int i = 0; i < n; i++) energy[i] += offset(atoms, i);
  near_all(a->result.atom_energy, energy, n, 1e-12, 1e-12);
  test_atoms moved[2] = {test_atoms_copy(atoms), test_atoms_copy(atoms)};
  for (int i = 0; i < n; i++) {
    double turn[3][3];
    test_rotation((uint64_t) test_below(rng, 1 << 30), turn);
    for (int c = 0; c < 3; c++) {
      moved[0].pos[i][c] -= h * turn[0][c];
      moved[1].pos[i][c] += h * turn[0][c];
      along += a->result.forces[i][c] * turn[0][c];
    }
  }
  for (int k = 0; k < 2; k++) {
    sum[k] = plain_sum(arch, file, &moved[k]);
    test_atoms_free(&moved[k]);
  }
  near_one(along, -(sum[1] - sum[0]) / (2 * h), tolerance);
  free(energy);
}

/* Any atom on any rank, or slabs. */
static void compare_ranks(const test_model *file, const test_atoms *atoms, const test_answer *a, test_rng *rng)
{
  const int n = atoms->n, n_ranks = from_to(rng, 1, 3), is_random = test_below(rng, 2);
  const double rounding = 1e-11;
  int rank_of[64];
  for (int i = 0; i < n; i++) rank_of[i] = is_random ? test_below(rng, n_ranks) : i * n_ranks / n;
  test_ranks_answer r = test_on_ranks(file, "fp64", atoms, n_ranks, rank_of);
  near_one(r.energy, a->result.energy, rounding_of_energy(a, n, rounding));
  near_all(r.forces, a->result.forces, 3 * n, rounding, rounding);
  near_all(r.virial, a->result.virial, 6, rounding * n, rounding);
  if (a->result.atom_energy) near_all(r.atom_energy, a->result.atom_energy, n, rounding, rounding);
  test_ranks_free(&r);
}

static void try_one(int arch, uint64_t number)
{
  test_rng rng = {number};
  test_model file = archs[arch].make(&rng);
  test_atoms atoms = random_atoms(&rng, archs[arch].direct != NULL);
  if (test_below(&rng, 3) == 0)
    test_model_repel(&file, "H-H: 1.5, H-O: 1.3, C-O: 1.7, O-O: 1.9");
  else {
    mlff_model *model = open_somewhere(&file, &rng, 1);
    test_answer a = test_evaluate(model, &atoms);
    if (archs[arch].direct)
      compare_outputs(arch, &file, &atoms, &a);
    else
      compare_with_plain(arch, &file, &atoms, &a, &rng);
    test_answer_free(&a);
    mlff_model_close(model);
  }
  mlff_model *oracle = test_model_open_for(&file, "fp64", "generic", NULL);
  test_answer b = test_evaluate(oracle, &atoms);
  /* A PaiNN of four layers in a dense cell may reach 1e36 eV/A, where single precision is meaningless. */
  const int explodes = largest(b.result.forces, 3 * atoms.n) > 1e12;
  for (int is_double = explodes; is_double < 2; is_double++) {
    mlff_model *model = open_somewhere(&file, &rng, is_double);
    test_answer a = test_evaluate(model, &atoms);
    if (is_double)
      compare(&a, &b, 1e-11);
    else
      compare(&a, &b, single_rounding(oracle, &atoms, &b, archs[arch].direct ? 20 : 1, &rng));
    test_answer_free(&a);
    mlff_model_close(model);
  }
  compare_ranks(&file, &atoms, &b, &rng);
  test_answer_free(&b);
  mlff_model_close(oracle);
  test_atoms_free(&atoms);
  test_model_free(&file);
}

static double setting(const char *name, double otherwise)
{
  const char *text = getenv(name);
  return text && *text ? atof(text) : otherwise;
}

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

START_TEST(kernels_plain_loops_and_ranks_agree)
{
  const double end = seconds() + setting("MLFF_FUZZ_SECONDS", 4) / N_ARCHS;
  const uint64_t first = (uint64_t) setting("MLFF_FUZZ_SEED", 1) * 1000000007u;
  uint64_t n = (uint64_t) setting("MLFF_FUZZ_FIRST", 0);
  do {
    printf("%s %llu\n", archs[_i].name, (unsigned long long) n);
    fflush(stdout);
    try_one(_i, first + n++);
  } while (seconds() < end);
  printf("%llu models of %s\n", (unsigned long long) n, archs[_i].name);
}
END_TEST

/* A new architecture has a row here. */
START_TEST(all_architectures_are_here)
{
  ck_assert_int_eq(test_n_archs(), N_ARCHS);
  for (int k = 0; k < N_ARCHS; k++) ck_assert_str_eq(archs[k].name, test_archs[k].name);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("differential");
  TCase *tc = tcase_create("differential");
  tcase_set_timeout(tc, 60 + 2 * setting("MLFF_FUZZ_SECONDS", 4));
  tcase_add_loop_test(tc, kernels_plain_loops_and_ranks_agree, 0, N_ARCHS);
  tcase_add_test(tc, all_architectures_are_here);
  suite_add_tcase(suite, tc);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
