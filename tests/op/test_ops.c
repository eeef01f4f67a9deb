/* test_ops.c: the ops that all architectures share (edges, forces, buffers; products are in test_linear.c) on every
 * backend and kernel path, against plain loops in double. */
#include "backends.h"

#include "backend/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- edges and forces ------------------------------------------------------------------------------------------ */

/* Twice, against a plain loop over the candidates; elements "H", "C", "O". Frees the atoms. */
static void check_edges(mlff_backend *backend, test_atoms *atoms, double cutoff, double skin)
{
  mlff_system *system = test_system(atoms, cutoff + skin);
  const mlff_graph *graph = mlff_system_graph(system);
  mlff_edges edges = {0};
  mlff_error error = {0};
  for (int round = 0; round < 2; round++) {
    const int64_t growths = backend->memory.n_growths;
    test_ok(backend->ops->edges(backend, graph, cutoff, &edges, &error), error);
    if (round) ck_assert_msg(growths == backend->memory.n_growths, "a settled step must not allocate");
    double *vec = reals_from_backend(backend, edges.vec.data, 4 * edges.n_edges);
    const size_t index_bytes = (size_t) edges.n_edges * sizeof(int32_t);
    int64_t *row = bytes_from_backend(backend, edges.row.data, ((size_t) graph->n_local + 1) * sizeof *row);
    int32_t *nbr = bytes_from_backend(backend, edges.nbr.data, index_bytes),
            *node = bytes_from_backend(backend, edges.node.data, index_bytes),
            *species = bytes_from_backend(backend, edges.species.data, index_bytes);
    int64_t e = 0;
    double closest = INFINITY;
    for (int32_t i = 0; i < graph->n_local; i++) {
      ck_assert_int_eq(row[i], e);
      for (int64_t p = graph->row[i]; p < graph->row[i + 1]; p++) {
        const int32_t j = graph->nbr[p];
        double d[4] = {0};
        for (int c = 0; c < 3; c++) {
          d[c] = graph->pos[j][c] - graph->pos[i][c];
          d[3] += d[c] * d[c];
        }
        d[3] = sqrt(d[3]);
        if (d[3] >= cutoff || graph->species[j] < 0 || graph->species[i] < 0) continue;
        if (d[3] < closest) closest = d[3];
        ck_assert_int_eq(nbr[e], j);
        ck_assert_int_eq(node[e], graph->node[j]);
        ck_assert_int_eq(species[e], graph->species[j]);
        near_all(vec + 4 * e, d, 4, 0.0, 2.0 * rounding(backend));
        e++;
      }
    }
    ck_assert_int_eq(row[graph->n_local], e);
    ck_assert_int_eq(edges.n_edges, e);
    ck_assert_int_gt(e, 20);
    near_one(edges.min_distance, closest, 1e-14);
    const double(*pos)[3] = graph->pos;
    double between = 0;
    for (int c = 0; c < 3; c++) between += pow(pos[edges.closest[0]][c] - pos[edges.closest[1]][c], 2);
    near_one(sqrt(between), closest, 1e-12);
    void *owned[] = {vec, row, nbr, node, species};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) free(owned[k]);
  }
  release_edges(backend, &edges);
  mlff_system_free(system);
  test_atoms_free(atoms);
}

START_TEST(edges_are_the_pairs_within_the_cutoff)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  for (int far = 0; far < 2; far++) { /* about 40 candidates of an atom, and 200 */
    test_atoms atoms = test_triclinic();
    const char *const elements[] = {"H", "C", "O"};
    test_atoms_species(&atoms, elements, 3);
    atoms.species[2] = -1; /* an atom of another style */
    check_edges(backend, &atoms, 3.1, far ? 5.0 : 1.5);
  }
  mlff_backend_close(backend);
}
END_TEST

START_TEST(edges_of_many_atoms)
{
  static const int numbers[] = {1, 6, 8};
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_atoms atoms = test_random(2600, 36.0, 0.7, 1, numbers, 3, 5);
  check_edges(backend, &atoms, 2.5, 0.5);
  mlff_backend_close(backend);
}
END_TEST

