/* fuzz_modelfile.c: bytes as model files, which are opened and, when that works, evaluated.
 *
 * Input: YAML, a zero byte, the weights (fuzz_weights of fuzz.h). The hash in the YAML is put right, because otherwise
 * nearly every change of the weights would end there. A failure must have a text, and what was opened must give finite
 * numbers or a status. What was opened, or failed its self-test alone, is opened again with options.
 */
#define _GNU_SOURCE /* memmem */

#include "fuzz.h"
#include "edits.h"
#include "testmodel.h"

#include "model/sha256.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_hash(char *yaml, const void *weights, size_t weights_size)
{
  char hex[65];
  char *at = strstr(yaml, "sha256: ");
  mlff_sha256_hex(weights, weights_size, hex);
  if (at && strlen(at) > 8 + 64) memcpy(at + 8, hex, 64);
}

static void evaluate(mlff_model *model)
{
  static const double pos[3][3] = {{0, 0, 0}, {0.95, 0, 0}, {0, 0.9, 0.4}};
  const int32_t species[3] = {0, 0, 0};
  double forces[3][3];
  mlff_result result = {.forces = forces};
  mlff_system *system = NULL;
  mlff_error error = {.text = ""};
  if (mlff_system_create(3, species, pos, NULL, NULL, mlff_model_info(model)->cutoff, &system, &error))
    fuzz_stop("no list of three atoms", error.text);
  const mlff_status status = mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, &error);
  if (!status && !isfinite(result.energy)) fuzz_stop("the energy is not finite", "");
  if (status && !error.text[0]) fuzz_stop("no evaluation, without a text", "");
  fuzz_n_accepted += !status;
  fuzz_n_refused += status != MLFF_OK;
  mlff_system_free(system);
}

