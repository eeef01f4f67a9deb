/* backend_cpu.h: the CPU side of mlff_backend_open. */
#ifndef MLFF_BACKEND_CPU_H
#define MLFF_BACKEND_CPU_H

#include "../ops.h"
#include "../pages.h"

typedef struct mlff_cpu_backend {
  mlff_backend base;
  mlff_ops ops, dry;
  mlff_pages pages;
  mlff_buf rounded; /* precision mixed: rows of x in bf16, of the product in progress */
} mlff_cpu_backend;

/* Fills the table of an mlff_cpu_backend for an element type (4 or 8 bytes) and kernel path; 0 when that path was not
 * compiled. */
int mlff_cpu_fill_ops(mlff_ops *ops, size_t real_size, const char *kernels);
/* Then puts products in bf16 in the place of those of floats; 0 when the path has none in this build. */
int mlff_cpu_fill_mixed(mlff_ops *ops, const char *kernels);

/* What a core can do at most (roof.c). */
typedef struct mlff_cpu_roof {
  double (*fma)(int64_t n, double *flop);
  double (*read)(const void *data, int64_t bytes, int64_t times);
} mlff_cpu_roof;

/* The loops of an element type and kernel path; 0 when that path was not compiled. */
int mlff_cpu_find_roof(mlff_cpu_roof *roof, size_t real_size, const char *kernels);

#endif
