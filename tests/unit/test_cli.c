/* test_cli.c: the program `mlff`: what its commands print and their exit status. */
#define _POSIX_C_SOURCE 200809L

#include "testmodel.h"

#include "reference.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[256], model_path[512], xyz_path[512], output[65536];

/* Runs `mlff ARGUMENTS`, keeps what it printed to both streams in `output`, and returns its exit status. */
static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *format, ...)
{
  char arguments[2048], command[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(arguments, sizeof arguments, format, args);
  va_end(args);
  snprintf(command, sizeof command, "'%s/mlff' %s 2>&1", MLFF_TEST_BINARY_DIR, arguments);
  FILE *pipe = popen(command, "r");
  if (!pipe) ck_abort_msg("cannot run %s", command);
  const size_t n = fread(output, 1, sizeof output - 1, pipe);
  output[n] = 0;
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(int got, int expected, const char *part)
{
  ck_assert_msg(got == expected && strstr(output, part), "expected exit status %d and '%s', got %d:\n%s", expected,
                part, got, output);
}

static void write_text(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file)) ck_abort_msg("cannot write %s", path);
}

static void setup(void)
{
  test_model m = test_model_ani((test_model_options){.seed = 4, .is_double = 1});
  test_tmp_make(dir, sizeof dir);
  test_model_write(&m, dir, "test", model_path, sizeof model_path);
  test_model_free(&m);
  snprintf(xyz_path, sizeof xyz_path, "%s/in.xyz", dir);
  write_text(xyz_path, "3\n"
                       "name=drop Properties=id:I:1:species:S:1:pos:R:3:tag:I:1\n"
                       "1 O 0 0 0.119262 5\n2 H 0 0.763239 -0.477047 6\n3 H 0 -0.763239 -0.477047 7\n"
                       "\n"
                       "2\n"
                       "Lattice=\"3 0 0 0 3.5 0 0.5 0 20\" pbc=\"T T F\"\r\n"
                       "H 0.1 0.2 0.3\r\nO 1.2 0.2 -9\r\n");
}

static void teardown(void)
{
  test_tmp_remove(dir);
}

START_TEST(usage)
{
  expect(run("--version"), 0, MLFF_VERSION);
  expect(run("--help"), 0, "usage: mlff COMMAND");
  expect(run("%s", ""), 2, "usage");
  expect(run("boil"), 2, "unknown command 'boil'");
  expect(run("time --help"), 0, "--calls");
  expect(run("info"), 0, "architecture");
  expect(run("verify"), 2, "MODEL");
  expect(run("info none"), 2,
         "there is no model 'none'; known models (here, in LAMMPS_POTENTIALS and MLFF_MODELS, of mlff):");
  expect(run("info a b"), 2, "unexpected argument 'b'");
  expect(run("info a --json"), 2, "unknown option '--json'");
  expect(run("verify a --device"), 2, "missing value after '--device'");
  expect(run("evaluate a b --json=yes"), 2, "unexpected value of flag '--json=yes'");
}
END_TEST

/* Numbers are those of src/base/number.h: .5, 2. and 1e1, but not all that strtod accepts. */
START_TEST(numbers_of_options)
{
  static const char *const none[] = {"1.5x", "x", "", " 1", "1 ", "0x2", "2,5", ".", "1e", "nan", "inf", "1e999"};
  for (size_t k = 0; k < sizeof none / sizeof *none; k++) {
    char skin[128], calls[128];
    snprintf(skin, sizeof skin, "mlff time: invalid value '%s' of --skin: expected a number from 0 to 100\n", none[k]);
    snprintf(calls, sizeof calls, "mlff soak: invalid value '%s' of --calls: expected an integer from 1 to 10000000\n",
             none[k]);
    ck_assert_int_eq(run("time a b --skin='%s'", none[k]), 2);
    ck_assert_str_eq(output, skin);
    ck_assert_int_eq(run("soak a b --calls='%s'", none[k]), 2);
    ck_assert_str_eq(output, calls);
  }
  expect(run("time a b --skin -0.5"), 2, "invalid value '-0.5' of --skin");
  expect(run("time a b --skin 100.5"), 2, "invalid value '100.5' of --skin");
  expect(run("time a b --calls 0"), 2, "invalid value '0' of --calls");
  expect(run("time a b --calls 1.5"), 2, "invalid value '1.5' of --calls");
  expect(run("time a b --calls 10000001"), 2, "invalid value '10000001' of --calls");
  expect(run("time a b --replicas 0"), 2, "invalid value '0' of --replicas: expected an integer from 1 to 1000000\n");
  expect(run("time '%s' '%s' --calls 1e1 --skin .5 --replicas 2. --json", model_path, xyz_path), 0, "\"n_calls\": 10");
}
END_TEST

