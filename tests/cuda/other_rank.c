/* other_rank.c: see other_rank.h. */
#include "other_rank.h"

#include <stdlib.h>
#include <string.h>

other_rank make_other_rank(mlff_graph *graph, int32_t *node)
{
  const size_t n_images = (size_t) (graph->n_all - graph->n_local);
  other_rank other = {.n_local = graph->n_local, .owner = malloc((n_images + 1) * sizeof *other.owner)};
  int32_t *node_of = malloc((size_t) graph->n_local * sizeof *node_of);
  for (int32_t i = 0; i < graph->n_local; i++) node_of[i] = -1;
  graph->n_interior = 0;
  for (int32_t a = graph->n_local; a < graph->n_all; a++) {
    const int32_t i = node[a];
    if (node_of[i] < 0) {
      other.owner[graph->n_nodes - graph->n_local] = i;
      node_of[i] = graph->n_nodes++;
    }
    node[a] = node_of[i];
  }
  other.n_nodes = graph->n_nodes;
  free(node_of);
  return other;
}

void free_other_rank(other_rank *other)
{
  free(other->owner);
  *other = (other_rank){.n_local = 0};
}

static mlff_status forward(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  other_rank *other = context;
  char *row = rows;
  (void) error;
  for (int32_t k = other->n_local; k < other->n_nodes; k++)
    memcpy(row + (size_t) k * row_bytes, row + (size_t) other->owner[k - other->n_local] * row_bytes, row_bytes);
  other->n_forward++;
  return MLFF_OK;
}

static mlff_status forward_device(void *context, const void *packed, void *arrivals, size_t row_bytes,
                                  mlff_error *error)
{
  other_rank *other = context;
  const size_t bytes = (size_t) (other->n_nodes - other->n_local) * row_bytes;
  void *rows = malloc(bytes);
  (void) error;
  device_read(rows, packed, bytes); /* every node of the other rank is sent once, in order */
  device_write(arrivals, rows, bytes);
  free(rows);
  other->n_direct++;
  return MLFF_OK;
}

/* rows[owner] += rows of the nodes of the other rank, in order */
static mlff_status reverse(void *context, void *rows, int width, size_t real_size, mlff_error *error)
{
  other_rank *other = context;
  (void) error;
  for (int32_t k = other->n_local; k < other->n_nodes; k++) {
    const int64_t from = (int64_t) k * width, to = (int64_t) other->owner[k - other->n_local] * width;
    for (int c = 0; c < width; c++) {
      if (real_size == sizeof(float))
        ((float *) rows)[to + c] += ((float *) rows)[from + c];
      else
        ((double *) rows)[to + c] += ((double *) rows)[from + c];
    }
  }
  other->n_reverse++;
  return MLFF_OK;
}

/* Sums over one rank. */
static mlff_status reduce(void *context, double *values, int n, mlff_error *error)
{
  other_rank *other = context;
  (void) values, (void) n, (void) error;
  other->n_reduce++;
  return MLFF_OK;
}

mlff_halo halo_of(other_rank *other, int is_direct)
{
  return (mlff_halo){.context = other,
                     .forward = forward,
                     .reverse = reverse,
                     .reduce = reduce,
                     .sent = other->owner,
                     .n_sent = other->n_nodes - other->n_local,
                     .forward_device = is_direct ? forward_device : NULL};
}
