/* other_rank.h: images of atoms as atoms of another rank, for tests of exchanges in one process. */
#ifndef MLFF_TEST_OTHER_RANK_H
#define MLFF_TEST_OTHER_RANK_H

#include "device.h"
#include "support.h"

typedef struct other_rank {
  int32_t n_local, n_nodes;
  int32_t *owner;                                /* [n_nodes - n_local] of a node: the atom whose image it is */
  long n_forward, n_direct, n_reverse, n_reduce; /* calls */
} other_rank;

/* Makes the images of an atom one node of another rank: changes graph->n_nodes and node[n_all] of one rank. No atom is
 * interior then. Free the result with free_other_rank. */
other_rank make_other_rank(mlff_graph *graph, int32_t *node);
void free_other_rank(other_rank *other);
/* Exchange through the host, or from GPU to GPU by packed rows on the device. */
mlff_halo halo_of(other_rank *other, int is_direct);

#endif
