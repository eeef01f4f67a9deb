/* test_linear.c: GEMMs on every backend and kernel path against plain loops in double. In bf16: portable code and the
 * instructions, emulated where the processor lacks them. On GPUs also batched and on tensor cores. Guard words around
 * outputs detect writes out of bounds. Sizes are odd on purpose. */
#include "backends.h"
#include "emulate.h"
#include "mixed.h"

#include "backend/cpu/backend_cpu.h"
#include "backend/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *random_array(test_rng *rng, int64_t n)
{
  double *x = malloc((size_t) (n + 1) * sizeof *x);
  for (int64_t k = 0; k < n; k++) x[k] = test_uniform(rng, -1.0, 1.0);
  return x;
}

static double *copy_of(const double *x, int64_t n)
{
  double *y = malloc((size_t) (n + 1) * sizeof *y);
  return memcpy(y, x, (size_t) n * sizeof *x);
}

typedef struct linear_case {
  int n_rows, n_in, n_out, transpose, with_bias, accumulate, scaled;
  int in_vectors; /* rows begin at multiples of four numbers */
  double coarse;  /* 0, or x and weights are multiples of 1 / coarse, which rounding in precision mixed keeps */
  double rounded; /* else relative error of a product that it may cost */
  mlff_act act;
} linear_case;

static void make_coarse(double coarse, double *x, int64_t n)
{
  for (int64_t k = 0; k < n; k++) x[k] = round(coarse * x[k]) / coarse;
}

/* Bytes that stay when all arrays of a test are released. */
static size_t bytes_kept(const mlff_backend *backend)
{
  const int rounds = !strcmp(backend->name, "cpu") && !strcmp(backend->precision, "mixed");
  return rounds ? ((const mlff_cpu_backend *) backend)->rounded.capacity : 0;
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

typedef struct plain_arrays {
  const double *weight, *bias, *x, *y, *scale; /* rows of x are ldx apart, of the others ldy */
  int64_t ldx, ldy;
  double alpha;
} plain_arrays;

static void plain_linear(const linear_case *c, const plain_arrays *p, double *y, double *slopes)
{
  const int n_x = c->transpose ? c->n_out : c->n_in, n_y = c->transpose ? c->n_in : c->n_out;
  for (int r = 0; r < c->n_rows; r++) {
    for (int o = 0; o < n_y; o++) {
      double sum = c->with_bias ? p->bias[o] : 0.0, slope = 0.0;
      for (int k = 0; k < n_x; k++)
        sum += p->x[r * p->ldx + k] * p->weight[c->transpose ? k * c->n_in + o : o * c->n_in + k];
      const double scale = p->scale[r * p->ldy + o];
      if (c->scaled)
        sum *= !c->act ? scale : scale < 0 ? 1 + scale / p->alpha : 1; /* the slope of CELU where its value is that */
      else
        sum = act_value(c->act, p->alpha, sum, &slope);
      y[r * p->ldy + o] = (c->accumulate ? p->y[r * p->ldy + o] : 0.0) + sum;
      if (c->act && !c->scaled) slopes[r * p->ldy + o] = slope;
    }
  }
}

static void run_linear(mlff_backend *backend, const linear_case *c, test_rng *rng)
{
  const double alpha = 0.1, guard = 77.25;
  const int n_x = c->transpose ? c->n_out : c->n_in, n_y = c->transpose ? c->n_in : c->n_out;
  const int64_t ldx = n_x + (c->in_vectors ? 4 : 5), n_guards = c->in_vectors ? 4 : 3, ldy = n_y + n_guards;
  const int64_t size = c->n_rows * ldy + n_guards;
  double *weight = random_array(rng, (int64_t) c->n_out * c->n_in), *bias = random_array(rng, n_y);
  double *x = random_array(rng, c->n_rows * ldx), *y = random_array(rng, size), *scale = random_array(rng, size);
  if (c->coarse > 0) {
    make_coarse(c->coarse, weight, (int64_t) c->n_out * c->n_in);
    make_coarse(c->coarse, x, c->n_rows * ldx);
  }
  for (int64_t k = 0; k < size; k++) {
    if (k / ldy >= c->n_rows || k % ldy >= n_y) y[k] = guard;
    if (c->act && scale[k] < 0) scale[k] *= alpha; /* a value of CELU */
  }
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
                                 .slope = c->act && !c->scaled ? dev_slope.data : NULL,
                                 .ld_slope = ldy,
                                 .scale = c->scaled ? dev_scale.data : NULL,
                                 .ld_scale = ldy};
  backend->ops->linear(backend, &linear, &args);

  double *ref_y = copy_of(y, size), *ref_slope = copy_of(y, size);
  const plain_arrays plain = {weight, bias, x, y, scale, ldx, ldy, alpha};
  plain_linear(c, &plain, ref_y, ref_slope);
  double *got_y = reals_from_backend(backend, dev_y.data, size),
         *got_slope = reals_from_backend(backend, dev_slope.data, size);
  /* numbers are below 1, so a sum of n_x products is below n_x */
  const double tolerance = 8.0 * rounding(backend) * (4.0 + n_x) + c->rounded * n_x;
  near_all(got_y, ref_y, size, tolerance, 0.0);
  near_all(got_slope, ref_slope, size, (c->act == MLFF_ACT_CELU ? 10.0 : 1.0) * tolerance, 0.0);
  for (int64_t k = 0; k < size; k++)
    if (k / ldy >= c->n_rows || k % ldy >= n_y) ck_assert_double_eq(got_y[k], guard);

  mlff_linear_release(backend, &linear);
  mlff_buf_release(backend, &dev_x);
  mlff_buf_release(backend, &dev_y);
  mlff_buf_release(backend, &dev_slope);
  mlff_buf_release(backend, &dev_scale);
  ck_assert_uint_eq(backend->memory.bytes, bytes_kept(backend));
  double *owned[] = {weight, bias, x, y, scale, ref_y, ref_slope, got_y, got_slope};
  for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++) free(owned[k]);
}