START_TEST(info_and_verify)
{
  expect(run("info '%s'", model_path), 0, "architecture   ani");
  expect(run("info '%s/none.yaml'", dir), 2, "cannot be opened");
  expect(run("verify '%s'", model_path), 1, "nothing was verified");
  expect(run("verify '%s' --precision=fp9", model_path), 2,
         "unknown value 'fp9' of 'precision'; known are: fp32 fp64 mixed");
  expect(run("verify '%s' --replay off --fuse=on", model_path), 1, "nothing was verified");
  expect(run("verify '%s' --graph off", model_path), 1, "nothing was verified"); /* the older name */
  expect(run("verify '%s' --graph=perhaps", model_path), 2, "unknown value 'perhaps' of 'replay'");
  expect(run("verify --help"), 0, "yes no: capture settled steps");
}
END_TEST

/* JSON contains the same numbers as the library returns. */
START_TEST(evaluate_writes_all_digits)
{
  char json_path[512];
  expect(run("evaluate '%s' '%s' --precision fp64 --json", model_path, xyz_path), 0, "\"structures\"");
  snprintf(json_path, sizeof json_path, "%s/out.json", dir);
  const char *begin = strchr(output, '{'); /* after the warning on stderr that the model has no self-test */
  ck_assert_ptr_nonnull(begin);
  write_text(json_path, begin);
  test_json *json = test_json_read(json_path);
  const test_json *list = test_json_get(json, "structures");
  ck_assert_int_eq(test_json_length(list), 2);
  ck_assert_str_eq(test_json_text(test_json_get(test_json_item(list, 0), "name")), "drop");
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_model_open(model_path, &(mlff_options){.precision = "fp64"}, &model, &error), error);
  test_atoms slab = test_atoms_new(2);
  const double cell[3][3] = {{3, 0, 0}, {0, 3.5, 0}, {0.5, 0, 20}}, pos[2][3] = {{0.1, 0.2, 0.3}, {1.2, 0.2, -9}};
  memcpy(slab.cell, cell, sizeof cell);
  memcpy(slab.pos, pos, sizeof pos);
  slab.pbc[0] = slab.pbc[1] = slab.species[1] = 1;
  test_atoms atoms[2] = {test_water(), slab};
  for (int k = 0; k < 2; k++) {
    test_answer a = test_evaluate(model, &atoms[k]);
    const test_json *s = test_json_item(list, k);
    double *forces = test_json_numbers(test_json_get(s, "forces"), NULL);
    double *members = test_json_numbers(test_json_get(s, "member_energies"), NULL);
    double *virial = test_json_numbers(test_json_get(s, "virial"), NULL);
    near_one(test_json_number(test_json_get(s, "energy")), a.result.energy, 0);
    near_all(forces, a.result.forces, 3 * atoms[k].n, 0, 0);
    near_all(members, a.result.member_energy, 3, 0, 0);
    near_all(virial, a.result.virial, 6, 0, 0);
    ck_assert_int_eq((int64_t) test_json_number(test_json_get(s, "n_edges")), a.result.n_edges);
    free(forces);
    free(members);
    free(virial);
    test_answer_free(&a);
    test_atoms_free(&atoms[k]);
  }
  mlff_model_close(model);
  test_json_free(json);
}
END_TEST

START_TEST(evaluate_and_time_print)
{
  expect(run("evaluate '%s' '%s' --forces --kernels generic", model_path, xyz_path), 0, "drop: 3 atoms");
  ck_assert_ptr_nonnull(strstr(output, "     3 H   "));
  expect(run("time '%s' '%s' --calls 7 --json", model_path, xyz_path), 0, "\"n_calls\": 7");
  ck_assert_ptr_nonnull(strstr(output, "\"growths\": 0"));
  expect(run("time '%s' '%s' --calls=3", model_path, xyz_path), 0, "us/atom");
}
END_TEST

