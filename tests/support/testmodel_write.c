/* testmodel_write.c: see testmodel_write.h; and the weights of testmodel.h. */
#include "testmodel_write.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights ---------------------------------------------------------------------------------------------------- */

static void *must(void *data)
{
  if (!data) ck_abort_msg("out of memory");
  return data;
}

double *test_weights_add(test_weights *weights, double scale, const double *values, int rank, const int64_t *shape,
                         const char *name, ...)
{
  if (weights->n == weights->capacity) {
    weights->capacity = 2 * weights->capacity + 16;
    weights->tensors = must(realloc(weights->tensors, (size_t) weights->capacity * sizeof *weights->tensors));
  }
  test_tensor *t = &weights->tensors[weights->n++];
  *t = (test_tensor){.rank = rank, .n = 1};
  va_list args;
  va_start(args, name);
  vsnprintf(t->name, sizeof t->name, name, args);
  va_end(args);
  for (int k = 0; k < rank; k++) t->n *= t->shape[k] = shape[k];
  t->values = must(malloc((size_t) t->n * sizeof *t->values));
  for (int64_t k = 0; k < t->n; k++) t->values[k] = values ? values[k] : scale * test_normal(&weights->rng);
  return t->values;
}

void test_weights_free(test_weights *weights)
{
  for (int k = 0; k < weights->n; k++) free(weights->tensors[k].values);
  free(weights->tensors);
  *weights = (test_weights){.n = 0};
}

void test_weights_pack(const test_weights *weights, int is_double, void **data, size_t *size)
{
  const size_t element = is_double ? 8 : 4, room = 64 + (size_t) weights->n * 240;
  char *header = must(calloc(1, room + 64));
  size_t at = 8, offset = 0;
  at += (size_t) sprintf(header + at, "{\"__metadata__\":{\"made_by\":\"test\"}");
  for (int k = 0; k < weights->n; k++) {
    const test_tensor *t = &weights->tensors[k];
    at += (size_t) sprintf(header + at, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, is_double ? "F64" : "F32");
    for (int d = 0; d < t->rank; d++)
      at += (size_t) sprintf(header + at, "%s%lld", d ? "," : "", (long long) t->shape[d]);
    at += (size_t) sprintf(header + at, "],\"data_offsets\":[%zu,%zu]}", offset, offset + (size_t) t->n * element);
    offset += (size_t) t->n * element;
  }
  header[at++] = '}';
  while (at % 8) header[at++] = ' ';
  for (int k = 0; k < 8; k++) header[k] = (char) (unsigned char) ((at - 8) >> (8 * k));
  unsigned char *bytes = must(malloc(at + offset));
  memcpy(bytes, header, at);
  free(header);
  for (int k = 0; k < weights->n; k++) {
    for (int64_t e = 0; e < weights->tensors[k].n; e++, at += element) {
      const float single = (float) weights->tensors[k].values[e];
      if (is_double)
        memcpy(bytes + at, &weights->tensors[k].values[e], 8);
      else
        memcpy(bytes + at, &single, 4);
    }
  }
  *data = bytes;
  *size = at;
}

/* ---- YAML ------------------------------------------------------------------------------------------------------- */

void test_put(test_writer *w, const char *format, ...)
{
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const size_t n = (size_t) vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (w->n + n + 1 > w->capacity) {
    w->capacity = 2 * w->capacity + n + 1024;
    w->text = must(realloc(w->text, w->capacity));
  }
  vsnprintf(w->text + w->n, n + 1, format, again);
  va_end(again);
  w->n += n;
}

void test_put_numbers(test_writer *w, const char *key, int n, double first, double step)
{
  test_put(w, "%s: [", key);
  for (int k = 0; k < n; k++) test_put(w, "%s%.17g", k ? ", " : "", first + k * step);
  test_put(w, "]");
}

