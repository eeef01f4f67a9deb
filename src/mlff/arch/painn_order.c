/* painn_order.c: in which order the blocks of all layers are computed.
 *
 * Of 2 L - 1 passes over the atoms the first L go forward through the layers, the last of them also through the readout
 * and back through its update, and the others back through the messages of layers L-1 .. 1. Of other atoms a pass reads
 * what the pass before it wrote of neighbours, and it writes rows of its own atoms only, so that any order of blocks in
 * which neighbours have come as far gives the same bits.
 *
 * On one rank passes follow each other depth first: each goes on as soon as the one before it is past all neighbours,
 * so that rows are still in cache and of many small systems in one graph each is finished some blocks after it was
 * begun. In a periodic box the first block has neighbours in the last one, and passes are made one after the other.
 * Lists are symmetric: grad of layer l + 2, of which layer l takes the place, has been read by all neighbours.
 *
 * Among ranks passes are made one after the other, with an exchange before each but the first, forward of (x, mu) and
 * backward of (g_q, g_mu), during which interior atoms are computed, which have nothing to do with other ranks.
 */
#include "painn.h"

#include <stdlib.h>

typedef void painn_step(painn_net *, const mlff_edges *, int l, painn_atoms);

/* The block that begins at `begin`, of atoms before `end`; the one behind it begins where it ends. */
static int64_t one_block(painn_net *net, const mlff_edges *edges, int l, painn_step *step, int64_t begin, int64_t end)
{
  const painn_atoms s = {begin, end - begin < net->block ? end - begin : net->block};
  mlff_atoms_begin(net->backend, s.n);
  step(net, edges, l, s);
  mlff_atoms_end(net->backend);
  return begin + s.n;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* Atoms begin .. end in blocks; `travelling`: an exchange that wants to be moved on meanwhile, or NULL. */
static void for_blocks(painn_net *net, const mlff_edges *edges, int l, painn_step *step, int64_t begin, int64_t end,
                       const mlff_exchange_args *travelling)
{
  while (begin < end) {
    begin = one_block(net, edges, l, step, begin, end);
    if (travelling) net->backend->ops->exchange_progress(net->backend, travelling);
  }
}

static mlff_exchange_args exchange_args(const mlff_arch_inputs *in, const mlff_buf *rows, int64_t width)
{
  return (mlff_exchange_args){.halo = in->halo, .edges = in->edges, .rows = rows->data, .width = width};
}

static mlff_exchange_args state_args(const painn_net *net, const mlff_arch_inputs *in, int l)
{
  return exchange_args(in, &net->layers[l].state, 6 * (int64_t) net->n_padded);
}

static mlff_exchange_args grad_args(const painn_net *net, const mlff_arch_inputs *in, int l)
{
  return exchange_args(in, &net->grad[l & 1], 4 * (int64_t) net->n_padded);
}

/* A layer that reads what is under way: interior atoms meanwhile, then those at the boundary. */
static void for_atoms(painn_net *net, const mlff_edges *edges, int l, painn_step *step, const mlff_exchange_args *a,
                      mlff_status *status, mlff_error *error)
{
  const mlff_ops *ops = net->backend->ops;
  for_blocks(net, edges, l, step, 0, edges->n_interior, a);
  mlff_keep_first(status, ops->exchange_finish(net->backend, a, *status ? NULL : error));
  for_blocks(net, edges, l, step, edges->n_interior, edges->n_local, NULL);
}

/* Layer 0 reads nothing of others: it starts at the boundary, whose rows travel during the rest of it. */
static mlff_status forward(painn_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  const mlff_edges *edges = in->edges;
  const mlff_ops *ops = net->backend->ops;
  mlff_status status = MLFF_OK;
  for_blocks(net, edges, 0, painn_forward_block, edges->n_interior, edges->n_local, NULL);
  for (int l = 1; l < net->n_layers; l++) {
    const mlff_exchange_args a = state_args(net, in, l);
    mlff_keep_first(&status, ops->exchange_begin(net->backend, &a, status ? NULL : error));
    if (l == 1) for_blocks(net, edges, 0, painn_forward_block, 0, edges->n_interior, &a);
    for_atoms(net, edges, l, painn_forward_block, &a, &status, error);
  }
  return status;
}

static mlff_status backward(painn_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  mlff_status status = MLFF_OK;
  for (int l = net->n_layers - 1; l > 0; l--) {
    const mlff_exchange_args a = grad_args(net, in, l);
    mlff_keep_first(&status, net->backend->ops->exchange_begin(net->backend, &a, status ? NULL : error));
    for_atoms(net, in->edges, l, painn_backward_block, &a, &status, error);
  }
  return status;
}

/* ---- one rank ---------------------------------------------------------------------------------------------------- */

/* The last block with a neighbour of block b, or b. */
static int64_t reach_of(const mlff_graph *graph, int64_t block, int64_t b)
{
  const int64_t begin = b * block, end = begin + block < graph->n_local ? begin + block : graph->n_local;
  int32_t last = (int32_t) end - 1;
  for (int64_t p = graph->row[begin]; p < graph->row[end]; p++) {
    const int32_t node = graph->node[graph->nbr[p]];
    if (node > last && node < graph->n_local) last = node; /* a forecast has atoms of other ranks, too */
  }
  return last / block;
}

/* reach_of each block, anew when the list changes; the last block of all where there is little to gain: of a list on a
 * device, and where steps are recorded, whose order of calls should not change with the list. */
static mlff_status find_reach(painn_net *net, const mlff_graph *graph, int64_t n_blocks, mlff_error *error)
{
  const int is_plain = n_blocks < 2 || net->n_layers < 2 || !graph->nbr || net->backend->ops->replay.begin;
  if (n_blocks > net->reach_room) {
    free(net->reach);
    net->reach_list_id = 0;
    net->reach_room = 0;
    net->reach = malloc((size_t) n_blocks * sizeof *net->reach);
    if (!net->reach)
      return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the order of %d atoms", (int) graph->n_local);
    net->reach_room = n_blocks;
  } else if (net->reach_list_id == graph->list_id && graph->list_id != 0 && net->reach_n_local == graph->n_local &&
             net->reach_block == net->block) {
    return MLFF_OK;
  }
  for (int64_t b = 0; b < n_blocks; b++) net->reach[b] = is_plain ? n_blocks - 1 : reach_of(graph, net->block, b);
  net->reach_list_id = graph->list_id;
  net->reach_n_local = graph->n_local;
  net->reach_block = net->block;
  return MLFF_OK;
}

/* The deepest pass that can go on: its next block is there, and the pass before it is past that block's neighbours. */
static int next_pass(const painn_net *net, const int64_t *done, int n_passes, int64_t n_blocks)
{
  int k = n_passes - 1;
  while (k > 0 && (done[k] == n_blocks || done[k - 1] <= net->reach[done[k]])) k--;
  return k;
}

static mlff_status depth_first(painn_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  const int n_passes = 2 * net->n_layers - 1;
  const int64_t n_local = in->edges->n_local, n_blocks = n_local ? (n_local + net->block - 1) / net->block : 0;
  int64_t done[2 * PAINN_MAX_LAYERS] = {0};
  MLFF_TRY(find_reach(net, in->graph, n_blocks, error));
  while (done[n_passes - 1] < n_blocks) {
    const int k = next_pass(net, done, n_passes, n_blocks);
    if (k < net->n_layers)
      one_block(net, in->edges, k, painn_forward_block, net->block * done[k], n_local);
    else
      one_block(net, in->edges, n_passes - k, painn_backward_block, net->block * done[k], n_local);
    done[k]++;
  }
  return MLFF_OK;
}

mlff_status painn_layers(painn_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  mlff_error later;
  if (!in->halo || net->n_layers == 1) return depth_first(net, in, error); /* one layer reads nothing of others */
  mlff_status status = forward(net, in, error);
  mlff_keep_first(&status, backward(net, in, status ? &later : error));
  return status;
}
