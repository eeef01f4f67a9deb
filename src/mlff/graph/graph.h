/* graph.h: sizes of a graph, and what errors and findings call its atoms. */
#ifndef MLFF_GRAPH_H
#define MLFF_GRAPH_H

#include "mlff/mlff.h"

enum { MLFF_NAME = 64 };

/* Writes what the user calls atom i of n_all into `text`, and returns it. */
const char *mlff_atom_name(const mlff_graph *graph, int32_t i, char text[MLFF_NAME]);

/* MLFF_E_ARG when numbers of atoms contradict each other; function: whose argument the graph is. */
mlff_status mlff_check_sizes(const mlff_graph *graph, const char *function, mlff_error *error);

#endif
