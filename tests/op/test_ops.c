/* test_ops.c: the ops that all architectures share (linear, edges, forces, buffers) on every backend and kernel path,
 * against plain loops in double. Guard words around outputs catch writes outside; sizes are odd on purpose. */
#include "backends.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *random_array(test_rng *rng, int64_t n)
{
  double *x = malloc((size_t) (n + 1) * sizeof *x);
  for (int64_t k = 0; k < n; k++) x[k] = test_uniform(rng, -1.0, 1.0);
  return x;
}

/* An array on the backend, with values rounded to its reals. */
static mlff_buf to_backend(mlff_backend *backend, const double *x, int64_t n)
{
  mlff_error error = {0};
  mlff_buf buf = {0};
  test_ok(mlff_buf_reserve(backend, &buf, (size_t) n * backend->real_size, &error), error);
  test_ok(backend->ops->upload_reals(backend, buf.data, x, n, &error), error);
  return buf;
}

static double *from_backend(mlff_backend *backend, const void *data, int64_t n)
{
  mlff_error error = {0};
  double *x = malloc((size_t) (n + 1) * sizeof *x);
  test_ok(backend->ops->download_reals(backend, x, data, n, &error), error);
  return x;
}

/* ---- linear ---------------------------------------------------------------------------------------------------- */

typedef struct linear_case {
  int n_rows, n_in, n_out, transpose, with_bias, accumulate, scaled;
  mlff_act act;
} linear_case;

static double act_value(mlff_act act, double alpha, double x, double *slope)
{
  if (act == MLFF_ACT_SILU) {
    const double s = 1.0 / (1.0 + exp(-x));
    *slope = s * (1.0 + x * (1.0 - s));
    return x * s;
  }
  if (act == MLFF_ACT_CELU) {
    *slope = x > 0 ? 1.0 : exp(x / alpha);
    return x > 0 ? x : alpha * expm1(x / alpha);
  }
  *slope = 1.0;
  return x;
}

static void run_linear(mlff_backend *backend, const linear_case *c, test_rng *rng)
{
  enum { GUARD = 3 };
  const double alpha = 0.1, guard = 77.25;
  const int n_x = c->transpose ? c->n_out : c->n_in, n_y = c->transpose ? c->n_in : c->n_out;
  const int64_t ldx = n_x + 5, ldy = n_y + GUARD, size = (int64_t) c->n_rows * ldy + GUARD;
  double *weight = random_array(rng, (int64_t) c->n_out * c->n_in), *bias = random_array(rng, n_y);
  double *x = random_array(rng, c->n_rows * ldx), *y = random_array(rng, size), *scale = random_array(rng, size);
  for (int64_t k = 0; k < size; k++)
    if (k / ldy >= c->n_rows || k % ldy >= n_y) y[k] = guard;
  mlff_buf dev_x = to_backend(backend, x, c->n_rows * ldx), dev_y = to_backend(backend, y, size);
  mlff_buf dev_slope = to_backend(backend, y, size), dev_scale = to_backend(backend, scale, size);
  mlff_linear linear = {0};
  mlff_error error = {0};
  test_ok(backend->ops->linear_pack(backend, &linear, weight, c->with_bias ? bias : NULL, c->n_out, c->n_in,
                                    c->transpose, &error),
          error);
  ck_assert_int_eq(linear.n_in, n_x);
  ck_assert_int_eq(linear.n_out, n_y);
  const mlff_linear_args args = {.n_rows = c->n_rows,
                                 .x = dev_x.data,
                                 .ldx = ldx,
                                 .y = dev_y.data,
                                 .ldy = ldy,
                                 .accumulate = c->accumulate,
                                 .act = c->act,
                                 .alpha = alpha,
                                 .slope = c->act ? dev_slope.data : NULL,
                                 .ld_slope = ldy,
                                 .scale = c->scaled ? dev_scale.data : NULL,
                                 .ld_scale = ldy};
  backend->ops->linear(backend, &linear, &args);

  double *ref_y = malloc((size_t) size * sizeof *ref_y), *ref_slope = malloc((size_t) size * sizeof *ref_slope);
  memcpy(ref_y, y, (size_t) size * sizeof *y);
  memcpy(ref_slope, y, (size_t) size * sizeof *y);
  for (int r = 0; r < c->n_rows; r++) {
    for (int o = 0; o < n_y; o++) {
      double sum = c->with_bias ? bias[o] : 0.0, slope;
      for (int k = 0; k < n_x; k++) sum += x[r * ldx + k] * weight[c->transpose ? k * c->n_in + o : o * c->n_in + k];
      sum = act_value(c->act, alpha, sum, &slope);
      if (c->scaled) sum *= scale[r * ldy + o];
      ref_y[r * ldy + o] = (c->accumulate ? y[r * ldy + o] : 0.0) + sum;
      if (c->act) ref_slope[r * ldy + o] = slope;
    }
  }
  double *got_y = from_backend(backend, dev_y.data, size), *got_slope = from_backend(backend, dev_slope.data, size);
  const double tolerance = 8.0 * rounding(backend) * (4.0 + n_x);
  near_all(got_y, ref_y, size, tolerance, 0.0);
  near_all(got_slope, ref_slope, size, (c->act == MLFF_ACT_CELU ? 10.0 : 1.0) * tolerance, 0.0);
  for (int64_t k = 0; k < size; k++)
    if (k / ldy >= c->n_rows || k % ldy >= n_y) ck_assert_double_eq(got_y[k], guard);

  mlff_linear_release(backend, &linear);
  mlff_buf_release(backend, &dev_x);
  mlff_buf_release(backend, &dev_y);
  mlff_buf_release(backend, &dev_slope);
  mlff_buf_release(backend, &dev_scale);
  ck_assert_uint_eq(backend->memory.bytes, 0);
  double *owned[] = {weight, bias, x, y, scale, ref_y, ref_slope, got_y, got_slope};
  for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++) free(owned[k]);
}

