/* orb_load.c: reads the `orb` block and tensors of a model file and prepares them for orb.c.
 *
 * The node encoder depends only on the element, so it is evaluated here, in double, for the elements in use. Heads with
 * one row per system stay on the host in double.
 */
#include "orb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct loader {
  orb_net *net;
  const mlff_modelfile *file;
  const mlff_species_use *use;
  int n_elements;
  mlff_error *error;
} loader;

static mlff_status out_of_memory(loader *in)
{
  return mlff_fail(in->error, MLFF_E_NOMEM, "out of memory while loading an orb model");
}

/* Reads and packs NAME.weight and NAME.bias. */
static mlff_status read_linear(loader *in, const char *name, int n_out, int n_in, mlff_linear *linear)
{
  mlff_backend *backend = in->net->backend;
  double *weight = NULL, *bias = NULL;
  mlff_status status = mlff_modelfile_matrix(in->file, in->error, n_out, n_in, &weight, "%s.weight", name);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n_out, 0, &bias, "%s.bias", name);
  if (!status) status = mlff_linear_make(backend, linear, NULL, weight, bias, n_out, n_in, in->error);
  free(weight);
  free(bias);
  return status;
}

static mlff_status read_norm(loader *in, const char *name, mlff_orb_norm *norm)
{
  const int f = in->net->n_features;
  double *gain = NULL, *shift = NULL;
  norm->epsilon = in->net->epsilon;
  mlff_status status = mlff_modelfile_matrix(in->file, in->error, f, 0, &gain, "%s.norm.weight", name);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, f, 0, &shift, "%s.norm.bias", name);
  if (!status) status = mlff_buf_fill(in->net->backend, &norm->gain, gain, f, in->error);
  if (!status) status = mlff_buf_fill(in->net->backend, &norm->shift, shift, f, in->error);
  free(gain);
  free(shift);
  return status;
}

/* Layers first .. 2 and the norm of a network with n_in inputs. */
static mlff_status read_mlp(loader *in, const char *name, int n_in, int first, orb_mlp *mlp)
{
  const int hidden = in->net->n_hidden, widths[4] = {n_in, hidden, hidden, in->net->n_features};
  char layer[96];
  for (int k = first; k < 3; k++) {
    snprintf(layer, sizeof layer, "%s.%d", name, k);
    MLFF_TRY(read_linear(in, layer, widths[k + 1], widths[k], &mlp->linear[k]));
  }
  return read_norm(in, name, &mlp->norm);
}

/* ---- the block --------------------------------------------------------------------------------------------------- */

static mlff_status read_normalizer(loader *in, const mlff_yaml *block, const char *key, orb_normalizer *out)
{
  const double *values = NULL;
  MLFF_TRY(mlff_yaml_doubles(in->file, block, key, 2, &values, NULL, in->error));
  if (!(values[1] > 0.0))
    return mlff_yaml_fail(in->file, block, in->error, "%s has variance %g, expected a positive number", key, values[1]);
  out->mean = values[0];
  out->scale = sqrt(values[1]);
  return MLFF_OK;
}

