/* make_hotspots.c: what a run spends its time and memory on, with advice and the possible speed-up.
 *
 * Hotspots are components above a tenth of the step, waiting for the busiest rank, steps that differ, and memory that
 * grows. Advice depends on what was recorded and quotes it: rebuilds of lists, ranks, atoms, precision, kernels, causes
 * of slow steps. Speed-ups are upper bounds. */
#include "report/make.h"
#include "../../base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ADVICE_NEIGHBORS \
  "proportional to the neighbors within the cutoff: a model with a smaller cutoff or fewer layers"

static const double hot = 0.1;    /* share of the step */
static const double uneven = 0.2; /* coefficient of variation of the steps */

/* Run times relative to the best setting. Medians of five models on one core of a Xeon with AVX-512 and AMX,
 * 2026-11-23 (docs/reports.md, "Why is it slow?"); other processors differ, so they rank advice and bound its gain.
 * Kernels of ARM processors were not measured. */
static const struct {
  const char *kernels; /* first characters of the name */
  double times;
} kernel_times[] = {{"generic", 3.6}, {"avx2", 1.5}, {"avx512", 1}};
static const double fp64_times = 2, mixed_without_amx_times = 1.3;
static const double amx_speedup = 1.8; /* of GEMM in mixed precision, from amx_mflop MFLOP per atom on */
static const double amx_mflop = 2;

static const mlffprof_tag_result *find_tag(const mlffprof_report *p, const char *name)
{
  for (int k = 0; k < p->n_tags; k++)
    if (!strcmp(p->tags[k].name, name)) return &p->tags[k];
  return NULL;
}

/* Share of the steps that have a tag. */
static double tag_fraction(const mlffprof_report *p, const char *name)
{
  const mlffprof_tag_result *t = find_tag(p, name);
  return t && p->n_steps ? (double) t->n_steps / (double) p->n_steps : 0;
}

/* The largest part of a component, NULL when it has none. */
static const mlffprof_component_result *largest_child(const mlffprof_report *p, const char *name)
{
  const mlffprof_component_result *best = NULL;
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    if (c->parent && !strcmp(c->parent, name) && c->share > 0 && (!best || c->share > best->share)) best = c;
  }
  return best;
}

static const char *advise_neigh(const mlffprof_report *p, const mlffprof_component_result *c)
{
  (void) c;
  const double every = tag_fraction(p, "neighbor_rebuild");
  if (every <= 0)
    return "no rebuild was recorded, so distance checks take the time: neigh_modify every N checks less often";
  if (every >= 0.05)
    return mlffprof_arena_printf(
        p->arena,
        "lists were rebuilt in %.0f %% of the steps: a larger neighbor skin or neigh_modify delay "
        "rebuilds less often",
        100 * every);
  char percent[MLFF_NUMBER_SIZE];
  mlff_number_fixed(100 * every, 1, percent);
  return mlffprof_arena_printf(p->arena,
                               "lists were rebuilt in only %s %% of the steps, so each rebuild is expensive: a smaller "
                               "skin makes them shorter",
                               percent);
}

/* NULL: ranks do not wait for each other. */
static const char *advise_balance(const mlffprof_report *p)
{
  const double waiting = tag_fraction(p, "other_rank");
  if (p->n_ranks < 2 || waiting < 0.2 || p->n_slowest_ranks < 1 || p->n_steps < 1) return NULL;
  return mlffprof_arena_printf(p->arena,
                               "ranks wait for each other in %.0f %% of the steps, for rank %d in %.0f %%: balance, or "
                               "use another grid of processors",
                               100 * waiting, p->slowest_rank[0],
                               100 * (double) p->slowest_rank_steps[0] / (double) p->n_steps);
}

