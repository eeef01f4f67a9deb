/* nequip.c: NequIP networks, forward and backward, written once against ops.h and ops_nequip.h (whose symbols are used
 * here): Nequix and SevenNet differ in data of the model file only.
 *
 * S. Batzner et al., E(3)-equivariant graph neural networks for data-efficient and accurate interatomic potentials,
 * Nature Communications 13, 2453 (2022). T. Koker et al., arXiv:2508.16067 (Nequix). Y. Park et al., J. Chem. Theory
 * Comput. 20, 4857 (2024) (SevenNet).
 *
 *   layer t:  y = linear_1 x;  sums = sum_j w_t(r) (Y(u) coupled to y_j);  z = linear_2 sums + skip x
 *             x = gate(norm(z))
 *   energy of an atom = readout . x
 *
 * Initially x is the species, so that layer 0 is a table of radial weights for each species. The last layer has scalars
 * only; its backward pass follows the forward pass in the same block. Both passes compute the receivers of messages
 * that a rank owns: forward copies y of other ranks' atoms before a message, backward returns sums of their adjoints
 * to the owners after it. Layer 0 needs neither. Loading is in nequip_load.c.
 */
#include "nequip.h"

/* Scratch for weights and couplings of a batch of edges, the largest of any layer. */
static int64_t scratch_width(const nequip_net *net)
{
  int64_t most = 0;
  for (int t = 1; t < net->n_layers; t++) {
    const nequip_layer *l = &net->layers[t];
    const int64_t n = 2 * l->n_weights + l->n_coupling[1] + l->n_coupling[2] + l->n_coupling[3];
    if (n > most) most = n;
  }
  return most;
}

/* Edges whose messages are stored per batch: all, or nequip_messages, but at least those of any atom, and more in large
 * systems, because each batch is a pass over all neighbors. */
static int64_t messages_room(const nequip_net *net, const mlff_edges *edges)
{
  enum { MOST_PARTS = 8 };
  const int64_t wanted = net->backend->ops->nequip_messages, longest = (edges->longest_row + 63) / 64 * 64;
  const int64_t least = longest < edges->n_room / MOST_PARTS ? edges->n_room / MOST_PARTS : longest;
  const int64_t room = wanted > 0 && wanted < least ? least : wanted;
  return edges->n_room < room ? edges->n_room : room;
}

static mlff_status reserve_layers(nequip_net *net, const mlff_edges *edges, mlff_error *error)
{
  for (int t = 0; t < net->n_layers; t++) {
    nequip_layer *layer = &net->layers[t];
    const int64_t n_kept = nequip_is_last(net, t) ? net->block : edges->n_local;
    if (t > 0) MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->y, edges->n_nodes, nequip_sent_width(net), error));
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->z_values, n_kept, layer->z.ld, error));
    if (net->n_gated) MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->a_values, n_kept, layer->a.ld, error));
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, &layer->scale, n_kept, 1, error));
  }
  return MLFF_OK;
}

static mlff_status reserve(nequip_net *net, const mlff_edges *edges, mlff_error *error)
{
  const int64_t n_local = edges->n_local, width = nequip_feature_width(net), last = net->layers[net->n_layers - 1].x.ld;
  const int64_t n_block = net->block =
      n_local < net->backend->ops->nequip_block ? n_local : net->backend->ops->nequip_block;
  int64_t n_sums = 0;
  net->n_messages = messages_room(net, edges);
  for (int t = 1; t < net->n_layers; t++)
    if (net->layers[t].sums.ld > n_sums) n_sums = net->layers[t].sums.ld;
  const struct {
    mlff_buf *buf;
    int64_t n, width;
  } wanted[] = {
      {&net->terms, net->is_exact ? edges->n_room : 0, 2 * (int64_t) net->network.n_terms},
      {&net->x, n_local, width},
      {&net->grad_x, n_local, width},
      {&net->grad_y, edges->n_nodes, nequip_sent_width(net)},
      {&net->node_energy, n_local, 1},
      {&net->edge_grad, edges->n_room, 4},
      {&net->sums, n_block, n_sums},
      {&net->grad_z, n_block, net->layers[0].z.ld},
      {&net->last_x, n_block, last},
      {&net->last_grad, n_block, last},
      {&net->scratch, MLFF_NEQUIP_SCRATCH, scratch_width(net)},
      {&net->messages, net->n_messages, nequip_sent_width(net)},
      {&net->products, n_block, net->n_products},
      {&net->wide, n_block, net->n_wide},
      {&net->gated, n_block, net->n_gated},
      {&net->densities, net->density ? n_local : 0, MLFF_NEQUIP_BLOCK},
      {&net->grad_densities, net->density ? n_local : 0, MLFF_NEQUIP_BLOCK},
  };
  for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, wanted[k].buf, wanted[k].n, wanted[k].width, error));
  return reserve_layers(net, edges, error);
}

