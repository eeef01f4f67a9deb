/* explain.c: compares the time of each part of a step with the roofline of a core, and prints advice. */
#include "../../base/number.h"
#include "../../base/writer.h"
#include "document.h"
#include "report/make.h"
#include "errors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_LOSSES = 3 };
static const double worth = 1.05; /* smallest speed-up that is printed */

typedef struct part {
  const char *name, *parent;
  double ms, share, gflops, gbs;
  double of_core; /* shortest time that a core needs, as a fraction of the time taken; NaN: unknown */
} part;

/* A core computes while it reads: the longer time counts. */
static double core_share(const mlffprof_component_result *c, const mlffprof_roof *roof)
{
  if (!roof || !(c->mean_ms > 0)) return NAN;
  const double computes = 1e3 * c->gflop / roof->gflops, reads = 1e3 * c->gbyte / roof->cache_gbs;
  return fmax(computes, reads) / c->mean_ms; /* fmax: the one that is a number */
}

static part part_of(const mlffprof_component_result *c, const mlffprof_roof *roof)
{
  return (part){.name = c->name,
                .parent = c->parent,
                .ms = c->mean_ms,
                .share = c->share,
                .gflops = 1e3 * c->gflop / c->mean_ms,
                .gbs = 1e3 * c->gbyte / c->mean_ms,
                .of_core = core_share(c, roof)};
}

/* Sorts hotspots by gain, the largest first; returns the number above the smallest speed-up. */
static int losses_of(const mlffprof_report *p, const mlffprof_hotspot **losses)
{
  int n = 0;
  for (int k = 0; k < p->n_hotspots; k++) {
    const mlffprof_hotspot *h = &p->hotspots[k];
    if (!(h->gain >= worth)) continue;
    int place = n < N_LOSSES ? n++ : N_LOSSES;
    for (; place > 0 && losses[place - 1]->gain < h->gain; place--)
      if (place < N_LOSSES) losses[place] = losses[place - 1];
    if (place < N_LOSSES) losses[place] = h;
  }
  return n;
}

/* Messages of LAMMPS in a step: positions and, with newton on, forces, to both sides in each direction that is
 * split. NaN: unknown. */
static double lammps_messages(const mlffprof_report *p)
{
  const char *grid = mlffprof_context_text(p, "processor_grid"), *newton = mlffprof_context_text(p, "newton_pair");
  int n[3];
  if (!grid || sscanf(grid, "%d x %d x %d", &n[0], &n[1], &n[2]) != 3) return NAN;
  return 2 * ((n[0] > 1) + (n[1] > 1) + (n[2] > 1)) * (newton && !strcmp(newton, "on") ? 2 : 1);
}

/* Shortest time of the messages as a fraction of `comm`; NaN: unknown. */
static double message_share(const mlffprof_report *p)
{
  for (int k = 0; k < p->n_components && p->n_ranks > 1; k++)
    if (!strcmp(p->components[k].name, "comm") && p->components[k].mean_ms > 0)
      return 1e-3 * lammps_messages(p) * mlffprof_context_number(p, "message_us") / p->components[k].mean_ms;
  return NAN;
}

/* The part of the model that takes longest, NULL without parts. */
static const mlffprof_component_result *longest_part(const mlffprof_report *p)
{
  const mlffprof_component_result *best = NULL;
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    if (c->parent && c->n && (!best || c->share > best->share)) best = c;
  }
  return best;
}

/* ---- what a core can do ------------------------------------------------------------------------------------------ */

