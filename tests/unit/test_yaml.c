/* test_yaml.c: limits of the reader of YAML and JSON that model files, reports and rules share, and its time. */
#include "testmodel.h"

#include "base/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static mlff_fault fault;
static mlff_arena arena;

static int parse(const char *text, mlff_yaml **root)
{
  mlff_arena_free(&arena);
  memset(&fault, 0, sizeof fault);
  return mlff_yaml_parse("x.yaml", text, strlen(text), &arena, root, NULL, &fault);
}

/* `text` n times between two others; the caller frees. */
static char *repeated(const char *before, const char *text, size_t n, const char *after)
{
  const size_t length = strlen(text);
  char *all = malloc(strlen(before) + n * length + strlen(after) + 1), *at = all + strlen(before);
  ck_assert_ptr_nonnull(all);
  strcpy(all, before);
  for (size_t k = 0; k < n; k++, at += length) memcpy(at, text, length);
  strcpy(at, after);
  return all;
}

START_TEST(depth)
{
  mlff_yaml *root = NULL;
  for (int n = MLFF_YAML_MAX_DEPTH; n <= MLFF_YAML_MAX_DEPTH + 1; n++) {
    char *open = repeated("", "[", (size_t) n, "\n1"), *text = repeated(open, "]", (size_t) n, "");
    ck_assert_int_eq(parse(text, &root), n == 32 ? 0 : MLFF_FAULT_FORMAT);
    ck_assert_str_eq(fault.text, n == 32 ? "" : "x.yaml:1: nested more than 32 levels");
    free(open);
    free(text);
  }
  mlff_arena_free(&arena);
}
END_TEST

/* n mappings of 1000 keys and one of n_last. */
static char *with_keys(int n, int n_last)
{
  char *text = malloc((size_t) (1000 * n + n_last) * 10 + 100), *at = text;
  ck_assert_ptr_nonnull(text);
  for (int m = 0; m <= n; m++) {
    at += sprintf(at, "- a: 0\n");
    for (int k = 1; k < (m < n ? 1000 : n_last); k++) at += sprintf(at, "  k%d: 0\n", k);
  }
  return text;
}

START_TEST(keys)
{
  mlff_yaml *root = NULL;
  char *text = with_keys(0, MLFF_YAML_MAX_KEYS), *more = with_keys(0, MLFF_YAML_MAX_KEYS + 1);
  ck_assert_int_eq(parse(text, &root), 0);
  ck_assert_int_eq(root->first->n_children, MLFF_YAML_MAX_KEYS);
  ck_assert_int_eq(parse(more, &root), MLFF_FAULT_FORMAT);
  ck_assert_str_eq(fault.text, "x.yaml:1001: more than 1000 keys");
  ck_assert_int_eq(parse("a: 1\nb: 2\na: 3", &root), MLFF_FAULT_FORMAT);
  ck_assert_str_eq(fault.text, "x.yaml:3: key 'a' is a duplicate of line 1");
  mlff_arena_free(&arena);
  free(text);
  free(more);
}
END_TEST

START_TEST(sizes)
{
  mlff_yaml *root = NULL;
  char *large = repeated("", " ", MLFF_YAML_MAX_BYTES + 1, "");
  ck_assert_int_eq(parse(large, &root), MLFF_FAULT_FORMAT);
  ck_assert_str_eq(fault.text, "x.yaml: 67108865 bytes, at most 67108864 are allowed");
  free(large);
  if (test_cases(1, 0)) {
    char *many = repeated("[", "0,", MLFF_YAML_MAX_NODES, "]");
    ck_assert_int_eq(parse(many, &root), MLFF_FAULT_FORMAT); /* and the list itself */
    ck_assert_str_eq(fault.text, "x.yaml:1: more than 4194304 values");
    free(many);
  }
  mlff_arena_free(&arena);
}
END_TEST

/* JSON escapes characters beyond U+FFFF by two surrogates. */
START_TEST(surrogates)
{
  mlff_yaml *root = NULL;
  ck_assert_int_eq(parse("{\"a\": \"\\ud83d\\ude00 \\ud800\"}", &root), 0);
  ck_assert_str_eq(mlff_yaml_find(root, "a")->text, "\xf0\x9f\x98\x80 \xef\xbf\xbd");
  mlff_arena_free(&arena);
}
END_TEST

static double seconds_of_keys(int n)
{
  mlff_yaml *root = NULL;
  char *text = with_keys(n, 1);
  const clock_t start = clock();
  ck_assert_int_eq(parse(text, &root), 0);
  free(text);
  return (double) (clock() - start) / CLOCKS_PER_SEC;
}

static double seconds_of_structures(size_t n)
{
  char *list = repeated("[",
                        "{name: a, elements: [H], positions: [[0, 0, 0]], cell: none, energy: 0, "
                        "forces: [[0, 0, 0]], virial: [0, 0, 0, 0, 0, 0]},\n    ",
                        n, "]");
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  test_model file = test_model_ani((test_model_options){.self_test = list});
  const clock_t start = clock();
  test_ok(test_model_try(&file, &(mlff_options){.skip_self_test = 1}, &model, &error), error);
  const double seconds = (double) (clock() - start) / CLOCKS_PER_SEC;
  ck_assert_int_eq(mlff_model_n_self_tests(model), (int) n);
  mlff_model_close(model);
  test_model_free(&file);
  free(list);
  return seconds;
}

/* Four times as many items take four times as long, not sixteen. */
START_TEST(time_is_linear)
{
  const int n = test_cases(10000, 2000), n_keys = test_cases(50, 10);
  const double one = seconds_of_structures((size_t) n), four = seconds_of_structures((size_t) n * 4);
  ck_assert_msg(four < 8 * one, "%d structures: %.2f s, 4 times as many: %.2f s", n, one, four);
  const double keys_one = seconds_of_keys(n_keys), keys_four = seconds_of_keys(4 * n_keys);
  ck_assert_msg(keys_four < 8 * keys_one, "%d keys: %.2f s, 4 times as many: %.2f s", 1000 * n_keys, keys_one,
                keys_four);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("yaml");
  TCase *t = tcase_create("yaml");
  tcase_set_timeout(t, 300);
  tcase_add_test(t, depth);
  tcase_add_test(t, keys);
  tcase_add_test(t, sizes);
  tcase_add_test(t, surrogates);
  tcase_add_test(t, time_is_linear);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
