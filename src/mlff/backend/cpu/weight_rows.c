/* weight_rows.c: multiplies rows of atoms by a weight of each atom. */
#include "cpu.h"

void MLFF_CPU(weight_rows_cpu)(mlff_backend *backend, const mlff_weight_rows_args *a)
{
  (void) backend;
  const real *weight = a->weight;
  for (int64_t i = 0; i < a->n; i++) {
    const real *x = (const real *) a->x + i * a->ld;
    real *y = (real *) a->y + i * a->ld;
    for (int64_t k = 0; k < a->width; k++) y[k] = (a->accumulate ? y[k] : 0) + weight[i] * x[k];
  }
}
