/* test_repulsion.c: the ops of the short-range repulsion on every backend and kernel path: which steps need it, its
 * energies and gradients against plain loops in double, and how it ends at a cutoff. */
#include "backends.h"
#include "plain_repulsion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_SPECIES = 3, N_MEMBERS = 2 };
static const char *const hco[] = {"H", "C", "O"};
static const int numbers[N_SPECIES] = {1, 6, 8};

/* Cutoffs of H-H, H-C, H-O, C-C, C-O, O-O. */
typedef struct cutoffs {
  double pair[6];
} cutoffs;

static double cutoff_of(const cutoffs *c, int s, int t)
{
  static const int index[N_SPECIES][N_SPECIES] = {{0, 1, 2}, {1, 3, 4}, {2, 4, 5}};
  return c->pair[index[s][t]];
}

static double power; /* of mlff_zbl; 0 except where it is tested */

static mlff_repulsion make_table(mlff_backend *backend, const cutoffs *c)
{
  mlff_repulsion_pair pairs[N_SPECIES][N_SPECIES];
  mlff_repulsion r = {.n_species = N_SPECIES, .power = power, .is_mace = power > 4};
  for (int s = 0; s < N_SPECIES; s++) {
    for (int t = 0; t < N_SPECIES; t++) {
      pairs[s][t] = (mlff_repulsion_pair){.cutoff = cutoff_of(c, s, t),
                                          .inverse = (pow(numbers[s], 0.23) + pow(numbers[t], 0.23)) / 0.46850,
                                          .factor = 0.5 * 14.399645 * numbers[s] * numbers[t]};
      r.reach = fmax(r.reach, pairs[s][t].cutoff);
    }
  }
  r.pairs = bytes_to_backend(backend, pairs, sizeof pairs);
  return r;
}

static mlff_edges find_edges(mlff_backend *backend, const mlff_graph *graph, double cutoff, const mlff_repulsion *table)
{
  mlff_error error = {0};
  mlff_edges edges = {.repulsion = table};
  test_ok(backend->ops->edges(backend, graph, cutoff, &edges, &error), error);
  return edges;
}

static mlff_buf zeros(mlff_backend *backend, int64_t n)
{
  double *x = calloc((size_t) n + 1, sizeof *x);
  mlff_buf buf = reals_to_backend(backend, x, n);
  free(x);
  return buf;
}

/* Eight atoms whose nearest are 0.95 A apart. */
static mlff_system *make_system(int foreign)
{
  test_atoms atoms = test_triclinic();
  test_atoms_species(&atoms, hco, N_SPECIES);
  if (foreign) atoms.species[foreign] = -1;
  mlff_system *system = test_system(&atoms, 4.5);
  test_atoms_free(&atoms);
  return system;
}

/* ---- which steps need it ----------------------------------------------------------------------------------------- */

/* 1 when a pair of the graph is closer than its cutoff. */
static int plain_is_close(const mlff_graph *g, const cutoffs *c)
{
  int is_close = 0;
  for (int32_t i = 0; i < g->n_local; i++) {
    for (int64_t p = g->row[i]; g->species[i] >= 0 && p < g->row[i + 1]; p++) {
      const int32_t j = g->nbr[p];
      double r2 = 0;
      for (int k = 0; k < 3; k++) r2 += pow(g->pos[j][k] - g->pos[i][k], 2);
      is_close |= g->species[j] >= 0 && sqrt(r2) < cutoff_of(c, g->species[i], g->species[j]);
    }
  }
  return is_close;
}

/* Each pair of elements alone, with cutoffs around the distances that there are; pairs closer than the largest cutoff
 * that have a shorter one, or none, do not count. */
