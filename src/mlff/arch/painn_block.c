/* painn_block.c: the layers of PaiNN for one block of atoms, forward and backward, written once against ops.h and
 * ops_painn.h. Formulas are in painn.c.
 *
 * The steps of a layer run block by block right after its message, so that their arrays stay in cache.
 */
#include "painn.h"

/* Address of row `row` of a buffer whose rows have `width` reals. */
static void *row_of(const painn_net *net, const mlff_buf *buf, int64_t row, int64_t width)
{
  return mlff_at(net->backend, buf->data, row * width);
}

/* First row of arrays that exist for all atoms except in the last layer. */
static int64_t kept_row(const painn_net *net, int l, painn_atoms s)
{
  return l == net->n_layers - 1 ? 0 : s.begin;
}

static mlff_painn_moments_args moments_args(painn_net *net, const mlff_edges *edges, painn_atoms s)
{
  const int64_t n_columns = (int64_t) net->n_slots * net->n_moment_rows;
  return (mlff_painn_moments_args){
      .edges = edges,
      .radial = &net->radial,
      .n_terms = net->moment_basis->n_terms,
      .n_rows = net->n_moment_rows,
      .n_slots = net->n_slots,
      .slot = net->slot.data,
      .begin = s.begin,
      .end = s.begin + s.n,
      .moments_q = net->moments_q.data,
      .ld_q = n_columns + net->n_slots,
      .moments_mu = net->moments_mu.data,
      .ld_mu = n_columns,
      .edge_grad = net->edge_grad.data,
      .accumulate = net->n_layers > 1,
  };
}

/* q = embedding + sum_j a,  mu = sum_j b u  (layer 0) */
static void first_message(painn_net *net, const mlff_edges *edges, painn_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const int64_t f = net->n_padded;
  const mlff_painn_moments_args a = moments_args(net, edges, s);
  ops->painn_moments(net->backend, &a);
  ops->linear(net->backend, &net->moment_q,
              &(mlff_linear_args){.n_rows = s.n, .x = a.moments_q, .ldx = a.ld_q, .y = net->qn.data, .ldy = 2 * f});
  ops->linear(net->backend, &net->moment_mu,
              &(mlff_linear_args){.n_rows = 3 * s.n, .x = a.moments_mu, .ldx = a.ld_mu, .y = net->mu.data, .ldy = f});
}

/* reverses first_message: grad_q0, grad_mu0 -> edge_grad */
static void first_message_backward(painn_net *net, const mlff_edges *edges, painn_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const int64_t f = net->n_padded;
  const mlff_painn_moments_args a = moments_args(net, edges, s);
  ops->linear(
      net->backend, &net->moment_mu_back,
      &(mlff_linear_args){.n_rows = 3 * s.n, .x = net->grad_mu0.data, .ldx = f, .y = a.moments_mu, .ldy = a.ld_mu});
  ops->linear(net->backend, &net->moment_q_back,
              &(mlff_linear_args){.n_rows = s.n, .x = net->grad_q0.data, .ldx = f, .y = a.moments_q, .ldy = a.ld_q});
  ops->painn_moments_backward(net->backend, &a);
}

static mlff_painn_message_args message_args(painn_net *net, const mlff_edges *edges, int l, painn_atoms s)
{
  return (mlff_painn_message_args){
      .edges = edges,
      .radial = &net->radial,
      .n_terms = net->message_basis.n_terms,
      .n_features = net->n_padded,
      .rows = net->layers[l].rows.data,
      .begin = s.begin,
      .end = s.begin + s.n,
      .state = net->layers[l].state.data,
      .q_in = net->q.data,
      .q = net->qn.data,
      .ldq = 2 * (int64_t) net->n_padded,
      .mu = net->mu.data,
      .grad = net->grad[l & 1].data,
      .grad_in = net->grad_after.data,
      .grad_x = net->grad_x.data,
      .edge_grad = net->edge_grad.data,
      .accumulate = l < net->n_layers - 1,
  };
}

