/* make_hotspots.c: components above a tenth of the step, the waiting for the busiest rank, steps that differ, and
 * memory that grows, each with advice that holds for this run: it is chosen by what was recorded (how often lists were
 * rebuilt, ranks, atoms, precision, kernels, causes of slow steps) and quotes it. Beside it stands how much faster the
 * run can be by it, at most. */
#include "report/make.h"
#include "../../base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double hot = 0.1, uneven = 0.2; /* of the step; coefficient of variation */

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

static const char *advise_neigh(const mlffprof_report *p)
{
  const double every = tag_fraction(p, "neighbor_rebuild");
  if (every <= 0)
    return "no rebuild was marked: the time goes into checking distances; neigh_modify every N checks less often";
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

/* What to say where ranks wait for each other; NULL where they do not. */
static const char *advise_balance(const mlffprof_report *p)
{
  const double waiting = tag_fraction(p, "other_rank");
  if (p->n_ranks < 2 || waiting < 0.2 || p->n_slowest_ranks < 1 || p->n_steps < 1) return NULL;
  return mlffprof_arena_printf(p->arena,
                               "ranks wait for each other in %.0f %% of the steps, for rank %d in %.0f %%: balance, or "
                               "another grid of processors",
                               100 * waiting, p->slowest_rank[0],
                               100 * (double) p->slowest_rank_steps[0] / (double) p->n_steps);
}

/* Ranks wait for the busiest one. What helps depends on whether it has more atoms, or its atoms cost more. */
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

static const char *advise_other(const mlffprof_report *p)
{
  const char *balance = advise_balance(p);
  if (balance) return balance;
  if (p->n_ranks > 1)
    return "time outside of all timed parts: waiting for other ranks before neighbor lists are checked, or other "
           "programs";
  return "time outside of all timed parts: other programs on this processor, or untimed work";
}

static const char *advise_comm(const mlffprof_report *p, const char *what)
{
  if (p->n_ranks == 1)
    return "one rank, so this is copying of periodic images: a box that is large compared with the cutoff has fewer";
  const char *balance = advise_balance(p);
  if (balance) return balance;
  if (p->n_atoms > 0)
    return mlffprof_arena_printf(p->arena, "%s between %d ranks with %.0f atoms each: fewer ranks, or more atoms", what,
                                 p->n_ranks, (double) p->n_atoms / p->n_ranks);
  return mlffprof_arena_printf(p->arena, "%s between %d ranks: fewer ranks, or more atoms on each", what, p->n_ranks);
}

static const char *advise_output(const mlffprof_report *p)
{
  const double every = tag_fraction(p, "output");
  if (every <= 0) return "thermo, dump and restart commands: write less often";
  return mlffprof_arena_printf(p->arena,
                               "something was written in %.0f %% of the steps: larger intervals of thermo, dump "
                               "and restart",
                               100 * every);
}

static int context_is(const mlffprof_report *p, const char *key, const char *text)
{
  const char *found = mlffprof_context_text(p, key);
  return found && !strcmp(found, text);
}

/* What a setting costs the whole model: times as long as with the best one of this processor; 1: nothing. */
typedef struct setting_cost {
  double times;
  const char *advice;
} setting_cost;

/* Times as long as with AVX-512: the middle of five models (docs/reports.md, "Why is it slow?"); 0: not measured,
 * which the paths of ARM processors are not. */
static double kernel_cost(const char *kernels)
{
  return !strcmp(kernels, "generic") ? 3.6 : !strcmp(kernels, "avx2") ? 1.5 : !strncmp(kernels, "avx512", 6) ? 1 : 0;
}

/* Of the kernel path, where the processor has a better one. */
static setting_cost kernels_cost(const mlffprof_report *p)
{
  const char *used = mlffprof_context_text(p, "kernels"), *best = mlffprof_context_text(p, "kernels_here");
  if (!used || !best || !context_is(p, "precision", "fp32") || !kernel_cost(used) || !kernel_cost(best))
    return (setting_cost){1, NULL};
  return (setting_cost){kernel_cost(used) / kernel_cost(best),
                        mlffprof_arena_printf(p->arena,
                                              "kernels %s, and this processor has %s: leave the keyword kernels out, "
                                              "and the best ones are taken",
                                              used, best)};
}

static setting_cost precision_cost(const mlffprof_report *p)
{
  if (context_is(p, "precision", "fp64")) return (setting_cost){2, "double precision: fp32 takes about half the time"};
  if (context_is(p, "precision", "mixed") && !context_is(p, "kernels", "amx"))
    return (setting_cost){1.3, "precision mixed without AMX: fp32 is faster on this processor"};
  return (setting_cost){1, NULL};
}

static int is_product(const mlffprof_component_result *c)
{
  return !strncmp(c->name, "dense", 5);
}

/* Of single precision where the processor multiplies tiles (AMX) and products are large enough to gain by it. */
static setting_cost tiles_cost(const mlffprof_report *p)
{
  const double times = 1.8, large = 2; /* MFLOP for an atom (docs/reports.md, "Why is it slow?") */
  double products = 0, pair = 0, mflop = 0;
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    if (!strcmp(c->name, "pair")) pair = c->share;
    if (!is_product(c)) continue;
    products += c->share;
    mflop += 1e3 * c->gflop * p->n_ranks / (double) p->n_atoms; /* NaN: not counted */
  }
  if (!context_is(p, "precision", "fp32") || !context_is(p, "kernels_here_mixed", "amx") || !(mflop >= large) ||
      !(products < pair))
    return (setting_cost){1, NULL};
  return (setting_cost){1 / (1 - products / pair * (1 - 1 / times)),
                        "matrix products in single precision, and this processor has AMX: precision mixed is up to "
                        "1.8 times as fast in them"};
}

