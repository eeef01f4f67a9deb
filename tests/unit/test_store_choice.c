/* test_store_choice.c: chooses how rows for another core are stored, by measured cost. */
#include "pair_mlff/exchange/store_choice.h"

#include "support.h"

#include <check.h>

static const size_t BYTES = 240000;
static const double FAST = 12e-6, SLOW = 130e-6; /* as measured for so many bytes */

START_TEST(stays_while_fast)
{
  mlff_store_choice choice = {0};
  for (int k = 0; k < 10; k++) {
    ck_assert_int_eq(mlff_store_past_caches(&choice), 0);
    mlff_store_took(&choice, FAST, BYTES);
  }
}
END_TEST

/* Slow stores: past the caches, however long that takes, until the usual way is tried again; ever more seldom while it
 * stays slow. */
START_TEST(tries_again)
{
  static const int patience[] = {8, 16, 32, 64, 128, 256, 512, 512, 512};
  mlff_store_choice choice = {0};
  for (int start = 0; start < 2; start++) {
    for (size_t again = 0; again < sizeof patience / sizeof *patience; again++) {
      ck_assert_int_eq(mlff_store_past_caches(&choice), 0);
      mlff_store_took(&choice, SLOW, BYTES);
      for (int k = 0; k < patience[again]; k++) {
        ck_assert_int_eq(mlff_store_past_caches(&choice), 1);
        mlff_store_took(&choice, k % 2 ? FAST : SLOW, BYTES);
      }
    }
    ck_assert_int_eq(mlff_store_past_caches(&choice), 0);
    mlff_store_took(&choice, FAST, BYTES);
  }
  ck_assert_int_eq(mlff_store_past_caches(&choice), 0);
}
END_TEST

START_TEST(nothing_to_store)
{
  mlff_store_choice choice = {0};
  mlff_store_took(&choice, 0.0, 0);
  ck_assert_int_eq(mlff_store_past_caches(&choice), 0);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("store_choice");
  TCase *t = tcase_create("store_choice");
  tcase_add_test(t, stays_while_fast);
  tcase_add_test(t, tries_again);
  tcase_add_test(t, nothing_to_store);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
