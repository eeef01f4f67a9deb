/* table.c: a report as text, at most 100 columns wide. */
#include "../../base/number.h"
#include "errors.h"

#include <math.h>
#include <string.h>

enum { N_CELLS = 16, BAR = 20 };

/* Output, and the texts of the numbers of one line. */
typedef struct table {
  FILE *out;
  char cells[N_CELLS][MLFF_NUMBER_SIZE];
  int next;
} table;

/* A number with significant digits, "-" when it was not measured. */
static const char *cell(table *t, double value, int digits)
{
  char *text = t->cells[t->next++ % N_CELLS];
  return isfinite(value) ? mlff_number_format(value, digits, text) : "-";
}

static const char *fixed(table *t, double value, int decimals)
{
  return mlff_number_fixed(value, decimals, t->cells[t->next++ % N_CELLS]);
}

/* A value with the digits that its error leaves, two of the error; rounded(t, error, error) is the error itself. */
static const char *rounded(table *t, double value, double error)
{
  if (!(error > 0) || !isfinite(error) || !isfinite(value)) return cell(t, value, 5);
  const int last = (int) floor(log10(error)) - 1; /* place of the last digit that counts */
  if (last >= -7) {
    const double unit = pow(10, last);
    return fixed(t, last > 0 ? unit * round(value / unit) : value, last < 0 ? -last : 0);
  }
  const int digits = value != 0 ? (int) floor(log10(fabs(value))) - last + 1 : 0;
  return digits < 1 ? "0" : cell(t, value, digits < 17 ? digits : 17);
}

static const char *or_dash(const char *text)
{
  return text && *text ? text : "-";
}

static void print_bar(FILE *out, double share)
{
  const int n = share > 0 ? (int) (fmin(share, 1) * BAR + 0.5) : 0;
  fputs("  ", out);
  for (int k = 0; k < n; k++) fputc('#', out);
  fputc('\n', out);
}

static void print_head(table *t, const mlffprof_report *p)
{
  fprintf(t->out, "%s: %s on %s", or_dash(p->name), or_dash(p->model_name), or_dash(p->device));
  if (p->ensemble) fprintf(t->out, ", %s", p->ensemble);
  if (p->n_atoms >= 0) fprintf(t->out, ", %lld atoms", (long long) p->n_atoms);
  fprintf(t->out, ", %d rank%s", p->n_ranks, p->n_ranks == 1 ? "" : "s");
  if (p->timestamp) fprintf(t->out, ", %s", p->timestamp);
  fprintf(t->out, "\n  %lld steps measured, %lld warm-up steps excluded", (long long) p->n_steps,
          (long long) p->n_warmup);
  if (p->n_warmup) fprintf(t->out, " (mean %s ms)", cell(t, p->warmup.mean, 4));
  fputc('\n', t->out);
  if (p->notes && *p->notes) fprintf(t->out, "  %s\n", p->notes);
}

static void print_latency(table *t, const mlffprof_report *p)
{
  const mlffprof_stats *s = &p->latency;
  fprintf(t->out, "\nlatency per step, ms%s\n", p->quantiles_exact ? "" : "   (median, p95, p99 within 0.5 %)");
  fprintf(t->out, "%10s%10s%10s%10s%10s%10s%10s%10s\n", "mean", "median", "std", "min", "max", "p95", "p99", "cv");
  fprintf(t->out, "%10s%10s%10s%10s%10s%10s%10s%9s%%\n", cell(t, s->mean, 4), cell(t, s->median, 4), cell(t, s->std, 4),
          cell(t, s->min, 4), cell(t, s->max, 4), cell(t, s->p95, 4), cell(t, s->p99, 4), fixed(t, 100 * s->cv, 1));
  fprintf(t->out, "  %s us/atom   %s steps/s   %s ns/day   %s s in total\n", cell(t, p->us_per_atom, 4),
          cell(t, p->steps_per_second, 5), cell(t, p->ns_per_day, 4), cell(t, p->total_time_s, 4));
  if (isfinite(p->cpu_ms))
    fprintf(t->out, "  %s ms of the processor per step, %s %% of the wall time\n", cell(t, p->cpu_ms, 4),
            fixed(t, 100 * p->cpu_share, 0));
  if (mlffprof_is_disturbed(p))
    fputs("  DISTURBED: other programs had the processor; the processor time says more than these\n", t->out);
}

