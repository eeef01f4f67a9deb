/* test_painn_properties.c: what physics demands of PaiNN models with every radial basis, and the same numbers when atoms are
 * spread over ranks (threads here, each with its own model, exchanging rows through memory). Everything in double. */
#define _POSIX_C_SOURCE 200809L /* barriers */

#include "plain_painn.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N_BASES = 3, MAX_RANKS = 4 };
static const char *const bases[] = {"bspline", "gaussian", "bessel"};
static const char *const hco[] = {"H", "C", "O"};
static const double cutoff = 4.0;

static test_model make(int which, int n_interactions)
{
  const test_model_options o = {.basis = bases[which],
                                .n_features = 20,
                                .n_interactions = n_interactions,
                                .n_readout = 9,
                                .n_basis = 11,
                                .cutoff = cutoff,
                                .elements = hco,
                                .n_elements = 3,
                                .is_double = 1,
                                .seed = 5};
  return calm_painn(o);
}

static double energy_of(mlff_model *model, const test_atoms *atoms)
{
  test_answer a = test_evaluate(model, atoms);
  const double energy = a.result.energy;
  test_answer_free(&a);
  return energy;
}

static test_atoms liquid(int n, uint64_t seed)
{
  static const int numbers[] = {1, 6, 8};
  return test_random(n, 1.9 * cbrt((double) n) + 0.8, 0.9, 1, numbers, 3, seed);
}

