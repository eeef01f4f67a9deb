/* test_modelfile.c: good model files are read, and every kind of damage to the YAML is refused with its line. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "testmodel.h"

#include "base/number.h"
#include "model/modelfile_impl.h"
#include "model/sha256.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a file with a block of every type -------------------------------------------------------------------------- */

static const char blocks[] = "ani:\n"
                             "  n: 3\n"
                             "  x: 2.5e-1\n"
                             "  word: alpha\n"
                             "  list: [1, 2.5, -3e2]\n"
                             "  names: [a, b]\n"
                             "  inner: {deep: {n: 7}}\n"
                             "provenance";

static test_model make_file(void)
{
  test_model m = test_model_ani((test_model_options){.seed = 3});
  char *from = strstr(m.yaml, "ani:\n"), *to = strstr(m.yaml, "provenance");
  char *rest = malloc(strlen(to) + 1);
  strcpy(rest, to + strlen("provenance"));
  *from = 0;
  char *yaml = malloc(strlen(m.yaml) + sizeof blocks + strlen(rest));
  sprintf(yaml, "%s%s%s", m.yaml, blocks, rest);
  free(rest);
  free(m.yaml);
  m.yaml = yaml;
  m.yaml_size = strlen(yaml);
  test_model_set_two_tensors(&m);
  return m;
}

/* "dir/test.yaml:LINE: " of the first line that contains `part`. */
static const char *line_with(const test_model *m, const char *part)
{
  static char text[64];
  const char *at = strstr(m->yaml, part);
  int line = 1;
  if (!at) ck_abort_msg("'%s' is not in the file", part);
  for (const char *p = m->yaml; p < at; p++) line += *p == '\n';
  snprintf(text, sizeof text, "dir/test.yaml:%d: ", line);
  return text;
}

/* ---- good files ------------------------------------------------------------------------------------------------- */

START_TEST(head_is_read)
{
  test_model m = make_file();
  mlff_modelfile *file = test_model_must_parse(&m);
  const mlff_modelfile_head *h = mlff_modelfile_get_head(file);
  ck_assert_str_eq(h->name, "test");
  ck_assert_str_eq(h->architecture, "ani");
  ck_assert_int_eq(h->n_elements, 2);
  ck_assert_str_eq(h->elements[0], "H");
  ck_assert_int_eq(h->trained[0], 1);
  near_one(h->cutoff, 4.0, 0);
  near_one(h->energy_in_ev, 1.0, 0);
  near_one(h->min_distance, 0.3, 1e-15);
  near_all(h->offsets, ((double[]){-13.6, -27.2}), 2, 1e-12, 0);
  ck_assert_int_eq(mlff_modelfile_n_parameters(file), 10);
  mlff_modelfile_free(file);
  mlff_modelfile_free(NULL);
  test_model_free(&m);
}
END_TEST

/* The hash is computed also for a file without header_sha256. */
START_TEST(header_is_hashed)
{
  test_model m = make_file();
  mlff_error error = {.code = MLFF_OK};
  char stated[100];
  mlff_modelfile *file = test_model_must_parse(&m);
  const mlff_modelfile_head *h = mlff_modelfile_get_head(file);
  ck_assert_uint_eq(strlen(h->header_sha256), 64);
  ck_assert_int_eq(h->header_is_hashed, 0);
  snprintf(stated, sizeof stated, "header_sha256: %s\nname: test", h->header_sha256);
  mlff_modelfile_free(file);
  test_model_edit(&m, "name: test", stated);
  test_model_edit(&m, "cutoff: 4", "cutoff:   4.00 # a comment");
  test_model_edit(&m, "name: test", "name: other");
  file = test_model_must_parse(&m);
  ck_assert_int_eq(mlff_modelfile_get_head(file)->header_is_hashed, 1);
  mlff_modelfile_free(file);
  file = NULL;
  test_model_edit(&m, "H: -13.6", "H: -13.7");
  test_fails(mlff_modelfile_parse("m.yaml", m.yaml, m.yaml_size, m.weights, m.weights_size, &file, &error), error,
             MLFF_E_FORMAT, "after a deliberate edit run `python -m mlff_tools selftest m.yaml --header` [mlff-27]");
  test_model_free(&m);
}
END_TEST

