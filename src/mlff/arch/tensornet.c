/* tensornet.c: TensorNet, forward and backward, written once against ops.h and ops_tensornet.h (whose symbols are used
 * here).
 *
 * G. Simeon, G. De Fabritiis, TensorNet: Cartesian tensor representations for efficient learning of molecular
 * potentials, NeurIPS 2023, arXiv:2306.06482. Parameters are those of matgl (docs/model_file.md).
 *
 *   embedding:  T = sum_j z_ij (w_I(r) 1 + w_A(r) [u]x + w_S(r) (u u^T - 1/3));  s = network(norm(||T||^2))
 *               X = s mix(T)
 *   layer t:    x = X/(||X||^2 + 1);  Y = mix_1(x);  M = sum_j q(r) Y_j (or Y_i)
 *               Q = M Y + Y M;  D = mix_2(Q/(||Q||^2 + 1));  X = x + D + D D
 *   energy of an atom = a sigmoid(b),  a, b networks of norm(||X_I||^2, ||X_A||^2, ||X_S||^2)
 *
 * The embedding is linear in moments of the environment (ops_tensornet.h). There are 2 L + 1 passes over the atoms: the
 * embedding, the layers, of which the last one includes its own backward pass up to dE/dM, and the messages backward.
 * A pass reads what the previous one wrote for neighbors: Y forward, dE/dM backward, and writes rows of its own atoms.
 * Several ranks exchange these rows before each pass but the first; interior atoms are computed during the exchange.
 * Networks whose messages carry the center's features are strictly local: all passes of a block follow one another.
 * Loading is in tensornet_load.c.
 */
#include "tensornet.h"

enum { EXACT_BLOCK = 512 }; /* atoms whose radial weights are stored at a time, on a GPU */

/* Atoms begin .. begin + n. */
typedef struct tensornet_atoms {
  int64_t begin, n;
} tensornet_atoms;

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static int is_last(const tensornet_net *net, int t)
{
  return t == net->n_layers - 1;
}

static int64_t row_width(const tensornet_net *net)
{
  return TENSORNET_COMPONENTS * (int64_t) net->n_features;
}

static mlff_status reserve_layers(tensornet_net *net, const mlff_edges *edges, mlff_error *error)
{
  const int64_t f = net->n_features, n_kept = net->is_local ? net->block : edges->n_local;
  for (int t = 0; t < net->n_layers; t++) {
    tensornet_layer *layer = &net->layers[t];
    const int64_t n_inside = is_last(net, t) ? net->block : n_kept;
    const struct {
      mlff_buf *buf;
      int64_t n, width;
    } wanted[] = {
        {&layer->x, n_kept, row_width(net)},
        {&layer->inverse, n_kept, f},
        {&layer->y, net->is_local ? net->block : edges->n_nodes, row_width(net)},
        {&layer->m, n_inside, row_width(net)},
        {&layer->d, n_inside, row_width(net)},
        {&layer->q_sums, net->is_local ? net->block : 0, 3 * f},
    };
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
      MLFF_TRY(mlff_buf_reserve_rows(net->backend, wanted[k].buf, wanted[k].n, wanted[k].width, error));
  }
  return MLFF_OK;
}

/* Edges whose weights are stored: those of a block. */
static int64_t terms_room(const tensornet_net *net, const mlff_edges *edges)
{
  const int64_t room = net->block * edges->longest_row;
  return !net->is_exact ? 0 : room < edges->n_room ? room : edges->n_room;
}