START_TEST(forces_and_virial_are_derivatives)
{
  const double h = 1e-4;
  for (int layers = 1; layers < 4; layers++) {
    test_model file = make(_i, layers);
    mlff_model *model = test_model_open(&file, "fp64");
    test_atoms atoms = test_triclinic();
    test_atoms_species(&atoms, hco, 3);
    test_answer a = test_evaluate(model, &atoms);
    double forces[8][3], virial[6];
    static const int pairs[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
    for (int k = 0; k < 24; k++) {
      double e[4], *x = &atoms.pos[k / 3][k % 3];
      const double x0 = *x, steps[4] = {-2, -1, 1, 2};
      for (int s = 0; s < 4; s++) {
        *x = x0 + steps[s] * h;
        e[s] = energy_of(model, &atoms);
      }
      *x = x0;
      forces[k / 3][k % 3] = -(e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * h);
    }
    for (int k = 0; k < 6; k++) {
      double e[4];
      const double steps[4] = {-2, -1, 1, 2};
      for (int s = 0; s < 4; s++) {
        double strain[3][3] = {{0}};
        strain[pairs[k][0]][pairs[k][1]] += 0.5 * steps[s] * h;
        strain[pairs[k][1]][pairs[k][0]] += 0.5 * steps[s] * h;
        test_atoms strained = test_atoms_copy(&atoms);
        test_atoms_strain(&strained, strain);
        e[s] = energy_of(model, &strained);
        test_atoms_free(&strained);
      }
      virial[k] = -(e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * h);
    }
    near_all(a.result.forces, forces, 24, 1e-8, 1e-8);
    near_all(a.result.virial, virial, 6, 1e-7, 1e-8);
    test_answer_free(&a);
    test_atoms_free(&atoms);
    mlff_model_close(model);
    test_model_free(&file);
  }
}
END_TEST

START_TEST(turned_moved_renumbered)
{
  enum { N = 24 };
  test_model file = make(_i, 3);
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = liquid(N, 2), other = test_atoms_copy(&atoms);
  test_answer a = test_evaluate(model, &atoms);
  double r[3][3], expected[N][3];
  int order[N];
  const double by[3] = {3.7, -11.0, 0.4};
  test_rotation(9, r);
  test_order(N, 4, order);
  test_atoms_rotate(&other, r);
  test_atoms_shift(&other, by);
  test_atoms_permute(&other, order);
  test_answer b = test_evaluate(model, &other);
  for (int i = 0; i < N; i++)
    for (int c = 0; c < 3; c++) {
      expected[i][c] = 0;
      for (int d = 0; d < 3; d++) expected[i][c] += r[c][d] * a.result.forces[order[i]][d];
    }
  near_one(b.result.energy, a.result.energy, 1e-9);
  near_all(b.result.forces, expected, 3 * N, 1e-10, 1e-10);
  double sum[3] = {0};
  for (int i = 0; i < N; i++)
    for (int c = 0; c < 3; c++) sum[c] += a.result.forces[i][c];
  const double none[3] = {0};
  near_all(sum, none, 3, 1e-10, 0.0);
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&atoms);
  test_atoms_free(&other);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(far_clusters_add_up)
{
  static const int numbers[] = {1, 6, 8};
  test_model file = make(_i, 2);
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms a = test_random(7, 4.5, 0.9, 0, numbers, 3, 1), b = test_random(6, 4.5, 0.9, 0, numbers, 3, 2),
             both = test_atoms_new(13);
  for (int i = 0; i < 13; i++) {
    const test_atoms *from = i < 7 ? &a : &b;
    const int k = i < 7 ? i : i - 7;
    both.number[i] = from->number[k];
    both.species[i] = from->species[k];
    for (int c = 0; c < 3; c++) both.pos[i][c] = from->pos[k][c] + (i < 7 ? 0.0 : 20.0);
  }
  near_one(energy_of(model, &both), energy_of(model, &a) + energy_of(model, &b), 1e-10);
  test_atoms_free(&a);
  test_atoms_free(&b);
  test_atoms_free(&both);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* An atom crosses the cutoff of another: energy and forces do not jump, and beyond it both are as without it. */
START_TEST(smooth_at_the_cutoff)
{
  static const int numbers[] = {1, 6, 8};
  test_model file = make(_i, 2);
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_random(4, 2.5, 0.9, 0, numbers, 3, 3);
  const double d = 1e-5;
  double energy[2], force[2];
  for (int side = 0; side < 2; side++) {
    for (int c = 0; c < 3; c++) atoms.pos[3][c] = atoms.pos[0][c] + (c == 0 ? cutoff + (side ? d : -d) : 0.0);
    for (int i = 1; i < 3; i++)
      for (int c = 0; c < 3; c++) atoms.pos[i][c] = atoms.pos[0][c] - (c == i ? 1.1 : 0.3);
    test_answer a = test_evaluate(model, &atoms);
    energy[side] = a.result.energy;
    force[side] = a.result.forces[3][0];
    test_answer_free(&a);
  }
  near_one(energy[0], energy[1], d * d); /* a cosine cutoff ends like d^2, a spline like d^3 */
  near_one(force[0], force[1], 2 * d);
  ck_assert(force[0] != 0.0);
  near_one(force[1], 0.0, 0.0);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(bits_are_reproducible)
{
  test_model file = make(_i, 3);
  mlff_model *model = test_model_open(&file, "fp32");
  test_atoms atoms = liquid(60, 6), few = liquid(11, 7);
  test_answer a = test_evaluate(model, &atoms);
  near_one(energy_of(model, &few), energy_of(model, &few),
           0.0); /* smaller in between: what is left over does no harm */
  test_answer b = test_evaluate(model, &atoms);
  near_all(a.result.forces, b.result.forces, 180, 0.0, 0.0);
  near_one(a.result.energy, b.result.energy, 0.0);
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&atoms);
  test_atoms_free(&few);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* ---- ranks --------------------------------------------------------------------------------------------------------- */

typedef struct world {
  const test_model *file;
  const char *precision;
  const mlff_graph *whole;
  int n_ranks;
  const int *rank_of; /* [n_local of whole] */
  pthread_barrier_t barrier;
  char *rows;   /* of all atoms, for one exchange */
  int in_parts; /* exchanges are begun and finished, with work on interior atoms between */
} world;

/* A part of the whole graph, and what its thread finds. */
typedef struct part {
  world *w;
  int rank;
  mlff_graph graph;
  int32_t *global; /* [n_nodes] atom of the whole that a node is */
  int n_exchanges;
  char *under_way; /* rows of an exchange that has been begun */
  size_t row_bytes;
  mlff_result result;
  mlff_status status;
  mlff_error error;
} part;

/* Sends rows of atoms that are not interior. What is on its way is NaN, so that whoever reads it too early shows. */
static mlff_status begin_exchange(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  part *p = context;
  (void) error;
  for (int32_t i = p->graph.n_interior; i < p->graph.n_local; i++)
    memcpy(p->w->rows + (size_t) p->global[i] * row_bytes, (char *) rows + (size_t) i * row_bytes, row_bytes);
  memset((char *) rows + (size_t) p->graph.n_local * row_bytes, 0xff,
         (size_t) (p->graph.n_nodes - p->graph.n_local) * row_bytes);
  p->under_way = rows;
  p->row_bytes = row_bytes;
  return MLFF_OK;
}

static mlff_status finish_exchange(void *context, mlff_error *error)
{
  part *p = context;
  const size_t row_bytes = p->row_bytes;
  (void) error;
  pthread_barrier_wait(&p->w->barrier);
  for (int32_t i = p->graph.n_local; i < p->graph.n_nodes; i++)
    memcpy(p->under_way + (size_t) i * row_bytes, p->w->rows + (size_t) p->global[i] * row_bytes, row_bytes);
  pthread_barrier_wait(&p->w->barrier);
  p->n_exchanges++;
  return MLFF_OK;
}

static mlff_status exchange(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  begin_exchange(context, rows, row_bytes, error);
  return finish_exchange(context, error);
}

/* Atom i of the whole has neighbours on its own rank only; lists are full, so nobody else has it as one either. */
static int is_interior(const world *w, int32_t i)
{
  const mlff_graph *g = w->whole;
  for (int64_t e = g->row[i]; e < g->row[i + 1]; e++)
    if (w->rank_of[g->node[g->nbr[e]]] != w->rank_of[i]) return 0;
  return 1;
}

/* Owned atoms, interior ones first, then one ghost for each atom of the whole graph that is a neighbour and not owned. */
static void build_part(part *p)
{
  const mlff_graph *g = p->w->whole;
  int32_t *mine = malloc((size_t) g->n_all * sizeof *mine), *node_of = malloc((size_t) g->n_local * sizeof *node_of);
  int32_t *from = malloc((size_t) g->n_all * sizeof *from), n_all = 0, n_nodes;
  int64_t n_pairs = 0;
  for (int32_t a = 0; a < g->n_all; a++) mine[a] = -1;
  for (int32_t i = 0; i < g->n_local; i++) node_of[i] = -1;
  int32_t n_interior = 0;
  for (int inner = 1; inner >= 0; inner--) {
    for (int32_t i = 0; i < g->n_local; i++) {
      if (p->w->rank_of[i] != p->rank || is_interior(p->w, i) != inner) continue;
      from[n_all] = i;
      node_of[i] = n_all;
      mine[i] = n_all++;
      n_interior += inner;
      n_pairs += g->row[i + 1] - g->row[i];
    }
  }
  const int32_t n_local = n_nodes = n_all;
  int32_t *nbr = malloc((size_t) (n_pairs + 1) * sizeof *nbr);
  int64_t *row = malloc((size_t) (n_local + 1) * sizeof *row), n = 0;
  p->global = malloc((size_t) (g->n_local + 1) * sizeof *p->global);
  for (int32_t i = 0; i < n_local; i++) {
    row[i] = n;
    p->global[i] = from[i];
    for (int64_t e = g->row[from[i]]; e < g->row[from[i] + 1]; e++) {
      const int32_t j = g->nbr[e], owner = g->node[j];
      if (mine[j] < 0) {
        from[n_all] = j;
        mine[j] = n_all++;
      }
      if (node_of[owner] < 0) {
        p->global[n_nodes] = owner;
        node_of[owner] = n_nodes++;
      }
      nbr[n++] = mine[j];
    }
  }
  row[n_local] = n;
  int32_t *species = malloc((size_t) (n_all + 1) * sizeof *species),
          *node = malloc((size_t) (n_all + 1) * sizeof *node);
  double(*pos)[3] = malloc((size_t) (n_all + 1) * sizeof *pos);
  for (int32_t a = 0; a < n_all; a++) {
    species[a] = g->species[from[a]];
    node[a] = node_of[g->node[from[a]]];
    memcpy(pos[a], g->pos[from[a]], sizeof pos[a]);
  }
  p->graph = (mlff_graph){.n_interior = n_interior,
                          .n_local = n_local,
                          .n_all = n_all,
                          .n_nodes = n_nodes,
                          .n_pairs = n,
                          .list_id = (uint64_t) p->rank + 1,
                          .species = species,
                          .node = node,
                          .row = row,
                          .nbr = nbr,
                          .pos = (const double(*)[3]) pos};
  free(mine);
  free(node_of);
  free(from);
}

static void free_part(part *p)
{
  const void *const owned[] = {p->graph.species, p->graph.node,         p->graph.row,
                               p->graph.nbr,     p->graph.pos,          p->global,
                               p->result.forces, p->result.atom_energy, p->result.atom_virial};
  for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) free((void *) (uintptr_t) owned[k]);
}

/* One rank, on the CPU. Nothing of Check or of the simulated GPU here: they are not made for threads. */
static void *run_part(void *argument)
{
  part *p = argument;
  mlff_model *model = NULL;
  const int in_parts = p->w->in_parts;
  const mlff_halo halo = {.context = p,
                          .forward = exchange,
                          .begin = in_parts ? begin_exchange : NULL,
                          .finish = in_parts ? finish_exchange : NULL};
  const mlff_options options = {.device = "cpu", .precision = p->w->precision, .skip_self_test = 1};
  p->status = mlff_model_open_memory("test.yaml", p->w->file->yaml, p->w->file->yaml_size, p->w->file->weights,
                                     p->w->file->weights_size, &options, &model, &p->error);
  if (p->status) return NULL;
  p->result.forces = calloc((size_t) p->graph.n_nodes + 1, sizeof *p->result.forces);
  p->result.atom_energy = calloc((size_t) p->graph.n_local + 1, sizeof(double));
  p->result.atom_virial = calloc((size_t) p->graph.n_nodes + 1, sizeof *p->result.atom_virial);
  for (int again = 0; again < 2 && !p->status; again++)
    p->status = mlff_model_evaluate(model, &p->graph, &halo, &p->result, &p->error);
  mlff_model_close(model);
  return NULL;
}

/* Evaluates the atoms on n ranks and compares with one. Returns the number of interior atoms. */
static int compare_ranks(const test_model *file, const char *precision, const test_atoms *atoms, int n_ranks,
                         const int *rank_of, int n_layers, double tolerance)
{
  int n_interior = 0;
  mlff_system *system = test_system(atoms, cutoff + 0.5);
  world w = {.file = file,
             .precision = precision,
             .whole = mlff_system_graph(system),
             .n_ranks = n_ranks,
             .rank_of = rank_of,
             .in_parts = strcmp(precision, "fp64") == 0};
  part parts[MAX_RANKS] = {{.rank = 0}};
  pthread_t threads[MAX_RANKS];
  w.rows = malloc((size_t) atoms->n * 6 * 32 * sizeof(double));
  ck_assert_int_eq(pthread_barrier_init(&w.barrier, NULL, (unsigned) n_ranks), 0);
  for (int r = 0; r < n_ranks; r++) {
    parts[r].w = &w;
    parts[r].rank = r;
    build_part(&parts[r]);
    n_interior += parts[r].graph.n_interior;
    mlff_error problem;
    test_ok(mlff_graph_check(&parts[r].graph, 3, &problem), problem);
  }
  for (int r = 0; r < n_ranks; r++) ck_assert_int_eq(pthread_create(&threads[r], NULL, run_part, &parts[r]), 0);
  for (int r = 0; r < n_ranks; r++) ck_assert_int_eq(pthread_join(threads[r], NULL), 0);

  mlff_model *model = test_model_open(file, precision);
  test_answer a = test_evaluate(model, atoms);
  double energy = 0, virial[6] = {0}, (*forces)[3] = calloc((size_t) atoms->n, sizeof *forces);
  double *atom_energy = calloc((size_t) atoms->n, sizeof *atom_energy);
  for (int r = 0; r < n_ranks; r++) {
    part *p = &parts[r];
    ck_assert_msg(!p->status, "rank %d: %s", r, p->error.text);
    ck_assert_int_eq(p->n_exchanges, 2 * 2 * (n_layers - 1));
    energy += p->result.energy;
    for (int k = 0; k < 6; k++) virial[k] += p->result.virial[k];
    for (int32_t i = 0; i < p->graph.n_nodes; i++)
      for (int c = 0; c < 3; c++) forces[p->global[i]][c] += p->result.forces[i][c];
    for (int32_t i = 0; i < p->graph.n_local; i++) atom_energy[p->global[i]] = p->result.atom_energy[i];
  }
  near_one(energy, a.result.energy, tolerance * atoms->n);
  near_all(forces, a.result.forces, 3 * (int64_t) atoms->n, tolerance, tolerance);
  near_all(virial, a.result.virial, 6, tolerance * atoms->n, tolerance);
  near_all(atom_energy, a.result.atom_energy, atoms->n, tolerance, tolerance);
  for (int r = 0; r < n_ranks; r++) free_part(&parts[r]);
  free(forces);
  free(atom_energy);
  free(w.rows);
  pthread_barrier_destroy(&w.barrier);
  test_answer_free(&a);
  mlff_model_close(model);
  mlff_system_free(system);
  return n_interior;
}

/* In a long box slabs have an interior, which is computed while features travel. */
START_TEST(interior_atoms_first)
{
  enum { N = 24, N_COPIES = 6 };
  test_atoms one = liquid(N, 9), atoms = test_atoms_new(N * N_COPIES);
  const double edge = one.cell[0][0];
  memcpy(atoms.cell, one.cell, sizeof one.cell);
  memcpy(atoms.pbc, one.pbc, sizeof one.pbc);
  atoms.cell[0][0] *= N_COPIES;
  for (int i = 0; i < atoms.n; i++) { /* copies in turn, so that interior atoms are not the first ones */
    const int copy = i % N_COPIES, k = i / N_COPIES;
    memcpy(atoms.pos[i], one.pos[k], sizeof one.pos[k]);
    atoms.pos[i][0] += copy * edge + 0.05 * copy;
    atoms.number[i] = one.number[k];
    atoms.species[i] = one.species[k];
  }
  for (int layers = 1; layers < 4; layers++) {
    test_model file = make(_i, layers);
    for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
      int rank_of[N * N_COPIES];
      for (int i = 0; i < atoms.n; i++) rank_of[i] = i % N_COPIES * n_ranks / N_COPIES;
      const int n = compare_ranks(&file, "fp64", &atoms, n_ranks, rank_of, layers, 1e-11);
      ck_assert_int_eq(compare_ranks(&file, "fp32", &atoms, n_ranks, rank_of, layers, 2e-5), n);
      ck_assert_int_gt(n, N / 2);
      if (n_ranks > 1) ck_assert_int_lt(n, atoms.n);
    }
    test_model_free(&file);
  }
  test_atoms_free(&one);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(ranks_agree_with_one)
{
  enum { N = 90 };
  test_atoms atoms = liquid(N, 8);
  for (int layers = 1; layers < 4; layers++) {
    test_model file = make(_i, layers);
    for (int n_ranks = 1; n_ranks <= MAX_RANKS; n_ranks++) {
      int rank_of[N];
      for (int i = 0; i < N; i++) { /* slabs; of four ranks the last has no atoms, with few owners out of order */
        const double x = atoms.pos[i][0] / atoms.cell[0][0], slab = x - floor(x);
        rank_of[i] = i % 17 == 0 ? 0 : (int) (slab * (n_ranks == 4 ? 3 : n_ranks));
      }
      compare_ranks(&file, "fp64", &atoms, n_ranks, rank_of, layers, 1e-11);
      if (layers == 2) compare_ranks(&file, "fp32", &atoms, n_ranks, rank_of, layers, 2e-5);
    }
    test_model_free(&file);
  }
  test_atoms_free(&atoms);
}
END_TEST

static Suite *properties_suite(void)
{
  Suite *suite = suite_create("painn properties");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, forces_and_virial_are_derivatives, 0, N_BASES);
  tcase_add_loop_test(tcase, turned_moved_renumbered, 0, N_BASES);
  tcase_add_loop_test(tcase, far_clusters_add_up, 0, N_BASES);
  tcase_add_loop_test(tcase, smooth_at_the_cutoff, 0, N_BASES);
  tcase_add_loop_test(tcase, bits_are_reproducible, 0, N_BASES);
  tcase_add_loop_test(tcase, ranks_agree_with_one, 0, N_BASES);
  tcase_add_loop_test(tcase, interior_atoms_first, 0, N_BASES);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(properties_suite);
}
