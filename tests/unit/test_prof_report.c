/* test_prof_report.c: JSON there and back, files that are whole at any moment, locales, tables, traces. */
#define _XOPEN_SOURCE 700

#include "profsample.h"
#include "reference.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mlffprof_error error;
static char dir[256], path[512], other[512];

static void setup(void)
{
  test_tmp_make(dir, sizeof dir);
  snprintf(path, sizeof path, "%s/a.json", dir);
  snprintf(other, sizeof other, "%s/b.json", dir);
}

static void teardown(void)
{
  test_tmp_remove(dir);
}

static char *slurp(const char *name)
{
  FILE *file = fopen(name, "rb");
  if (!file) ck_abort_msg("cannot open %s", name);
  char *text = calloc(1, 4 << 20);
  ck_assert_ptr_nonnull(text);
  ck_assert_uint_lt(fread(text, 1, (4 << 20) - 1, file), (4 << 20) - 1);
  fclose(file);
  return text;
}

static void same_files(const char *a, const char *b)
{
  char *x = slurp(a), *y = slurp(b);
  ck_assert_str_eq(x, y);
  free(x);
  free(y);
}

static int n_files(void)
{
  DIR *d = opendir(dir);
  int n = 0;
  ck_assert_ptr_nonnull(d);
  for (const struct dirent *e = readdir(d); e; e = readdir(d)) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Written, read and written again: the same bytes, with few steps and many, and with nothing measured. */
START_TEST(there_and_back)
{
  static const int lengths[] = {0, 1, 11, 12, 3000, 30000};
  mlffprof_report *a = prof_sample(lengths[_i]), *b = NULL;
  prof_ok(mlffprof_report_write(a, path, &error), error);
  prof_ok(mlffprof_report_read(path, &b, &error), error);
  prof_ok(mlffprof_report_write(b, other, &error), error);
  same_files(path, other);
  ck_assert_str_eq(a->model_name, b->model_name);
  for (int k = 0; mlffprof_metric_name(k); k++) {
    double x = 0, y = 0;
    ck_assert(mlffprof_report_metric(a, mlffprof_metric_name(k), &x));
    ck_assert(mlffprof_report_metric(b, mlffprof_metric_name(k), &y));
    if (isnan(x))
      prof_unmeasured(y);
    else
      near_one(y, x, 1e-14 * fabs(x));
  }
  mlffprof_report_free(a);
  mlffprof_report_free(b);
}
END_TEST

/* An independent reader finds the field names that users know. */
START_TEST(field_names)
{
  static const char *const names[] = {"name",
                                      "model_name",
                                      "n_steps",
                                      "device",
                                      "latencies_ms",
                                      "mean_latency_ms",
                                      "median_latency_ms",
                                      "std_latency_ms",
                                      "min_latency_ms",
                                      "max_latency_ms",
                                      "p95_latency_ms",
                                      "p99_latency_ms",
                                      "energy_time_ms",
                                      "forces_time_ms",
                                      "memory_initial_gb",
                                      "memory_final_gb",
                                      "memory_peak_gb",
                                      "memory_per_step_gb",
                                      "n_atoms",
                                      "system_size",
                                      "total_time_s",
                                      "steps_per_second",
                                      "timestamp",
                                      "notes",
                                      "us_per_atom",
                                      "cv",
                                      "drift",
                                      "context"};
  mlffprof_report *p = prof_sample(2000);
  prof_ok(mlffprof_report_write(p, path, &error), error);
  test_json *json = test_json_read(path);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) test_json_get(json, names[k]);
  ck_assert_str_eq(test_json_text(test_json_get(json, "system_size")), "192 atoms");
  ck_assert(test_json_is_null(test_json_get(json, "stress_time_ms")));
  ck_assert_str_eq(test_json_text(test_json_get(json, "context.deck.model.name")), "a");
  ck_assert_str_eq(test_json_text(test_json_get(json, "memory_of")), "device");
  near_one(test_json_number(test_json_get(json, "memory_peak_gb")), 2, 0);
  near_one(test_json_number(test_json_get(json, "mean_latency_ms")), p->latency.mean, 0);
  ck_assert_int_eq(test_json_length(test_json_get(json, "latencies_ms")), 1990);
  test_json_free(json);
  mlffprof_report_free(p);
}
END_TEST

