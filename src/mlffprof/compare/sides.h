/* sides.h: what comparisons of two reports and of several a side share. */
#ifndef MLFFPROF_SIDES_H
#define MLFFPROF_SIDES_H

#include "mlff/mlffprof.h"

enum { MLFFPROF_MOST_RUNS = 20 }; /* per side */

/* "A  NAME: MODEL on DEVICE, ..." */
void mlffprof_print_report_line(FILE *out, char letter, const mlffprof_report *report);
/* Prints why times of two reports cannot be compared, or only with care. */
void mlffprof_print_differences(FILE *out, const mlffprof_report *a, const mlffprof_report *b);

/* Prints whether other programs disturbed some of the runs, and the ratio of processor times of two. */
void mlffprof_print_disturbance(FILE *out, const mlffprof_report *const *reports, int n);

/* Ratio of the values b [n_b] to a [n_a], one for each run, up to MLFFPROF_MOST_RUNS. */
mlffprof_ratio mlffprof_sides_ratio(const double *a, int n_a, const double *b, int n_b);

/* P(U <= u) of the Mann-Whitney test without ties, for up to 20 values a side. */
double mlffprof_mann_whitney_tail(int n_x, int n_y, int u);

#endif