/* ---- steps of one block of atoms --------------------------------------------------------------------------------- */

/* Applies the linear map of each order, from rows of x to rows of y, or with `back` from adjoints of y to those of x.
 * */
void nequip_apply_map(nequip_net *net, const nequip_map *map, int back, int64_t n, const mlff_nequip_row *in,
                      const void *x, const mlff_nequip_row *out, void *y, int accumulate)
{
  const mlff_linear *linears[MLFF_NEQUIP_HARMONICS];
  mlff_linear_args args[MLFF_NEQUIP_HARMONICS];
  int count = 0;
  for (int l = 0; l < map->n; l++) {
    for (int m = 0; m < 2 * l + 1; m++, count++) {
      linears[count] = back ? &map->back[l] : &map->forward[l];
      args[count] = (mlff_linear_args){.n_rows = n,
                                       .x = mlff_at(net->backend, x, in->offset[l] + m * in->n[l]),
                                       .ldx = in->ld,
                                       .y = mlff_at(net->backend, y, out->offset[l] + m * out->n[l]),
                                       .ldy = out->ld,
                                       .accumulate = accumulate};
    }
  }
  net->backend->ops->linear_many(net->backend, count, linears, args);
}

mlff_mace_atoms nequip_elements_of(const nequip_net *net, const mlff_edges *edges, nequip_atoms s)
{
  return (mlff_mace_atoms){.n = s.n,
                           .slot = net->slot.data,
                           .species = (const int32_t *) edges->center_species.data + s.begin};
}

mlff_mace_select_args nequip_select_args(nequip_net *net, const mlff_edges *edges, nequip_atoms s,
                                         const mlff_nequip_row *row, const mlff_nequip_row *wide, void *x)
{
  return (mlff_mace_select_args){.atoms = nequip_elements_of(net, edges, s),
                                 .row = *row,
                                 .wide = *wide,
                                 .x = x,
                                 .wide_x = net->wide.data};
}

/* linear_1 of layer t, from features x to y, or with `back` from adjoints of y, which are added, to those of x. */
static void apply_linear_1(nequip_net *net, const mlff_edges *edges, int t, int back, nequip_atoms s, void *x, void *y)
{
  nequip_layer *layer = &net->layers[t];
  const mlff_nequip_row *row = &net->layers[0].x;
  if (!layer->wide_y.ld) {
    nequip_apply_map(net, &layer->linear_1, back, s.n, back ? &net->y : row, x, back ? row : &net->y, y, back);
    return;
  }
  const mlff_mace_select_args select = nequip_select_args(net, edges, s, row, &layer->wide_y, x);
  net->backend->ops->mace_expand(net->backend, &select);
  nequip_apply_map(net, back ? &layer->linear_1_back : &layer->linear_1, 0, s.n, &layer->wide_y, net->wide.data, row, y,
                   back);
}

static mlff_nequip_radial radial_of(const nequip_net *net, int t)
{
  return (mlff_nequip_radial){.lines = &net->radial,
                              .terms = net->terms.data,
                              .n_terms = net->network.n_terms,
                              .n_weights = net->layers[t].n_weights};
}

void nequip_make_terms(nequip_net *net, const mlff_edges *edges, const mlff_nequip_terms_args *args,
                       const nequip_network *network)
{
  if (!net->is_exact) return;
  mlff_nequip_terms_args a = *args;
  a.edges = edges;
  a.lines = &net->radial;
  a.radius = net->radius.data;
  a.frequency = net->frequency.data;
  a.pair_bias = network->pair_bias.data;
  for (int k = 0; k < a.n_hidden; k++) {
    a.weight[k] = network->weight[k].data;
    a.affine[k] = network->affine[k].data;
  }
  a.terms = net->terms.data;
  net->backend->ops->nequip_terms(net->backend, &a);
}

static void make_terms(nequip_net *net, const mlff_edges *edges, int t)
{
  nequip_make_terms(net, edges, &net->network, &net->layers[t].network);
}

