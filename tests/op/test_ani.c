/* test_ani.c: the ops of ANI on every backend and kernel path, against plain loops in double (plain_ani.h); the plain
 * gradients are themselves checked by finite differences. */
#include "plain_ani.h"

#include "backends.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sets of constants ----------------------------------------------------------------------------------------- */

enum { N_CONSTANTS = 6, N_SHIFTS = 20 };
static const double shifts[N_SHIFTS] = {0.8,     1.06875, 1.3375,  1.60625, 1.875,   2.14375, 2.4125,
                                        2.68125, 2.95,    3.21875, 3.4875,  3.75625, 4.025,   4.29375,
                                        4.5625,  4.83125, 0.9,     1.7,     2.31,    3.3};
static const double sections[6] =
    {0.39269908169872414, 1.1780972450961724, 1.9634954084936207, 2.748893571891069, 0.0, 3.2};

static mlff_aev_constants constants_of(int which)
{
  const mlff_aev_constants ani2x = {.radial_cutoff = 5.1,
                                    .radial_eta = 19.7,
                                    .radial_prefactor = 0.25,
                                    .angular_cutoff = 3.5,
                                    .angular_eta = 12.5,
                                    .angular_zeta = 14.1,
                                    .angular_prefactor = 2.0,
                                    .cos_scale = 0.95,
                                    .n_radial = 16,
                                    .n_angular = 8,
                                    .n_sections = 4,
                                    .radial_shifts = shifts,
                                    .angular_shifts = shifts + 2,
                                    .angular_sections = sections};
  mlff_aev_constants c = ani2x;
  if (which == 1) { /* ANI-1x-like: zeta 32, other counts */
    c.angular_zeta = 32.0;
    c.angular_eta = c.radial_eta = 8.0;
    c.n_radial = 17;
    c.n_angular = 9;
    c.n_sections = 6;
  }
  if (which == 2) { /* smallest counts and the smallest zeta */
    c.n_radial = c.n_angular = c.n_sections = 1;
    c.angular_zeta = 1.0;
    c.angular_eta = c.radial_eta = 0.5;
  }
  if (which == 3) { /* the angular cutoff is the longer one; whole batches of triples */
    c.radial_cutoff = 2.9;
    c.angular_cutoff = 4.9;
    c.n_radial = 3;
    c.n_angular = 5;
    c.n_sections = 3;
    c.radial_prefactor = -1.5;
  }
  if (which == 4) { /* odd scale */
    c.cos_scale = 0.5;
    c.angular_zeta = 2.5;
    c.n_angular = 4;
    c.n_sections = 5;
  }
  if (which == 5) c.angular_cutoff = 0.3; /* no angular neighbors at all */
  return c;
}

/* ---- forward and backward -------------------------------------------------------------------------------------- */

/* Everything about one system, in double. */
typedef struct aev_case {
  mlff_aev_constants c;
  int n_used, n_columns, n_centers;
  int32_t *centers; /* all atoms but some, in a mixed order */
  int use[4];
  int compact[4];
} aev_case;

static aev_case make_case(const mlff_aev_constants *c, int n_atoms, unsigned use_mask, uint64_t seed)
{
  aev_case t = {.c = *c, .centers = malloc((size_t) (n_atoms + 1) * sizeof *t.centers)};
  for (int s = 0; s < 4; s++) {
    t.use[s] = (int) (use_mask >> s & 1u);
    t.compact[s] = t.use[s] ? t.n_used++ : -1;
  }
  t.n_columns = plain_n_columns(c, t.n_used);
  int *order = malloc((size_t) (n_atoms + 1) * sizeof *order);
  test_order(n_atoms, seed, order);
  t.n_centers = n_atoms > 4 ? n_atoms - 2 : n_atoms;
  for (int k = 0; k < t.n_centers; k++) t.centers[k] = order[k];
  free(order);
  return t;
}

