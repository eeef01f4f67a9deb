/* make.h: the parts of a report that have a file of their own. All take a recorder and write into a report whose arena
 * exists; what runs out of memory marks the arena. */
#ifndef MLFFPROF_MAKE_H
#define MLFFPROF_MAKE_H

#include "../../base/arena.h"
#include "recorder/recorder.h"

/* A report with an arena and nothing measured. NULL when memory is out. */
mlffprof_report *mlffprof_report_empty(void);

void mlffprof_make_memory(const mlffprof_recorder *r, mlffprof_report *report);
void mlffprof_make_energy(const mlffprof_recorder *r, mlffprof_report *report);
void mlffprof_make_accuracy(const mlffprof_recorder *r, mlffprof_report *report);
/* Needs components, tags, ranks, atoms and context. */
void mlffprof_make_hotspots(mlffprof_report *report);

/* Verdict about points x, y (w > 0 samples each) after warm-up of a memory series; growth, slope, error, verdict and
 * reason of result. */
void mlffprof_memory_judge(const double *x, const double *y, const int64_t *w, int n, double tolerance_bytes,
                           mlffprof_memory_result *result, mlff_arena *arena);

/* The value in the context under a key (mlffprof_context_text: a text); NaN: nothing, or a text. */
double mlffprof_context_number(const mlffprof_report *report, const char *key);

/* MLFFPROF_E_FORMAT when numbers of a report that was read contradict each other. */
mlffprof_status mlffprof_report_consistent(const mlffprof_report *report, const char *path, mlffprof_error *error);

/* Text in the arena; NULL when memory is out. */
const char *mlffprof_arena_printf(mlff_arena *arena, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#endif