/* All kinds of products in all sizes. */
static void run_all_linear(mlff_backend *backend, double coarse, double rounded)
{
  static const int sizes[][3] = {{0, 5, 7},    {1, 1, 1},     {2, 3, 17},    {5, 20, 33}, {6, 64, 64},
                                 {7, 65, 127}, {13, 128, 97}, {23, 31, 130}, {70, 9, 65}, {130, 70, 150}};
  test_rng rng = {.state = 7};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    for (int variant = 0; variant < 9; variant++) {
      const linear_case c = {.n_rows = sizes[s][0],
                             .n_in = sizes[s][1],
                             .n_out = sizes[s][2],
                             .coarse = coarse,
                             .rounded = rounded,
                             .transpose = variant >= 6,
                             .with_bias = variant < 6 && variant != 1,
                             .accumulate = variant == 2 || variant == 7,
                             .scaled = variant == 3 || variant >= 6,
                             .act = variant == 4                   ? MLFF_ACT_SILU
                                    : variant == 5 || variant == 8 ? MLFF_ACT_CELU
                                                                   : MLFF_ACT_NONE};
      run_linear(backend, &c, &rng);
    }
  }
}

START_TEST(linear_matches_plain_loops)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  run_all_linear(backend, 0, 0);
  mlff_backend_close(backend);
}
END_TEST

/* 4096 times 0.7 in every output: one sum in float, which grows to 2867, is off by 4e-5 of it; of parts of 64,
 * by 1e-6. */
