/* published_nequip.c: networks in the layout of the shared directory, Nequix' and SevenNet's, as model files in memory:
 * published_nequip of plain_nequip.h. */
#include "plain_nequip.h"
#include "published.h"
#include "testmodel_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number(const test_json *y, const char *key)
{
  return test_json_number(test_json_get(y, key));
}

static int is_word(const test_json *y, const char *key, const char *word)
{
  return !strcmp(test_json_text(test_json_get(y, key)), word);
}

/* "KEY: [...]": numbers of a list from `first` on. */
static void put_list(test_writer *w, const char *key, const test_json *list, int first)
{
  test_put(w, "%s: [", key);
  for (int k = first; k < test_json_length(list); k++)
    test_put(w, "%s%s", k > first ? ", " : "", test_json_text(test_json_item(list, k)));
  test_put(w, "]");
}

/* What is added per atom and, in scale, multiplies the network's number: numbers of the file or tensors of it. */
static void put_offsets(test_writer *w, const test_json *y, const published *p, double *scale)
{
  const test_json *elements = test_json_get(y, "elements");
  const int is_nequix = is_word(y, "variant", "nequix"), n = test_json_length(elements);
  int64_t n_rows;
  double *offset = published_values(p, is_nequix ? "atom_energies" : "shift", &n_rows);
  double *factor = is_nequix ? NULL : published_values(p, "scale", &n_rows);
  ck_assert_int_eq(n_rows, n);
  test_put(w, "energy_offsets: {");
  for (int s = 0; s < n; s++) {
    scale[s] = factor ? factor[s] : number(y, "scale");
    test_put(w, "%s%s: %.17g", s ? ", " : "", test_json_text(test_json_item(elements, s)),
             offset[s] + (is_nequix ? number(y, "shift") : 0.0));
  }
  test_put(w, "}\n");
  free(offset);
  free(factor);
}

static void put_radial(test_writer *w, const test_json *y)
{
  const test_json *radial = test_json_get(y, "radial_basis"), *network = test_json_get(y, "radial_mlp"),
                  *layers = test_json_get(network, "layers");
  const int is_polynomial = is_word(radial, "envelope.kind", "polynomial");
  near_one(number(radial, "prefactor"), 2 / number(y, "cutoff"), 1e-15);
  test_put(w, "  radial_basis: {kind: %s, n: %s}\n", test_json_find(radial, "frequencies") ? "trained" : "bessel",
           test_json_text(test_json_item(layers, 0)));
  test_put(w, "  cutoff_function: {kind: %s, %s: %s}\n  radial_network: {", is_polynomial ? "polynomial" : "xplor",
           is_polynomial ? "p" : "onset",
           test_json_text(test_json_get(radial, is_polynomial ? "envelope.p" : "envelope.r_on")));
  put_list(w, "hidden", layers, 1);
  test_put(w, ", activation_norm: %s, fan_in: %s}\n", test_json_text(test_json_get(network, "act_norm")),
           test_json_find(network, "linear_scale") ? "sqrt" : "none");
}

static void put_block(test_writer *w, const test_json *y, const published *p)
{
  const int is_nequix = is_word(y, "variant", "nequix");
  const test_json *layers = test_json_get(y, "layer"), *out = test_json_get(test_json_item(layers, 0), "irreps_out");
  int64_t n_rows;
  test_put(w, "nequip:\n  n_layers: %d\n  n_channels: [", test_json_length(layers));
  for (int l = 0; l < test_json_length(out); l++) {
    const test_json *irrep = test_json_item(out, l);
    near_one(test_json_number(test_json_item(irrep, 1)), l, 0);
    test_put(w, "%s%s", l ? ", " : "", test_json_text(test_json_item(irrep, 0)));
  }
  test_put(w, "]\n  lmax: %s\n  paths: %s\n  embedding: %s\n  message_divisor: [",
           test_json_text(test_json_get(y, "lmax")), is_nequix ? "even" : "all", is_nequix ? "one_hot" : "linear");
  for (int t = 0; t < test_json_length(layers); t++) /* S3: of SevenNet it is no square */
    test_put(w, "%s%.17g", t ? ", " : "",
             is_nequix ? sqrt(number(y, "avg_n_neighbors")) : number(test_json_item(layers, t), "denominator"));
  test_put(w, "]\n");
  put_radial(w, y);
  if (is_nequix)
    test_put(w, "  norm: {kind: rms, epsilon: %s}\n", test_json_text(test_json_get(y, "norm.eps")));
  else
    test_put(w, "  norm: {kind: none}\n");
  test_put(w, "  activation_norm: %s\n  n_readout: [", test_json_text(test_json_get(y, "gate.act_norm")));
  if (!is_nequix) {
    free(published_values(p, "readout.0", &n_rows));
    test_put(w, "%d", (int) n_rows);
  }
  test_put(w, "]\n");
}

/* The tensors of the network have the names of the model file, but for Nequix' readout. */
static void move_tensors(test_weights *w, const published *p)
{
  static const char *const others[] = {"atom_energies", "scale", "shift"};
  for (int k = 0; k < p->n; k++) {
    const mlff_tensor *t = &p->tensors[k];
    int is_other = 0;
    for (size_t q = 0; q < sizeof others / sizeof *others; q++) is_other |= !strcmp(t->name, others[q]);
    if (is_other) continue;
    int64_t n_rows;
    double *values = published_values(p, t->name, &n_rows);
    test_weights_add(w, 1.0, values, t->rank, t->shape, "%s", strcmp(t->name, "readout") ? t->name : "readout.0");
    free(values);
  }
}

int published_nequip(const char *name, test_model *model)
{
  char path[512], file[128];
  double scale[128];
  snprintf(file, sizeof file, "models/%s.yaml", name);
  if (!test_shared(file, path, sizeof path)) return 0;
  test_json *y = test_json_read(path);
  snprintf(file, sizeof file, "models/%s.safetensors", name);
  ck_assert(test_shared(file, path, sizeof path));
  published p = published_read(path);
  const test_json *elements = test_json_get(y, "elements");
  const char *symbols[128];
  const int64_t n = test_json_length(elements);
  for (int s = 0; s < n; s++) symbols[s] = test_json_text(test_json_item(elements, s));
  test_writer w = {.text = NULL};
  test_weights weights = {.n = 0};
  test_put(&w, "format: mlff/1\nname: published\narchitecture: nequip\ndescription: published\n");
  put_list(&w, "elements", elements, 0);
  test_put(&w, "\ncutoff: %s\nunits: {length: angstrom, energy: eV, energy_in_eV: 1.0}\n",
           test_json_text(test_json_get(y, "cutoff")));
  put_offsets(&w, y, &p, scale);
  test_put(&w, "weights: {file: published.safetensors, sha256: %064d}\n", 0);
  put_block(&w, y, &p);
  const test_model_options o = {.elements = symbols, .n_elements = (int) n};
  const test_model_options all = test_with_defaults(o);
  test_put_tail(&w, &all);
  move_tensors(&weights, &p);
  test_weights_add(&weights, 1.0, scale, 1, &n, "energy_scale");
  *model = test_finish(&w, &weights, 1);
  published_free(&p);
  test_json_free(y);
  return 1;
}
