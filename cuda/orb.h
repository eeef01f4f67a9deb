/* orb.h: constants that orb.cu and orb_graph.cu share. */
#ifndef MLFF_CUDA_ORB_H
#define MLFF_CUDA_ORB_H

#include "ops_cuda.h"

enum { ROW_WARPS = 4 }; /* of a block, in kernels with a warp for each row */

/* Values of an edge in mlff_orb_graph.scratch: mean and 1/sqrt(variance + epsilon) of the row that its message is made
 * of, a_receive and a_send. */
enum { FACTOR_MEAN = 0, FACTOR_SCALE, FACTOR_RECEIVE, FACTOR_SEND, N_FACTORS };

#endif
