/* rules.c: reading rules, and targets of a report. */
#include "compare/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 1000 };
static const char *const kind_names[MLFFPROF_N_RULE_KINDS] = {"below", "above", "ratio_below", "ratio_above",
                                                              "change_below"};

const char *mlffprof_rule_kind_name(mlffprof_rule_kind kind)
{
  return kind_names[kind];
}

int mlffprof_rule_applies(const mlffprof_rule *rule, const mlffprof_report *report)
{
  return !rule->model || (report->model_name && !strcmp(rule->model, report->model_name));
}

static int is_metric(const char *name)
{
  for (int k = 0; mlffprof_metric_name(k); k++)
    if (!strcmp(mlffprof_metric_name(k), name)) return 1;
  return 0;
}

static int is_latency(const char *metric)
{
  static const char *const names[] = {"mean_latency_ms", "median_latency_ms", "p95_latency_ms", "p99_latency_ms"};
  for (int k = 0; k < 4; k++)
    if (!strcmp(names[k], metric)) return 1;
  return 0;
}

static mlffprof_rules *rules_new(int n)
{
  mlffprof_rules *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->list = mlff_arena_alloc(&r->arena, (size_t) n, sizeof *r->list);
  if (r->list) return r;
  mlffprof_rules_free(r);
  return NULL;
}

void mlffprof_rules_free(mlffprof_rules *rules)
{
  if (!rules) return;
  mlff_arena_free(&rules->arena);
  free(rules);
}