START_TEST(edges_refuse_positions_that_are_not_finite)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const int64_t row[3] = {0, 1, 2};
  const int32_t nbr[2] = {1, 0}, species[2] = {0, 0}, node[2] = {0, 1};
  double pos[2][3] = {{0, 0, 0}, {1, 0, 0}};
  const mlff_graph graph = graph_of_list(2, species, node, row, nbr, (const double(*)[3]) pos);
  mlff_edges edges = {0};
  mlff_error error = {0};
  const double bad[] = {NAN, INFINITY, -INFINITY};
  for (int k = 0; k < 3; k++) {
    pos[1][2] = bad[k];
    test_fails(backend->ops->edges(backend, &graph, 2.0, &edges, &error), error, MLFF_E_NUMERIC, "atom 2 counted");
    ck_assert_int_eq(edges.n_edges, 0);
  }
  pos[1][2] = 0.5;
  test_ok(backend->ops->edges(backend, &graph, 2.0, &edges, &error), error);
  ck_assert_int_eq(edges.n_edges, 2);
  const mlff_graph empty = {.list_id = 2, .row = row};
  test_ok(backend->ops->edges(backend, &empty, 2.0, &edges, &error), error);
  ck_assert_int_eq(edges.n_edges, 0);
  ck_assert(isinf(edges.min_distance));
  release_edges(backend, &edges);
  mlff_backend_close(backend);
}
END_TEST

/* Two atoms on a slanted line, the gradient of edge 0 -> 1 known: signs and component order by hand. */
START_TEST(forces_of_a_dimer_by_hand)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const int64_t row[3] = {0, 1, 2};
  const int32_t nbr[2] = {1, 0}, species[2] = {0, 0}, node[2] = {0, 1};
  const double pos[2][3] = {{0, 0, 0}, {1, 2, 0.5}};
  const mlff_graph graph = graph_of_list(2, species, node, row, nbr, pos);
  mlff_edges edges = {0};
  mlff_error error = {0};
  test_ok(backend->ops->edges(backend, &graph, 9.0, &edges, &error), error);
  const double grad[8] = {0.5, -0.25, 2.0, 99.0, 0.0, 0.0, 1.0, 99.0}; /* by edges 0->1 and 1->0 */
  mlff_buf dev_grad = reals_to_backend(backend, grad, 8);
  double forces[2][3], atom_virial[2][9], centroid[2][9];
  mlff_result result = {.forces = forces, .atom_virial = atom_virial, .atom_centroid = centroid};
  const mlff_forces_args args = {.edges = &edges, .grad = dev_grad.data, .scale = 2.0, .result = &result};
  test_ok(backend->ops->forces(backend, &args, &error), error);

  const double f[2][3] = {{1.0, -0.5, 2.0}, {-1.0, 0.5, -2.0}}; /* 2 (g01 - g10) and its opposite */
  near_all(forces, f, 6, 1e-6, 0.0);
  /* w_ab = -2 d_a g_b: d = (1, 2, 0.5) with g01, d = -(1, 2, 0.5) with g10; order xx yy zz xy xz yz yx zx zy */
  const double w01[9] = {-1.0, 1.0, -2.0, 0.5, -4.0, -8.0, -2.0, -0.5, 0.25};
  const double w10[9] = {0.0, 0.0, 1.0, 0.0, 2.0, 4.0, 0.0, 0.0, 0.0};
  double half[2][9], virial[6];
  for (int c = 0; c < 9; c++) half[0][c] = half[1][c] = 0.5 * (w01[c] + w10[c]);
  for (int c = 0; c < 3; c++) {
    virial[c] = w01[c] + w10[c];
    virial[3 + c] = 0.5 * (w01[3 + c] + w10[3 + c] + w01[6 + c] + w10[6 + c]);
  }
  near_all(result.virial, virial, 6, 1e-6, 0.0);
  near_all(atom_virial, half, 18, 1e-6, 0.0);
  near_all(centroid[1], w01, 9, 1e-6, 0.0);
  near_all(centroid[0], w10, 9, 1e-6, 0.0);
  mlff_buf_release(backend, &dev_grad);
  release_edges(backend, &edges);
  mlff_backend_close(backend);
}
END_TEST

