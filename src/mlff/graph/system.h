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
  mlff_lattice lattice; /* of the list; zero for joined systems */
  double reach;         /* cutoff of the list */
  double (*made_at)[3]; /* [n_all] positions of the list (images relative to their owners) once atoms have moved, else
                           NULL */
};

/* Hash for list_id, FNV-1a of words instead of bytes: equal lists have equal ids. */
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

/* Sets the pointers of the graph. */
static inline void mlff_system_point(mlff_system *s)
{
  s->graph.species = s->species;
  s->graph.node = s->node;
  s->graph.row = s->row;
  s->graph.nbr = s->nbr;
  s->graph.pos = (const double(*)[3]) s->pos;
}

#endif
