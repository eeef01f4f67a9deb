/* ani.c: ANI, an ensemble of element-wise networks on atomic environment vectors.
 *
 *   E = sum_i (1/M) sum_m NN_{m, element(i)}(AEV_i)
 *   NN: linear layers with CELU between them, the last one has a single output.
 * Smith, Isayev, Roitberg, Chem. Sci. 8, 3192 (2017); Devereux et al., J. Chem. Theory Comput. 16, 4192 (2020) (ANI-2x).
 * The AEV and its constants: backend/ops_ani.h.
 *
 * Only columns and networks of elements in use are kept; the columns of absent elements are exactly zero. Centres are
 * ordered by element and handled in blocks: AEVs, then one member after another forward and backward, with dE/dAEV
 * summed over members, then the gradients of the AEVs. So the activations of a block and the weights of a member stay
 * in cache. On a GPU all networks are taken at once instead: ani_many.c.
 */
#include "ani.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_MULTIPLE = 6 };

static mlff_status check_species(const ani_net *net, const mlff_graph *graph, mlff_error *error)
{
  for (int32_t a = 0; a < graph->n_all; a++) {
    const int32_t s = graph->species[a];
    if (s >= net->n_elements || (s >= 0 && !net->use[s]))
      return mlff_fail(
          error, MLFF_E_ARG,
          "atom %d (index on this rank) is of species %d, which was not announced when the model was opened; "
          "name all elements that can occur",
          (int) a, (int) s);
  }
  return MLFF_OK;
}

/* Owned atoms by element, made anew when the list changes. */
static mlff_status order_atoms(ani_net *net, const mlff_graph *graph, mlff_error *error)
{
  if (net->list_id == graph->list_id && graph->list_id != 0) return MLFF_OK;
  net->list_id = 0;
  MLFF_TRY(check_species(net, graph, error));
  if (graph->n_local > net->order_capacity) {
    const int32_t capacity = graph->n_local + graph->n_local / 4;
    int32_t *order = realloc(net->order, (size_t) capacity * sizeof *order);
    if (!order) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the order of %d atoms", (int) graph->n_local);
    net->order = order;
    net->order_capacity = capacity;
  }
  net->n_rows = 0;
  for (int e = 0; e < net->n_elements; e++) {
    net->first[e] = net->n_rows;
    for (int32_t i = 0; i < graph->n_local && net->use[e]; i++)
      if (graph->species[i] == e) net->order[net->n_rows++] = i;
  }
  net->first[net->n_elements] = net->n_rows;
  const size_t bytes = (size_t) net->n_rows * sizeof *net->order;
  MLFF_TRY(mlff_buf_reserve(net->backend, &net->centers, bytes, error));
  MLFF_TRY(net->backend->ops->upload(net->backend, net->centers.data, net->order, bytes, error));
  net->list_id = graph->list_id;
  return MLFF_OK;
}

/* Rows of the largest block: those of an element, at most what the backend likes. */
static int64_t block_rows(const ani_net *net)
{
  int64_t most = 0;
  for (int e = 0; e < net->n_elements; e++)
    if (net->first[e + 1] - net->first[e] > most) most = net->first[e + 1] - net->first[e];
  const int64_t block = net->backend->ops->ani_block;
  return most < block ? most : block;
}

/* What does not depend on how the networks are taken. */
static mlff_status reserve_results(ani_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  mlff_backend *backend = net->backend;
  const size_t real_size = backend->real_size, n_members = (size_t) net->n_members;
  const size_t n_local = (size_t) in->graph->n_local;
  MLFF_TRY(mlff_buf_reserve(backend, &net->row_energy, (size_t) net->n_rows * n_members * real_size, error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->node_energy, n_local * real_size, error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->member_energy, n_local * n_members * real_size, error));
  return mlff_buf_reserve(backend, &net->edge_grad, (size_t) in->edges->n_room * 4 * real_size, error);
}