START_TEST(linear_matches_plain_loops)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  static const int sizes[][3] = {{0, 5, 7},   {1, 1, 1},    {2, 3, 17},    {5, 20, 33},
                                 {6, 64, 64}, {7, 65, 127}, {13, 128, 97}, {23, 31, 130}};
  test_rng rng = {.state = 7};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    for (int variant = 0; variant < 8; variant++) {
      const linear_case c = {.n_rows = sizes[s][0],
                             .n_in = sizes[s][1],
                             .n_out = sizes[s][2],
                             .transpose = variant >= 6,
                             .with_bias = variant < 6 && variant != 1,
                             .accumulate = variant == 2 || variant == 7,
                             .scaled = variant == 3 || variant >= 6,
                             .act = variant == 4   ? MLFF_ACT_SILU
                                    : variant == 5 ? MLFF_ACT_CELU
                                                   : MLFF_ACT_NONE};
      run_linear(backend, &c, &rng);
    }
  }
  mlff_backend_close(backend);
}
END_TEST

/* Activations far out: no overflow, the right limits, and NaN in gives NaN out. */
START_TEST(activations_have_limits)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const double one = 1.0, x[6] = {-1e30, -200.0, 0.0, 200.0, 1e30, NAN};
  mlff_error error = {0};
  mlff_linear linear = {0};
  test_ok(backend->ops->linear_pack(backend, &linear, &one, NULL, 1, 1, 0, &error), error);
  mlff_buf dev_x = to_backend(backend, x, 6), dev_y = to_backend(backend, x, 6), dev_slope = to_backend(backend, x, 6);
  for (mlff_act act = MLFF_ACT_SILU; act <= MLFF_ACT_CELU; act++) {
    const mlff_linear_args args = {.n_rows = 6,
                                   .x = dev_x.data,
                                   .ldx = 1,
                                   .y = dev_y.data,
                                   .ldy = 1,
                                   .act = act,
                                   .alpha = 0.1,
                                   .slope = dev_slope.data,
                                   .ld_slope = 1};
    backend->ops->linear(backend, &linear, &args);
    double *y = from_backend(backend, dev_y.data, 6), *slope = from_backend(backend, dev_slope.data, 6);
    const double low = act == MLFF_ACT_SILU ? 0.0 : -0.1, middle = act == MLFF_ACT_SILU ? 0.5 : 1.0;
    const double ref_y[5] = {low, low, 0.0, 200.0, 1e30}, ref_slope[5] = {0.0, 0.0, middle, 1.0, 1.0};
    near_all(y + 1, ref_y + 1, 3, 1e-5, 0.0);
    near_all(slope + 1, ref_slope + 1, 3, 1e-5, 0.0);
    near_one(y[4] / 1e30, 1.0, 1e-6);
    near_one(y[0] / 1e30, 0.0, 1e-6);
    ck_assert_msg(isnan(y[5]) && isnan(slope[5]), "NaN must stay NaN: %g %g", y[5], slope[5]);
    free(y);
    free(slope);
  }
  mlff_linear_release(backend, &linear);
  mlff_buf_release(backend, &dev_x);
  mlff_buf_release(backend, &dev_y);
  mlff_buf_release(backend, &dev_slope);
  mlff_backend_close(backend);
}
END_TEST

/* ---- edges and forces ------------------------------------------------------------------------------------------ */