/* x = W2 silu(W1 q + b1) + b2 into the state of layer l */
static void context(painn_net *net, int l, painn_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const int64_t f = net->n_padded;
  painn_layer *layer = &net->layers[l];
  ops->linear(net->backend, &layer->context[0],
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = row_of(net, &net->q, s.begin, f),
                                  .ldx = f,
                                  .y = net->hidden.data,
                                  .ldy = f,
                                  .act = MLFF_ACT_SILU,
                                  .slope = row_of(net, &layer->context_slope, s.begin, f),
                                  .ld_slope = f});
  ops->linear(net->backend, &layer->context[1],
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = net->hidden.data,
                                  .ldx = f,
                                  .y = row_of(net, &layer->state, s.begin, 6 * f),
                                  .ldy = 6 * f});
}

/* reverses context: grad_after[q] += ((g_x W2) * silu') W1 */
static void context_backward(painn_net *net, int l, painn_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const int64_t f = net->n_padded;
  painn_layer *layer = &net->layers[l];
  ops->linear(net->backend, &layer->context_back[1],
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = net->grad_x.data,
                                  .ldx = 3 * f,
                                  .y = net->hidden.data,
                                  .ldy = f,
                                  .scale = row_of(net, &layer->context_slope, s.begin, f),
                                  .ld_scale = f});
  ops->linear(net->backend, &layer->context_back[0],
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = net->hidden.data,
                                  .ldx = f,
                                  .y = net->grad_after.data,
                                  .ldy = 4 * f,
                                  .accumulate = 1});
}

static mlff_painn_mix_args mix_args(painn_net *net, int l, painn_atoms s)
{
  const int64_t f = net->n_padded, kept = kept_row(net, l, s);
  const int last = l == net->n_layers - 1;
  painn_layer *layer = &net->layers[l];
  return (mlff_painn_mix_args){
      .n = s.n,
      .n_features = net->n_padded,
      .last = last,
      .epsilon = net->epsilon,
      .vw = row_of(net, &layer->vw, kept, 6 * f),
      .qn = net->qn.data,
      .inv_norm = row_of(net, &layer->inv_norm, kept, f),
      .y = row_of(net, &layer->y, kept, 3 * f),
      .mu = net->mu.data,
      .q_out = row_of(net, &net->q, s.begin, f),
      .state_out = last ? NULL : row_of(net, &net->layers[l + 1].state, s.begin, 6 * f),
      .grad = net->grad_after.data,
      .grad_y = net->grad_y.data,
      .grad_qn = net->grad_qn.data,
      .grad_vw = net->grad_vw.data,
      .grad_m = net->grad_m.data,
      .grad_q_out = l > 0 ? row_of(net, &net->grad[l & 1], s.begin, 4 * f) : net->grad_q0.data,
      .grad_mu_out = l > 0 ? row_of(net, &net->grad[l & 1], 4 * s.begin + 1, f) : net->grad_mu0.data,
      .ld_grad_q = l > 0 ? 4 * f : f,
      .ld_grad_mu = l > 0 ? 4 * f : 3 * f,
  };
}

/* Update of q and mu of layer l, and x of the next layer. */
static void update(painn_net *net, int l, painn_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const int64_t f = net->n_padded;
  painn_layer *layer = &net->layers[l];
  const mlff_painn_mix_args a = mix_args(net, l, s);
  void *slope = row_of(net, &layer->mix_slope, kept_row(net, l, s), f);
  const int64_t n_parts = a.last ? 2 : 3;
  /* 1. V, W = mu M^T */
  ops->linear(net->backend, &layer->channel_mix,
              &(mlff_linear_args){.n_rows = 3 * s.n, .x = net->mu.data, .ldx = f, .y = (void *) a.vw, .ldy = 2 * f});
  /* 2. n = sqrt(V.V + epsilon) */
  ops->painn_mix_norm(net->backend, &a);
  /* 3. (s, v, t) = W4 silu(W3 (q, n) + b3) + b4 */
  ops->linear(net->backend, &layer->mixing[0],
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = net->qn.data,
                                  .ldx = 2 * f,
                                  .y = net->hidden.data,
                                  .ldy = f,
                                  .act = MLFF_ACT_SILU,
                                  .slope = slope,
                                  .ld_slope = f});
  ops->linear(
      net->backend, &layer->mixing[1],
      &(mlff_linear_args){.n_rows = s.n, .x = net->hidden.data, .ldx = f, .y = (void *) a.y, .ldy = n_parts * f});
  /* 4. q += s + t V.W,  mu += v W */
  ops->painn_mix_update(net->backend, &a);
}

