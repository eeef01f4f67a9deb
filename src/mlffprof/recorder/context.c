/* context.c: the block `context` of a report while it is collected. */
#define _POSIX_C_SOURCE 200809L

#include "recorder/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mlffprof_status check_key(const char *key, mlffprof_error *error)
{
  const size_t n = key ? strlen(key) : 0;
  int levels = 1;
  int good = n > 0 && n <= MLFFPROF_MAX_KEY && key[0] != '/' && key[n - 1] != '/';
  for (size_t k = 0; good && k < n; k++) {
    levels += key[k] == '/';
    if (key[k] == '/' && key[k + 1] == '/') good = 0;
  }
  if (good && levels <= MLFFPROF_MAX_LEVELS) return MLFFPROF_OK;
  return mlffprof_fail(error, MLFFPROF_E_ARG,
                       "'%.120s' cannot be a key of the context: 1 to %d bytes, at most %d parts", key ? key : "",
                       (int) MLFFPROF_MAX_KEY, (int) MLFFPROF_MAX_LEVELS);
}

/* 1 when one of the keys is a block that the other one lies in. */
static int clashes(const char *a, const char *b)
{
  const size_t na = strlen(a), nb = strlen(b), n = na < nb ? na : nb;
  return na != nb && !strncmp(a, b, n) && (na < nb ? b[n] : a[n]) == '/';
}

static mlffprof_status find_item(mlffprof_recorder *r, const char *key, mlffprof_context_item **item,
                                 mlffprof_error *error)
{
  MLFF_TRY(check_key(key, error));
  for (int k = 0; k < r->n_context; k++) {
    if (clashes(r->context[k].key, key))
      return mlffprof_fail(error, MLFFPROF_E_ARG, "context: '%s' and '%s' cannot both be there", r->context[k].key,
                           key);
    if (!strcmp(r->context[k].key, key)) {
      *item = &r->context[k];
      return MLFFPROF_OK;
    }
  }
  if (r->n_context == MLFFPROF_MAX_CONTEXT)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "more than %d entries in the context", (int) MLFFPROF_MAX_CONTEXT);
  mlffprof_context_item *grown = realloc(r->context, ((size_t) r->n_context + 1) * sizeof *grown);
  if (grown) r->context = grown;
  char *copy = grown ? strdup(key) : NULL;
  if (!copy) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for the context");
  *item = &r->context[r->n_context++];
  **item = (mlffprof_context_item){.key = copy, .number = NAN};
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_recorder_context(mlffprof_recorder *r, const char *key, const char *text,
                                          mlffprof_error *error)
{
  mlffprof_context_item *item = NULL;
  MLFF_TRY(find_item(r, key, &item, error));
  item->number = NAN;
  if (!text) {
    free(item->text);
    item->text = NULL;
  }
  return mlffprof_text_set(&item->text, text) ? MLFFPROF_OK
                                              : mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for the context");
}

mlffprof_status mlffprof_recorder_context_number(mlffprof_recorder *r, const char *key, double value,
                                                 mlffprof_error *error)
{
  mlffprof_context_item *item = NULL;
  MLFF_TRY(find_item(r, key, &item, error));
  free(item->text);
  item->text = NULL;
  item->number = value;
  return MLFFPROF_OK;
}
