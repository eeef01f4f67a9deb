/* scaling_table.c: reports of `mlff scaling` as text (format mlff-scaling/1, docs/clusters.md). */
#include "../../base/number.h"
#include "document.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 10 };
static const char format_name[] = "mlff-scaling/1";

/* Columns with up to `digits` significant digits. Empty columns are omitted. */
static const struct {
  const char *key, *head, *unit;
  double scale;
  int digits;
} columns[] = {
    {"ranks", "ranks", "", 1, 9},
    {"replicas", "replicas", "", 1, 9},
    {"n_atoms", "atoms", "", 1, 9},
    {"ghosts_per_rank", "ghosts", "per rank", 1, 6},
    {"median_ms", "median", "ms/step", 1, 4},
    {"median_us_per_atom", "median", "us/atom", 1, 4},
    {"replica_steps_per_second", "replica-", "steps/s", 1, 4},
    {"cost_against_one", "one costs", "x alone", 1, 3},
    {"speedup", "speed-up", "", 1, 3},
    {"efficiency", "efficient", "%", 100, 3},
    {"evaluate_ms", "model", "ms", 1, 4},
    {"exchange_ms", "exchange", "ms", 1, 3},
    {"comm_ms", "comm", "ms", 1, 3},
    {"spread", "spread", "%", 100, 2},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

typedef struct scaling {
  mlffprof_document d;
  const mlff_yaml *rows, *checks;
  int n_rows, n_checks, used[N_COLUMNS];
} scaling;

static mlffprof_status check_rows(scaling *s, const mlff_yaml *list, const char *name)
{
  const mlff_yaml *row = list ? list->first : NULL;
  for (int k = 0; row; k++, row = row->next)
    if (row->kind != MLFF_YAML_MAPPING)
      return mlffprof_document_fail(&s->d, row, "entry %d of %s is not a block ({...})", k, name);
  return MLFFPROF_OK;
}

static mlffprof_status read_lists(scaling *s)
{
  MLFF_TRY(mlffprof_get_list(&s->d, s->d.root, "rows", &s->rows, &s->n_rows));
  MLFF_TRY(mlffprof_get_list(&s->d, s->d.root, "checks", &s->checks, &s->n_checks));
  if (s->n_rows < 1) return mlffprof_document_fail(&s->d, NULL, "a scaling report without rows");
  MLFF_TRY(check_rows(s, s->rows, "rows"));
  MLFF_TRY(check_rows(s, s->checks, "checks"));
  for (const mlff_yaml *row = s->rows->first; row; row = row->next)
    for (int c = 0; c < N_COLUMNS; c++) {
      double value = NAN;
      MLFF_TRY(mlffprof_get_number(&s->d, row, columns[c].key, &value));
      s->used[c] |= isfinite(value);
    }
  return MLFFPROF_OK;
}

static mlffprof_status print_head(scaling *s, FILE *out)
{
  const char *mode = NULL, *model = NULL, *device = NULL, *timestamp = NULL, *notes = NULL, *cpu = NULL;
  const mlff_yaml *context = NULL;
  const struct {
    const char *key, **value;
  } texts[] = {{"mode", &mode}, {"model", &model}, {"device", &device}, {"timestamp", &timestamp}, {"notes", &notes}};
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
    MLFF_TRY(mlffprof_get_text(&s->d, s->d.root, texts[k].key, texts[k].value));
  MLFF_TRY(mlffprof_get_mapping(&s->d, s->d.root, "context", &context));
  if (context) MLFF_TRY(mlffprof_get_text(&s->d, context, "cpu", &cpu));
  fprintf(out, "%s scaling: %s on %s%s%s%s%s\n", mode ? mode : "-", model ? model : "-", device ? device : "-",
          cpu ? ", " : "", cpu ? cpu : "", timestamp ? ", " : "", timestamp ? timestamp : "");
  if (notes && *notes) fprintf(out, "%s\n", notes);
  for (int c = 0; c < N_COLUMNS; c++)
    if (s->used[c]) fprintf(out, "%*s", WIDTH, columns[c].head);
  fputc('\n', out);
  for (int c = 0; c < N_COLUMNS; c++)
    if (s->used[c]) fprintf(out, "%*s", WIDTH, columns[c].unit);
  fputc('\n', out);
  return MLFFPROF_OK;
}

static mlffprof_status print_rows(scaling *s, FILE *out)
{
  int n_shared = 0;
  for (const mlff_yaml *row = s->rows->first; row; row = row->next) {
    int shared = 0;
    MLFF_TRY(mlffprof_get_bool(&s->d, row, "oversubscribed", 0, &shared));
    n_shared += shared;
    for (int c = 0; c < N_COLUMNS; c++) {
      char text[MLFF_NUMBER_SIZE] = "-";
      double value = NAN;
      MLFF_TRY(mlffprof_get_number(&s->d, row, columns[c].key, &value));
      if (isfinite(value)) mlff_number_format(columns[c].scale * value, columns[c].digits, text);
      if (s->used[c]) fprintf(out, "%*s", WIDTH, text);
    }
    fputs(shared ? "  *\n" : "\n", out);
  }
  if (n_shared) fputs("* more ranks than processors: no measure of speed\n", out);
  return MLFFPROF_OK;
}

static mlffprof_status print_checks(scaling *s, FILE *out)
{
  const mlff_yaml *row = s->checks ? s->checks->first : NULL;
  for (int k = 0; row; k++, row = row->next) {
    double ranks = NAN, atoms = NAN, values[3] = {NAN, NAN, NAN};
    static const char *const keys[] = {"energy_per_atom", "force", "pressure"};
    char text[5][MLFF_NUMBER_SIZE];
    int passed = 0;
    MLFF_TRY(mlffprof_get_number(&s->d, row, "ranks", &ranks));
    MLFF_TRY(mlffprof_get_number(&s->d, row, "n_atoms", &atoms));
    MLFF_TRY(mlffprof_get_bool(&s->d, row, "passed", 0, &passed));
    for (int c = 0; c < 3; c++) {
      MLFF_TRY(mlffprof_get_number(&s->d, row, keys[c], &values[c]));
      if (!isfinite(values[c])) return mlffprof_document_fail(&s->d, row, "entry %d of checks has no %s", k, keys[c]);
      mlff_number_format(values[c], 2, text[c]);
    }
    if (!isfinite(ranks) || !isfinite(atoms))
      return mlffprof_document_fail(&s->d, row, "entry %d of checks has no ranks or n_atoms", k);
    fprintf(
        out,
        "%s  %s ranks against one, %s atoms, double precision: energy %s eV/atom, forces %s eV/A, pressure %s bar\n",
        passed ? "same   " : "DIFFERS", mlff_number_format(ranks, 9, text[3]), mlff_number_format(atoms, 9, text[4]),
        text[0], text[1], text[2]);
  }
  return MLFFPROF_OK;
}

static mlffprof_status print_scaling(scaling *s, FILE *out)
{
  MLFF_TRY(read_lists(s));
  MLFF_TRY(print_head(s, out));
  MLFF_TRY(print_rows(s, out));
  MLFF_TRY(print_checks(s, out));
  return mlffprof_flushed(out, "a table", s->d.error);
}

mlffprof_status mlffprof_scaling_print(const char *path, FILE *out, int *is_scaling, mlffprof_error *error)
{
  scaling s = {.n_rows = 0};
  const char *format = NULL;
  *is_scaling = 0;
  MLFF_TRY(mlffprof_document_read(path, &s.d, error));
  mlffprof_status status = mlffprof_get_text(&s.d, s.d.root, "format", &format);
  *is_scaling = format && !strcmp(format, format_name);
  if (!status && *is_scaling) status = print_scaling(&s, out);
  mlffprof_document_free(&s.d);
  return status;
}