/* For a busiest rank that has more atoms than the others, or whose atoms cost more. */
static const char *advise_imbalance(const mlffprof_report *p)
{
  const mlffprof_balance *b = &p->balance;
  char work[MLFF_NUMBER_SIZE], atoms[MLFF_NUMBER_SIZE], who[64] = "";
  mlff_number_fixed(b->imbalance, 2, work);
  mlff_number_fixed(b->atoms_imbalance, 2, atoms);
  if (p->n_slowest_ranks > 0 && p->n_steps > 0)
    snprintf(who, sizeof who, ", rank %d in %.0f %% of the steps,", p->slowest_rank[0],
             100 * (double) p->slowest_rank_steps[0] / (double) p->n_steps);
  if (b->atoms_imbalance - 1 > 0.5 * (b->imbalance - 1))
    return mlffprof_arena_printf(p->arena,
                                 "the busiest rank%s works %s times as long as the mean, with %s times the atoms: "
                                 "balance 1.05 shift xyz 20 1.05, or comm_style tiled and fix balance with rcb",
                                 who, work, atoms);
  return mlffprof_arena_printf(p->arena,
                               "the busiest rank%s works %s times as long as the mean%s%s%s: its atoms have more "
                               "neighbors, or its processor is slower or shared; fix balance with weight time 1.0 "
                               "evens out work instead of atoms",
                               who, work, b->atoms_imbalance > 0 ? ", with " : "", b->atoms_imbalance > 0 ? atoms : "",
                               b->atoms_imbalance > 0 ? " times the atoms" : "");
}

static const char *advise_other(const mlffprof_report *p, const mlffprof_component_result *c)
{
  (void) c;
  const char *balance = advise_balance(p);
  if (balance) return balance;
  if (p->n_ranks > 1)
    return "time outside all timed parts: waiting for other ranks before neighbor lists are checked, or other programs";
  return "time outside all timed parts: other programs on this processor, or untimed work";
}

static const char *advise_comm(const mlffprof_report *p, const mlffprof_component_result *c)
{
  const char *what =
      strcmp(c->name, "comm") ? "exchange of features of the model's layers" : "exchange of positions and forces";
  if (p->n_ranks == 1)
    return "one rank, so this is copying of periodic images: a box that is large compared with the cutoff has fewer";
  const char *balance = advise_balance(p);
  if (balance) return balance;
  if (p->n_atoms > 0)
    return mlffprof_arena_printf(p->arena, "%s between %d ranks with %.0f atoms each: fewer ranks, or more atoms", what,
                                 p->n_ranks, (double) p->n_atoms / p->n_ranks);
  return mlffprof_arena_printf(p->arena, "%s between %d ranks: fewer ranks, or more atoms on each", what, p->n_ranks);
}

static const char *advise_output(const mlffprof_report *p, const mlffprof_component_result *c)
{
  (void) c;
  const double every = tag_fraction(p, "output");
  if (every <= 0) return "thermo, dump and restart commands: write less often";
  return mlffprof_arena_printf(p->arena,
                               "output was written in %.0f %% of the steps: use larger intervals of thermo, dump "
                               "and restart",
                               100 * every);
}

static int context_is(const mlffprof_report *p, const char *key, const char *text)
{
  const char *found = mlffprof_context_text(p, key);
  return found && !strcmp(found, text);
}

/* Time of the model relative to the best value of a setting on this processor; 1: no cost. */
typedef struct setting_cost {
  double times;
  const char *advice;
} setting_cost;

/* 0: not measured. */
static double kernel_cost(const char *kernels)
{
  for (size_t k = 0; k < sizeof kernel_times / sizeof *kernel_times; k++)
    if (!strncmp(kernels, kernel_times[k].kernels, strlen(kernel_times[k].kernels))) return kernel_times[k].times;
  return 0;
}

static setting_cost kernels_cost(const mlffprof_report *p)
{
  const char *used = mlffprof_context_text(p, "kernels"), *best = mlffprof_context_text(p, "kernels_here");
  if (!used || !best || !context_is(p, "precision", "fp32") || !kernel_cost(used) || !kernel_cost(best))
    return (setting_cost){1, NULL};
  return (setting_cost){kernel_cost(used) / kernel_cost(best),
                        mlffprof_arena_printf(p->arena,
                                              "kernels %s, but this processor supports %s: remove the keyword kernels "
                                              "to use them",
                                              used, best)};
}