START_TEST(repulsion_is_read)
{
  test_model m = make_file();
  test_model_repel(&m, "O-H: 0.85, O-O: 4.0");
  mlff_modelfile *file = test_model_must_parse(&m);
  near_all(mlff_modelfile_get_head(file)->repulsion, ((double[]){0, 0.85, 0.85, 4}), 4, 0, 0);
  mlff_modelfile_free(file);
  test_model_edit(&m, "{kind: zbl,", "{kind: zbl, unit: nm,");
  file = test_model_must_parse(&m);
  mlff_error error = {.code = MLFF_OK};
  test_fails(mlff_modelfile_finish(file, &error), error, MLFF_E_FORMAT, "unknown key");
  mlff_modelfile_free(file);
  test_model_free(&m);
}
END_TEST

/* The domain is read, returned by mlff_info and printed; missing keys are unknown. */
START_TEST(domain_is_told)
{
  for (int has_all = 1; has_all >= 0; has_all--) {
    test_model m = test_model_ani((test_model_options){.seed = 3});
    test_model_edit(&m, "  density: [0.95, 1.05]\n",
                    has_all
                        ? "  density: [0.95, 1.05]\n  distances: {O-H: 0.85, O-O: 4, H-H: 1.2}\n  pressure: [-1, 2.5]\n"
                          "  max_force: 7.5\n  triples: {O: {H-H: 1.1, O-H: 4}, H: {H-H: 1.3}}\n"
                        : "");
    if (has_all)
      test_model_edit(&m, "accuracy: {description: none,",
                      "accuracy: {description: none, caution: ice melts at 200 K,");
    else
      test_model_edit(&m, "  temperature: [280, 400]\n", "");
    mlff_model *model = test_model_open(&m, "fp64");
    const mlff_info *info = mlff_model_info(model);
    char *said = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&said, &size);
    mlff_model_print(model, out);
    fclose(out);
    if (has_all) {
      near_all(info->temperature, ((double[]){280, 400}), 2, 0, 0);
      near_all(info->density, ((double[]){0.95, 1.05}), 2, 0, 0);
      near_all(info->distances, ((double[]){1.2, 0.85, 0.85, 4}), 4, 0, 0);
      ck_assert_msg(strstr(said, "  temperature  280 to 400 K\n  density      0.95 to 1.05 g/cm3\n"
                                 "  pressure     -1 to 2.5 GPa, without its kinetic part\n"
                                 "  forces       up to 7.5 eV/A\n"
                                 "  shortest     H-H 1.2, H-O 0.85, O-O 4 A\n"
                                 "  both near H   H-H 1.3 A\n  both near O   H-H 1.1, H-O 4 A\n") != NULL,
                    "%s", said);
      near_all(info->pressure, ((double[]){-1, 2.5}), 2, 0, 0);
      near_all(info->triples, ((double[]){1.3, 0, 0, 0, 1.1, 4, 4, 0}), 8, 0, 0);
      near_one(info->max_force, 7.5, 0);
      ck_assert(!strstr(said, "not known"));
      ck_assert_str_eq(info->caution, "ice melts at 200 K");
      ck_assert(strstr(said, "  caution      ice melts at 200 K\n"));
    } else {
      ck_assert(!info->temperature && !info->density && !info->distances && !info->caution);
      ck_assert(!info->pressure && !info->triples && info->max_force == 0);
      ck_assert(!strstr(said, "shortest") && !strstr(said, "both near") && !strstr(said, "GPa"));
      ck_assert(
          strstr(said,
                 "  not known    temperature, density, pressure, largest force, pairs, triples: not in the file"));
    }
    free(said);
    mlff_model_close(model);
    test_model_free(&m);
  }
}
END_TEST