static mlff_nequip_first_args first_args(nequip_net *net, const mlff_edges *edges, nequip_atoms s)
{
  return (mlff_nequip_first_args){.edges = edges,
                                  .radial = radial_of(net, 0),
                                  .rows = net->layers[0].rows.data,
                                  .n_rows = net->table.pair_rows ? 0 : net->n_rows, /* in lines */
                                  .bias = net->bias.data,
                                  .slot = net->slot.data,
                                  .out = net->layers[0].z,
                                  .begin = s.begin,
                                  .end = s.begin + s.n,
                                  .edge_grad = net->edge_grad.data,
                                  .accumulate = net->n_layers > 1};
}

static mlff_nequip_message_args message_args(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  nequip_layer *layer = &net->layers[t];
  mlff_nequip_message_args a = {.edges = edges,
                                .radial = radial_of(net, t),
                                .rows = layer->rows.data,
                                .in = net->y,
                                .out = layer->sums,
                                .n_paths = layer->n_paths,
                                .paths = layer->paths.data,
                                .coupling = layer->coupling.data,
                                .begin = s.begin,
                                .end = s.begin + s.n,
                                .y = layer->y.data,
                                .sums = net->sums.data,
                                .grad = net->grad_y.data,
                                .edge_grad = net->edge_grad.data,
                                .accumulate = !nequip_is_last(net, t),
                                .scratch = net->scratch.data,
                                .messages = net->messages.data,
                                .n_messages = net->n_messages};
  for (int l = 0; l < NEQUIP_ORDERS; l++) a.n_coupling[l] = layer->n_coupling[l];
  return a;
}

/* reverses layer t, from dE/dx of its output: edge_grad, and for t > 0 grad_y of all nodes and grad_x without the part
 * of linear_1. */
static void backward_block(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  nequip_layer *layer = &net->layers[t];
  net->update->backward(net, edges, t, s);
  if (t == 0) {
    mlff_nequip_first_args a = first_args(net, edges, s);
    a.z = net->grad_z.data;
    ops->nequip_first_backward(net->backend, &a);
    return;
  }
  nequip_apply_map(net, &layer->linear_2, 1, s.n, &layer->z, net->grad_z.data, &layer->sums, net->sums.data, 0);
  const mlff_nequip_message_args a = message_args(net, edges, t, s);
  ops->nequip_message_backward(net->backend, &a);
}

/* Layer t for one block, and linear_1 of the next one; the last layer includes its backward pass. */
static void forward_block(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  nequip_layer *layer = &net->layers[t];
  void *z = net->update->z_of(net, t, s);
  if (t == 0) {
    mlff_nequip_first_args a = first_args(net, edges, s);
    a.z = z;
    ops->nequip_first(net->backend, &a);
  } else {
    const mlff_nequip_message_args a = message_args(net, edges, t, s);
    ops->nequip_message(net->backend, &a);
    nequip_apply_map(net, &layer->linear_2, 0, s.n, &layer->sums, a.sums, &layer->z, z, 0);
  }
  net->update->forward(net, edges, t, s);
  if (nequip_is_last(net, t)) {
    backward_block(net, edges, t, s);
    return;
  }
  apply_linear_1(net, edges, t + 1, 0, s, nequip_x_of(net, t, s),
                 nequip_row_of(net, &net->layers[t + 1].y, s.begin, nequip_sent_width(net)));
}

/* reverses y = linear_1 x of layer t + 1: grad_x of the output of layer t. */
static void features_block(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  apply_linear_1(net, edges, t + 1, 1, s, nequip_row_of(net, &net->grad_y, s.begin, nequip_sent_width(net)),
                 nequip_row_of(net, &net->grad_x, s.begin, nequip_feature_width(net)));
}

/* ---- the evaluation ---------------------------------------------------------------------------------------------- */

typedef void nequip_step(nequip_net *, const mlff_edges *, int t, nequip_atoms);

/* Atoms begin .. end in blocks. in_flight: an exchange to progress between blocks, or NULL. */
static void for_blocks(nequip_net *net, const mlff_edges *edges, int t, nequip_step *step, int64_t begin, int64_t end,
                       const mlff_exchange_args *in_flight)
{
  for (; begin < end; begin += net->block) {
    const nequip_atoms s = {begin, end - begin < net->block ? end - begin : net->block};
    step(net, edges, t, s);
    if (in_flight) net->backend->ops->exchange_progress(net->backend, in_flight);
  }
}

