/* mlff_watch.h: checks structures against the training domain of a model (block `domain` of its file).
 *
 * A check has three steps: mlff_watch_atoms finds the worst atoms of this rank's graph; the caller reduces the findings
 * (maximum excess of each kind) and the input of mlff_watch_state over all ranks; mlff_watch_judge sets the verdicts.
 * Limits that the file does not state are never exceeded. Margins are in docs/pair_mlff.md, section Domain.
 */
#ifndef MLFF_MLFF_WATCH_H
#define MLFF_MLFF_WATCH_H

#include "mlff.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checked quantities. The first three describe the whole system, the others atoms. */
typedef enum mlff_watched {
  MLFF_WATCHED_TEMPERATURE = 0,
  MLFF_WATCHED_DENSITY,
  /* Without the kinetic part. */
  MLFF_WATCHED_PRESSURE,
  /* A pair of elements that is nowhere within the cutoff in the training data. */
  MLFF_WATCHED_PAIR,
  /* A distance below the shortest one of that pair in the training data. */
  MLFF_WATCHED_DISTANCE,
  /* An atom with two neighbors that are both closer than in the training data, or that occur nowhere. */
  MLFF_WATCHED_TRIPLE,
  /* Largest force on an atom. */
  MLFF_WATCHED_FORCE,
  /* Largest uncertainty of an atom. */
  MLFF_WATCHED_UNCERTAINTY,
  MLFF_N_WATCHED
} mlff_watched;

typedef enum mlff_verdict {
  /* Inside, or reported before. */
  MLFF_VERDICT_NONE = 0,
  MLFF_VERDICT_WARN,
  /* In a first check: an unknown pair, or one that is far too close. */
  MLFF_VERDICT_STOP
} mlff_verdict;

typedef struct mlff_finding {
  /* Above 1 is outside; 0 = not checked. Over ranks: the finding with the maximum. */
  double excess;
  /* Set by mlff_watch_judge. */
  mlff_verdict verdict;
  /* Description, with values and names of atoms; set if outside. */
  char text[300];
} mlff_finding;

/* State of the whole system. NaN = unknown or not applicable. */
typedef struct mlff_watch_system {
  /* K, over n_free degrees of freedom. */
  double temperature;
  double n_free;
  /* g/cm3 */
  double density;
  /* GPa: trace of the virial / (3 volume) */
  double pressure;
  /* Non-zero: the density is averaged over checks. */
  int box_changes;
} mlff_watch_system;

/* Counts since creation. */
typedef struct mlff_watch_counts {
  /* Checks, and checks with a finding outside, by kind. */
  int64_t n_checks, n_outside[MLFF_N_WATCHED];
} mlff_watch_counts;

typedef struct mlff_watch mlff_watch;

/* Creates the watch of a model; info must outlive it. `every` and `unit` ("steps") are the interval in texts. */
MLFF_API mlff_status mlff_watch_create(const mlff_info *info, int every, const char *unit, mlff_watch **watch,
                                       mlff_error *error);
/* NULL is allowed. */
MLFF_API void mlff_watch_free(mlff_watch *watch);
/* Starts a run: resets means and reported findings. */
MLFF_API void mlff_watch_begin(mlff_watch *watch);
/* Whether the file states limits of this kind. */
MLFF_API int mlff_watch_has(const mlff_watch *watch, mlff_watched kind);

/* Findings of a graph on the host: sets all kinds of `found`, those of the whole system to none. forces: [n_local][3]
 * eV/A, summed over ranks; uncertainty: [n_local] of mlff_result; NULL = not checked. O(n_pairs). */
MLFF_API void mlff_watch_atoms(mlff_watch *watch, const mlff_graph *graph, const double (*forces)[3],
                               const double *uncertainty, mlff_finding found[MLFF_N_WATCHED]);
/* Findings of the whole system: sets the first three of `found`. Temperature, pressure and, with box_changes, density
 * are means of ten checks, and not checked before the tenth. */
MLFF_API void mlff_watch_state(mlff_watch *watch, const mlff_watch_system *system, mlff_finding found[MLFF_N_WATCHED]);
/* Counts the check and sets all verdicts. is_first: the structures have not been checked before. */
MLFF_API void mlff_watch_judge(mlff_watch *watch, int is_first, mlff_finding found[MLFF_N_WATCHED]);
MLFF_API mlff_watch_counts mlff_watch_count(const mlff_watch *watch);

/* "temperature", "density", ...; NULL for other kinds. */
MLFF_API const char *mlff_watched_name(int kind);
/* Writes the training domain in one line: "280 to 1200 K, ...; not known: pressure". */
MLFF_API void mlff_domain_text(const mlff_info *info, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
