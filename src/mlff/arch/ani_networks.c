/* ani_networks.c: the networks of ANI, from AEVs to energies and dE/dAEV: fused, if the backend does that for few rows,
 * otherwise layer by layer in batched GEMMs.
 *
 * Activations are [n_members][rows of the batch][ld] with one ld for all elements.
 */
#include "ani.h"

#include <stdlib.h>

enum { MOST = 32 }; /* GEMMs per batch */

/* Rows of the batch of element e: returns their number; *begin: the first, relative to the batch. */
static int64_t rows_of(const ani_batch *b, int e, int64_t *begin)
{
  const int64_t *first = b->net->first, end = b->first + b->n;
  const int64_t from_row = first[e] > b->first ? first[e] : b->first, end_row = first[e + 1] < end ? first[e + 1] : end;
  *begin = from_row - b->first;
  return end_row > from_row ? end_row - from_row : 0;
}

/* Row `row` of evaluated member m in an array of activations. */
static void *row_of(const ani_batch *b, const mlff_buf *buf, int m, int64_t row, int64_t ld)
{
  return mlff_at(b->net->backend, buf->data, (m * b->n + row) * ld);
}

/* ---- whole networks ---------------------------------------------------------------------------------------------- */

static mlff_ani_network network_of(const ani_element *e, int member)
{
  const ani_network *source = &e->members[member];
  mlff_ani_network network = {.n_hidden = e->n_layers - 1,
                              .readout = source->readout.data,
                              .readout_bias = source->readout_bias};
  for (int l = 0; l < network.n_hidden; l++) {
    network.forward[l] = &source->layers[l].forward;
    network.backward[l] = &source->layers[l].backward;
  }
  return network;
}

mlff_status ani_setup_networks(ani_net *net, mlff_error *error)
{
  mlff_backend *backend = net->backend;
  if (!backend->ops->ani_networks_setup || net->n_layers_max - 1 > MLFF_ANI_MOST_HIDDEN) return MLFF_OK;
  mlff_ani_network *networks = malloc(((size_t) net->n_elements * (size_t) net->n_members + 1) * sizeof *networks);
  if (!networks) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %d ANI networks", net->n_members);
  int n = 0;
  for (int e = 0; e < net->n_elements; e++)
    for (int m = 0; net->use[e] && m < net->n_members; m++) networks[n++] = network_of(&net->elements[e], m);
  const mlff_status status = backend->ops->ani_networks_setup(backend, &net->networks, n, networks, error);
  free(networks);
  return status;
}