/* Levels above a component. */
static int depth_of(const mlffprof_report *p, const mlffprof_component_result *c)
{
  int depth = 0;
  const char *parent = c->parent;
  for (int k = p->n_components - 1; k >= 0 && parent; k--) {
    if (strcmp(p->components[k].name, parent)) continue;
    parent = p->components[k].parent;
    depth++;
  }
  return depth;
}

/* Components below `parent` (NULL: the top level), each followed by its own. */
static void print_level(table *t, const mlffprof_report *p, const char *parent)
{
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    const int here = parent && c->parent ? !strcmp(parent, c->parent) : parent == c->parent;
    if (!here || !c->n) continue;
    const int indent = 2 + 2 * depth_of(p, c);
    fprintf(t->out, "%*s%-*s%10s%10s%9s%%", indent, "", 24 - indent, c->name, cell(t, c->mean_ms, 4),
            cell(t, c->max_ms, 4), fixed(t, 100 * c->share, 1));
    print_bar(t->out, c->share);
    print_level(t, p, c->name);
  }
}

static void print_components(table *t, const mlffprof_report *p)
{
  if (!p->n_components) return;
  fprintf(t->out, "\n%-24s%10s%10s%10s\n", "component", "mean ms", "max ms", "share");
  print_level(t, p, NULL);
  if (!isnan(p->energy_time_ms) || !isnan(p->forces_time_ms) || !isnan(p->stress_time_ms))
    fprintf(t->out, "  energy %s ms, forces %s ms, stress %s ms\n", cell(t, p->energy_time_ms, 4),
            cell(t, p->forces_time_ms, 4), cell(t, p->stress_time_ms, 4));
}

static void print_tag_names(FILE *out, unsigned tags)
{
  int n = 0;
  for (int bit = 0; bit < MLFFPROF_N_TAGS; bit++)
    if (tags >> bit & 1) fprintf(out, "%s%s", n++ ? ", " : "", mlffprof_tag_name(bit));
  if (!n) fputs("no known cause", out);
}

static void print_slow(table *t, const mlffprof_report *p)
{
  enum { N_SHOWN = 5 };
  if (!p->n_slow_steps) return;
  fprintf(t->out, "\nslowest steps (%lld above twice the median, %s %% of the time)\n", (long long) p->n_slow,
          fixed(t, 100 * p->slow_share, 1));
  for (int k = 0; k < p->n_slow_steps && k < N_SHOWN; k++) {
    const mlffprof_slow_step *s = &p->slow_steps[k];
    fprintf(t->out, "%12lld%10s ms%8s x median  ", (long long) s->step, cell(t, s->latency_ms, 4),
            fixed(t, s->times_median, 1));
    print_tag_names(t->out, s->tags);
    if (s->slowest_rank >= 0 && p->n_ranks > 1) fprintf(t->out, ", rank %d", s->slowest_rank);
    fputc('\n', t->out);
  }
}

static void print_tags(table *t, const mlffprof_report *p)
{
  if (p->n_tags > 1)
    fprintf(t->out, "\n%-24s%10s%10s%10s%12s\n", "steps with", "steps", "mean ms", "share", "x untagged");
  for (int k = 0; k < p->n_tags && p->n_tags > 1; k++) {
    const mlffprof_tag_result *g = &p->tags[k];
    fprintf(t->out, "  %-22s%10lld%10s%9s%%%12s\n", g->name, (long long) g->n_steps, cell(t, g->mean_latency_ms, 4),
            fixed(t, 100 * g->share, 1), fixed(t, g->times_untagged, 2));
  }
  if (p->balance.n)
    fprintf(t->out,
            "\nbusiest rank %s ms, mean of the ranks %s ms: imbalance %s, of atoms %s; waiting %s %% of a step\n",
            cell(t, p->balance.busy_most_ms, 4), cell(t, p->balance.busy_mean_ms, 4), cell(t, p->balance.imbalance, 3),
            cell(t, p->balance.atoms_imbalance, 3), fixed(t, 100 * p->balance.waiting, 1));
  if (!p->n_slowest_ranks) return;
  fprintf(t->out, "%sslowest rank:", p->balance.n ? "" : "\n");
  for (int k = 0; k < p->n_slowest_ranks && k < 6; k++)
    fprintf(t->out, "%s rank %d in %lld steps", k ? "," : "", p->slowest_rank[k], (long long) p->slowest_rank_steps[k]);
  fputc('\n', t->out);
}