/* The setting that costs most; advice is NULL where none does. */
static setting_cost worst_setting(const mlffprof_report *p)
{
  setting_cost best = {1, NULL};
  if (!p->device || strcmp(p->device, "cpu")) return best;
  const setting_cost all[] = {kernels_cost(p), precision_cost(p), tiles_cost(p)};
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

/* On CPUs a lower precision than single is a loss, unless the processor multiplies tiles (AMX) and these are large. */
static const char *advise_products(const mlffprof_report *p)
{
  if (!p->device || strcmp(p->device, "cpu")) return "matrix products: a model with fewer features, layers or members";
  if (context_is(p, "kernels", "generic"))
    return "matrix products with kernels generic, without vector units: leave kernels out, and the best ones of this "
           "processor are taken";
  if (context_is(p, "precision", "fp64")) return "matrix products in double precision: fp32 takes about half the time";
  if (context_is(p, "precision", "mixed"))
    return context_is(p, "kernels", "amx")
               ? "matrix products with precision mixed and AMX: only a model with fewer features, layers or members is "
                 "faster on a core"
               : "matrix products with precision mixed: fp32 is faster on a processor without AMX";
  const char *tiles = tiles_cost(p).advice;
  if (tiles) return tiles;
  return "matrix products in single precision: only a model with fewer features, layers or members is faster on a core";
}

/* Of the steps with a cause, the one that adds the most time to what a step without a cause takes; NULL: none does. */
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

static const char *help_for(const char *tag)
{
  static const struct {
    const char *tag, *help;
  } known[] = {{"neighbor_rebuild", "a larger neighbor skin or neigh_modify delay rebuilds less often"},
               {"output", "larger intervals of thermo, dump and restart"},
               {"other_rank", "balance, or one rank for each core (mpiexec --bind-to core)"},
               {"buffer_growth", "longer warmup: buffers grow until they fit"},
               {"graph_capture", "longer warmup: steps are recorded once"},
               {"preempted",
                "another process had the processor: a core for each rank (mpiexec --bind-to core, taskset)"},
               {"box_change", "a barostat acts: nothing to gain here"}};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    if (!strcmp(known[k].tag, tag)) return known[k].help;
  return "a trace shows them";
}

/* Share of the time that steps take beyond the median one. */
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
                                 "or a clock that changes; pin ranks to cores and leave the machine alone",
                                 cv);
  mlff_number_fixed(cause->times_untagged, 1, times);
  return mlffprof_arena_printf(p->arena, "steps differ (CV %s): those with %s take %s times as long as others: %s", cv,
                               cause->name, times, help_for(cause->name));
}

/* Of host and device the one that grows more, in verdict. */
static const mlffprof_memory_result *growing_memory(const mlffprof_report *p)
{
  return p->memory.device.verdict > p->memory.host.verdict ? &p->memory.device : &p->memory.host;
}

static const char *advise_memory(const mlffprof_report *p)
{
  const mlffprof_memory_result *m = growing_memory(p);
  return mlffprof_arena_printf(
      p->arena,
      "memory of the %s %s: mlff soak MODEL STRUCTURE tells whether it is the model; else look "
      "for what the script makes on the way (fixes, computes, dumps)",
      m == &p->memory.host ? "host" : "device", m->reason ? m->reason : "grows");
}

static const char *advise(const mlffprof_report *p, const mlffprof_component_result *c)
{
  const char *name = c->name;
  if (!strcmp(name, "pair")) return advise_pair(p, c);
  if (!strcmp(name, "neigh")) return advise_neigh(p);
  if (!strcmp(name, "comm")) return advise_comm(p, "exchange of positions and forces");
  if (!strcmp(name, "exchange")) return advise_comm(p, "exchange of features of the model's layers");
  if (!strcmp(name, "output")) return advise_output(p);
  if (!strcmp(name, "modify")) return "fixes and computes: look for expensive ones, or let them act every N steps";
  if (!strcmp(name, "edges"))
    return "pairs within cutoff + skin are checked in every step: a smaller neighbor skin leaves fewer";
  if (!strncmp(name, "message", 7) || !strncmp(name, "descriptor", 10) || !strcmp(name, "forces"))
    return "proportional to the neighbors within the cutoff: a model with a smaller cutoff or fewer layers";
  if (is_product(c)) return advise_products(p);
  if (!strcmp(name, "copy")) return "copies between host and device: more atoms per device, or LAMMPS' Kokkos package";
  if (!strcmp(name, "other")) return advise_other(p);
  const mlffprof_component_result *child = largest_child(p, name);
  if (child)
    return mlffprof_arena_printf(p->arena, "its largest part is '%s', %.0f %% of the step", child->name,
                                 100 * child->share);
  return "a tenth of the step or more: worth a look with a trace";
}

static double without(double share)
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

/* Times as fast when the advice on a component is followed; NaN: not faster, or not known. */
static double gain_of(const mlffprof_report *p, const mlffprof_component_result *c)
{
  const double often = 0.05, every = tag_fraction(p, "neighbor_rebuild");
  if (!strcmp(c->name, "pair")) {
    const setting_cost setting = worst_setting(p);
    return setting.advice ? without(c->share * (1 - 1 / setting.times)) : NAN;
  }
  if (!strcmp(c->name, "neigh")) return every > often ? without(c->share * (1 - often / every)) : NAN;
  if (!strcmp(c->name, "edges")) return without(c->share * needless_pairs(p));
  if (!strcmp(c->name, "output") || !strcmp(c->name, "modify")) return without(c->share);
  if (p->n_ranks > 1 && (!strcmp(c->name, "comm") || !strcmp(c->name, "exchange")))
    return without(c->share - fmax(0, p->balance.waiting)); /* the busiest rank is waited for there; NaN: not known */
  return NAN;
}

/* By share, largest first. */
static void add_hotspot(mlffprof_report *p, mlffprof_hotspot *list, mlffprof_hotspot hotspot)
{
  int at = p->n_hotspots++;
  for (; at > 0 && list[at - 1].share < hotspot.share; at--) list[at] = list[at - 1];
  list[at] = hotspot;
}

void mlffprof_make_hotspots(mlffprof_report *p)
{
  mlffprof_hotspot *list = mlff_arena_alloc(p->arena, (size_t) p->n_components + 3, sizeof *list);
  if (!list) return;
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    if (c->share > hot) add_hotspot(p, list, (mlffprof_hotspot){c->name, c->share, advise(p, c), gain_of(p, c)});
  }
  if (p->balance.waiting > hot)
    add_hotspot(p, list,
                (mlffprof_hotspot){"imbalance", p->balance.waiting, advise_imbalance(p), without(p->balance.waiting)});
  const double beyond = p->latency.cv > uneven ? beyond_median(p) : 0;
  if (beyond > 0) add_hotspot(p, list, (mlffprof_hotspot){"spread", beyond, advise_spread(p, beyond), without(beyond)});
  if (p->memory.verdict == MLFFPROF_VERDICT_LEAK || p->memory.verdict == MLFFPROF_VERDICT_GROWING) {
    const mlffprof_memory_result *m = growing_memory(p);
    add_hotspot(p, list, (mlffprof_hotspot){"memory", m->growth_bytes / m->final_bytes, advise_memory(p), NAN});
  }
  p->hotspots = list;
}
