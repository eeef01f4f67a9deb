/* backends.h: every backend that this machine has, for tests of ops: the CPU's kernel paths and, where one can be
 * used, a GPU, each in both precisions. Builds with MLFF_CUDASIM are for the simulated GPU, so there it is alone: the
 * suites asan and c have the CPU. Arrays are on the backend: tests download. */
#ifndef MLFF_TEST_BACKENDS_H
#define MLFF_TEST_BACKENDS_H

#include "support.h"

#include "backend/ops.h"

/* Kernel paths of the CPU times precisions; GPUs come behind. */
#if MLFF_CUDASIM
enum { N_CPU_BACKENDS = 0 };
#elif defined(__aarch64__)
enum { N_CPU_BACKENDS = 8 };
#else
enum { N_CPU_BACKENDS = 6 };
#endif
/* Number of backends to loop over. */
int n_backends(void);
/* Backend number `which`, or NULL (and a visible skip) when this processor or build lacks it. */
mlff_backend *open_backend(int which);
/* Sets device, precision and kernels so that a model opens on that backend. 0 (and a visible skip) when it is not
 * here. */
int choose_backend(int which, mlff_options *options);
/* What device 'auto' is here: "cuda" or "cpu". */
const char *auto_device(void);
/* Relative rounding error of its reals. */
double rounding(const mlff_backend *backend);

/* Tolerance between kernels of the GPU with the same sums, relative to the largest result: 0 on the simulator. On a GPU
 * the compiler contracts to FMA in each kernel differently; the values are those of test_ani.c for sums in another
 * order. */
double between_kernels(int is_double);
/* Whether kernels with sums in the same order give the same bits: on the simulator. */
int kernels_round_alike(void);

/* A copy on the backend of n bytes, and on the host; both are released by the caller. */
mlff_buf bytes_to_backend(mlff_backend *backend, const void *data, size_t bytes);
void *bytes_from_backend(mlff_backend *backend, const void *data, size_t bytes);

/* The same of n numbers, rounded to the reals of the backend. */
mlff_buf reals_to_backend(mlff_backend *backend, const double *x, int64_t n);
double *reals_from_backend(mlff_backend *backend, const void *data, int64_t n);

/* n atoms that are all owned, with list 1. */
mlff_graph graph_of_list(int n, const int32_t *species, const int32_t *node, const int64_t *row, const int32_t *nbr,
                         const double (*pos)[3]);

void release_edges(mlff_backend *backend, mlff_edges *edges);

#endif