static void print_outside(table *t, const mlffprof_report *p)
{
  const mlffprof_outside *o = &p->outside;
#define ROW(S, FIELD, KIND, member, ...) {#member, o->member},
  const struct {
    const char *name;
    int64_t n;
  } kinds[] = {MLFFPROF_OUTSIDE_FIELDS(ROW, )};
#undef ROW
  int n = 0;
  if (!o->n) return;
  fprintf(t->out, "\noutside the training domain, of %lld checks:", (long long) o->n);
  for (size_t k = 1; k < sizeof kinds / sizeof *kinds; k++) /* the first is the number of checks */
    if (kinds[k].n) fprintf(t->out, "%s %s in %lld", n++ ? "," : "", kinds[k].name, (long long) kinds[k].n);
  fprintf(t->out, "%s\n", n ? "" : " none");
}

static void print_work(table *t, const mlffprof_report *p)
{
  const mlffprof_work *w = &p->work;
  if (!w->n) return;
  fprintf(t->out, "\ncounted work of a step: %s instructions per atom (%s), %s bytes moved per atom,\n",
          cell(t, w->instructions_per_atom, 5), or_dash(w->kernels), cell(t, w->bytes_moved_per_atom, 5));
  fprintf(t->out, "  %s allocations (%s bytes), %s bytes leaked, %s messages (%s bytes), %s new neighbor lists\n",
          cell(t, w->allocations_per_step, 4), cell(t, w->allocated_bytes_per_step, 4),
          cell(t, w->leaked_bytes_per_step, 4), cell(t, w->messages_per_step, 4), cell(t, w->message_bytes_per_step, 5),
          cell(t, w->list_builds_per_step, 4));
}

static void print_memory_kind(table *t, const char *name, const mlffprof_memory_result *m)
{
  if (isnan(m->final_bytes)) return;
  fprintf(t->out, "  %-8s%10s%10s%10s%10s  %-9s%s\n", name, fixed(t, m->initial_bytes / 1e6, 1),
          fixed(t, m->peak_bytes / 1e6, 1), fixed(t, m->final_bytes / 1e6, 1), fixed(t, m->delta_bytes / 1e6, 2),
          mlffprof_verdict_name(m->verdict), or_dash(m->reason));
  if (!isnan(m->reference_bytes))
    fprintf(t->out, "  %-8s%40s  for the reference model, in addition\n", "", fixed(t, m->reference_bytes / 1e6, 1));
}

static void print_memory(table *t, const mlffprof_report *p)
{
  if (isnan(p->memory.host.final_bytes) && isnan(p->memory.device.final_bytes)) return;
  fprintf(t->out, "\n%-10s%10s%10s%10s%10s  %s\n", "memory, MB", "initial", "peak", "final", "delta", "verdict");
  print_memory_kind(t, "host", &p->memory.host);
  print_memory_kind(t, "device", &p->memory.device);
}

static void print_drift(table *t, const mlffprof_report *p, const char *name, const mlffprof_quantity *q)
{
  if (!q->n) return;
  fprintf(t->out, "  %-12s drift %s +- %s %s (%s +- %s %%), fluctuation %s %%, largest excursion %s%s\n", name,
          rounded(t, q->drift, q->drift_error), rounded(t, q->drift_error, q->drift_error),
          p->energy.lj_units ? "eps/atom/tau" : "eV/atom/ps", rounded(t, q->drift_percent, q->drift_percent_error),
          rounded(t, q->drift_percent_error, q->drift_percent_error), cell(t, 100 * q->fluctuation, 3),
          cell(t, q->max_excursion, 3), p->energy.lj_units ? " eps" : " eV");
}

