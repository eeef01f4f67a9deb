/* test_pages.c: memory in few regions: blocks are aligned, never overlap, keep what is in them, and all of it goes
 * back. */
#include "backend/pages.h"

#include "support.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_BLOCKS = 64 };

typedef struct owned {
  unsigned char *data;
  size_t bytes;
  unsigned char mark;
} owned;

static unsigned next_number(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned) (*state >> 33);
}

static void check_marks(const owned *o)
{
  size_t n_changed = 0;
  for (size_t k = 0; k < o->bytes; k++) n_changed += o->data[k] != o->mark;
  ck_assert_msg(!n_changed, "%zu of %zu bytes changed", n_changed, o->bytes);
}

START_TEST(blocks_do_not_touch_each_other)
{
  mlff_pages pages = {0};
  owned blocks[N_BLOCKS] = {0};
  uint64_t state = 4711;
  for (int step = 0; step < 3000; step++) {
    owned *o = &blocks[next_number(&state) % N_BLOCKS];
    if (o->data) {
      check_marks(o);
      mlff_pages_release(&pages, o->data);
      *o = (owned){0};
      continue;
    }
    const unsigned scale = next_number(&state) % 22; /* up to 4 MB, beyond a huge page */
    *o = (owned){.bytes = 1 + next_number(&state) % (1u << scale), .mark = (unsigned char) step};
    o->data = mlff_pages_alloc(&pages, o->bytes);
    ck_assert_ptr_nonnull(o->data);
    ck_assert_uint_eq((uintptr_t) o->data % 64, 0);
    memset(o->data, o->mark, o->bytes);
  }
  for (int k = 0; k < N_BLOCKS; k++) {
    if (blocks[k].data) check_marks(&blocks[k]);
    mlff_pages_release(&pages, blocks[k].data);
  }
  ck_assert_ptr_null(pages.regions);
  ck_assert_uint_eq(pages.bytes, 0);
}
END_TEST

/* Released memory is reused, also if it was released in pieces and in any order. */
START_TEST(released_blocks_join)
{
  mlff_pages pages = {0};
  void *parts[4];
  for (int k = 0; k < 4; k++) parts[k] = mlff_pages_alloc(&pages, 300000);
  const size_t bytes = pages.bytes;
  mlff_pages_release(&pages, parts[1]);
  mlff_pages_release(&pages, parts[3]);
  mlff_pages_release(&pages, parts[2]);
  void *whole = mlff_pages_alloc(&pages, 900000);
  ck_assert_uint_eq(pages.bytes, bytes);
  mlff_pages_release(&pages, parts[0]);
  mlff_pages_release(&pages, whole);
  ck_assert_ptr_null(pages.regions);
}
END_TEST

/* Resident memory of this process in kB. */
static long resident(void)
{
  long all = 0, here = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fscanf(file, "%ld %ld", &all, &here), 2);
  fclose(file);
  return here * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Memory between two blocks that stay returns to the system, for example a self-test's networks between those of a
 * run and its arrays. */
START_TEST(memory_between_blocks_goes_back)
{
  enum { N_BETWEEN = 20, KEPT = 5000000, BETWEEN = 3000000 };
  mlff_pages pages = {0};
  owned first = {mlff_pages_alloc(&pages, KEPT), KEPT, 7}, last = first;
  void *between[N_BETWEEN];
  memset(first.data, first.mark, KEPT);
  for (int k = 0; k < N_BETWEEN; k++) {
    between[k] = mlff_pages_alloc(&pages, BETWEEN);
    memset(between[k], k, BETWEEN);
  }
  last.data = mlff_pages_alloc(&pages, KEPT);
  memset(last.data, last.mark, KEPT);
  const long before = resident();
  for (int k = 0; k < N_BETWEEN; k += 2) mlff_pages_release(&pages, between[k]);
  for (int k = 1; k < N_BETWEEN; k += 2) mlff_pages_release(&pages, between[k]);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed, for a while */
  ck_assert_int_gt(before - resident(), N_BETWEEN * (BETWEEN / 1024) * 8L / 10);
#endif
  check_marks(&first);
  check_marks(&last);
  mlff_pages_release(&pages, first.data);
  mlff_pages_release(&pages, last.data);
  ck_assert_ptr_null(pages.regions);
  ck_assert_int_gt(before, 0);
}
END_TEST

START_TEST(too_much_is_null)
{
  mlff_pages pages = {0};
  ck_assert_ptr_null(mlff_pages_alloc(&pages, SIZE_MAX - 10));
#ifndef __SANITIZE_ADDRESS__ /* which ends the program */
  ck_assert_ptr_null(mlff_pages_alloc(&pages, SIZE_MAX / 4));
#endif
  ck_assert_ptr_null(pages.regions);
  mlff_pages_release(&pages, NULL);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("pages");
  TCase *t = tcase_create("pages");
  tcase_add_test(t, blocks_do_not_touch_each_other);
  tcase_add_test(t, released_blocks_join);
  tcase_add_test(t, memory_between_blocks_goes_back);
  tcase_add_test(t, too_much_is_null);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
