/* kernels.h: launches of the kernels in kernels.cu. */
#ifndef MLFF_CUDASIM_KERNELS_H
#define MLFF_CUDASIM_KERNELS_H

#include "backend_cuda.h"

enum { WRONG_BLOCK, WRONG_LINES, WRONG_WARP, WRONG_MASK, WRONG_END, WRONG_TURN, WRONG_SHARED, WRONG_DEVICE };

void launch_twice(mlff_backend *b, const float *x, float *y, int n);
void launch_tree_sum(mlff_backend *b, const float *x, float *y, int n_blocks);
void launch_tree_sum_as_independent(mlff_backend *b, const float *x, float *y);
void launch_shuffle(mlff_backend *b, int *sum, int *up, int *down, int *from3, unsigned *votes);
void launch_atomic(mlff_backend *b, int *counter, int *least, int *order, int n_blocks);
void launch_warp_order(mlff_backend *b, int *order, int n_warps);
void launch_missing_barrier(mlff_backend *b, int *y, int n_lanes);
void launch_reverse(mlff_backend *b, const float *x, float *y, int n_blocks, int n_threads, int shared_bytes);
void launch_fresh_shared(mlff_backend *b, float *y);
void launch_async_copy(mlff_backend *b, const float *x, float *y);
/* Sets the limit of shared memory of launch_reverse. */
cudaError_t allow_reverse(int shared_bytes);
/* Launches an incorrect kernel, which the simulator must detect; y has 32 floats. */
void launch_wrong(mlff_backend *b, int which, float *y);

#endif