static void print_energy(table *t, const mlffprof_report *p)
{
  static const int plain[] = {MLFFPROF_TEMPERATURE, MLFFPROF_PRESSURE, MLFFPROF_VOLUME};
  static const char *const units[] = {" K", " bar", " A^3"}, *const rates[] = {" K/ps", " bar/ps", " A^3/ps"};
  const mlffprof_energy_report *e = &p->energy;
  if (!e->n_samples) return;
  fprintf(t->out, "\nenergy: %lld samples over %s %s; +- is half of a 95 %% interval\n", (long long) e->n_samples,
          cell(t, e->time_ps, 5), e->lj_units ? "tau" : "ps");
  print_drift(t, p, "total", &e->value[MLFFPROF_TOTAL]);
  print_drift(t, p, "conserved", &e->value[MLFFPROF_CONSERVED]);
  for (int k = 0; k < 3; k++) {
    const mlffprof_quantity *q = &e->value[plain[k]];
    if (!q->n) continue;
    if (q->max - q->min <= 1e-12 * fabs(q->mean)) {
      fprintf(t->out, "  %-12s %s%s, constant\n", mlffprof_quantity_name((mlffprof_quantity_id) plain[k]),
              cell(t, q->mean, 5), e->lj_units ? "" : units[k]);
      continue;
    }
    fprintf(t->out, "  %-12s %s%s, sd %s, from %s to %s, trend %s +- %s%s\n",
            mlffprof_quantity_name((mlffprof_quantity_id) plain[k]), rounded(t, q->mean, q->std),
            e->lj_units ? "" : units[k], rounded(t, q->std, q->std), rounded(t, q->min, q->std),
            rounded(t, q->max, q->std), rounded(t, q->drift, q->drift_error),
            rounded(t, q->drift_error, q->drift_error), e->lj_units ? " /tau" : rates[k]);
  }
  if (e->exploded)
    fprintf(t->out, "  EXPLODED at step %lld%s\n", (long long) e->first_bad_step,
            e->finite ? "" : ": a value is not finite");
}

static void print_accuracy(table *t, const mlffprof_report *p)
{
  const mlffprof_accuracy_report *a = &p->accuracy;
  if (!a->n_samples) return;
  fprintf(t->out, "\nagainst %s: %lld samples\n", a->reference ? a->reference : "the reference",
          (long long) a->n_samples);
  fprintf(t->out, "  energy   MAE %s, RMSE %s, bias %s meV/atom\n", cell(t, 1e3 * a->energy_mae, 4),
          cell(t, 1e3 * a->energy_rmse, 4), cell(t, 1e3 * a->energy_bias, 4));
  fprintf(t->out, "  forces   RMSE %s, MAE %s, max %s meV/A (step %lld), cosine %s, smallest %s\n",
          cell(t, 1e3 * a->force_rmse, 4), cell(t, 1e3 * a->force_mae, 4), cell(t, 1e3 * a->force_max, 4),
          (long long) a->worst_step, cell(t, a->force_cosine, 5), cell(t, a->force_cosine_min, 5));
  if (!isnan(a->stress_rmse))
    fprintf(t->out, "  stress   RMSE %s GPa; pressure RMSE %s, bias %s bar\n", cell(t, a->stress_rmse, 4),
            cell(t, a->pressure_rmse, 4), cell(t, a->pressure_bias, 4));
  for (int k = 0; k < a->n_elements; k++)
    fprintf(t->out, "  %-8s force RMSE %s, MAE %s meV/A\n", a->elements[k].name,
            cell(t, 1e3 * a->elements[k].force_rmse, 4), cell(t, 1e3 * a->elements[k].force_mae, 4));
}

static void print_hotspot(table *t, const mlffprof_hotspot *h)
{
  fprintf(t->out, "  %-20s%5s %%  %s", h->component, fixed(t, 100 * h->share, 0), h->advice);
  if (h->gain >= 1.05) fprintf(t->out, " (up to %s times as fast)", fixed(t, h->gain, 2));
  fputc('\n', t->out);
}