static setting_cost precision_cost(const mlffprof_report *p)
{
  if (context_is(p, "precision", "fp64"))
    return (setting_cost){fp64_times, "double precision: fp32 takes about half the time"};
  if (context_is(p, "precision", "mixed") && !context_is(p, "kernels", "amx"))
    return (setting_cost){mixed_without_amx_times, "precision mixed without AMX: fp32 is faster on this processor"};
  return (setting_cost){1, NULL};
}

static int is_gemm(const mlffprof_component_result *c)
{
  return !strncmp(c->name, "dense", 5);
}

/* Cost of single precision where the processor has AMX and the GEMMs are large enough to gain from it. */
static setting_cost amx_cost(const mlffprof_report *p)
{
  double gemm = 0, pair = 0, mflop = 0;
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    if (!strcmp(c->name, "pair")) pair = c->share;
    if (!is_gemm(c)) continue;
    gemm += c->share;
    mflop += 1e3 * c->gflop * p->n_ranks / (double) p->n_atoms; /* NaN: not counted */
  }
  if (!context_is(p, "precision", "fp32") || !context_is(p, "kernels_here_mixed", "amx") || !(mflop >= amx_mflop) ||
      !(gemm < pair))
    return (setting_cost){1, NULL};
  return (setting_cost){1 / (1 - gemm / pair * (1 - 1 / amx_speedup)),
                        "matrix products in single precision, but this processor has AMX: precision mixed makes "
                        "them up to 1.8 times as fast"};
}

/* The most expensive setting; advice is NULL if none costs anything. */
static setting_cost worst_setting(const mlffprof_report *p)
{
  setting_cost best = {1, NULL};
  if (!p->device || strcmp(p->device, "cpu")) return best;
  const setting_cost all[] = {kernels_cost(p), precision_cost(p), amx_cost(p)};
  for (int k = 0; k < 3; k++)
    if (all[k].times > 1.1 * best.times) best = all[k];
  return best;
}

static const char *advise_pair(const mlffprof_report *p, const mlffprof_component_result *c)
{
  const setting_cost setting = worst_setting(p);
  if (setting.advice) return setting.advice;
  const mlffprof_component_result *child = largest_child(p, c->name);
  if (child)
    return mlffprof_arena_printf(p->arena, "this is the model; its largest part is '%s', %.0f %% of the step",
                                 child->name, 100 * child->share);
  return "this is the model: a smaller or distilled one, more ranks, or a GPU";
}

static const char *advise_gemm(const mlffprof_report *p, const mlffprof_component_result *c)
{
  (void) c;
  if (!p->device || strcmp(p->device, "cpu")) return "matrix products: a model with fewer features, layers or members";
  if (context_is(p, "kernels", "generic"))
    return "matrix products with kernels generic, without vector units: remove the keyword kernels to use the best "
           "ones "
           "of this processor";
  if (context_is(p, "precision", "fp64")) return "matrix products in double precision: fp32 takes about half the time";
  if (context_is(p, "precision", "mixed"))
    return context_is(p, "kernels", "amx")
               ? "matrix products with precision mixed and AMX: only a model with fewer features, layers or members is "
                 "faster on a core"
               : "matrix products with precision mixed: fp32 is faster on a processor without AMX";
  const char *amx = amx_cost(p).advice;
  if (amx) return amx;
  return "matrix products in single precision: only a model with fewer features, layers or members is faster on a core";
}

/* The cause of slow steps that adds the most time in total; NULL: none adds more than *added. */
static const mlffprof_tag_result *costliest_tag(const mlffprof_report *p, double *added)
{
  const mlffprof_tag_result *best = NULL;
  for (int k = 0; k < p->n_tags; k++) {
    const mlffprof_tag_result *t = &p->tags[k];
    const double more = t->times_untagged > 1 ? t->share * (1 - 1 / t->times_untagged) : 0;
    if (more > *added) {
      *added = more;
      best = t;
    }
  }
  return best;
}

