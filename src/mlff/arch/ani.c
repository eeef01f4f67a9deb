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
 * in cache.
 */
#include "../model/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 16, MAX_WIDTH = 65536, ROW_MULTIPLE = 6, PAD = 16 };

typedef struct ani_layer {
  mlff_linear forward, backward;
} ani_layer;

/* One network: n_layers - 1 hidden layers and the readout. */
typedef struct ani_network {
  ani_layer *layers; /* [n_layers-1] */
  mlff_buf readout;  /* real [width of the last hidden layer] */
  double readout_bias;
} ani_network;

typedef struct ani_element {
  int n_layers;             /* 0 = not in use */
  int dims[MAX_LAYERS + 1]; /* of the file; dims[0] = columns of the full AEV */
  ani_network *members;     /* [n_members] */
} ani_element;

typedef struct ani {
  mlff_backend *backend;
  int n_elements, n_members;
  int *use;              /* [n_elements] */
  ani_element *elements; /* [n_elements] */
  double alpha;          /* of CELU */
  mlff_aev aev;
  mlff_aev_constants constants; /* its pointers are borrowed from the file and only valid while creating */
  int n_columns_file, n_layers_max;
  int32_t *columns; /* [aev.n_columns] column of the file's AEV */

  uint64_t list_id; /* of the graph that the order belongs to */
  int32_t *order;   /* [n_rows] owned atoms by element */
  int32_t order_capacity;
  int64_t n_rows, *first; /* first[element], [n_elements+1] */
  mlff_buf centers;       /* order on the backend */
  mlff_buf aevs, aev_grads, hidden[MAX_LAYERS], slope[MAX_LAYERS];
  mlff_buf row_energy, node_energy, member_energy, edge_grad;
} ani;

static int64_t pad(int64_t n)
{
  return (n + PAD - 1) / PAD * PAD;
}

/* ---- reading the file ----------------------------------------------------------------------------------------------- */

static mlff_status read_shifts(const mlff_modelfile *file, const mlff_yaml *map, const char *key, int *n,
                               const double **values, mlff_error *error)
{
  MLFF_TRY(mlff_yaml_doubles(file, map, key, -1, values, n, error));
  if (*n < 1 || *n > 4096) return mlff_yaml_fail(file, map, error, "%s: 1 to 4096 numbers expected, found %d", key, *n);
  return MLFF_OK;
}

static mlff_status read_aev(const mlff_modelfile *file, const mlff_yaml *block, mlff_aev_constants *c,
                            mlff_error *error)
{
  const double cutoff = mlff_modelfile_get_head(file)->cutoff;
  const mlff_yaml *radial = NULL, *angular = NULL;
  MLFF_TRY(mlff_yaml_map(file, block, "radial", &radial, error));
  MLFF_TRY(mlff_yaml_double(file, radial, "cutoff", 1e-3, cutoff, &c->radial_cutoff, error));
  MLFF_TRY(mlff_yaml_double(file, radial, "eta", 0.0, 1e6, &c->radial_eta, error));
  MLFF_TRY(mlff_yaml_double(file, radial, "prefactor", -1e6, 1e6, &c->radial_prefactor, error));
  MLFF_TRY(read_shifts(file, radial, "shifts", &c->n_radial, &c->radial_shifts, error));
  MLFF_TRY(mlff_yaml_map(file, block, "angular", &angular, error));
  MLFF_TRY(mlff_yaml_double(file, angular, "cutoff", 1e-3, cutoff, &c->angular_cutoff, error));
  MLFF_TRY(mlff_yaml_double(file, angular, "eta", 0.0, 1e6, &c->angular_eta, error));
  MLFF_TRY(mlff_yaml_double(file, angular, "zeta", 1.0, 1e4, &c->angular_zeta, error));
  MLFF_TRY(mlff_yaml_double(file, angular, "cos_scale", 1e-3, 0.9999, &c->cos_scale, error));
  MLFF_TRY(mlff_yaml_double(file, angular, "prefactor", -1e6, 1e6, &c->angular_prefactor, error));
  MLFF_TRY(read_shifts(file, angular, "shifts", &c->n_angular, &c->angular_shifts, error));
  return read_shifts(file, angular, "sections", &c->n_sections, &c->angular_sections, error);
}

