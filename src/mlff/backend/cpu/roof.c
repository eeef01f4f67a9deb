/* roof.c: peak rates of a core: multiply-adds, and reading of arrays. */
#include "cpu.h"

enum { CHAINS = 12 }; /* more than latency times number of units, fewer than registers */

/* n steps of CHAINS independent multiply-adds of vectors. Returns their sum, so that the compiler keeps all. *flop:
 * operations. */
double MLFF_CPU(roof_fma)(int64_t n, double *flop)
{
  vreal x[CHAINS];
  real start = (real) 1e-3;
  __asm__ volatile("" : "+m"(start)); /* not known to the compiler */
  const vreal times = vset((real) 1 - start), plus = vset(start);
  for (int c = 0; c < CHAINS; c++) x[c] = vset(start * (real) c);
  for (int64_t k = 0; k < n; k++) {
#pragma GCC unroll 12
    for (int c = 0; c < CHAINS; c++) x[c] = x[c] * times + plus;
  }
  double sum = 0;
  for (int c = 0; c < CHAINS; c++) sum += (double) x[c][0];
  *flop = 2.0 * CHAINS * MLFF_VLEN * (double) n;
  return sum;
}

/* Reads `bytes`, a multiple of 8 vectors, `times` times. Returns the sum. */
double MLFF_CPU(roof_read)(const void *data, int64_t bytes, int64_t times)
{
  const real *p = data;
  const int64_t n = bytes / (int64_t) sizeof(real);
  vreal x[8] = {{0}};
  for (int64_t t = 0; t < times; t++) {
    for (int64_t k = 0; k + 8 * MLFF_VLEN <= n; k += 8 * MLFF_VLEN) {
#pragma GCC unroll 8
      for (int c = 0; c < 8; c++) x[c] += vload(p + k + c * MLFF_VLEN);
    }
    __asm__ volatile("" : : "r"(p) : "memory"); /* read anew each time */
  }
  double sum = 0;
  for (int c = 0; c < 8; c++) sum += (double) x[c][0];
  return sum;
}