/* Energies of many atoms, of which every third has no element, and the first force that is not finite. */
START_TEST(energies_and_what_is_not_finite)
{
  enum { N = 700 };
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  static int64_t row[N + 1];
  static int32_t nbr[N], species[N], node[N];
  static double pos[N][3], grad[4 * N], energies[N], forces[N][3];
  double expected = 0;
  for (int i = 0; i < N; i++) { /* a ring of pairs, a centre without an element has no edge */
    species[i] = i % 3 ? 0 : -1;
    node[i] = i;
    pos[i][0] = 0.5 * (i / 3 * 3) + 0.7 * (i % 3);
    nbr[i] = i % 3 == 1 ? i + 1 : i - 1;
    row[i + 1] = row[i] + (i % 3 && nbr[i] < N);
    if (row[i + 1] > row[i]) nbr[row[i]] = nbr[i];
    energies[i] = 0.25 * i;
    expected += i % 3 ? energies[i] : 0.0;
  }
  const mlff_graph graph = graph_of_list(N, species, node, row, nbr, pos);
  mlff_edges edges = {0};
  mlff_error error = {0};
  test_ok(backend->ops->edges(backend, &graph, 1.0, &edges, &error), error);
  ck_assert_int_eq(edges.n_edges, row[N]);
  mlff_buf dev_energies = reals_to_backend(backend, energies, N);
  mlff_result result = {.forces = forces};
  for (int first = -1; first < row[N]; first = first < 0 ? 4 : 2 * first) { /* an edge whose gradient is not */
    int centre = -1, bad = -2;
    double energy = 0;
    if (first >= 0) grad[4 * first + 1] = first % 8 ? INFINITY : NAN;
    for (int i = 0; first >= 0 && i < N; i++)
      if (row[i] <= first && first < row[i + 1]) centre = i < nbr[first] ? i : nbr[first];
    mlff_buf dev_grad = reals_to_backend(backend, grad, 4 * row[N]);
    const mlff_forces_args args = {.edges = &edges,
                                   .grad = dev_grad.data,
                                   .scale = 1.0,
                                   .result = &result,
                                   .node_energy = dev_energies.data,
                                   .energy = &energy,
                                   .bad = &bad};
    test_ok(backend->ops->forces(backend, &args, &error), error);
    ck_assert_int_eq(bad, centre);
    ck_assert_double_eq_tol(energy, expected, 1e-9 * expected);
    if (first >= 0) grad[4 * first + 1] = 0.0;
    mlff_buf_release(backend, &dev_grad);
  }
  mlff_buf_release(backend, &dev_energies);
  release_edges(backend, &edges);
  mlff_backend_close(backend);
}
END_TEST

enum { DENSE = 200 };

/* All atoms are neighbors of the n_local centres; those behind belong to n_nodes nodes in turn. Random gradients. */
static void check_dense_forces(mlff_backend *backend, int n_local, int n_nodes)
{
  static int64_t row[DENSE + 1];
  static int32_t nbr[DENSE * DENSE], species[DENSE], node[DENSE];
  static double pos[DENSE][3], grad[4 * DENSE * DENSE], forces[DENSE][3], expected[DENSE][3];
  static const int first[9] = {0, 1, 2, 0, 0, 1, 1, 2, 2}, second[9] = {0, 1, 2, 1, 2, 2, 0, 0, 1};
  const double scale = -1.5;
  double w[9] = {0}, virial[6], size = 0;
  test_rng rng = {.state = 17};
  int64_t n = 0;
  memset(expected, 0, sizeof expected);
  for (int i = 0; i < DENSE; i++) {
    node[i] = i % n_nodes;
    for (int c = 0; c < 3; c++) pos[i][c] = test_uniform(&rng, -2.0, 2.0);
  }
  for (int i = 0; i < n_local; i++) {
    row[i] = n;
    for (int j = 0; j < DENSE; j++) {
      if (j == i) continue;
      for (int c = 0; c < 4; c++) grad[4 * n + c] = (double) (float) test_uniform(&rng, -1.0, 1.0);
      for (int c = 0; c < 3; c++) {
        expected[i][c] += scale * grad[4 * n + c];
        expected[node[j]][c] -= scale * grad[4 * n + c];
      }
      for (int c = 0; c < 9; c++) w[c] -= scale * (pos[j][first[c]] - pos[i][first[c]]) * grad[4 * n + second[c]];
      nbr[n++] = j;
    }
  }
  row[n_local] = n;
  mlff_graph graph = graph_of_list(n_local, species, node, row, nbr, (const double(*)[3]) pos);
  graph.n_nodes = n_nodes;
  graph.n_all = DENSE;
  mlff_edges edges = {0};
  mlff_error error = {0};
  test_ok(backend->ops->edges(backend, &graph, 9.0, &edges, &error), error);
  ck_assert_int_eq(edges.n_edges, n);
  mlff_buf dev_grad = reals_to_backend(backend, grad, 4 * n);
  mlff_result result = {.forces = forces};
  const mlff_forces_args args = {.edges = &edges, .grad = dev_grad.data, .scale = scale, .result = &result};
  test_ok(backend->ops->forces(backend, &args, &error), error);
  for (int c = 0; c < 6; c++) {
    virial[c] = c < 3 ? w[c] : 0.5 * (w[c] + w[3 + c]);
    size = fmax(size, fabs(virial[c]));
  }
  near_all(forces, expected, 3 * n_nodes, 1e-10, 0.0);
  near_all(result.virial, virial, 6, fmax(1e-10, rounding(backend)) * size, 0.0);
  mlff_buf_release(backend, &dev_grad);
  release_edges(backend, &edges);
}

