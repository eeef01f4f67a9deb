/* orb.c: Orb-v2, written once against ops.h and ops_orb.h (whose symbols are used here).
 *
 * M. Neumann, J. Gin, B. Rhodes et al., Orb: A Fast, Scalable Neural Network Potential, arXiv:2410.22570 (2024). The
 * formulas are in docs/model_file.md. Forces and stress are outputs of the network: there is no backward pass.
 *
 * Edges belong to the rank of their sender; the receiver may be an atom of another rank. Before each layer (except the
 * first, whose h depends on the element only) the features h are copied forward to other ranks, and after its messages
 * the sums `received` are added to their owners. Energy and stress are functions of the mean feature of all atoms, and
 * the mean force is removed: these are sums over all ranks.
 *
 * Open systems: the net torque is removed, and the virial is that of the forces about the centroid, sum q_i f_i; the
 * stress head is not used, because there is no volume. Loading is in orb_load.c.
 */
#include "orb.h"

#include "../model/spans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Atoms per block of edges: at least one, at most `block` edges if possible. */
static int64_t atoms_per_block(const orb_net *net)
{
  const int64_t n = net->backend->ops->orb_block / net->n_neighbours;
  return n > 0 ? n : 1;
}

static mlff_status reserve(orb_net *net, const mlff_edges *edges, mlff_error *error)
{
  const int64_t f = net->n_features, hidden = net->n_hidden, n_local = edges->n_local, n_nodes = edges->n_nodes;
  const int64_t n_atoms = atoms_per_block(net), n_block = (n_atoms < n_local ? n_atoms : n_local) * net->n_neighbours;
  const int64_t n_input = net->n_basis + 3 > 3 * f ? net->n_basis + 3 : 3 * f;
  const struct {
    mlff_buf *buf;
    int64_t n, width;
  } wanted[] = {
      {&net->h, n_nodes, f},
      {&net->e, net->graph.n_edges, f},
      {&net->received, n_nodes, f},
      {&net->sent, n_local, f},
      {&net->from_sender, n_local, hidden},
      {&net->from_receiver, n_nodes, hidden},
      {&net->hidden[0], n_block, hidden > net->n_readout ? hidden : net->n_readout},
      {&net->hidden[1], n_block, hidden},
      {&net->raw, n_block, f},
      {&net->input, n_block, n_input},
      {&net->force_out, n_local, 3},
  };
  for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
    MLFF_TRY(mlff_buf_reserve_rows(net->backend, wanted[k].buf, wanted[k].n, wanted[k].width, error));
  return MLFF_OK;
}

/* Forces of owned atoms on the host. */
static mlff_status reserve_host(orb_net *net, int64_t n_local, mlff_error *error)
{
  if (n_local < net->host_room) return MLFF_OK;
  const int64_t room = n_local + n_local / 4 + 1;
  void *grown = realloc(net->host_force, (size_t) room * sizeof *net->host_force);
  if (!grown) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the forces of %lld atoms", (long long) room);
  net->host_force = grown;
  net->host_room = room;
  net->backend->memory.n_growths++;
  return MLFF_OK;
}

/* ---- steps of a block -------------------------------------------------------------------------------------------- */

static mlff_linear_args linear_args(const mlff_linear *l, int64_t n, const void *x, void *y, mlff_act act)
{
  return (mlff_linear_args){.n_rows = n, .x = x, .ldx = l->n_in, .y = y, .ldy = l->n_out, .act = act};
}

static void linear(orb_net *net, const mlff_linear *l, int64_t n, const void *x, void *y, mlff_act act)
{
  const mlff_linear_args args = linear_args(l, n, x, y, act);
  net->backend->ops->linear(net->backend, l, &args);
}

/* raw = W2 ssp(W1 hidden[0] + b1) + b2 for n rows */
static void upper_layers(orb_net *net, const orb_mlp *mlp, int64_t n)
{
  linear(net, &mlp->linear[1], n, net->hidden[0].data, net->hidden[1].data, MLFF_ACT_SSP);
  linear(net, &mlp->linear[2], n, net->hidden[1].data, net->raw.data, MLFF_ACT_NONE);
}

