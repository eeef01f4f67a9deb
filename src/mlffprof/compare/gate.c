/* gate.c: reports against rules; what was not measured fails. */
#include "../../base/number.h"
#include "compare/rules.h"

#include <math.h>
#include <string.h>

/* One rule and its result. */
typedef struct outcome {
  double a, b, value; /* value: compared with the bound */
  int passed;
  const char *why; /* why it failed, if not by the bound */
} outcome;

/* Value of a rule: of the newest report, or of the change. */
static double value_of(const mlffprof_rule *rule, const outcome *o, int has_b)
{
  switch (rule->kind) {
  case MLFFPROF_RATIO_BELOW:
  case MLFFPROF_RATIO_ABOVE: return o->a > 0 && o->b >= 0 ? o->b / o->a : NAN;
  case MLFFPROF_CHANGE_BELOW: return o->b - o->a;
  case MLFFPROF_BELOW:
  case MLFFPROF_ABOVE:
  default: return has_b ? o->b : o->a;
  }
}

static int is_change(const mlffprof_rule *rule)
{
  return rule->kind >= MLFFPROF_RATIO_BELOW;
}

static int is_upper(const mlffprof_rule *rule)
{
  return rule->kind != MLFFPROF_ABOVE && rule->kind != MLFFPROF_RATIO_ABOVE;
}

/* A rule with `significant` is broken when the whole interval is beyond the bound. */
static mlffprof_status judge_significant(const mlffprof_rule *rule, const mlffprof_report *a, const mlffprof_report *b,
                                         outcome *o, mlffprof_error *error)
{
  mlffprof_ratio ratio;
  MLFF_TRY(mlffprof_compare_latency(a, b, rule->metric, &ratio, error));
  if (isnan(ratio.low)) {
    o->passed = 0;
    o->why = "not enough samples for an interval";
    return MLFFPROF_OK;
  }
  o->passed = is_upper(rule) ? ratio.low < rule->bound : ratio.high > rule->bound;
  return MLFFPROF_OK;
}

static mlffprof_status judge(const mlffprof_rule *rule, const mlffprof_report *a, const mlffprof_report *b, outcome *o,
                             mlffprof_error *error)
{
  *o = (outcome){.a = NAN, .b = NAN, .value = NAN};
  mlffprof_report_metric(a, rule->metric, &o->a);
  if (b) mlffprof_report_metric(b, rule->metric, &o->b);
  if (is_change(rule) && !b) {
    o->why = "a rule about a change needs a second report";
    return MLFFPROF_OK;
  }
  o->value = value_of(rule, o, b != NULL);
  if (isnan(o->value)) {
    o->why = isnan(o->a) || (b && isnan(o->b)) ? "not measured" : "no ratio of these values";
    return MLFFPROF_OK;
  }
  o->passed = is_upper(rule) ? o->value < rule->bound : o->value > rule->bound;
  return rule->significant ? judge_significant(rule, a, b, o, error) : MLFFPROF_OK;
}

static void print_outcome(const mlffprof_rule *rule, const outcome *o, int has_b, FILE *out)
{
  char text[4][MLFF_NUMBER_SIZE];
  const double values[4] = {o->value, rule->bound, o->a, o->b};
  for (int k = 0; k < 4; k++) {
    if (isfinite(values[k]))
      mlff_number_format(values[k], 5, text[k]);
    else
      snprintf(text[k], sizeof text[k], "-");
  }
  fprintf(out, "%-5s %-32s %-12s %10s %s %-10s", o->passed ? "pass" : "FAIL", rule->metric,
          mlffprof_rule_kind_name(rule->kind), text[0], is_upper(rule) ? "<" : ">", text[1]);
  if (has_b) fprintf(out, " A %s, B %s", text[2], text[3]);
  if (o->why) fprintf(out, " (%s)", o->why);
  if (rule->significant && !o->why) fputs(" (by the 95 % interval)", out);
  fputc('\n', out);
}

mlffprof_status mlffprof_gate(const mlffprof_rules *rules, const mlffprof_report *a, const mlffprof_report *b,
                              FILE *out, int *n_failed, mlffprof_error *error)
{
  int n_checked = 0;
  *n_failed = 0;
  for (int k = 0; k < rules->n; k++) {
    const mlffprof_rule *rule = &rules->list[k];
    outcome o;
    if (!mlffprof_rule_applies(rule, b ? b : a)) {
      fprintf(out, "skip  %-32s is about model %s\n", rule->metric, rule->model);
      continue;
    }
    MLFF_TRY(judge(rule, a, b, &o, error));
    print_outcome(rule, &o, b != NULL, out);
    *n_failed += !o.passed;
    n_checked++;
  }
  if (n_checked == 0) {
    fputs("FAIL  no rule is about this model\n", out);
    ++*n_failed;
  }
  fprintf(out, "%d of %d rules passed\n", n_checked ? n_checked - *n_failed : 0, n_checked);
  return mlffprof_flushed(out, "the outcome of a gate", error);
}
