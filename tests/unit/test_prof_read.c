/* test_prof_read.c: files that are not reports, hostile files, and files of another program or version. */
#define _XOPEN_SOURCE 700

#include "profsample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mlffprof_error error;
static char dir[256], path[512];

static void setup(void)
{
  test_tmp_make(dir, sizeof dir);
  snprintf(path, sizeof path, "%s/a.json", dir);
}

static void teardown(void)
{
  test_tmp_remove(dir);
}

static const struct {
  const char *text, *part;
  mlffprof_status status;
} foreign[] = {
    {"", "empty", MLFFPROF_E_FORMAT},
    {"[1, 2]", "names and values", MLFFPROF_E_FORMAT},
    {"{\"a\": 1", "x.json:2: not valid", MLFFPROF_E_FORMAT},
    {"{\"a\": 1}", "not a report", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1}", "not a report", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 2, \"latencies_ms\": []}", "schema version 2", MLFFPROF_E_UNSUPPORTED},
    {"{\"schema_version\": \"1\", \"latencies_ms\": []}", "schema_version is not an integer", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": 5}", "latencies_ms is not a list", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [1, \"2\"]}", "entry 1 of latencies_ms", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [NaN]}", "not a finite number", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1,\n \"latencies_ms\": [],\n \"cv\": [3]}", "x.json:3: cv is not", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"n_steps\": -4}", "n_steps is -4", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"cv\": 1, \"cv\": 2}", "'cv' is a duplicate of line",
     MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"memory\": {}}", "series is missing", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"memory\": {\"series\": {\"step\": [1, 2], \"host_bytes\": [1]}}}",
     "host_bytes has 1 entries", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"components\": [{\"name\": \"a\", \"parent\": \"a\"}]}",
     "parent 'a' is not there", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"components\": [7]}", "not a block", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"context\": {\"a\": [1]}}", "list, or nested", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"name\": \"a\\u0000b\"}", "zero byte", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": []}\n---\n{}", "x.json:2: a second document", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": []} tail", "not valid", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"targets\": [{\"metric\": \"cv\", \"relation\": \"<\"}]}",
     "status is missing", MLFFPROF_E_FORMAT},
    {"{\"schema_version\": 1, \"latencies_ms\": [], \"n_ranks\": 5000000000}", "n_ranks is 5000000000",
     MLFFPROF_E_FORMAT},
};
enum { N_FOREIGN = sizeof foreign / sizeof *foreign };

START_TEST(foreign_files)
{
  mlffprof_report *p = NULL;
  prof_fails(mlffprof_report_parse("x.json", foreign[_i].text, strlen(foreign[_i].text), &p, &error), error,
             foreign[_i].status, foreign[_i].part);
  ck_assert_ptr_null(p);
}
END_TEST

/* Brackets beyond any report are refused at once: the parser alone would take minutes for these. */
START_TEST(deep_nesting)
{
  static const char *const shapes[] = {"[", "\n [", "{\"a\":", "- ", "? "};
  enum { N = 100000 };
  const char *shape = shapes[_i];
  const size_t length = strlen(shape);
  mlffprof_report *p = NULL;
  char *text = calloc(1, 100 + N * length);
  ck_assert_ptr_nonnull(text);
  size_t n =
      (size_t) sprintf(text, *shape == '-' || *shape == '?' ? "schema_version: 1\nlatencies_ms: []\nx:\n "
                                                            : "{\"schema_version\": 1, \"latencies_ms\": [], \"x\": ");
  for (int k = 0; k < N; k++, n += length) memcpy(text + n, shape, length);
  const double start = mlffprof_seconds();
  prof_fails(mlffprof_report_parse("x.json", text, n, &p, &error), error, MLFFPROF_E_FORMAT,
             *shape == '?' ? "keys must be plain text" : "nested more than 32 levels");
  ck_assert_double_lt(mlffprof_seconds() - start, 10);
  free(text);
}
END_TEST

/* A quotation that is cut within a character, or has a control character, does not spoil the text of an error. */
START_TEST(error_texts_are_utf8)
{
  char text[400] = "{\"schema_version\": 1, \"latencies_ms\": [], \"context\": {\"a/";
  mlffprof_report *p = NULL;
  for (int k = 0; k < 40; k++) strcat(text, "\xe2\x82\xac");
  strcat(text, "\": 1}}");
  prof_fails(mlffprof_report_parse("x\x1b.json", text, strlen(text), &p, &error), error, MLFFPROF_E_FORMAT,
             "\xe2\x82\xac?' cannot be a key");
  ck_assert_int_eq(strncmp(error.text, "x?.json", 7), 0);
}
END_TEST

