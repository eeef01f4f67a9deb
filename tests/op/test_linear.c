/* test_linear.c: products of matrices on every backend and kernel path, against plain loops in double; on GPUs also many at
 * once and on tensor cores. Guard words around outputs catch writes outside; sizes are odd on purpose. */
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

typedef struct linear_case {
  int n_rows, n_in, n_out, transpose, with_bias, accumulate, scaled;
  int coarse; /* x and weights have few bits, which rounding to TF32 keeps */
  mlff_act act;
} linear_case;

static void make_coarse(double *x, int64_t n)
{
  for (int64_t k = 0; k < n; k++) x[k] = round(512.0 * x[k]) / 512.0;
}

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
  if (c->coarse) {
    make_coarse(weight, (int64_t) c->n_out * c->n_in);
    make_coarse(x, c->n_rows * ldx);
  }
  for (int64_t k = 0; k < size; k++)
    if (k / ldy >= c->n_rows || k % ldy >= n_y) y[k] = guard;
  mlff_buf dev_x = reals_to_backend(backend, x, c->n_rows * ldx), dev_y = reals_to_backend(backend, y, size);
  mlff_buf dev_slope = reals_to_backend(backend, y, size), dev_scale = reals_to_backend(backend, scale, size);
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
  double *got_y = reals_from_backend(backend, dev_y.data, size),
         *got_slope = reals_from_backend(backend, dev_slope.data, size);
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

/* All kinds of products in all sizes. */
static void run_all_linear(mlff_backend *backend, int coarse)
{
  static const int sizes[][3] = {{0, 5, 7},    {1, 1, 1},     {2, 3, 17},    {5, 20, 33}, {6, 64, 64},
                                 {7, 65, 127}, {13, 128, 97}, {23, 31, 130}, {70, 9, 65}};
  test_rng rng = {.state = 7};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    for (int variant = 0; variant < 8; variant++) {
      const linear_case c = {.n_rows = sizes[s][0],
                             .n_in = sizes[s][1],
                             .n_out = sizes[s][2],
                             .coarse = coarse,
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
}

START_TEST(linear_matches_plain_loops)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  run_all_linear(backend, 0);
  mlff_backend_close(backend);
}
END_TEST

/* y = x w of one number each. */
static double one_product(mlff_backend *backend, double x, double w)
{
  mlff_error error = {0};
  mlff_linear linear = {0};
  test_ok(backend->ops->linear_pack(backend, &linear, &w, NULL, 1, 1, 0, &error), error);
  mlff_buf dev_x = reals_to_backend(backend, &x, 1), dev_y = reals_to_backend(backend, &x, 1);
  backend->ops->linear(backend, &linear,
                       &(mlff_linear_args){.n_rows = 1, .x = dev_x.data, .ldx = 1, .y = dev_y.data, .ldy = 1});
  double *y = reals_from_backend(backend, dev_y.data, 1);
  const double value = *y;
  mlff_linear_release(backend, &linear);
  mlff_buf_release(backend, &dev_x);
  mlff_buf_release(backend, &dev_y);
  free(y);
  return value;
}

/* Precision mixed, on GPUs: numbers that TF32 can hold are multiplied as in fp32, all others are rounded to it, to the
 * nearest and away from zero, and nothing is lost at the ends. */
START_TEST(linear_on_tensor_cores)
{
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  test_ok(mlff_backend_open("cuda", 0, "mixed", NULL, &backend, &error), error);
  run_all_linear(backend, 1);
  near_one(one_product(backend, 1 + 0x1p-12, 1), 1, 0.0);
  near_one(one_product(backend, 1 + 0x1p-11, 1), 1 + 0x1p-10, 0.0);
  near_one(one_product(backend, -1 - 0x1p-11, 1 + 0x1p-10), -(1 + 0x1p-10) * (1 + 0x1p-10), 0x1p-23);
  near_one(one_product(backend, 1e30, 1) / 1e30, 1, 0x1p-11);
  ck_assert(isinf(one_product(backend, INFINITY, 1)) && isnan(one_product(backend, NAN, 1)));
  mlff_backend_close(backend);
}
END_TEST

/* Products at once, more than go into one launch, with and without rows: the bits of one after another. */
START_TEST(many_products_are_as_one_by_one)
{
  enum { N = 37, LD = 80 };
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  mlff_error error = {0};
  test_rng rng = {.state = 3};
  mlff_linear linears[N] = {{0}};
  const mlff_linear *pointers[N];
  mlff_linear_args args[N];
  mlff_buf x[N], y[N][2];
  for (int k = 0; k < N; k++) {
    const int n_in = 1 + test_below(&rng, LD), n_out = 1 + test_below(&rng, LD),
              n_rows = k % 5 ? test_below(&rng, 70) : 0;
    const int64_t size = (int64_t) (n_rows + 1) * LD;
    double *weight = random_array(&rng, (int64_t) n_in * n_out), *values = random_array(&rng, size);
    test_ok(backend->ops->linear_pack(backend, &linears[k], weight, NULL, n_out, n_in, 0, &error), error);
    x[k] = reals_to_backend(backend, values, size);
    for (int way = 0; way < 2; way++) y[k][way] = reals_to_backend(backend, values, size);
    pointers[k] = &linears[k];
    args[k] = (mlff_linear_args){.n_rows = n_rows,
                                 .x = x[k].data,
                                 .ldx = LD,
                                 .y = y[k][0].data,
                                 .ldy = LD,
                                 .act = k % 2 ? MLFF_ACT_CELU : MLFF_ACT_NONE,
                                 .alpha = 0.1,
                                 .accumulate = k % 3 == 0};
    free(weight);
    free(values);
  }
  backend->ops->linear_many(backend, N, pointers, args);
  for (int k = 0; k < N; k++) {
    args[k].y = y[k][1].data;
    backend->ops->linear(backend, &linears[k], &args[k]);
    const int64_t size = (args[k].n_rows + 1) * LD;
    double *many = reals_from_backend(backend, y[k][0].data, size),
           *one = reals_from_backend(backend, y[k][1].data, size);
    near_all(many, one, size, 0.0, 0.0);
    free(many);
    free(one);
    mlff_linear_release(backend, &linears[k]);
    mlff_buf_release(backend, &x[k]);
    for (int way = 0; way < 2; way++) mlff_buf_release(backend, &y[k][way]);
  }
  ck_assert_uint_eq(backend->memory.bytes, 0);
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
  mlff_buf dev_x = reals_to_backend(backend, x, 6), dev_y = reals_to_backend(backend, x, 6),
           dev_slope = reals_to_backend(backend, x, 6);
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
    double *y = reals_from_backend(backend, dev_y.data, 6), *slope = reals_from_backend(backend, dev_slope.data, 6);
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

static Suite *make_suite(void)
{
  Suite *suite = suite_create("linear");
  TCase *tcase = tcase_create("all");
  tcase_add_loop_test(tcase, linear_matches_plain_loops, 0, n_backends());
  tcase_add_loop_test(tcase, activations_have_limits, 0, n_backends());
  tcase_add_loop_test(tcase, linear_on_tensor_cores, 0, n_backends() > N_CPU_BACKENDS);
  tcase_add_loop_test(tcase, many_products_are_as_one_by_one, N_CPU_BACKENDS, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
