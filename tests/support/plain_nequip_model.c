/* plain_nequip_model.c: a whole NequIP network as plain loops: see plain_nequip.h. Features are [n][channels][2l+1], as
 * the papers have them. */
#include "plain_nequip.h"

#include "model/modelfile.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct plain_net {
  const mlff_modelfile *file;
  const mlff_graph *graph;
  int n, n_elements, n_layers, n_orders, lmax, is_even, is_trained, is_scaled, has_norm, n_readout;
  int embedding, n_embedding, skips_by_element; /* embedding: linear, one_hot, element */
  const double *channels, *divisor, *readout, *neighbor_divisor;
  double readout_gain; /* of silu; 0: none */
  const int *species;
  plain_network network;
  double *frequency, epsilon, gain;
  int n_in, n_out;       /* orders that come into the layer at hand and go out                       */
  int in[4], ungated[4]; /* their channels, and those before the gate                                */
  int n_rows[4];         /* inputs of linear_2                                                       */
  double *x[4], *y[4];   /* features, linear_1 of them                                               */
  double *m[4], *z[4];   /* sums of messages; before the gate                                        */
} plain_net;

static double *tensor(const plain_net *net, int rows, int cols, const char *format, ...)
{
  char name[96];
  double *values = NULL;
  mlff_error error = {.code = MLFF_OK};
  const int64_t shape[2] = {rows, cols};
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  test_ok(mlff_modelfile_tensor(net->file, name, cols ? 2 : 1, shape, &values, &error), error);
  return values;
}

/* y [n][n_out][2l+1] += scale W x [n][n_in][2l+1], W = layers.t.NAME.ll; made when y is NULL. */
static double *linear(const plain_net *net, int t, const char *name, int l, int n_out, int n_in, double scale,
                      const double *x, double *y)
{
  const int width = 2 * l + 1;
  double *w = tensor(net, n_out, n_in, "layers.%d.%s.l%d", t, name, l);
  if (!y) y = calloc((size_t) (net->n * n_out * width), sizeof *y);
  for (int i = 0; i < net->n; i++)
    for (int o = 0; o < n_out; o++)
      for (int c = 0; c < n_in; c++)
        for (int m = 0; m < width; m++)
          y[(i * n_out + o) * width + m] += scale * w[o * n_in + c] * x[(i * n_in + c) * width + m];
  free(w);
  return y;
}

