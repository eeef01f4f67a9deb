/* blocks.h: latencies of a report as blocks of neighboring steps. Neighboring steps resemble each other (clock
 * speed, other programs), so that steps are no independent samples; blocks of them nearly are.
 *
 * Intervals come from the moving of blocks: H. R. Kuensch, Ann. Statist. 17, 1217 (1989), with blocks that do not
 * overlap.
 */
#ifndef MLFFPROF_BLOCKS_H
#define MLFFPROF_BLOCKS_H

#include "errors.h"

enum { MLFFPROF_N_BLOCKS = 20, MLFFPROF_MIN_BLOCKS = 9 };

typedef struct mlffprof_blocks {
  double *values;  /* [n] finite latencies in order                */
  double *scratch; /* [2 n] room for a resample, of unequal blocks */
  int n, n_blocks; /* n_blocks = n for fewer than N_BLOCKS values  */
  int begin[MLFFPROF_N_BLOCKS + 1];
  double median[MLFFPROF_N_BLOCKS];
} mlffprof_blocks;

/* Free with mlffprof_blocks_free. 0 when memory is out. */
int mlffprof_blocks_make(const mlffprof_report *report, mlffprof_blocks *blocks);
void mlffprof_blocks_free(mlffprof_blocks *blocks);

/* A statistic of n_blocks blocks drawn with replacement: the quantile q, or the mean for q < 0. */
double mlffprof_blocks_resample(const mlffprof_blocks *blocks, double q, uint64_t *random);

#endif
