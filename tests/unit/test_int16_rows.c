/* test_int16_rows.c: rows of features as 16-bit integers: how far they are off, and what is not finite. */
#include "pair_mlff/exchange/int16_rows.h"

#include "support.h"

#include <check.h>
#include <stdlib.h>

enum { MOST = 400 };

/* There and back, with guards behind both buffers. */
static void round_trip(const float *from, size_t n, float *to)
{
  const size_t bytes = mlff_int16_bytes(n);
  char *packed = malloc(bytes + 1);
  ck_assert_ptr_nonnull(packed);
  packed[bytes] = 77;
  to[n] = 123.0f;
  mlff_int16_pack(from, n, packed);
  mlff_int16_unpack(packed, n, to);
  ck_assert_int_eq(packed[bytes], 77);
  ck_assert(to[n] == 123.0f);
  free(packed);
}

/* Of any length and magnitude: within half a unit of the largest of the block, which itself comes back. */
START_TEST(error_is_bounded)
{
  static const size_t lengths[] = {0, 1, 3, 63, 64, 65, 128, 384, 399};
  static const float magnitudes[] = {1e-30f, 1e-4f, 1.0f, 3e5f, 1e37f};
  float from[MOST] = {0}, to[MOST + 1] = {0};
  const size_t n = lengths[_i];
  test_rng rng = {5};
  for (size_t g = 0; g < sizeof magnitudes / sizeof *magnitudes; g++) {
    for (size_t k = 0; k < n; k++)
      from[k] = magnitudes[g] * (float) (k / MLFF_INT16_BLOCK + 1) * (float) test_uniform(&rng, -1, 1);
    round_trip(from, n, to);
    for (size_t first = 0; first < n; first += MLFF_INT16_BLOCK) {
      const size_t end = first + MLFF_INT16_BLOCK < n ? first + MLFF_INT16_BLOCK : n;
      double most = 0, worst = 0;
      for (size_t k = first; k < end; k++) most = fmax(most, fabs((double) from[k]));
      for (size_t k = first; k < end; k++) worst = fmax(worst, fabs((double) to[k] - (double) from[k]));
      ck_assert_msg(worst <= most * (1.0 / 65534 + 3e-7), "%zu numbers: %g of %g", n, worst, most);
      if (end - first > 8) ck_assert_msg(worst > most * 1e-7, "half of the bytes cannot hold all digits");
    }
  }
}
END_TEST

/* Half of the bytes but for a scale for 64 numbers. */
START_TEST(bytes)
{
  ck_assert_uint_eq(mlff_int16_bytes(0), 0);
  ck_assert_uint_eq(mlff_int16_bytes(1), 6);
  ck_assert_uint_eq(mlff_int16_bytes(64), 132);
  ck_assert_uint_eq(mlff_int16_bytes(384), 792);
}
END_TEST

START_TEST(special_values)
{
  float from[130] = {0}, to[131];
  round_trip(from, 130, to);
  for (int k = 0; k < 130; k++) ck_assert(to[k] == 0.0f);
  from[3] = -2.0f;
  from[4] = 1e-9f;
  from[70] = NAN;
  from[129] = -INFINITY;
  round_trip(from, 130, to);
  ck_assert(to[3] == -2.0f && to[4] == 0.0f && to[63] == 0.0f);
  for (int k = 64; k < 130; k++) ck_assert_msg(isnan(to[k]), "number %d of a block that is not finite", k);
  from[3] = FLT_MAX;
  from[4] = -FLT_MAX;
  from[5] = 1e-45f;
  round_trip(from, 64, to);
  ck_assert(isfinite(to[3]) && to[3] > 0.9999f * FLT_MAX && to[4] == -to[3] && to[5] == 0.0f);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("int16_rows");
  TCase *t = tcase_create("int16_rows");
  tcase_add_loop_test(t, error_is_bounded, 0, 9);
  tcase_add_test(t, bytes);
  tcase_add_test(t, special_values);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
