/* kernels.h: kernel paths of the CPU (instruction sets): availability and selection. */
#ifndef MLFF_KERNELS_H
#define MLFF_KERNELS_H

#include "../errors.h"

#include <stddef.h>

typedef struct mlff_backend mlff_backend;
typedef struct mlff_ops mlff_ops;

/* NULL if this processor, system and build can run the path (generic, avx2, avx512, neon, sve256, sve512; for precision
 * mixed avx512_bf16 and amx); otherwise the reason, as part of a sentence. */
const char *mlff_cpu_lacks(const char *kernels);

/* Name k of the paths that have all operations, in this build or not; NULL after the last. */
const char *mlff_cpu_kernels_at(int k);

/* Selects the path for a precision. asked: NULL, "auto" or a name. Precision mixed: auto is a path with bf16
 * instructions, or an error with the reason; other paths emulate bf16 slowly, only if named. */
mlff_status mlff_cpu_choose_kernels(const char *asked, const char *precision, const char **kernels, mlff_error *error);

/* The path of all operations except GEMMs: the path itself, or avx512 for paths that have only GEMMs. */
const char *mlff_cpu_common_kernels(const char *kernels);

/* Compares bf16 GEMMs of a backend with those of `right`, which emulates bf16. */
mlff_status mlff_cpu_compare_products(mlff_backend *backend, const mlff_ops *right, mlff_error *error);

/* "amx yes, avx512_bf16 yes" or why not. */
void mlff_cpu_describe_mixed(char *text, size_t size);

#endif