START_TEST(long_sums_keep_their_digits)
{
  enum { ROWS = 7, IN = 4096, OUT = 70 };
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  mlff_error error = {0};
  mlff_linear linear = {0};
  double *weight = malloc(IN * OUT * sizeof *weight), *x = malloc(ROWS * IN * sizeof *x);
  for (int k = 0; k < IN * OUT; k++) weight[k] = (double) 0.7F;
  for (int k = 0; k < ROWS * IN; k++) x[k] = 1.0;
  test_ok(backend->ops->linear_pack(backend, &linear, weight, NULL, OUT, IN, 0, &error), error);
  mlff_buf dev_x = reals_to_backend(backend, x, ROWS * IN), dev_y = reals_to_backend(backend, x, ROWS * OUT);
  backend->ops->linear(backend, &linear,
                       &(mlff_linear_args){.n_rows = ROWS, .x = dev_x.data, .ldx = IN, .y = dev_y.data, .ldy = OUT});
  double *y = reals_from_backend(backend, dev_y.data, ROWS * OUT);
  for (int k = 0; k < ROWS * OUT; k++) near_one(y[k], IN * (double) 0.7F, 2e-6 * IN);
  mlff_linear_release(backend, &linear);
  mlff_buf_release(backend, &dev_x);
  mlff_buf_release(backend, &dev_y);
  free(weight);
  free(x);
  free(y);
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

/* Precision mixed, on GPUs: numbers that a half can hold are multiplied as in fp32; of all others 22 bits are left,
 * being the sum of two, and of their products all but that of the rests; of small ones what is above 2^-36. What no
 * half can hold is not finite, never another number. */
START_TEST(linear_on_tensor_cores)
{
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  test_ok(mlff_backend_open("cuda", 0, "mixed", NULL, &backend, &error), error);
  run_all_linear(backend, 512, 0);
  run_all_linear(backend, 0, 3.1 * 0x1p-22);
  near_one(one_product(backend, 1 + 0x1p-20, 1), 1 + 0x1p-20, 0.0);
  near_one(one_product(backend, 1, 1 - 0x1p-20), 1 - 0x1p-20, 0.0);
  near_one(one_product(backend, 1 + 0x1p-11, 1 + 0x1p-13), 1 + 0x1p-11 + 0x1p-13, 0x1p-22);
  near_one(one_product(backend, 1 + 0x1p-12, 1 + 0x1p-12), 1 + 0x1p-11, 0.0); /* without 2^-24 */
  near_one(one_product(backend, 1.2345e-7, 1), 1.2345e-7, 0x1p-36);
  near_one(one_product(backend, -65503.2, 1) / 65503.2, -1, 0x1p-22);
  const double lost[] = {65520, -65520, 1e30, INFINITY, NAN};
  for (size_t k = 0; k < sizeof lost / sizeof lost[0]; k++)
    ck_assert(!isfinite(one_product(backend, lost[k], 1)) && !isfinite(one_product(backend, 1, lost[k])));
  ck_assert(isnan(one_product(backend, NAN, 1)));
  mlff_backend_close(backend);
}
END_TEST

/* On GPUs, so many rows that tiles are the largest, with rows and columns behind the last whole one. */
START_TEST(tiles_of_a_full_gpu)
{
#if MLFF_CUDASIM
  enum { N_ROWS = 250 };
#else
  enum { N_ROWS = 67500 };
#endif
  static const char *const precisions[] = {"mixed", "fp32", "fp64"};
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  test_rng rng = {.state = 11};
  test_ok(mlff_backend_open("cuda", 0, precisions[_i], NULL, &backend, &error), error);
  for (int variant = 0; variant < 7; variant++) {
    const int kind = variant / 2, width = kind == 3 ? 320 : 256 - 56 * (variant % 2);
    const linear_case c = {.n_rows = kind == 3 ? 128 : N_ROWS, /* op_linear_of_three: as many blocks of 128 columns */
                           .n_in = kind == 2 ? width : 40,     /* transposed */
                           .n_out = kind != 2          ? width
                                    : variant % 2 == 0 ? 128
                                                       : 40,
                           .in_vectors = kind != 1,
                           .rounded = _i == 0 ? 3.1 * 0x1p-22 : 0,
                           .transpose = kind == 2,
                           .with_bias = kind == 0,
                           .accumulate = kind == 2,
                           .scaled = kind == 2,
                           .act = kind == 0 ? MLFF_ACT_SILU : MLFF_ACT_NONE};
    run_linear(backend, &c, &rng);
  }
  mlff_backend_close(backend);
}
END_TEST

#if MLFF_CUDASIM
/* Precision mixed of GPUs: rows have the same bits among many as among few, whose tiles are others. What a real device
 * makes of that is for it to say: its instructions for large tiles are others. */
START_TEST(tiles_agree)
{
  enum { ROWS = 250, FEW = 20, IN = 200, OUT = 256 };
  mlff_error error = {0};
  mlff_linear linear = {0};
  mlff_backend *backend = NULL;
  test_rng rng = {.state = 13};
  double bias[OUT], *weight = malloc(IN * OUT * sizeof *weight), *x = malloc(ROWS * OUT * sizeof *x);
  for (int k = 0; k < OUT; k++) bias[k] = test_uniform(&rng, -1, 1);
  for (int k = 0; k < IN * OUT; k++) weight[k] = test_uniform(&rng, -1, 1);
  for (int k = 0; k < ROWS * OUT; k++) x[k] = test_uniform(&rng, -1, 1);
  test_ok(mlff_backend_open("cuda", 0, "mixed", NULL, &backend, &error), error);
  test_ok(backend->ops->linear_pack(backend, &linear, weight, bias, OUT, IN, 0, &error), error);
  mlff_buf dev_x = reals_to_backend(backend, x, ROWS * IN), many = reals_to_backend(backend, x, ROWS * OUT),
           few = reals_to_backend(backend, x, FEW * OUT);
  mlff_linear_args args = {.n_rows = ROWS, .x = dev_x.data, .ldx = IN, .y = many.data, .ldy = OUT};
  backend->ops->linear(backend, &linear, &args);
  args.n_rows = FEW;
  args.y = few.data;
  backend->ops->linear(backend, &linear, &args);
  double *y = reals_from_backend(backend, many.data, FEW * OUT), *z = reals_from_backend(backend, few.data, FEW * OUT);
  ck_assert_int_eq(memcmp(y, z, FEW * OUT * sizeof *y), 0);
  double *owned[] = {weight, x, y, z};
  for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++) free(owned[k]);
  mlff_linear_release(backend, &linear);
  mlff_buf_release(backend, &dev_x);
  mlff_buf_release(backend, &many);
  mlff_buf_release(backend, &few);
  mlff_backend_close(backend);
}
END_TEST
#endif

