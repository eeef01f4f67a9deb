/* safetensors.h: the header of a safetensors file, checked completely before anything is read through it.
 *
 * Layout: 8 bytes little-endian length n; n bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]},
 * ..., optional "__metadata__": {text: text}}; data. Offsets count from the end of the header; tensors cover the data
 * without gaps or overlaps.
 */
#ifndef MLFF_SAFETENSORS_H
#define MLFF_SAFETENSORS_H

#include "../../base/arena.h"
#include "../errors.h"

enum { MLFF_TENSOR_MAX_RANK = 8, MLFF_TENSOR_MAX_HEADER = 16 << 20 };

typedef struct mlff_tensor {
  const char *name, *dtype;
  int rank;
  int64_t shape[MLFF_TENSOR_MAX_RANK];
  int64_t n;         /* elements                     */
  size_t begin, end; /* bytes from the start of file */
} mlff_tensor;

/* Parses data[size] into tensors[n_tensors], sorted by name, in the arena. `path` is used in error texts. */
mlff_status mlff_safetensors_parse(const char *path, const void *data, size_t size, mlff_arena *arena,
                                   mlff_tensor **tensors, int *n_tensors, mlff_error *error);

#endif