static mlff_status read_dims(const mlff_modelfile *file, const mlff_yaml *dims, const char *element, int n_columns,
                             ani_element *e, mlff_error *error)
{
  const double *values = NULL;
  int n = 0;
  MLFF_TRY(mlff_yaml_doubles(file, dims, element, -1, &values, &n, error));
  if (n < 3 || n > MAX_LAYERS + 1)
    return mlff_yaml_fail(file, dims, error, "dims of %s: 3 to %d widths expected (input, hidden layers, 1), found %d",
                          element, MAX_LAYERS + 1, n);
  for (int k = 0; k < n; k++) {
    if (!(values[k] >= 1 && values[k] <= MAX_WIDTH && values[k] == floor(values[k])))
      return mlff_yaml_fail(file, dims, error, "dims of %s: width %g is not a whole number from 1 to %d", element,
                            values[k], MAX_WIDTH);
    e->dims[k] = (int) values[k];
  }
  e->n_layers = n - 1;
  if (e->dims[0] != n_columns)
    return mlff_yaml_fail(file, dims, error,
                          "dims of %s: the first width is %d, but radial and angular give %d AEV columns", element,
                          e->dims[0], n_columns);
  if (e->dims[n - 1] != 1)
    return mlff_yaml_fail(file, dims, error, "dims of %s: the last width must be 1, found %d", element, e->dims[n - 1]);
  return MLFF_OK;
}

static mlff_status read_block(ani *net, const mlff_modelfile *file, mlff_error *error)
{
  static const char *const constant_sets[] = {"float32-rounded", "exact", NULL}, *const activations[] = {"celu", NULL};
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  const mlff_yaml *block = NULL, *activation = NULL, *dims = NULL;
  int choice = 0;
  MLFF_TRY(mlff_yaml_map(file, mlff_modelfile_root(file), "ani", &block, error));
  MLFF_TRY(mlff_yaml_int(file, block, "n_members", 1, 1024, &net->n_members, error));
  MLFF_TRY(
      mlff_yaml_choice(file, block, "constants", constant_sets, &choice, error)); /* the numbers themselves say it */
  MLFF_TRY(mlff_yaml_map(file, block, "activation", &activation, error));
  MLFF_TRY(mlff_yaml_choice(file, activation, "kind", activations, &choice, error));
  MLFF_TRY(mlff_yaml_double(file, activation, "alpha", 1e-3, 1e3, &net->alpha, error));
  MLFF_TRY(read_aev(file, block, &net->constants, error));

  const mlff_aev_constants *c = &net->constants;
  const int64_t s = head->n_elements;
  const int64_t n_columns = s * c->n_radial + s * (s + 1) / 2 * c->n_angular * c->n_sections;
  if (n_columns > MAX_WIDTH * 16)
    return mlff_yaml_fail(file, block, error, "radial and angular give %lld AEV columns; at most %d are supported",
                          (long long) n_columns, MAX_WIDTH * 16);
  net->n_columns_file = (int) n_columns;
  MLFF_TRY(mlff_yaml_map(file, block, "dims", &dims, error));
  for (int e = 0; e < net->n_elements; e++) {
    MLFF_TRY(read_dims(file, dims, head->elements[e], net->n_columns_file, &net->elements[e], error));
    if (net->elements[e].n_layers > net->n_layers_max) net->n_layers_max = net->elements[e].n_layers;
  }
  return MLFF_OK;
}

/* ---- networks --------------------------------------------------------------------------------------------------------- */

/* columns[c] = column of the file's AEV that compact column c is; layout of both: ops_ani.h. */
static void map_columns(ani *net)
{
  const mlff_aev_constants *c = &net->constants;
  const int n_block = c->n_angular * c->n_sections;
  int32_t *column = net->columns;
  for (int s = 0; s < net->n_elements; s++)
    for (int k = 0; k < c->n_radial && net->use[s]; k++) *column++ = s * c->n_radial + k;
  int block = net->n_elements * c->n_radial;
  for (int s = 0; s < net->n_elements; s++)
    for (int t = s; t < net->n_elements; t++, block += n_block)
      for (int k = 0; k < n_block && net->use[s] && net->use[t]; k++) *column++ = block + k;
}