/* ---- bf16 on the CPU --------------------------------------------------------------------------------------------- */

enum {
  N_MIXED = 2 * N_MIXED_PATHS,
  N_PORTABLE = 2 * N_PORTABLE_PATHS
}; /* each with one bf16 for a number and with two */

/* Instructions that the processor lacks are emulated; NULL, and a visible skip, where that is not possible. */
static mlff_backend *open_mixed(int which)
{
  const char *path = mixed_path_names[which / 2];
  const int is_here = mlff_cpu_has_kernels(path);
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  mlff_ops found;
  if (!is_here && !(mlff_cpu_fill_mixed(&found, path) && emulate_bf16())) {
    test_skip("kernel path %s is not available here", path);
    return NULL;
  }
  test_ok(mlff_backend_open("cpu", 0, "mixed", is_here ? path : mlff_cpu_common_kernels(path), &backend, &error),
          error);
  if (is_here)
    ck_assert_str_eq(backend->kernels, path);
  else
    ck_assert_int_eq(mlff_cpu_fill_mixed(&((mlff_cpu_backend *) backend)->ops, path), 1);
  ck_assert_int_eq(backend->splits, 1);
  backend->splits = which % 2;
  return backend;
}

/* Numbers that bf16 can hold are multiplied as in fp32. All others are rounded, to 8 bits (each of both by at most 2^-8
 * of it), or to 16 in two parts, of whose products the smallest is left out: 2^-16 of it three times. */
START_TEST(linear_in_bf16)
{
  mlff_backend *backend = open_mixed(_i);
  if (!backend) return;
  run_all_linear(backend, 128, 0);
  run_all_linear(backend, 0, backend->splits ? 3.1 * 0x1p-16 : 2.1 * 0x1p-8);
  mlff_backend_close(backend);
}
END_TEST

START_TEST(rounding_to_bf16)
{
  mlff_backend *backend = open_mixed(_i);
  if (!backend) return;
  const double x[] = {1 + 0x1.8p-9,
                      1 + 0x1p-8,
                      1 + 0x1.8p-8,
                      -1 - 0x1.01p-8,
                      1 + 3 * 0x1p-8,
                      -1 - 3 * 0x1p-8,
                      0x1p-126,
                      0x1.fffep-127,
                      1 + 0x1p-14,
                      3e38,
                      0};
  const double high[] = {1, 1, 1 + 0x1p-7, -1 - 0x1p-7, 1 + 0x1p-6, -1 - 0x1p-6, 0x1p-126, 0, 1, 3e38, 0};
  for (size_t k = 0; k < sizeof x / sizeof *x; k++) {
    /* weights and rows are rounded by other code */
    const double relative = x[k] > 1e38 ? 0x1p-8 : 0, wanted = backend->splits && k != 7 ? x[k] : high[k];
    near_one(one_product(backend, x[k], 1), wanted, relative * x[k]);
    near_one(one_product(backend, 1, x[k]), wanted, relative * x[k]);
  }
  near_one(one_product(backend, 1 + 0x1.01p-8, 1 + 0x1.01p-8), 1 + (backend->splits ? 0x1.02p-7 : 0x1p-6 + 0x1p-14),
           0x1p-15);
  ck_assert(isnan(one_product(backend, NAN, 1)) && isnan(one_product(backend, 1, NAN)));
  ck_assert(!isfinite(one_product(backend, INFINITY, 1)) && !isfinite(one_product(backend, -INFINITY, 1)));
  mlff_backend_close(backend);
}
END_TEST