START_TEST(edges_say_when_it_is_needed)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  mlff_error error = {0};
  int n_of[2] = {0, 0};
  for (int foreign = 0; foreign < 3; foreign += 2) {
    mlff_system *system = make_system(foreign);
    for (int pair = 0; pair < 6; pair++) {
      for (int k = 1; k <= 16; k++) {
        cutoffs c = {{0}};
        c.pair[pair] = 0.25 * k;
        mlff_repulsion table = make_table(backend, &c);
        mlff_edges edges = find_edges(backend, mlff_system_graph(system), 4.2, &table);
        const int expected = plain_is_close(mlff_system_graph(system), &c);
        ck_assert_int_eq(edges.is_close, expected);
        n_of[expected]++;
        edges.repulsion = NULL;
        test_ok(backend->ops->edges(backend, mlff_system_graph(system), 4.2, &edges, &error), error);
        ck_assert_int_eq(edges.is_close, 0);
        release_edges(backend, &edges);
        mlff_buf_release(backend, &table.pairs);
      }
    }
    mlff_system_free(system);
  }
  ck_assert_msg(n_of[0] > 20 && n_of[1] > 20, "%d far, %d close", n_of[0], n_of[1]);
  mlff_backend_close(backend);
}
END_TEST

/* ---- what it adds ------------------------------------------------------------------------------------------------ */

/* Energies of atoms and gradients of edges by plain loops. */
static void plain_terms(const mlff_graph *g, const cutoffs *c, double reach, double *energy, double (*grad)[4])
{
  int64_t e = 0;
  for (int32_t i = 0; i < g->n_local; i++) {
    energy[i] = 0;
    for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
      const int32_t j = g->nbr[p];
      double d[3], r2 = 0, slope;
      for (int k = 0; k < 3; k++) {
        d[k] = g->pos[j][k] - g->pos[i][k];
        r2 += d[k] * d[k];
      }
      if (!(sqrt(r2) < reach) || g->species[i] < 0 || g->species[j] < 0) continue;
      const int s = g->species[i], t = g->species[j];
      energy[i] += 0.5 * plain_repulsion(numbers[s], numbers[t], cutoff_of(c, s, t), sqrt(r2), &slope);
      for (int k = 0; k < 3; k++) grad[e][k] = 0.5 * slope * d[k] / sqrt(r2);
      e++;
    }
  }
}

/* Onto numbers that are there; arrays that are NULL are left alone. */
START_TEST(it_is_added)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const cutoffs c = {{1.8, 1.6, 1.5, 0, 2.4, 2.9}};
  mlff_system *system = make_system(2);
  const mlff_graph *g = mlff_system_graph(system);
  mlff_repulsion table = make_table(backend, &c);
  mlff_edges edges = find_edges(backend, g, 4.2, &table);
  const int64_t n_grad = 4 * edges.n_edges, n = g->n_local;
  double *start = malloc((size_t) (n_grad + n * (1 + N_MEMBERS)) * sizeof *start);
  double *expected_energy = calloc((size_t) n, sizeof(double));
  double(*expected)[4] = calloc((size_t) edges.n_edges, sizeof *expected);
  test_rng rng = {3};
  for (int64_t k = 0; k < n_grad + n * (1 + N_MEMBERS); k++) start[k] = test_normal(&rng);
  plain_terms(g, &c, 4.2, expected_energy, expected);
  for (int with = 0; with < 2; with++) {
    mlff_buf grad = reals_to_backend(backend, start, n_grad), node = reals_to_backend(backend, start + n_grad, n),
             member = reals_to_backend(backend, start + n_grad + n, n * N_MEMBERS);
    const mlff_repulsion_args args = {.edges = &edges,
                                      .grad = grad.data,
                                      .node_energy = with ? node.data : NULL,
                                      .member_energy = with ? member.data : NULL,
                                      .n_members = N_MEMBERS};
    backend->ops->repulsion(backend, &args);
    double *g_is = reals_from_backend(backend, grad.data, n_grad), *e_is = reals_from_backend(backend, node.data, n),
           *m_is = reals_from_backend(backend, member.data, n * N_MEMBERS);
    const double near = 20 * rounding(backend);
    double most = 0;
    for (int64_t e = 0; e < edges.n_edges; e++) {
      for (int k = 0; k < 4; k++) g_is[4 * e + k] -= start[4 * e + k];
      most = fmax(most, fabs(expected[e][0]));
    }
    ck_assert_double_gt(most, 1.0);
    near_all(g_is, expected, n_grad, near, near);
    for (int64_t i = 0; i < n; i++) {
      const double e = with ? expected_energy[i] : 0.0;
      near_one(e_is[i] - start[n_grad + i], e, near * (1 + fabs(e)));
      for (int k = 0; k < N_MEMBERS; k++)
        near_one(m_is[k * n + i] - start[n_grad + n + k * n + i], e, near * (1 + fabs(e)));
    }
    void *owned[] = {g_is, e_is, m_is};
    for (int k = 0; k < 3; k++) free(owned[k]);
    mlff_buf *const bufs[] = {&grad, &node, &member};
    for (int k = 0; k < 3; k++) mlff_buf_release(backend, bufs[k]);
  }
  free(start);
  free(expected);
  free(expected_energy);
  release_edges(backend, &edges);
  mlff_buf_release(backend, &table.pairs);
  mlff_system_free(system);
  mlff_backend_close(backend);
}
END_TEST

