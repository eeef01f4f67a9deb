/* uncertainty.c: the optional block `uncertainty` of a model file, for any architecture with features of a last layer.
 *
 * u = |A f + b| of an atom with features f, where A and b of its element whiten the features of the training set: the
 * Mahalanobis distance of f, times a factor that makes it a force error. docs/model_file.md has the format.
 */
#include "model_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FEATURES = 4096, NAME = 64 };

typedef struct block {
  const mlff_yaml *yaml;
  int width, unit, n_listed;
  double limit;
  const char *const *listed; /* elements with a matrix */
} block;

static const char *const units[] = {"eV/A", "relative", NULL};

static mlff_status read_block(mlff_model *m, block *b, mlff_error *error)
{
  const mlff_modelfile *f = m->file;
  MLFF_TRY(mlff_yaml_map(f, f->root, "uncertainty", &b->yaml, error));
  MLFF_TRY(mlff_yaml_int(f, b->yaml, "width", 1, MOST_FEATURES, &b->width, error));
  MLFF_TRY(mlff_yaml_choice(f, b->yaml, "unit", units, &b->unit, error));
  MLFF_TRY(mlff_yaml_double(f, b->yaml, "limit", 1e-12, 1e12, &b->limit, error));
  MLFF_TRY(mlff_yaml_strings(f, b->yaml, "elements", &b->listed, &b->n_listed, error));
  if (mlff_yaml_has(b->yaml, "description"))
    MLFF_TRY(mlff_yaml_string(f, b->yaml, "description", &m->uncertainty.description, error));
  if (b->width < m->info.n_features)
    return mlff_yaml_fail(f, mlff_yaml_find(b->yaml, "width"), error,
                          "is %d, but the last layer of this %s model has %d features; run `mlff uncertainty` again",
                          b->width, m->info.architecture, m->info.n_features);
  return MLFF_OK;
}

/* Index of an element in the file, -1 for others. */
static int find_element(const mlff_model *m, const char *name)
{
  int s = m->head->n_elements - 1;
  while (s >= 0 && strcmp(m->head->elements[s], name) != 0) s--;
  return s;
}

/* Matrices of all elements [n_elements][width + 1][width]; has[s]: those that the file has. */
static mlff_status read_matrices(mlff_model *m, const block *b, double *all, int *has, mlff_error *error)
{
  const int64_t size = (int64_t) (b->width + 1) * b->width, shape[2] = {b->width + 1, b->width};
  for (int k = 0; k < b->n_listed; k++) {
    char name[NAME];
    double *values = NULL;
    const int s = find_element(m, b->listed[k]);
    if (s < 0 || has[s])
      return mlff_yaml_fail(m->file, mlff_yaml_find(b->yaml, "elements"), error, "'%.20s' is %s", b->listed[k],
                            s < 0 ? "not an element of the model" : "listed twice");
    snprintf(name, sizeof name, "uncertainty.%s", b->listed[k]);
    MLFF_TRY(mlff_modelfile_tensor(m->file, name, 2, shape, &values, error));
    memcpy(all + s * size, values, (size_t) size * sizeof *values);
    free(values);
    has[s] = 1;
  }
  return MLFF_OK;
}

static mlff_status open_block(mlff_model *m, double **all, int **has, mlff_error *error)
{
  mlff_uncertainty *u = &m->uncertainty;
  block b = {.yaml = NULL};
  MLFF_TRY(read_block(m, &b, error));
  const int64_t n = (int64_t) m->head->n_elements * (b.width + 1) * b.width;
  *all = calloc((size_t) n, sizeof **all);
  *has = calloc((size_t) m->head->n_elements, sizeof **has);
  if (!*all || !*has) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory for uncertainties", m->file->path);
  MLFF_TRY(read_matrices(m, &b, *all, *has, error));
  u->width = m->info.n_features = b.width;
  if (m->info.n_members != m->info.n_members_of_file) {
    snprintf(u->why, sizeof u->why, "it is that of the whole ensemble, and the option members leaves some out");
    return MLFF_OK;
  }
  for (int s = 0; s < m->head->n_elements; s++) /* without a matrix: b is infinite */
    if (!(*has)[s]) (*all)[((int64_t) (s + 1) * (b.width + 1) - 1) * b.width] = INFINITY;
  MLFF_TRY(mlff_buf_reserve_rows(m->backend, &u->weights, n, 1, error));
  MLFF_TRY(m->backend->ops->upload_reals(m->backend, u->weights.data, *all, n, error));
  m->info.uncertainty_unit = units[b.unit];
  m->info.uncertainty_limit = b.limit;
  return MLFF_OK;
}

mlff_status mlff_uncertainty_open(mlff_model *m, mlff_error *error)
{
  mlff_uncertainty *u = &m->uncertainty;
  double *all = NULL;
  int *has = NULL;
  m->info.n_features = m->arch->n_features ? m->arch->n_features(m->net) : 0;
  m->info.uncertainty_why = u->why;
  u->width = m->info.n_features;
  if (!mlff_yaml_has(m->file->root, "uncertainty")) {
    snprintf(u->why, sizeof u->why, "the file has no block uncertainty; `mlff uncertainty` adds it");
    return MLFF_OK;
  }
  if (!m->info.n_features)
    return mlff_yaml_fail(m->file, mlff_yaml_find(m->file->root, "uncertainty"), error,
                          "%s models have no uncertainty; remove the block", m->info.architecture);
  const mlff_status status = open_block(m, &all, &has, error);
  free(all);
  free(has);
  return status;
}

void mlff_uncertainty_close(mlff_model *m)
{
  mlff_buf_release(m->backend, &m->uncertainty.weights);
  mlff_buf_release(m->backend, &m->uncertainty.values);
  mlff_buf_release(m->backend, &m->uncertainty.rows);
}

mlff_status mlff_uncertainty_check(const mlff_model *m, const mlff_result *result, mlff_error *error)
{
  if (result->atom_features && !m->info.n_features)
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "features are not available: %s models have no last layer of atoms",
                     m->info.architecture);
  if (result->atom_uncertainty && !m->info.uncertainty_unit)
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "model %s has no uncertainty: %s [mlff-44]", m->info.name,
                     m->uncertainty.why);
  return MLFF_OK;
}

mlff_status mlff_uncertainty_want(mlff_model *m, const mlff_result *result, mlff_last_features *last, mlff_error *error)
{
  mlff_uncertainty *u = &m->uncertainty;
  *last = (mlff_last_features){.width = u->width, .weights = u->weights.data};
  if (result->atom_uncertainty) {
    MLFF_TRY(mlff_buf_reserve_rows(m->backend, &u->values, m->edges.n_local, 1, error));
    last->uncertainty = u->values.data;
  }
  if (result->atom_features) {
    MLFF_TRY(mlff_buf_reserve_rows(m->backend, &u->rows, m->edges.n_local, u->width, error));
    last->rows = u->rows.data;
  }
  return MLFF_OK;
}

mlff_status mlff_uncertainty_take(mlff_model *m, const mlff_result *result, mlff_error *error)
{
  const mlff_ops *ops = m->backend->ops;
  const mlff_uncertainty *u = &m->uncertainty;
  const int64_t n = m->edges.n_local;
  if (result->atom_uncertainty)
    MLFF_TRY(ops->download_reals(m->backend, result->atom_uncertainty, u->values.data, n, error));
  if (result->atom_features)
    MLFF_TRY(ops->download_reals(m->backend, result->atom_features, u->rows.data, n * u->width, error));
  return MLFF_OK;
}