/* The result of a row does not depend on other rows or on block boundaries, so that ranks may split the rows. */
START_TEST(rows_in_bf16_are_on_their_own)
{
  enum { ROWS = 500, IN = 301, OUT = 50 };
  mlff_backend *backend = open_mixed(_i);
  if (!backend) return;
  mlff_error error = {0};
  mlff_linear linear = {0};
  test_rng rng = {.state = 5};
  double *weight = random_array(&rng, IN * OUT), *x = random_array(&rng, ROWS * IN);
  test_ok(backend->ops->linear_pack(backend, &linear, weight, NULL, OUT, IN, 0, &error), error);
  mlff_buf dev_x = reals_to_backend(backend, x, ROWS * IN), y[2];
  for (int k = 0; k < 2; k++) y[k] = reals_to_backend(backend, x, ROWS * OUT);
  mlff_linear_args args = {.n_rows = ROWS, .x = dev_x.data, .ldx = IN, .y = y[0].data, .ldy = OUT};
  backend->ops->linear(backend, &linear, &args);
  for (int64_t row = 0, n = 1; row < ROWS; row += n, n = n % 41 + 5) {
    args.n_rows = ROWS - row < n ? ROWS - row : n;
    args.x = mlff_at(backend, dev_x.data, row * IN);
    args.y = mlff_at(backend, y[1].data, row * OUT);
    backend->ops->linear(backend, &linear, &args);
  }
  ck_assert_int_eq(memcmp(y[0].data, y[1].data, ROWS * OUT * sizeof(float)), 0);
  mlff_linear_release(backend, &linear);
  mlff_buf_release(backend, &dev_x);
  for (int k = 0; k < 2; k++) mlff_buf_release(backend, &y[k]);
  free(weight);
  free(x);
  mlff_backend_close(backend);
}
END_TEST

/* One bf16 for a number takes half of the memory of floats, two take the same. */
START_TEST(bf16_takes_half_of_the_memory)
{
  mlff_backend *backend = open_mixed(_i);
  if (!backend) return;
  mlff_error error = {0};
  mlff_linear linear = {0};
  test_rng rng = {.state = 5};
  double *weight = random_array(&rng, 256 * 256);
  test_ok(backend->ops->linear_pack(backend, &linear, weight, NULL, 256, 256, 0, &error), error);
  ck_assert_uint_eq(linear.packed.capacity, 256 * 256 * (backend->splits ? 4 : 2));
  ck_assert_uint_eq(backend->memory.bytes, linear.packed.capacity + linear.bias.capacity + bytes_kept(backend));
  mlff_linear_release(backend, &linear);
  free(weight);
  mlff_backend_close(backend);
}
END_TEST

/* Each path and its twin give the same bits: they add in the same order. Elsewhere sums may be rounded otherwise, so
 * this is for emulated instructions. */
START_TEST(instructions_and_twins_have_the_same_bits)
{
  enum { ROWS = 45, IN = 83, OUT = 77 };
  mlff_backend *backend = open_mixed(_i);
  if (!backend) return;
  const char *path = mixed_path_names[_i / 2];
  mlff_ops twin;
  mlff_error error = {0};
  test_rng rng = {.state = 9};
  double *weight = random_array(&rng, IN * OUT), *x = random_array(&rng, ROWS * IN);
  ck_assert(mlff_cpu_fill_mixed(&twin, !strcmp(path, "amx") ? "generic" : "avx512"));
  mlff_buf dev_x = reals_to_backend(backend, x, ROWS * IN), y[2];
  const mlff_ops *const both[2] = {backend->ops, &twin};
  for (int k = 0; k < 2; k++) {
    mlff_linear linear = {0};
    y[k] = reals_to_backend(backend, x, ROWS * OUT);
    test_ok(both[k]->linear_pack(backend, &linear, weight, NULL, OUT, IN, 0, &error), error);
    both[k]->linear(backend, &linear,
                    &(mlff_linear_args){.n_rows = ROWS, .x = dev_x.data, .ldx = IN, .y = y[k].data, .ldy = OUT});
    mlff_linear_release(backend, &linear);
  }
  ck_assert_int_eq(memcmp(y[0].data, y[1].data, ROWS * OUT * sizeof(float)), 0);
  test_ok(mlff_cpu_compare_products(backend, &twin, &error), error);
  mlff_buf_release(backend, &dev_x);
  for (int k = 0; k < 2; k++) mlff_buf_release(backend, &y[k]);
  free(weight);
  free(x);
  mlff_backend_close(backend);
}
END_TEST

