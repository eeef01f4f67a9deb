/* nequip_gate.c: the update of NequIP: x = gate(norm(z + skip x)), and the readout of the last layer. */
#include "nequip.h"

static void *z_of(nequip_net *net, int t, nequip_atoms s)
{
  return nequip_row_of(net, &net->layers[t].z_values, nequip_kept_row(net, t, s), net->layers[t].z.ld);
}

static mlff_nequip_gate_args gate_args(nequip_net *net, int t, nequip_atoms s)
{
  nequip_layer *layer = &net->layers[t];
  const int64_t kept = nequip_kept_row(net, t, s);
  return (mlff_nequip_gate_args){
      .n = s.n,
      .in = layer->z,
      .out = layer->x,
      .z = nequip_row_of(net, &layer->z_values, kept, layer->z.ld),
      .weight = layer->norm.data,
      .epsilon = net->epsilon,
      .gain = net->gain,
      .scale = nequip_row_of(net, &layer->scale, kept, 1),
      .x = nequip_x_of(net, t, s),
      .grad_x = nequip_grad_of(net, t, s),
      .grad_z = net->grad_z.data,
  };
}

/* Energies of the block and dE/dx of the last layer, of a readout with silu. */
static void readout_silu(nequip_net *net, const mlff_edges *edges, nequip_atoms s)
{
  const mlff_nequip_row *x = &net->layers[net->n_layers - 1].x;
  net->backend->ops->mace_readout(net->backend,
                                  &(mlff_mace_readout_args){.atoms = nequip_elements_of(net, edges, s),
                                                            .n_channels = x->n[0],
                                                            .n_hidden = net->n_hidden,
                                                            .ld = x->ld,
                                                            .x = net->last_x.data,
                                                            .weight = net->readout.data,
                                                            .last = net->last.data,
                                                            .ld_last = net->n_hidden,
                                                            .gain = net->readout_gain,
                                                            .energy = nequip_row_of(net, &net->node_energy, s.begin, 1),
                                                            .grad = net->last_grad.data});
}

/* The same of a linear readout. */
static void readout_linear(nequip_net *net, const mlff_edges *edges, nequip_atoms s)
{
  net->backend->ops
      ->nequip_readout(net->backend,
                       &(mlff_nequip_readout_args){.n = s.n,
                                                   .width = net->layers[net->n_layers - 1].x.n[0],
                                                   .x = net->last_x.data,
                                                   .weight = net->readout.data,
                                                   .slot = net->slot.data,
                                                   .species = (const int32_t *) edges->center_species.data + s.begin,
                                                   .energy = nequip_row_of(net, &net->node_energy, s.begin, 1),
                                                   .grad = net->last_grad.data});
}

/* Energies of the block and dE/dx of the last layer. */
static void readout(nequip_net *net, const mlff_edges *edges, nequip_atoms s)
{
  const mlff_nequip_row *x = &net->layers[net->n_layers - 1].x;
  mlff_take_features(net->backend, net->wanted, edges, s.begin, s.n, net->last_x.data, x->n[0], x->ld);
  if (net->n_hidden)
    readout_silu(net, edges, s);
  else
    readout_linear(net, edges, s);
  mlff_weight_rows(net->backend, net->weighting, s.begin, s.n, x->ld, x->ld, net->last_grad.data, net->last_grad.data,
                   0);
}

/* z += skip x */
static void add_skip(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  nequip_layer *layer = &net->layers[t];
  const mlff_nequip_row *row = &net->layers[0].x;
  void *x = nequip_row_of(net, &net->x, s.begin, row->ld);
  if (layer->wide_x.ld) {
    const mlff_mace_select_args select = nequip_select_args(net, edges, s, row, &layer->wide_x, x);
    net->backend->ops->mace_expand(net->backend, &select);
    row = &layer->wide_x;
    x = net->wide.data;
  }
  nequip_apply_map(net, &layer->skip, 0, s.n, row, x, &layer->z, z_of(net, t, s), 1);
}

/* grad_x = adjoint of skip x */
static void skip_back(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  nequip_layer *layer = &net->layers[t];
  const mlff_nequip_row *x = &net->layers[0].x;
  void *grad_x = nequip_row_of(net, &net->grad_x, s.begin, x->ld);
  if (layer->wide_x.ld) {
    const mlff_mace_select_args select = nequip_select_args(net, edges, s, x, &layer->wide_x, grad_x);
    nequip_apply_map(net, &layer->skip, 1, s.n, &layer->z, net->grad_z.data, &layer->wide_x, net->wide.data, 0);
    net->backend->ops->mace_pick(net->backend, &select);
    return;
  }
  if (nequip_is_last(net, t))
    net->backend->ops->zero(net->backend, grad_x, (size_t) (s.n * x->ld) * net->backend->real_size);
  nequip_apply_map(net, &layer->skip, 1, s.n, &layer->z, net->grad_z.data, x, grad_x, 0);
}

static void forward(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const mlff_nequip_gate_args gate = gate_args(net, t, s);
  if (t > 0) add_skip(net, edges, t, s);
  net->backend->ops->nequip_gate(net->backend, &gate);
  if (nequip_is_last(net, t)) readout(net, edges, s);
}

static void backward(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  const mlff_nequip_gate_args gate = gate_args(net, t, s);
  net->backend->ops->nequip_gate_backward(net->backend, &gate);
  if (t > 0) skip_back(net, edges, t, s);
}

const nequip_update nequip_gates = {.z_of = z_of, .forward = forward, .backward = backward};