/* y = or += norm(MLP(x)) */
static void apply_mlp(orb_net *net, const orb_mlp *mlp, int64_t n, const void *x, void *y, int accumulate)
{
  linear(net, &mlp->linear[0], n, x, net->hidden[0].data, MLFF_ACT_SSP);
  upper_layers(net, mlp, n);
  const mlff_orb_norm_args args =
      {.n = n, .width = net->n_features, .norm = &mlp->norm, .x = net->raw.data, .y = y, .accumulate = accumulate};
  net->backend->ops->orb_norm(net->backend, &args);
}

static void *rows_of(const orb_net *net, const mlff_buf *buf, int64_t row)
{
  return mlff_at(net->backend, buf->data, row * net->n_features);
}

/* Atoms begin .. end and their edges first_edge .. first_edge + n_edges. */
typedef struct atom_range {
  int64_t begin, end, first_edge, n_edges;
} atom_range;

static void encode_edges(orb_net *net, const orb_layer *layer, atom_range s)
{
  (void) layer;
  const mlff_orb_features_args args = {.graph = &net->graph,
                                       .begin = s.begin,
                                       .end = s.end,
                                       .n_basis = net->n_basis,
                                       .spacing = net->spacing,
                                       .out = net->input.data};
  net->backend->ops->orb_features(net->backend, &args);
  apply_mlp(net, &net->edge_encoder, s.n_edges, net->input.data, rows_of(net, &net->e, s.first_edge), 0);
}

/* m = edge network of (e, h_s, h_r); sums of m; e += m */
static void send_messages(orb_net *net, const orb_layer *layer, atom_range s)
{
  const mlff_ops *ops = net->backend->ops;
  linear(net, &layer->edge.linear[0], s.n_edges, rows_of(net, &net->e, s.first_edge), net->hidden[0].data,
         MLFF_ACT_NONE);
  ops->orb_gather(net->backend, &(mlff_orb_gather_args){.graph = &net->graph,
                                                        .begin = s.begin,
                                                        .end = s.end,
                                                        .width = net->n_hidden,
                                                        .from_sender = net->from_sender.data,
                                                        .from_receiver = net->from_receiver.data,
                                                        .y = net->hidden[0].data});
  upper_layers(net, &layer->edge, s.n_edges);
  ops->orb_message(net->backend, &(mlff_orb_message_args){.graph = &net->graph,
                                                          .begin = s.begin,
                                                          .end = s.end,
                                                          .width = net->n_features,
                                                          .norm = &layer->edge.norm,
                                                          .x = net->raw.data,
                                                          .gates = layer->gates.data,
                                                          .gate_bias = {layer->gate_bias[0], layer->gate_bias[1]},
                                                          .e = net->e.data,
                                                          .received = net->received.data,
                                                          .sent = net->sent.data,
                                                          .last = layer == &net->layers[net->n_layers - 1]});
}

/* h += node network of (h, received, sent) */
static void update_nodes(orb_net *net, const orb_layer *layer, atom_range s)
{
  const int64_t n = s.end - s.begin;
  void *h = rows_of(net, &net->h, s.begin);
  net->backend->ops->orb_concat(net->backend, &(mlff_orb_concat_args){.n = n,
                                                                      .width = net->n_features,
                                                                      .a = h,
                                                                      .b = rows_of(net, &net->received, s.begin),
                                                                      .c = rows_of(net, &net->sent, s.begin),
                                                                      .out = net->input.data});
  apply_mlp(net, &layer->node, n, net->input.data, h, 1);
}

static void force_head(orb_net *net, const orb_layer *layer, atom_range s)
{
  (void) layer;
  linear(net, &net->force_head[0], s.end - s.begin, rows_of(net, &net->h, s.begin), net->hidden[0].data, MLFF_ACT_SSP);
  linear(net, &net->force_head[1], s.end - s.begin, net->hidden[0].data,
         mlff_at(net->backend, net->force_out.data, 3 * s.begin), MLFF_ACT_NONE);
}