/* For one network after another. */
static mlff_status reserve_block(ani_net *net, mlff_error *error)
{
  mlff_backend *backend = net->backend;
  const size_t block = (size_t) (block_rows(net) + ROW_MULTIPLE) * backend->real_size;
  for (int l = 0; l + 1 < net->n_layers_max; l++) {
    MLFF_TRY(mlff_buf_reserve(backend, &net->hidden[l], block * (size_t) net->ld[l], error));
    MLFF_TRY(mlff_buf_reserve(backend, &net->slope[l], block * (size_t) net->ld[l], error));
  }
  MLFF_TRY(mlff_buf_reserve(backend, &net->aevs, block * (size_t) net->ld_aev, error));
  return mlff_buf_reserve(backend, &net->aev_grads, block * (size_t) net->ld_aev, error);
}

/* Energies of one member for n rows of AEVs, and dE/dAEV times `factor`: =, or += what other members have left. */
static void evaluate_member(ani_net *net, const ani_element *e, int member, int64_t n, double factor, int accumulate,
                            void *energy)
{
  mlff_backend *backend = net->backend;
  const mlff_ops *ops = backend->ops;
  const ani_network *network = &e->members[member];
  const int n_hidden = e->n_layers - 1;
  const ani_layer *following = member + 1 < net->n_members ? e->members[member + 1].layers : NULL;
  const int64_t ld_aev = net->ld_aev, ld_last = ani_pad(e->dims[n_hidden]);
  for (int l = 0; l < n_hidden; l++) { /* 1. h_l = celu(W_l h_{l-1} + b_l), h_{-1} = AEV */
    const int64_t ld_out = ani_pad(e->dims[l + 1]);
    ops->linear(backend, &network->layers[l].forward,
                &(mlff_linear_args){.n_rows = n,
                                    .x = l ? net->hidden[l - 1].data : net->aevs.data,
                                    .ldx = l ? ani_pad(e->dims[l]) : ld_aev,
                                    .y = net->hidden[l].data,
                                    .ldy = ld_out,
                                    .act = MLFF_ACT_CELU,
                                    .alpha = net->alpha,
                                    .slope = net->slope[l].data,
                                    .ld_slope = ld_out,
                                    .next = l + 1 < n_hidden ? &network->layers[l + 1].forward
                                                             : &network->layers[l].backward});
  }
  /* 2. E = w h + b;  reverse: dE/d(W h + b) of the last hidden layer, times 1/M because energies are means */
  ops->ani_readout(backend, &(mlff_ani_readout_args){.n_rows = n,
                                                     .n = e->dims[n_hidden],
                                                     .hidden = net->hidden[n_hidden - 1].data,
                                                     .ld_hidden = ld_last,
                                                     .slope = net->slope[n_hidden - 1].data,
                                                     .ld_slope = ld_last,
                                                     .weight = network->readout.data,
                                                     .bias = network->readout_bias,
                                                     .factor = factor,
                                                     .energy = energy});
  for (int l = n_hidden - 1; l >= 0; l--) { /* reverse of 1: slope[l] holds dE/d(W_l h_{l-1} + b_l) */
    const int64_t ld_in = l ? ani_pad(e->dims[l]) : ld_aev;
    ops->linear(backend, &network->layers[l].backward,
                &(mlff_linear_args){.n_rows = n,
                                    .x = net->slope[l].data,
                                    .ldx = ani_pad(e->dims[l + 1]),
                                    .y = l ? net->slope[l - 1].data : net->aev_grads.data,
                                    .ldy = ld_in,
                                    .accumulate = l == 0 && accumulate,
                                    .scale = l ? net->slope[l - 1].data : NULL,
                                    .ld_scale = ld_in,
                                    .next = l           ? &network->layers[l - 1].backward
                                            : following ? &following[0].forward
                                                        : NULL});
  }
}

/* Members that an evaluation runs. */
typedef struct member_range {
  int begin, end;
} member_range;

/* Rows first .. first+n-1 of one element. */
static mlff_status evaluate_block(ani_net *net, const mlff_edges *edges, member_range members, int element,
                                  int64_t first, int64_t n, mlff_error *error)
{
  mlff_backend *backend = net->backend;
  mlff_aev_args args = {.edges = edges,
                        .centers = (const int32_t *) net->centers.data + first,
                        .n_rows = n,
                        .rows = net->aevs.data,
                        .ld = net->ld_aev};
  MLFF_TRY(backend->ops->aev_forward(backend, &net->aev, &args, error));
  for (int m = members.begin; m < members.end; m++)
    evaluate_member(net, &net->elements[element], m, n, 1.0 / (members.end - members.begin), m > members.begin,
                    mlff_at(backend, net->row_energy.data, m * net->n_rows + first));
  args.rows = net->aev_grads.data;
  args.grad = net->edge_grad.data;
  return backend->ops->aev_backward(backend, &net->aev, &args, error);
}

/* One element after another, in blocks of rows, one member after another. */
static mlff_status evaluate_blocks(ani_net *net, const mlff_edges *edges, member_range members, mlff_error *error)
{
  MLFF_TRY(reserve_block(net, error));
  for (int e = 0; e < net->n_elements; e++) {
    const int64_t n = net->first[e + 1] - net->first[e], most = net->backend->ops->ani_block;
    const int64_t n_blocks = (n + most - 1) / most;
    int64_t size = n_blocks ? (n + n_blocks - 1) / n_blocks : 0; /* blocks of equal size, in whole tiles of `linear` */
    size = (size + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE;
    for (int64_t start = 0; start < n; start += size)
      MLFF_TRY(
          evaluate_block(net, edges, members, e, net->first[e] + start, n - start < size ? n - start : size, error));
  }
  return MLFF_OK;
}

static mlff_status evaluate(void *network, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error)
{
  ani_net *net = network;
  mlff_backend *backend = net->backend;
  const member_range members =
      in->single ? (member_range){in->member, in->member + 1} : (member_range){0, net->n_members};
  MLFF_TRY(order_atoms(net, in->graph, error));
  MLFF_TRY(reserve_results(net, in, error));
  if (backend->fuses)
    MLFF_TRY(ani_evaluate_many(net, in->edges, members.begin, members.end - members.begin, error));
  else
    MLFF_TRY(evaluate_blocks(net, in->edges, members, error));
  *out = (mlff_arch_outputs){.edge_grad = net->edge_grad.data};
  if (in->single) return MLFF_OK;
  backend->ops->ani_collect(backend, &(mlff_ani_collect_args){.n_members = net->n_members,
                                                              .n_rows = net->n_rows,
                                                              .n_local = in->graph->n_local,
                                                              .centers = net->centers.data,
                                                              .energy = net->row_energy.data,
                                                              .node = net->node_energy.data,
                                                              .member = net->member_energy.data});
  *out = (mlff_arch_outputs){.node_energy = net->node_energy.data,
                             .edge_grad = net->edge_grad.data,
                             .member_energy = net->n_members > 1 ? net->member_energy.data : NULL};
  return MLFF_OK;
}

/* ---- descriptor ------------------------------------------------------------------------------------------------------- */

static unsigned traits(const void *network)
{
  (void) network;
  return MLFF_CONSERVATIVE | MLFF_ROTATION_EXACT | MLFF_SMOOTH | MLFF_STRICTLY_LOCAL | MLFF_NODE_ENERGIES;
}

static int n_members(const void *network, int *of_file)
{
  const ani_net *net = network;
  *of_file = net->n_members_file;
  return net->n_members;
}

static int exchange_width(const void *network)
{
  (void) network;
  return 0;
}

const mlff_arch mlff_arch_ani = {
    .name = "ani",
    .citation = "J. S. Smith, O. Isayev, A. E. Roitberg, Chem. Sci. 8, 3192 (2017), doi:10.1039/C6SC05720A; "
                "C. Devereux et al., J. Chem. Theory Comput. 16, 4192 (2020), doi:10.1021/acs.jctc.0c00121",
    .traits = traits,
    .create = ani_create,
    .evaluate = evaluate,
    .n_members = n_members,
    .exchange_width = exchange_width,
    .destroy = ani_destroy,
};