/* Keeps the columns of the first layer's weights that are in use. */
static mlff_status prune(const ani *net, int n_out, double **weight, mlff_error *error)
{
  const size_t n = (size_t) net->aev.n_columns;
  double *pruned = malloc(n * (size_t) n_out * sizeof *pruned);
  if (!pruned) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for ANI weights");
  for (size_t row = 0; row < (size_t) n_out; row++)
    for (size_t c = 0; c < n; c++)
      pruned[row * n + c] = (*weight)[row * (size_t) net->n_columns_file + (size_t) net->columns[c]];
  free(*weight);
  *weight = pruned;
  return MLFF_OK;
}

/* Packs one layer for use; weight may be replaced by its pruned form. */
static mlff_status pack_layer(ani *net, const ani_element *e, ani_network *network, int layer, double **weight,
                              const double *bias, mlff_error *error)
{
  mlff_backend *backend = net->backend;
  const int n_out = e->dims[layer + 1];
  int n_in = e->dims[layer];
  if (layer == e->n_layers - 1) {
    network->readout_bias = bias[0];
    MLFF_TRY(mlff_buf_reserve(backend, &network->readout, (size_t) n_in * backend->real_size, error));
    return backend->ops->upload_reals(backend, network->readout.data, *weight, n_in, error);
  }
  if (layer == 0) {
    MLFF_TRY(prune(net, n_out, weight, error));
    n_in = net->aev.n_columns;
  }
  ani_layer *l = &network->layers[layer];
  MLFF_TRY(backend->ops->linear_pack(backend, &l->forward, *weight, bias, n_out, n_in, 0, error));
  return backend->ops->linear_pack(backend, &l->backward, *weight, NULL, n_out, n_in, 1, error);
}

/* Reads a layer of the file; networks of elements that are not in use are checked and dropped. */
static mlff_status load_layer(ani *net, const mlff_modelfile *file, int element, int member, int layer,
                              mlff_error *error)
{
  ani_element *e = &net->elements[element];
  const int64_t shape[2] = {e->dims[layer + 1], e->dims[layer]};
  const char *symbol = mlff_modelfile_get_head(file)->elements[element];
  char name[96];
  double *weight = NULL, *bias = NULL;
  snprintf(name, sizeof name, "member.%d.%s.%d.weight", member, symbol, layer);
  mlff_status status = mlff_modelfile_tensor(file, name, 2, shape, &weight, error);
  snprintf(name, sizeof name, "member.%d.%s.%d.bias", member, symbol, layer);
  if (!status) status = mlff_modelfile_tensor(file, name, 1, shape, &bias, error);
  if (!status && net->use[element]) status = pack_layer(net, e, &e->members[member], layer, &weight, bias, error);
  free(weight);
  free(bias);
  return status;
}

static mlff_status load_element(ani *net, const mlff_modelfile *file, int element, mlff_error *error)
{
  ani_element *e = &net->elements[element];
  if (net->use[element]) {
    e->members = calloc((size_t) net->n_members, sizeof *e->members);
    if (!e->members) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for ANI networks");
    for (int m = 0; m < net->n_members; m++) {
      e->members[m].layers = calloc((size_t) e->n_layers, sizeof *e->members[m].layers);
      if (!e->members[m].layers) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for ANI networks");
    }
  }
  for (int m = 0; m < net->n_members; m++)
    for (int l = 0; l < e->n_layers; l++) MLFF_TRY(load_layer(net, file, element, m, l, error));
  return MLFF_OK;
}

static void destroy(void *network)
{
  ani *net = network;
  if (!net) return;
  mlff_backend *backend = net->backend;
  for (int e = 0; net->elements && e < net->n_elements; e++) {
    for (int m = 0; net->elements[e].members && m < net->n_members; m++) {
      ani_network *member = &net->elements[e].members[m];
      for (int l = 0; member->layers && l < net->elements[e].n_layers; l++) {
        mlff_linear_release(backend, &member->layers[l].forward);
        mlff_linear_release(backend, &member->layers[l].backward);
      }
      free(member->layers);
      mlff_buf_release(backend, &member->readout);
    }
    free(net->elements[e].members);
  }
  for (int l = 0; l < MAX_LAYERS; l++) {
    mlff_buf_release(backend, &net->hidden[l]);
    mlff_buf_release(backend, &net->slope[l]);
  }
  mlff_buf *const bufs[] = {&net->centers,     &net->aevs,          &net->aev_grads, &net->row_energy,
                            &net->node_energy, &net->member_energy, &net->edge_grad};
  for (size_t k = 0; k < sizeof bufs / sizeof bufs[0]; k++) mlff_buf_release(backend, bufs[k]);
  mlff_aev_release(backend, &net->aev);
  free(net->use);
  free(net->elements);
  free(net->columns);
  free(net->order);
  free(net->first);
  free(net);
}

