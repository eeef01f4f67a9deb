/* metrics.c: numbers of a report by name, for rules, targets and tables. */
#include "status.h"

#include <math.h>
#include <string.h>

typedef double metric(const mlffprof_report *p);

static double ratio(double a, double b)
{
  return b > 0 ? a / b : NAN;
}

static double mb(double bytes)
{
  return bytes / 1e6;
}

/* Of the device where it was measured, otherwise of the host, as the memory_..._gb of the JSON. */
static const mlffprof_memory_result *memory(const mlffprof_report *p)
{
  return isnan(p->memory.device.final_bytes) ? &p->memory.host : &p->memory.device;
}

/* The worse of host and device; NaN when neither was measured. */
static double worse(double a, double b)
{
  return fmax(a, b);
}

/* The quantity that the headline drift is of. */
static const mlffprof_quantity *headline(const mlffprof_report *p)
{
  const int conserved = p->energy.value[MLFFPROF_CONSERVED].n > 0;
  return &p->energy.value[conserved ? MLFFPROF_CONSERVED : MLFFPROF_TOTAL];
}

static double of(const mlffprof_quantity *q, double value)
{
  return q->n ? value : NAN;
}

static double n_steps(const mlffprof_report *p)
{
  return (double) p->n_steps;
}
static double mean_ms(const mlffprof_report *p)
{
  return p->latency.mean;
}
static double median_ms(const mlffprof_report *p)
{
  return p->latency.median;
}
static double std_ms(const mlffprof_report *p)
{
  return p->latency.std;
}
static double min_ms(const mlffprof_report *p)
{
  return p->latency.min;
}
static double max_ms(const mlffprof_report *p)
{
  return p->latency.max;
}
static double p95_ms(const mlffprof_report *p)
{
  return p->latency.p95;
}
static double p99_ms(const mlffprof_report *p)
{
  return p->latency.p99;
}
static double cv(const mlffprof_report *p)
{
  return p->latency.cv;
}
static double p95_over_mean(const mlffprof_report *p)
{
  return ratio(p->latency.p95, p->latency.mean);
}
static double p99_over_mean(const mlffprof_report *p)
{
  return ratio(p->latency.p99, p->latency.mean);
}
static double max_over_median(const mlffprof_report *p)
{
  return ratio(p->latency.max, p->latency.median);
}
static double us_per_atom(const mlffprof_report *p)
{
  return p->us_per_atom;
}
static double steps_per_second(const mlffprof_report *p)
{
  return p->steps_per_second;
}
static double ns_per_day(const mlffprof_report *p)
{
  return p->ns_per_day;
}
static double total_time(const mlffprof_report *p)
{
  return p->total_time_s;
}
static double energy_ms(const mlffprof_report *p)
{
  return p->energy_time_ms;
}
static double forces_ms(const mlffprof_report *p)
{
  return p->forces_time_ms;
}
static double stress_ms(const mlffprof_report *p)
{
  return p->stress_time_ms;
}
static double slow_share(const mlffprof_report *p)
{
  return p->slow_share;
}
static double memory_initial(const mlffprof_report *p)
{
  return memory(p)->initial_bytes / 1e9;
}
static double memory_final(const mlffprof_report *p)
{
  return memory(p)->final_bytes / 1e9;
}
static double memory_peak(const mlffprof_report *p)
{
  return memory(p)->peak_bytes / 1e9;
}

static double memory_delta(const mlffprof_report *p)
{
  return mb(worse(p->memory.host.delta_bytes, p->memory.device.delta_bytes));
}

static double memory_growth(const mlffprof_report *p)
{
  return mb(worse(p->memory.host.growth_per_1000_steps, p->memory.device.growth_per_1000_steps));
}

/* 0 stable, 1 growing, 2 leak. */
static double memory_verdict(const mlffprof_report *p)
{
  return p->memory.verdict == MLFFPROF_VERDICT_UNKNOWN ? NAN : (double) p->memory.verdict - MLFFPROF_VERDICT_STABLE;
}

static double drift(const mlffprof_report *p)
{
  return p->drift;
}
static double drift_size(const mlffprof_report *p)
{
  return fabs(p->drift);
}
static double drift_percent(const mlffprof_report *p)
{
  return of(headline(p), fabs(headline(p)->drift_percent));
}
static double energy_change(const mlffprof_report *p)
{
  return of(headline(p), fabs(headline(p)->change_percent));
}
static double fluctuation(const mlffprof_report *p)
{
  return of(headline(p), headline(p)->fluctuation);
}
static double excursion(const mlffprof_report *p)
{
  return of(headline(p), headline(p)->max_excursion);
}