START_TEST(numbers_of_elements)
{
  for (int z = 1; z <= 118; z++) ck_assert_int_eq(mlff_atomic_number(test_symbol(z)), z);
  static const char *const wrong[] = {"", "h", "X", "Hh", "H ", "Og "};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) ck_assert_int_eq(mlff_atomic_number(wrong[k]), 0);
}
END_TEST

static void read_all(mlff_modelfile *file)
{
  mlff_error error = {.code = MLFF_OK};
  const mlff_yaml *b = NULL, *inner = NULL, *deep = NULL;
  const double *numbers = NULL;
  const char *text = NULL, *const *names = NULL;
  double x = 0;
  int n = 0;
  static const char *const choices[] = {"beta", "alpha", NULL};
  test_ok(mlff_yaml_map(file, mlff_modelfile_root(file), "ani", &b, &error), error);
  test_ok(mlff_yaml_int(file, b, "n", 1, 3, &n, &error), error);
  ck_assert_int_eq(n, 3);
  test_ok(mlff_yaml_double(file, b, "x", 0, 1, &x, &error), error);
  near_one(x, 0.25, 0);
  test_ok(mlff_yaml_string(file, b, "word", &text, &error), error);
  ck_assert_str_eq(text, "alpha");
  test_ok(mlff_yaml_choice(file, b, "word", choices, &n, &error), error);
  ck_assert_int_eq(n, 1);
  test_ok(mlff_yaml_doubles(file, b, "list", -1, &numbers, &n, &error), error);
  ck_assert_int_eq(n, 3);
  near_all(numbers, ((double[]){1, 2.5, -300}), 3, 0, 0);
  test_ok(mlff_yaml_strings(file, b, "names", &names, &n, &error), error);
  ck_assert_int_eq(n, 2);
  ck_assert_str_eq(names[1], "b");
  test_ok(mlff_yaml_map(file, b, "inner", &inner, &error), error);
  test_ok(mlff_yaml_map(file, inner, "deep", &deep, &error), error);
  test_ok(mlff_yaml_int(file, deep, "n", 0, 10, &n, &error), error);
  ck_assert_int_eq(n, 7);
  mlff_yaml_optional(file, b, "absent", &inner);
  ck_assert_ptr_null(inner);
  mlff_yaml_optional(file, mlff_modelfile_root(file), "self_test", &inner);
  ck_assert_ptr_nonnull(inner);
}

static void read_tensors(mlff_modelfile *file, const char *name, int rank, int64_t n0, int64_t n1)
{
  mlff_error error = {.code = MLFF_OK};
  double *values = NULL;
  test_ok(mlff_modelfile_tensor(file, name, rank, (int64_t[]){n0, n1}, &values, &error), error);
  test_rng rng = {5};
  if (rank == 2) near_one(values[0], (double) (float) test_normal(&rng), 0);
  free(values);
}

/* self_test's own keys are read by model.c; here they stay unread, and are the last unknown ones. */
START_TEST(getters_and_unused_parts)
{
  test_model m = make_file();
  mlff_modelfile *file = test_model_must_parse(&m);
  mlff_error error = {.code = MLFF_OK};
  test_fails(mlff_modelfile_finish(file, &error), error, MLFF_E_FORMAT, "ani: unknown key");
  read_all(file);
  test_fails(mlff_modelfile_finish(file, &error), error, MLFF_E_FORMAT, "self_test.origin: unknown key");
  ck_assert_ptr_nonnull(strstr(error.text, line_with(&m, "origin:")));
  mlff_modelfile_free(file);
  test_model_edit(&m, "structures: []", "structures: [1]");
  *strstr(m.yaml, "self_test:") = 0; /* without that block */
  m.yaml_size = strlen(m.yaml);
  test_model_edit(&m, "accuracy", "self_test: none\naccuracy");
  file = test_model_must_parse(&m);
  read_all(file);
  test_fails(mlff_modelfile_finish(file, &error), error, MLFF_E_FORMAT, "tensor 'a.weight'");
  read_tensors(file, "a.weight", 2, 2, 3);
  ck_assert(mlff_modelfile_has_tensor(file, "b") && !mlff_modelfile_has_tensor(file, "c"));
  test_fails(mlff_modelfile_finish(file, &error), error, MLFF_E_FORMAT, "tensor 'b'");
  read_tensors(file, "b", 1, 4, 0);
  test_ok(mlff_modelfile_finish(file, &error), error);
  mlff_modelfile_free(file);
  test_model_free(&m);
}
END_TEST