/* ---- clamped distances ------------------------------------------------------------------------------------------- */

/* Length that a network gets: r at the cutoff and beyond, 0.95 of the cutoff below 0.9 of it. */
static double plain_clamp(double r, double cutoff)
{
  const double t = fmin((1 - r / cutoff) / 0.1, 1.0);
  return r < cutoff ? cutoff * (1 - 0.1 * (t - pow(t, 3) + 0.5 * pow(t, 4))) : r;
}

/* dE/dv of E(v'), E = g v', by differences. */
static double plain_unclamped(const double v[4], const double g[4], double cutoff, int axis)
{
  static const double factor[4] = {1, -8, 8, -1}, at[4] = {-2, -1, 1, 2};
  const double h = 1e-4;
  double slope = 0;
  for (int k = 0; k < 4; k++) {
    double x[3] = {v[0], v[1], v[2]};
    x[axis] += at[k] * h;
    const double r = sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]), scale = plain_clamp(r, cutoff) / r;
    slope += factor[k] * scale * (g[0] * x[0] + g[1] * x[1] + g[2] * x[2]) / (12 * h);
  }
  return slope;
}

/* The lengths of close edges; afterwards all vectors as they were, and gradients by them. Cutoffs: some edges are below
 * 0.9 of theirs, some between, and one pair of elements has none. */