/* y [n][n_out][2l+1] += W x of the package nequip: W of the element, from a tensor of rank 3 and the embedding */
static void element_skip(const plain_net *net, int t, int l, int n_out, int n_in, const double *x, double *y)
{
  const int width = 2 * l + 1, n = net->n_embedding;
  const int64_t shape[3] = {n_out, n_in, n};
  double *w = NULL, *embedding = tensor(net, n, net->n_elements, "embedding");
  char name[96];
  mlff_error error = {.code = MLFF_OK};
  snprintf(name, sizeof name, "layers.%d.skip.l%d", t, l);
  test_ok(mlff_modelfile_tensor(net->file, name, 3, shape, &w, &error), error);
  for (int i = 0; i < net->n; i++)
    for (int q = 0; q < n_out * n_in * n; q++)
      for (int m = 0; m < width; m++)
        y[(i * n_out + q / (n_in * n)) * width + m] += w[q] * embedding[q % n * net->n_elements + net->species[i]] *
                                                       x[(i * n_in + q / n % n_in) * width + m] / sqrt(n_in * n);
  free(w);
  free(embedding);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct plain_path {
  int l1, l2, l3, column, row;
} plain_path;

/* N4: sorted by l3, then l1, then l2; returns how many, *n_weights the columns. N19: of fewer orders in the first and
 * last layer. */
static int list_paths(plain_net *net, plain_path *paths, int *n_weights)
{
  int n = 0;
  *n_weights = 0;
  for (int l3 = 0; l3 < net->n_out; l3++) {
    net->n_rows[l3] = 0;
    for (int l1 = 0; l1 < net->n_in; l1++) {
      for (int l2 = 0; l2 <= net->lmax; l2++) {
        if (l3 < abs(l1 - l2) || l3 > l1 + l2 || (net->is_even && (l1 + l2 + l3) % 2)) continue;
        paths[n++] = (plain_path){l1, l2, l3, *n_weights, net->n_rows[l3]};
        *n_weights += net->in[l1];
        net->n_rows[l3] += net->in[l1];
      }
    }
  }
  return n;
}

/* m of atom i += the message of node j by one path: channel c of y with the weight of that channel */
static void add_path(plain_net *net, const plain_path *p, int i, int j, const double *w, const double harmonic[16])
{
  double c[7][7][7];
  const int n1 = 2 * p->l1 + 1, n2 = 2 * p->l2 + 1, n3 = 2 * p->l3 + 1;
  plain_coefficients(p->l1, p->l2, p->l3, c);
  for (int q = 0; q < net->in[p->l1]; q++) {
    const double *y = net->y[p->l1] + (j * net->in[p->l1] + q) * n1;
    double *m = net->m[p->l3] + (i * net->n_rows[p->l3] + p->row + q) * n3;
    for (int a = 0; a < n1; a++)
      for (int b = 0; b < n2; b++)
        for (int k = 0; k < n3; k++) m[k] += w[p->column + q] * c[a][b][k] * y[a] * harmonic[p->l2 * p->l2 + b];
  }
}

/* Copies of a layer's radial network, its first matrices in net->network; returns the last one. */
static double *read_network(plain_net *net, int t, int n_weights)
{
  plain_network *network = &net->network;
  double *w = NULL;
  for (int k = 0, n_in = network->basis.n; k <= network->n_hidden; n_in = network->width[k++]) {
    const int n_out = k < network->n_hidden ? network->width[k] : n_weights;
    w = tensor(net, n_out, n_in, "layers.%d.radial_mlp.%d", t, k);
    for (int q = 0; q < n_out * n_in; q++) w[q] /= net->is_scaled ? sqrt(n_in) : 1.0;
    if (k < network->n_hidden) network->weight[k] = w;
  }
  return w;
}

static void messages(plain_net *net, int t, const plain_path *paths, int n_paths, int n_weights)
{
  const mlff_graph *g = net->graph;
  double *last = read_network(net, t, n_weights), *w = malloc((size_t) n_weights * sizeof *w);
  const int width = net->network.width[net->network.n_hidden - 1];
  for (int i = 0; i < net->n; i++) {
    for (int64_t e = g->row[i]; e < g->row[i + 1]; e++) {
      const int32_t j = g->nbr[e];
      double u[3], r = 0, hidden[128], harmonic[16];
      for (int d = 0; d < 3; d++) u[d] = g->pos[j][d] - g->pos[i][d]; /* N16 */
      r = sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
      if (r >= net->network.basis.cutoff) continue;
      for (int d = 0; d < 3; d++) u[d] /= r;
      plain_harmonics(u, harmonic);
      plain_hidden(&net->network, r, hidden, NULL);
      for (int c = 0; c < n_weights; c++) {
        w[c] = 0;
        for (int h = 0; h < width; h++) w[c] += last[c * width + h] * hidden[h];
      }
      for (int p = 0; p < n_paths; p++) add_path(net, &paths[p], i, g->node[j], w, harmonic);
    }
  }
  free(last);
  free(w);
  for (int k = 0; k < net->network.n_hidden; k++) free((double *) net->network.weight[k]);
}

/* ---- atoms ------------------------------------------------------------------------------------------------------- */

/* N5: one number for each atom, sums over channels, (2l+1)^2, gates included. */
static void norm(plain_net *net, int t)
{
  double *g[4] = {NULL};
  for (int l = 0; l < net->n_out; l++) g[l] = tensor(net, net->ungated[l], 0, "layers.%d.norm.l%d", t, l);
  for (int i = 0; i < net->n; i++) {
    double s = net->epsilon;
    for (int l = 0; l < net->n_out; l++)
      for (int q = 0; q < net->ungated[l] * (2 * l + 1); q++)
        s += pow(net->z[l][i * net->ungated[l] * (2 * l + 1) + q], 2) / ((2 * l + 1) * (2 * l + 1) * net->n_out);
    for (int l = 0; l < net->n_out; l++)
      for (int q = 0; q < net->ungated[l] * (2 * l + 1); q++)
        net->z[l][i * net->ungated[l] * (2 * l + 1) + q] *= g[l][q / (2 * l + 1)] / sqrt(s);
  }
  for (int l = 0; l < net->n_out; l++) free(g[l]);
}

static double silu(double x)
{
  return x / (1 + exp(-x));
}

/* N6: the last scalars are the gates, in the order of l. */
static void gate(plain_net *net)
{
  for (int l = 0, at = 0; l < net->n_out; l++) {
    const int n = (int) net->channels[l], width = 2 * l + 1;
    free(net->x[l]);
    net->x[l] = malloc((size_t) (net->n * n * width) * sizeof(double));
    for (int q = 0; q < net->n * n * width; q++) {
      const int i = q / (n * width), c = q / width % n;
      const double scalar = net->z[0][i * net->ungated[0] + at + c];
      net->x[l][q] = net->gain * silu(scalar) * (l ? net->z[l][q] : 1.0);
    }
    at += n;
  }
}

static void layer(plain_net *net, int t)
{
  plain_path paths[34];
  int n_weights;
  net->n_out = t == net->n_layers - 1 ? 1 : net->n_orders;
  const int n_paths = list_paths(net, paths, &n_weights);
  net->ungated[0] = 0;
  for (int l = 0; l < net->n_out; l++) {
    net->ungated[0] += (int) net->channels[l];
    if (l) net->ungated[l] = (int) net->channels[l];
    net->m[l] = calloc((size_t) (net->n * net->n_rows[l] * (2 * l + 1)), sizeof(double));
  }
  for (int l = 0; l < net->n_in; l++) {
    const int n = net->in[l] * (2 * l + 1);
    net->y[l] = linear(net, t, "linear_1", l, net->in[l], net->in[l], 1 / sqrt(net->in[l]), net->x[l], NULL);
    for (int q = 0; q < net->n * n && net->neighbor_divisor; q++)
      net->y[l][q] /= net->neighbor_divisor[net->species[q / n]];
  }
  messages(net, t, paths, n_paths, n_weights);
  for (int l = 0; l < net->n_out; l++) {
    /* N9, N10: all inputs count; N11: skip takes what came into the layer */
    net->z[l] = linear(net, t, "linear_2", l, net->ungated[l], net->n_rows[l],
                       1 / (sqrt(net->n_rows[l]) * net->divisor[t]), net->m[l], NULL);
    if (net->skips_by_element && t > 0 && l < net->n_in)
      element_skip(net, t, l, net->ungated[l], net->in[l], net->x[l], net->z[l]);
    else if (!net->skips_by_element && l < net->n_in)
      linear(net, t, "skip", l, net->ungated[l], net->in[l], 1 / sqrt(net->in[l]), net->x[l], net->z[l]);
  }
  if (net->has_norm) norm(net, t);
  gate(net);
  for (int l = 0; l < 4; l++) {
    if (l < net->n_in) free(net->y[l]);
    if (l < net->n_out) free(net->m[l]);
    if (l < net->n_out) free(net->z[l]);
  }
  net->n_in = net->n_out;
  for (int l = 0; l < net->n_in; l++) net->in[l] = (int) net->channels[l];
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

static void read_radial(plain_net *net, const mlff_yaml *block)
{
  static const char *const kinds[] = {"bessel", "trained", NULL}, *const cutoffs[] = {"polynomial", "xplor", NULL},
                           *const scalings[] = {"none", "sqrt", NULL};
  const mlff_yaml *part = NULL;
  mlff_nequip_basis *basis = &net->network.basis;
  mlff_error error = {.code = MLFF_OK};
  const double *hidden = NULL;
  int kind = 0;
  double scale = 1;
  test_ok(mlff_yaml_map(net->file, block, "radial_basis", &part, &error), error);
  test_ok(mlff_yaml_choice(net->file, part, "kind", kinds, &net->is_trained, &error), error);
  test_ok(mlff_yaml_int(net->file, part, "n", 1, 128, &basis->n, &error), error);
  test_ok(mlff_yaml_map(net->file, block, "cutoff_function", &part, &error), error);
  test_ok(mlff_yaml_choice(net->file, part, "kind", cutoffs, &kind, &error), error);
  test_ok(mlff_yaml_double(net->file, part, kind ? "onset" : "p", 0, 99, kind ? &basis->onset : &basis->power, &error),
          error);
  test_ok(mlff_yaml_map(net->file, block, "radial_network", &part, &error), error);
  test_ok(mlff_yaml_doubles(net->file, part, "hidden", -1, &hidden, &net->network.n_hidden, &error), error);
  test_ok(mlff_yaml_choice(net->file, part, "fan_in", scalings, &net->is_scaled, &error), error);
  test_ok(mlff_yaml_double(net->file, part, "activation_norm", 0, 9, &scale, &error), error);
  for (int k = 0; k < net->network.n_hidden; k++) net->network.width[k] = (int) hidden[k];
  net->network.gain = 1 / scale;
  basis->prefactor = 2 / basis->cutoff; /* N8 */
  net->frequency =
      net->is_trained ? tensor(net, basis->n, 0, "radial_frequencies") : malloc((size_t) basis->n * sizeof(double));
  for (int k = 0; k < basis->n && !net->is_trained; k++) net->frequency[k] = (k + 1) * acos(-1.0) / basis->cutoff;
  net->network.frequency = net->frequency;
}

/* Keys of the package nequip. */
static void read_elements(plain_net *net, const mlff_yaml *block)
{
  static const char *const embeddings[] = {"linear", "one_hot", "element", NULL}, *const connections[] = {"linear",
                                                                                                          "element",
                                                                                                          NULL};
  mlff_error error = {.code = MLFF_OK};
  double scale = 0;
  int n = 0;
  test_ok(mlff_yaml_choice(net->file, block, "embedding", embeddings, &net->embedding, &error), error);
  const int n_of[3] = {(int) net->channels[0], net->n_elements, 0};
  net->n_embedding = n_of[net->embedding];
  if (net->embedding != 2) return;
  test_ok(mlff_yaml_int(net->file, block, "n_embedding", 1, 256, &net->n_embedding, &error), error);
  test_ok(mlff_yaml_choice(net->file, block, "self_connection", connections, &net->skips_by_element, &error), error);
  test_ok(mlff_yaml_doubles(net->file, block, "neighbor_divisor", -1, &net->neighbor_divisor, &n, &error), error);
  test_ok(mlff_yaml_double(net->file, block, "readout_activation_norm", 0, 9, &scale, &error), error);
  net->readout_gain = 1 / scale;
}

static void read_block(plain_net *net)
{
  static const char *const paths[] = {"all", "even", NULL}, *const norms[] = {"none", "rms", NULL};
  const mlff_yaml *block = NULL, *part = NULL;
  mlff_error error = {.code = MLFF_OK};
  double scale = 1;
  int n = 0;
  test_ok(mlff_yaml_map(net->file, mlff_modelfile_root(net->file), "nequip", &block, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_layers", 1, 16, &net->n_layers, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "lmax", 0, 3, &net->lmax, &error), error);
  test_ok(mlff_yaml_doubles(net->file, block, "n_channels", -1, &net->channels, &net->n_orders, &error), error);
  test_ok(mlff_yaml_choice(net->file, block, "paths", paths, &net->is_even, &error), error);
  read_elements(net, block);
  test_ok(mlff_yaml_doubles(net->file, block, "message_divisor", -1, &net->divisor, &n, &error), error);
  test_ok(mlff_yaml_map(net->file, block, "norm", &part, &error), error);
  test_ok(mlff_yaml_choice(net->file, part, "kind", norms, &net->has_norm, &error), error);
  if (net->has_norm) test_ok(mlff_yaml_double(net->file, part, "epsilon", 0, 1, &net->epsilon, &error), error);
  test_ok(mlff_yaml_double(net->file, block, "activation_norm", 0, 9, &scale, &error), error);
  test_ok(mlff_yaml_doubles(net->file, block, "n_readout", -1, &net->readout, &net->n_readout, &error), error);
  net->gain = 1 / scale;
  read_radial(net, block);
}

/* S4: species are positions in the file's list of elements. */
static void embed(plain_net *net, const test_atoms *atoms)
{
  const int n = net->n_embedding;
  const double divisor = net->embedding == 2 ? 1 : sqrt(net->n_elements);
  double *w = net->embedding == 1 ? NULL : tensor(net, n, net->n_elements, "embedding");
  net->x[0] = calloc((size_t) (net->n * n), sizeof(double));
  for (int q = 0; q < net->n * n; q++) {
    const int s = atoms->species[q / n];
    net->x[0][q] = w ? w[q % n * net->n_elements + s] / divisor : q % n == s;
  }
  net->n_in = 1;
  net->in[0] = n;
  free(w);
}

static void read_out(plain_net *net, const test_atoms *atoms, double *energy)
{
  double *scale = tensor(net, net->n_elements, 0, "energy_scale");
  for (int i = 0; i < net->n; i++) {
    double from[512], to[512];
    int n = (int) net->channels[0];
    memcpy(from, net->x[0] + i * n, (size_t) n * sizeof *from);
    for (int k = 0; k <= net->n_readout; k++) {
      const int n_out = k < net->n_readout ? (int) net->readout[k] : 1;
      double *w = tensor(net, n_out, n, "readout.%d", k);
      for (int o = 0; o < n_out; o++) {
        to[o] = 0;
        for (int c = 0; c < n; c++) {
          const double x = k && net->readout_gain > 0 ? net->readout_gain * silu(from[c]) : from[c];
          to[o] += w[o * n + c] * x / sqrt(n);
        }
      }
      memcpy(from, to, (size_t) n_out * sizeof *from);
      n = n_out;
      free(w);
    }
    energy[i] = scale[atoms->species[i]] * from[0];
  }
  free(scale);
}

void plain_nequip(const test_model *model, const test_atoms *atoms, double *energy)
{
  mlff_modelfile *file = test_model_must_parse(model);
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  plain_net net = {.file = file,
                   .n = atoms->n,
                   .n_elements = head->n_elements,
                   .species = atoms->species,
                   .network = {.basis = {.cutoff = head->cutoff}}};
  mlff_system *system = test_system(atoms, head->cutoff);
  net.graph = mlff_system_graph(system);
  read_block(&net);
  embed(&net, atoms);
  for (int t = 0; t < net.n_layers; t++) layer(&net, t);
  read_out(&net, atoms, energy);
  for (int l = 0; l < 4; l++) free(net.x[l]);
  free(net.frequency);
  mlff_system_free(system);
  mlff_modelfile_free(file);
}