static plain_star star_of(const aev_case *t, const mlff_graph *graph, const int64_t *row, const int32_t *nbr,
                          int32_t center, int64_t *first)
{
  plain_star s = {.n = (int) (row[center + 1] - row[center])};
  s.d = malloc((size_t) (s.n + 1) * sizeof *s.d);
  s.species = malloc((size_t) (s.n + 1) * sizeof *s.species);
  for (int k = 0; k < s.n; k++) {
    const int32_t j = nbr[row[center] + k];
    s.species[k] = t->compact[graph->species[j]];
    for (int x = 0; x < 3; x++) s.d[k][x] = graph->pos[j][x] - graph->pos[center][x];
  }
  *first = row[center];
  return s;
}

/* AEVs and gradients of all centres by plain loops; rows are ld apart. */
static void plain_rows(const aev_case *t, const mlff_graph *graph, const int64_t *row, const int32_t *nbr, int64_t ld,
                       double *aevs, const double *weights, double *grads)
{
  for (int k = 0; k < t->n_centers; k++) {
    int64_t first;
    plain_star s = star_of(t, graph, row, nbr, t->centers[k], &first);
    double(*grad)[3] = malloc((size_t) (s.n + 1) * sizeof *grad);
    plain_aev(&t->c, t->n_used, &s, aevs + k * ld, weights + k * ld, grad);
    for (int e = 0; e < s.n; e++) {
      for (int x = 0; x < 3; x++) grads[4 * (first + e) + x] = grad[e][x];
      grads[4 * (first + e) + 3] = 0.0;
    }
    free(s.d);
    free(s.species);
    free(grad);
  }
}

/* Forward and backward of all centres of a case, with guards: columns behind the last, gradients of other centres. */
static void check_case(mlff_backend *backend, const aev_case *t, const mlff_graph *graph)
{
  const double cutoff = fmax(t->c.radial_cutoff, t->c.angular_cutoff), guard = 77.25;
  const int64_t ld = t->n_columns + 3, n_rows = t->n_centers;
  mlff_error error = {0};
  mlff_edges edges = {0};
  mlff_aev aev = {0};
  test_ok(backend->ops->edges(backend, graph, cutoff, &edges, &error), error);
  test_ok(backend->ops->aev_setup(backend, &aev, &t->c, 4, t->use, &error), error);
  ck_assert_int_eq(aev.n_columns, t->n_columns);

  double *aevs = malloc((size_t) (n_rows * ld + 1) * sizeof *aevs),
         *weights = malloc((size_t) (n_rows * ld + 1) * sizeof *aevs);
  double *grads = malloc((size_t) (4 * edges.n_edges + 1) * sizeof *grads);
  test_rng rng = {.state = 5};
  for (int64_t k = 0; k < n_rows * ld; k++) {
    aevs[k] = guard;
    weights[k] = (double) (float) test_uniform(&rng, -1.0, 1.0);
  }
  for (int64_t k = 0; k < 4 * edges.n_edges; k++) grads[k] = guard;
  const int n_parts = backend->ops->ani_members > 1 ? 2 : 1;
  double *parts = malloc((size_t) (n_parts * n_rows * ld + 1) * sizeof *parts);
  for (int64_t k = 0; k < n_rows * ld; k++) {
    parts[k] = n_parts > 1 ? 0.25 * weights[k] : weights[k];
    if (n_parts > 1) parts[n_rows * ld + k] = 0.75 * weights[k];
  }
  mlff_buf dev_aevs = reals_to_backend(backend, aevs, n_rows * ld),
           dev_weights = reals_to_backend(backend, parts, n_parts * n_rows * ld);
  mlff_buf dev_grads = reals_to_backend(backend, grads, 4 * edges.n_edges);
  mlff_buf dev_centers = bytes_to_backend(backend, t->centers, (size_t) n_rows * sizeof *t->centers);
  int64_t *row = bytes_from_backend(backend, edges.row.data, ((size_t) graph->n_local + 1) * sizeof *row);
  int32_t *nbr = bytes_from_backend(backend, edges.nbr.data, (size_t) edges.n_edges * sizeof *nbr);
  plain_rows(t, graph, row, nbr, ld, aevs, weights, grads);

  mlff_aev_args args = {.edges = &edges,
                        .centers = dev_centers.data,
                        .n_rows = n_rows,
                        .rows = dev_aevs.data,
                        .ld = ld};
  test_ok(backend->ops->aev_forward(backend, &aev, &args, &error), error);
  args.rows = dev_weights.data;
  args.n_parts = n_parts;
  args.grad = dev_grads.data;
  test_ok(backend->ops->aev_backward(backend, &aev, &args, &error), error);
  double *got_aevs = reals_from_backend(backend, dev_aevs.data, n_rows * ld);
  double *got_grads = reals_from_backend(backend, dev_grads.data, 4 * edges.n_edges);
  near_all(got_aevs, aevs, n_rows * ld, 8.0 * rounding(backend), 16.0 * rounding(backend));
  near_all(got_grads, grads, 4 * edges.n_edges, 64.0 * rounding(backend), 16.0 * rounding(backend));

  mlff_buf *bufs[] = {&dev_aevs, &dev_weights, &dev_grads, &dev_centers};
  for (int k = 0; k < 4; k++) mlff_buf_release(backend, bufs[k]);
  free(row);
  free(nbr);
  double *owned[] = {aevs, weights, parts, grads, got_aevs, got_grads};
  for (int k = 0; k < 6; k++) free(owned[k]);
  mlff_aev_release(backend, &aev);
  release_edges(backend, &edges);
  ck_assert_uint_eq(backend->memory.bytes, 0);
}