START_TEST(distances_are_clamped)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const cutoffs c = {{1.8, 1.6, 1.5, 0, 2.4, 2.9}};
  mlff_system *system = make_system(2);
  const mlff_graph *g = mlff_system_graph(system);
  mlff_repulsion table = make_table(backend, &c);
  mlff_edges edges = find_edges(backend, g, 4.2, &table);
  const int64_t n = 4 * edges.n_edges;
  double *start = calloc((size_t) n, sizeof *start), *unused = calloc((size_t) g->n_local, sizeof *unused);
  double(*zbl)[4] = calloc((size_t) edges.n_edges, sizeof *zbl);
  test_rng rng = {5};
  for (int64_t k = 0; k < n; k++) start[k] = test_normal(&rng);
  plain_terms(g, &c, 4.2, unused, zbl);
  mlff_buf kept = zeros(backend, n), grad = reals_to_backend(backend, start, n);
  double *before = reals_from_backend(backend, edges.vec.data, n);
  backend->ops->clamp(backend, &(mlff_clamp_args){.edges = &edges, .vec = kept.data});
  double *clamped = reals_from_backend(backend, edges.vec.data, n), *copy = reals_from_backend(backend, kept.data, n);
  backend->ops->repulsion(backend, &(mlff_repulsion_args){.edges = &edges, .vec = kept.data, .grad = grad.data});
  double *after = reals_from_backend(backend, edges.vec.data, n), *own = reals_from_backend(backend, grad.data, n);
  int n_of[3] = {0, 0, 0};
  int64_t e = 0;
  for (int32_t i = 0; i < g->n_local; i++) {
    for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
      const int s = g->species[i], t = g->species[g->nbr[p]];
      double d[4] = {0, 0, 0, 0};
      for (int k = 0; k < 3; k++) d[k] = g->pos[g->nbr[p]][k] - g->pos[i][k];
      d[3] = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
      if (!(d[3] < 4.2) || s < 0 || t < 0) continue;
      const double cutoff = cutoff_of(&c, s, t), near = 20 * rounding(backend);
      n_of[!(d[3] < cutoff) ? 2 : d[3] > 0.9 * cutoff]++;
      for (int k = 0; k < 4; k++) {
        near_one(clamped[4 * e + k], d[k] * plain_clamp(d[3], cutoff) / d[3], near);
        near_one(copy[4 * e + k], before[4 * e + k], 0.0);
        near_one(after[4 * e + k], before[4 * e + k], 0.0);
      }
      for (int k = 0; k < 3; k++) {
        const double expected = d[3] < cutoff ? plain_unclamped(d, start + 4 * e, cutoff, k) : start[4 * e + k];
        near_one(own[4 * e + k], expected + zbl[e][k], 3 * near * (1 + fabs(zbl[e][k])) + 1e-10);
      }
      e++;
    }
  }
  ck_assert_int_eq(e, edges.n_edges);
  ck_assert_msg(n_of[0] > 2 && n_of[1] >= 2 && n_of[2] > 2, "%d, %d, %d", n_of[0], n_of[1], n_of[2]);
  void *owned[] = {start, unused, zbl, before, clamped, copy, after, own};
  for (int k = 0; k < 8; k++) free(owned[k]);
  mlff_buf *const bufs[] = {&kept, &grad, &table.pairs};
  for (int k = 0; k < 3; k++) mlff_buf_release(backend, bufs[k]);
  release_edges(backend, &edges);
  mlff_system_free(system);
  mlff_backend_close(backend);
}
END_TEST

/* ---- two atoms --------------------------------------------------------------------------------------------------- */

/* V(r) and dV/dr of an O-O pair by the ops. */
static double dimer(mlff_backend *backend, const cutoffs *c, double r, double *slope)
{
  const int64_t row[3] = {0, 1, 2};
  const int32_t nbr[2] = {1, 0}, species[2] = {2, 2}, node[2] = {0, 1};
  const double pos[2][3] = {{0, 0, 0}, {0, r, 0}};
  const mlff_graph graph = graph_of_list(2, species, node, row, nbr, pos);
  mlff_repulsion table = make_table(backend, c);
  mlff_edges edges = find_edges(backend, &graph, 4.0, &table);
  ck_assert_int_eq(edges.is_close, r < cutoff_of(c, 2, 2));
  mlff_buf grad = zeros(backend, 4 * edges.n_edges), energy = zeros(backend, 2);
  backend->ops->repulsion(backend,
                          &(mlff_repulsion_args){.edges = &edges, .grad = grad.data, .node_energy = energy.data});
  double *g = reals_from_backend(backend, grad.data, 4 * edges.n_edges),
         *e = reals_from_backend(backend, energy.data, 2);
  const double v = e[0] + e[1];
  *slope = g[1] - g[5];
  free(g);
  free(e);
  mlff_buf_release(backend, &grad);
  mlff_buf_release(backend, &energy);
  mlff_buf_release(backend, &table.pairs);
  release_edges(backend, &edges);
  return v;
}

