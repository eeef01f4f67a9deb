#include "published.h"

#include <stdlib.h>
#include <string.h>

published published_read(const char *path)
{
  published p = {.bytes = NULL};
  mlff_error error = {.code = MLFF_OK};
  FILE *file = fopen(path, "rb");
  ck_assert_ptr_nonnull(file);
  fseek(file, 0, SEEK_END);
  p.size = (size_t) ftell(file);
  rewind(file);
  p.bytes = malloc(p.size);
  ck_assert_uint_eq(fread(p.bytes, 1, p.size, file), p.size);
  fclose(file);
  test_ok(mlff_safetensors_parse(path, p.bytes, p.size, &p.arena, &p.tensors, &p.n, &error), error);
  return p;
}

double *published_values(const published *p, const char *name, int64_t *n_rows)
{
  for (int k = 0; k < p->n; k++) {
    const mlff_tensor *t = &p->tensors[k];
    if (strcmp(t->name, name) != 0) continue;
    ck_assert_str_eq(t->dtype, "F32");
    double *values = malloc((size_t) (t->n + 1) * sizeof *values);
    for (int64_t e = 0; e < t->n; e++) {
      float x;
      memcpy(&x, p->bytes + t->begin + 4 * (size_t) e, 4);
      values[e] = (double) x;
    }
    *n_rows = t->shape[0];
    return values;
  }
  ck_abort_msg("no tensor %s", name);
  return NULL;
}

void published_free(published *p)
{
  mlff_arena_free(&p->arena);
  free(p->bytes);
}