/* Atoms of species 0, 1 and 3 of four; species 2 is not in use unless the mask says so. */
static void check_atoms(mlff_backend *backend, const mlff_aev_constants *c, test_atoms *atoms, unsigned use_mask)
{
  for (int i = 0; i < atoms->n; i++)
    if (atoms->species[i] == 2) atoms->species[i] = 3;
  mlff_system *system = test_system(atoms, fmax(c->radial_cutoff, c->angular_cutoff) + 0.7);
  const aev_case t = make_case(c, atoms->n, use_mask, 3);
  check_case(backend, &t, mlff_system_graph(system));
  free(t.centers);
  mlff_system_free(system);
  test_atoms_free(atoms);
}

static const int numbers[] = {1, 6, 8};

START_TEST(aev_matches_plain_loops)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  for (int which = 0; which < test_cases(N_CONSTANTS, 3); which++) {
    const mlff_aev_constants c = constants_of(which);
    test_atoms molecule = test_random(14, 4.0, 0.8, 0, numbers, 3, 11),
               liquid = test_random(40, 7.0, 0.9, 1, numbers, 3, 12);
    test_atoms images = test_random(5, 3.1, 0.9, 1, numbers, 3, 13); /* every atom sees its own images, many times */
    check_atoms(backend, &c, &molecule, 11u);
    check_atoms(backend, &c, &liquid, 11u);
    check_atoms(backend, &c, &images, 15u); /* a used species that does not occur: columns of zeros */
  }
  mlff_backend_close(backend);
}
END_TEST

START_TEST(aev_of_few_atoms)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const mlff_aev_constants c = constants_of(0);
  const double distances[] = {20.0, 4.2, 1.1}; /* no neighbor; none within the angular cutoff; one, so no triple */
  for (int k = 0; k < 3; k++) {
    test_atoms pair = test_random(2, 9.0, 1.0, 0, numbers, 3, 14);
    for (int x = 0; x < 3; x++) pair.pos[1][x] = pair.pos[0][x] + distances[k] / sqrt(3.0);
    check_atoms(backend, &c, &pair, 11u);
  }
  test_atoms dense =
      test_random(30, 3.2, 0.5, 0, numbers, 1, 15); /* one species: whole batches of triples and a rest */
  check_atoms(backend, &c, &dense, 1u);
  test_atoms none = test_atoms_new(0);
  check_atoms(backend, &c, &none, 11u);
  mlff_backend_close(backend);
}
END_TEST