mlffprof_status mlffprof_rules_default(mlffprof_rules **rules, mlffprof_error *error)
{
  static const mlffprof_rule bars[] = {{"p95_over_mean", NULL, MLFFPROF_BELOW, 2, 0},
                                       {"p99_over_mean", NULL, MLFFPROF_BELOW, 3, 0},
                                       {"cv", NULL, MLFFPROF_BELOW, 0.2, 0},
                                       {"memory_delta_mb", NULL, MLFFPROF_BELOW, 10, 0}};
  const int n = sizeof bars / sizeof *bars;
  *rules = rules_new(n);
  if (!*rules) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for rules");
  memcpy((*rules)->list, bars, sizeof bars);
  (*rules)->n = n;
  return MLFFPROF_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static mlffprof_status check_keys(mlffprof_document *d, const mlff_yaml *m, const char *const *known, int n_known,
                                  const char *list)
{
  for (const mlff_yaml *value = m->first; value; value = value->next) {
    int i = 0;
    while (i < n_known && strcmp(known[i], value->key)) i++;
    if (i == n_known) return mlffprof_document_fail(d, value, "unknown key '%.60s'; known are %s", value->key, list);
  }
  return MLFFPROF_OK;
}

/* The one bound of a rule. */
static mlffprof_status read_bound(mlffprof_document *d, const mlff_yaml *m, mlffprof_rule *rule)
{
  int n = 0;
  for (int k = 0; k < MLFFPROF_N_RULE_KINDS; k++) {
    double bound = NAN;
    MLFF_TRY(mlffprof_get_number(d, m, kind_names[k], &bound));
    if (isnan(bound)) continue;
    rule->kind = (mlffprof_rule_kind) k;
    rule->bound = bound;
    n++;
  }
  if (n == 1) return MLFFPROF_OK;
  return mlffprof_document_fail(d, m,
                                "a rule has one of below, above, ratio_below, ratio_above and change_below, not %d", n);
}

static mlffprof_status read_rule(mlffprof_document *d, const mlff_yaml *m, mlffprof_rule *rule)
{
  static const char *const known[] = {"metric", "model",       "significant", "below",
                                      "above",  "ratio_below", "ratio_above", "change_below"};
  if (m->kind != MLFF_YAML_MAPPING)
    return mlffprof_document_fail(d, m, "a rule is written {metric: NAME, below: NUMBER}");
  MLFF_TRY(check_keys(d, m, known, (int) (sizeof known / sizeof *known),
                      "metric, model, significant, below, above, ratio_below, ratio_above, change_below"));
  MLFF_TRY(mlffprof_get_text(d, m, "metric", &rule->metric));
  MLFF_TRY(mlffprof_get_text(d, m, "model", &rule->model));
  MLFF_TRY(mlffprof_get_bool(d, m, "significant", 0, &rule->significant));
  if (!rule->metric) return mlffprof_document_fail(d, m, "a rule without metric");
  if (!is_metric(rule->metric))
    return mlffprof_document_fail(d, m, "unknown metric '%.60s'; docs/gates.md lists them", rule->metric);
  MLFF_TRY(read_bound(d, m, rule));
  const int is_ratio = rule->kind == MLFFPROF_RATIO_BELOW || rule->kind == MLFFPROF_RATIO_ABOVE;
  if (rule->significant && !(is_ratio && is_latency(rule->metric)))
    return mlffprof_document_fail(d, m, "significant goes with ratios of mean, median, p95 and p99 latencies only");
  return MLFFPROF_OK;
}

static int same_rule(const mlffprof_rule *a, const mlffprof_rule *b)
{
  return a->kind == b->kind && !strcmp(a->metric, b->metric) &&
         (a->model && b->model ? !strcmp(a->model, b->model) : a->model == b->model);
}

static mlffprof_status read_rules(mlffprof_document *d, mlffprof_rules **rules)
{
  static const char *const known[] = {"rules"};
  const mlff_yaml *list = NULL;
  int n = 0;
  MLFF_TRY(check_keys(d, d->root, known, 1, "rules"));
  MLFF_TRY(mlffprof_get_list(d, d->root, "rules", &list, &n));
  if (n == 0) return mlffprof_document_fail(d, d->root, "there are no rules");
  if (n > MAX_RULES) return mlffprof_document_fail(d, list, "more than %d rules", (int) MAX_RULES);
  *rules = rules_new(n);
  if (!*rules) return mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
  d->arena = &(*rules)->arena; /* it owns the texts of the rules */
  const mlff_yaml *item = list->first;
  for (int k = 0; item; k++, item = item->next) {
    mlffprof_rule *rule = &(*rules)->list[k];
    MLFF_TRY(read_rule(d, item, rule));
    for (int i = 0; i < k; i++)
      if (same_rule(&(*rules)->list[i], rule))
        return mlffprof_document_fail(d, item, "a second rule '%s' about %s", kind_names[rule->kind], rule->metric);
    (*rules)->n = k + 1;
  }
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_rules_read(const char *path, mlffprof_rules **rules, mlffprof_error *error)
{
  mlffprof_document d;
  *rules = NULL;
  MLFF_TRY(mlffprof_document_read(path, &d, error));
  const mlffprof_status status = read_rules(&d, rules);
  mlffprof_document_free(&d);
  if (!status) return MLFFPROF_OK;
  mlffprof_rules_free(*rules);
  *rules = NULL;
  return status;
}

/* ---- targets ----------------------------------------------------------------------------------------------------- */

static mlffprof_status fill_targets(mlffprof_report *p, const mlffprof_rules *rules, mlffprof_error *error)
{
  mlffprof_target *list = mlff_arena_alloc(p->arena, (size_t) rules->n, sizeof *list);
  int n = 0;
  for (int k = 0; list && k < rules->n; k++) {
    const mlffprof_rule *rule = &rules->list[k];
    if (rule->kind > MLFFPROF_ABOVE || !mlffprof_rule_applies(rule, p)) continue;
    mlffprof_target *t = &list[n++];
    *t = (mlffprof_target){.metric = mlff_arena_string(p->arena, rule->metric),
                           .relation = rule->kind == MLFFPROF_BELOW ? "<" : ">",
                           .bound = rule->bound,
                           .value = NAN};
    mlffprof_report_metric(p, rule->metric, &t->value);
    t->passed = isnan(t->value) ? -1 : rule->kind == MLFFPROF_BELOW ? t->value < t->bound : t->value > t->bound;
  }
  if (p->arena->failed) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for targets");
  p->targets = list;
  p->n_targets = n;
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_report_targets(mlffprof_report *report, const mlffprof_rules *rules, mlffprof_error *error)
{
  mlffprof_rules *bars = NULL;
  if (rules) return fill_targets(report, rules, error);
  MLFF_TRY(mlffprof_rules_default(&bars, error));
  const mlffprof_status status = fill_targets(report, bars, error);
  mlffprof_rules_free(bars);
  return status;
}
