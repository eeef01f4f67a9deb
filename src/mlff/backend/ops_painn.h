/* ops_painn.h: operations that only PaiNN needs (cpu/painn.c, cuda/painn.cu). */
#ifndef MLFF_OPS_PAINN_H
#define MLFF_OPS_PAINN_H

#include "backend.h"

typedef struct mlff_painn_ops {
  int placeholder;
} mlff_painn_ops;

#endif