/* Numbers are read the same where the decimal point is a comma. */
START_TEST(locale_does_not_matter)
{
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.UTF-8"};
  double x = 0;
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (setlocale(LC_NUMERIC, names[k])) break;
  ck_assert_int_eq(mlff_number_parse("-1.25e+2", &x), 1);
  near_one(x, -125.0, 0);
  ck_assert_int_eq(mlff_number_parse("1,5", &x), 0);
}
END_TEST

START_TEST(numbers)
{
  static const char *const good[] = {"0", "1.", ".5", "+2e3", "1E-2", "-0.0"};
  static const double values[] = {0, 1, 0.5, 2000, 0.01, 0};
  static const char *const bad[] = {"",     ".",   "e5",    "1e",  "1e+",   "0x10", "nan",
                                    ".nan", "inf", "1e999", "1 2", "1_000", "--1"};
  double x = 0;
  int64_t n = 0;
  for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
    ck_assert_msg(mlff_number_parse(good[k], &x), "%s", good[k]);
    near_one(x, values[k], 0);
  }
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) ck_assert_msg(!mlff_number_parse(bad[k], &x), "%s", bad[k]);
  ck_assert(mlff_integer_parse("-42", &n) && n == -42);
  ck_assert(!mlff_integer_parse("1.0", &n) && !mlff_integer_parse("", &n) && !mlff_integer_parse("1e3", &n));
  ck_assert(!mlff_integer_parse("9999999999999999999", &n));
}
END_TEST

