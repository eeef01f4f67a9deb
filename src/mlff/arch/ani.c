/* ani.c: ANI, an ensemble of element-wise networks on atomic environment vectors.
 *
 *   E = sum_i (1/M) sum_m NN_{m, element(i)}(AEV_i)
 *   NN: linear layers with CELU between them, the last one has a single output.
 * Smith, Isayev, Roitberg, Chem. Sci. 8, 3192 (2017); Devereux et al., J. Chem. Theory Comput. 16, 4192 (2020)
 * (ANI-2x). The AEV and its constants: backend/ops_ani.h.
 *
 * Only columns and networks of elements in use are loaded; the columns of absent elements are exactly zero. Centers are
 * sorted by element and evaluated in batches: AEVs, then the networks forward and backward, then the gradients of the
 * AEVs from dE/dAEV summed over members. The backend chooses (ani_members) whether networks are evaluated one by one,
 * so that activations of a batch and weights of a network stay in cache, or all in one batch.
 */
#include "ani.h"

#include "../graph/graph.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_MULTIPLE = 6 };

static mlff_status check_species(const ani_net *net, const mlff_graph *graph, mlff_error *error)
{
  char name[MLFF_NAME];
  for (int32_t a = 0; a < graph->n_all; a++) {
    const int32_t s = graph->species[a];
    if (s >= net->n_elements || (s >= 0 && !net->use[s]))
      return mlff_fail(
          error, MLFF_E_ARG,
          "%s is of species %d, but the model was opened without that element; list all elements that can occur",
          mlff_atom_name(graph, a, name), (int) s);
  }
  return MLFF_OK;
}