/* reverses update: adjoints in grad_after -> grad of layer l */
static void update_backward(painn_net *net, int l, painn_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const int64_t f = net->n_padded;
  painn_layer *layer = &net->layers[l];
  const mlff_painn_mix_args a = mix_args(net, l, s);
  const void *slope = row_of(net, &layer->mix_slope, kept_row(net, l, s), f);
  const int64_t n_parts = a.last ? 2 : 3;
  /* 4. q += s + t V.W,  mu += v W */
  ops->painn_mix_backward_gates(net->backend, &a);
  /* 3. (s, v, t) = W4 silu(W3 (q, n) + b3) + b4 */
  ops->linear(net->backend, &layer->mixing_back[1],
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = a.grad_y,
                                  .ldx = n_parts * f,
                                  .y = net->hidden.data,
                                  .ldy = f,
                                  .scale = slope,
                                  .ld_scale = f});
  ops->linear(
      net->backend, &layer->mixing_back[0],
      &(mlff_linear_args){.n_rows = s.n, .x = net->hidden.data, .ldx = f, .y = (void *) a.grad_qn, .ldy = 2 * f});
  /* 4. and 2. n = sqrt(V.V + epsilon), towards V and W */
  ops->painn_mix_backward_vectors(net->backend, &a);
  /* 1. V, W = mu M^T */
  ops->linear(net->backend, &layer->channel_mix_back,
              &(mlff_linear_args){.n_rows = 3 * s.n, .x = a.grad_vw, .ldx = 2 * f, .y = (void *) a.grad_m, .ldy = f});
  ops->painn_mix_backward_sum(net->backend, &a);
}

/* Energies of the block, and dE/dq into grad_after [n][F]. */
static void readout(painn_net *net, const mlff_edges *edges, painn_atoms s)
{
  const mlff_ops *ops = net->backend->ops;
  const int64_t f = net->n_padded, width = net->n_readout_padded;
  ops->linear(net->backend, &net->readout,
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = row_of(net, &net->q, s.begin, f),
                                  .ldx = f,
                                  .y = net->readout_hidden.data,
                                  .ldy = width,
                                  .act = MLFF_ACT_SILU,
                                  .slope = net->readout_slope.data,
                                  .ld_slope = width});
  ops->painn_readout(net->backend,
                     &(mlff_painn_readout_args){.n = s.n,
                                                .width = net->n_readout_padded,
                                                .h = net->readout_hidden.data,
                                                .slope = net->readout_slope.data,
                                                .weight = net->readout_weight.data,
                                                .bias = net->readout_bias,
                                                .species = (const int32_t *) edges->center_species.data + s.begin,
                                                .energy = row_of(net, &net->node_energy, s.begin, 1),
                                                .grad_h = net->readout_slope.data});
  ops->linear(net->backend, &net->readout_back,
              &(mlff_linear_args){.n_rows = s.n,
                                  .x = net->readout_slope.data,
                                  .ldx = width,
                                  .y = net->grad_after.data,
                                  .ldy = f});
  mlff_weight_rows(net->backend, net->weighting, s.begin, s.n, f, f, net->grad_after.data, net->grad_after.data, 0);
}

void painn_forward_block(painn_net *net, const mlff_edges *edges, int l, painn_atoms s)
{
  if (l == 0) {
    first_message(net, edges, s);
  } else {
    const mlff_painn_message_args a = message_args(net, edges, l, s);
    net->backend->ops->painn_message(net->backend, &a);
  }
  update(net, l, s);
  if (l + 1 < net->n_layers) {
    context(net, l + 1, s);
    return;
  }
  readout(net, edges, s);
  update_backward(net, l, s);
  if (l == 0) first_message_backward(net, edges, s);
}

void painn_backward_block(painn_net *net, const mlff_edges *edges, int l, painn_atoms s)
{
  const mlff_painn_message_args a = message_args(net, edges, l, s);
  net->backend->ops->painn_message_backward(net->backend, &a);
  context_backward(net, l, s);
  update_backward(net, l - 1, s);
  if (l == 1) first_message_backward(net, edges, s);
}