static mlff_status build(ani *net, const mlff_modelfile *file, const mlff_species_use *use, mlff_error *error)
{
  net->n_elements = mlff_modelfile_get_head(file)->n_elements;
  const size_t n = (size_t) net->n_elements;
  net->use = calloc(n, sizeof *net->use);
  net->elements = calloc(n, sizeof *net->elements);
  net->first = calloc(n + 1, sizeof *net->first);
  if (!net->use || !net->elements || !net->first)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for an ANI model");
  for (int s = 0; s < net->n_elements; s++) net->use[s] = !use || !use->use || (s < use->n_species && use->use[s]);
  MLFF_TRY(read_block(net, file, error));
  MLFF_TRY(
      net->backend->ops->ani.aev_setup(net->backend, &net->aev, &net->constants, net->n_elements, net->use, error));
  net->columns = malloc(((size_t) net->aev.n_columns + 1) * sizeof *net->columns);
  if (!net->columns) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for an ANI model");
  map_columns(net);
  for (int e = 0; e < net->n_elements; e++) MLFF_TRY(load_element(net, file, e, error));
  return MLFF_OK;
}

static mlff_status create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **out,
                          mlff_error *error)
{
  ani *net = calloc(1, sizeof *net);
  if (!net) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for an ANI model");
  net->backend = backend;
  const mlff_status status = build(net, file, use, error);
  if (status) {
    destroy(net);
    return status;
  }
  *out = net;
  return MLFF_OK;
}

/* ---- evaluation ------------------------------------------------------------------------------------------------------- */

static mlff_status check_species(const ani *net, const mlff_graph *graph, mlff_error *error)
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
static mlff_status order_atoms(ani *net, const mlff_graph *graph, mlff_error *error)
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
static int64_t block_rows(const ani *net)
{
  int64_t most = 0;
  for (int e = 0; e < net->n_elements; e++)
    if (net->first[e + 1] - net->first[e] > most) most = net->first[e + 1] - net->first[e];
  const int64_t block = net->backend->ops->ani.block;
  return most < block ? most : block;
}

static mlff_status reserve(ani *net, const mlff_arch_inputs *in, mlff_error *error)
{
  mlff_backend *backend = net->backend;
  const size_t real_size = backend->real_size, block = (size_t) (block_rows(net) + ROW_MULTIPLE) * real_size;
  const size_t n_members = (size_t) net->n_members, n_local = (size_t) in->graph->n_local;
  for (int l = 0; l + 1 < net->n_layers_max; l++) {
    int64_t width = 0;
    for (int e = 0; e < net->n_elements; e++)
      if (net->use[e] && l + 1 < net->elements[e].n_layers && net->elements[e].dims[l + 1] > width)
        width = net->elements[e].dims[l + 1];
    MLFF_TRY(mlff_buf_reserve(backend, &net->hidden[l], block * (size_t) pad(width), error));
    MLFF_TRY(mlff_buf_reserve(backend, &net->slope[l], block * (size_t) pad(width), error));
  }
  MLFF_TRY(mlff_buf_reserve(backend, &net->aevs, block * (size_t) pad(net->aev.n_columns), error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->aev_grads, block * (size_t) pad(net->aev.n_columns), error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->row_energy, (size_t) net->n_rows * n_members * real_size, error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->node_energy, n_local * real_size, error));
  MLFF_TRY(mlff_buf_reserve(backend, &net->member_energy, n_local * n_members * real_size, error));
  return mlff_buf_reserve(backend, &net->edge_grad, (size_t) in->edges->n_edges * 4 * real_size, error);
}

