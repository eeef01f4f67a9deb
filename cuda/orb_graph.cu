/* orb_graph.cu: the n_neighbours nearest neighbors of each atom on the GPU. Twin: cpu/orb_graph.c.
 *
 * Every sender has n_neighbours rows in arrays of edges (the graph's stride), used or not. No size depends on
 * positions: nothing is downloaded before the end of a step, and steps can be captured.
 */
#include "edges.h"
#include "orb.h"

namespace { /* kernels and their arguments differ between element types */

typedef struct choice_arrays {
  graph_arrays g;
  double *distance; /* [n_room] of the active edges                                                   */
  int32_t *row_of;  /* [n_room] row of an active edge among the chosen ones, -1: not chosen */
  int64_t *in_row;
  int32_t *in_edge;
  const int64_t *row, *tag; /* of active edges; [n_all], NULL: the node */
  const int32_t *nbr, *node;
  int32_t *receiver;
  real *vec, *env;
  double cutoff;
  int64_t stride;
  int32_t n_local, n_nodes;
} choice_arrays;

/* v = x_j - x_i of active edge e of atom i; returns its length. Twin: candidate_of. */
MLFF_DEVICE double displacement(const choice_arrays &a, int64_t i, int64_t e, double v[3])
{
  const double *xi = a.g.pos + 3 * i, *xj = a.g.pos + 3 * (int64_t) a.nbr[e];
  for (int c = 0; c < 3; c++) v[c] = xj[c] - xi[c];
  return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

MLFF_DEVICE int64_t tag_of(const choice_arrays &a, int64_t e)
{
  return a.tag ? a.tag[a.nbr[e]] : (int64_t) a.node[e];
}

/* Rank of distance k among n, ties by index. */
MLFF_DEVICE int rank_of(const double *d, int n, int k)
{
  const double d_k = d[k];
  int rank = 0;
  for (int t = 0; t < n; t++) rank += d[t] < d_k || (d[t] == d_k && t < k);
  return rank;
}

MLFF_DEVICE bool is_tied(double d, double limit)
{
  return fabs(d - limit) <= MLFF_ORB_TIE;
}

/* Rank of edge k among those of the n edges from `first` on whose distance ties with `limit`. */
MLFF_DEVICE int rank_of_tied(const choice_arrays &a, int64_t i, int64_t first, int n, int k, double limit)
{
  double v[3], other[3];
  const int64_t tag = tag_of(a, first + k);
  int rank = 0;
  displacement(a, i, first + k, v);
  for (int t = 0; t < n; t++) {
    if (t == k || !is_tied(a.distance[first + t], limit)) continue;
    const int64_t other_tag = tag_of(a, first + t);
    displacement(a, i, first + t, other);
    rank += mlff_orb_is_before(other_tag, other, tag, v) || (t < k && !mlff_orb_is_before(tag, v, other_tag, other));
  }
  return rank;
}

/* Twin: write_edge. */
MLFF_DEVICE void write_edge(const choice_arrays &a, int64_t i, int64_t e, int64_t row)
{
  double v[3];
  const double d = displacement(a, i, e, v), scale = 1.0 / (d > 1e-12 ? d : 1e-12);
  for (int c = 0; c < 3; c++) a.vec[4 * row + c] = (real) (v[c] * scale);
  a.vec[4 * row + 3] = (real) d;
  a.env[row] = (real) mlff_orb_envelope(d / a.cutoff);
  a.receiver[row] = a.node[e];
}

MLFF_DEVICE void clear_edge(const choice_arrays &a, int64_t row, bool has_none)
{
  a.receiver[row] = -1;
  if (!has_none) return;
  for (int c = 0; c < 4; c++) a.vec[4 * row + c] = 0;
  a.env[row] = 0;
}

/* Atom i has n active edges; r_k of them are nearer than edge k. D is the distance of edge number `stride`, infinity
 * with fewer edges. Edge k gets row i stride + r_k when d_k < D - MLFF_ORB_TIE. Edges with |d_k - D| <= MLFF_ORB_TIE
 * get the next rows in the order of mlff_orb_is_before. Others are not chosen. Rows without an edge have receiver -1
 * and zeros, which GEMMs read.
 *   row, nbr, node: the active edges; distance, row_of [n_room]; receiver, vec, env [n_local][stride]
 * A warp owns atom i, a lane every 32nd of its edges, whose rank it finds by reading all distances, the same one in all
 * lanes at a time. A block has ROW_WARPS warps; no shared memory; deterministic. Twin: orb_graph_cpu, choose. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_choose_kernel(choice_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
  if (i >= a.n_local) return;
  const int64_t first = a.row[i], begin = i * a.stride;
  const int n = (int) (a.row[i + 1] - first), room = (int) a.stride;
  double *d = a.distance + first, v[3], limit = INFINITY;
  int32_t *rank = a.row_of + first;
  int n_nearer = 0;
  for (int k = lane; k < n; k += WARP) d[k] = displacement(a, i, first + k, v);
  for (int k = lane; k < room; k += WARP) clear_edge(a, begin + k, k >= n);
  __syncwarp();
  for (int k = lane; k < n; k += WARP) {
    rank[k] = rank_of(d, n, k);
    if (n > room && rank[k] == room - 1) limit = d[k];
  }
  for (int with = WARP / 2; with > 0; with /= 2) {
    const double other = __shfl_xor_sync(FULL_WARP, limit, with);
    limit = other < limit ? other : limit;
  }
  for (int k0 = 0; k0 < n; k0 += WARP) {
    const int k = k0 + lane;
    n_nearer += __popc(__ballot_sync(FULL_WARP, k < n && d[k] < limit - MLFF_ORB_TIE));
  }
  for (int k = lane; k < n; k += WARP) {
    int place = rank[k];
    if (!(d[k] < limit - MLFF_ORB_TIE))
      place = is_tied(d[k], limit) ? n_nearer + rank_of_tied(a, i, first, n, k, limit) : room;
    rank[k] = place < room ? (int32_t) (begin + place) : -1; /* now the row */
    if (place < room) write_edge(a, i, first + k, begin + place);
  }
}