static mlffprof_status find_roof(mlffprof_document *d, const mlffprof_report *p, mlffprof_roof *roof)
{
  const char *cpu, *kernels, *precision, *of = mlffprof_context_text(p, "cpu");
  const char *used = mlffprof_context_text(p, "kernels"), *wanted = mlffprof_context_text(p, "precision");
  const mlff_yaml *list;
  int n;
  MLFF_TRY(mlffprof_get_text(d, d->root, "cpu", &cpu));
  MLFF_TRY(mlffprof_get_list(d, d->root, "roofs", &list, &n));
  if (!n)
    return mlffprof_document_fail(d, NULL,
                                  "there are no rates of a core in it: write it by mlff check --roof --json FILE");
  if (cpu && of && strcmp(cpu, of) != 0)
    return mlffprof_document_fail(d, NULL, "was measured on processor '%s', but the report on '%s'", cpu, of);
  for (const mlff_yaml *row = list->first; row; row = row->next) {
    MLFF_TRY(mlffprof_get_text(d, row, "kernels", &kernels));
    MLFF_TRY(mlffprof_get_text(d, row, "precision", &precision));
    if (!kernels || !precision || !used || !wanted || strcmp(kernels, used) != 0 || strcmp(precision, wanted) != 0)
      continue;
    MLFF_TRY(mlffprof_get_number(d, row, "gflops", &roof->gflops));
    MLFF_TRY(mlffprof_get_number(d, row, "cache_gb_per_s", &roof->cache_gbs));
    return mlffprof_get_number(d, row, "memory_gb_per_s", &roof->memory_gbs);
  }
  return mlffprof_document_fail(d, list, "no rates for kernels %s in precision %s, which the report used",
                                used ? used : "(unknown)", wanted ? wanted : "(unknown)");
}