/* Zeroes grad_y before the blocks of the last layer, whose backward pass adds to it. */
static void clear_grad_y(nequip_net *net, const mlff_edges *edges)
{
  const size_t n = (size_t) (edges->n_nodes * nequip_sent_width(net));
  net->backend->ops->zero(net->backend, net->grad_y.data, n * net->backend->real_size);
}

/* Layer 0 reads no other atoms: its boundary atoms come first and are exchanged during the interior ones. */
static mlff_status forward(nequip_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  const mlff_edges *edges = in->edges;
  const mlff_ops *ops = net->backend->ops;
  mlff_status status = MLFF_OK;
  make_terms(net, edges, 0);
  for_blocks(net, edges, 0, forward_block, edges->n_interior, edges->n_local, NULL);
  for (int t = 1; t < net->n_layers; t++) {
    const mlff_exchange_args a = {.halo = in->halo,
                                  .edges = edges,
                                  .rows = net->layers[t].y.data,
                                  .width = nequip_sent_width(net)};
    mlff_keep_first(&status, ops->exchange_begin(net->backend, &a, status ? NULL : error));
    if (t == 1) for_blocks(net, edges, 0, forward_block, 0, edges->n_interior, &a);
    make_terms(net, edges, t);
    if (nequip_is_last(net, t)) clear_grad_y(net, edges);
    for_blocks(net, edges, t, forward_block, 0, edges->n_interior, &a);
    mlff_keep_first(&status, ops->exchange_finish(net->backend, &a, status ? NULL : error));
    for_blocks(net, edges, t, forward_block, edges->n_interior, edges->n_local, NULL);
  }
  if (net->n_layers == 1) for_blocks(net, edges, 0, forward_block, 0, edges->n_interior, NULL);
  return status;
}

/* Backward pass from grad_y of the last layer: sums to the owners, then linear_1 and the previous layer. */
static mlff_status backward(nequip_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  const mlff_edges *edges = in->edges;
  mlff_status status = MLFF_OK;
  for (int t = net->n_layers - 2; t >= 0; t--) {
    mlff_keep_first(&status, net->backend->ops->exchange_sum(net->backend, in->halo, net->grad_y.data, edges->n_nodes,
                                                             nequip_sent_width(net), status ? NULL : error));
    for_blocks(net, edges, t, features_block, 0, edges->n_local, NULL);
    make_terms(net, edges, t);
    if (t > 0) clear_grad_y(net, edges);
    for_blocks(net, edges, t, backward_block, 0, edges->n_local, NULL);
  }
  return status;
}

mlff_status nequip_evaluate(void *opaque, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error)
{
  nequip_net *net = opaque;
  mlff_error later;
  net->wanted = in->last;
  net->weighting = in->weighting;
  MLFF_TRY(reserve(net, in->edges, error));
  MLFF_TRY(net->backend->ops->edge_lines(net->backend, &net->table, in->edges, &net->radial, error));
  if (net->density) net->update->begin(net, in->edges);
  mlff_status status = forward(net, in, error);
  mlff_keep_first(&status, backward(net, in, status ? &later : error));
  if (net->density) net->update->finish(net, in->edges);
  *out = (mlff_arch_outputs){.node_energy = net->node_energy.data, .edge_grad = net->edge_grad.data};
  return status;
}

static unsigned nequip_traits(const void *opaque)
{
  const nequip_net *net = opaque;
  return MLFF_CONSERVATIVE | MLFF_ROTATION_EXACT | MLFF_SMOOTH | MLFF_NODE_ENERGIES |
         (net->n_layers == 1 ? MLFF_STRICTLY_LOCAL : 0u) |
         (net->is_even || net->lmax == 0 ? MLFF_INVERSION_EXACT : 0u); /* odd paths are not invariant under inversion */
}

int nequip_n_features(const void *opaque)
{
  const nequip_net *net = opaque;
  return net->layers[net->n_layers - 1].x.n[0];
}

int nequip_exchange_width(const void *opaque)
{
  return (int) nequip_sent_width(opaque);
}

const mlff_arch mlff_arch_nequip = {
    .name = "nequip",
    .citation = "S. Batzner et al., Nature Communications 13, 2453 (2022), doi:10.1038/s41467-022-29939-5",
    .traits = nequip_traits,
    .create = nequip_create,
    .evaluate = nequip_evaluate,
    .exchange_width = nequip_exchange_width,
    .reverse_width = nequip_exchange_width,
    .n_features = nequip_n_features,
    .destroy = nequip_destroy,
    .has_tables = 1,
};