/* With one element, one member, and tables of radial functions: the self-tests say that they are of more. */
static void open_parts(const char *yaml, size_t n, const unsigned char *weights, size_t n_weights)
{
  static const char *const elements[] = {"H"};
  const mlff_options parts[] = {{.skip_self_test = 1, .elements = elements, .n_elements = 1},
                                {.skip_self_test = 1, .members = "0"},
                                {.skip_self_test = 1, .radial_intervals = "100"}};
  for (int p = 0; p < (int) (sizeof parts / sizeof *parts); p++) {
    mlff_error error = {.text = ""};
    mlff_model *model = NULL;
    if (mlff_model_open_memory("part.yaml", yaml, n, weights, n_weights, &parts[p], &model, &error)) {
      if (!error.text[0] || model) fuzz_stop("a part is refused without a text, or with a model", error.text);
      continue;
    }
    for (int k = 0; k < mlff_model_n_self_tests(model); k++) {
      mlff_self_test test;
      if (mlff_model_self_test(model, k, &test, &error) && !error.text[0])
        fuzz_stop("no self-test, without a text", "");
    }
    mlff_model_close(model);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *end = size ? memchr(data, 0, size) : NULL;
  const size_t n = end ? (size_t) (end - data) : size, n_rest = end ? size - n - 1 : 0;
  size_t n_weights = 0;
  char *yaml = malloc(n + 1);
  unsigned char *weights = fuzz_weights(end ? end + 1 : data, n_rest, &n_weights);
  if (!yaml) fuzz_stop("out of memory", "");
  if (n) memcpy(yaml, data, n);
  yaml[n] = 0;
  put_hash(yaml, weights, n_weights);
  mlff_error error = {.text = ""};
  mlff_model *model = NULL;
  const mlff_status status = mlff_model_open_memory("fuzz.yaml", yaml, n, weights, n_weights, NULL, &model, &error);
  if (status && (!error.text[0] || model)) fuzz_stop("refused without a text, or with a model", error.text);
  if (!status && !model) fuzz_stop("opened without a model", "");
  if (!status || status == MLFF_E_NUMERIC) open_parts(yaml, n, weights, n_weights);
  free(yaml);
  free(weights);
  if (status)
    fuzz_n_refused++;
  else
    evaluate(model);
  mlff_model_close(model);
  return 0;
}

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

/* The weights without the length of their header, with a line feed behind it. */
static void add_seed(const char *name, const test_model *m)
{
  const unsigned char *w = m->weights;
  const size_t n_header = (size_t) w[0] | (size_t) w[1] << 8 | (size_t) w[2] << 16;
  const size_t size = m->yaml_size + 1 + m->weights_size - 8 + 1;
  uint8_t *data = malloc(size), *at = data;
  if (!data) fuzz_stop("out of memory", "");
  memcpy(at, m->yaml, m->yaml_size + 1);
  memcpy(at += m->yaml_size + 1, w + 8, n_header);
  *(at += n_header) = '\n';
  memcpy(at + 1, w + 8 + n_header, m->weights_size - 8 - n_header);
  fuzz_seed(name, data, size);
  free(data);
}

/* A model of this architecture with one place of its YAML, or of the header of its weights, changed. */
static void add_edit(int arch, const fuzz_edit *edit, int number)
{
  char name[80];
  test_model model = test_model_of_arch(arch);
  test_model_repel(&model, "H-H: 1.1, C-O: 1.6");
  if (strstr(model.yaml, edit->old)) {
    test_model_edit(&model, edit->old, edit->text);
  } else {
    char *at = memmem(model.weights, model.weights_size, edit->old, strlen(edit->old));
    if (!at || strlen(edit->old) != strlen(edit->text)) fuzz_stop("cannot be edited in", edit->old);
    memcpy(at, edit->text, strlen(edit->text));
  }
  snprintf(name, sizeof name, "%s-%s-%d", edit->is_good ? "good" : "bad", test_archs[arch].name, number);
  add_seed(name, &model);
  test_model_free(&model);
}

/* The list behind `key` of a block, as n zeros. */
static void lengthen(test_model *model, const char *block, const char *key, int n)
{
  const char *at = strstr(strstr(model->yaml, block), key), *end = strchr(at, ']') + 1;
  char *old = strndup(at, (size_t) (end - at)), *with = malloc(strlen(key) + 2 * (size_t) n + 8);
  if (!old || !with) fuzz_stop("out of memory", "");
  char *to = with + sprintf(with, "%s[0", key);
  for (int k = 1; k < n; k++) to += sprintf(to, ",0");
  strcpy(to, "]");
  test_model_edit(model, old, with);
  free(old);
  free(with);
}

/* An ANI with more columns of descriptors than there may be. */
static void add_wide(int arch)
{
  test_model model = test_model_of_arch(arch);
  lengthen(&model, "angular: {", "shifts: ", 600);
  lengthen(&model, "angular: {", "sections: ", 600);
  add_seed("bad-ani-wide", &model);
  test_model_free(&model);
}

static void make_seeds(void)
{
  char name[80];
  for (int k = 0; k < test_n_archs(); k++) {
    for (int variant = 0; variant < test_archs[k].n_variants; variant++) {
      test_model model = test_archs[k].make(variant);
      snprintf(name, sizeof name, "good-%s-%d", test_archs[k].name, variant);
      if (model.weights_size < 1 << 16) add_seed(name, &model);
      test_model_free(&model);
    }
    for (int e = 0; e < fuzz_n_edits; e++)
      if (!strcmp(fuzz_edits[e].arch, test_archs[k].name)) add_edit(k, &fuzz_edits[e], e);
    if (!strcmp(test_archs[k].name, "ani")) add_wide(k);
  }
}

/* The YAML and the header of the weights. */
static size_t front(const uint8_t *data, size_t size)
{
  const uint8_t *end = memchr(data, 0, size);
  const uint8_t *header = end ? memchr(end, '\n', size - (size_t) (end - data)) : NULL;
  return header ? (size_t) (header - data) + 1 : size;
}

static const char *const words[] = {"0",    "-1",  "1e308", "999999999", "[",   "]",      "{",    "}",
                                    ":",    ",",   "\n",    "  ",        "nan", "&a",     "*a",   "\"",
                                    "none", "1.5", "[[]]",  "!!int",     "H",   "[]",     "fp64", "null",
                                    "F32",  "1",   "zbl",   "0.5",       "O",   "1e-300", NULL};
const fuzz_target fuzz_this = {.name = "modelfile", .words = words, .make_seeds = make_seeds, .front = front};
