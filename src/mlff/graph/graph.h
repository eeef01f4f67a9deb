/* graph.h: what errors and findings call the atoms of a graph. */
#ifndef MLFF_GRAPH_H
#define MLFF_GRAPH_H

#include "mlff/mlff.h"

enum { MLFF_NAME = 64 };

/* Writes what the user calls atom i of n_all into `text`, and returns it. */
const char *mlff_atom_name(const mlff_graph *graph, int32_t i, char text[MLFF_NAME]);

#endif
