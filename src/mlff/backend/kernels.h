/* kernels.h: kernel paths of the CPU, which are sets of instructions: what there is, and which one is taken. */
#ifndef MLFF_KERNELS_H
#define MLFF_KERNELS_H

#include "../status.h"

#include <stddef.h>

typedef struct mlff_backend mlff_backend;
typedef struct mlff_ops mlff_ops;

/* NULL when this processor, system and build can run the path: generic, avx2, avx512, neon, sve256, sve512, and for
 * precision mixed avx512_bf16 and amx. Else why not, as part of a sentence. */
const char *mlff_cpu_lacks(const char *kernels);

/* Name k of the paths that compute all operations, in this build or not; NULL behind the last. */
const char *mlff_cpu_kernels_at(int k);

/* The path for a precision. asked: NULL, "auto" or a name. Precision mixed: auto is a path with instructions for bf16,
 * or an error that says what is missing; others compute the same slowly, and only when they are named. */
mlff_status mlff_cpu_choose_kernels(const char *asked, const char *precision, const char **kernels, mlff_error *error);

/* The path of all operations but products: that itself, or avx512 of those that have products only. */
const char *mlff_cpu_common_kernels(const char *kernels);

/* Compares products in bf16 of a backend with those of `right`, which are computed without the instructions. */
mlff_status mlff_cpu_compare_products(mlff_backend *backend, const mlff_ops *right, mlff_error *error);

/* "amx yes, avx512_bf16 yes" or why not. */
void mlff_cpu_describe_mixed(char *text, size_t size);

#endif
