/* pairs.c: distances of pairs of elements in a model file, such as {H-H: 1.1, H-O: 0.85}. */
#include "modelfile_impl.h"

#include <math.h>
#include <string.h>

/* Index of element `name` of length n; -1 if it is not in the model. */
static int find_element(const mlff_modelfile_head *h, const char *name, size_t n)
{
  for (int s = 0; s < h->n_elements; s++)
    if (strlen(h->elements[s]) == n && !strncmp(h->elements[s], name, n)) return s;
  return -1;
}

/* Reads an entry such as H-O: 0.85. */
static mlff_status read_pair(mlff_modelfile *f, const mlff_yaml *pairs, const mlff_yaml *node, double *table,
                             mlff_error *error)
{
  const mlff_modelfile_head *h = &f->head;
  const char *dash = strchr(node->key, '-');
  double distance = 0.0;
  if (!dash) return mlff_yaml_fail(f, node, error, "must be two elements, such as H-O");
  const int s = find_element(h, node->key, (size_t) (dash - node->key)),
            t = find_element(h, dash + 1, strlen(dash + 1));
  if (s < 0 || t < 0) {
    const int n = s < 0 ? (int) (dash - node->key) : (int) strlen(dash + 1);
    return mlff_yaml_fail(f, node, error, "'%.*s' is not among the model's elements", n < 20 ? n : 20,
                          s < 0 ? node->key : dash + 1);
  }
  MLFF_TRY(mlff_yaml_double(f, pairs, node->key, -HUGE_VAL, HUGE_VAL, &distance, error));
  if (!(distance > 0.0 && distance <= h->cutoff))
    return mlff_yaml_fail(f, node, error, "is %g A, expected a distance above 0 and up to the cutoff %g A", distance,
                          h->cutoff);
  if (table[s * h->n_elements + t] > 0.0)
    return mlff_yaml_fail(f, node, error, "%s-%s is a duplicate of %s-%s", h->elements[s], h->elements[t],
                          h->elements[t], h->elements[s]);
  table[s * h->n_elements + t] = table[t * h->n_elements + s] = distance;
  return MLFF_OK;
}

mlff_status mlff_pairs_read(mlff_modelfile *f, const mlff_yaml *pairs, const double **table, mlff_error *error)
{
  const size_t n = (size_t) f->head.n_elements;
  double *values = mlff_arena_alloc(f->arena, n * n, sizeof *values);
  if (!values) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
  for (const mlff_yaml *c = pairs->first; c; c = c->next) MLFF_TRY(read_pair(f, pairs, c, values, error));
  *table = values;
  return MLFF_OK;
}
