/* mixed_check.c: checks the bf16 instructions of this processor. */
#include "backend.h"
#include "kernels.h"
#include "ops.h"

#include <math.h>

/* Odd sizes, so that all kinds of tiles are used. */
enum { N_ROWS = 41, N_IN = 71, N_OUT = 73 };

typedef struct product {
  double weight[N_OUT * N_IN], bias[N_OUT];
  float x[N_ROWS * N_IN];
} product;

/* Integers from -16 to 16, whose sums are exact in any order; or values in [-1, 1], which are rounded. */
static double next_number(uint64_t *state, int whole)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  const double u = (double) (*state >> 11) * 0x1p-53;
  return whole ? floor(33.0 * u) - 16.0 : 2.0 * u - 1.0;
}

static product make_product(int whole)
{
  product p;
  uint64_t state = 1;
  for (int k = 0; k < N_OUT * N_IN; k++) p.weight[k] = next_number(&state, whole);
  for (int k = 0; k < N_OUT; k++) p.bias[k] = next_number(&state, whole);
  for (int k = 0; k < N_ROWS * N_IN; k++) p.x[k] = (float) next_number(&state, whole);
  return p;
}

static mlff_status compute(mlff_backend *backend, const mlff_ops *ops, const product *p, float *y, mlff_error *error)
{
  mlff_linear linear = {0};
  const mlff_linear_args args = {.n_rows = N_ROWS, .x = p->x, .ldx = N_IN, .y = y, .ldy = N_OUT};
  const mlff_status status = ops->linear_pack(backend, &linear, p->weight, p->bias, N_OUT, N_IN, 0, error);
  if (!status) ops->linear(backend, &linear, &args);
  mlff_linear_release(backend, &linear);
  return status;
}

/* Tolerance for another order of sums: N_IN times the rounding error of a sum of that size. */
static mlff_status compare(mlff_backend *backend, const mlff_ops *right, int whole, mlff_error *error)
{
  const product p = make_product(whole);
  const double tolerance = whole ? 0.0 : N_IN * 0x1p-24 * N_IN;
  float y[N_ROWS * N_OUT] = {0}, wanted[N_ROWS * N_OUT] = {0};
  MLFF_TRY(compute(backend, backend->ops, &p, y, error));
  MLFF_TRY(compute(backend, right, &p, wanted, error));
  for (int k = 0; k < N_ROWS * N_OUT; k++)
    if (!(fabs((double) y[k] - (double) wanted[k]) <= tolerance))
      return mlff_fail(error, MLFF_E_NUMERIC,
                       "kernels '%s': the check of their instructions failed (%.9g instead of %.9g in row %d, column "
                       "%d); use precision fp32 on this processor, and please report it",
                       backend->kernels, (double) y[k], (double) wanted[k], k / N_OUT, k % N_OUT);
  return MLFF_OK;
}

mlff_status mlff_cpu_compare_products(mlff_backend *backend, const mlff_ops *right, mlff_error *error)
{
  const int splits = backend->splits;
  mlff_status status = MLFF_OK;
  for (int k = 0; !status && k < 4; k++) {
    backend->splits = k / 2;
    status = compare(backend, right, k % 2, error);
  }
  backend->splits = splits;
  return status;
}
