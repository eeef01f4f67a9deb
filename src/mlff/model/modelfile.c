/* modelfile.c: parses and checks a model file; docs/model_file.md describes every key. */
#include "modelfile_impl.h"

#include "sha256.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error \
    "weights are stored little-endian and read as they are; this processor needs a byte swap in mlff_modelfile_tensor"
#endif

static const char format_key[] = "mlff/1";

/* ---- units, elements, offsets ----------------------------------------------------------------------------------- */

static mlff_status read_units(mlff_modelfile *f, mlff_error *error)
{
  static const char *const lengths[] = {"angstrom", NULL}, *const energies[] = {"eV", "hartree", "kcal/mol", NULL};
  static const double in_ev[] = {1.0, 27.211386, 0.0433641}, tolerance[] = {1e-12, 1e-6, 1e-5};
  const mlff_yaml *units = NULL;
  int which = 0;
  MLFF_TRY(mlff_yaml_map(f, f->root, "units", &units, error));
  MLFF_TRY(mlff_yaml_choice(f, units, "length", lengths, &which, error));
  MLFF_TRY(mlff_yaml_choice(f, units, "energy", energies, &which, error));
  MLFF_TRY(mlff_yaml_double(f, units, "energy_in_eV", 1e-6, 1e6, &f->head.energy_in_ev, error));
  if (!(fabs(f->head.energy_in_ev / in_ev[which] - 1) <= tolerance[which]))
    return mlff_yaml_fail(f, mlff_yaml_find(units, "energy_in_eV"), error, "is %.10g, but one %s is about %.8g eV",
                          f->head.energy_in_ev, energies[which], in_ev[which]);
  return MLFF_OK;
}

static mlff_status read_elements(mlff_modelfile *f, mlff_error *error)
{
  const mlff_yaml *offsets = NULL;
  mlff_modelfile_head *h = &f->head;
  MLFF_TRY(mlff_yaml_strings(f, f->root, "elements", &h->elements, &h->n_elements, error));
  const mlff_yaml *node = mlff_yaml_find(f->root, "elements");
  if (h->n_elements < 1 || h->n_elements > 118) return mlff_yaml_fail(f, node, error, "has %d elements", h->n_elements);
  for (int k = 0; k < h->n_elements; k++) {
    if (!mlff_atomic_number(h->elements[k]))
      return mlff_yaml_fail(f, node, error, "'%.20s' is not a chemical symbol", h->elements[k]);
    for (int l = 0; l < k; l++)
      if (!strcmp(h->elements[k], h->elements[l]))
        return mlff_yaml_fail(f, node, error, "%s is a duplicate", h->elements[k]);
  }
  double *values = mlff_arena_alloc(f->arena, (size_t) h->n_elements, sizeof *values);
  if (!values) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
  MLFF_TRY(mlff_yaml_map(f, f->root, "energy_offsets", &offsets, error));
  for (int k = 0; k < h->n_elements; k++)
    MLFF_TRY(mlff_yaml_double(f, offsets, h->elements[k], -1e9, 1e9, &values[k], error));
  h->offsets = values;
  return MLFF_OK;
}

/* ---- provenance, accuracy --------------------------------------------------------------------------------------- */

static mlff_status read_provenance(mlff_modelfile *f, mlff_error *error)
{
  const mlff_yaml *p = NULL;
  mlff_about *a = &f->about;
  MLFF_TRY(mlff_yaml_map(f, f->root, "provenance", &p, error));
  MLFF_TRY(mlff_yaml_string(f, p, "labels", &a->labels, error));
  MLFF_TRY(mlff_yaml_string(f, p, "data", &a->data, error));
  MLFF_TRY(mlff_yaml_string(f, p, "data_sha256", &a->data_sha256, error));
  MLFF_TRY(mlff_yaml_string(f, p, "code", &a->code, error));
  MLFF_TRY(mlff_yaml_string(f, p, "license", &a->license, error));
  return mlff_yaml_string(f, p, "citation", &a->citation, error);
}

