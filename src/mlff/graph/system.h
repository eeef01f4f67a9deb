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