/* Energies of one member for n rows of AEVs, and dE/dAEV: = for the first member, += for the others. */
static void evaluate_member(ani *net, const ani_element *e, int member, int64_t n, void *energy)
{
  mlff_backend *backend = net->backend;
  const mlff_ops *ops = backend->ops;
  const ani_network *network = &e->members[member];
  const int n_hidden = e->n_layers - 1;
  const ani_layer *following = member + 1 < net->n_members ? e->members[member + 1].layers : NULL;
  const int64_t ld_aev = pad(net->aev.n_columns), ld_last = pad(e->dims[n_hidden]);
  for (int l = 0; l < n_hidden; l++) { /* 1. h_l = celu(W_l h_{l-1} + b_l), h_{-1} = AEV */
    const int64_t ld_out = pad(e->dims[l + 1]);
    ops->linear(backend, &network->layers[l].forward,
                &(mlff_linear_args){.n_rows = n,
                                    .x = l ? net->hidden[l - 1].data : net->aevs.data,
                                    .ldx = l ? pad(e->dims[l]) : ld_aev,
                                    .y = net->hidden[l].data,
                                    .ldy = ld_out,
                                    .act = MLFF_ACT_CELU,
                                    .alpha = net->alpha,
                                    .slope = net->slope[l].data,
                                    .ld_slope = ld_out,
                                    .next = l + 1 < n_hidden ? &network->layers[l + 1].forward
                                                             : &network->layers[l].backward});
  }
  /* 2. E = w h + b;  reverse: dE/d(W h + b) of the last hidden layer, over M because energies are means */
  ops->ani.readout(backend, &(mlff_ani_readout_args){.n_rows = n,
                                                     .n = e->dims[n_hidden],
                                                     .hidden = net->hidden[n_hidden - 1].data,
                                                     .ld_hidden = ld_last,
                                                     .slope = net->slope[n_hidden - 1].data,
                                                     .ld_slope = ld_last,
                                                     .weight = network->readout.data,
                                                     .bias = network->readout_bias,
                                                     .factor = 1.0 / net->n_members,
                                                     .energy = energy});
  for (int l = n_hidden - 1; l >= 0; l--) { /* reverse of 1: slope[l] holds dE/d(W_l h_{l-1} + b_l) */
    const int64_t ld_in = l ? pad(e->dims[l]) : ld_aev;
    ops->linear(backend, &network->layers[l].backward,
                &(mlff_linear_args){.n_rows = n,
                                    .x = net->slope[l].data,
                                    .ldx = pad(e->dims[l + 1]),
                                    .y = l ? net->slope[l - 1].data : net->aev_grads.data,
                                    .ldy = ld_in,
                                    .accumulate = l == 0 && member > 0,
                                    .scale = l ? net->slope[l - 1].data : NULL,
                                    .ld_scale = ld_in,
                                    .next = l           ? &network->layers[l - 1].backward
                                            : following ? &following[0].forward
                                                        : NULL});
  }
}

/* Rows first .. first+n-1 of one element. */
static mlff_status evaluate_block(ani *net, const mlff_edges *edges, int element, int64_t first, int64_t n,
                                  mlff_error *error)
{
  mlff_backend *backend = net->backend;
  mlff_aev_args args = {.edges = edges,
                        .centers = (const int32_t *) net->centers.data + first,
                        .n_rows = n,
                        .rows = net->aevs.data,
                        .ld = pad(net->aev.n_columns)};
  MLFF_TRY(backend->ops->ani.aev_forward(backend, &net->aev, &args, error));
  for (int m = 0; m < net->n_members; m++)
    evaluate_member(net, &net->elements[element], m, n,
                    mlff_at(backend, net->row_energy.data, m * net->n_rows + first));
  args.rows = net->aev_grads.data;
  args.grad = net->edge_grad.data;
  return backend->ops->ani.aev_backward(backend, &net->aev, &args, error);
}

static mlff_status evaluate(void *network, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error)
{
  ani *net = network;
  mlff_backend *backend = net->backend;
  MLFF_TRY(order_atoms(net, in->graph, error));
  MLFF_TRY(reserve(net, in, error));
  for (int e = 0; e < net->n_elements; e++) {
    const int64_t n = net->first[e + 1] - net->first[e], most = backend->ops->ani.block;
    const int64_t n_blocks = (n + most - 1) / most;
    int64_t size = n_blocks ? (n + n_blocks - 1) / n_blocks : 0; /* blocks of equal size, in whole tiles of `linear` */
    size = (size + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE;
    for (int64_t start = 0; start < n; start += size)
      MLFF_TRY(evaluate_block(net, in->edges, e, net->first[e] + start, n - start < size ? n - start : size, error));
  }
  backend->ops->ani.collect(backend, &(mlff_ani_collect_args){.n_members = net->n_members,
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

static int n_members(const void *network)
{
  return ((const ani *) network)->n_members;
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
    .create = create,
    .evaluate = evaluate,
    .n_members = n_members,
    .exchange_width = exchange_width,
    .destroy = destroy,
};