static mlff_status read_accuracy(mlff_modelfile *f, mlff_error *error)
{
  const mlff_yaml *a = NULL;
  f->about.force_rmse = f->about.energy_rmse = NAN;
  MLFF_TRY(mlff_yaml_map(f, f->root, "accuracy", &a, error));
  MLFF_TRY(mlff_yaml_string(f, a, "description", &f->about.accuracy, error));
  if (mlff_yaml_has(a, "caution")) MLFF_TRY(mlff_yaml_string(f, a, "caution", &f->about.caution, error));
  if (mlff_yaml_has(a, "force_rmse_mev_per_ang"))
    MLFF_TRY(mlff_yaml_double(f, a, "force_rmse_mev_per_ang", 0, 1e9, &f->about.force_rmse, error));
  if (mlff_yaml_has(a, "energy_rmse_mev_per_atom"))
    MLFF_TRY(mlff_yaml_double(f, a, "energy_rmse_mev_per_atom", 0, 1e9, &f->about.energy_rmse, error));
  return MLFF_OK;
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* weights: {file, sha256}. The file is in the folder of the YAML, so its name has no directory. */
static mlff_status read_weights_block(mlff_modelfile *f, mlff_error *error)
{
  const mlff_yaml *w = NULL;
  MLFF_TRY(mlff_yaml_map(f, f->root, "weights", &w, error));
  MLFF_TRY(mlff_yaml_string(f, w, "file", &f->about.weights_file, error));
  MLFF_TRY(mlff_yaml_string(f, w, "sha256", &f->head.sha256, error));
  const char *name = f->about.weights_file, *slash = strrchr(f->path, '/');
  if (strchr(name, '/') || strchr(name, '\\') || !strcmp(name, ".") || !strcmp(name, "..") || strlen(name) > 250)
    return mlff_yaml_fail(f, mlff_yaml_find(w, "file"), error,
                          "must be a file name in the same folder, without directories");
  if (strlen(f->head.sha256) != 64 || strspn(f->head.sha256, "0123456789abcdef") != 64)
    return mlff_yaml_fail(f, mlff_yaml_find(w, "sha256"), error, "must be 64 lower-case hex digits");
  const size_t n_dir = slash ? (size_t) (slash - f->path) + 1 : 0;
  char *full = mlff_arena_alloc(f->arena, n_dir + strlen(name) + 1, 1);
  if (!full) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
  memcpy(full, f->path, n_dir);
  memcpy(full + n_dir, name, strlen(name) + 1);
  f->weights_path = full;
  return MLFF_OK;
}

static mlff_status read_weights(mlff_modelfile *f, mlff_error *error)
{
  char hex[65];
  mlff_sha256_hex(f->weights, f->weights_size, hex);
  if (strcmp(hex, f->head.sha256))
    return mlff_fail(error, MLFF_E_FORMAT,
                     "%s:%d: weights.sha256: %s has hash %s, expected %s: it is damaged, truncated or from another "
                     "model; copy both files again [mlff-22]",
                     f->path, mlff_yaml_find(f->root, "weights")->line, f->weights_path, hex, f->head.sha256);
  MLFF_TRY(mlff_safetensors_parse(f->weights_path, f->weights, f->weights_size, f->arena, &f->tensors, &f->n_tensors,
                                  error));
  f->tensor_used = mlff_arena_alloc(f->arena, (size_t) f->n_tensors, 1);
  return f->tensor_used ? MLFF_OK : mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

/* Parses the tree and checks the version of the format. */
static mlff_status open_file(const char *path, const char *yaml, size_t yaml_size, mlff_modelfile **file,
                             mlff_error *error)
{
  const char *format = NULL;
  mlff_modelfile *f = calloc(1, sizeof *f);
  mlff_fault fault;
  if (!f) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", path);
  *file = f;
  f->arena = &f->memory;
  f->path = mlff_arena_string(f->arena, path);
  if (!f->path) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", path);
  if (mlff_yaml_parse(f->path, yaml, yaml_size, f->arena, &f->root, &f->n_nodes, &fault))
    return mlff_fail_as(error, &fault);
  if (f->root->kind != MLFF_YAML_MAPPING)
    return mlff_fail(error, MLFF_E_FORMAT,
                     "%s:%d: not a model file: it must be a mapping that starts with 'format: %s'", path, f->root->line,
                     format_key);
  f->used = mlff_arena_alloc(f->arena, (size_t) f->n_nodes, 1);
  if (!f->used) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", path);
  if (!mlff_yaml_has(f->root, "format"))
    return mlff_yaml_fail(f, f->root, error,
                          "is not a model file of mlff: it has no key 'format'; 'mlff convert' makes one from a "
                          "model of another package [mlff-23]");
  MLFF_TRY(mlff_yaml_string(f, f->root, "format", &format, error));
  if (strcmp(format, format_key))
    return mlff_yaml_fail(f, mlff_yaml_find(f->root, "format"), error,
                          "is '%.40s', this version reads '%s'; convert the model or use another version [mlff-23]",
                          format, format_key);
  return read_weights_block(f, error);
}

static mlff_status read_head(mlff_modelfile *f, mlff_error *error)
{
  MLFF_TRY(mlff_yaml_string(f, f->root, "name", &f->head.name, error));
  MLFF_TRY(mlff_yaml_string(f, f->root, "architecture", &f->head.architecture, error));
  if (mlff_yaml_has(f->root, "description"))
    MLFF_TRY(mlff_yaml_string(f, f->root, "description", &f->about.description, error));
  MLFF_TRY(mlff_yaml_double(f, f->root, "cutoff", 0.1, 100.0, &f->head.cutoff, error));
  MLFF_TRY(read_elements(f, error));
  MLFF_TRY(read_units(f, error));
  MLFF_TRY(mlff_repulsion_read(f, error));
  MLFF_TRY(read_provenance(f, error));
  MLFF_TRY(mlff_domain_read(f, error));
  return read_accuracy(f, error);
}

mlff_status mlff_modelfile_parse(const char *path, const char *yaml, size_t yaml_size, const void *weights,
                                 size_t weights_size, mlff_modelfile **file, mlff_error *error)
{
  mlff_modelfile *f = NULL;
  mlff_status status = open_file(path, yaml, yaml_size, &f, error);
  if (!status) {
    f->weights = weights;
    f->weights_size = weights_size;
    status = read_head(f, error);
  }
  if (!status) status = read_weights(f, error);
  if (!status) status = mlff_header_check(f, error);
  if (status)
    mlff_modelfile_free(f);
  else
    *file = f;
  return status;
}

mlff_status mlff_modelfile_weights_name(const char *path, const char *yaml, size_t yaml_size, char **name,
                                        mlff_error *error)
{
  mlff_modelfile *f = NULL;
  mlff_status status = open_file(path, yaml, yaml_size, &f, error);
  if (!status) {
    *name = malloc(strlen(f->weights_path) + 1);
    if (*name)
      memcpy(*name, f->weights_path, strlen(f->weights_path) + 1);
    else
      status = mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", path);
  }
  mlff_modelfile_free(f);
  return status;
}

void mlff_modelfile_free(mlff_modelfile *file)
{
  if (!file) return;
  mlff_arena_free(&file->memory);
  free(file);
}

const mlff_modelfile_head *mlff_modelfile_get_head(const mlff_modelfile *file)
{
  return &file->head;
}

const mlff_yaml *mlff_modelfile_root(const mlff_modelfile *file)
{
  return file->root;
}

/* ---- what nobody asked for -------------------------------------------------------------------------------------- */

static mlff_status check_used(const mlff_modelfile *f, const mlff_yaml *node, mlff_error *error)
{
  for (const mlff_yaml *c = node->first; c; c = c->next) {
    if (c->key && !f->used[c->id])
      return mlff_yaml_fail(f, c, error, "unknown key; docs/model_file.md lists the keys of this architecture");
    if (c->first) MLFF_TRY(check_used(f, c, error));
  }
  return MLFF_OK;
}

mlff_status mlff_modelfile_finish(mlff_modelfile *file, mlff_error *error)
{
  MLFF_TRY(check_used(file, file->root, error));
  for (int k = 0; k < file->n_tensors; k++)
    if (!file->tensor_used[k])
      return mlff_fail(
          error, MLFF_E_FORMAT,
          "%s: tensor '%.80s' is not part of this %s model: the hyper-parameters in %s do not match the weights",
          file->weights_path, file->tensors[k].name, file->head.architecture, file->path);
  return MLFF_OK;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static int find_tensor(const mlff_modelfile *f, const char *name)
{
  int low = 0, high = f->n_tensors;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const int order = strcmp(f->tensors[middle].name, name);
    if (order == 0) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

int mlff_modelfile_has_tensor(const mlff_modelfile *file, const char *name)
{
  return find_tensor(file, name) >= 0;
}

int64_t mlff_modelfile_n_parameters(const mlff_modelfile *file)
{
  int64_t n = 0;
  for (int k = 0; k < file->n_tensors; k++)
    if (strncmp(file->tensors[k].name, "uncertainty.", 12) != 0) n += file->tensors[k].n;
  return n;
}

static void write_shape(int rank, const int64_t *shape, char *text, size_t size)
{
  size_t length = (size_t) snprintf(text, size, "[");
  for (int k = 0; k < rank && length < size; k++)
    length += (size_t) snprintf(text + length, size - length, "%s%lld", k ? ", " : "", (long long) shape[k]);
  if (length < size) snprintf(text + length, size - length, "]");
}

static mlff_status check_shape(const mlff_modelfile *f, const mlff_tensor *t, int rank, const int64_t *shape,
                               mlff_error *error)
{
  char is[128], expected[128];
  if (t->rank == rank && (rank == 0 || !memcmp(t->shape, shape, (size_t) rank * sizeof *shape))) return MLFF_OK;
  write_shape(t->rank, t->shape, is, sizeof is);
  write_shape(rank, shape, expected, sizeof expected);
  return mlff_fail(
      error, MLFF_E_FORMAT,
      "%s: tensor '%s' has shape %s, expected %s from the hyper-parameters in %s: the two files do not fit",
      f->weights_path, t->name, is, expected, f->path);
}

mlff_status mlff_modelfile_tensor(const mlff_modelfile *file, const char *name, int rank, const int64_t *shape,
                                  double **values, mlff_error *error)
{
  const int k = find_tensor(file, name);
  if (!file->weights) return mlff_fail(error, MLFF_E_ARG, "%s: the weights were released", file->path);
  if (k < 0)
    return mlff_fail(error, MLFF_E_FORMAT,
                     "%s: tensor '%s' is missing, which a %s model with the hyper-parameters in %s needs",
                     file->weights_path, name, file->head.architecture, file->path);
  const mlff_tensor *t = &file->tensors[k];
  MLFF_TRY(check_shape(file, t, rank, shape, error));
  const int is_double = !strcmp(t->dtype, "F64");
  if (!is_double && strcmp(t->dtype, "F32"))
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "%s: tensor '%s' is of type %s; convert the weights to F32 or F64",
                     file->weights_path, name, t->dtype);
  double *v = malloc(((size_t) t->n + 1) * sizeof *v);
  if (!v) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory for tensor '%s'", file->weights_path, name);
  const unsigned char *data = file->weights + t->begin;
  for (int64_t e = 0; e < t->n; e++) {
    float single = 0;
    if (is_double) {
      memcpy(&v[e], data + 8 * e, 8);
    } else {
      memcpy(&single, data + 4 * e, 4);
      v[e] = (double) single;
    }
    if (!isfinite(v[e])) {
      free(v);
      return mlff_fail(error, MLFF_E_FORMAT, "%s: tensor '%s' has a value that is not finite at element %lld",
                       file->weights_path, name, (long long) e);
    }
  }
  file->tensor_used[k] = 1;
  *values = v;
  return MLFF_OK;
}

mlff_status mlff_modelfile_matrix(const mlff_modelfile *file, mlff_error *error, int n_rows, int n_cols,
                                  double **values, const char *format, ...)
{
  char name[128];
  const int64_t shape[2] = {n_rows, n_cols};
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  return mlff_modelfile_tensor(file, name, n_cols ? 2 : 1, shape, values, error);
}
