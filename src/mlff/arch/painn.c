/* painn.c: PaiNN: buffers, the order of blocks and layers, and the architecture. Layers are in painn_block.c, loading
 * is in painn_load.c.
 *
 * K. T. Schuett, O. T. Unke, M. Gastegger, Equivariant message passing for the prediction of tensorial properties and
 * molecular spectra, ICML 2021, PMLR 139:9377. Parameters are those of SchNetPack (docs/model_file.md).
 *
 *   q = embedding[species], mu = 0
 *   layer l:  x = W2 silu(W1 q + b1) + b2;  (a, b, c) = filter_l(r) * x_j
 *             q += sum_j a;  mu += sum_j (b u + c mu_j)
 *             (V, W) = mu M^T;  n = sqrt(V.V + epsilon);  (s, v, t) = W4 silu(W3 (q, n) + b3) + b4
 *             q += s + t V.W;  mu += v W
 *   energy of an atom = w2 . silu(W1 q + b1) + b2
 *
 * Exact specialisations: in layer 0 x is a table by species and mu is zero, so the message is a GEMM with moments; the
 * last layer has no v.
 *
 * Order. There are 2 L - 1 passes over the atoms: L forward (the last one includes the readout and its own backward
 * update), then L - 1 backward through the messages of layers L-1 .. 1. A pass reads what the previous pass wrote for
 * neighbors and writes rows of its own atoms only. Any order in which a block follows its neighbors of the previous
 * pass gives the same bits.
 *
 * One rank: depth first. A pass continues as soon as the previous pass is past all neighbors, so that rows are still in
 * cache, and each of many small systems in one graph is finished soon after it was started. In a periodic box the first
 * block has neighbors in the last one, and passes follow one another. Lists are symmetric, so when layer l overwrites
 * grad of layer l + 2, all neighbors have read it.
 *
 * Several ranks: pass by pass, with an exchange before each except the first: forward of (x, mu), backward of
 * (g_q, g_mu). Interior atoms, which other ranks neither read nor write, are computed during the exchange.
 */
#include "painn.h"

#include <stdlib.h>

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

/* Atoms per block of n atoms: at most what the backend supports, in blocks of equal size, multiples of the CPU's GEMM
 * tiles. */
static int64_t atoms_per_block(int64_t n, int64_t most)
{
  enum { TILES = 48 };
  if (n <= most) return n;
  const int64_t n_blocks = (n + most - 1) / most, even = (n + n_blocks - 1) / n_blocks,
                whole = (even + TILES - 1) / TILES * TILES;
  return whole < most ? whole : most;
}

static mlff_status reserve(painn_net *net, const mlff_edges *edges, mlff_error *error)
{
  const int64_t f = net->n_padded, n_local = edges->n_local, n_nodes = edges->n_nodes;
  const int64_t n_block = net->block = atoms_per_block(n_local, net->backend->ops->painn_block);
  const int64_t n_columns = (int64_t) net->n_slots * net->n_moment_rows;
  for (int l = 0; l < net->n_layers; l++) {
    painn_layer *layer = &net->layers[l];
    const int64_t n_kept =
        l == net->n_layers - 1 ? n_block : n_local; /* the backward pass of the last layer follows in the same block */
    if (l > 0) {
      MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->state, n_nodes, 6 * f, error));
      MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->context_slope, n_local, f, error));
    }
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->vw, n_kept, 6 * f, error));
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->inv_norm, n_kept, f, error));
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->y, n_kept, 3 * f, error));
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->mix_slope, n_kept, f, error));
  }
  const struct {
    mlff_buf *buf;
    int64_t n, width;
  } wanted[] = {
      {&net->q, n_local, f},
      {&net->grad[0], net->n_layers > 2 ? n_nodes : 0, 4 * f}, /* of layers 2, 4, ... */
      {&net->grad[1], net->n_layers > 1 ? n_nodes : 0, 4 * f},
      {&net->node_energy, n_local, 1},
      {&net->edge_grad, edges->n_room, 4},
      {&net->moments_q, n_block, n_columns + net->n_slots},
      {&net->moments_mu, n_block, 3 * n_columns},
      {&net->mu, n_block, 3 * f},
      {&net->qn, n_block, 2 * f},
      {&net->hidden, n_block, f},
      {&net->readout_hidden, n_block, net->n_readout_padded},
      {&net->readout_slope, n_block, net->n_readout_padded},
      {&net->grad_after, n_block, 4 * f},
      {&net->grad_y, n_block, 3 * f},
      {&net->grad_qn, n_block, 2 * f},
      {&net->grad_vw, n_block, 6 * f},
      {&net->grad_m, n_block, 3 * f},
      {&net->grad_x, n_block, 3 * f},
      {&net->grad_q0, n_block, f},
      {&net->grad_mu0, n_block, 3 * f},
  };
  for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, wanted[k].buf, wanted[k].n, wanted[k].width, error));
  return MLFF_OK;
}

typedef void painn_step(painn_net *, const mlff_edges *, int l, painn_atoms);

/* Computes the block of atoms from `begin`, at most up to `end`, and returns its end. */
static int64_t one_block(painn_net *net, const mlff_edges *edges, int l, painn_step *step, int64_t begin, int64_t end)
{
  const painn_atoms s = {begin, end - begin < net->block ? end - begin : net->block};
  mlff_atoms_begin(net->backend, s.n);
  step(net, edges, l, s);
  mlff_atoms_end(net->backend);
  return begin + s.n;
}

