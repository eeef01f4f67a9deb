/* backend_cpu.h: the CPU side of mlff_backend_open. */
#ifndef MLFF_BACKEND_CPU_H
#define MLFF_BACKEND_CPU_H

#include "../ops.h"

/* Fills the table for an element type (4 or 8 bytes) and kernel path; 0 when that path was not compiled. */
int mlff_cpu_fill_ops(mlff_ops *ops, size_t real_size, const char *kernels);

#endif