/* in_edge[in_row[b][0] .. in_row[b][1]) = rows of the chosen edges that end at node b, in the order of their senders. A
 * warp owns node b, a lane every 32nd candidate that ends there. A block has ROW_WARPS warps; no
 * shared memory; deterministic. Without a twin: the CPU adds as it sends. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_incoming_kernel(choice_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t b = (int64_t) blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
  if (b >= a.n_nodes) return;
  const int64_t end = a.g.in_row[b + 1];
  int64_t next = a.g.in_row[b];
  for (int64_t q0 = next; q0 < end; q0 += WARP) {
    const int64_t q = q0 + lane;
    const int32_t e = q < end ? a.g.edge[a.g.in_pair[q]] : -1, row = e >= 0 ? a.row_of[e] : -1;
    const unsigned votes = __ballot_sync(FULL_WARP, row >= 0);
    if (row >= 0) a.in_edge[next + __popc(votes & ((1u << lane) - 1))] = row;
    next += __popc(votes);
  }
  if (lane) return;
  a.in_row[2 * b] = a.g.in_row[b];
  a.in_row[2 * b + 1] = next;
}

} // namespace

/* Reserves the arrays of the graph and uploads the tags of a new list. A device failure is reported at the end of the
 * step, after its exchanges with other ranks. */
static mlff_status prepare_graph(mlff_backend *backend, const mlff_graph *graph, const mlff_edges *edges,
                                 mlff_orb_graph *out, mlff_error *error)
{
  const size_t n = (size_t) out->n_edges, tag_bytes = graph->tag ? (size_t) edges->all_room * sizeof(int64_t) : 0;
  const size_t tag_room = out->tag.capacity, n_factors = n * N_FACTORS * sizeof(real);
  const size_t n_choice = (size_t) edges->n_room * (sizeof(double) + sizeof(int32_t));
  if (out->n_edges > INT32_MAX)
    return mlff_fail(
        error, MLFF_E_UNSUPPORTED,
        "%d atoms with %lld neighbors each exceed the limit of %d edges on one GPU: use more ranks and GPUs",
        (int) edges->n_local, (long long) out->stride, INT32_MAX);
  MLFF_TRY(mlff_buf_reserve(backend, &out->node, n * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->vec, n * 4 * sizeof(real), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->env, n * sizeof(real), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->tag, tag_bytes, error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->in_row, 2 * (size_t) edges->n_nodes * sizeof(int64_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->in_edge, (size_t) edges->pairs_room * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->scratch, n_choice > n_factors ? n_choice : n_factors, error));
  if (out->tag.capacity != tag_room) out->list_id = 0;
  if (!graph->tag || (out->list_id == graph->list_id && graph->list_id)) return MLFF_OK;
  const size_t bytes = (size_t) graph->n_all * sizeof(int64_t);
  out->list_id = mlff_cuda_upload(backend, out->tag.data, graph->tag, bytes, NULL) ? 0 : graph->list_id;
  return MLFF_OK;
}

mlff_status MLFF_CUDA(orb_graph_cuda)(mlff_backend *backend, const mlff_graph *graph, const mlff_edges *edges,
                                      int n_neighbours, mlff_orb_graph *out, mlff_error *error)
{
  choice_arrays a;
  out->stride = n_neighbours;
  out->n_edges = (int64_t) edges->n_local * n_neighbours;
  out->n_nodes = edges->n_nodes;
  MLFF_TRY(prepare_graph(backend, graph, edges, out, error));
  memset(&a, 0, sizeof a);
  a.g = graph_of(edges);
  a.distance = (double *) out->scratch.data;
  a.row_of = (int32_t *) (void *) (a.distance + edges->n_room);
  a.in_row = (int64_t *) out->in_row.data;
  a.in_edge = (int32_t *) out->in_edge.data;
  a.row = (const int64_t *) edges->row.data;
  a.tag = graph->tag ? (const int64_t *) out->tag.data : NULL;
  a.nbr = (const int32_t *) edges->nbr.data;
  a.node = (const int32_t *) edges->node.data;
  a.receiver = (int32_t *) out->node.data;
  a.vec = (real *) out->vec.data;
  a.env = (real *) out->env.data;
  a.cutoff = edges->cutoff;
  a.stride = out->stride;
  a.n_local = edges->n_local;
  a.n_nodes = edges->n_nodes;
  MLFF_LAUNCH(backend, orb_choose_kernel, mlff_cuda_blocks(a.n_local, ROW_WARPS), WARP * ROW_WARPS, 0, a);
  MLFF_LAUNCH(backend, orb_incoming_kernel, mlff_cuda_blocks(a.n_nodes, ROW_WARPS), WARP * ROW_WARPS, 0, a);
  return MLFF_OK;
}