/* Steps 1 and 2 below and their reverse, fused for all networks of the batch; 0 if the backend does not do it. */
static int evaluate_whole(const ani_batch *b)
{
  const ani_net *net = b->net;
  mlff_backend *backend = net->backend;
  mlff_ani_rows groups[MLFF_ANI_MOST_GROUPS];
  int n_groups = 0, network = b->member_begin;
  if (!net->networks.n || !backend->ops->ani_networks || net->wanted) return 0;
  for (int e = 0; e < net->n_elements; e++) {
    int64_t row;
    const int64_t n = rows_of(b, e, &row);
    if (n && n_groups == MLFF_ANI_MOST_GROUPS) return 0;
    if (n) groups[n_groups++] = (mlff_ani_rows){.row = row, .n_rows = n, .network = network};
    network += net->use[e] ? net->n_members : 0;
  }
  void *energy = mlff_at(backend, net->row_energy.data, b->member_begin * net->n_rows + b->first);
  return backend->ops->ani_networks(backend, &net->networks,
                                    &(mlff_ani_networks_args){.n_groups = n_groups,
                                                              .n_members = b->n_members,
                                                              .groups = groups,
                                                              .n_rows = b->n,
                                                              .ld = net->ld_aev,
                                                              .ld_energy = net->n_rows,
                                                              .alpha = net->alpha,
                                                              .factor = b->factor,
                                                              .aevs = net->aevs.data,
                                                              .energy = energy,
                                                              .grads = net->aev_grads.data});
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef struct products {
  int n;
  const mlff_linear *linears[MOST];
  mlff_linear_args args[MOST];
} products;

static void hand_over(const ani_batch *b, products *p)
{
  if (p->n) b->net->backend->ops->linear_many(b->net->backend, p->n, p->linears, p->args);
  p->n = 0;
}

static void add(const ani_batch *b, products *p, const mlff_linear *linear, mlff_linear_args args)
{
  if (p->n == MOST) hand_over(b, p);
  p->linears[p->n] = linear;
  p->args[p->n++] = args;
}

/* 1. h_l = celu(W_l h_{l-1} + b_l), h_{-1} = AEV */
static void forward(const ani_batch *b, int l)
{
  const ani_net *net = b->net;
  const int64_t ld_in = l ? net->ld[l - 1] : net->ld_aev, ld_out = net->ld[l];
  products p;
  p.n = 0;
  for (int e = 0; e < net->n_elements; e++) {
    int64_t row;
    const int64_t n = rows_of(b, e, &row);
    const int n_hidden = net->elements[e].n_layers - 1;
    for (int m = 0; n && l < n_hidden && m < b->n_members; m++) {
      const ani_layer *layers = net->elements[e].members[b->member_begin + m].layers;
      add(b, &p, &layers[l].forward,
          (mlff_linear_args){.n_rows = n,
                             .x = l ? row_of(b, &net->hidden[l - 1], m, row, ld_in)
                                    : row_of(b, &net->aevs, 0, row, ld_in),
                             .ldx = ld_in,
                             .y = row_of(b, &net->hidden[l], m, row, ld_out),
                             .ldy = ld_out,
                             .act = MLFF_ACT_CELU,
                             .alpha = net->alpha,
                             .next = l + 1 < n_hidden ? &layers[l + 1].forward : &layers[l].backward});
    }
  }
  hand_over(b, &p);
}

/* 2. E = w h + b;  reverse: dE/d(W h + b) of the last hidden layer, times 1/M because energies are means */
static void read_out(const ani_batch *b)
{
  const ani_net *net = b->net;
  const mlff_ops *ops = net->backend->ops;
  mlff_ani_readout_args args[MOST];
  int n_args = 0;
  for (int e = 0; e < net->n_elements; e++) {
    int64_t row;
    const int64_t n = rows_of(b, e, &row);
    const int last = net->elements[e].n_layers - 2;
    for (int m = 0; n && m < b->n_members; m++) {
      const int member = b->member_begin + m;
      const ani_network *network = &net->elements[e].members[member];
      if (n_args == MOST) {
        ops->ani_readout(net->backend, n_args, args);
        n_args = 0;
      }
      args[n_args++] = (mlff_ani_readout_args){.n_rows = n,
                                               .n = net->elements[e].dims[last + 1],
                                               .hidden = row_of(b, &net->hidden[last], m, row, net->ld[last]),
                                               .ld_hidden = net->ld[last],
                                               .alpha = net->alpha,
                                               .weight = network->readout.data,
                                               .bias = network->readout_bias,
                                               .factor = b->factor,
                                               .energy = mlff_at(net->backend, net->row_energy.data,
                                                                 member * net->n_rows + b->first + row)};
    }
  }
  if (n_args) ops->ani_readout(net->backend, n_args, args);
}

/* Features of the last hidden layer of the first member. */
static void take_features(const ani_batch *b)
{
  const ani_net *net = b->net;
  if (!net->wanted || b->member_begin) return;
  for (int e = 0; e < net->n_elements; e++) {
    int64_t row;
    const int64_t n = rows_of(b, e, &row);
    const int last = net->elements[e].n_layers - 2;
    const mlff_last_features_args args = {.last = net->wanted,
                                          .n = n,
                                          .width = net->elements[e].dims[last + 1],
                                          .ld = net->ld[last],
                                          .atoms = (const int32_t *) net->centers.data + b->first + row,
                                          .center_species = b->edges->center_species.data,
                                          .features = row_of(b, &net->hidden[last], 0, row, net->ld[last])};
    if (n) net->backend->ops->last_features(net->backend, &args);
  }
}

/* reverse of 1: hidden[l] becomes dE/d(W_l h_{l-1} + b_l); the slope of CELU follows from its value */
static void backward(const ani_batch *b, int l)
{
  const ani_net *net = b->net;
  const int64_t ld_out = net->ld[l], ld_in = l ? net->ld[l - 1] : net->ld_aev;
  products p;
  p.n = 0;
  for (int e = 0; e < net->n_elements; e++) {
    int64_t row;
    const int64_t n = rows_of(b, e, &row);
    for (int m = 0; n && l + 1 < net->elements[e].n_layers && m < b->n_members; m++) {
      const int member = b->member_begin + m;
      const ani_network *network = &net->elements[e].members[member];
      void *below = l ? row_of(b, &net->hidden[l - 1], m, row, ld_in) : NULL;
      add(b, &p, &network->layers[l].backward,
          (mlff_linear_args){.n_rows = n,
                             .x = row_of(b, &net->hidden[l], m, row, ld_out),
                             .ldx = ld_out,
                             .y = l ? below : row_of(b, &net->aev_grads, m, row, ld_in),
                             .ldy = ld_in,
                             .accumulate = l == 0 && b->accumulate,
                             .act = l ? MLFF_ACT_CELU : MLFF_ACT_NONE,
                             .alpha = net->alpha,
                             .scale = below,
                             .ld_scale = ld_in,
                             .next = l                             ? &network->layers[l - 1].backward
                                     : member + 1 < net->n_members ? &network[1].layers[0].forward
                                                                   : NULL});
    }
  }
  hand_over(b, &p);
}

mlff_status ani_evaluate_networks(const ani_batch *b, mlff_error *error)
{
  ani_net *net = b->net;
  const size_t room = (size_t) (b->room * b->n_members) * net->backend->real_size;
  if (evaluate_whole(b)) return MLFF_OK;
  for (int l = 0; l + 1 < net->n_layers_max; l++)
    MLFF_TRY(mlff_buf_reserve(net->backend, &net->hidden[l], room * (size_t) net->ld[l], error));
  for (int l = 0; l + 1 < net->n_layers_max; l++) forward(b, l);
  take_features(b);
  read_out(b);
  for (int l = net->n_layers_max - 2; l >= 0; l--) backward(b, l);
  return MLFF_OK;
}
