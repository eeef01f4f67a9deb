/* backend_cpu.h: the CPU side of mlff_backend_open. */
#ifndef MLFF_BACKEND_CPU_H
#define MLFF_BACKEND_CPU_H

#include "../ops.h"
#include "../pages.h"

typedef struct mlff_cpu_backend {
  mlff_backend base;
  mlff_ops ops, dry;
  mlff_pages pages;
} mlff_cpu_backend;

/* Fills the table of an mlff_cpu_backend for an element type (4 or 8 bytes) and kernel path; 0 when that path was not compiled. */
int mlff_cpu_fill_ops(mlff_ops *ops, size_t real_size, const char *kernels);

#endif