static const mlff_ops *right_ops;

static void linear_off_by_one(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  right_ops->linear(backend, linear, args);
  ((float *) args->y)[args->ldy * (args->n_rows - 1) + linear->n_out - 1] += 1.0F;
}

static void linear_off_by_rounding(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  right_ops->linear(backend, linear, args);
  ((float *) args->y)[0] += (float) linear->n_in * 0x1p-17F * ((float *) args->y)[0];
}

/* Backends with instructions compare them with their twins when they are opened: wrong products are an error, in one
 * place and by little. */
START_TEST(wrong_instructions_are_found)
{
  mlff_error error = {0};
  mlff_backend *backend = open_mixed(1);
  const mlff_ops *own = backend->ops;
  mlff_ops other;
  right_ops = own;
  for (int path = 0; path < 3; path++) {
    if (!mlff_cpu_fill_mixed(&other, mixed_path_names[path]) || !mlff_cpu_has_kernels(mixed_path_names[path])) continue;
    test_ok(mlff_cpu_compare_products(backend, &other, &error), error);
    ck_assert_int_eq(backend->splits, 1);
  }
  void (*const wrong[])(mlff_backend *, const mlff_linear *, const mlff_linear_args *) = {linear_off_by_one,
                                                                                          linear_off_by_rounding};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    mlff_ops broken = *own;
    broken.linear = wrong[k];
    backend->ops = &broken;
    test_fails(mlff_cpu_compare_products(backend, own, &error), error, MLFF_E_NUMERIC, "use precision fp32");
  }
  backend->ops = own;
  mlff_backend_close(backend);
}
END_TEST

/* Products at once, more than go into one launch, with and without rows: the bits of one after another, on GPUs with
 * `mixed`, too. On a real GPU they are other kernels, which may round otherwise. */
START_TEST(many_products_are_as_one_by_one)
{
  enum { N = 37, LD = 280 };
  const int is_mixed = _i == n_backends();
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  if (is_mixed)
    test_ok(mlff_backend_open("cuda", 0, "mixed", NULL, &backend, &error), error);
  else
    backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {.state = 3};
  mlff_linear linears[N] = {{0}};
  const mlff_linear *pointers[N];
  mlff_linear_args args[N];
  mlff_buf x[N], y[N][2];
  for (int k = 0; k < N; k++) {
    const int most = k % 4 ? 80 : LD, n_in = 1 + test_below(&rng, most), n_out = 1 + test_below(&rng, most),
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
    near_all(many, one, size, _i < N_CPU_BACKENDS || kernels_round_alike() ? 0.0 : LD * rounding(backend), 0.0);
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
  tcase_add_loop_test(tcase, long_sums_keep_their_digits, 0, N_CPU_BACKENDS);
  tcase_add_loop_test(tcase, activations_have_limits, 0, n_backends());
  if (N_CPU_BACKENDS) {
    tcase_add_loop_test(tcase, linear_in_bf16, 0, N_MIXED);
    tcase_add_loop_test(tcase, rounding_to_bf16, 0, N_MIXED);
    const int n_own =
        mlff_cpu_has_kernels("amx") ? N_MIXED : N_PORTABLE; /* emulation would take long for what are loops */
    tcase_add_loop_test(tcase, rows_in_bf16_are_on_their_own, 0, n_own);
    tcase_add_loop_test(tcase, bf16_takes_half_of_the_memory, 0, N_MIXED);
    if (!mlff_cpu_has_kernels("avx512_bf16"))
      tcase_add_loop_test(tcase, instructions_and_twins_have_the_same_bits, N_PORTABLE, N_MIXED);
    tcase_add_test(tcase, wrong_instructions_are_found);
  }
  tcase_add_loop_test(tcase, linear_on_tensor_cores, 0, n_backends() > N_CPU_BACKENDS);
  tcase_add_loop_test(tcase, tiles_of_a_full_gpu, 0, n_backends() > N_CPU_BACKENDS ? 3 : 0);
#if MLFF_CUDASIM
  tcase_add_test(tcase, tiles_agree);
#endif
  tcase_add_loop_test(tcase, many_products_are_as_one_by_one, 0, n_backends() + (n_backends() > N_CPU_BACKENDS));
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
