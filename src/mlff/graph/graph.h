/* graph.h: sizes of a graph, and names of its atoms in messages. */
#ifndef MLFF_GRAPH_H
#define MLFF_GRAPH_H

#include "mlff/mlff.h"

enum { MLFF_NAME = 64 };

/* Writes the user's name of atom i of n_all to `text` and returns it. */
const char *mlff_atom_name(const mlff_graph *graph, int32_t i, char text[MLFF_NAME]);

/* MLFF_E_ARG if the numbers of atoms are inconsistent. function: name of the caller for the text. */
mlff_status mlff_check_sizes(const mlff_graph *graph, const char *function, mlff_error *error);

#endif