/* A report of mlff scaling is shown as a table: columns without numbers are left out, null is a dash. */
START_TEST(scaling_reports)
{
  char a[512];
  snprintf(a, sizeof a, "%s/scaling.json", dir);
  write_text(a, "{\"format\": \"mlff-scaling/1\", \"mode\": \"strong\", \"model\": \"m\", \"device\": \"cpu\", "
                "\"context\": {\"cpu\": \"Z80\"}, \"rows\": ["
                "{\"ranks\": 1, \"n_atoms\": 192, \"median_ms\": 2.5, \"efficiency\": 1},"
                "{\"ranks\": 4, \"n_atoms\": 192, \"median_ms\": 7, \"efficiency\": null, \"oversubscribed\": true}],"
                "\"checks\": [{\"ranks\": 4, \"n_atoms\": 192, \"passed\": false, \"energy_per_atom\": 1e-3, "
                "\"force\": 0.25, \"pressure\": 12}]}");
  expect(run("show '%s'", a), 0, "strong scaling: m on cpu, Z80");
  ck_assert_ptr_nonnull(strstr(output, "         1       192       2.5       100\n"));
  ck_assert_ptr_nonnull(strstr(output, "         4       192         7         -  *\n"));
  ck_assert_ptr_nonnull(strstr(output, "no measure of speed"));
  ck_assert_ptr_nonnull(strstr(output, "DIFFERS  4 ranks against one, 192 atoms"));
  ck_assert_ptr_nonnull(strstr(output, "forces 0.25 eV/A"));
  ck_assert_ptr_null(strstr(output, "replica"));
  write_text(a, "{\"format\": \"mlff-scaling/1\", \"rows\": []}");
  expect(run("show '%s'", a), 2, "without rows");
  write_text(a, "{\"format\": \"mlff-scaling/1\", \"rows\": [{\"ranks\": \"two\"}]}");
  expect(run("show '%s'", a), 2, "ranks is");
  write_text(a, "{\"format\": \"mlff-scaling/1\", \"rows\": [{\"ranks\": 2}], \"checks\": [{\"ranks\": 2}]}");
  expect(run("show '%s'", a), 2, "entry 0 of checks has no energy_per_atom");
  write_text(a, "{\"format\": \"mlff-scaling/2\", \"rows\": []}");
  expect(run("show '%s'", a), 2, "not a report of mlffprof");
}
END_TEST

/* A report that mlff time wrote is shown, compared and gated. */
START_TEST(reports)
{
  char a[512], trace[512], rules[512];
  snprintf(a, sizeof a, "%s/a.json", dir);
  snprintf(trace, sizeof trace, "%s/trace.json", dir);
  snprintf(rules, sizeof rules, "%s/rules.yaml", dir);
  expect(run("time '%s' '%s' --calls 40 --file '%s' --trace '%s'", model_path, xyz_path, a, trace), 0, "p99");
  test_json *spans = test_json_read(trace);
  ck_assert_int_gt(test_json_length(spans), 45); /* two names, 5 calls of warm-up and 40, memory */
  test_json_free(spans);
  expect(run("show '%s'", a), 0, "40 steps measured, 5 warm-up steps excluded");
  ck_assert_ptr_nonnull(strstr(output, "drop: "));
  expect(run("show '%s' '%s' '%s'", a, a, a), 0, "us/atom");
  expect(run("compare '%s' '%s'", a, a), 0, "Mann-Whitney");
  expect(run("compare '%s'", a), 2, "expected two reports");
  write_text(rules, "rules:\n  - {metric: median_latency_ms, ratio_below: 1.1}\n  - {metric: cv, below: 1000}\n");
  expect(run("compare '%s' '%s' --gate '%s'", a, a, rules), 0, "2 of 2 rules passed");
  expect(run("compare '%s' --gate '%s'", a, rules), 1, "needs a second report");
  write_text(rules, "rules: [{metric: force_rmse, below: 1}]\n");
  expect(run("compare '%s' '%s' --gate '%s'", a, a, rules), 1, "not measured");
  write_text(rules, "rules: [{metric: mean_latency_ms, above: 0}]\n");
  expect(run("show '%s' --targets '%s'", a, rules), 0, "mean_latency_ms");
  ck_assert_ptr_null(strstr(output, "p95_over_mean"));
  write_text(rules, "rules: [{metric: mean, below: 1}]\n");
  expect(run("compare '%s' --gate '%s'", a, rules), 2, "unknown metric 'mean'");
  expect(run("show '%s'", model_path), 2, "not a report of mlffprof");
  expect(run("show '%s/none.json'", dir), 2, "cannot be opened");
  expect(run("time '%s' '%s' --calls 4 --file '%s/none/a.json'", model_path, xyz_path, dir), 2, "cannot be written");
  expect(run("time '%s' '%s' --calls 4 --trace '%s'", model_path, xyz_path, dir), 2, "cannot be opened");
}
END_TEST