static mlff_status read_block(loader *in)
{
  static const char *const kinds[] = {"gaussian", NULL};
  const mlff_modelfile *f = in->file;
  const mlff_yaml *block = NULL, *basis = NULL, *normalizers = NULL;
  orb_net *net = in->net;
  double radius = 0;
  int kind = 0;
  MLFF_TRY(mlff_yaml_map(f, mlff_modelfile_root(f), "orb", &block, in->error));
  MLFF_TRY(mlff_yaml_int(f, block, "n_features", 1, ORB_MAX_WIDTH, &net->n_features, in->error));
  MLFF_TRY(mlff_yaml_int(f, block, "n_hidden", 1, ORB_MAX_WIDTH, &net->n_hidden, in->error));
  MLFF_TRY(mlff_yaml_int(f, block, "n_interactions", 1, 100, &net->n_layers, in->error));
  MLFF_TRY(mlff_yaml_int(f, block, "n_readout", 1, ORB_MAX_WIDTH, &net->n_readout, in->error));
  MLFF_TRY(mlff_yaml_int(f, block, "n_neighbours", 1, 1000, &net->n_neighbours, in->error));
  MLFF_TRY(mlff_yaml_map(f, block, "radial_basis", &basis, in->error));
  MLFF_TRY(mlff_yaml_choice(f, basis, "kind", kinds, &kind, in->error));
  MLFF_TRY(mlff_yaml_int(f, basis, "n", 1, ORB_MAX_WIDTH, &net->n_basis, in->error));
  MLFF_TRY(mlff_yaml_double(f, basis, "radius", 0.1, 1000.0, &radius, in->error));
  MLFF_TRY(mlff_yaml_double(f, block, "norm_epsilon", 0.0, 1.0, &net->epsilon, in->error));
  MLFF_TRY(mlff_yaml_map(f, block, "normalizers", &normalizers, in->error));
  MLFF_TRY(read_normalizer(in, normalizers, "energy", &net->energy));
  MLFF_TRY(read_normalizer(in, normalizers, "forces", &net->forces));
  MLFF_TRY(read_normalizer(in, normalizers, "stress", &net->stress));
  net->spacing = radius / net->n_basis;
  return MLFF_OK;
}

/* ---- plain arithmetic on the host -------------------------------------------------------------------------------- */

/* y [n_out] = W x + b */
static void apply(const double *w, const double *b, const double *x, int n_out, int n_in, double *y)
{
  for (int r = 0; r < n_out; r++) {
    double sum = b[r];
    for (int c = 0; c < n_in; c++) sum += w[(size_t) r * (size_t) n_in + (size_t) c] * x[c];
    y[r] = sum;
  }
}

static void apply_ssp(double *x, int n)
{
  for (int k = 0; k < n; k++) x[k] = (x[k] > 20.0 ? x[k] : log1p(exp(x[k]))) - log(2.0);
}

void orb_head_apply(const orb_head *head, const double *x, double *out)
{
  double hidden[ORB_MAX_WIDTH];
  apply(head->weight[0], head->bias[0], x, head->n_hidden, head->n_in, hidden);
  apply_ssp(hidden, head->n_hidden);
  apply(head->weight[1], head->bias[1], hidden, head->n_out, head->n_hidden, out);
}

static void apply_norm(const double *gain, const double *shift, double epsilon, int n, double *x)
{
  double mean = 0, variance = 0;
  for (int k = 0; k < n; k++) mean += x[k] / n;
  for (int k = 0; k < n; k++) variance += (x[k] - mean) * (x[k] - mean) / n;
  for (int k = 0; k < n; k++) x[k] = (x[k] - mean) / sqrt(variance + epsilon) * gain[k] + shift[k];
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* table [n_elements][L]: the encoder of the elements in use; zeros for others. w, b: its layers, then gain and
 * shift. */
static mlff_status encode_elements(loader *in, const double *embedding, double *const w[3], double *const b[3],
                                   const double *gain, const double *shift)
{
  const int f = in->net->n_features, hidden = in->net->n_hidden;
  double *table = calloc((size_t) in->n_elements * (size_t) f, sizeof *table), x[2][ORB_MAX_WIDTH];
  mlff_status status = table ? MLFF_OK : out_of_memory(in);
  for (int s = 0; table && s < in->n_elements; s++) {
    double *row = table + (size_t) s * (size_t) f;
    if (s >= in->use->n_species || !in->use->use[s]) continue;
    apply(w[0], b[0], embedding + (size_t) s * (size_t) f, hidden, f, x[0]);
    apply_ssp(x[0], hidden);
    apply(w[1], b[1], x[0], hidden, hidden, x[1]);
    apply_ssp(x[1], hidden);
    apply(w[2], b[2], x[1], f, hidden, row);
    apply_norm(gain, shift, in->net->epsilon, f, row);
  }
  if (!status)
    status = mlff_buf_fill(in->net->backend, &in->net->node_table, table, (int64_t) in->n_elements * f, in->error);
  free(table);
  return status;
}

static mlff_status read_node_encoder(loader *in)
{
  const int f = in->net->n_features, hidden = in->net->n_hidden, widths[4] = {f, hidden, hidden, f};
  double *embedding = NULL, *w[3] = {NULL}, *b[3] = {NULL}, *gain = NULL, *shift = NULL;
  mlff_status status = mlff_modelfile_matrix(in->file, in->error, in->n_elements, f, &embedding, "embedding");
  for (int k = 0; !status && k < 3; k++) {
    status = mlff_modelfile_matrix(in->file, in->error, widths[k + 1], widths[k], &w[k], "node_encoder.%d.weight", k);
    if (!status)
      status = mlff_modelfile_matrix(in->file, in->error, widths[k + 1], 0, &b[k], "node_encoder.%d.bias", k);
  }
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, f, 0, &gain, "node_encoder.norm.weight");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, f, 0, &shift, "node_encoder.norm.bias");
  if (!status) status = encode_elements(in, embedding, w, b, gain, shift);
  for (int k = 0; k < 3; k++) {
    free(w[k]);
    free(b[k]);
  }
  free(embedding);
  free(gain);
  free(shift);
  return status;
}