static const char *remedy(const char *tag)
{
  static const struct {
    const char *tag, *remedy;
  } known[] = {{"neighbor_rebuild", "a larger neighbor skin or neigh_modify delay rebuilds less often"},
               {"output", "larger intervals of thermo, dump and restart"},
               {"other_rank", "balance, or use one rank per core (mpiexec --bind-to core)"},
               {"buffer_growth", "longer warmup: buffers grow until they fit"},
               {"graph_capture", "longer warmup: steps are captured once"},
               {"preempted",
                "another process used the processor: use one core per rank (mpiexec --bind-to core, taskset)"},
               {"box_change", "a barostat changes the box: nothing to gain here"}};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    if (!strcmp(known[k].tag, tag)) return known[k].remedy;
  return "a trace shows them";
}

/* Share of the run time above the median step. */
static double beyond_median(const mlffprof_report *p)
{
  double all = 0, more = 0;
  for (int k = 0; k < p->n_latencies; k++) {
    all += p->latencies_ms[k];
    more += fmax(0, p->latencies_ms[k] - p->latency.median);
  }
  return all > 0 ? more / all : 0;
}

static const char *advise_spread(const mlffprof_report *p, double beyond)
{
  double added = 0.25 * beyond;
  const mlffprof_tag_result *cause = costliest_tag(p, &added);
  char cv[MLFF_NUMBER_SIZE], times[MLFF_NUMBER_SIZE];
  mlff_number_fixed(p->latency.cv, 2, cv);
  if (!cause)
    return mlffprof_arena_printf(p->arena,
                                 "steps differ (CV %s) without a cause in this program: other programs on the machine, "
                                 "or a changing clock frequency; pin ranks to cores and run nothing else",
                                 cv);
  mlff_number_fixed(cause->times_untagged, 1, times);
  return mlffprof_arena_printf(p->arena, "steps differ (CV %s): those with %s take %s times as long as others: %s", cv,
                               cause->name, times, remedy(cause->name));
}

/* Host or device, the one with the worse verdict. */
static const mlffprof_memory_result *growing_memory(const mlffprof_report *p)
{
  return p->memory.device.verdict > p->memory.host.verdict ? &p->memory.device : &p->memory.host;
}

static const char *advise_memory(const mlffprof_report *p)
{
  const mlffprof_memory_result *m = growing_memory(p);
  return mlffprof_arena_printf(
      p->arena,
      "memory of the %s %s: mlff soak MODEL STRUCTURE shows whether the model grows; otherwise check "
      "the fixes, computes and dumps of the script",
      m == &p->memory.host ? "host" : "device", m->reason ? m->reason : "grows");
}

/* Speed-up if this share of the step is saved; NaN: none. */
static double speedup(double share)
{
  return share > 0 && share < 1 ? 1 / (1 - share) : NAN;
}

/* Pairs beyond cutoff + 1 A as a share of those within cutoff + skin, which are checked in every step. */
static double needless_pairs(const mlffprof_report *p)
{
  const double cutoff = mlffprof_context_number(p, "cutoff"), skin = mlffprof_context_number(p, "skin");
  const double least = 1;
  return skin > least ? 1 - pow((cutoff + least) / (cutoff + skin), 3) : 0; /* NaN: not larger */
}

/* Speed-ups by the advice on a component; NaN: none, or unknown. */
static double pair_speedup(const mlffprof_report *p, const mlffprof_component_result *c)
{
  const setting_cost setting = worst_setting(p);
  return setting.advice ? speedup(c->share * (1 - 1 / setting.times)) : NAN;
}

static double neigh_speedup(const mlffprof_report *p, const mlffprof_component_result *c)
{
  const double often = 0.05, every = tag_fraction(p, "neighbor_rebuild");
  return every > often ? speedup(c->share * (1 - often / every)) : NAN;
}

static double edges_speedup(const mlffprof_report *p, const mlffprof_component_result *c)
{
  return speedup(c->share * needless_pairs(p));
}

static double whole_speedup(const mlffprof_report *p, const mlffprof_component_result *c)
{
  (void) p;
  return speedup(c->share);
}