static double temperature(const mlffprof_report *p)
{
  return of(&p->energy.value[MLFFPROF_TEMPERATURE], p->energy.value[MLFFPROF_TEMPERATURE].mean);
}

static double temperature_std(const mlffprof_report *p)
{
  return of(&p->energy.value[MLFFPROF_TEMPERATURE], p->energy.value[MLFFPROF_TEMPERATURE].std);
}

static double pressure(const mlffprof_report *p)
{
  return of(&p->energy.value[MLFFPROF_PRESSURE], p->energy.value[MLFFPROF_PRESSURE].mean);
}

static double pressure_std(const mlffprof_report *p)
{
  return of(&p->energy.value[MLFFPROF_PRESSURE], p->energy.value[MLFFPROF_PRESSURE].std);
}

static double exploded(const mlffprof_report *p)
{
  return p->energy.n_samples ? (double) p->energy.exploded : NAN;
}

static double accuracy(const mlffprof_report *p, double value)
{
  return p->accuracy.n_samples ? value : NAN;
}

static double energy_mae(const mlffprof_report *p)
{
  return accuracy(p, p->accuracy.energy_mae);
}
static double energy_rmse(const mlffprof_report *p)
{
  return accuracy(p, p->accuracy.energy_rmse);
}
static double force_rmse(const mlffprof_report *p)
{
  return accuracy(p, p->accuracy.force_rmse);
}
static double force_mae(const mlffprof_report *p)
{
  return accuracy(p, p->accuracy.force_mae);
}
static double force_max(const mlffprof_report *p)
{
  return accuracy(p, p->accuracy.force_max);
}
static double force_cosine(const mlffprof_report *p)
{
  return accuracy(p, p->accuracy.force_cosine);
}

static const struct {
  const char *name;
  metric *value;
} metrics[] = {
    {"mean_latency_ms", mean_ms},
    {"median_latency_ms", median_ms},
    {"std_latency_ms", std_ms},
    {"min_latency_ms", min_ms},
    {"max_latency_ms", max_ms},
    {"p95_latency_ms", p95_ms},
    {"p99_latency_ms", p99_ms},
    {"cv", cv},
    {"p95_over_mean", p95_over_mean},
    {"p99_over_mean", p99_over_mean},
    {"max_over_median", max_over_median},
    {"slow_share", slow_share},
    {"us_per_atom", us_per_atom},
    {"steps_per_second", steps_per_second},
    {"ns_per_day", ns_per_day},
    {"total_time_s", total_time},
    {"n_steps", n_steps},
    {"energy_time_ms", energy_ms},
    {"forces_time_ms", forces_ms},
    {"stress_time_ms", stress_ms},
    {"memory_initial_gb", memory_initial},
    {"memory_final_gb", memory_final},
    {"memory_peak_gb", memory_peak},
    {"memory_delta_mb", memory_delta},
    {"memory_growth_mb_per_1000_steps", memory_growth},
    {"memory_verdict", memory_verdict},
    {"drift", drift},
    {"drift_abs", drift_size},
    {"drift_percent", drift_percent},
    {"energy_change_percent", energy_change},
    {"energy_fluctuation", fluctuation},
    {"energy_max_excursion", excursion},
    {"temperature_mean", temperature},
    {"temperature_std", temperature_std},
    {"pressure_mean", pressure},
    {"pressure_std", pressure_std},
    {"exploded", exploded},
    {"energy_mae", energy_mae},
    {"energy_rmse", energy_rmse},
    {"force_rmse", force_rmse},
    {"force_mae", force_mae},
    {"force_max", force_max},
    {"force_cosine", force_cosine},
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

const char *mlffprof_metric_name(int k)
{
  return k >= 0 && k < N_METRICS ? metrics[k].name : NULL;
}

int mlffprof_report_metric(const mlffprof_report *report, const char *name, double *value)
{
  for (int k = 0; k < N_METRICS; k++) {
    if (strcmp(metrics[k].name, name)) continue;
    *value = metrics[k].value(report);
    return 1;
  }
  return 0;
}
