/* ops_ani.h: operations that only ANI needs (cpu/aev.c, cuda/aev.cu). */
#ifndef MLFF_OPS_ANI_H
#define MLFF_OPS_ANI_H

#include "backend.h"

typedef struct mlff_ani_ops {
  int placeholder;
} mlff_ani_ops;

#endif