/* The slope is the derivative of the energy, everywhere in reach. */
START_TEST(slopes_are_derivatives)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const cutoffs c = {{0, 0, 0, 0, 0, 2.2}};
  const double h = 1e-4;
  for (power = 0; backend->real_size == sizeof(double) && power < 9; power += 4) {
    for (double r = 0.3; r < 2.15; r += 0.17) {
      double slope, unused;
      const double v = dimer(backend, &c, r, &slope);
      const double e[4] = {dimer(backend, &c, r - 2 * h, &unused), dimer(backend, &c, r - h, &unused),
                           dimer(backend, &c, r + h, &unused), dimer(backend, &c, r + 2 * h, &unused)};
      near_one(slope, (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * h), 1e-9 * (1 + v));
    }
  }
  power = 0;
  if (backend->real_size == sizeof(float)) {
    double slope, expected;
    const double v = plain_repulsion(8, 8, 2.2, 1.1, &expected);
    near_one(dimer(backend, &c, 1.1, &slope), v, 1e-6 * v);
    near_one(slope, expected, -1e-6 * expected);
  }
  mlff_backend_close(backend);
}
END_TEST

/* At the cutoff the energy ends like d^3, the force like d^2, the curvature like d. */
START_TEST(it_ends_with_two_continuous_derivatives)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const cutoffs c = {{0, 0, 0, 0, 0, 2.2}};
  if (backend->real_size == sizeof(double)) {
    double slope, v[2], force[2], curvature[2];
    for (int k = 0; k < 2; k++) {
      const double d = k ? 1e-3 : 2e-3, h = 1e-2 * d;
      double low, high;
      v[k] = dimer(backend, &c, 2.2 - d, &force[k]);
      dimer(backend, &c, 2.2 - d - h, &low);
      dimer(backend, &c, 2.2 - d + h, &high);
      curvature[k] = (high - low) / (2 * h);
      ck_assert(v[k] > 0 && force[k] < 0 && curvature[k] > 0);
    }
    near_one(v[0] / v[1], 8.0, 0.1);
    near_one(force[0] / force[1], 4.0, 0.05);
    near_one(curvature[0] / curvature[1], 2.0, 0.03);
    near_one(dimer(backend, &c, 2.2 + 1e-9, &slope), 0.0, 0.0);
    near_one(slope, 0.0, 0.0);
  } else {
    double below, above;
    near_one(dimer(backend, &c, 2.2 - 1e-3, &below), 0.0, 1e-7);
    near_one(below, 0.0, 1e-4);
    near_one(dimer(backend, &c, 2.2 + 1e-3, &above), 0.0, 0.0);
    near_one(above, 0.0, 0.0);
  }
  mlff_backend_close(backend);
}
END_TEST

START_TEST(no_atoms)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const cutoffs c = {{1, 1, 1, 1, 1, 1}};
  const int64_t row[1] = {0};
  const mlff_graph empty = {.row = row};
  mlff_repulsion table = make_table(backend, &c);
  mlff_edges edges = find_edges(backend, &empty, 4.0, &table);
  ck_assert_int_eq(edges.is_close, 0);
  backend->ops->clamp(backend, &(mlff_clamp_args){.edges = &edges});
  backend->ops->repulsion(backend, &(mlff_repulsion_args){.edges = &edges});
  release_edges(backend, &edges);
  mlff_buf_release(backend, &table.pairs);
  mlff_backend_close(backend);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("repulsion");
  TCase *tcase = tcase_create("all");
  tcase_add_loop_test(tcase, edges_say_when_it_is_needed, 0, n_backends());
  tcase_add_loop_test(tcase, it_is_added, 0, n_backends());
  tcase_add_loop_test(tcase, distances_are_clamped, 0, n_backends());
  tcase_add_loop_test(tcase, slopes_are_derivatives, 0, n_backends());
  tcase_add_loop_test(tcase, it_ends_with_two_continuous_derivatives, 0, n_backends());
  tcase_add_loop_test(tcase, no_atoms, 0, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
