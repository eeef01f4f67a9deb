/* ani_load.c: an ANI network from its model file.
 *
 * Only columns and networks of elements in use are loaded; the columns of absent elements are exactly zero.
 */
#include "ani.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WIDTH = 65536, ANI_MAX_MEMBERS = 1024 };

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
  if (n < 3 || n > ANI_MAX_LAYERS + 1)
    return mlff_yaml_fail(file, dims, error, "dims of %s: 3 to %d widths expected (input, hidden layers, 1), found %d",
                          element, ANI_MAX_LAYERS + 1, n);
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

static mlff_status read_block(ani_net *net, const mlff_modelfile *file, mlff_error *error)
{
  static const char *const constant_sets[] = {"float32-rounded", "exact", NULL}, *const activations[] = {"celu", NULL};
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  const mlff_yaml *block = NULL, *activation = NULL, *dims = NULL;
  int choice = 0;
  MLFF_TRY(mlff_yaml_map(file, mlff_modelfile_root(file), "ani", &block, error));
  MLFF_TRY(mlff_yaml_int(file, block, "n_members", 1, ANI_MAX_MEMBERS, &net->n_members_file, error));
  MLFF_TRY(mlff_yaml_choice(file, block, "constants", constant_sets, &choice, error)); /* implied by the constants */
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

/* ---- networks ---------------------------------------------------------------------------------------------------- */

/* columns[c] = column of the file's AEV for compact column c; layout of both: ops_ani.h. */
static void map_columns(ani_net *net)
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

/* Removes the columns of the first layer's weights that are not in use. */
static mlff_status prune(const ani_net *net, int n_out, double **weight, mlff_error *error)
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

/* Packs one layer; weight may be replaced by its pruned form. */
static mlff_status pack_layer(ani_net *net, const ani_element *e, ani_network *network, int layer, double **weight,
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
  return mlff_linear_make(backend, &l->forward, &l->backward, *weight, bias, n_out, n_in, error);
}

/* Reads a layer of the file. Networks of elements and members that are not in use (`place` is NULL) are checked and
 * dropped. */
static mlff_status load_layer(ani_net *net, const mlff_modelfile *file, int element, int member, ani_network *place,
                              int layer, mlff_error *error)
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
  if (!status && place) status = pack_layer(net, e, place, layer, &weight, bias, error);
  free(weight);
  free(bias);
  return status;
}

static mlff_status load_element(ani_net *net, const mlff_modelfile *file, int element, const int *member_used,
                                mlff_error *error)
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
  int n_used = 0;
  for (int m = 0; m < net->n_members_file; m++) {
    ani_network *place = net->use[element] && member_used[m] ? &e->members[n_used] : NULL;
    for (int l = 0; l < e->n_layers; l++) MLFF_TRY(load_layer(net, file, element, m, place, l, error));
    n_used += member_used[m];
  }
  return MLFF_OK;
}

void ani_destroy(void *network)
{
  ani_net *net = network;
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
  for (int l = 0; l < ANI_MAX_LAYERS; l++) {
    mlff_buf_release(backend, &net->hidden[l]);
  }
  mlff_buf *const bufs[] = {&net->centers,     &net->aevs,          &net->aev_grads, &net->row_energy,
                            &net->node_energy, &net->member_energy, &net->edge_grad};
  for (size_t k = 0; k < sizeof bufs / sizeof bufs[0]; k++) mlff_buf_release(backend, bufs[k]);
  mlff_aev_release(backend, &net->aev);
  mlff_ani_networks_release(backend, &net->networks);
  free(net->use);
  free(net->elements);
  free(net->columns);
  free(net->order);
  free(net->first);
  free(net);
}

/* Leading dimensions with room for every element. */
static void choose_widths(ani_net *net)
{
  net->ld_aev = ani_pad(net->aev.n_columns);
  for (int l = 0; l + 1 < net->n_layers_max; l++) {
    int64_t width = 0;
    for (int e = 0; e < net->n_elements; e++)
      if (net->use[e] && l + 1 < net->elements[e].n_layers && net->elements[e].dims[l + 1] > width)
        width = net->elements[e].dims[l + 1];
    net->ld[l] = ani_pad(width);
  }
}

static mlff_status build(ani_net *net, const mlff_modelfile *file, const mlff_species_use *use, mlff_error *error)
{
  net->n_elements = mlff_modelfile_get_head(file)->n_elements;
  const size_t n = (size_t) net->n_elements;
  net->use = calloc(n, sizeof *net->use);
  net->elements = calloc(n, sizeof *net->elements);
  net->first = calloc(n + 1, sizeof *net->first);
  if (!net->use || !net->elements || !net->first)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for an ANI model");
  for (int s = 0; s < net->n_elements; s++) net->use[s] = !use || !use->use || (s < use->n_species && use->use[s]);
  int member_used[ANI_MAX_MEMBERS];
  MLFF_TRY(read_block(net, file, error));
  MLFF_TRY(mlff_members_parse(use ? use->members : NULL, net->n_members_file, member_used, error));
  for (int m = 0; m < net->n_members_file; m++) net->n_members += member_used[m];
  MLFF_TRY(net->backend->ops->aev_setup(net->backend, &net->aev, &net->constants, net->n_elements, net->use, error));
  net->columns = malloc(((size_t) net->aev.n_columns + 1) * sizeof *net->columns);
  if (!net->columns) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for an ANI model");
  map_columns(net);
  for (int e = 0; e < net->n_elements; e++) MLFF_TRY(load_element(net, file, e, member_used, error));
  choose_widths(net);
  return ani_setup_networks(net, error);
}

mlff_status ani_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **out,
                       mlff_error *error)
{
  ani_net *net = calloc(1, sizeof *net);
  if (!net) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for an ANI model");
  net->backend = backend;
  const mlff_status status = build(net, file, use, error);
  if (status) {
    ani_destroy(net);
    return status;
  }
  *out = net;
  return MLFF_OK;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */
