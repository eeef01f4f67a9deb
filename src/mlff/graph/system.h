/* system.h: a graph that owns its arrays. */
#ifndef MLFF_SYSTEM_H
#define MLFF_SYSTEM_H

#include "lattice.h"

#include <string.h>

struct mlff_system {
  mlff_graph graph;
  int32_t *species, *node, *nbr;
  int64_t *row;
  double (*pos)[3];
  mlff_lattice lattice; /* that the list was made for; of joined systems all zero */
  double reach;         /* its cutoff */
  double (*made_at)[3]; /* [n_all] for which the list was made, once atoms have been moved, else NULL: positions of
                           owned atoms, images as seen from their owners */
};

/* A hash like FNV-1a, of words instead of bytes, over what a list_id stands for: equal lists have equal ids, different
 * ones different ids. */
static const uint64_t mlff_hash_begin = 0xcbf29ce484222325u;

static inline uint64_t mlff_hash_bytes(uint64_t hash, const void *data, size_t n)
{
  const unsigned char *bytes = data;
  for (; n >= 8; n -= 8, bytes += 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  for (; n; n--, bytes++) hash = (hash ^ *bytes) * 0x100000001b3u;
  return hash;
}

/* Lets the graph point to the arrays. */
static inline void mlff_system_point(mlff_system *s)
{
  s->graph.species = s->species;
  s->graph.node = s->node;
  s->graph.row = s->row;
  s->graph.nbr = s->nbr;
  s->graph.pos = (const double(*)[3]) s->pos;
}

#endif