START_TEST(edges_are_the_pairs_within_the_cutoff)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const double skin = 1.5, cutoff = 3.1;
  test_atoms atoms = test_triclinic();
  const char *const elements[] = {"H", "C", "O"};
  test_atoms_species(&atoms, elements, 3);
  atoms.species[2] = -1; /* an atom of another style */
  mlff_system *system = test_system(&atoms, cutoff + skin);
  const mlff_graph *graph = mlff_system_graph(system);
  mlff_edges edges = {0};
  mlff_error error = {0};
  for (int round = 0; round < 2; round++) {
    const int64_t growths = backend->memory.n_growths;
    test_ok(backend->ops->edges(backend, graph, cutoff, &edges, &error), error);
    if (round) ck_assert_msg(growths == backend->memory.n_growths, "a settled step must not allocate");
    double *vec = from_backend(backend, edges.vec.data, 4 * edges.n_edges);
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
  test_atoms_free(&atoms);
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
  const mlff_graph graph = {.n_local = 2,
                            .n_all = 2,
                            .n_nodes = 2,
                            .n_pairs = 2,
                            .list_id = 1,
                            .species = species,
                            .node = node,
                            .row = row,
                            .nbr = nbr,
                            .pos = (const double(*)[3]) pos};
  mlff_edges edges = {0};
  mlff_error error = {0};
  const double bad[] = {NAN, INFINITY, -INFINITY};
  for (int k = 0; k < 3; k++) {
    pos[1][2] = bad[k];
    test_fails(backend->ops->edges(backend, &graph, 2.0, &edges, &error), error, MLFF_E_NUMERIC, "atom 1");
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
  const mlff_graph graph = {.n_local = 2,
                            .n_all = 2,
                            .n_nodes = 2,
                            .n_pairs = 2,
                            .list_id = 1,
                            .species = species,
                            .node = node,
                            .row = row,
                            .nbr = nbr,
                            .pos = pos};
  mlff_edges edges = {0};
  mlff_error error = {0};
  test_ok(backend->ops->edges(backend, &graph, 9.0, &edges, &error), error);
  const double grad[8] = {0.5, -0.25, 2.0, 99.0, 0.0, 0.0, 1.0, 99.0}; /* by edges 0->1 and 1->0 */
  mlff_buf dev_grad = to_backend(backend, grad, 8);
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

/* ---- opening and buffers --------------------------------------------------------------------------------------- */

START_TEST(backends_open_by_name)
{
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  test_fails(mlff_backend_open("tpu", 0, NULL, NULL, &backend, &error), error, MLFF_E_ARG, "use auto, cpu");
  test_fails(mlff_backend_open("cudax", 0, NULL, NULL, &backend, &error), error, MLFF_E_ARG, "cudax");
  test_fails(mlff_backend_open("cpu", 0, "fp16", NULL, &backend, &error), error, MLFF_E_ARG, "use fp32");
  test_fails(mlff_backend_open("cpu", 0, "mixed", NULL, &backend, &error), error, MLFF_E_UNSUPPORTED, "fp32 or fp64");
  test_fails(mlff_backend_open("cpu", 0, "fp32", "sse9", &backend, &error), error, MLFF_E_ARG, "avx512");
  ck_assert_ptr_null(backend);
  test_fails(mlff_backend_open("cuda:x", 0, NULL, NULL, &backend, &error), error, MLFF_E_ARG, "number from 0 on");
  test_fails(mlff_backend_open("cuda", 0, NULL, "avx2", &backend, &error), error, MLFF_E_ARG, "device cpu");
  ck_assert_ptr_null(backend);
  test_ok(mlff_backend_open("cpu", 0, NULL, NULL, &backend, &error), error);
  ck_assert_str_eq(backend->name, "cpu");
  ck_assert_str_eq(backend->kernels, mlff_cpu_best_kernels());
  ck_assert_str_eq(backend->why, "");
  mlff_backend_close(backend);
  test_ok(mlff_backend_open("auto", 0, "fp64", "generic", &backend, &error), error);
  ck_assert_str_eq(backend->name, "cpu64");
  mlff_backend_close(backend);
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
  TCase *linear = tcase_create("linear");
  tcase_add_loop_test(linear, linear_matches_plain_loops, 0, n_backends());
  tcase_add_loop_test(linear, activations_have_limits, 0, n_backends());
  suite_add_tcase(suite, linear);
  TCase *edges = tcase_create("edges and forces");
  tcase_add_loop_test(edges, edges_are_the_pairs_within_the_cutoff, 0, n_backends());
  tcase_add_loop_test(edges, edges_refuse_positions_that_are_not_finite, 0, n_backends());
  tcase_add_loop_test(edges, forces_of_a_dimer_by_hand, 0, n_backends());
  suite_add_tcase(suite, edges);
  TCase *backend = tcase_create("backend");
  tcase_add_test(backend, backends_open_by_name);
  tcase_add_test(backend, gpu_or_a_reason);
  tcase_add_test(backend, buffers_grow_and_are_counted);
  suite_add_tcase(suite, backend);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