/* Triples along a line, also with the sections where 1 + cos vanishes exactly. */
START_TEST(aev_of_collinear_atoms)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const mlff_aev_constants c = constants_of(1); /* has the section 0 */
  test_atoms line = test_random(4, 9.0, 1.0, 0, numbers, 3, 16);
  for (int i = 0; i < 4; i++)
    for (int x = 0; x < 3; x++) line.pos[i][x] = x == 0 ? 1.1 * i : 0.0;
  check_atoms(backend, &c, &line, 11u);
  mlff_backend_close(backend);
}
END_TEST

/* What only the far neighbor contributes to, its radial block or its angular block with the near one: zeros, or next
 * to them when it is just inside. */
static void check_block(const mlff_aev_constants *c, const double *got, int is_radial, int is_inside, double eps)
{
  const int first = is_radial ? c->n_radial : 2 * c->n_radial + c->n_angular * c->n_sections;
  const int n = is_radial ? c->n_radial : c->n_angular * c->n_sections;
  for (int q = first; q < first + n; q++) {
    if (is_inside)
      ck_assert_msg(fabs(got[q]) < 2.0 * eps * eps, "column %d: %g is not of second order in %g", q, got[q], eps);
    else
      ck_assert_double_eq(got[q], 0.0);
  }
}

/* Nothing jumps or has a kink where a neighbor crosses a cutoff, and beyond it nothing is left (the cosine turns up
 * again there). */
START_TEST(aev_ends_at_its_cutoffs)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const mlff_aev_constants c = constants_of(0);
  const double eps = backend->real_size == sizeof(float) ? 1e-3 : 1e-5;
  for (int radial = 0; radial < 2; radial++) {
    const double rc = radial ? c.radial_cutoff : c.angular_cutoff;
    double aev[3][200], cutoff = 6.0;
    for (int k = 0; k < 3; k++) { /* inside by eps, outside by eps, far outside but still an edge */
      const double r = k == 0 ? rc - eps : k == 1 ? rc + eps : rc + 0.6;
      const int64_t row[4] = {0, 2, 2, 2};
      const int32_t nbr[2] = {1, 2}, species[3] = {0, 0, 1}, node[3] = {0, 1, 2}, center = 0;
      const double pos[3][3] = {{0, 0, 0}, {0, 1.2, 0}, {r, 0, 0}};
      const mlff_graph graph = graph_of_list(3, species, node, row, nbr, pos);
      const int use[2] = {1, 1};
      mlff_error error = {0};
      mlff_edges edges = {0};
      mlff_aev a = {0};
      test_ok(backend->ops->edges(backend, &graph, cutoff, &edges, &error), error);
      ck_assert_int_eq(edges.n_edges, 2);
      test_ok(backend->ops->aev_setup(backend, &a, &c, 2, use, &error), error);
      mlff_buf rows = reals_to_backend(backend, aev[k], a.n_columns);
      mlff_buf dev_center = bytes_to_backend(backend, &center, sizeof center);
      test_ok(backend->ops->aev_forward(backend, &a,
                                        &(mlff_aev_args){.edges = &edges,
                                                         .centers = dev_center.data,
                                                         .n_rows = 1,
                                                         .rows = rows.data,
                                                         .ld = a.n_columns},
                                        &error),
              error);
      double *got = reals_from_backend(backend, rows.data, a.n_columns);
      memcpy(aev[k], got, (size_t) a.n_columns * sizeof *got);
      check_block(&c, got, radial, k == 0, eps);
      free(got);
      mlff_buf_release(backend, &rows);
      mlff_buf_release(backend, &dev_center);
      mlff_aev_release(backend, &a);
      release_edges(backend, &edges);
    }
  }
  mlff_backend_close(backend);
}
END_TEST