/* The first layer of the edge network in three parts: columns of e (with the bias), of the sender and of the
 * receiver. */
static mlff_status read_edge_input(loader *in, int l, orb_layer *layer)
{
  mlff_backend *backend = in->net->backend;
  mlff_linear *const parts[3] = {&layer->edge.linear[0], &layer->from_sender, &layer->from_receiver};
  const int f = in->net->n_features, hidden = in->net->n_hidden;
  double *weight = NULL, *bias = NULL, *part = malloc((size_t) hidden * (size_t) f * sizeof *part);
  mlff_status status = part ? MLFF_OK : out_of_memory(in);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, hidden, 3 * f, &weight, "layer.%d.edge.0.weight", l);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, hidden, 0, &bias, "layer.%d.edge.0.bias", l);
  for (int p = 0; !status && p < 3; p++) {
    for (int r = 0; r < hidden; r++)
      for (int c = 0; c < f; c++)
        part[(size_t) r * (size_t) f + (size_t) c] = weight[(size_t) r * 3 * (size_t) f + (size_t) (p * f + c)];
    status = mlff_linear_make(backend, parts[p], NULL, part, p ? NULL : bias, hidden, f, in->error);
  }
  free(weight);
  free(bias);
  free(part);
  return status;
}

static mlff_status read_gates(loader *in, int l, orb_layer *layer)
{
  static const char *const names[2] = {"receive", "send"};
  const int f = in->net->n_features;
  double *both = malloc(2 * (size_t) f * sizeof *both);
  mlff_status status = both ? MLFF_OK : out_of_memory(in);
  for (int g = 0; !status && g < 2; g++) {
    double *weight = NULL, *bias = NULL;
    status = mlff_modelfile_matrix(in->file, in->error, 1, f, &weight, "layer.%d.%s.weight", l, names[g]);
    if (!status) status = mlff_modelfile_matrix(in->file, in->error, 1, 0, &bias, "layer.%d.%s.bias", l, names[g]);
    for (int k = 0; !status && k < f; k++) both[g * f + k] = weight[k];
    if (!status) layer->gate_bias[g] = bias[0];
    free(weight);
    free(bias);
  }
  if (!status) status = mlff_buf_fill(in->net->backend, &layer->gates, both, 2 * (int64_t) f, in->error);
  free(both);
  return status;
}

static mlff_status read_layer(loader *in, int l)
{
  orb_layer *layer = &in->net->layers[l];
  char name[64];
  MLFF_TRY(read_edge_input(in, l, layer));
  snprintf(name, sizeof name, "layer.%d.edge", l);
  MLFF_TRY(read_mlp(in, name, 0, 1, &layer->edge));
  snprintf(name, sizeof name, "layer.%d.node", l);
  MLFF_TRY(read_mlp(in, name, 3 * in->net->n_features, 0, &layer->node));
  return read_gates(in, l, layer);
}