/* Several passes over the edges of a node and those that end at it, and nodes of other ranks; of a GPU few atoms and
 * many (tests: a simulated one with two multiprocessors). */
START_TEST(forces_of_dense_atoms)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  check_dense_forces(backend, 20, 25);
  check_dense_forces(backend, 40, 50);
  mlff_backend_close(backend);
}
END_TEST

/* ---- opening and buffers --------------------------------------------------------------------------------------- */

START_TEST(backends_open_by_name)
{
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  test_fails(mlff_backend_open("tpu", 0, NULL, NULL, &backend, &error), error, MLFF_E_ARG, "use auto, cpu");
  test_fails(mlff_backend_open("cudax", 0, NULL, NULL, &backend, &error), error, MLFF_E_ARG, "cudax");
  test_fails(mlff_backend_open("cpu", 0, "fp16", NULL, &backend, &error), error, MLFF_E_ARG, "use fp32");
  test_fails(mlff_backend_open("cpu", 0, "fp32", "sse9", &backend, &error), error, MLFF_E_ARG, "avx512");
  test_fails(mlff_backend_open("cpu", 0, "fp32", "amx", &backend, &error), error, MLFF_E_ARG, "precision mixed");
  ck_assert_ptr_null(backend);
  test_fails(mlff_backend_open("cuda:x", 0, NULL, NULL, &backend, &error), error, MLFF_E_ARG, "integer from 0");
  test_fails(mlff_backend_open("cuda", 0, NULL, "avx2", &backend, &error), error, MLFF_E_ARG, "device cpu");
  ck_assert_ptr_null(backend);
  test_ok(mlff_backend_open("cpu", 0, NULL, NULL, &backend, &error), error);
  ck_assert_str_eq(backend->name, "cpu");
  ck_assert_str_eq(backend->kernels, mlff_cpu_best_kernels("fp32"));
  ck_assert_str_eq(backend->why, "");
  mlff_backend_close(backend);
  test_ok(mlff_backend_open("auto", 0, "fp64", "generic", &backend, &error), error);
  ck_assert_str_eq(backend->name, "cpu64");
  mlff_backend_close(backend);
}
END_TEST

/* Precision mixed of the CPU: instructions where they are, else an error that says which ones are missing; products
 * without them only by name. */
START_TEST(mixed_or_a_reason)
{
  static const char *const paths[] = {"amx", "avx512_bf16", "avx512", "avx2", "generic"};
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  for (int k = 0; k < 5; k++) {
    const mlff_status status = mlff_backend_open("cpu", 0, "mixed", paths[k], &backend, &error);
    ck_assert_int_eq(status, mlff_cpu_has_kernels(paths[k]) ? MLFF_OK : MLFF_E_UNSUPPORTED);
    ck_assert_int_eq(!status, !mlff_cpu_lacks(paths[k]));
    if (status) {
      ck_assert_msg(strstr(error.text, mlff_cpu_lacks(paths[k])) && strstr(error.text, "precision fp32"), "%s",
                    error.text);
      continue;
    }
    ck_assert_str_eq(backend->precision, "mixed");
    ck_assert_uint_eq(backend->real_size, sizeof(float));
    mlff_backend_close(backend);
  }
  if (mlff_cpu_has_kernels("avx512_bf16")) {
    test_ok(mlff_backend_open("cpu", 0, "mixed", NULL, &backend, &error), error);
    ck_assert_str_eq(backend->kernels, mlff_cpu_has_kernels("amx") ? "amx" : "avx512_bf16");
    mlff_backend_close(backend);
    return;
  }
  test_fails(mlff_backend_open("cpu", 0, "mixed", "auto", &backend, &error), error, MLFF_E_UNSUPPORTED, "use fp32");
  ck_assert_msg(strstr(error.text, "amx no") && strstr(error.text, "avx512_bf16 no") && strstr(error.text, "generic"),
                "%s", error.text);
}
END_TEST