/* Sorts owned atoms by element when the list changes. */
static mlff_status order_atoms(ani_net *net, const mlff_graph *graph, mlff_error *error)
{
  if (net->list_id == graph->list_id && graph->list_id != 0) return MLFF_OK;
  net->list_id = 0;
  MLFF_TRY(check_species(net, graph, error));
  if (graph->n_local > net->order_capacity) {
    const int32_t capacity = graph->n_local + graph->n_local / 4;
    int32_t *order = realloc(net->order, (size_t) capacity * sizeof *order);
    if (!order)
      return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the block order of %d atoms", (int) graph->n_local);
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
  int64_t last = net->n_rows;
  for (int32_t i = 0; i < graph->n_local; i++) /* then atoms without a row: ani_collect */
    if (graph->species[i] < 0 || !net->use[graph->species[i]]) net->order[last++] = i;
  const size_t bytes = (size_t) graph->n_local * sizeof *net->order;
  MLFF_TRY(mlff_buf_reserve(net->backend, &net->centers, bytes, error));
  MLFF_TRY(net->backend->ops->upload(net->backend, net->centers.data, net->order, bytes, error));
  net->list_id = graph->list_id;
  return MLFF_OK;
}

static int takes_all_networks(const ani_net *net)
{
  return net->backend->ops->ani_members > 1;
}

/* Rows of the largest batch. Networks one by one: rows of an element, at most ani_block. All in one batch: the kernels
 * of the descriptor need thousands of rows, and activations of all members are stored. */
static int64_t most_rows(const ani_net *net)
{
  const int64_t block = net->backend->ops->ani_block;
  int64_t longest = 0;
  if (takes_all_networks(net)) {
    const int64_t most = 4 * block / net->n_members;
    return net->n_rows < most ? net->n_rows : most > 1 ? most : 1;
  }
  for (int e = 0; e < net->n_elements; e++)
    if (net->first[e + 1] - net->first[e] > longest) longest = net->first[e + 1] - net->first[e];
  return (longest < block ? longest : block) + ROW_MULTIPLE;
}

/* Rows of the batch that begins at row `first`. Networks one by one: of one element, in batches of equal size, which
 * are whole tiles of `linear`. */
static int64_t rows_from(const ani_net *net, int64_t first)
{
  const int64_t block = net->backend->ops->ani_block;
  int e = 0;
  if (takes_all_networks(net)) {
    const int64_t size = most_rows(net), left = net->n_rows - first;
    return left < size ? left : size;
  }
  while (net->first[e + 1] <= first) e++;
  const int64_t n = net->first[e + 1] - net->first[e], left = net->first[e + 1] - first;
  const int64_t n_batches = (n + block - 1) / block;
  const int64_t size = ((n + n_batches - 1) / n_batches + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE;
  return left < size ? left : size;
}

static mlff_status reserve(ani_net *net, const mlff_arch_inputs *in, mlff_error *error)
{
  mlff_backend *backend = net->backend;
  const size_t real_size = backend->real_size, n_members = (size_t) net->n_members;
  const size_t n_local = (size_t) in->graph->n_local, batch = (size_t) (most_rows(net) * net->ld_aev) * real_size;
  MLFF_TRY(mlff_buf_reserve(backend, &net->row_energy, (size_t) net->n_rows * n_members * real_size, error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->node_energy, n_local * real_size, error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->member_energy, n_local * n_members * real_size, error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->edge_grad, (size_t) in->edges->n_room * 4 * real_size, error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->aevs, batch, error));
  return mlff_buf_reserve(backend, &net->aev_grads, takes_all_networks(net) ? batch * n_members : batch, error);
}

/* One member after another, each adding to the gradients. */
static mlff_status evaluate_one_by_one(ani_batch b, mlff_error *error)
{
  const int end = b.member_begin + b.n_members;
  for (b.n_members = 1; b.member_begin < end; b.member_begin++, b.accumulate = 1)
    MLFF_TRY(ani_evaluate_networks(&b, error));
  return MLFF_OK;
}

static mlff_status evaluate_batch(ani_batch b, const mlff_edges *edges, mlff_error *error)
{
  ani_net *net = b.net;
  const mlff_ops *ops = net->backend->ops;
  mlff_aev_args args = {.edges = edges,
                        .centers = (const int32_t *) net->centers.data + b.first,
                        .n_rows = b.n,
                        .rows = net->aevs.data,
                        .ld = net->ld_aev};
  MLFF_TRY(ops->aev_forward(net->backend, &net->aev, &args, error));
  const int at_once = takes_all_networks(net);
  MLFF_TRY(at_once ? ani_evaluate_networks(&b, error) : evaluate_one_by_one(b, error));
  args.n_parts = at_once ? b.n_members : 1; /* in one batch, networks do not sum their gradients */
  args.rows = net->aev_grads.data;
  args.grad = net->edge_grad.data;
  return ops->aev_backward(net->backend, &net->aev, &args, error);
}

static mlff_status evaluate(void *network, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error)
{
  ani_net *net = network;
  mlff_backend *backend = net->backend;
  ani_batch b = {.net = net,
                 .edges = in->edges,
                 .member_begin = in->single ? in->member : 0,
                 .n_members = in->single ? 1 : net->n_members};
  b.factor = 1.0 / b.n_members;
  net->wanted = in->single ? NULL : in->last;
  MLFF_TRY(order_atoms(net, in->graph, error));
  MLFF_TRY(reserve(net, in, error));
  b.room = most_rows(net);
  for (; b.first < net->n_rows; b.first += b.n) {
    b.n = rows_from(net, b.first);
    MLFF_TRY(evaluate_batch(b, in->edges, error));
  }
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

/* ---- descriptor -------------------------------------------------------------------------------------------------- */

static unsigned traits(const void *network)
{
  (void) network;
  return MLFF_CONSERVATIVE | MLFF_ROTATION_EXACT | MLFF_INVERSION_EXACT | MLFF_SMOOTH | MLFF_STRICTLY_LOCAL |
         MLFF_NODE_ENERGIES;
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

/* The widest last hidden layer of all elements. */
static int n_features(const void *network)
{
  const ani_net *net = network;
  int widest = 0;
  for (int e = 0; e < net->n_elements; e++) {
    const ani_element *element = &net->elements[e];
    if (element->n_layers && element->dims[element->n_layers - 1] > widest)
      widest = element->dims[element->n_layers - 1];
  }
  return widest;
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
    .n_features = n_features,
    .destroy = ani_destroy,
};