static mlff_status read_head(loader *in, const char *name, int n_out, orb_head *head)
{
  const orb_net *net = in->net;
  *head = (orb_head){.n_in = net->n_features, .n_hidden = net->n_readout, .n_out = n_out};
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, net->n_readout, net->n_features, &head->weight[0], "%s.0.weight",
                                 name));
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, net->n_readout, 0, &head->bias[0], "%s.0.bias", name));
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n_out, net->n_readout, &head->weight[1], "%s.1.weight", name));
  return mlff_modelfile_matrix(in->file, in->error, n_out, 0, &head->bias[1], "%s.1.bias", name);
}

static mlff_status read_all(loader *in)
{
  orb_net *net = in->net;
  MLFF_TRY(read_block(in));
  net->layers = calloc((size_t) net->n_layers, sizeof *net->layers);
  net->sums = calloc((size_t) net->n_features + 7, sizeof *net->sums);
  if (!net->layers || !net->sums) return out_of_memory(in);
  MLFF_TRY(read_node_encoder(in));
  MLFF_TRY(read_mlp(in, "edge_encoder", net->n_basis + 3, 0, &net->edge_encoder));
  for (int l = 0; l < net->n_layers; l++) MLFF_TRY(read_layer(in, l));
  MLFF_TRY(read_linear(in, "forces.0", net->n_readout, net->n_features, &net->force_head[0]));
  MLFF_TRY(read_linear(in, "forces.1", 3, net->n_readout, &net->force_head[1]));
  MLFF_TRY(read_head(in, "energy", 1, &net->energy_head));
  return read_head(in, "stress", 6, &net->stress_head);
}

mlff_status orb_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                       mlff_error *error)
{
  loader in = {.file = file, .use = use, .n_elements = mlff_modelfile_get_head(file)->n_elements, .error = error};
  if (!(in.net = calloc(1, sizeof *in.net))) return out_of_memory(&in);
  in.net->backend = backend;
  const mlff_status status = read_all(&in);
  if (status)
    orb_destroy(in.net);
  else
    *net = in.net;
  return status;
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

static void release_mlp(mlff_backend *backend, orb_mlp *mlp)
{
  for (int k = 0; k < 3; k++) mlff_linear_release(backend, &mlp->linear[k]);
  mlff_buf_release(backend, &mlp->norm.gain);
  mlff_buf_release(backend, &mlp->norm.shift);
}

static void release_head(orb_head *head)
{
  for (int k = 0; k < 2; k++) {
    free(head->weight[k]);
    free(head->bias[k]);
  }
}

void orb_destroy(void *opaque)
{
  orb_net *net = opaque;
  if (!net) return;
  mlff_backend *backend = net->backend;
  for (int l = 0; net->layers && l < net->n_layers; l++) {
    orb_layer *layer = &net->layers[l];
    release_mlp(backend, &layer->edge);
    release_mlp(backend, &layer->node);
    mlff_linear_release(backend, &layer->from_sender);
    mlff_linear_release(backend, &layer->from_receiver);
    mlff_buf_release(backend, &layer->gates);
  }
  free(net->layers);
  release_mlp(backend, &net->edge_encoder);
  for (int k = 0; k < 2; k++) mlff_linear_release(backend, &net->force_head[k]);
  release_head(&net->energy_head);
  release_head(&net->stress_head);
  mlff_orb_graph *graph = &net->graph;
  mlff_buf *const bufs[] = {&graph->row,       &graph->node,        &graph->vec,     &graph->env,      &graph->in_row,
                            &graph->in_edge,   &graph->tag,         &graph->scratch, &net->node_table, &net->h,
                            &net->e,           &net->received,      &net->sent,      &net->raw,        &net->input,
                            &net->from_sender, &net->from_receiver, &net->hidden[0], &net->hidden[1],  &net->force_out};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(backend, bufs[k]);
  free(net->sums);
  free(net->host_force);
  free(net);
}