static mlff_status reserve(tensornet_net *net, const mlff_edges *edges, mlff_error *error)
{
  const int64_t f = net->n_features, width = row_width(net), n_local = edges->n_local;
  int64_t most = net->backend->ops->tensornet_block;
  if (net->is_exact && most > EXACT_BLOCK) most = EXACT_BLOCK;
  const int64_t n_block = net->block = n_local < most ? n_local : most, n_kept = net->is_local ? n_block : n_local;
  const int64_t n_nodes = net->is_local ? n_block : edges->n_nodes;
  const struct {
    mlff_buf *buf;
    int64_t n, width;
  } wanted[] = {
      {&net->terms, terms_room(net, edges), 6 * f},
      {&net->node_energy, n_local, 1},
      {&net->edge_grad, edges->n_room, 4},
      {&net->t, n_kept, width},
      {&net->t_norm, n_kept, f},
      {&net->t_inverse, n_kept, 1},
      {&net->mixed, n_kept, width},
      {&net->s, n_kept, 3 * f},
      {&net->slope_0, n_kept, net->n_hidden},
      {&net->slope_1, n_kept, 3 * f},
      {&net->moments_array, n_block, TENSORNET_COMPONENTS * net->moments_ld},
      {&net->vu, n_block, 2 * width},
      {&net->hidden, n_block, net->n_hidden},
      {&net->wide, n_block, 3 * f},
      {&net->r, n_block, width},
      {&net->last, n_block, width},
      {&net->invariants, n_block, 3 * f},
      {&net->last_inverse, n_block, 1},
      {&net->h[0], n_block, 2 * f},
      {&net->h[1], n_block, 2 * f},
      {&net->h_slope[0], n_block, 2 * f},
      {&net->h_slope[1], n_block, 2 * f},
      {&net->h_slope[2], n_block, 2 * f},
      {&net->grad, n_kept, width},
      {&net->grad_y, n_kept, width},
      {&net->grad_m[0], n_nodes, width},
      {&net->grad_m[1], net->n_layers > 1 ? n_nodes : 0, width},
  };
  for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, wanted[k].buf, wanted[k].n, wanted[k].width, error));
  return reserve_layers(net, edges, error);
}

/* Address of the first row of a block in arrays that exist for all atoms, or in strictly local networks for a block. */
static void *kept(const tensornet_net *net, const mlff_buf *buf, tensornet_atoms s, int64_t width)
{
  return mlff_at(net->backend, buf->data, net->is_local ? 0 : s.begin * width);
}

