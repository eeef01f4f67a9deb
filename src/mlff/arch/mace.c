/* mace.c: MACE networks: the update of a layer from its messages. Messages, their order and exchanges are those of
 * NequIP networks (nequip.c). Loading is in mace_load.c.
 *
 * I. Batatia, D. P. Kovacs, G. N. C. Simm, C. Ortner, G. Csanyi, MACE: Higher order equivariant message passing neural
 * networks for fast and accurate force fields, NeurIPS 2022, arXiv:2206.07697.
 *
 *   layer t:  y = linear_up x;  z = linear sums / (avg_num_neighbors, or 1 + density);  A = z, or select[element] z
 *             P = polynomial of A, with coefficients of the element, for each channel
 *             x = product.linear P, + skip[element] x of the layer before in residual layers
 *   energy of an atom = sum over layers of readout(scalars of x)
 *
 * Non-linear blocks:  q = linear sums / (alpha + beta density) + linear_res y,  A = linear_2 gate(q)
 *
 * In mace-torch, vectors of pairs point from the neighbor to the center. Here they point to the neighbor: models are
 * exact under inversion, so only the signs of odd features differ.
 *
 * The features of layer 0 are a function of the element, so its self connection is a constant (`start`).
 */
#include "mace.h"

static int is_nonlinear(const nequip_layer *layer)
{
  return layer->mace->gate_gain > 0;
}

/* Rows of A, which the backward pass reads. */
static void *a_of(nequip_net *net, int t, nequip_atoms s)
{
  const nequip_layer *layer = &net->layers[t];
  return nequip_row_of(net, is_nonlinear(layer) ? &layer->a_values : &layer->z_values, nequip_kept_row(net, t, s),
                       layer->a.ld);
}

static void *z_of(nequip_net *net, int t, nequip_atoms s)
{
  const nequip_layer *layer = &net->layers[t];
  if (!layer->mace->is_residual) return net->grad_z.data;
  return nequip_row_of(net, &layer->z_values, nequip_kept_row(net, t, s), layer->z.ld);
}

/* ---- densities --------------------------------------------------------------------------------------------------- */

/* A first layer of one order: its sums over neighbors are the densities. */
static mlff_nequip_first_args density_args(nequip_net *net, const mlff_edges *edges)
{
  const mace_density *density = net->density;
  return (mlff_nequip_first_args){.edges = edges,
                                  .radial = {.lines = &net->radial,
                                             .terms = net->terms.data,
                                             .n_terms = density->args.n_terms,
                                             .n_weights = MLFF_NEQUIP_BLOCK},
                                  .rows = density->rows.data,
                                  .bias = density->bias.data,
                                  .slot = net->slot.data,
                                  .out = {.n_orders = 1, .n = {MLFF_NEQUIP_BLOCK}, .ld = MLFF_NEQUIP_BLOCK},
                                  .end = edges->n_local,
                                  .edge_grad = net->edge_grad.data,
                                  .accumulate = 1};
}

/* Non-linear blocks have a network for each layer, whose only unit is the term of the layer. */
static void make_densities(nequip_net *net, const mlff_edges *edges)
{
  mlff_nequip_terms_args args = net->density->args;
  for (int t = 0; t < (args.is_normed ? net->n_layers : 1); t++) {
    args.first = t;
    nequip_make_terms(net, edges, &args, &net->density->networks[t]);
  }
}

static void begin(nequip_net *net, const mlff_edges *edges)
{
  const mlff_ops *ops = net->backend->ops;
  mlff_nequip_first_args a = density_args(net, edges);
  a.z = net->densities.data;
  make_densities(net, edges);
  ops->nequip_first(net->backend, &a);
  ops->zero(net->backend, net->grad_densities.data,
            (size_t) edges->n_local * MLFF_NEQUIP_BLOCK * net->backend->real_size);
}

