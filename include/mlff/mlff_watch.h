/* mlff_watch.h: whether structures are like those that a model was trained on (block `domain` of its file).
 *
 * A caller looks now and then. A look has three parts: mlff_watch_atoms finds the worst atoms of this rank's graph, the
 * caller keeps the worst finding of each kind over all ranks and sums what mlff_watch_state wants, and mlff_watch_judge
 * says what is new. What the file does not say is never outside. Margins are in docs/pair_mlff.md, section Domain.
 */
#ifndef MLFF_MLFF_WATCH_H
#define MLFF_MLFF_WATCH_H

#include "mlff.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is compared. The first three are of the whole system, the others of atoms. */
typedef enum mlff_watched {
  MLFF_WATCHED_TEMPERATURE = 0,
  MLFF_WATCHED_DENSITY,
  MLFF_WATCHED_PRESSURE, /* without its kinetic part */
  MLFF_WATCHED_PAIR,     /* of elements that were not within the cutoff of each other anywhere in training */
  MLFF_WATCHED_DISTANCE, /* of others, below the shortest one there */
  MLFF_WATCHED_TRIPLE,   /* an atom with two neighbours both closer than anywhere, or that it had nowhere */
  MLFF_WATCHED_FORCE,    /* largest force on an atom */
  MLFF_N_WATCHED
} mlff_watched;

typedef enum mlff_verdict {
  MLFF_VERDICT_NONE = 0, /* inside, or said before */
  MLFF_VERDICT_WARN,
  MLFF_VERDICT_STOP /* when looking for the first time: a pair that was nowhere, or far too close */
} mlff_verdict;

typedef struct mlff_finding {
  double excess;        /* more than 1 is outside; of several ranks the one with the largest counts; 0: not compared */
  mlff_verdict verdict; /* by mlff_watch_judge */
  char text[300];       /* of findings outside: what, with numbers and names of atoms */
} mlff_finding;

/* Of the whole system, on all ranks. NaN: not known, or without a meaning here. */
typedef struct mlff_watch_system {
  double temperature; /* K, of n_free degrees of freedom        */
  double n_free;
  double density;  /* g/cm3                                   */
  double pressure; /* GPa: trace of the virial / (3 volume)   */
  int box_changes; /* non-zero: the density counts as a mean of looks */
} mlff_watch_system;

/* Since the watch was made. */
typedef struct mlff_watch_counts {
  int64_t n_looks, n_outside[MLFF_N_WATCHED]; /* looks; those in which something of a kind was outside */
} mlff_watch_counts;

typedef struct mlff_watch mlff_watch;

/* A watch for a model, whose info must live as long. `every` and `unit` say in texts how often is looked ("steps"). */
MLFF_API mlff_status mlff_watch_create(const mlff_info *info, int every, const char *unit, mlff_watch **watch,
                                       mlff_error *error);
/* NULL is fine. */
MLFF_API void mlff_watch_free(mlff_watch *watch);
/* A new run: means start anew, and what was said may be said again. */
MLFF_API void mlff_watch_begin(mlff_watch *watch);
/* Whether the file says anything of this kind. */
MLFF_API int mlff_watch_has(const mlff_watch *watch, mlff_watched kind);

/* Findings of a graph on the host: all kinds of `found`, those of the whole system cleared. forces [n_local][3] eV/A,
 * of all ranks together; NULL: not compared. O(n_pairs). */
MLFF_API void mlff_watch_atoms(mlff_watch *watch, const mlff_graph *graph, const double (*forces)[3],
                               mlff_finding found[MLFF_N_WATCHED]);
/* Findings of the whole system: the first three of `found`. Temperature, pressure and, with box_changes, density are
 * means of ten looks, and nothing before there are ten. */
MLFF_API void mlff_watch_state(mlff_watch *watch, const mlff_watch_system *system, mlff_finding found[MLFF_N_WATCHED]);
/* Counts the look and sets all verdicts. is_first: structures that have not been looked at before. */
MLFF_API void mlff_watch_judge(mlff_watch *watch, int is_first, mlff_finding found[MLFF_N_WATCHED]);
MLFF_API mlff_watch_counts mlff_watch_count(const mlff_watch *watch);

/* "temperature", "density", ...; NULL for other numbers. */
MLFF_API const char *mlff_watched_name(int kind);
/* In one line, what the file says of its training and what it does not: "280 to 1200 K, ...; not known: pressure". */
MLFF_API void mlff_domain_text(const mlff_info *info, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