/* The plain gradients that everything is compared with are the derivatives of the plain AEV. */
START_TEST(plain_gradients_are_derivatives)
{
  double d[5][3] = {{1.0, 0.2, -0.3}, {-0.4, 1.1, 0.6}, {2.0, -1.0, 1.1}, {-1.9, -1.2, 1.7}, {3.2, 2.0, 1.9}};
  int species[5] = {0, 1, 0, 1, 1};
  const plain_star s = {.n = 5, .d = d, .species = species};
  for (int which = 0; which < N_CONSTANTS; which++) {
    const mlff_aev_constants c = constants_of(which);
    const int n = plain_n_columns(&c, 2);
    double *weight = malloc((size_t) n * sizeof *weight), *g = malloc((size_t) n * sizeof *g), grad[5][3],
           numeric[5][3];
    test_rng rng = {.state = 21};
    for (int k = 0; k < n; k++) weight[k] = test_uniform(&rng, -1.0, 1.0);
    plain_aev(&c, 2, &s, NULL, weight, grad);
    for (int q = 0; q < 15; q++) {
      const double step = 1e-5, at = d[q / 3][q % 3];
      numeric[q / 3][q % 3] = 0.0;
      for (int sign = -1; sign <= 1; sign += 2) {
        d[q / 3][q % 3] = at + sign * step;
        plain_aev(&c, 2, &s, g, NULL, NULL);
        for (int k = 0; k < n; k++) numeric[q / 3][q % 3] += sign * weight[k] * g[k] / (2.0 * step);
      }
      d[q / 3][q % 3] = at;
    }
    near_all(numeric, grad, 15, 1e-9, 1e-7);
    free(weight);
    free(g);
  }
}
END_TEST

/* ---- readout and collect ---------------------------------------------------------------------------------------- */

START_TEST(readout_matches_plain_loops)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const int sizes[][2] = {{0, 4}, {1, 1}, {3, 16}, {5, 37}, {2, 160}};
  for (int s = 0; s < 10; s++) { /* all rows in one readout, or each in one of its own */
    const int n_rows = sizes[s % 5][0], n = sizes[s % 5][1], ld = n + 2, n_apart = s < 5 ? 1 : n_rows;
    const double bias = 0.75, factor = 0.125;
    const double alpha = 0.1;
    double *h = malloc((size_t) (n_rows * ld + 1) * sizeof *h),
           *grad = malloc((size_t) (n_rows * ld + 1) * sizeof *grad);
    double weight[160], energy[5] = {0};
    test_rng rng = {.state = 31};
    for (int k = 0; k < n; k++) weight[k] = test_uniform(&rng, -1.0, 1.0);
    for (int k = 0; k < n_rows * ld; k++) grad[k] = h[k] = test_uniform(&rng, -alpha, 1.0);
    mlff_buf dev_h = reals_to_backend(backend, h, n_rows * ld);
    mlff_buf dev_weight = reals_to_backend(backend, weight, n), dev_energy = reals_to_backend(backend, energy, n_rows);
    for (int r = 0; r < n_rows; r++) {
      energy[r] = bias;
      for (int k = 0; k < n; k++) {
        energy[r] += weight[k] * h[r * ld + k];
        grad[r * ld + k] = (h[r * ld + k] < 0 ? 1 + h[r * ld + k] / alpha : 1) * weight[k] * factor;
      }
    }
    mlff_ani_readout_args args[5];
    for (int k = 0; k < n_apart; k++)
      args[k] = (mlff_ani_readout_args){.n_rows = n_rows / n_apart,
                                        .n = n,
                                        .hidden = mlff_at(backend, dev_h.data, (int64_t) k * ld),
                                        .ld_hidden = ld,
                                        .alpha = alpha,
                                        .weight = dev_weight.data,
                                        .bias = bias,
                                        .factor = factor,
                                        .energy = mlff_at(backend, dev_energy.data, k)};
    backend->ops->ani_readout(backend, n_apart, args);
    double *got_energy = reals_from_backend(backend, dev_energy.data, n_rows);
    double *got_grad = reals_from_backend(backend, dev_h.data, n_rows * ld);
    near_all(got_energy, energy, n_rows, 4.0 * (4.0 + n) * rounding(backend), 0.0);
    near_all(got_grad, grad, n_rows * ld, 4.0 * rounding(backend), 0.0);
    mlff_buf *bufs[] = {&dev_h, &dev_weight, &dev_energy};
    for (int k = 0; k < 3; k++) mlff_buf_release(backend, bufs[k]);
    double *owned[] = {h, grad, got_energy, got_grad};
    for (int k = 0; k < 4; k++) free(owned[k]);
  }
  mlff_backend_close(backend);
}
END_TEST