/* The engine's memory is stable over repeated calls; too few of them are no proof. */
START_TEST(soak)
{
#if defined(__SANITIZE_ADDRESS__) /* which otherwise keeps freed memory for a while */
  setenv("ASAN_OPTIONS", "quarantine_size_mb=0:thread_local_quarantine_size_kb=0", 1);
#endif
  expect(run("soak '%s' '%s' --calls 400", model_path, xyz_path), 0, "verdict  stable");
  expect(run("soak '%s' '%s' --calls 400 --json", model_path, xyz_path), 0, "\"schema_version\": 1");
  expect(run("soak '%s' '%s' --calls 5", model_path, xyz_path), 1, "too few for a verdict");
}
END_TEST

/* Arguments reach Python as they are; the names of commands do not depend on what is installed. */
START_TEST(python_commands)
{
  expect(run("--help"), 0, "mlff bench");
  ck_assert_int_ne(run("bench --no-such-option"), 0);
  ck_assert_ptr_null(strstr(output, "unknown command"));
}
END_TEST

/* A model is compared with double precision on the CPU before it is timed; no timing if the difference is too large. */
START_TEST(time_against_cpu)
{
  char scaled_path[512];
  expect(run("time '%s' '%s' --device cpu --calls 3 --against cpu --json", model_path, xyz_path), 0,
         "\"force_rms_ratio\": ");
  ck_assert_ptr_nonnull(strstr(output, "\"n_nodes\": 0, \"n_kernels\": 0"));
  const char *ratio = strstr(output, "\"force_rms_ratio\": ") + strlen("\"force_rms_ratio\": ");
  ck_assert(strtod(ratio, NULL) > 0 && strtod(ratio, NULL) < 1e-4);
  expect(run("time '%s' '%s' --device cpu --calls 3 --against=cpu --precision fp64 --json --kernels generic",
             model_path, xyz_path),
         0, "\"energy_difference\": ");
  expect(run("time '%s' '%s' --device cpu --calls 3 --against cpu --precision mixed --kernels generic --replicas 2",
             model_path, xyz_path),
         0, "against  fp64 on the CPU");
  expect(run("time '%s' '%s' --device cpu --calls 3 --json", model_path, xyz_path), 0, "\"growths\"");
  ck_assert_ptr_null(strstr(output, "_difference"));
  expect(run("time '%s' '%s' --against cuda", model_path, xyz_path), 2,
         "invalid value 'cuda' of --against: expected cpu");
  test_model m = test_model_ani((test_model_options){.name = "scaled", .seed = 4, .is_double = 1});
  test_model_scale_weights(&m, 30); /* energies, and so rounding errors, become large */
  test_model_write(&m, dir, "scaled", scaled_path, sizeof scaled_path);
  test_model_free(&m);
  expect(run("time '%s' '%s' --device cpu --calls 3", scaled_path, xyz_path), 0, "median");
  expect(run("time '%s' '%s' --device cpu --calls 3 --against cpu", scaled_path, xyz_path), 1, "fp32 on cpu (");
  ck_assert_ptr_nonnull(strstr(output, "is too far from fp64 on the CPU: energy by "));
  ck_assert_ptr_nonnull(strstr(output, "(tolerance 1e-05), forces by "));
  ck_assert_ptr_null(strstr(output, "median"));
}
END_TEST

