/* make_hotspots.c: components above a tenth of the step, and the waiting for the busiest rank, each with advice that
 * holds for this run: it is chosen by what was recorded (how often lists were rebuilt, ranks, atoms, children of the
 * component) and quotes it. */
#include "report/make.h"
#include "../../base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double hot = 0.1;

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
                               "neighbours, or its processor is slower or shared; fix balance with weight time 1.0 "
                               "evens out work instead of atoms",
                               who, work, b->atoms_imbalance > 0 ? ", with " : "", b->atoms_imbalance > 0 ? atoms : "",
                               b->atoms_imbalance > 0 ? " times the atoms" : "");
}

static const char *advise_other(const mlffprof_report *p)
{
  const char *balance = advise_balance(p);
  if (balance) return balance;
  if (p->n_ranks > 1)
    return "time outside of all timed parts: waiting for other ranks before neighbour lists are checked, or other "
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

static const char *advise_pair(const mlffprof_report *p, const mlffprof_component_result *c)
{
  const mlffprof_component_result *child = largest_child(p, c->name);
  if (child)
    return mlffprof_arena_printf(p->arena, "this is the model; its largest part is '%s', %.0f %% of the step",
                                 child->name, 100 * child->share);
  return "this is the model: a smaller or distilled one, lower precision, more threads or ranks, or a GPU";
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
    return "proportional to the neighbours within the cutoff: a model with a smaller cutoff or fewer layers";
  if (!strncmp(name, "dense", 5)) return "matrix products: lower precision, or a model with fewer features or members";
  if (!strcmp(name, "copy")) return "copies between host and device: more atoms per device, or LAMMPS' Kokkos package";
  if (!strcmp(name, "other")) return advise_other(p);
  const mlffprof_component_result *child = largest_child(p, name);
  if (child)
    return mlffprof_arena_printf(p->arena, "its largest part is '%s', %.0f %% of the step", child->name,
                                 100 * child->share);
  return "a tenth of the step or more: worth a look with a trace";
}

/* By share, largest first. */
static void add_hotspot(mlffprof_report *p, mlffprof_hotspot *list, const char *name, double share, const char *text)
{
  int at = p->n_hotspots++;
  for (; at > 0 && list[at - 1].share < share; at--) list[at] = list[at - 1];
  list[at] = (mlffprof_hotspot){name, share, text};
}

void mlffprof_make_hotspots(mlffprof_report *p)
{
  mlffprof_hotspot *list = mlff_arena_alloc(p->arena, (size_t) p->n_components + 1, sizeof *list);
  if (!list) return;
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    if (c->share > hot) add_hotspot(p, list, c->name, c->share, advise(p, c));
  }
  if (p->balance.waiting > hot) add_hotspot(p, list, "imbalance", p->balance.waiting, advise_imbalance(p));
  p->hotspots = list;
}
