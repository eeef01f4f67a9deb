/* domain.c: reads the block `domain` of a model file, the limits of its training data (checked by watch.c). */
#include "modelfile_impl.h"

#include <math.h>
#include <string.h>

/* Reads a range [low, high]; *range stays NULL without the key. */
static mlff_status read_range(mlff_modelfile *f, const mlff_yaml *parent, const char *key, double least,
                              const double **range, mlff_error *error)
{
  const double *values = NULL;
  if (!mlff_yaml_has(parent, key)) return MLFF_OK;
  MLFF_TRY(mlff_yaml_doubles(f, parent, key, 2, &values, NULL, error));
  if (!(values[0] >= least && values[0] <= values[1]))
    return mlff_yaml_fail(f, mlff_yaml_find(parent, key), error, "is [%g, %g], expected %slow <= high", values[0],
                          values[1], least == 0 ? "0 <= " : "");
  *range = values;
  return MLFF_OK;
}

/* Reads domain.distances and checks it against the rest of the domain. */
static mlff_status read_distances(mlff_modelfile *f, const mlff_yaml *domain, mlff_error *error)
{
  const mlff_yaml *pairs = NULL;
  mlff_modelfile_head *h = &f->head;
  if (!mlff_yaml_has(domain, "distances")) return MLFF_OK;
  MLFF_TRY(mlff_yaml_map(f, domain, "distances", &pairs, error));
  if (!pairs->first) return mlff_yaml_fail(f, pairs, error, "has no pair; remove the key");
  MLFF_TRY(mlff_pairs_read(f, pairs, &h->distances, error));
  for (int s = 0; s < h->n_elements; s++)
    for (int t = 0; t < h->n_elements; t++) {
      const double r = h->distances[s * h->n_elements + t];
      if (r > 0 && !h->trained[s])
        return mlff_yaml_fail(f, pairs, error, "%s is not among domain.elements", h->elements[s]);
      if (r > 0 && r < h->min_distance)
        return mlff_yaml_fail(f, pairs, error, "%s-%s is %g A, less than min_distance, %g A", h->elements[s],
                              h->elements[t], r, h->min_distance);
    }
  return MLFF_OK;
}

/* Reads the triples of center s and checks them against the shortest distances of its pairs. */
static mlff_status read_centre(mlff_modelfile *f, const mlff_yaml *triples, int s, double *table, mlff_error *error)
{
  const mlff_yaml *pairs = NULL;
  const double *found = NULL;
  const mlff_modelfile_head *h = &f->head;
  const int n = h->n_elements;
  MLFF_TRY(mlff_yaml_map(f, triples, h->elements[s], &pairs, error));
  MLFF_TRY(mlff_pairs_read(f, pairs, &found, error));
  memcpy(table, found, (size_t) n * (size_t) n * sizeof *table);
  for (int t = 0; t < n; t++)
    for (int u = t; u < n; u++) {
      const double one = h->distances[s * n + t], other = h->distances[s * n + u], r = table[t * n + u];
      if (r > 0 && !(one > 0 && other > 0))
        return mlff_yaml_fail(f, pairs, error, "%s-%s has pairs that are not in domain.distances", h->elements[t],
                              h->elements[u]);
      if (r > 0 && !(r >= one && r >= other))
        return mlff_yaml_fail(f, pairs, error, "%s-%s is %g A, less than %g A, the shortest distance of its pairs",
                              h->elements[t], h->elements[u], r, one > other ? one : other);
    }
  return MLFF_OK;
}

/* Reads domain.triples: a mapping of pairs for each center. */
static mlff_status read_triples(mlff_modelfile *f, const mlff_yaml *domain, mlff_error *error)
{
  const mlff_yaml *triples = NULL;
  mlff_modelfile_head *h = &f->head;
  const size_t n = (size_t) h->n_elements;
  if (!mlff_yaml_has(domain, "triples")) return MLFF_OK;
  MLFF_TRY(mlff_yaml_map(f, domain, "triples", &triples, error));
  if (!h->distances) return mlff_yaml_fail(f, triples, error, "requires domain.distances");
  double *table = mlff_arena_alloc(f->arena, n * n * n, sizeof *table);
  if (!table) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
  for (size_t s = 0; s < n; s++)
    if (mlff_yaml_has(triples, h->elements[s])) MLFF_TRY(read_centre(f, triples, (int) s, table + s * n * n, error));
  h->triples = table;
  return MLFF_OK;
}

mlff_status mlff_domain_read(mlff_modelfile *f, mlff_error *error)
{
  const mlff_yaml *d = NULL;
  const char *const *names = NULL;
  mlff_modelfile_head *h = &f->head;
  int n = 0;
  MLFF_TRY(mlff_yaml_map(f, f->root, "domain", &d, error));
  MLFF_TRY(mlff_yaml_strings(f, d, "elements", &names, &n, error));
  int *trained = mlff_arena_alloc(f->arena, (size_t) h->n_elements, sizeof *trained);
  if (!trained) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
  for (int k = 0; k < n; k++) {
    int s = 0;
    while (s < h->n_elements && strcmp(h->elements[s], names[k])) s++;
    if (s == h->n_elements)
      return mlff_yaml_fail(f, mlff_yaml_find(d, "elements"), error, "'%.20s' is not among the model's elements",
                            names[k]);
    trained[s] = 1;
  }
  h->trained = trained;
  MLFF_TRY(mlff_yaml_double(f, d, "min_distance", 0, h->cutoff, &h->min_distance, error));
  MLFF_TRY(read_range(f, d, "temperature", 0, &h->temperature, error));
  MLFF_TRY(read_range(f, d, "density", 0, &h->density, error));
  MLFF_TRY(read_range(f, d, "pressure", -HUGE_VAL, &h->pressure, error));
  if (mlff_yaml_has(d, "max_force")) MLFF_TRY(mlff_yaml_double(f, d, "max_force", 0, 1e9, &h->max_force, error));
  MLFF_TRY(read_distances(f, d, error));
  MLFF_TRY(read_triples(f, d, error));
  return mlff_yaml_string(f, d, "description", &f->about.domain, error);
}