/* The same of arrays that in the last layer exist for a block. */
static void *inside(const tensornet_net *net, const mlff_buf *buf, int t, tensornet_atoms s)
{
  return is_last(net, t) ? buf->data : kept(net, buf, s, row_width(net));
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static int part_of(int component)
{
  return component == 0 ? 0 : component < 4 ? 1 : 2;
}

/* y (+)= the matrix of its part times each component of x, rows of 9 ldx and 9 ldy. */
static void mix(tensornet_net *net, const tensornet_linear *linears, int back, int64_t n, const void *x, int64_t ldx,
                void *y, int64_t ldy, int accumulate)
{
  const mlff_linear *each[TENSORNET_COMPONENTS];
  mlff_linear_args args[TENSORNET_COMPONENTS];
  for (int k = 0; k < TENSORNET_COMPONENTS; k++) {
    each[k] = back ? &linears[part_of(k)].back : &linears[part_of(k)].forward;
    args[k] = (mlff_linear_args){.n_rows = n,
                                 .x = mlff_at(net->backend, x, k * ldx),
                                 .ldx = TENSORNET_COMPONENTS * ldx,
                                 .y = mlff_at(net->backend, y, k * ldy),
                                 .ldy = TENSORNET_COMPONENTS * ldy,
                                 .accumulate = accumulate};
  }
  net->backend->ops->linear_many(net->backend, TENSORNET_COMPONENTS, each, args);
}

static void mix_features(tensornet_net *net, const tensornet_linear *linears, int back, int64_t n, const void *x,
                         void *y, int accumulate)
{
  mix(net, linears, back, n, x, net->n_features, y, net->n_features, accumulate);
}

/* y = act(x W^T + b) of the scalar network, and its slope. */
static void scalar_layer(tensornet_net *net, const tensornet_linear *linear, int64_t n, const void *x, void *y,
                         void *slope)
{
  const mlff_tensornet_act act = net->network.act;
  const int is_fused = act == MLFF_TENSORNET_SILU || act == MLFF_TENSORNET_SOFTPLUS, n_out = linear->forward.n_out;
  net->backend->ops->linear(net->backend, &linear->forward,
                            &(mlff_linear_args){.n_rows = n,
                                                .x = x,
                                                .ldx = linear->forward.n_in,
                                                .y = y,
                                                .ldy = n_out,
                                                .act = !is_fused                    ? MLFF_ACT_NONE
                                                       : act == MLFF_TENSORNET_SILU ? MLFF_ACT_SILU
                                                                                    : MLFF_ACT_SSP,
                                                .slope = is_fused ? slope : NULL,
                                                .ld_slope = n_out});
  if (is_fused) return;
  net->backend->ops->tensornet_activate(net->backend, &(mlff_tensornet_activate_args){.n = n * n_out,
                                                                                      .act = act,
                                                                                      .x = y,
                                                                                      .slope = slope});
}

/* y = (g W) scale; scale: slopes of the layer before, or NULL */
static void scalar_layer_back(tensornet_net *net, const tensornet_linear *linear, int64_t n, const void *g, void *y,
                              const void *scale)
{
  net->backend->ops->linear(net->backend, &linear->back,
                            &(mlff_linear_args){.n_rows = n,
                                                .x = g,
                                                .ldx = linear->back.n_in,
                                                .y = y,
                                                .ldy = linear->back.n_out,
                                                .scale = scale,
                                                .ld_scale = linear->back.n_out});
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

static mlff_mace_atoms atoms_of(const tensornet_net *net, const mlff_edges *edges, tensornet_atoms s)
{
  return (mlff_mace_atoms){.n = s.n,
                           .slot = net->slot.data,
                           .species = (const int32_t *) edges->center_species.data + s.begin};
}

static mlff_tensornet_moments_args moments_args(tensornet_net *net, const mlff_edges *edges, tensornet_atoms s)
{
  return (mlff_tensornet_moments_args){.edges = edges,
                                       .radial = &net->radial,
                                       .n_terms = net->moments.n_terms,
                                       .n_rows = net->n_moment_rows,
                                       .n_slots = net->n_slots,
                                       .slot = net->slot.data,
                                       .begin = s.begin,
                                       .end = s.begin + s.n,
                                       .moments = net->moments_array.data,
                                       .ld = net->moments_ld,
                                       .edge_grad = net->edge_grad.data,
                                       .accumulate = 1};
}

static mlff_tensornet_pair_args pair_args(tensornet_net *net, const mlff_edges *edges, tensornet_atoms s, void *t)
{
  return (mlff_tensornet_pair_args){.atoms = atoms_of(net, edges, s),
                                    .n_features = net->n_features,
                                    .vu = net->vu.data,
                                    .t = t,
                                    .z = net->z.data};
}

static mlff_tensornet_norm_args embedding_norm(tensornet_net *net, tensornet_atoms s)
{
  return (mlff_tensornet_norm_args){.n = s.n,
                                    .n_features = net->n_features,
                                    .n_channels = net->n_channels,
                                    .n_groups = 1,
                                    .epsilon = net->epsilon,
                                    .x = kept(net, &net->t, s, row_width(net)),
                                    .out = kept(net, &net->t_norm, s, net->n_features),
                                    .inverse = kept(net, &net->t_inverse, s, 1)};
}

static mlff_tensornet_gate_args gate_args(tensornet_net *net, tensornet_atoms s)
{
  return (mlff_tensornet_gate_args){.n = s.n,
                                    .n_features = net->n_features,
                                    .s = kept(net, &net->s, s, 3 * net->n_features),
                                    .t = kept(net, &net->mixed, s, row_width(net)),
                                    .slope = kept(net, &net->slope_1, s, 3 * net->n_features),
                                    .x = kept(net, &net->layers[0].x, s, row_width(net)),
                                    .inverse = kept(net, &net->layers[0].inverse, s, net->n_features)};
}

static void first_mix(tensornet_net *net, int t, tensornet_atoms s)
{
  tensornet_layer *layer = &net->layers[t];
  mix_features(net, layer->mix_1, 0, s.n, kept(net, &layer->x, s, row_width(net)),
               kept(net, &layer->y, s, row_width(net)), 0);
}

/* The embedding of a block, and Y of layer 0. */
static void embed_block(tensornet_net *net, const mlff_edges *edges, int t, tensornet_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  void *features = kept(net, &net->t, s, row_width(net));
  (void) t;
  const mlff_tensornet_moments_args moments = moments_args(net, edges, s);
  ops->tensornet_moments(net->backend, &moments);
  mix(net, net->embed, 0, s.n, moments.moments, net->moments_ld, net->vu.data, 2 * net->n_features, 0);
  const mlff_tensornet_pair_args pair = pair_args(net, edges, s, features);
  ops->tensornet_pair(net->backend, &pair);
  const mlff_tensornet_norm_args norm = embedding_norm(net, s);
  ops->tensornet_norm(net->backend, &norm);
  const mlff_tensornet_gate_args gate = gate_args(net, s);
  scalar_layer(net, &net->scalar[0], s.n, norm.out, net->hidden.data, kept(net, &net->slope_0, s, net->n_hidden));
  scalar_layer(net, &net->scalar[1], s.n, net->hidden.data, kept(net, &net->s, s, 3 * net->n_features),
               kept(net, &net->slope_1, s, 3 * net->n_features));
  mix_features(net, net->mix, 0, s.n, features, kept(net, &net->mixed, s, row_width(net)), 0);
  ops->tensornet_gate(net->backend, &gate);
  first_mix(net, 0, s);
}

/* edge_grad from dE/dx of layer 0. */
static void embed_backward(tensornet_net *net, const mlff_edges *edges, tensornet_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  mlff_tensornet_gate_args gate = gate_args(net, s);
  gate.grad = kept(net, &net->grad, s, row_width(net));
  gate.grad_s = net->wide.data;
  ops->tensornet_gate_backward(net->backend, &gate);
  mix_features(net, net->mix, 1, s.n, gate.grad, net->r.data, 0);
  scalar_layer_back(net, &net->scalar[1], s.n, net->wide.data, net->hidden.data,
                    kept(net, &net->slope_0, s, net->n_hidden));
  scalar_layer_back(net, &net->scalar[0], s.n, net->hidden.data, net->wide.data, NULL);
  mlff_tensornet_norm_args norm = embedding_norm(net, s);
  norm.grad_out = net->wide.data;
  norm.grad = net->r.data;
  norm.accumulate = 1;
  ops->tensornet_norm_backward(net->backend, &norm);
  const mlff_tensornet_pair_args pair = pair_args(net, edges, s, net->r.data);
  ops->tensornet_pair_backward(net->backend, &pair);
  mix(net, net->embed, 1, s.n, net->vu.data, 2 * net->n_features, net->moments_array.data, net->moments_ld, 0);
  const mlff_tensornet_moments_args moments = moments_args(net, edges, s);
  ops->tensornet_moments_backward(net->backend, &moments);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static mlff_tensornet_message_args message_args(tensornet_net *net, const mlff_edges *edges, int t, tensornet_atoms s)
{
  tensornet_layer *layer = &net->layers[t];
  return (mlff_tensornet_message_args){.edges = edges,
                                       .radial = &net->radial,
                                       .rows = net->is_exact ? NULL : layer->rows.data,
                                       .terms = net->terms.data,
                                       .n_features = net->n_features,
                                       .begin = s.begin,
                                       .end = s.begin + s.n,
                                       .y = layer->y.data,
                                       .q_sums = layer->q_sums.data,
                                       .edge_grad = net->edge_grad.data,
                                       .accumulate = !is_last(net, t)};
}

/* Without tables: radial weights of layer t for the edges of a block. */
static void make_terms(tensornet_net *net, const mlff_edges *edges, int t, tensornet_atoms s)
{
  if (!net->is_exact) return;
  mlff_tensornet_terms_args a = {.edges = edges,
                                 .network = net->network,
                                 .begin = s.begin,
                                 .end = s.begin + s.n,
                                 .terms = net->terms.data};
  a.network.first = net->first.data;
  a.network.second = net->second.data;
  for (int k = 0; k < TENSORNET_LAYERS; k++) {
    a.network.weight[k] = net->layers[t].weight[k].data;
    a.network.bias[k] = net->layers[t].bias[k].data;
  }
  net->backend->ops->tensornet_terms(net->backend, &a);
}

static mlff_tensornet_product_args product_args(tensornet_net *net, int t, tensornet_atoms s)
{
  const tensornet_layer *layer = &net->layers[t];
  return (mlff_tensornet_product_args){.n = s.n,
                                       .n_features = net->n_features,
                                       .is_o3 = net->is_o3,
                                       .y = kept(net, &layer->y, s, row_width(net)),
                                       .m = inside(net, &layer->m, t, s),
                                       .r = net->r.data,
                                       .grad_r = net->r.data,
                                       .grad_m = kept(net, &net->grad_m[t & 1], s, row_width(net)),
                                       .grad_y = kept(net, &net->grad_y, s, row_width(net))};
}

static mlff_tensornet_update_args update_args(tensornet_net *net, int t, tensornet_atoms s)
{
  tensornet_layer *layer = &net->layers[t], *next = layer + 1;
  mlff_tensornet_update_args a = {.n = s.n,
                                  .n_features = net->n_features,
                                  .x = kept(net, &layer->x, s, row_width(net)),
                                  .d = inside(net, &layer->d, t, s),
                                  .out = net->last.data,
                                  .grad = kept(net, &net->grad, s, row_width(net)),
                                  .grad_d = net->last.data};
  if (is_last(net, t)) return a;
  a.out = kept(net, &next->x, s, row_width(net));
  a.inverse = kept(net, &next->inverse, s, net->n_features);
  return a;
}

/* dE/dM and the atom's own part of dE/dY, from dE/dx of the next layer, or dE/dX of the last one, in `grad`. */
static void backward_inside(tensornet_net *net, int t, tensornet_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const mlff_tensornet_update_args update = update_args(net, t, s);
  ops->tensornet_update_backward(net->backend, &update);
  mix_features(net, net->layers[t].mix_2, 1, s.n, update.grad_d, net->r.data, 0);
  const mlff_tensornet_product_args product = product_args(net, t, s);
  ops->tensornet_product_backward(net->backend, &product);
}

/* A layer of both branches of the readout: activated, or backward and scaled by the slopes of the layer before. */
static void branches(tensornet_net *net, int layer, int back, int64_t n, const void *x, void *y, void *slope)
{
  const int64_t f = net->n_features;
  const mlff_linear *linears[2];
  mlff_linear_args args[2];
  for (int b = 0; b < 2; b++) {
    linears[b] = back ? &net->branch[layer][b].back : &net->branch[layer][b].forward;
    args[b] = (mlff_linear_args){.n_rows = n,
                                 .x = mlff_at(net->backend, x, b * f),
                                 .ldx = 2 * f,
                                 .y = mlff_at(net->backend, y, b * f),
                                 .ldy = 2 * f};
    if (back) {
      args[b].scale = mlff_at(net->backend, slope, b * f);
      args[b].ld_scale = 2 * f;
      continue;
    }
    args[b].act = MLFF_ACT_SILU;
    args[b].slope = mlff_at(net->backend, slope, b * f);
    args[b].ld_slope = 2 * f;
  }
  net->backend->ops->linear_many(net->backend, 2, linears, args);
}

/* Energies of a block, and dE/dX in `grad`. */
static void readout(tensornet_net *net, const mlff_edges *edges, tensornet_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const int64_t f = net->n_features;
  mlff_tensornet_norm_args norm = {.n = s.n,
                                   .n_features = net->n_features,
                                   .n_channels = net->n_channels,
                                   .n_groups = 3,
                                   .epsilon = net->epsilon,
                                   .x = net->last.data,
                                   .out = net->invariants.data,
                                   .inverse = net->last_inverse.data};
  ops->tensornet_norm(net->backend, &norm);
  ops->linear(net->backend, &net->readout.forward,
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = norm.out,
                                  .ldx = 3 * f,
                                  .y = net->h[0].data,
                                  .ldy = 2 * f,
                                  .act = MLFF_ACT_SILU,
                                  .slope = net->h_slope[0].data,
                                  .ld_slope = 2 * f});
  mlff_take_features(net->backend, net->wanted, edges, s.begin, s.n, net->h[0].data, 2 * f, 2 * f);
  branches(net, 0, 0, s.n, net->h[0].data, net->h[1].data, net->h_slope[1].data);
  branches(net, 1, 0, s.n, net->h[1].data, net->h[0].data, net->h_slope[2].data);
  ops->tensornet_readout(net->backend,
                         &(mlff_tensornet_readout_args){.atoms = atoms_of(net, edges, s),
                                                        .n_features = net->n_features,
                                                        .bias = {net->bias[0], net->bias[1]},
                                                        .scale = net->energy_scale,
                                                        .h = net->h[0].data,
                                                        .slope = net->h_slope[2].data,
                                                        .weight = net->readout_weight.data,
                                                        .energy = mlff_at(net->backend, net->node_energy.data, s.begin),
                                                        .grad = net->h_slope[2].data});
  mlff_weight_rows(net->backend, net->weighting, s.begin, s.n, 2 * f, 2 * f, net->h_slope[2].data, net->h_slope[2].data,
                   0);
  branches(net, 1, 1, s.n, net->h_slope[2].data, net->h[1].data, net->h_slope[1].data);
  branches(net, 0, 1, s.n, net->h[1].data, net->h[0].data, net->h_slope[0].data);
  scalar_layer_back(net, &net->readout, s.n, net->h[0].data, net->wide.data, NULL);
  norm.grad_out = net->wide.data;
  norm.grad = kept(net, &net->grad, s, row_width(net));
  ops->tensornet_norm_backward(net->backend, &norm);
}

/* Layer t, and Y of the next one; the last layer includes the readout and the backward pass up to dE/dM. */
static void layer_block(tensornet_net *net, const mlff_edges *edges, int t, tensornet_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  make_terms(net, edges, t, s);
  mlff_tensornet_message_args message = message_args(net, edges, t, s);
  message.sums = inside(net, &net->layers[t].m, t, s);
  if (net->is_local)
    ops->tensornet_local(net->backend, &message);
  else
    ops->tensornet_message(net->backend, &message);
  const mlff_tensornet_product_args product = product_args(net, t, s);
  ops->tensornet_product(net->backend, &product);
  mix_features(net, net->layers[t].mix_2, 0, s.n, product.r, inside(net, &net->layers[t].d, t, s), 0);
  const mlff_tensornet_update_args update = update_args(net, t, s);
  ops->tensornet_update(net->backend, &update);
  if (!is_last(net, t)) {
    first_mix(net, t + 1, s);
    return;
  }
  readout(net, edges, s);
  backward_inside(net, t, s);
}

/* Reverses the message of layer t, and the layer before it or the embedding. */
static void backward_block(tensornet_net *net, const mlff_edges *edges, int t, tensornet_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  make_terms(net, edges, t, s);
  mlff_tensornet_message_args message = message_args(net, edges, t, s);
  message.grad = net->grad_m[t & 1].data;
  message.sums = kept(net, &net->grad_y, s, row_width(net));
  if (net->is_local)
    ops->tensornet_local_backward(net->backend, &message);
  else
    ops->tensornet_message_backward(net->backend, &message);
  mix_features(net, net->layers[t].mix_1, 1, s.n, message.sums, kept(net, &net->grad, s, row_width(net)), 1);
  if (t > 0)
    backward_inside(net, t - 1, s);
  else
    embed_backward(net, edges, s);
}

/* ---- order of passes --------------------------------------------------------------------------------------------- */

typedef void tensornet_step(tensornet_net *, const mlff_edges *, int t, tensornet_atoms);

/* Atoms begin .. end in blocks. in_flight: an exchange to progress between blocks, or NULL. */
static void for_blocks(tensornet_net *net, const mlff_edges *edges, int t, tensornet_step *step, int64_t begin,
                       int64_t end, const mlff_exchange_args *in_flight)
{
  for (; begin < end; begin += net->block) {
    const tensornet_atoms s = {begin, end - begin < net->block ? end - begin : net->block};
    step(net, edges, t, s);
    if (in_flight) net->backend->ops->exchange_progress(net->backend, in_flight);
  }
}

/* All passes of a block of a strictly local network. */
static void whole_block(tensornet_net *net, const mlff_edges *edges, int t, tensornet_atoms s)
{
  embed_block(net, edges, 0, s);
  for (t = 0; t < net->n_layers; t++) layer_block(net, edges, t, s);
  for (t = net->n_layers - 1; t >= 0; t--) backward_block(net, edges, t, s);
}

/* A pass that reads `rows` of other atoms: interior atoms during the exchange, then those at the boundary. embeds:
 * interior atoms of the embedding come first. */
static void pass(tensornet_net *net, const mlff_arch_inputs *in, int t, tensornet_step *step, const mlff_buf *rows,
                 int embeds, mlff_status *status, mlff_error *error)
{
  const mlff_edges *edges = in->edges;
  const mlff_ops *ops = net->backend->ops;
  const mlff_exchange_args a = {.halo = in->halo, .edges = edges, .rows = rows->data, .width = row_width(net)};
  mlff_keep_first(status, ops->exchange_begin(net->backend, &a, *status ? NULL : error));
  if (embeds) for_blocks(net, edges, 0, embed_block, 0, edges->n_interior, &a);
  for_blocks(net, edges, t, step, 0, edges->n_interior, &a);
  mlff_keep_first(status, ops->exchange_finish(net->backend, &a, *status ? NULL : error));
  for_blocks(net, edges, t, step, edges->n_interior, edges->n_local, NULL);
}

static mlff_status all_passes(tensornet_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  const mlff_edges *edges = in->edges;
  mlff_status status = MLFF_OK;
  if (net->is_local) {
    for_blocks(net, edges, 0, whole_block, 0, edges->n_local, NULL);
    return MLFF_OK;
  }
  for_blocks(net, edges, 0, embed_block, edges->n_interior, edges->n_local, NULL);
  for (int t = 0; t < net->n_layers; t++) pass(net, in, t, layer_block, &net->layers[t].y, t == 0, &status, error);
  if (in->weighting) in->weighting->is_backward = 1;
  for (int t = net->n_layers - 1; t >= 0; t--) pass(net, in, t, backward_block, &net->grad_m[t & 1], 0, &status, error);
  return status;
}

static mlff_status tensornet_evaluate(void *opaque, const mlff_arch_inputs *in, mlff_arch_outputs *out,
                                      mlff_error *error)
{
  tensornet_net *net = opaque;
  const mlff_ops *ops = net->backend->ops;
  net->wanted = in->last;
  net->weighting = in->weighting;
  MLFF_TRY(reserve(net, in->edges, error));
  MLFF_TRY(ops->painn_radial(net->backend, &net->moments, in->edges, &net->radial, error));
  MLFF_TRY(ops->edge_lines(net->backend, &net->table, in->edges, &net->radial, error));
  const mlff_status status = all_passes(net, in, error);
  *out = (mlff_arch_outputs){.node_energy = net->node_energy.data, .edge_grad = net->edge_grad.data};
  return status;
}

static unsigned tensornet_traits(const void *opaque)
{
  const tensornet_net *net = opaque;
  return MLFF_CONSERVATIVE | MLFF_ROTATION_EXACT | MLFF_SMOOTH | MLFF_NODE_ENERGIES |
         (net->is_o3 ? MLFF_INVERSION_EXACT : 0u) | (net->is_local ? MLFF_STRICTLY_LOCAL : 0u);
}

static int tensornet_exchange_width(const void *opaque)
{
  const tensornet_net *net = opaque;
  return net->is_local ? 0 : (int) row_width(net);
}

/* Units of the first layers of both branches of the readout. */
static int tensornet_n_features(const void *opaque)
{
  const tensornet_net *net = opaque;
  return 2 * net->n_features;
}

const mlff_arch mlff_arch_tensornet = {
    .name = "tensornet",
    .citation = "G. Simeon, G. De Fabritiis, NeurIPS 2023, arXiv:2306.06482",
    .traits = tensornet_traits,
    .create = tensornet_create,
    .evaluate = tensornet_evaluate,
    .exchange_width = tensornet_exchange_width,
    .n_features = tensornet_n_features,
    .destroy = tensornet_destroy,
    .has_tables = 1,
};
