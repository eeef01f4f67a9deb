/* test_structures.c: structures and neighbor lists that the program mlff keeps between the commands of a batch. */
#define _POSIX_C_SOURCE 200809L

#include "cli/cli.h"
#include "support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static char dir[256], path[512];
static const char *const oh[] = {"O", "H"}, *const ho[] = {"H", "O"};

static void write_water(double z, long nanoseconds)
{
  const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000, .tv_nsec = nanoseconds}};
  FILE *file = fopen(path, "w");
  if (!file) ck_abort_msg("cannot write %s", path);
  for (int k = 0; k < 2; k++)
    fprintf(file, "3\nLattice=\"9 0 0 0 9 0 0 0 9\"\nO 0 0 %.3f\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n", z + k);
  ck_assert_int_eq(fclose(file), 0);
  ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void setup(void)
{
  test_tmp_make(dir, sizeof dir);
  snprintf(path, sizeof path, "%s/water.xyz", dir);
  write_water(0.1, 0);
}

static void teardown(void)
{
  cli_structures_keep(0);
  ck_assert_uint_eq(cli_structures_bytes(), 0);
  test_tmp_remove(dir);
}

static cli_file *take_file(void)
{
  mlff_error error = {.code = MLFF_OK};
  cli_file *file = NULL;
  test_ok(cli_file_take(path, &file, &error), error);
  return file;
}

/* As a command does: the graph, which must not be read any more. */
static const mlff_graph *use(int frame, const char *const *elements, double reach, int n_replicas, uint64_t *list_id)
{
  mlff_error error = {.code = MLFF_OK};
  const mlff_info info = {.n_elements = 2, .elements = elements};
  cli_file *file = take_file();
  cli_list *list = NULL;
  test_ok(cli_frame_species(&file->frames[frame], &info, path, &error), error);
  test_ok(cli_list_take(file, frame, reach, n_replicas, &list, &error), error);
  const mlff_graph *graph = cli_list_graph(list);
  test_ok(mlff_graph_check(graph, 2, &error), error);
  ck_assert_int_eq(graph->n_local, 3 * n_replicas);
  for (int i = 0; i < graph->n_local; i++) ck_assert_int_eq(graph->species[i], (elements == oh) == (i % 3 > 0));
  if (list_id) *list_id = graph->list_id;
  cli_list_give_back(list);
  cli_file_give_back(file);
  return graph;
}

START_TEST(nothing_is_kept_at_first)
{
  use(0, oh, 5, 1, NULL);
  use(1, oh, 5, 2, NULL);
  ck_assert_uint_eq(cli_structures_bytes(), 0);
}
END_TEST

START_TEST(kept_by_structure_reach_replicas_and_species)
{
  uint64_t id[6];
  cli_structures_keep(1 << 20);
  const mlff_graph *graph[6] = {use(0, oh, 5, 1, &id[0]),   use(1, oh, 5, 1, &id[1]), use(0, oh, 5.5, 1, &id[2]),
                                use(0, oh, 5.5, 2, &id[3]), use(0, ho, 5, 1, &id[4]), use(0, oh, 5, 4, &id[5])};
  const size_t bytes = cli_structures_bytes();
  for (int k = 0; k < 6; k++)
    for (int l = 0; l < k; l++) ck_assert_ptr_ne(graph[k], graph[l]);
  for (int k = 0; k < 2; k++) {
    ck_assert_ptr_eq(use(0, oh, 5, 1, NULL), graph[0]);
    ck_assert_ptr_eq(use(1, oh, 5, 1, NULL), graph[1]);
    ck_assert_ptr_eq(use(0, oh, 5.5, 1, NULL), graph[2]);
    ck_assert_ptr_eq(use(0, oh, 5.5, 2, NULL), graph[3]);
    ck_assert_ptr_eq(use(0, ho, 5, 1, NULL), graph[4]);
  }
  ck_assert_uint_eq(cli_structures_bytes(), bytes);
  ck_assert(id[0] != id[3] && id[0] != id[4]);
}
END_TEST

/* The most recently used structures stay, and all that are in use. */
START_TEST(bounded)
{
  mlff_error error = {.code = MLFF_OK};
  cli_structures_keep(1 << 20);
  const mlff_graph *first = use(0, oh, 5, 1, NULL);
  const size_t one = cli_structures_bytes(), limit = 3 * one;
  cli_structures_keep(limit);
  for (int k = 0; k < 40; k++) {
    use(0, oh, 4 + 0.01 * k, 1, NULL);
    ck_assert_ptr_eq(use(0, oh, 5, 1, NULL), first);
    ck_assert_uint_le(cli_structures_bytes(), limit);
  }
  cli_file *file = take_file();
  cli_list *lists[5] = {NULL};
  for (int k = 0; k < 5; k++) test_ok(cli_list_take(file, 0, 5 + k, 1, &lists[k], &error), error);
  ck_assert_ptr_eq(cli_list_graph(lists[0]), first);
  ck_assert_uint_gt(cli_structures_bytes(), limit);
  cli_structures_keep(0);
  for (int k = 0; k < 5; k++) test_ok(mlff_graph_check(cli_list_graph(lists[k]), 2, &error), error);
  for (int k = 0; k < 5; k++) cli_list_give_back(lists[k]);
  ck_assert_uint_lt(cli_structures_bytes(), one);
  cli_file_give_back(file);
  ck_assert_uint_eq(cli_structures_bytes(), 0);
}
END_TEST

/* A changed size or modification time means a new file. */
START_TEST(read_again_when_it_has_changed)
{
  uint64_t before;
  cli_structures_keep(1 << 20);
  const mlff_graph *graph = use(0, oh, 5, 1, &before);
  write_water(0.2, 0); /* of the same size and time: not seen */
  ck_assert_ptr_eq(use(0, oh, 5, 1, NULL), graph);
  for (int k = 1; k <= 2; k++) {
    write_water(k == 1 ? 0.2 : 10.3, 1);
    cli_file *file = take_file();
    ck_assert_double_eq(file->frames[0].pos[0][2], k == 1 ? 0.2 : 10.3);
    cli_file_give_back(file);
    use(0, oh, 5, 1, NULL);
  }
  const size_t bytes = cli_structures_bytes();
  write_water(10.4, 2);
  use(0, oh, 5, 1, NULL);
  ck_assert_uint_eq(cli_structures_bytes(), bytes); /* the old ones are gone */
}
END_TEST

START_TEST(failures)
{
  mlff_error error = {.code = MLFF_OK};
  cli_file *file = NULL;
  cli_list *list = NULL;
  cli_structures_keep(1 << 20);
  test_fails(cli_file_take("/nowhere/water.xyz", &file, &error), error, MLFF_E_IO, "cannot be opened");
  test_fails(cli_file_take(dir, &file, &error), error, MLFF_E_IO, "read error: Is a directory");
  ck_assert_uint_eq(cli_structures_bytes(), 0);
  file = take_file();
  for (int n = 1; n <= 2; n++) test_fails(cli_list_take(file, 0, -1, n, &list, &error), error, MLFF_E_ARG, "cutoff");
  ck_assert_ptr_null(list);
  cli_list_give_back(NULL);
  cli_file_give_back(file);
  cli_file_give_back(NULL);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("structures");
  TCase *t = tcase_create("structures");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, nothing_is_kept_at_first);
  tcase_add_test(t, kept_by_structure_reach_replicas_and_species);
  tcase_add_test(t, bounded);
  tcase_add_test(t, read_again_when_it_has_changed);
  tcase_add_test(t, failures);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