/* Waiting for the busiest rank is a hotspot of its own. */
static double comm_speedup(const mlffprof_report *p, const mlffprof_component_result *c)
{
  return p->n_ranks > 1 ? speedup(c->share - fmax(0, p->balance.waiting)) : NAN;
}

/* Advice on components: a text, or a function that makes it. A name ending in * is a prefix. */
static const struct rule {
  const char *component, *text;
  const char *(*advise)(const mlffprof_report *p, const mlffprof_component_result *c);
  double (*speedup)(const mlffprof_report *p, const mlffprof_component_result *c);
} rules[] = {
    {"pair", NULL, advise_pair, pair_speedup},
    {"neigh", NULL, advise_neigh, neigh_speedup},
    {"comm", NULL, advise_comm, comm_speedup},
    {"exchange", NULL, advise_comm, comm_speedup},
    {"output", NULL, advise_output, whole_speedup},
    {"modify", "fixes and computes: find expensive ones, or apply them every N steps", NULL, whole_speedup},
    {"edges", "pairs within cutoff + skin are checked in every step: a smaller neighbor skin leaves fewer", NULL,
     edges_speedup},
    {"message*", ADVICE_NEIGHBORS, NULL, NULL},
    {"descriptor*", ADVICE_NEIGHBORS, NULL, NULL},
    {"forces", ADVICE_NEIGHBORS, NULL, NULL},
    {"dense*", NULL, advise_gemm, NULL},
    {"copy", "copies between host and device: more atoms per device, or LAMMPS' Kokkos package", NULL, NULL},
    {"other", NULL, advise_other, NULL},
};

static const struct rule *find_rule(const char *component)
{
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
    const size_t n = strcspn(rules[k].component, "*");
    const int is_prefix = rules[k].component[n] == '*';
    if (!strncmp(component, rules[k].component, n) && (is_prefix || !component[n])) return &rules[k];
  }
  return NULL;
}

static mlffprof_hotspot hotspot_of(const mlffprof_report *p, const mlffprof_component_result *c)
{
  mlffprof_hotspot found = {c->name, c->share, "a tenth of the step or more: a trace shows what it does", NAN};
  const struct rule *rule = find_rule(c->name);
  const mlffprof_component_result *child = largest_child(p, c->name);
  if (rule) {
    found.advice = rule->text ? rule->text : rule->advise(p, c);
    if (rule->speedup) found.gain = rule->speedup(p, c);
  } else if (child) {
    found.advice = mlffprof_arena_printf(p->arena, "its largest part is '%s', %.0f %% of the step", child->name,
                                         100 * child->share);
  }
  return found;
}

/* By share, largest first. */
static void add_hotspot(mlffprof_report *p, mlffprof_hotspot *list, mlffprof_hotspot hotspot)
{
  int k = p->n_hotspots++;
  for (; k > 0 && list[k - 1].share < hotspot.share; k--) list[k] = list[k - 1];
  list[k] = hotspot;
}

void mlffprof_make_hotspots(mlffprof_report *p)
{
  mlffprof_hotspot *list = mlff_arena_alloc(p->arena, (size_t) p->n_components + 3, sizeof *list);
  if (!list) return;
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    if (c->share > hot) add_hotspot(p, list, hotspot_of(p, c));
  }
  if (p->balance.waiting > hot)
    add_hotspot(p, list,
                (mlffprof_hotspot){"imbalance", p->balance.waiting, advise_imbalance(p), speedup(p->balance.waiting)});
  const double beyond = p->latency.cv > uneven ? beyond_median(p) : 0;
  if (beyond > 0) add_hotspot(p, list, (mlffprof_hotspot){"spread", beyond, advise_spread(p, beyond), speedup(beyond)});
  if (p->memory.verdict == MLFFPROF_VERDICT_LEAK || p->memory.verdict == MLFFPROF_VERDICT_GROWING) {
    const mlffprof_memory_result *m = growing_memory(p);
    add_hotspot(p, list, (mlffprof_hotspot){"memory", m->growth_bytes / m->final_bytes, advise_memory(p), NAN});
  }
  p->hotspots = list;
}