mlffprof_status mlffprof_roof_read(const char *path, const mlffprof_report *report, mlffprof_roof *roof,
                                   mlffprof_error *error)
{
  mlffprof_document d;
  *roof = (mlffprof_roof){NAN, NAN, NAN, path};
  MLFF_TRY(mlffprof_document_read(path, &d, error));
  const mlffprof_status status = find_roof(&d, report, roof);
  mlffprof_document_free(&d);
  return status;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static const char *shown(double value, int decimals, char *text)
{
  return isfinite(value) ? mlff_number_fixed(value, decimals, text) : "-";
}

static void print_part(FILE *out, const part *t)
{
  char texts[5][MLFF_NUMBER_SIZE];
  fprintf(out, "  %s%-*s%10s%9s%%%10s%10s%9s%s\n", t->parent ? "  " : "", t->parent ? 20 : 22, t->name,
          isfinite(t->ms) ? mlff_number_format(t->ms, 4, texts[0]) : "-", shown(100 * t->share, 1, texts[1]),
          shown(t->gflops, 1, texts[2]), shown(t->gbs, 1, texts[3]), shown(100 * t->of_core, 0, texts[4]),
          isfinite(t->of_core) ? "%" : "");
}

static void print_roof(const mlffprof_report *p, const mlffprof_roof *roof, FILE *out)
{
  char texts[3][MLFF_NUMBER_SIZE];
  const double share = message_share(p), message = mlffprof_context_number(p, "message_us");
  if (roof)
    fprintf(out, "  a core: %s GFLOP/s of multiply-adds, %s GB/s from its cache, %s GB/s from memory (%s)\n",
            shown(roof->gflops, 1, texts[0]), shown(roof->cache_gbs, 1, texts[1]), shown(roof->memory_gbs, 1, texts[2]),
            roof->source);
  else
    fputs("  the limits of this core are unknown: run mlff check --roof --json FILE on the machine of the report, and "
          "pass\n  FILE with --roof\n",
          out);
  if (isfinite(share))
    fprintf(out, "  a message between ranks takes %s us, so that those of LAMMPS need %s %% of comm\n",
            shown(message, 2, texts[0]), shown(100 * fmin(share, 1), 0, texts[1]));
}

static void print_nothing(const mlffprof_report *p, const mlffprof_roof *roof, FILE *out)
{
  char texts[2][MLFF_NUMBER_SIZE];
  const mlffprof_component_result *c = longest_part(p);
  fputs("  No setting would speed up this run by 5 % or more", out);
  if (!c) {
    fputs("\n", out);
    return;
  }
  const double of_core = core_share(c, roof);
  fprintf(out, ".\n  The model's largest part is %s, %s %% of the step", c->name, shown(100 * c->share, 0, texts[0]));
  if (isfinite(of_core)) fprintf(out, ", at %s %% of the limit of this core", shown(100 * of_core, 0, texts[1]));
  fputs(". Only a smaller model (mlff distill), more ranks or a GPU would be faster\n", out);
}

static void print_text(const mlffprof_report *p, const mlffprof_roof *roof, FILE *out)
{
  const mlffprof_hotspot *losses[N_LOSSES];
  const int n = losses_of(p, losses);
  char texts[3][MLFF_NUMBER_SIZE];
  fprintf(out, "%s: a step takes %s ms\n", p->name ? p->name : "profile",
          mlff_number_format(p->latency.mean, 4, texts[0]));
  fprintf(out, "\n%-24s%10s%10s%10s%10s%10s\n", "part", "ms", "share", "GFLOP/s", "GB/s", "of a core");
  for (int k = 0; k < p->n_components; k++) {
    if (p->components[k].parent || !p->components[k].n) continue;
    const part top = part_of(&p->components[k], roof);
    print_part(out, &top);
    for (int j = 0; j < p->n_components; j++) {
      const part below = part_of(&p->components[j], roof);
      if (below.parent && !strcmp(below.parent, top.name) && p->components[j].n) print_part(out, &below);
    }
  }
  print_roof(p, roof, out);
  fputs("\npossible speed-ups\n", out);
  for (int k = 0; k < n; k++)
    fprintf(out, "  %d. up to %sx: %s, %s %% of the step: %s\n", k + 1, shown(losses[k]->gain, 2, texts[0]),
            losses[k]->component, shown(100 * losses[k]->share, 0, texts[1]), losses[k]->advice);
  if (!n) print_nothing(p, roof, out);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void write_parts(mlff_writer *w, const mlffprof_report *p, const mlffprof_roof *roof)
{
  mlff_write_array(w, "parts");
  for (int k = 0; k < p->n_components; k++) {
    const part t = part_of(&p->components[k], roof);
    if (!p->components[k].n) continue;
    mlff_write_object(w, NULL);
    mlff_write_text(w, "name", t.name);
    mlff_write_text(w, "parent", t.parent);
    mlff_write_number(w, "mean_ms", t.ms);
    mlff_write_number(w, "share", t.share);
    mlff_write_number(w, "gflops", t.gflops);
    mlff_write_number(w, "gbs", t.gbs);
    mlff_write_number(w, "share_of_core", t.of_core);
    mlff_write_end(w);
  }
  mlff_write_end(w);
}

static void write_json(const mlffprof_report *p, const mlffprof_roof *roof, FILE *out)
{
  const mlffprof_hotspot *losses[N_LOSSES];
  const int n = losses_of(p, losses);
  mlff_writer w = mlff_writer_on(out, 3);
  mlff_write_object(&w, NULL);
  mlff_write_text(&w, "name", p->name);
  mlff_write_number(&w, "mean_latency_ms", p->latency.mean);
  mlff_write_number(&w, "core_gflops", roof ? roof->gflops : NAN);
  mlff_write_number(&w, "core_cache_gbs", roof ? roof->cache_gbs : NAN);
  mlff_write_number(&w, "core_memory_gbs", roof ? roof->memory_gbs : NAN);
  mlff_write_number(&w, "message_us", mlffprof_context_number(p, "message_us"));
  mlff_write_number(&w, "message_share_of_comm", message_share(p));
  write_parts(&w, p, roof);
  mlff_write_array(&w, "losses");
  for (int k = 0; k < n; k++) {
    mlff_write_object(&w, NULL);
    mlff_write_text(&w, "component", losses[k]->component);
    mlff_write_number(&w, "share", losses[k]->share);
    mlff_write_number(&w, "gain", losses[k]->gain);
    mlff_write_text(&w, "advice", losses[k]->advice);
    mlff_write_end(&w);
  }
  mlff_write_end(&w);
  mlff_write_end(&w);
  fputc('\n', out);
}

mlffprof_status mlffprof_explain(const mlffprof_report *report, const mlffprof_roof *roof, int as_json, FILE *out,
                                 mlffprof_error *error)
{
  if (!report || !out)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "mlffprof_explain: %s is NULL", report ? "out" : "report");
  if (as_json)
    write_json(report, roof, out);
  else
    print_text(report, roof, out);
  return mlffprof_flushed(out, "the explanation", error);
}