/* What to write as a structure, and what the error says. */
static const char *const bad_structures[][2] = {
    {"", "no structure"},
    {"three\n", "expected the number of atoms, at least 1, not 'three': structures are read from extended XYZ files"},
    {"0\n\n", "at least 1, not '0'"},
    {"-1\n\n", "number of atoms"},
    {"1\n", "in.xyz:1: the comment line"},
    {"2\n\nH 0 0 0\n", "in.xyz:3: the file ends after 1 of 2 atoms"},
    {"1\n\nH 0 0\n", "in.xyz:3: atom 1 has 3 of 4 columns"},
    {"1\n\nH 0 0 zero\n", "pos of atom 1 is 'zero', not a number"},
    {"1\n\nH 0 0 nan\n", "pos of atom 1 is 'nan', not a finite number"},
    {"1\n\nHydrogen 0 0 0\n", "not a chemical symbol"},
    {"1\n\nXe 0 0 0\n", "'Xe', which is not an element of the model"},
    {"1\nLattice=\"1 2 3\"\nH 0 0 0\n", "Lattice must be nine numbers"},
    {"1\nLattice=\"1 0 0 0 1 0 0 0 1 5\"\nH 0 0 0\n", "Lattice must be nine numbers"},
    {"1\nLattice=\"1 0 0 0 1 0 0 0 9garbage\"\nH 0 0 0\n", "Lattice must be nine numbers"},
    {"1\nLattice=\"9 0 0 0 9 0 0 0 9\" pbc=\"Tx Ty Fz\"\nH 0 0 0\n", "three of T and F"},
    {"1\nLattice=\"9 0 0 0 9 0 0 0 9\" pbc=\"T T T F\"\nH 0 0 0\n", "three of T and F"},
    {"1\nLattice=\"1 0 0 0 1 0 0 0 0\"\nH 0 0 0\n", "dependent"},
    {"1\npbc=\"T T T\"\nH 0 0 0\n", "pbc without Lattice"},
    {"1\nLattice=\"1 0 0 0 1 0 0 0 1\" pbc=\"T T\"\nH 0 0 0\n", "three of T and F"},
    {"1\nProperties=species:S:1\nH 0 0 0\n", "must have species:S:1 (or Z:I:1) and pos:R:3"},
    {"2\n\nH 0 0 0\nH 0 0 0.1\n", "0.1000 A apart"},
    {"1\nLattice constant 4.05\nH 0 0 0\n", "in.xyz:2: the comment line cannot be read at 'Lattice constant"},
    {"1\nnote=\"a\" b\" pbc=\"T T F\"\nH 0 0 0\n", "in.xyz:2: the comment line cannot be read at"},
    {"1\nnote= pbc=\"F F F\"\nH 0 0 0\n", "this key has no value"},
    {"1\nname=a name=b\nH 0 0 0\n", "this key occurs twice"},
    {"1\nname=\xe9\nH 0 0 0\n", "byte 6 of the line (0xe9) is not UTF-8"},
    {"1\nProperties=species:S:1:pos:R:3:tag:I:1\nH 0 0 0 1.5\n", "tag of atom 1 is '1.5', not an integer"},
    {"1\nProperties=species:S:1:pos:R:3:move:L:1\nH 0 0 0 t\n", "move of atom 1 is 't', not T or F"},
    {"1\nProperties=species:S:1:pos:R:3:f:R:999999999\nH 0 0 0 1\n", "Properties must be triples"},
    {"1\nProperties=species:S:1:Z:I:1:pos:R:3\nH 2 0 0 0\n", "species and Z of atom 1 contradict"},
    {"99999999999\n\nH 0 0 0\n", "99999999999 atoms; a frame has at most 100000000"},
    {"99999999\n\nH 0 0 0\n", "the file ends after 1 of 99999999 atoms"},
    {"nan\n\nH 0 0 0\n", "expected the number of atoms"},
};
enum { N_BAD = sizeof bad_structures / sizeof *bad_structures };

START_TEST(bad_structure)
{
  write_text(xyz_path, bad_structures[_i][0]);
  const int numeric = strstr(bad_structures[_i][1], "apart") != NULL;
  expect(run("evaluate '%s' '%s'", model_path, xyz_path), numeric ? 1 : 2, bad_structures[_i][1]);
}
END_TEST

/* Long names end with a whole character; read errors and files that are not text are reported. */
START_TEST(unusual_files)
{
  static const char name[] = "name=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa9zz";
  char text[300];
  snprintf(text, sizeof text, "1\nLattice=\"9 0 0 0 9 0 0 0 9\" pbc=\"True F true\" %s\nH 0 0 0\n", name);
  write_text(xyz_path, text);
  expect(run("evaluate '%s' '%s' --json", model_path, xyz_path), 0, "aaaa\"");
  expect(run("evaluate '%s' /", model_path), 2, "read error: Is a directory");
  expect(run("evaluate '%s' /dev/zero", model_path), 2, "a NUL byte");
  expect(run("info /dev/zero"), 2, "is not a file");
  expect(run("info '%s' >/dev/full", model_path), 1, "");
  expect(run("check >/dev/full"), 1, "");
  FILE *out = fopen(xyz_path, "w");
  fputs("1\n", out);
  for (int k = 0; k <= 1 << 20; k++) fputc('a', out);
  fclose(out);
  expect(run("evaluate '%s' '%s'", model_path, xyz_path), 2, "in.xyz:2: the line has more than 1048576 bytes");
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("cli");
  TCase *t = tcase_create("cli");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, usage);
  tcase_add_test(t, numbers_of_options);
  tcase_add_test(t, info_and_verify);
  tcase_add_test(t, evaluate_writes_all_digits);
  tcase_add_test(t, evaluate_and_time_print);
  tcase_add_test(t, reports);
  tcase_add_test(t, scaling_reports);
  tcase_add_test(t, soak);
  tcase_add_test(t, time_against_cpu);
  tcase_add_test(t, python_commands);
  tcase_add_loop_test(t, bad_structure, 0, N_BAD);
  tcase_add_test(t, unusual_files);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  if (access(MLFF_TEST_BINARY_DIR "/mlff", X_OK)) {
    test_skip("the program mlff was not built");
    return 77;
  }
  return test_main(suite);
}