test_model_options test_with_defaults(test_model_options o)
{
  static const char *const water[] = {"H", "O"};
  if (!o.name) o.name = "test";
  if (!o.elements) {
    o.elements = water;
    o.n_elements = 2;
  }
  if (o.cutoff == 0) o.cutoff = 4.0;
  if (!o.energy_unit) o.energy_unit = "eV";
  if (o.min_distance == 0) o.min_distance = 0.3;
  if (!o.self_test) o.self_test = "[]";
  if (!o.basis) o.basis = "bspline";
  if (!o.n_features) o.n_features = 16;
  if (!o.n_interactions) o.n_interactions = 2;
  if (!o.n_readout) o.n_readout = 8;
  if (!o.n_basis) o.n_basis = 12;
  if (!o.n_members) o.n_members = 3;
  if (!o.n_radial) o.n_radial = 5;
  if (!o.n_angular) o.n_angular = 3;
  if (!o.n_sections) o.n_sections = 2;
  if (o.angular_cutoff == 0) o.angular_cutoff = 0.75 * o.cutoff;
  if (!o.n_hidden) o.n_hidden = 2;
  if (o.radial_eta == 0) o.radial_eta = 16.0;
  return o;
}

static double in_ev(const test_model_options *o)
{
  return !strcmp(o->energy_unit, "hartree")    ? 27.211386024367243
         : !strcmp(o->energy_unit, "kcal/mol") ? 1 / 23.060548012
                                               : 1.0;
}

void test_put_head(test_writer *w, const test_model_options *o, const char *architecture)
{
  test_put(w, "format: mlff/1\nname: %s\narchitecture: %s\ndescription: random weights for tests\nelements: [", o->name,
           architecture);
  for (int k = 0; k < o->n_elements; k++) test_put(w, "%s%s", k ? ", " : "", o->elements[k]);
  test_put(w, "]\ncutoff: %.17g\nunits: {length: angstrom, energy: %s, energy_in_eV: %.17g}\nenergy_offsets: {",
           o->cutoff, o->energy_unit, in_ev(o));
  for (int k = 0; k < o->n_elements; k++) test_put(w, "%s%s: %.17g", k ? ", " : "", o->elements[k], -13.6 * (k + 1));
  test_put(w, "}\nweights: {file: %s.safetensors, sha256: %064d}\n", o->name, 0);
}

void test_put_tail(test_writer *w, const test_model_options *o)
{
  test_put(w, "provenance: {labels: none, data: none, data_sha256: none, code: tests, license: MIT, citation: none}\n");
  test_put(w, "domain:\n  elements: [");
  for (int k = 0; k < o->n_elements; k++) test_put(w, "%s%s", k ? ", " : "", o->elements[k]);
  test_put(w, "]\n  min_distance: %.17g\n  temperature: [280, 400]\n  density: [0.95, 1.05]\n  description: random\n",
           o->min_distance);
  test_put(w, "accuracy: {description: none, force_rmse_mev_per_ang: 22.5}\n");
  test_put(w,
           "self_test:\n  origin: tests\n  tolerance:\n    fp64: {energy: 1.0e-8, forces: 1.0e-7, virial: 1.0e-7}\n"
           "    fp32: {energy: 1.0e-4, forces: 1.0e-3, virial: 1.0e-3}\n  structures: %s\n",
           o->self_test);
}

test_model test_finish(test_writer *w, test_weights *weights, int is_double)
{
  void *data = NULL;
  size_t size = 0;
  test_model model = {.yaml = w->text, .yaml_size = w->n};
  test_weights_pack(weights, is_double, &data, &size);
  test_model_set_weights(&model, data, size);
  free(data);
  test_weights_free(weights);
  return model;
}

void test_add_linear(test_weights *w, const char *name, int64_t n_out, int64_t n_in, int has_bias, double gain)
{
  const int64_t shape[2] = {n_out, n_in};
  test_weights_add(w, gain / sqrt((double) n_in), NULL, 2, shape, "%s.weight", name);
  if (has_bias) test_weights_add(w, 0.1, NULL, 1, shape, "%s.bias", name);
}
