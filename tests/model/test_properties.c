/* test_properties.c: the traits that models promise, and the properties of all models, for every architecture of the
 * registry on every backend. Random models come from test_archs (support/testmodel.h). An architecture without a row
 * there fails. Properties of one architecture are in its own test. */
#include "ranks.h"
#include "subjects.h"

#include "model/arch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_SIDES = 2 };

/* Precisions of runs on several ranks. AddressSanitizer is slow, so it runs single precision only. */
#if defined(__SANITIZE_ADDRESS__)
enum { N_PRECISIONS = 1 };
#else
enum { N_PRECISIONS = 2 };
#endif

static mlff_model *open_oracle(const test_model *file)
{
  const mlff_options options = {.device = "cpu", .precision = "fp64", .skip_self_test = 1};
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

static int is_double(const mlff_model *model)
{
  return !strcmp(mlff_model_info(model)->precision, "fp64");
}

/* Error of forces and of an atom's energy by rounding, in fp64 `rounding`. */
static double tolerance_of(const mlff_model *model, double rounding)
{
  return is_double(model) ? rounding : 2e-5;
}

static double largest(const void *numbers, int64_t n)
{
  const double *x = numbers;
  double most = 0;
  for (int64_t k = 0; k < n; k++) most = fmax(most, fabs(x[k]));
  return most;
}

static test_atoms liquid(int n, uint64_t seed)
{
  static const int numbers[] = {1, 6, 8};
  return test_random(n, 1.9 * cbrt((double) n) + 0.8, 0.9, 1, numbers, 3, seed);
}

/* ---- the registry ------------------------------------------------------------------------------------------------ */

START_TEST(every_architecture_has_a_test_model)
{
  int n = 0;
  for (; mlff_archs[n]; n++) {
    const test_arch *arch = arch_named(mlff_archs[n]->name);
    ck_assert_msg(arch != NULL, "architecture '%s' has no row in test_archs (tests/support/testmodel.c)",
                  mlff_archs[n]->name);
    ck_assert_msg(arch->n_variants > 0, "no test model of '%s'", arch->name);
  }
  ck_assert_int_gt(n, 0);
  for (const test_arch *arch = test_archs; arch->name; arch++) {
    int k = 0;
    while (mlff_archs[k] && strcmp(mlff_archs[k]->name, arch->name)) k++;
    ck_assert_msg(mlff_archs[k] != NULL, "'%s' of test_archs is not in the registry", arch->name);
  }
}
END_TEST

/* Otherwise a property test would pass by having nothing to test. */
START_TEST(every_trait_is_promised_by_a_model)
{
  for (unsigned trait = MLFF_CONSERVATIVE; trait <= MLFF_INVERSION_EXACT; trait <<= 1)
    ck_assert_msg(n_with(trait) > 0, "trait %#x", trait);
}
END_TEST

/* ---- derivatives ------------------------------------------------------------------------------------------------- */

static const double steps[4] = {-2, -1, 1, 2};

static double slope(const double e[4], double h)
{
  return (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * h);
}

static void numeric_forces(mlff_model *model, const test_atoms *atoms, double h, double (*forces)[3])
{
  test_atoms moved = test_atoms_copy(atoms);
  for (int k = 0; k < 3 * atoms->n; k++) {
    double e[4], *x = &moved.pos[k / 3][k % 3];
    for (int s = 0; s < 4; s++) {
      *x = atoms->pos[k / 3][k % 3] + steps[s] * h;
      e[s] = test_energy(model, &moved);
    }
    *x = atoms->pos[k / 3][k % 3];
    forces[k / 3][k % 3] = -slope(e, h);
  }
  test_atoms_free(&moved);
}

/* W_ab = -dE/dstrain_ab, symmetric strain. */
static void numeric_virial(mlff_model *model, const test_atoms *atoms, double h, double virial[6])
{
  static const int pairs[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
  for (int k = 0; k < 6; k++) {
    double e[4];
    for (int s = 0; s < 4; s++) {
      double strain[3][3] = {{0}};
      strain[pairs[k][0]][pairs[k][1]] += 0.5 * steps[s] * h;
      strain[pairs[k][1]][pairs[k][0]] += 0.5 * steps[s] * h;
      test_atoms strained = test_atoms_copy(atoms);
      test_atoms_strain(&strained, strain);
      e[s] = test_energy(model, &strained);
      test_atoms_free(&strained);
    }
    virial[k] = -slope(e, h);
  }
}

/* Differences are those of cpu64; every backend's energy, forces and virial are held against them. Own images
 * included. */
START_TEST(forces_and_virial_are_derivatives)
{
  enum { N = 8 };
  const subject *s = nth_with(MLFF_CONSERVATIVE, _i);
  test_model file = s->arch->make(s->variant);
  mlff_model *oracle = open_oracle(&file);
  test_atoms atoms = test_triclinic();
  double forces[N][3], virial[6];
  const double energy = test_energy(oracle, &atoms), none[3] = {0};
  numeric_forces(oracle, &atoms, s->arch->step, forces);
  numeric_virial(oracle, &atoms, s->arch->step, virial);
  ck_assert_double_gt(largest(forces, 3 * N), 0.1);
  ck_assert_double_gt(largest(virial, 6), 0.1);
  int n_compared = 0;
  for (int b = 0; b < n_backends(); b++) {
    mlff_model *model = open_on_backend(&file, b);
    if (!model) continue;
    test_answer a = test_evaluate(model, &atoms);
    const double near = tolerance_of(model, s->arch->derivative);
    double sum[3] = {0};
    for (int k = 0; k < 3 * N; k++) sum[k % 3] += a.result.forces[k / 3][k % 3];
    near_one(a.result.energy, energy, tolerance_of(model, 1e-11) * N);
    near_all(a.result.forces, forces, 3 * N, near, near);
    near_all(a.result.virial, virial, 6, tolerance_of(model, 1e-7), near);
    near_all(sum, none, 3, tolerance_of(model, 1e-10), 0.0);
    test_answer_free(&a);
    mlff_model_close(model);
    n_compared++;
  }
  ck_assert_int_gt(n_compared, 0);
  test_atoms_free(&atoms);
  mlff_model_close(oracle);
  test_model_free(&file);
}
END_TEST

/* ---- centroid virials -------------------------------------------------------------------------------------------- */

/* W_j = sum_i (x_i - x_j) de_i/dx_j of an open cluster, by differences of the energies of atoms. */
static void numeric_centroid(mlff_model *model, const test_atoms *atoms, double h, double (*virial)[9])
{
  static const int place[3][3] = {{0, 3, 4}, {6, 1, 5}, {7, 8, 2}};
  test_atoms moved = test_atoms_copy(atoms);
  memset(virial, 0, (size_t) atoms->n * sizeof *virial);
  for (int k = 0; k < 3 * atoms->n; k++) {
    const int j = k / 3, b = k % 3;
    test_answer at[4];
    for (int s = 0; s < 4; s++) {
      moved.pos[j][b] = atoms->pos[j][b] + steps[s] * h;
      at[s] = test_evaluate(model, &moved);
    }
    moved.pos[j][b] = atoms->pos[j][b];
    for (int i = 0; i < atoms->n; i++) {
      double e[4];
      for (int s = 0; s < 4; s++) e[s] = at[s].result.atom_energy[i];
      for (int a = 0; a < 3; a++) virial[j][place[a][b]] += (atoms->pos[i][a] - atoms->pos[j][a]) * slope(e, h);
    }
    for (int s = 0; s < 4; s++) test_answer_free(&at[s]);
  }
  test_atoms_free(&moved);
}

/* On every backend: open clusters, wherever they are, against differences of cpu64. */
START_TEST(centroid_virials_are_derivatives)
{
  enum { N = 9 };
  const subject *s = nth_with(MLFF_CONSERVATIVE | MLFF_NODE_ENERGIES, _i);
  test_model file = s->arch->make(s->variant);
  mlff_model *oracle = open_oracle(&file);
  test_atoms atoms = liquid(N, 12);
  const double by[3] = {40.0, -25.0, 3.0};
  double virial[N][9];
  memset(atoms.pbc, 0, sizeof atoms.pbc);
  numeric_centroid(oracle, &atoms, s->arch->step, virial);
  ck_assert_double_gt(largest(virial, 9 * N), 0.1);
  for (int b = 0; b < n_backends(); b++) {
    mlff_model *model = open_on_backend(&file, b);
    if (!model) continue;
    const double near = 10 * tolerance_of(model, s->arch->derivative);
    for (int far = 0; far < N_SIDES; far++) {
      test_atoms other = test_atoms_copy(&atoms);
      if (far) test_atoms_shift(&other, by);
      test_answer a = test_evaluate_centroid(model, &other);
      near_all(a.result.atom_centroid, virial, 9 * N, near, near);
      test_answer_free(&a);
      test_atoms_free(&other);
    }
    mlff_model_close(model);
  }
  test_atoms_free(&atoms);
  mlff_model_close(oracle);
  test_model_free(&file);
}
END_TEST

/* The atoms of a cell twice along each vector; each atom is moved by a vector of its own of the larger lattice. */
static test_atoms eight_cells(const test_atoms *atoms)
{
  test_atoms all = test_atoms_new(8 * atoms->n);
  memcpy(all.pbc, atoms->pbc, sizeof all.pbc);
  for (int k = 0; k < 9; k++) all.cell[k / 3][k % 3] = 2 * atoms->cell[k / 3][k % 3];
  for (int i = 0; i < all.n; i++) {
    const int one = i / 8;
    all.number[i] = atoms->number[one];
    all.species[i] = atoms->species[one];
    for (int c = 0; c < 3; c++) {
      all.pos[i][c] = atoms->pos[one][c];
      for (int v = 0; v < 3; v++) all.pos[i][c] += ((i >> v & 1) + 2 * ((i + v) % 3 - 1)) * atoms->cell[v][c];
    }
  }
  return all;
}

/* Atoms whose images are their own neighbors have the centroid virials that they have in a larger cell, wherever it
 * begins, and these sum to the virial. */
START_TEST(centroid_virials_of_images)
{
  enum { N = 8 };
  static const int six[9] = {0, 1, 2, 3, 4, 5, 3, 4, 5};
  target t = open_target(MLFF_CONSERVATIVE | MLFF_NODE_ENERGIES, _i);
  if (t.model) {
    test_atoms atoms = test_triclinic(), more = eight_cells(&atoms);
    const double near = tolerance_of(t.model, 1e-10);
    test_answer a = test_evaluate_centroid(t.model, &atoms), all = test_evaluate_centroid(t.model, &more);
    double sum[6] = {0};
    for (int k = 0; k < 9 * N; k++) sum[six[k % 9]] += a.result.atom_centroid[k / 9][k % 9] * (k % 9 < 3 ? 1.0 : 0.5);
    near_all(sum, a.result.virial, 6, N * near, near);
    ck_assert_double_gt(largest(a.result.atom_centroid, 9 * N), 0.1);
    for (int i = 0; i < more.n; i++)
      near_all(all.result.atom_centroid[i], a.result.atom_centroid[i / 8], 9, 10 * near, 10 * near);
    test_answer_free(&a);
    test_answer_free(&all);
    test_atoms_free(&atoms);
    test_atoms_free(&more);
  }
  close_target(&t);
}
END_TEST

/* ---- symmetries -------------------------------------------------------------------------------------------------- */

/* The same system turned by r (NULL: not), moved and renumbered. */
static void check_symmetry(mlff_model *model, double (*r)[3])
{
  enum { N = 24 };
  static double unit[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  test_atoms atoms = liquid(N, 2), other = test_atoms_copy(&atoms);
  const double by[3] = {3.7, -11.0, 0.4}, near = tolerance_of(model, 1e-12);
  double(*turn)[3] = r ? r : unit, expected[N][3] = {{0}}, atom_energy[N];
  int order[N];
  test_order(N, 4, order);
  test_atoms_rotate(&other, turn);
  test_atoms_shift(&other, by);
  test_atoms_permute(&other, order);
  test_answer a = test_evaluate(model, &atoms), b = test_evaluate(model, &other);
  for (int i = 0; i < N; i++) {
    for (int c = 0; c < 3; c++)
      for (int d = 0; d < 3; d++) expected[i][c] += turn[c][d] * a.result.forces[order[i]][d];
    if (a.result.atom_energy) atom_energy[i] = a.result.atom_energy[order[i]];
  }
  ck_assert_double_gt(largest(expected, 3 * N), 0.1);
  near_one(b.result.energy, a.result.energy, tolerance_of(model, 1e-11));
  near_all(b.result.forces, expected, 3 * N, near, near);
  if (a.result.atom_energy) near_all(b.result.atom_energy, atom_energy, N, near, near);
  if (!r) near_all(b.result.virial, a.result.virial, 6, N * near, near);
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&atoms);
  test_atoms_free(&other);
}

START_TEST(moved_and_renumbered)
{
  target t = open_target(0, _i);
  if (t.model) check_symmetry(t.model, NULL);
  close_target(&t);
}
END_TEST

START_TEST(turned)
{
  target t = open_target(MLFF_ROTATION_EXACT, _i);
  double r[3][3];
  test_rotation(9, r);
  if (t.model) check_symmetry(t.model, r);
  close_target(&t);
}
END_TEST

START_TEST(inverted)
{
  static double mirror[3][3] = {{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}};
  target t = open_target(MLFF_INVERSION_EXACT, _i);
  if (t.model) check_symmetry(t.model, mirror);
  close_target(&t);
}
END_TEST

/* A network that is promised to turn only is one that tells left from right. */
START_TEST(not_inverted)
{
  static double mirror[3][3] = {{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}};
  int n_seen = 0;
  for (int which = 0; which < n_with(MLFF_ROTATION_EXACT); which++) {
    const subject *s = nth_with(MLFF_ROTATION_EXACT, which);
    if (s->traits & MLFF_INVERSION_EXACT) continue;
    test_model file = s->arch->make(s->variant);
    mlff_model *model = open_oracle(&file);
    test_atoms atoms = liquid(24, 2), other = test_atoms_copy(&atoms);
    test_atoms_rotate(&other, mirror);
    ck_assert_double_gt(fabs(test_energy(model, &other) - test_energy(model, &atoms)), 1e-4);
    test_atoms_free(&atoms);
    test_atoms_free(&other);
    mlff_model_close(model);
    test_model_free(&file);
    n_seen++;
  }
  ck_assert_int_gt(n_seen, 0);
}
END_TEST

/* ---- additive, smooth, local ------------------------------------------------------------------------------------- */

/* Both sets of atoms, the second one moved along x. */
static test_atoms both_of(const test_atoms *a, const test_atoms *b, double apart)
{
  test_atoms both = test_atoms_new(a->n + b->n);
  for (int i = 0; i < both.n; i++) {
    const test_atoms *from = i < a->n ? a : b;
    const int k = i < a->n ? i : i - a->n;
    both.number[i] = from->number[k];
    both.species[i] = from->species[k];
    for (int c = 0; c < 3; c++) both.pos[i][c] = from->pos[k][c] + (i < a->n || c > 0 ? 0.0 : apart);
  }
  return both;
}

/* Node energies sum up to the energy, and far clusters do not see each other; near ones do. */
START_TEST(far_clusters_add_up)
{
  static const int numbers[] = {1, 6, 8};
  target t = open_target(MLFF_NODE_ENERGIES, _i);
  if (t.model) {
    test_atoms a = test_random(7, 4.5, 0.9, 0, numbers, 3, 1), b = test_random(6, 4.5, 0.9, 0, numbers, 3, 2),
               far = both_of(&a, &b, 20.0), close = both_of(&a, &b, 5.0);
    const double apart = test_energy(t.model, &a) + test_energy(t.model, &b), near = tolerance_of(t.model, 1e-11);
    test_answer all = test_evaluate(t.model, &far);
    double sum = 0;
    for (int i = 0; i < far.n; i++) sum += all.result.atom_energy[i];
    near_one(all.result.energy, apart, near);
    near_one(all.result.energy, sum, 1e-10);
    ck_assert_double_gt(fabs(test_energy(t.model, &close) - apart), 1e-3);
    test_answer_free(&all);
    test_atoms_free(&a);
    test_atoms_free(&b);
    test_atoms_free(&far);
    test_atoms_free(&close);
  }
  close_target(&t);
}
END_TEST

/* An atom crosses the cutoff of another: energy and forces do not jump, and beyond it both are as without it. */
START_TEST(smooth_at_the_cutoff)
{
  static const int numbers[] = {1, 6, 8};
  target t = open_target(MLFF_SMOOTH, _i);
  if (t.model) {
    const double d = is_double(t.model) ? 1e-5 : 1e-3, cutoff = mlff_model_info(t.model)->cutoff;
    test_atoms atoms = test_random(4, 2.5, 0.9, 0, numbers, 3, 3);
    double energy[N_SIDES], force[N_SIDES];
    for (int side = 0; side < N_SIDES; side++) {
      for (int c = 0; c < 3; c++) atoms.pos[3][c] = atoms.pos[0][c] + (c == 0 ? cutoff + (side ? d : -d) : 0.0);
      for (int i = 1; i < 3; i++)
        for (int c = 0; c < 3; c++) atoms.pos[i][c] = atoms.pos[0][c] - (c == i ? 1.1 : 0.3);
      test_answer a = test_evaluate(t.model, &atoms);
      energy[side] = a.result.energy;
      force[side] = a.result.forces[3][0];
      test_answer_free(&a);
    }
    near_one(energy[0], energy[1], d * d); /* a cosine cutoff ends like d^2, a spline like d^3 */
    near_one(force[0], force[1], 2 * d);
    ck_assert(force[0] != 0.0);
    near_one(force[1], 0.0, 0.0);
    test_atoms_free(&atoms);
  }
  close_target(&t);
}
END_TEST

/* An atom beyond the cutoff of the first, within that of the second, which is within that of the first. */
START_TEST(strictly_local)
{
  target t = open_target(MLFF_STRICTLY_LOCAL | MLFF_NODE_ENERGIES, _i);
  if (t.model) {
    const mlff_info *info = mlff_model_info(t.model);
    test_atoms atoms = test_atoms_new(3);
    double energy[N_SIDES][3];
    ck_assert_int_eq(info->exchange_width, 0);
    for (int side = 0; side < N_SIDES; side++) {
      for (int i = 0; i < 3; i++) atoms.species[i] = i;
      atoms.pos[1][0] = 0.55 * info->cutoff;
      atoms.pos[2][0] = (side ? 1.05 : 1.15) * info->cutoff;
      test_answer a = test_evaluate(t.model, &atoms);
      memcpy(energy[side], a.result.atom_energy, sizeof energy[side]);
      test_answer_free(&a);
    }
    near_one(energy[1][0], energy[0][0], 0.0);
    ck_assert_double_gt(fabs(energy[1][1] - energy[0][1]), 1e-5);
    test_atoms_free(&atoms);
  }
  close_target(&t);
}
END_TEST

/* Bit for bit the same again, without growth, with a smaller system in between, of which nothing is left over. */
START_TEST(bits_are_reproducible)
{
  enum { N = 40 };
  target t = open_target(0, _i);
  if (t.model) {
    test_atoms atoms = liquid(N, 6), few = liquid(11, 7);
    test_answer a = test_evaluate(t.model, &atoms);
    const double small = test_energy(t.model, &few);
    near_one(test_energy(t.model, &few), small, 0.0);
    const int64_t growths = mlff_model_memory(t.model).n_growths;
    ck_assert_int_gt(growths, 0);
    test_answer b = test_evaluate(t.model, &atoms);
    ck_assert_int_eq(mlff_model_memory(t.model).n_growths, growths);
    near_all(a.result.forces, b.result.forces, 3 * N, 0.0, 0.0);
    near_one(a.result.energy, b.result.energy, 0.0);
    test_answer_free(&a);
    test_answer_free(&b);
    test_atoms_free(&atoms);
    test_atoms_free(&few);
  }
  close_target(&t);
}
END_TEST

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* Results on several ranks equal those of one rank. Exchanges happen only for models that need them. */
static void same_as_whole(const subject *s, mlff_model *model, const test_answer *a, const test_ranks_answer *r)
{
  const mlff_info *info = mlff_model_info(model);
  const double near = tolerance_of(model, 1e-11);
  const int n = a->n_nodes;
  ck_assert_int_eq(r->n_forward > 0, info->exchange_width > 0);
  ck_assert_int_eq(r->n_reverse + r->n_reduce > 0, info->reverse_width > 0);
  if (s->traits & MLFF_STRICTLY_LOCAL) ck_assert_int_eq(r->n_forward, 0);
  ck_assert_double_gt(largest(a->result.forces, 3 * n), 0.1);
  near_one(r->energy, a->result.energy, near * n);
  near_all(r->forces, a->result.forces, 3 * n, near, near);
  near_all(r->virial, a->result.virial, 6, near * n, near);
  if (a->result.atom_energy) near_all(r->atom_energy, a->result.atom_energy, n, near, near);
  if (r->centroid) near_all(r->centroid, a->result.atom_centroid, 9 * n, 10 * near, 10 * near);
}

static test_answer whole(mlff_model *model, const test_atoms *atoms)
{
  const int is_conservative = (mlff_model_info(model)->traits & MLFF_CONSERVATIVE) != 0;
  return is_conservative ? test_evaluate_centroid(model, atoms) : test_evaluate(model, atoms);
}

/* Slabs; of four ranks the last has no atoms; some owners are out of order. */
START_TEST(ranks_agree_with_one)
{
  enum { N = 90 };
  const char *precision = _i % N_PRECISIONS ? "fp64" : "fp32";
  const subject *s = nth_with(0, _i / N_PRECISIONS);
  test_model file = s->arch->make(s->variant);
  mlff_model *model = test_model_open(&file, precision);
  test_atoms atoms = liquid(N, 8);
  test_answer a = whole(model, &atoms);
  for (int n_ranks = 1; n_ranks <= TEST_MAX_RANKS; n_ranks++) {
    int rank_of[N];
    for (int i = 0; i < N; i++) {
      const double x = atoms.pos[i][0] / atoms.cell[0][0], slab = x - floor(x);
      rank_of[i] = i % 17 == 0 ? 0 : (int) (slab * (n_ranks == 4 ? 3 : n_ranks));
    }
    test_ranks_answer r = test_on_ranks(&file, precision, &atoms, n_ranks, rank_of);
    ck_assert_int_eq(r.has_parts, n_ranks > 1);
    same_as_whole(s, model, &a, &r);
    test_ranks_free(&r);
  }
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Copies of a liquid in a row, a bit apart; they take turns, so that interior atoms of a slab are not the first
 * ones. */
static test_atoms long_box(int n, int n_copies)
{
  test_atoms one = liquid(n, 9), atoms = test_atoms_new(n * n_copies);
  const double edge = one.cell[0][0];
  memcpy(atoms.cell, one.cell, sizeof one.cell);
  memcpy(atoms.pbc, one.pbc, sizeof one.pbc);
  atoms.cell[0][0] *= n_copies;
  for (int i = 0; i < atoms.n; i++) {
    const int copy = i % n_copies, k = i / n_copies;
    memcpy(atoms.pos[i], one.pos[k], sizeof one.pos[k]);
    atoms.pos[i][0] += copy * edge + 0.05 * copy;
    atoms.number[i] = one.number[k];
    atoms.species[i] = one.species[k];
  }
  test_atoms_free(&one);
  return atoms;
}

/* In a long box slabs have an interior, which is computed while features travel. */
START_TEST(interior_atoms_first)
{
  enum { N = 24, N_COPIES = 6 };
  const char *precision = _i % N_PRECISIONS ? "fp64" : "fp32";
  const subject *s = nth_with(0, _i / N_PRECISIONS);
  test_model file = s->arch->make(s->variant);
  mlff_model *model = test_model_open(&file, precision);
  test_atoms atoms = long_box(N, N_COPIES);
  test_answer a = whole(model, &atoms);
  for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
    int rank_of[N * N_COPIES];
    for (int i = 0; i < atoms.n; i++) rank_of[i] = i % N_COPIES * n_ranks / N_COPIES;
    test_ranks_answer r = test_on_ranks(&file, precision, &atoms, n_ranks, rank_of);
    ck_assert_int_gt(r.n_interior, N / 2);
    if (n_ranks > 1) ck_assert_int_lt(r.n_interior, atoms.n);
    same_as_whole(s, model, &a, &r);
    test_ranks_free(&r);
  }
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

static Suite *properties_suite(void)
{
  Suite *suite = suite_create("properties");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_test(tcase, every_architecture_has_a_test_model);
  tcase_add_test(tcase, every_trait_is_promised_by_a_model);
  tcase_add_loop_test(tcase, forces_and_virial_are_derivatives, 0, n_with(MLFF_CONSERVATIVE));
  tcase_add_loop_test(tcase, centroid_virials_are_derivatives, 0, n_with(MLFF_CONSERVATIVE | MLFF_NODE_ENERGIES));
  tcase_add_loop_test(tcase, centroid_virials_of_images, 0,
                      n_with(MLFF_CONSERVATIVE | MLFF_NODE_ENERGIES) * n_backends());
  tcase_add_loop_test(tcase, moved_and_renumbered, 0, n_with(0) * n_backends());
  tcase_add_loop_test(tcase, turned, 0, n_with(MLFF_ROTATION_EXACT) * n_backends());
  tcase_add_loop_test(tcase, inverted, 0, n_with(MLFF_INVERSION_EXACT) * n_backends());
  tcase_add_test(tcase, not_inverted);
  tcase_add_loop_test(tcase, far_clusters_add_up, 0, n_with(MLFF_NODE_ENERGIES) * n_backends());
  tcase_add_loop_test(tcase, smooth_at_the_cutoff, 0, n_with(MLFF_SMOOTH) * n_backends());
  tcase_add_loop_test(tcase, strictly_local, 0, n_with(MLFF_STRICTLY_LOCAL | MLFF_NODE_ENERGIES) * n_backends());
  tcase_add_loop_test(tcase, bits_are_reproducible, 0, n_with(0) * n_backends());
#if MLFF_CUDASIM
  const int n_on_ranks = 0; /* these are on the CPU; LAMMPS has ranks on the simulated GPU (tests/gpu) */
#else
  const int n_on_ranks = N_PRECISIONS * n_with(0);
#endif
  tcase_add_loop_test(tcase, ranks_agree_with_one, 0, n_on_ranks);
  tcase_add_loop_test(tcase, interior_atoms_first, 0, n_on_ranks);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(properties_suite);
}