/* ---- order: several ranks ---------------------------------------------------------------------------------------- */

/* Atoms begin .. end in blocks. in_flight: an exchange to progress between blocks, or NULL. */
static void for_blocks(painn_net *net, const mlff_edges *edges, int l, painn_step *step, int64_t begin, int64_t end,
                       const mlff_exchange_args *in_flight)
{
  while (begin < end) {
    begin = one_block(net, edges, l, step, begin, end);
    if (in_flight) net->backend->ops->exchange_progress(net->backend, in_flight);
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

/* A layer that reads an exchange in flight: interior atoms during it, then those at the boundary. */
static void for_atoms(painn_net *net, const mlff_edges *edges, int l, painn_step *step, const mlff_exchange_args *a,
                      mlff_status *status, mlff_error *error)
{
  const mlff_ops *ops = net->backend->ops;
  for_blocks(net, edges, l, step, 0, edges->n_interior, a);
  mlff_keep_first(status, ops->exchange_finish(net->backend, a, *status ? NULL : error));
  for_blocks(net, edges, l, step, edges->n_interior, edges->n_local, NULL);
}

/* Layer 0 reads no other atoms: its boundary atoms come first and are exchanged during the interior ones. */
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
  if (in->weighting) in->weighting->is_backward = 1;
  for (int l = net->n_layers - 1; l > 0; l--) {
    const mlff_exchange_args a = grad_args(net, in, l);
    mlff_keep_first(&status, net->backend->ops->exchange_begin(net->backend, &a, status ? NULL : error));
    for_atoms(net, in->edges, l, painn_backward_block, &a, &status, error);
  }
  return status;
}

/* ---- order: one rank --------------------------------------------------------------------------------------------- */

/* The last block with a neighbor of block b, or b. */
static int64_t reach_of(const mlff_graph *graph, int64_t block, int64_t b)
{
  const int64_t begin = b * block, end = begin + block < graph->n_local ? begin + block : graph->n_local;
  int32_t last = (int32_t) end - 1;
  for (int64_t p = graph->row[begin]; p < graph->row[end]; p++) {
    const int32_t node = graph->node[graph->nbr[p]];
    if (node > last) last = node;
  }
  return last / block;
}

/* reach_of each block, updated when the list changes. Pass by pass (the last block) if the list is on a device, or the
 * backend gains nothing from depth first. */
static mlff_status find_reach(painn_net *net, const mlff_graph *graph, int64_t n_blocks, mlff_error *error)
{
  const int is_plain = n_blocks < 2 || net->n_layers < 2 || !graph->nbr || !net->backend->ops->painn_depth_first;
  if (n_blocks > net->reach_room) {
    free(net->reach);
    net->reach_list_id = 0;
    net->reach_room = 0;
    net->reach = malloc((size_t) n_blocks * sizeof *net->reach);
    if (!net->reach)
      return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the block order of %d atoms", (int) graph->n_local);
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

/* The deepest pass that can continue: the previous pass is past the neighbors of its next block. */
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

static mlff_status all_layers(painn_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  mlff_error later;
  if (!in->halo || net->n_layers == 1) return depth_first(net, in, error); /* one layer reads no other atoms */
  mlff_status status = forward(net, in, error);
  mlff_keep_first(&status, backward(net, in, status ? &later : error));
  return status;
}

/* ---- the evaluation ---------------------------------------------------------------------------------------------- */

static mlff_status painn_evaluate(void *opaque, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error)
{
  painn_net *net = opaque;
  const mlff_edges *edges = in->edges;
  const mlff_ops *ops = net->backend->ops;
  net->weighting = in->weighting;
  MLFF_TRY(reserve(net, edges, error));
  if (net->moment_basis != &net->message_basis)
    MLFF_TRY(ops->painn_radial(net->backend, net->moment_basis, edges, &net->radial, error));
  if (net->n_layers > 1 || net->moment_basis == &net->message_basis)
    MLFF_TRY(ops->painn_radial(net->backend, &net->message_basis, edges, &net->radial, error));
  const mlff_status status = all_layers(net, in, error);
  mlff_take_features(net->backend, in->last, edges, 0, edges->n_local, net->q.data, net->n_features, net->n_padded);
  *out = (mlff_arch_outputs){.node_energy = net->node_energy.data, .edge_grad = net->edge_grad.data};
  return status;
}

static unsigned painn_traits(const void *opaque)
{
  const painn_net *net = opaque;
  return MLFF_CONSERVATIVE | MLFF_ROTATION_EXACT | MLFF_INVERSION_EXACT | MLFF_SMOOTH | MLFF_NODE_ENERGIES |
         (net->n_layers == 1 ? MLFF_STRICTLY_LOCAL : 0u);
}

static int painn_exchange_width(const void *opaque)
{
  const painn_net *net = opaque;
  return net->n_layers > 1 ? 6 * net->n_padded : 0;
}

static int painn_n_features(const void *opaque)
{
  const painn_net *net = opaque;
  return net->n_features;
}

const mlff_arch mlff_arch_painn = {
    .name = "painn",
    .citation = "K. T. Schuett, O. T. Unke, M. Gastegger, ICML 2021, PMLR 139:9377, arXiv:2102.03150",
    .traits = painn_traits,
    .create = painn_create,
    .evaluate = painn_evaluate,
    .exchange_width = painn_exchange_width,
    .n_features = painn_n_features,
    .destroy = painn_destroy,
    .has_tables = 1,
};