/* Bytes that are no UTF-8 become U+FFFD; the rest comes back as it was. */
START_TEST(texts)
{
  static const char *const cases[][2] = {{"plain", "plain"},
                                         {"\xff", "\xef\xbf\xbd"},
                                         {"a\xc0\xaf", "a\xef\xbf\xbd\xef\xbf\xbd"},
                                         {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
                                         {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                                         {"\xf0\x9f\x98\x80\\\"/\n\r\t\b", "\xf0\x9f\x98\x80\\\"/\n\r\t\b"},
                                         {"\x7f\xc2\x85\xe2\x80\xa8\xef\xbb\xbf",
                                          "\x7f\xc2\x85\xe2\x80\xa8\xef\xbb\xbf"},
                                         {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
                                         {"null", "null"},
                                         {"12", "12"},
                                         {" # & * ! ", " # & * ! "}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    mlffprof_recorder *r = NULL;
    mlffprof_report *a = NULL, *b = NULL;
    const mlffprof_options options = {.name = cases[k][0]};
    prof_ok(mlffprof_recorder_create(&options, &r, &error), error);
    prof_ok(mlffprof_recorder_report(r, &a, &error), error);
    prof_ok(mlffprof_report_write(a, path, &error), error);
    prof_ok(mlffprof_report_read(path, &b, &error), error);
    ck_assert_str_eq(b->name, cases[k][1]);
    mlffprof_report_free(a);
    mlffprof_report_free(b);
    mlffprof_recorder_free(r);
  }
}
END_TEST

/* Names of metrics are unique, both of fields and of derived values. */
START_TEST(metric_names)
{
  for (int k = 0; mlffprof_metric_name(k); k++)
    for (int i = 0; i < k; i++) ck_assert_str_ne(mlffprof_metric_name(i), mlffprof_metric_name(k));
}
END_TEST

/* ---- files ------------------------------------------------------------------------------------------------------- */

START_TEST(files_are_replaced_whole)
{
  mlffprof_report *a = prof_sample(50), *b = prof_sample(60), *back = NULL;
  char link_path[512];
  struct stat s;
  prof_ok(mlffprof_report_write(a, path, &error), error);
  prof_ok(mlffprof_report_write(b, path, &error), error);
  prof_ok(mlffprof_report_read(path, &back, &error), error);
  ck_assert_int_eq(back->n_steps, b->n_steps);
  ck_assert_int_eq(n_files(), 1); /* nothing temporary is left */
  snprintf(link_path, sizeof link_path, "%s/link.json", dir);
  ck_assert_int_eq(symlink(path, link_path), 0);
  prof_ok(mlffprof_report_write(a, link_path, &error), error);
  ck_assert_int_eq(lstat(link_path, &s), 0);
  ck_assert(S_ISLNK(s.st_mode)); /* the link stays a link */
  mlffprof_report_free(back);
  prof_ok(mlffprof_report_read(path, &back, &error), error);
  ck_assert_int_eq(back->n_steps, a->n_steps);
  mlffprof_report_free(a);
  mlffprof_report_free(b);
  mlffprof_report_free(back);
}
END_TEST

START_TEST(unwritable_files)
{
  mlffprof_report *p = prof_sample(3000);
  char name[600];
  snprintf(name, sizeof name, "%s/none/a.json", dir);
  prof_fails(mlffprof_report_write(p, name, &error), error, MLFFPROF_E_IO, "none/a.json: cannot be written");
  prof_fails(mlffprof_report_write(p, dir, &error), error, MLFFPROF_E_IO, "it is a directory");
  prof_fails(mlffprof_report_write(p, "", &error), error, MLFFPROF_E_ARG, "empty");
  if (!access("/dev/full", W_OK)) {
    struct stat s;
    prof_fails(mlffprof_report_write(p, "/dev/full", &error), error, MLFFPROF_E_IO, "cannot be written");
    ck_assert(!stat("/dev/full", &s) && S_ISCHR(s.st_mode)); /* a device is not replaced by a file */
  }
  ck_assert_int_eq(n_files(), 0);
  mlffprof_report_free(p);
}
END_TEST

/* ---- locale ------------------------------------------------------------------------------------------------------ */

/* Copies a file and replaces its decimal point, as bytes and as a wide character. */
static int copy_with_comma(const char *from, const char *to)
{
  unsigned char data[4096];
  FILE *in = fopen(from, "rb");
  const size_t n = in ? fread(data, 1, sizeof data, in) : 0;
  if (in) fclose(in);
  FILE *out = n ? fopen(to, "wb") : NULL;
  if (!out) return 0;
  for (size_t k = 0; k < n; k++)
    if (data[k] == '.') data[k] = ',';
  const int good = fwrite(data, 1, n, out) == n;
  return !fclose(out) && good;
}

/* A locale with a decimal comma: one that is installed, or one made of the C locale's file. */
static int set_comma_locale(void)
{
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8", "de_DE"};
  char text[32], to[600];
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (setlocale(LC_ALL, names[k])) break;
  snprintf(text, sizeof text, "%.1f", 0.5);
  if (!strcmp(text, "0,5")) return 1;
  snprintf(to, sizeof to, "%s/comma", dir);
  if (mkdir(to, 0777)) return 0;
  snprintf(to, sizeof to, "%s/comma/LC_NUMERIC", dir);
  if (!copy_with_comma("/usr/lib/locale/C.utf8/LC_NUMERIC", to)) return 0;
  setenv("LOCPATH", dir, 1);
  setlocale(LC_NUMERIC, "comma");
  snprintf(text, sizeof text, "%.1f", 0.5);
  unlink(to);
  to[strlen(to) - strlen("/LC_NUMERIC")] = 0;
  rmdir(to);
  return !strcmp(text, "0,5");
}

/* JSON, tables, verdicts, comparisons and rules are the same, byte for byte, where the locale has a decimal comma. */
START_TEST(comma_locale)
{
  char *tables[2] = {NULL, NULL};
  for (int with = 0; with < 2; with++) {
    if (with && !set_comma_locale()) {
      test_skip("no locale with a decimal comma can be set");
      free(tables[0]);
      return;
    }
    mlffprof_recorder *r = prof_sample_recorder(3000);
    mlffprof_report *p = NULL, *back = NULL;
    prof_ok(mlffprof_recorder_report(r, &p, &error), error);
    p->timestamp = "then";
    prof_ok(mlffprof_report_write(p, with ? other : path, &error), error);
    prof_ok(mlffprof_report_read(path, &back, &error), error);
    near_one(back->latency.mean, p->latency.mean, 0);
    size_t size = 0;
    FILE *out = open_memstream(&tables[with], &size);
    ck_assert_ptr_nonnull(out);
    prof_ok(mlffprof_report_print(p, 1, out, &error), error);
    prof_ok(mlffprof_compare_print(p, back, out, &error), error);
    prof_ok(mlffprof_reports_print((const mlffprof_report *const[]){p, back}, 2, out, &error), error);
    fclose(out);
    mlffprof_report_free(p);
    mlffprof_report_free(back);
    mlffprof_recorder_free(r);
  }
  setlocale(LC_ALL, "C");
  same_files(path, other);
  ck_assert_str_eq(tables[0], tables[1]);
  free(tables[0]);
  free(tables[1]);
}
END_TEST

/* ---- table and trace --------------------------------------------------------------------------------------------- */

START_TEST(table_shows_all_parts)
{
  static const char *const parts[] =
      {"sample: water", "latency per step", "  message", "slowest steps", "buffer_growth", "memory, MB", "conserved",
       "temperature",   "against teacher",  "targets",   "hotspots",      "deck/steps",    "rank 0 in",  "K/ps",
       "trend "};
  mlffprof_report *p = prof_sample(3000);
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_report_print(p, 1, out, &error), error);
  fclose(out);
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
    if (!strstr(text, parts[k])) ck_abort_msg("'%s' is not in the table:\n%s", parts[k], text);
  ck_assert_ptr_null(strstr(text, "nan"));
  free(text);
  mlffprof_report_free(p);
}
END_TEST

/* Without `all`: no slow steps, no context; what did not change has no trend of rounding errors, and digits below two
 * of an error are left out. */
START_TEST(short_table)
{
  mlffprof_report *p = prof_sample(3000);
  mlffprof_quantity *volume = &p->energy.value[MLFFPROF_VOLUME];
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  *volume = (mlffprof_quantity){.n = 9, .mean = 1914.5, .min = 1914.5, .max = 1914.5, .drift = 3e-27};
  p->energy.value[MLFFPROF_TEMPERATURE] = (mlffprof_quantity){
      .n = 9, .mean = 316.567, .std = 14.18, .min = 280.05, .max = 345.3, .drift = 0.0123456, .drift_error = 0.0029};
  p->energy.value[MLFFPROF_PRESSURE] = (mlffprof_quantity){
      .n = 9, .mean = -3632.4, .std = 3502.2, .min = -11014, .max = 4039.7, .drift = 5.47e-9, .drift_error = 4.3e-8};
  prof_ok(mlffprof_report_print(p, 0, out, &error), error);
  fclose(out);
  ck_assert_ptr_nonnull(strstr(text, "hotspots"));
  ck_assert_ptr_nonnull(strstr(text, " 317 K, sd 14, from 280 to 345, trend 0.0123 +- 0.0029 K/ps\n"));
  ck_assert_ptr_nonnull(strstr(text, " -3600 bar, sd 3500, from -11000 to 4000, trend 5e-09 +- 4.3e-08 bar/ps\n"));
  ck_assert_ptr_nonnull(strstr(text, "volume       1914.5 A^3, constant\n"));
  ck_assert_ptr_null(strstr(text, "slowest steps"));
  ck_assert_ptr_null(strstr(text, "deck/steps"));
  free(text);
  mlffprof_report_free(p);
}
END_TEST

/* Names of cases differ at their ends, so the table of many shows them whole. */
START_TEST(table_of_many_shows_whole_names)
{
  mlffprof_report *p[2] = {prof_sample(30), prof_sample(30)};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  p[0]->name = "water-medium-npt-water_benzene_student";
  p[1]->name = "water-medium-npt-water_benzene_teacher";
  prof_ok(mlffprof_reports_print((const mlffprof_report *const *) p, 2, out, &error), error);
  fclose(out);
  for (int k = 0; k < 2; k++) ck_assert_ptr_nonnull(strstr(text, p[k]->name));
  free(text);
  for (int k = 0; k < 2; k++) mlffprof_report_free(p[k]);
}
END_TEST

START_TEST(table_of_nothing)
{
  mlffprof_report *p = prof_sample(0);
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_report_print(p, 1, out, &error), error);
  fclose(out);
  ck_assert_ptr_nonnull(strstr(text, "not measured"));
  ck_assert_ptr_null(strstr(text, "nan"));
  free(text);
  mlffprof_report_free(p);
}
END_TEST

START_TEST(traces)
{
  mlffprof_trace *t = NULL;
  prof_ok(mlffprof_trace_open(path, 3, &t, &error), error);
  prof_ok(mlffprof_trace_row(t, 1, 2, "rank 1", "pair", &error), error);
  prof_ok(mlffprof_trace_span(t, 1, 2, "step \"1\"", 100.5, 0.25, 7, MLFFPROF_TAG_OUTPUT, &error), error);
  prof_ok(mlffprof_trace_counter(t, 1, "host MB", 101.0, 12.5, &error), error);
  prof_ok(mlffprof_trace_span(t, 1, 2, "b", 100.75, 1e-9, MLFFPROF_UNKNOWN, 0, &error), error);
  prof_ok(mlffprof_trace_span(t, 1, 2, "one too many", 100.75, 0, MLFFPROF_UNKNOWN, 0, &error), error);
  prof_fails(mlffprof_trace_span(t, 1, 2, "c", 1, -1, 0, 0, &error), error, MLFFPROF_E_ARG, "'c'");
  prof_fails(mlffprof_trace_span(t, 1, 2, "c", NAN, 1, 0, 0, &error), error, MLFFPROF_E_ARG, "'c'");
  prof_ok(mlffprof_trace_close(t, &error), error);
  test_json *json = test_json_read(path);
  ck_assert_int_eq(test_json_length(json), 6); /* two names, three events, the number that was dropped */
  const test_json *span = test_json_item(json, 2), *counter = test_json_item(json, 3), *last = test_json_item(json, 5);
  ck_assert_str_eq(test_json_text(test_json_get(span, "name")), "step \"1\"");
  ck_assert_str_eq(test_json_text(test_json_get(span, "ph")), "X");
  near_one(test_json_number(test_json_get(span, "ts")), 0, 0);
  near_one(test_json_number(test_json_get(span, "dur")), 250000, 0);
  near_one(test_json_number(test_json_get(span, "args.step")), 7, 0);
  near_one(test_json_number(test_json_get(counter, "ts")), 500000, 0);
  near_one(test_json_number(test_json_get(counter, "args.value")), 12.5, 0);
  near_one(test_json_number(test_json_get(test_json_item(json, 4), "dur")), 0.001, 1e-12);
  ck_assert_ptr_nonnull(strstr(test_json_text(test_json_get(last, "args.name")), "1 events were dropped"));
  test_json_free(json);
  prof_fails(mlffprof_trace_open(dir, 0, &t, &error), error, MLFFPROF_E_IO, "cannot be opened");
  prof_ok(mlffprof_trace_close(NULL, &error), error);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("prof_report");
  TCase *t = tcase_create("report");
  tcase_set_timeout(t, 120);
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, there_and_back, 0, 6);
  tcase_add_test(t, field_names);
  tcase_add_test(t, texts);
  tcase_add_test(t, metric_names);
  tcase_add_test(t, files_are_replaced_whole);
  tcase_add_test(t, unwritable_files);
  tcase_add_test(t, comma_locale);
  tcase_add_test(t, table_shows_all_parts);
  tcase_add_test(t, short_table);
  tcase_add_test(t, table_of_many_shows_whole_names);
  tcase_add_test(t, table_of_nothing);
  tcase_add_test(t, traces);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