/* Shares that no program writes are not cast to integers. */
START_TEST(impossible_shares)
{
  static const char text[] = "{\"schema_version\": 1, \"latencies_ms\": [], \"components\": ["
                             "{\"name\": \"a\", \"n_steps\": 1, \"share\": 4e18}, {\"name\": \"b\", \"n_steps\": 1, "
                             "\"share\": -4e18}]}";
  mlffprof_report *p = NULL;
  char *table = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&table, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_report_parse("x.json", text, strlen(text), &p, &error), error);
  prof_ok(mlffprof_report_print(p, 1, out, &error), error);
  fclose(out);
  ck_assert_ptr_nonnull(strstr(table, "  ####################\n"));
  free(table);
  mlffprof_report_free(p);
}
END_TEST

/* The linker puts this in the place of the library's calloc (tests/CMakeLists.txt): call number fail_at fails. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
static long n_calls, fail_at;

void *__wrap_calloc(size_t n, size_t size)
{
  return ++n_calls == fail_at ? NULL : __real_calloc(n, size);
}

/* Wherever memory runs out, the error says so. */
START_TEST(out_of_memory)
{
  mlffprof_report *sample = prof_sample(12), *p = NULL;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_report_json(sample, out, &error), error);
  fclose(out);
  n_calls = 0;
  prof_ok(mlffprof_report_parse("x.json", text, size, &p, &error), error);
  mlffprof_report_free(p);
  const long n = n_calls;
  ck_assert_int_gt(n, 5); /* blocks of the arena; with AddressSanitizer each piece of it */
  for (long k = 1; k <= n; k++) {
    n_calls = 0;
    fail_at = k;
    const mlffprof_status status = mlffprof_report_parse("x.json", text, size, &p, &error);
    fail_at = 0;
    ck_assert_int_eq(status, MLFFPROF_E_NOMEM);
    ck_assert_str_eq(error.text, "x.json: out of memory");
    ck_assert_ptr_null(p);
    error.text[0] = 0;
  }
  mlffprof_report_free(sample);
  free(text);
}
END_TEST

START_TEST(missing_files)
{
  mlffprof_report *p = NULL;
  prof_fails(mlffprof_report_read(path, &p, &error), error, MLFFPROF_E_IO, "cannot be opened");
  prof_fails(mlffprof_report_read(dir, &p, &error), error, MLFFPROF_E_IO, dir);
}
END_TEST

START_TEST(large_files)
{
  mlffprof_report *p = NULL;
  FILE *file = fopen(path, "w");
  ck_assert(file && !fseek(file, 64 << 20, SEEK_SET) && fputc('{', file) == '{' && !fclose(file));
  prof_fails(mlffprof_report_read(path, &p, &error), error, MLFFPROF_E_FORMAT, "larger than 64 MB: not a report");
  remove(path);
}
END_TEST

/* Files of a later version or another program: unknown fields, surrogate escapes, no indentation. */
START_TEST(other_writers)
{
  const char *text =
      "{\"schema_version\":1,\"later\":{\"x\":[1,{}]},\"name\":\"\\ud83d\\ude00 \\\\ud83d \\ud800 \\u00e9\\/\","
      "\"latencies_ms\":[1,2.5e0,null],\"n_steps\":3,\"slow_steps\":[{\"step\":1,\"latency_ms\":2,\"tags\":"
      "[\"later\",\"output\"]}]}";
  mlffprof_report *p = NULL;
  prof_ok(mlffprof_report_parse("x.json", text, strlen(text), &p, &error), error);
  ck_assert_str_eq(p->name, "\xf0\x9f\x98\x80 \\ud83d \xef\xbf\xbd \xc3\xa9/");
  ck_assert_int_eq(p->n_latencies, 3);
  near_one(p->latencies_ms[1], 2.5, 0);
  prof_unmeasured(p->latencies_ms[2]);
  prof_unmeasured(p->latency.mean);
  ck_assert_uint_eq(p->slow_steps[0].tags, MLFFPROF_TAG_OUTPUT);
  ck_assert_int_eq(p->slow_steps[0].slowest_rank, MLFFPROF_UNKNOWN);
  mlffprof_report_free(p);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("prof_read");
  TCase *t = tcase_create("read");
  tcase_set_timeout(t, 120);
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, foreign_files, 0, N_FOREIGN);
  tcase_add_loop_test(t, deep_nesting, 0, 5);
  tcase_add_test(t, error_texts_are_utf8);
  tcase_add_test(t, impossible_shares);
  tcase_add_test(t, out_of_memory);
  tcase_add_test(t, missing_files);
  tcase_add_test(t, large_files);
  tcase_add_test(t, other_writers);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