static void print_targets(table *t, const mlffprof_report *p)
{
  if (p->n_targets) fprintf(t->out, "\ntargets\n");
  for (int k = 0; k < p->n_targets; k++) {
    const mlffprof_target *g = &p->targets[k];
    fprintf(t->out, "  %-28s%10s %s %-8s %s\n", g->metric, cell(t, g->value, 4), g->relation, cell(t, g->bound, 4),
            g->passed > 0    ? "pass"
            : g->passed == 0 ? "FAIL"
                             : "not measured");
  }
  if (p->n_hotspots) fprintf(t->out, "\nhotspots\n");
  for (int k = 0; k < p->n_hotspots; k++) print_hotspot(t, &p->hotspots[k]);
}

static void print_context(table *t, const mlffprof_report *p)
{
  if (p->n_context) fprintf(t->out, "\ncontext\n");
  for (int k = 0; k < p->n_context; k++) {
    const mlffprof_context_entry *e = &p->context[k];
    fprintf(t->out, "  %-24s %s\n", e->key, e->text ? e->text : cell(t, e->number, 10));
  }
}

mlffprof_status mlffprof_report_print(const mlffprof_report *report, int all, FILE *out, mlffprof_error *error)
{
  table t = {.out = out};
  print_head(&t, report);
  print_latency(&t, report);
  print_components(&t, report);
  if (all) print_slow(&t, report);
  print_tags(&t, report);
  print_outside(&t, report);
  print_work(&t, report);
  print_memory(&t, report);
  print_energy(&t, report);
  print_accuracy(&t, report);
  print_targets(&t, report);
  if (all) print_context(&t, report);
  return mlffprof_flushed(out, "a table", error);
}

static int n_failed(const mlffprof_report *p)
{
  int n = 0;
  for (int k = 0; k < p->n_targets; k++) n += p->targets[k].passed == 0;
  return n;
}

/* Width of the column of names. Names often differ at their ends only, so only very long ones are cut. */
static int name_width(const mlffprof_report *const *reports, int n_reports)
{
  enum { LEAST = 21, MOST = 60 };
  size_t longest = LEAST;
  for (int k = 0; k < n_reports; k++) {
    const size_t length = strlen(or_dash(reports[k]->name));
    longest = length > longest ? length : longest;
  }
  return 1 + (longest < MOST ? (int) longest : MOST);
}

mlffprof_status mlffprof_reports_print(const mlffprof_report *const *reports, int n_reports, FILE *out,
                                       mlffprof_error *error)
{
  table t = {.out = out};
  const int width = name_width(reports, n_reports);
  fprintf(out, "%-*s%8s%9s%10s%10s%10s%10s%10s%10s%10s  %s\n", width, "name", "atoms", "steps", "median", "p95", "p99",
          "us/atom", "speed-up", "ns/day", "drift", "memory, bars");
  fprintf(out, "%-*s%8s%9s%10s%10s%10s%10s%10s%10s%10s\n", width, "", "", "", "ms", "ms", "ms", "", "per atom", "",
          "eV/at/ps");
  for (int k = 0; k < n_reports; k++) {
    const mlffprof_report *p = reports[k];
    const int bad = n_failed(p);
    fprintf(out, "%-*.*s%8s%9lld%10s%10s%10s%10s%10s%10s%10s  %s", width, width - 1, or_dash(p->name),
            p->n_atoms < 0 ? "-" : cell(&t, (double) p->n_atoms, 8), (long long) p->n_steps,
            cell(&t, p->latency.median, 4), cell(&t, p->latency.p95, 4), cell(&t, p->latency.p99, 4),
            cell(&t, p->us_per_atom, 4), cell(&t, mlffprof_speed_up(reports[0], p), 4), cell(&t, p->ns_per_day, 4),
            cell(&t, p->drift, 2), mlffprof_verdict_name(p->memory.verdict));
    if (p->n_targets) fprintf(out, bad ? ", %d missed" : ", met", bad);
    fputs(p->energy.exploded ? ", EXPLODED\n" : "\n", out);
  }
  return mlffprof_flushed(out, "a table", error);
}
