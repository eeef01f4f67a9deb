/* bins.h: atoms in bins that are at least `reach` thick, so that all neighbors of an atom are in 27 bins. */
#ifndef MLFF_BINS_H
#define MLFF_BINS_H

#include "mlff/mlff.h"

typedef struct mlff_bins {
  int32_t n_atoms, n[3]; /* bins along each coordinate; bin (p n[1] + q) n[2] + r */
  int32_t *bin;          /* [n_atoms] of an atom                                  */
  int32_t *start;        /* [number of bins + 1] first place of a bin             */
  int32_t *order;        /* [n_atoms] atom of a place, sorted by bin, then by number */
  double *x, *y, *z;     /* [n_atoms] positions by place, in one allocation          */
} mlff_bins;

/* Sorts atoms into bins. coords: [n][3] coordinates, of which low to high are occupied; non-finite ones go to any bin.
 * pos: [n][3] positions. reach: smallest thickness of a bin along each coordinate. The number of bins is limited by the
 * number of atoms. Free with mlff_bins_free, also after an error (MLFF_E_NOMEM). */
mlff_status mlff_bins_make(int32_t n, const double (*coords)[3], const double low[3], const double high[3],
                           const double reach[3], const double (*pos)[3], mlff_bins *bins, mlff_error *error);
/* The same with positions as coordinates. */
mlff_status mlff_bins_of_positions(int32_t n, const double (*pos)[3], double reach, mlff_bins *bins, mlff_error *error);
void mlff_bins_free(mlff_bins *bins);

/* Number of bins. */
static inline int64_t mlff_bins_number(const mlff_bins *b)
{
  return (int64_t) b->n[0] * b->n[1] * b->n[2];
}

#endif
