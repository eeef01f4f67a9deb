/* ops_orb.h: operations of Orb (cpu/orb.c, cpu/orb_graph.c; twins: cuda/orb.cu, cuda/orb_graph.cu).
 *
 * M. Neumann et al., arXiv:2410.22570; docs/model_file.md has the formulas. Symbols: L features (n_features), H hidden
 * width, h features of a node, e of an edge, m message of an edge, s sender and r receiver of an edge. Edges are
 * directed and belong to their sender, an owned atom; the receiver may be a node of another rank.
 *
 * Atoms of a call are begin <= i < end, its edges those that they send; arrays marked "block" start at their first
 * edge, others at edge or atom 0. Widths are arbitrary. orb_block: edges per call, so that their arrays stay in cache.
 *
 * orb_sum: sum[k] = sum over i < n with species[i] >= 0 of x[i][k], in double; sum is on the host, [width].
 */
#ifndef MLFF_OPS_ORB_H
#define MLFF_OPS_ORB_H

#include "backend.h"

struct mlff_edges;

/* Neighbors are equally far if their distances differ by at most this (A): more than rounding, far less than a step of
 * dynamics. */
#define MLFF_ORB_TIE 1e-9

/* The directed graph of one step. orb_graph selects the nearest n_neighbours active edges of each atom, from positions
 * in double, so that the graph does not depend on the precision or the number of ranks. Ties with the last one
 * (MLFF_ORB_TIE) are sorted by tag, and images of one atom by x, then y, then z of their vectors. Rows of edge arrays
 * are sorted by sender, the nearest edge first (mlff_orb_first_row). Without a stride sender i has rows row[i] <= edge
 * < row[i+1]. With a stride, which is n_neighbours, every sender has n_neighbours rows, so that no size depends on
 * positions; rows after its last edge have node -1, zeros in vec and env, and are undefined in other arrays. GPUs use a
 * stride and a list of the edges that end at a node. */
typedef struct mlff_orb_graph {
  int64_t n_edges, stride;  /* n_edges: rows of arrays of edges                                              */
  int64_t n_nodes;          /* with a stride                                                                 */
  uint64_t list_id;         /* of the graph that `tag` belongs to                                            */
  mlff_buf row;             /* int64 [n_local+1], on the host; without a stride                              */
  mlff_buf node;            /* int32 [n_edges] node of the receiver                                          */
  mlff_buf vec;             /* real [n_edges][4]: v/max(d, 1e-12) and d, v = x_r - x_s                       */
  mlff_buf env;             /* real [n_edges]: 1 - 15x^4 + 24x^5 - 10x^6, x = d/cutoff                       */
  mlff_buf in_row, in_edge; /* with a stride: int64 [n_nodes][2] begin and end of a node's list in in_edge,
                               int32 [n_pairs] edges that end there, by their senders                        */
  mlff_buf tag, scratch;    /* private to the backend                                                        */
} mlff_orb_graph;

/* Row of the first edge of sender i; for i = n_local the number of rows. */
static inline int64_t mlff_orb_first_row(const mlff_orb_graph *graph, int64_t i)
{
  return graph->stride ? i * graph->stride : ((const int64_t *) graph->row.data)[i];
}

/* orb_features. out[edge][k] = exp(-(d - k spacing)^2) for k < n_basis, then the unit vector. out: real [n][n_basis +
 * 3] block */
typedef struct mlff_orb_features_args {
  const mlff_orb_graph *graph;
  int64_t begin, end;
  int n_basis;
  double spacing;
  void *out;
} mlff_orb_features_args;

/* orb_gather. y[edge] = ssp(y[edge] + from_sender[s] + from_receiver[r]);  ssp(x) = softplus(x) - ln 2
 *   y              real [n][width] block
 *   from_sender    real [n_local][width],  from_receiver  real [n_nodes][width] */
typedef struct mlff_orb_gather_args {
  const mlff_orb_graph *graph;
  int64_t begin, end;
  int64_t width;
  const void *from_sender, *from_receiver;
  void *y;
} mlff_orb_gather_args;

/* norm(x) = (x - mean)/sqrt(variance + epsilon) * gain + shift over the last axis; the variance is that of n,
 * not n-1. */
typedef struct mlff_orb_norm {
  double epsilon;
  mlff_buf gain, shift; /* real [L] */
} mlff_orb_norm;

/* orb_norm. y = norm(x), or y += norm(x). x and y real [n][width], y may not be x. */
typedef struct mlff_orb_norm_args {
  int64_t n, width;
  const mlff_orb_norm *norm;
  const void *x;
  void *y;
  int accumulate;
} mlff_orb_norm_args;

/* orb_message. m = norm(x);  a_k = env * sigmoid(gate_k . e + gate_bias_k), k = receive, send
 *   received[r] += m a_receive;  sent[s] = sum m a_send;  e += m (unless `last`)
 *   x         real [n][L] block          gates     real [2][L] receive, send
 *   e         real [n_edges][L]          received  real [n_nodes][L]        sent  real [n_local][L] */
typedef struct mlff_orb_message_args {
  const mlff_orb_graph *graph;
  int64_t begin, end;
  int64_t width;
  const mlff_orb_norm *norm;
  const void *x;
  const void *gates;
  double gate_bias[2];
  void *e, *received, *sent;
  int last;
} mlff_orb_message_args;

/* orb_concat. out[i] = (a[i], b[i], c[i]). a, b, c real [n][width], out real [n][3 width] */
typedef struct mlff_orb_concat_args {
  int64_t n, width;
  const void *a, *b, *c;
  void *out;
} mlff_orb_concat_args;

/* orb_embed. out[i] = table[species[i]], zeros for species -1. out real [n][width], table real [n_species][width] */
typedef struct mlff_orb_embed_args {
  int64_t n, width;
  const int32_t *species;
  const void *table;
  void *out;
} mlff_orb_embed_args;

#endif