/* Runs a step over all owned atoms in blocks of `size` atoms. */
static void for_blocks(orb_net *net, const mlff_edges *edges, int64_t size, const orb_layer *layer,
                       void (*step)(orb_net *, const orb_layer *, atom_range))
{
  for (int64_t begin = 0; begin < edges->n_local; begin += size) {
    const int64_t end = edges->n_local - begin < size ? edges->n_local : begin + size;
    const int64_t first = mlff_orb_first_row(&net->graph, begin);
    step(net, layer, (atom_range){begin, end, first, mlff_orb_first_row(&net->graph, end) - first});
  }
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* The sender and receiver parts of the first GEMM of the edge network. */
static void share_features(orb_net *net, const orb_layer *layer, const mlff_edges *edges)
{
  const mlff_linear *linears[2] = {&layer->from_sender, &layer->from_receiver};
  const mlff_linear_args args[2] = {linear_args(linears[0], edges->n_local, net->h.data, net->from_sender.data,
                                                MLFF_ACT_NONE),
                                    linear_args(linears[1], edges->n_nodes, net->h.data, net->from_receiver.data,
                                                MLFF_ACT_NONE)};
  net->backend->ops->linear_many(net->backend, 2, linears, args);
}

static void run_layer(orb_net *net, const mlff_arch_inputs *in, int l, mlff_status *status, mlff_error *error)
{
  const mlff_ops *ops = net->backend->ops;
  const mlff_edges *edges = in->edges;
  const orb_layer *layer = &net->layers[l];
  const int64_t f = net->n_features, n_atoms = atoms_per_block(net), n_rows = n_atoms * net->n_neighbours;
  const mlff_exchange_args exchange = {.halo = in->halo, .edges = edges, .rows = net->h.data, .width = f};
  if (l > 0) mlff_keep_first(status, mlff_exchange(net->backend, &exchange, *status ? NULL : error));
  share_features(net, layer, edges);
  ops->zero(net->backend, net->received.data, (size_t) (edges->n_nodes * f) * net->backend->real_size);
  for_blocks(net, edges, n_atoms, layer, send_messages);
  mlff_keep_first(status, ops->exchange_sum(net->backend, in->halo, net->received.data, edges->n_nodes, f,
                                            *status ? NULL : error));
  for_blocks(net, edges, n_rows, layer, update_nodes);
}

/* ---- what comes out ---------------------------------------------------------------------------------------------- */

/* Sums over all ranks. A rank with sums that are not finite adds zeros, so that only this rank reports the error. */
static void reduce(const orb_net *net, const mlff_arch_inputs *in, double *values, int n, mlff_status *status,
                   mlff_error *error)
{
  double probe = 0.0;
  for (int k = 0; k < n; k++) probe += values[k] * 0.0;
  if (probe != 0.0) {
    for (int k = 0; k < n; k++) values[k] = 0.0;
    mlff_keep_first(status,
                    mlff_fail(*status ? NULL : error, MLFF_E_NUMERIC,
                              "the network's features are not finite: the simulation has become unstable or left the "
                              "model's domain; reduce the time step or check the structure%s [mlff-43]",
                              mlff_backend_overflow(net->backend)));
  }
  if (in->halo) mlff_keep_first(status, in->halo->reduce(in->halo->context, values, n, *status ? NULL : error));
}

static void cross(const double a[3], const double b[3], double c[3])
{
  c[0] = a[1] * b[2] - a[2] * b[1];
  c[1] = a[2] * b[0] - a[0] * b[2];
  c[2] = a[0] * b[1] - a[1] * b[0];
}

static void from_centroid(const mlff_graph *graph, int32_t i, const double centroid[3], double q[3])
{
  for (int c = 0; c < 3; c++) q[c] = graph->pos[i][c] - centroid[c];
}

/* Open systems: f_i += q_i x mu, so that sum q_i x f_i = 0. */
static void remove_torque(orb_net *net, const mlff_arch_inputs *in, const double centroid[3], mlff_status *status,
                          mlff_error *error)
{
  const mlff_graph *graph = in->graph;
  double sums[12] = {0}, moment[3][3], q[3], arm[3], mu[3];
  for (int32_t i = 0; i < graph->n_local; i++) {
    if (graph->species[i] < 0) continue;
    from_centroid(graph, i, centroid, q);
    cross(q, net->host_force[i], arm);
    for (int a = 0; a < 3; a++) {
      sums[9 + a] += arm[a];
      for (int b = 0; b < 3; b++) sums[3 * a + b] += q[a] * q[b];
    }
  }
  reduce(net, in, sums, 12, status, error);
  memcpy(moment, sums, sizeof moment);
  orb_rotation((const double(*)[3]) moment, sums + 9, mu);
  for (int32_t i = 0; i < graph->n_local; i++) {
    if (graph->species[i] < 0) continue;
    from_centroid(graph, i, centroid, q);
    cross(q, mu, arm);
    for (int c = 0; c < 3; c++) net->host_force[i][c] += arm[c];
  }
}

/* xx yy zz xy xz yz of sum q_i f_i over owned atoms, symmetrised. */
static void virial_of_forces(const orb_net *net, const mlff_graph *graph, const double centroid[3], double virial[6])
{
  static const int first[6] = {0, 1, 2, 0, 0, 1}, second[6] = {0, 1, 2, 1, 2, 2};
  double q[3];
  for (int k = 0; k < 6; k++) virial[k] = 0.0;
  for (int32_t i = 0; i < graph->n_local; i++) {
    const double *f = net->host_force[i];
    if (graph->species[i] < 0) continue;
    from_centroid(graph, i, centroid, q);
    for (int k = 0; k < 6; k++) virial[k] += 0.5 * (q[first[k]] * f[second[k]] + q[second[k]] * f[first[k]]);
  }
}

/* -stress * volume; the head's order is xx yy zz yz xz xy. */
static void virial_of_stress(const orb_net *net, double volume, const double *mean_feature, double virial[6])
{
  static const int order[6] = {0, 1, 2, 5, 4, 3};
  double stress[6];
  orb_head_apply(&net->stress_head, mean_feature, stress);
  for (int k = 0; k < 6; k++) virial[k] = -volume * (stress[order[k]] * net->stress.scale + net->stress.mean);
}

/* Forces of owned atoms from the head's output: without their mean, in open systems without torque, denormalised. */
static void finish_forces(orb_net *net, const mlff_arch_inputs *in, const double mean[3], const double centroid[3],
                          mlff_status *status, mlff_error *error)
{
  const mlff_graph *graph = in->graph;
  for (int32_t i = 0; i < graph->n_local; i++)
    for (int c = 0; c < 3; c++) net->host_force[i][c] = graph->species[i] < 0 ? 0.0 : net->host_force[i][c] - mean[c];
  if (graph->boundary == MLFF_BOUNDARY_OPEN) remove_torque(net, in, centroid, status, error);
  for (int32_t i = 0; i < graph->n_local; i++) {
    if (graph->species[i] < 0) continue;
    for (int c = 0; c < 3; c++) net->host_force[i][c] = net->host_force[i][c] * net->forces.scale + net->forces.mean;
  }
}

/* Sums [n_features + 7] over owned atoms of h, 1, the force head's output and the position. */
static mlff_status sum_atoms(orb_net *net, const mlff_arch_inputs *in, double *sums, mlff_error *error)
{
  const mlff_ops *ops = net->backend->ops;
  const int32_t *species = in->edges->center_species.data;
  const int64_t n = in->edges->n_local, f = net->n_features;
  double *rest = sums + f;
  MLFF_TRY(ops->orb_sum(net->backend, net->h.data, n, f, species, sums, error));
  MLFF_TRY(ops->download_reals(net->backend, (double *) net->host_force, net->force_out.data, 3 * n, error));
  for (int k = 0; k < 7; k++) rest[k] = 0.0;
  for (int32_t i = 0; i < n; i++) {
    if (in->graph->species[i] < 0) continue;
    rest[0] += 1.0;
    for (int c = 0; c < 3; c++) {
      rest[1 + c] += net->host_force[i][c];
      rest[4 + c] += in->graph->pos[i][c];
    }
  }
  return MLFF_OK;
}

static void finish(orb_net *net, const mlff_arch_inputs *in, mlff_status *status, mlff_error *error)
{
  const int f = net->n_features;
  double *sums = net->sums, energy = 0.0;
  mlff_keep_first(status, sum_atoms(net, in, sums, *status ? NULL : error));
  const double n_own = sums[f];
  reduce(net, in, sums, f + 7, status, error);
  const double n_atoms = sums[f], share = n_atoms > 0.0 ? n_own / n_atoms : 0.0;
  for (int k = 0; k < f + 7; k++)
    if (k != f) sums[k] = n_atoms > 0.0 ? sums[k] / n_atoms : 0.0;
  finish_forces(net, in, sums + f + 1, sums + f + 4, status, error);

  mlff_direct *out = &net->direct;
  *out = (mlff_direct){.forces = (const double(*)[3]) net->host_force};
  if (n_atoms > 0.0) {
    orb_head_apply(&net->energy_head, sums, &energy);
    out->energy = n_own * (energy * net->energy.scale + net->energy.mean);
    if (in->graph->boundary == MLFF_BOUNDARY_PERIODIC) {
      out->stress_begin = mlff_spans_now();
      virial_of_stress(net, in->graph->volume, sums, out->virial);
      out->stress_end = mlff_spans_now();
    }
    for (int k = 0; k < 6; k++) out->virial[k] *= share;
    if (in->graph->boundary == MLFF_BOUNDARY_OPEN) virial_of_forces(net, in->graph, sums + f + 4, out->virial);
  }
}

/* All device memory of an evaluation, without its sums over ranks. */
static mlff_status orb_reserve(void *opaque, const mlff_arch_inputs *in, mlff_error *error)
{
  orb_net *net = opaque;
  MLFF_TRY(net->backend->ops->orb_graph(net->backend, in->graph, in->edges, net->n_neighbours, &net->graph, error));
  return reserve(net, in->edges, error);
}

static mlff_status orb_evaluate(void *opaque, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error)
{
  orb_net *net = opaque;
  const mlff_ops *ops = net->backend->ops;
  const mlff_edges *edges = in->edges;
  mlff_status status = MLFF_OK;
  MLFF_TRY(orb_reserve(net, in, error));
  MLFF_TRY(reserve_host(net, edges->n_local, error));
  ops->orb_embed(net->backend, &(mlff_orb_embed_args){.n = edges->n_nodes,
                                                      .width = net->n_features,
                                                      .species = edges->center_species.data,
                                                      .table = net->node_table.data,
                                                      .out = net->h.data});
  for_blocks(net, edges, atoms_per_block(net), NULL, encode_edges);
  for (int l = 0; l < net->n_layers; l++) run_layer(net, in, l, &status, error);
  for_blocks(net, edges, atoms_per_block(net) * net->n_neighbours, NULL, force_head);
  finish(net, in, &status, error);
  *out = (mlff_arch_outputs){.direct = &net->direct};
  return status;
}

static unsigned orb_traits(const void *opaque)
{
  (void) opaque;
  /* forces are not a gradient, unit vectors are inputs, neighbors change abruptly, the energy is not a sum over atoms
   * */
  return 0;
}

static int orb_exchange_width(const void *opaque)
{
  const orb_net *net = opaque;
  return net->n_features;
}

const mlff_arch mlff_arch_orb = {
    .name = "orb",
    .citation = "M. Neumann et al., Orb: A Fast, Scalable Neural Network Potential, arXiv:2410.22570 (2024)",
    .traits = orb_traits,
    .create = orb_create,
    .reserve = orb_reserve,
    .evaluate = orb_evaluate,
    .exchange_width = orb_exchange_width,
    .reverse_width = orb_exchange_width,
    .destroy = orb_destroy,
};
