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

/* Energies of the block and dE/dx of the last layer. */
static void readout(nequip_net *net, const mlff_edges *edges, nequip_atoms s)
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

static void forward(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  nequip_layer *layer = &net->layers[t];
  const mlff_nequip_row *x = &net->layers[0].x;
  const mlff_nequip_gate_args gate = gate_args(net, t, s);
  if (t > 0)
    nequip_apply_map(net, &layer->skip, 0, s.n, x, nequip_row_of(net, &net->x, s.begin, x->ld), &layer->z,
                     z_of(net, t, s), 1);
  net->backend->ops->nequip_gate(net->backend, &gate);
  if (nequip_is_last(net, t)) readout(net, edges, s);
}

static void backward(nequip_net *net, const mlff_edges *edges, int t, nequip_atoms s)
{
  (void) edges;
  nequip_layer *layer = &net->layers[t];
  const mlff_nequip_row *x = &net->layers[0].x;
  const mlff_nequip_gate_args gate = gate_args(net, t, s);
  net->backend->ops->nequip_gate_backward(net->backend, &gate);
  if (t == 0) return;
  void *grad_x = nequip_row_of(net, &net->grad_x, s.begin, x->ld);
  if (nequip_is_last(net, t))
    net->backend->ops->zero(net->backend, grad_x, (size_t) (s.n * x->ld) * net->backend->real_size);
  nequip_apply_map(net, &layer->skip, 1, s.n, &layer->z, net->grad_z.data, x, grad_x, 0);
}

const nequip_update nequip_gates = {.z_of = z_of, .forward = forward, .backward = backward};