/* FIPS 180-4 examples and lengths around a block. */
START_TEST(sha256)
{
  char hex[65], million[1000];
  mlff_sha256_hex("", 0, hex);
  ck_assert_str_eq(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  mlff_sha256_hex("abc", 3, hex);
  ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  mlff_sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
  ck_assert_str_eq(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  memset(million, 'a', sizeof million);
  mlff_sha256_hex(million, 55, hex);
  ck_assert_str_eq(hex, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  mlff_sha256_hex(million, 64, hex);
  ck_assert_str_eq(hex, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  mlff_sha256_hex(million, 1000, hex);
  ck_assert_str_eq(hex, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}
END_TEST

/* ---- damaged YAML ----------------------------------------------------------------------------------------------- */

/* What to replace by what; the error names the line of `where` and says `text`. */
typedef struct damage {
  const char *old, *changed, *where, *text;
} damage;

/* A block that is wrong: what to replace, by what, and where the error is. */
#define REPEL(text) "name: test", "name: test\nrepulsion: " text, "repulsion"
#define SHORTEST(text) "  density: [", "  distances: " text "\n  density: [", "  distances"
#define TRAINED(text) "domain:\n  elements: [H, O]", "domain:\n  elements: [H]\n  distances: " text, "  distances"

#define TRIPLES(text) "  density: [", "  distances: {H-O: 1, O-O: 2}\n  triples: " text "\n  density: [", "  triples"

static const damage damages[] = {
    {"format: mlff/1", "format: mlff/2", "format", "reads 'mlff/1'"},
    {"format: mlff/1\n", "", NULL, "it has no key 'format'; 'mlff convert' makes one"},
    {"name: test", "name: [test]", "name", "must be a value, not a sequence"},
    {"name: test", "name: ''", "name", "is empty"},
    {"name: test", "nome: test", NULL, "key 'name' is missing"},
    {"name: test", "name: test\nname: again", "name: again", "is a duplicate of line 2"},
    {"cutoff: 4", "cutoff: '4'", "cutoff", "not a finite number"},
    {"cutoff: 4", "cutoff: four", "cutoff", "'four' is not a finite number"},
    {"cutoff: 4", "cutoff: .inf", "cutoff", "not a finite number"},
    {"cutoff: 4", "cutoff: -4", "cutoff", "expected 0.1 to 100"},
    {"elements: [H, O]", "elements: [H, Ox]", "elements", "'Ox' is not a chemical symbol"},
    {"elements: [H, O]", "elements: [H, h]", "elements", "'h' is not a chemical symbol"},
    {"elements: [H, O]", "elements: [H, H]", "elements", "H is a duplicate"},
    {"elements: [H, O]", "elements: []", "elements", "has 0 elements"},
    {"elements: [H, O]", "elements: H", "elements", "must be a sequence, not a value"},
    {"elements: [H, O]", "elements: [H, [O]]", "elements", "must be text, not sequence"},
    {"elements: [H, O]", "elements: [H, C]", "energy_offsets", "key 'C' is missing"},
    {"{H: -13.6", "{H: x", "energy_offsets", "energy_offsets.H: 'x' is not a finite number"},
    {"length: angstrom", "length: bohr", "units", "is 'bohr', expected one of: angstrom"},
    {"energy: eV", "energy: rydberg", "units", "is 'rydberg', expected one of: eV, hartree, kcal/mol"},
    {"energy_in_eV: 1", "energy_in_eV: 27.2", "units", "one eV is about 1"},
    {"file: test.safetensors", "file: ../test.safetensors", "weights: {", "without directories"},
    {"sha256: ", "sha256: Z", "weights: {", "64 lower-case hex digits"},
    {"license: MIT", "licence: MIT", "provenance", "key 'license' is missing"},
    {"min_distance: 0.", "min_distance: 9.", "min_distance", "expected 0 to 4"},
    {"temperature: [280, 400]", "temperature: [400, 280]", "temperature", "expected 0 <= low <= high"},
    {"temperature: [280, 400]", "temperature: [280]", "temperature", "has 1 numbers, expected 2"},
    {"temperature: [280, 400]", "temperature: [280, hot]", "temperature", "'hot' is not a finite number"},
    {"temperature: [280, 400]", "temperature: 280", "temperature", "must be a sequence, not a value"},
    {"density: [0.95, 1.05]", "density: [-1, 1]", "density", "is [-1, 1], expected 0 <= low <= high"},
    {"density: [0.95, 1.05]", "density: [0.95, .nan]", "density", "not a finite number"},
    {SHORTEST("0.85"), "domain.distances: must be a mapping, not a value"},
    {SHORTEST("[0.85]"), "must be a mapping, not a sequence"},
    {SHORTEST("{}"), "has no pair; remove the key"},
    {SHORTEST("{HO: 1}"), "distances.HO: must be two elements, such as H-O"},
    {SHORTEST("{H-N: 1}"), "'N' is not among the model's elements"},
    {SHORTEST("{H-O: [1]}"), "must be a value, not a sequence"},
    {SHORTEST("{H-O: near}"), "'near' is not a finite number"},
    {SHORTEST("{H-O: 0}"), "is 0 A, expected a distance above 0"},
    {SHORTEST("{H-O: 4.01}"), "expected a distance above 0 and up to the cutoff 4 A"},
    {SHORTEST("{H-O: 1, O-H: 1}"), "O-H is a duplicate of H-O"},
    {SHORTEST("{O-O: 2.2, H-O: 0.29}"), "H-O is 0.29 A, less than min_distance, 0.3 A"},
    {TRAINED("{H-H: 1, H-O: 1}"), "O is not among domain.elements"},
    {"  density: [", "  pressure: [2, 1]\n  density: [", "  pressure", "is [2, 1], expected low <= high"},
    {"  density: [", "  max_force: -1\n  density: [", "  max_force", "expected 0 to 1e+09"},
    {"  density: [", "  triples: {O: {O-O: 2}}\n  density: [", "  triples", "requires domain.distances"},
    {TRIPLES("2"), "must be a mapping, not a value"},
    {TRIPLES("{O: 2}"), "triples.O: must be a mapping, not a value"},
    {TRIPLES("{O: {O-O: 5}}"), "up to the cutoff 4 A"},
    {TRIPLES("{O: {H-H: 1, O-H: 1.9}}"), "O: H-O is 1.9 A, less than 2 A, the shortest distance of its pairs"},
    {TRIPLES("{H: {H-O: 3}}"), "H: H-O has pairs that are not in domain.distances"},
    {"domain:\n  elements: [H, O]", "domain:\n  elements: [H, N]", "domain:\n  elements", NULL},
    {"accuracy: {description: none,", "accuracy: {", "accuracy", "key 'description' is missing"},
    {"accuracy: {", "accuracy: [", "accuracy", "not valid YAML"},
    {REPEL("none"), "must be a mapping, not a value"},
    {REPEL("{kind: zbl}"), "key 'cutoffs' is missing"},
    {REPEL("{cutoffs: {H-O: 1}}"), "key 'kind' is missing"},
    {REPEL("{kind: born, cutoffs: {H-O: 1}}"), "is 'born', expected one of: zbl"},
    {REPEL("{kind: zbl, cutoffs: 1.0}"), "must be a mapping, not a value"},
    {REPEL("{kind: zbl, cutoffs: {}}"), "has no pair; remove the block repulsion"},
    {REPEL("{kind: zbl, cutoffs: {HO: 1}}"), "cutoffs.HO: must be two elements, such as H-O"},
    {REPEL("{kind: zbl, cutoffs: {H-C: 1}}"), "cutoffs.H-C: 'C' is not among the model's elements"},
    {REPEL("{kind: zbl, cutoffs: {Q-H: 1}}"), "'Q' is not among the model's elements"},
    {REPEL("{kind: zbl, cutoffs: {-H: 1}}"), "'' is not among the model's elements"},
    {REPEL("{kind: zbl, cutoffs: {H-O-H: 1}}"), "'O-H' is not among the model's elements"},
    {REPEL("{kind: zbl, cutoffs: {H-O: [1]}}"), "must be a value, not a sequence"},
    {REPEL("{kind: zbl, cutoffs: {H-O: short}}"), "'short' is not a finite number"},
    {REPEL("{kind: zbl, cutoffs: {H-O: .nan}}"), "not a finite number"},
    {REPEL("{kind: zbl, cutoffs: {H-O: 0}}"), "is 0 A, expected a distance above 0"},
    {REPEL("{kind: zbl, cutoffs: {H-O: -1}}"), "is -1 A, expected a distance above 0"},
    {REPEL("{kind: zbl, cutoffs: {H-O: 4.01}}"), "is 4.01 A, expected a distance above 0 and up to the cutoff 4"},
    {REPEL("{kind: zbl, cutoffs: {H-O: 1, O-H: 1}}"), "O-H is a duplicate of H-O"},
    {REPEL("{kind: zbl, cutoffs: {H-O: 1, H-O: 1}}"), "is a duplicate of line"},
    {"name: test", "name: &a test", "name", "anchors and aliases"},
    {"name: test", "name: *a", "name", "anchors and aliases"},
    {"name: test", "name: !!str test", "name", "tags"},
    {"name: test", "? [x]\n: test", "? [x]", "keys must be plain text"},
    {"name: test", "name: test\n--- \nb: c", "--- ", "second document"},
    {"name: test", "name: \"\\x00\"", "name", "zero byte"},
    {"name: test", "name: \"\\e[31mred\"", "name", "has a control character"},
    {"name: test", "name: \"\\x9b31mred\"", "name", "has a control character"},
    {"name: test", "name: \xff\xfe", NULL, "not valid YAML"},
    {"name: test", "name: test\n\tx: 1", NULL, "not valid YAML"},
};
enum { N_DAMAGES = sizeof damages / sizeof *damages };

START_TEST(damaged_yaml)
{
  const damage *d = &damages[_i];
  test_model m = make_file();
  mlff_error error = {.code = MLFF_OK};
  mlff_modelfile *file = NULL;
  test_model_edit(&m, d->old, d->changed);
  test_fails(test_model_parse(&m, &file, &error), error, MLFF_E_FORMAT,
             d->text ? d->text : "'N' is not among the model's elements");
  ck_assert_ptr_null(file);
  if (d->where && !d->text)
    ck_assert_ptr_nonnull(strstr(error.text, "domain.elements"));
  else if (d->where) {
    const char *line = line_with(&m, d->where);
    if (strncmp(error.text, line, strlen(line))) ck_abort_msg("expected %s..., got: %s", line, error.text);
  } else {
    ck_assert_ptr_eq(strstr(error.text, "dir/test.yaml:"), error.text);
  }
  ck_assert_int_eq(test_model_parse(&m, &file, NULL), MLFF_E_FORMAT); /* without a place for the text */
  test_model_free(&m);
}
END_TEST

START_TEST(damaged_documents)
{
  static const char *const texts[] = {"",         "   \n",    "# nothing\n", "[1, 2]", "just text",
                                      "a: [1, 2", "a: {b: c", "\"",          "a: b: c"};
  test_model m = make_file();
  mlff_error error = {.code = MLFF_OK};
  mlff_modelfile *file = NULL;
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
    test_fails(mlff_modelfile_parse("x.yaml", texts[k], strlen(texts[k]), m.weights, m.weights_size, &file, &error),
               error, MLFF_E_FORMAT, "x.yaml");
  char deep[200];
  memset(deep, '[', sizeof deep);
  test_fails(mlff_modelfile_parse("x.yaml", deep, sizeof deep, m.weights, m.weights_size, &file, &error), error,
             MLFF_E_FORMAT, "nested more than");
  for (size_t n = 0; n < m.yaml_size; n += 7) { /* cut off anywhere, also without a terminating zero */
    char *cut = malloc(n ? n : 1);
    memcpy(cut, m.yaml, n);
    const mlff_status status = mlff_modelfile_parse("x.yaml", cut, n, m.weights, m.weights_size, &file, &error);
    if (!status) mlff_modelfile_free(file); /* cut inside self_test, which is read later */
    ck_assert(status == MLFF_E_FORMAT || n > (size_t) (strstr(m.yaml, "self_test:") - m.yaml) - 8);
    free(cut);
  }
  test_model_free(&m);
}
END_TEST

START_TEST(wrong_types_in_a_block)
{
  test_model m = make_file();
  mlff_modelfile *file = test_model_must_parse(&m);
  mlff_error error = {.code = MLFF_OK};
  const mlff_yaml *b = NULL, *child = NULL;
  const double *v = NULL;
  const char *const *s = NULL;
  const char *text = NULL;
  double x = 0;
  int n = 0;
  static const char *const choices[] = {"beta", NULL};
  test_ok(mlff_yaml_map(file, mlff_modelfile_root(file), "ani", &b, &error), error);
  test_fails(mlff_yaml_int(file, b, "n", 4, 9, &n, &error), error, MLFF_E_FORMAT, "ani.n: is 3, expected 4 to 9");
  ck_assert_ptr_nonnull(strstr(error.text, line_with(&m, "  n: 3")));
  test_fails(mlff_yaml_int(file, b, "x", 0, 9, &n, &error), error, MLFF_E_FORMAT, "'2.5e-1' is not a whole number");
  test_fails(mlff_yaml_int(file, b, "absent", 0, 9, &n, &error), error, MLFF_E_FORMAT, "ani: key 'absent' is missing");
  test_fails(mlff_yaml_double(file, b, "word", 0, 9, &x, &error), error, MLFF_E_FORMAT,
             "'alpha' is not a finite number");
  test_fails(mlff_yaml_double(file, b, "x", 1, 9, &x, &error), error, MLFF_E_FORMAT, "is 0.25, expected 1 to 9");
  test_fails(mlff_yaml_string(file, b, "inner", &text, &error), error, MLFF_E_FORMAT, "must be a value, not a mapping");
  test_fails(mlff_yaml_choice(file, b, "word", choices, &n, &error), error, MLFF_E_FORMAT, "expected one of: beta");
  test_fails(mlff_yaml_doubles(file, b, "list", 2, &v, &n, &error), error, MLFF_E_FORMAT, "has 3 numbers, expected 2");
  test_fails(mlff_yaml_doubles(file, b, "names", -1, &v, &n, &error), error, MLFF_E_FORMAT, "ani.names[0]: 'a'");
  test_fails(mlff_yaml_strings(file, b, "inner", &s, &n, &error), error, MLFF_E_FORMAT, "must be a sequence");
  test_fails(mlff_yaml_map(file, b, "list", &child, &error), error, MLFF_E_FORMAT, "must be a mapping, not a sequence");
  test_fails(mlff_yaml_fail(file, b, &error, "too %s", "odd"), error, MLFF_E_FORMAT, "ani: too odd");
  mlff_modelfile_free(file);
  test_model_free(&m);
}
END_TEST

/* ---- whole models: blocks that model.c and the architectures read ------------------------------------------------ */

static const damage model_damages[] = {
    {"self_test:", "selftest:", NULL, "key 'self_test' is missing"},
    {"fp64: {energy: 1.0e-8", "fp64: {energy: 100", "fp64", "expected 1e-14 to 10"},
    {"fp32: {", "fp23: {", "  tolerance", "self_test.tolerance: key 'fp32' is missing"},
    {"structures: []", "structures: none", "structures", "must be a sequence"},
    {"structures: []", "structures: [x]", "structures", "must be a mapping"},
    {"structures: []", "structures: [{name: a, elements: [N]}]", "structures", "'N' is not among"},
    {"structures: []", "structures: [{name: a, elements: [H], positions: [[0, 0]]}]", "structures",
     "sequence of 3 numbers"},
    {"structures: []", "structures: [{name: a, elements: [H, H], positions: [[0, 0, 0]]}]", "structures",
     "has 1 rows, expected 2"},
    {"structures: []", "structures: [{name: a, elements: [H], positions: [[0, 0, 0]], cell: cubic}]", "structures",
     "is 'cubic', expected none"},
    {"structures: []", "structures: []\n  extra: 1", "extra", "unknown key"},
    {"architecture: ani", "architecture: alchemy", "architecture", "'alchemy' is not in this build"},
    {"description: random weights", "descriptoin: random weights", "descriptoin", "unknown key"},
    {"accuracy: {", "accuracy: {force_rmse: 3, ", "accuracy", "accuracy.force_rmse: unknown key"},
    {"energy_offsets: {", "energy_offsets: {C: 3, ", "energy_offsets", "energy_offsets.C: unknown key"},
};
enum { N_MODEL_DAMAGES = sizeof model_damages / sizeof *model_damages };

START_TEST(damaged_models)
{
  const damage *d = &model_damages[_i];
  test_model m = test_model_ani((test_model_options){.seed = 3});
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  test_model_edit(&m, d->old, d->changed);
  test_fails(test_model_try(&m, NULL, &model, &error), error, MLFF_E_FORMAT, d->text);
  if (d->where) {
    const char *line = line_with(&m, d->where);
    if (strncmp(error.text, line, strlen(line))) ck_abort_msg("expected %s..., got: %s", line, error.text);
  }
  ck_assert_ptr_null(model);
  test_model_free(&m);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("modelfile");
  TCase *good = tcase_create("good");
  tcase_add_test(good, head_is_read);
  tcase_add_test(good, header_is_hashed);
  tcase_add_test(good, repulsion_is_read);
  tcase_add_test(good, domain_is_told);
  tcase_add_test(good, numbers_of_elements);
  tcase_add_test(good, getters_and_unused_parts);
  tcase_add_test(good, locale_does_not_matter);
  tcase_add_test(good, numbers);
  tcase_add_test(good, sha256);
  suite_add_tcase(s, good);
  TCase *yaml = tcase_create("yaml");
  tcase_add_loop_test(yaml, damaged_yaml, 0, N_DAMAGES);
  tcase_add_test(yaml, damaged_documents);
  tcase_add_test(yaml, wrong_types_in_a_block);
  tcase_add_loop_test(yaml, damaged_models, 0, N_MODEL_DAMAGES);
  suite_add_tcase(s, yaml);
  return s;
}

int main(void)
{
  return test_main(suite);
}