/* What is no number stays none in energies and forces. */
START_TEST(readout_keeps_nan)
{
  enum { N = 9 };
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  double h[N] = {0.5, NAN, -0.05, 0, 0, 0, 0, 0, NAN}, weight[N], energy = 0;
  for (int k = 0; k < N; k++) weight[k] = 1.0;
  mlff_buf dev_h = reals_to_backend(backend, h, N), dev_weight = reals_to_backend(backend, weight, N),
           dev_energy = reals_to_backend(backend, &energy, 1);
  const mlff_ani_readout_args args = {.n_rows = 1,
                                      .n = N,
                                      .hidden = dev_h.data,
                                      .ld_hidden = N,
                                      .alpha = 0.1,
                                      .weight = dev_weight.data,
                                      .factor = 1.0,
                                      .energy = dev_energy.data};
  backend->ops->ani_readout(backend, 1, &args);
  double *got = reals_from_backend(backend, dev_h.data, N), *sum = reals_from_backend(backend, dev_energy.data, 1);
  ck_assert(isnan(sum[0]) && isnan(got[1]) && isnan(got[8]));
  near_one(got[0], 1.0, 0.0);
  near_one(got[2], 0.5, 4 * rounding(backend));
  free(got);
  free(sum);
  mlff_buf *bufs[] = {&dev_h, &dev_weight, &dev_energy};
  for (int k = 0; k < 3; k++) mlff_buf_release(backend, bufs[k]);
  mlff_backend_close(backend);
}
END_TEST

START_TEST(collect_orders_by_atom)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const int32_t centers[5] = {4, 0, 2, 1, 3}; /* atoms 1 and 3 have no rows */
  const double energy[6] = {1.0, 2.0, 3.0, 5.0, 7.0, 11.0}, junk[10] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
  const double node[5] = {4.5, 0.0, 7.0, 0.0, 3.0}, member[10] = {2, 0, 3, 0, 1, 7, 0, 11, 0, 5};
  mlff_buf dev_energy = reals_to_backend(backend, energy, 6), dev_node = reals_to_backend(backend, junk, 5);
  mlff_buf dev_member = reals_to_backend(backend, junk, 10);
  mlff_buf dev_centers = bytes_to_backend(backend, centers, sizeof centers);
  backend->ops->ani_collect(backend, &(mlff_ani_collect_args){.n_members = 2,
                                                              .n_rows = 3,
                                                              .n_local = 5,
                                                              .centers = dev_centers.data,
                                                              .energy = dev_energy.data,
                                                              .node = dev_node.data,
                                                              .member = dev_member.data});
  double *got_node = reals_from_backend(backend, dev_node.data, 5),
         *got_member = reals_from_backend(backend, dev_member.data, 10);
  near_all(got_node, node, 5, 0.0, 0.0);
  near_all(got_member, member, 10, 0.0, 0.0);
  mlff_buf *bufs[] = {&dev_energy, &dev_node, &dev_member, &dev_centers};
  for (int k = 0; k < 4; k++) mlff_buf_release(backend, bufs[k]);
  free(got_node);
  free(got_member);
  mlff_backend_close(backend);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("op/ani");
  TCase *c = tcase_create("aev");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, plain_gradients_are_derivatives);
  tcase_add_loop_test(c, aev_matches_plain_loops, 0, n_backends());
  tcase_add_loop_test(c, aev_of_few_atoms, 0, n_backends());
  tcase_add_loop_test(c, aev_of_collinear_atoms, 0, n_backends());
  tcase_add_loop_test(c, aev_ends_at_its_cutoffs, 0, n_backends());
  tcase_add_loop_test(c, readout_matches_plain_loops, 0, n_backends());
  tcase_add_loop_test(c, readout_keeps_nan, 0, n_backends());
  tcase_add_loop_test(c, collect_orders_by_atom, 0, n_backends());
  suite_add_tcase(s, c);
  return s;
}

int main(void)
{
  return test_main(suite);
}