static void finish(nequip_net *net, const mlff_edges *edges)
{
  mlff_nequip_first_args a = density_args(net, edges);
  a.z = net->grad_densities.data;
  make_densities(net, edges);
  net->backend->ops->nequip_first_backward(net->backend, &a);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static mlff_mace_product_args product_args(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const nequip_layer *layer = &net->layers[t];
  const int64_t column = s.begin * MLFF_NEQUIP_BLOCK + t;
  const int has_density = layer->mace->has_density && !is_nonlinear(layer);
  return (mlff_mace_product_args){.atoms = nequip_elements_of(net, edges, s),
                                  .density = has_density ? mlff_at(net->backend, net->densities.data, column) : NULL,
                                  .grad_density =
                                      has_density ? mlff_at(net->backend, net->grad_densities.data, column) : NULL,
                                  .a_row = layer->a,
                                  .p_row = layer->x,
                                  .terms = layer->mace->terms.data,
                                  .coef = layer->mace->coef.data,
                                  .n_coef = layer->mace->n_coef,
                                  .a = a_of(net, t, s),
                                  .p = net->products.data,
                                  .grad_p = net->products.data,
                                  .grad_a = net->grad_z.data};
}

static mlff_mace_readout_args readout_args(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const nequip_layer *layer = &net->layers[t];
  return (mlff_mace_readout_args){.atoms = nequip_elements_of(net, edges, s),
                                  .n_channels = layer->x.n[0],
                                  .n_hidden = layer->mace->n_hidden,
                                  .ld = layer->x.ld,
                                  .x = nequip_x_of(net, t, s),
                                  .weight = layer->mace->weight.data,
                                  .middle = layer->mace->middle.data,
                                  .bias = layer->mace->middle_bias.data,
                                  .last = layer->mace->last.data,
                                  .gain = net->gain,
                                  .is_tanh = net->is_tanh};
}

static void *previous(nequip_net *net, const mlff_buf *rows, nequip_atoms s)
{
  return nequip_row_of(net, rows, s.begin, nequip_feature_width(net));
}

/* Non-linear blocks: skip of x, or with `back` its adjoint. Both rows may be the same memory. */
static void apply_skip(nequip_net *net, const mlff_edges *edges, int t, int back, nequip_atoms s, void *x, void *y)
{
  nequip_layer *layer = &net->layers[t];
  const mlff_nequip_row *before = &net->layers[0].x, *in = back ? &layer->x : before, *out = back ? before : &layer->x;
  net->backend->ops->mace_divide(net->backend, &(mlff_mace_divide_args){.atoms = nequip_elements_of(net, edges, s),
                                                                        .ld = in->ld,
                                                                        .in = x,
                                                                        .out = net->gated.data});
  if (out->n_orders > in->n_orders)
    net->backend->ops->zero(net->backend, y, (size_t) (s.n * out->ld) * net->backend->real_size);
  nequip_apply_map(net, &layer->skip, back, s.n, in, net->gated.data, out, y, 0);
}

/* x = skip[element] x of the layer before, or the constant of layer 0, or zero */
static void start_features(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  nequip_layer *layer = &net->layers[t];
  const mace_layer *mace = layer->mace;
  if (t == 0 || !mace->is_residual) {
    ops->mace_start(net->backend, &(mlff_mace_start_args){.atoms = nequip_elements_of(net, edges, s),
                                                          .row = layer->x,
                                                          .bias = mace->start.data,
                                                          .x = nequip_x_of(net, t, s)});
    return;
  }
  void *x = previous(net, &net->x, s);
  if (is_nonlinear(layer)) {
    apply_skip(net, edges, t, 0, s, x, nequip_x_of(net, t, s));
    return;
  }
  const mlff_mace_select_args select = nequip_select_args(net, edges, s, &net->layers[0].x, &mace->wide_x, x);
  ops->mace_expand(net->backend, &select);
  nequip_apply_map(net, &layer->skip, 0, s.n, &mace->wide_x, net->wide.data, &layer->x, nequip_x_of(net, t, s), 0);
}

/* ---- gates of non-linear blocks ---------------------------------------------------------------------------------- */

/* Features y of the atoms themselves, or their adjoints. */
static void *own_y(nequip_net *net, const mlff_buf *rows, nequip_atoms s)
{
  return nequip_row_of(net, rows, s.begin, nequip_sent_width(net));
}

static mlff_mace_divide_args divide_args(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const nequip_layer *layer = &net->layers[t];
  const int64_t column = s.begin * MLFF_NEQUIP_BLOCK + t;
  return (mlff_mace_divide_args){.atoms = nequip_elements_of(net, edges, s),
                                 .ld = layer->z.ld,
                                 .density = mlff_at(net->backend, net->densities.data, column),
                                 .z = z_of(net, t, s)};
}

static mlff_nequip_gate_args gate_args(nequip_net *net, int t, nequip_atoms s)
{
  const nequip_layer *layer = &net->layers[t];
  return (mlff_nequip_gate_args){.n = s.n,
                                 .in = layer->z,
                                 .out = layer->a,
                                 .z = net->wide.data,
                                 .gain = layer->mace->gain,
                                 .gate_gain = layer->mace->gate_gain,
                                 .x = net->gated.data,
                                 .grad_x = net->gated.data,
                                 .grad_z = net->wide.data};
}

/* net->wide: q */
static void make_q(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  nequip_layer *layer = &net->layers[t];
  mlff_mace_divide_args divide = divide_args(net, edges, t, s);
  divide.in = divide.z;
  divide.out = net->wide.data;
  divide.bias = layer->mace->residual_bias.data;
  divide.n_bias = layer->z.n[0];
  net->backend->ops->mace_divide(net->backend, &divide);
  if (t > 0)
    nequip_apply_map(net, &layer->mace->residual, 0, s.n, &net->y, own_y(net, &layer->y, s), &layer->z, net->wide.data,
                     1);
}

static void gate(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  nequip_layer *layer = &net->layers[t];
  const mlff_nequip_gate_args args = gate_args(net, t, s);
  make_q(net, edges, t, s);
  net->backend->ops->nequip_gate(net->backend, &args);
  nequip_apply_map(net, &layer->mace->gated, 0, s.n, &layer->a, net->gated.data, &layer->a, a_of(net, t, s), 0);
}

/* grad_z from dE/dA in grad_z; adds to the adjoints of y. */
static void gate_backward(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  nequip_layer *layer = &net->layers[t];
  const mlff_nequip_gate_args args = gate_args(net, t, s);
  mlff_mace_divide_args divide = divide_args(net, edges, t, s);
  nequip_apply_map(net, &layer->mace->gated, 1, s.n, &layer->a, net->grad_z.data, &layer->a, net->gated.data, 0);
  make_q(net, edges, t, s);
  net->backend->ops->nequip_gate_backward(net->backend, &args);
  if (t > 0)
    nequip_apply_map(net, &layer->mace->residual, 1, s.n, &layer->z, net->wide.data, &net->y,
                     own_y(net, &net->grad_y, s), 1);
  divide.in = net->wide.data;
  divide.out = net->grad_z.data;
  divide.grad_density = mlff_at(net->backend, net->grad_densities.data, s.begin * MLFF_NEQUIP_BLOCK + t);
  net->backend->ops->mace_divide(net->backend, &divide);
}

/* ---- weights of atoms -------------------------------------------------------------------------------------------- */

static int weighs(const nequip_net *net)
{
  return net->weighting && net->weighting->weights;
}

/* Adjoints of the readout of layer t, times the weights of the atoms. */
static void weigh(nequip_net *net, int t, nequip_atoms s, const void *x, void *y, int accumulate)
{
  const mlff_nequip_row *row = &net->layers[t].x;
  mlff_weight_rows(net->backend, net->weighting, s.begin, s.n, row->n[0], row->ld, x, y, accumulate);
}

/* ---- steps of a layer -------------------------------------------------------------------------------------------- */

static void forward(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  nequip_layer *layer = &net->layers[t];
  const mace_layer *mace = layer->mace;
  if (!mace->is_residual) {
    const mlff_mace_select_args select = nequip_select_args(net, edges, s, &layer->z, &mace->wide_z, z_of(net, t, s));
    ops->mace_expand(net->backend, &select);
    nequip_apply_map(net, &mace->select, 0, s.n, &mace->wide_z, net->wide.data, &layer->z, a_of(net, t, s), 0);
  }
  if (is_nonlinear(layer)) gate(net, edges, t, s);
  const mlff_mace_product_args product = product_args(net, edges, t, s);
  ops->mace_product(net->backend, &product);
  start_features(net, edges, t, s);
  nequip_apply_map(net, &mace->out, 0, s.n, &layer->x, net->products.data, &layer->x, nequip_x_of(net, t, s), 1);
  if (!mace->has_readout) return;
  mlff_mace_readout_args readout = readout_args(net, edges, t, s);
  readout.energy = nequip_row_of(net, &net->node_energy, s.begin, 1);
  readout.add_energy = t > 0 && net->layers[t - 1].mace->has_readout;
  if (nequip_is_last(net, t)) {
    readout.grad = net->last_grad.data;
    mlff_take_features(net->backend, net->wanted, edges, s.begin, s.n, readout.x, layer->x.n[0], layer->x.ld);
  }
  ops->mace_readout(net->backend, &readout);
  if (nequip_is_last(net, t)) weigh(net, t, s, net->last_grad.data, net->last_grad.data, 0);
}

/* dE/dx of the layer before, without the part of linear_up */
static void backward_features(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  nequip_layer *layer = &net->layers[t];
  const mace_layer *mace = layer->mace;
  const mlff_nequip_row *x = &net->layers[0].x;
  void *grad_x = previous(net, &net->grad_x, s);
  if (!mace->is_residual) {
    ops->zero(net->backend, grad_x, (size_t) (s.n * x->ld) * net->backend->real_size);
    return;
  }
  if (is_nonlinear(layer)) {
    apply_skip(net, edges, t, 1, s, nequip_grad_of(net, t, s), grad_x);
    return;
  }
  nequip_apply_map(net, &layer->skip, 1, s.n, &layer->x, nequip_grad_of(net, t, s), &mace->wide_x, net->wide.data, 0);
  const mlff_mace_select_args select = nequip_select_args(net, edges, s, x, &mace->wide_x, grad_x);
  ops->mace_pick(net->backend, &select);
}

static void backward(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  nequip_layer *layer = &net->layers[t];
  const mace_layer *mace = layer->mace;
  if (!nequip_is_last(net, t) && mace->has_readout) {
    mlff_mace_readout_args readout = readout_args(net, edges, t, s);
    readout.grad = nequip_grad_of(net, t, s);
    readout.add_grad = 1;
    if (weighs(net)) {
      readout.grad = net->products.data;
      readout.add_grad = 0;
    }
    ops->mace_readout(net->backend, &readout);
    weigh(net, t, s, net->products.data, nequip_grad_of(net, t, s), 1);
  }
  nequip_apply_map(net, &mace->out, 1, s.n, &layer->x, nequip_grad_of(net, t, s), &layer->x, net->products.data, 0);
  if (t > 0) backward_features(net, edges, t, s);
  const mlff_mace_product_args product = product_args(net, edges, t, s);
  ops->mace_product_backward(net->backend, &product);
  if (is_nonlinear(layer)) gate_backward(net, edges, t, s);
  if (mace->is_residual) return;
  nequip_apply_map(net, &mace->select, 1, s.n, &layer->z, net->grad_z.data, &mace->wide_z, net->wide.data, 0);
  const mlff_mace_select_args select = nequip_select_args(net, edges, s, &layer->z, &mace->wide_z, net->grad_z.data);
  ops->mace_pick(net->backend, &select);
}

const nequip_update mace_products =
    {.z_of = z_of, .forward = forward, .backward = backward, .begin = begin, .finish = finish, .release = mace_release};

static unsigned mace_traits(const void *opaque)
{
  const nequip_net *net = opaque;
  return MLFF_CONSERVATIVE | MLFF_ROTATION_EXACT | MLFF_INVERSION_EXACT | MLFF_SMOOTH | MLFF_NODE_ENERGIES |
         (net->n_layers == 1 ? MLFF_STRICTLY_LOCAL : 0u);
}

const mlff_arch mlff_arch_mace = {
    .name = "mace",
    .citation = "I. Batatia et al., NeurIPS 2022, arXiv:2206.07697",
    .traits = mace_traits,
    .create = mace_create,
    .evaluate = nequip_evaluate,
    .exchange_width = nequip_exchange_width,
    .reverse_width = nequip_exchange_width,
    .n_features = nequip_n_features,
    .destroy = nequip_destroy,
    .has_tables = 1,
};
