/* mixed.h: how far `precision mixed` is from fp32, and the kernel paths of the CPU that can be run here. */
#ifndef MLFF_TEST_MIXED_H
#define MLFF_TEST_MIXED_H

#include "testmodel.h"

/* Paths that compute products in bf16 without instructions for them, and behind them those with them. */
#if defined(__aarch64__)
enum { N_MIXED_PATHS = 4, N_PORTABLE_PATHS = 4 };
#else
enum { N_MIXED_PATHS = 5, N_PORTABLE_PATHS = 3 };
#endif
extern const char *const mixed_path_names[N_MIXED_PATHS];
/* Name of a path, or NULL (and a visible skip) where it cannot be run. */
const char *mixed_path(int which);

/* Mean error of the network's energy (without the elements' offsets) and root mean square error of forces, as parts of
 * the mean energy and root mean square force of fp32. */
typedef struct mixed_errors {
  double energy, forces;
} mixed_errors;

mixed_errors compare_with_single(mlff_model *mixed, mlff_model *single, const test_atoms *atoms, int n);

/* Holds what docs/pair_mlff.md and docs/gpu.md promise, 1e-4 for both, and that products are not those of fp32; prints
 * the errors. */
void mixed_is_near_single(const char *name, mlff_model *mixed, mlff_model *single, const test_atoms *atoms, int n);

#endif
