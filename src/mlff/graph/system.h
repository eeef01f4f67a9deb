/* system.h: a graph that owns its arrays. */
#ifndef MLFF_SYSTEM_H
#define MLFF_SYSTEM_H

#include "mlff/mlff.h"

struct mlff_system {
  mlff_graph graph;
  int32_t *species, *node, *nbr;
  int64_t *row;
  double (*pos)[3];
};

/* FNV-1a over what a list_id stands for: equal lists have equal ids, different ones different ids. */
static const uint64_t mlff_hash_begin = 0xcbf29ce484222325u;

static inline uint64_t mlff_hash_bytes(uint64_t hash, const void *data, size_t n)
{
  const unsigned char *bytes = data;
  for (size_t k = 0; k < n; k++) hash = (hash ^ bytes[k]) * 0x100000001b3u;
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