/* Without a GPU: 'cuda' is one clear error, 'auto' takes the CPU and says why. With one: both take it. */
START_TEST(gpu_or_a_reason)
{
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  const int has_gpu = n_backends() > N_CPU_BACKENDS;
  test_ok(mlff_backend_open(NULL, 0, NULL, NULL, &backend, &error), error);
  ck_assert_str_eq(backend->name, has_gpu ? "cuda" : "cpu");
  ck_assert_int_eq(backend->why[0] == 0, has_gpu);
  mlff_backend_close(backend);
  backend = NULL;
  const mlff_status status = mlff_backend_open("cuda", 0, NULL, NULL, &backend, &error);
  if (has_gpu) {
    ck_assert_int_eq(status, MLFF_OK);
    mlff_backend_close(backend);
    test_fails(mlff_backend_open("cuda:99", 0, NULL, NULL, &backend, &error), error, MLFF_E_DEVICE, "cuda:99");
  } else {
    ck_assert(status == MLFF_E_UNSUPPORTED || status == MLFF_E_DEVICE);
    ck_assert_msg(strstr(error.text, "use 'device cpu'") != NULL, "%s", error.text);
    ck_assert_ptr_null(backend);
  }
}
END_TEST

START_TEST(buffers_grow_and_are_counted)
{
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  mlff_buf buf = {0};
  test_ok(mlff_backend_open("cpu", 0, "fp32", NULL, &backend, &error), error);
  test_ok(mlff_buf_reserve(backend, &buf, 0, &error), error);
  ck_assert_ptr_nonnull(buf.data);
  test_ok(mlff_buf_reserve(backend, &buf, 1000, &error), error);
  ck_assert_uint_eq((uintptr_t) buf.data % 64, 0);
  ck_assert_uint_eq(backend->memory.bytes, buf.capacity);
  const int64_t growths = backend->memory.n_growths;
  test_ok(mlff_buf_reserve(backend, &buf, 1000, &error), error);
  ck_assert_int_eq(backend->memory.n_growths, growths);
  void *data = buf.data;
  test_fails(mlff_buf_reserve(backend, &buf, SIZE_MAX - 100, &error), error, MLFF_E_NOMEM, "out of memory");
  ck_assert_ptr_eq(buf.data, data);
  mlff_buf_release(backend, &buf);
  ck_assert_uint_eq(backend->memory.bytes, 0);
  ck_assert_uint_ge(backend->memory.peak_bytes, 1000);
  mlff_backend_close(backend);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("ops");
  TCase *edges = tcase_create("edges and forces");
  tcase_add_loop_test(edges, edges_are_the_pairs_within_the_cutoff, 0, n_backends());
  tcase_add_loop_test(edges, edges_of_many_atoms, 0, n_backends());
  tcase_add_loop_test(edges, edges_refuse_positions_that_are_not_finite, 0, n_backends());
  tcase_add_loop_test(edges, forces_of_a_dimer_by_hand, 0, n_backends());
  tcase_add_loop_test(edges, energies_and_what_is_not_finite, 0, n_backends());
  tcase_add_loop_test(edges, forces_of_dense_atoms, 0, n_backends());
  suite_add_tcase(suite, edges);
  TCase *backend = tcase_create("backend");
  tcase_add_test(backend, backends_open_by_name);
  tcase_add_test(backend, mixed_or_a_reason);
  tcase_add_test(backend, gpu_or_a_reason);
  tcase_add_test(backend, buffers_grow_and_are_counted);
  suite_add_tcase(suite, backend);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
