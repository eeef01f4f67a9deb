/* plain_mace.c: see plain_mace.h. Features are [n][channels][components], components of all orders one after the other.
 */
#include "plain_mace.h"

#include "model/modelfile.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { COMPONENTS = 16 };

typedef struct plain_mace_net {
  const mlff_modelfile *file;
  const mlff_graph *graph;
  const test_atoms *atoms;
  int n, n_elements, n_layers, n_orders, lmax, n_channels, n_readout, n_in; /* n_in: orders that come into a layer */
  const double *degree, *avg, *products;
  const char *const *skip, *const *divisor;
  plain_network network, density_network;
  double *pair_bias[2]; /* of both networks: [n_elements of the center][of the neighbor][first hidden layer] */
  int is_nonlinear, is_common, is_last_only, n_readout_layers;
  int n_sent[4], n_sent_first, n_z; /* channels of y by order, and of y and of z in order 0 */
  double epsilon, scalar_gain, gate_gain;
  const double *radius; /* [n_elements] with a transform */
  double *density;      /* [n] of the layer: the sum over neighbors */
  int is_tanh;
  double gain, scale;
  double *x, *y, *z; /* [n][n_channels][COMPONENTS], z [n][n_z][COMPONENTS] */
} plain_mace_net;

static double *tensor(const plain_mace_net *net, int rank, const int64_t *shape, const char *format, ...)
{
  char name[96];
  double *values = NULL;
  mlff_error error = {.code = MLFF_OK};
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  test_ok(mlff_modelfile_tensor(net->file, name, rank, shape, &values, &error), error);
  return values;
}

static double *features(const plain_mace_net *net)
{
  return calloc((size_t) (net->n * net->n_channels * COMPONENTS), sizeof(double));
}

/* out += W in / scale for order l, all atoms; W [n_channels][n_channels], of the atom's element if by_element. */
static void add_linear(const plain_mace_net *net, const double *w, int by_element, int l, double scale,
                       const double *in, double *out)
{
  const int n = net->n_channels;
  for (int i = 0; i < net->n; i++)
    for (int o = 0; o < n; o++)
      for (int c = 0; c < n; c++)
        for (int k = l * l; k < (l + 1) * (l + 1); k++)
          out[(i * n + o) * COMPONENTS + k] +=
              w[((by_element ? net->atoms->species[i] : 0) * n + o) * n + c] * in[(i * n + c) * COMPONENTS + k] / scale;
}

/* out += linear of n_in channels; strides: channels in a row */
static void add_map(const plain_mace_net *net, int t, const char *name, int l, int n_out, int n_in, const double *in,
                    double *out, int stride_out)
{
  double *w = tensor(net, 2, (int64_t[]){n_out, n_in}, "layers.%d.%s.l%d", t, name, l);
  for (int i = 0; i < net->n; i++)
    for (int o = 0; o < n_out; o++)
      for (int c = 0; c < n_in; c++)
        for (int k = l * l; k < (l + 1) * (l + 1); k++)
          out[(i * stride_out + o) * COMPONENTS + k] +=
              w[o * n_in + c] * in[(i * net->n_channels + c) * COMPONENTS + k] / sqrt(n_in);
  free(w);
}

static void linear(const plain_mace_net *net, int t, const char *name, int l, const double *in, double *out)
{
  add_map(net, t, name, l, net->n_channels, net->n_channels, in, out, net->n_channels);
}

/* Channels of y of an order in layer t. */
static int n_sent(const plain_mace_net *net, int t, int l)
{
  return t ? net->n_sent[l] : net->n_sent_first;
}

static void select_element(const plain_mace_net *net, int t, int l, const double *in, double *out)
{
  double *w =
      tensor(net, 3, (int64_t[]){net->n_elements, net->n_channels, net->n_channels}, "layers.%d.skip.l%d", t, l);
  add_linear(net, w, 1, l, sqrt((double) net->n_channels * net->n_elements), in, out);
  free(w);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct plain_mace_path {
  int l1, l2, l3, n, column, row;
} plain_mace_path;

static int list_paths(const plain_mace_net *net, int t, plain_mace_path *paths, int n_rows[4], int *n_columns)
{
  int n = 0;
  *n_columns = 0;
  for (int l3 = 0; l3 <= net->lmax; l3++) {
    n_rows[l3] = 0;
    for (int l1 = 0; l1 < net->n_in; l1++)
      for (int l2 = 0; l2 <= net->lmax; l2++) {
        if (l3 < abs(l1 - l2) || l3 > l1 + l2 || (l1 + l2 + l3) % 2) continue;
        paths[n] = (plain_mace_path){l1, l2, l3, n_sent(net, t, l1), *n_columns, n_rows[l3]};
        n_rows[l3] += paths[n].n;
        *n_columns += paths[n].n;
        n++;
      }
  }
  return n;
}

/* z of atom i += linear of the message of node j by one path */
static void add_path(plain_mace_net *net, const plain_mace_path *p, const double *map, int n_rows, int i, int j,
                     const double *w, const double *harmonic)
{
  double c[7][7][7];
  const int n = net->n_channels, n_out = p->l3 ? n : net->n_z;
  plain_coefficients(p->l1, p->l2, p->l3, c);
  for (int q = 0; q < p->n; q++) {
    double m[7] = {0};
    for (int a = 0; a < 2 * p->l1 + 1; a++)
      for (int b = 0; b < 2 * p->l2 + 1; b++)
        for (int k = 0; k < 2 * p->l3 + 1; k++)
          m[k] += w[p->column + q] * c[a][b][k] * net->y[(j * n + q) * COMPONENTS + p->l1 * p->l1 + a] *
                  harmonic[p->l2 * p->l2 + b];
    for (int o = 0; o < n_out; o++)
      for (int k = 0; k < 2 * p->l3 + 1; k++)
        net->z[(i * net->n_z + o) * COMPONENTS + p->l3 * p->l3 + k] +=
            map[o * n_rows + p->row + q] / sqrt(n_rows) * m[k];
  }
}

/* Reads a network with layer norms into net->network or net->density_network; returns its last matrix, with the biases
 * in one more column. */
static double *read_normed(plain_mace_net *net, int t, int is_density, int n_weights)
{
  const char *name = is_density ? "density" : "radial_mlp";
  plain_network *network = is_density ? &net->density_network : &net->network;
  const int n = net->n_channels, n_elements = net->n_elements, n_basis = net->network.basis.n;
  double *source = tensor(net, 2, (int64_t[]){n, n_elements}, "layers.%d.source", t);
  double *target = tensor(net, 2, (int64_t[]){n, n_elements}, "layers.%d.target", t);
  for (int k = 0, n_in = n_basis + 2 * n; k < network->n_hidden; n_in = network->width[k++]) {
    const int64_t n_out = network->width[k], has_norm = !is_density || k == 0;
    double *w = tensor(net, 2, (int64_t[]){n_out, n_in}, "layers.%d.%s.%d", t, name, k);
    double *affine = calloc((size_t) (3 * n_out), sizeof *affine);
    for (int part = 0; part < (has_norm ? 3 : 1); part++) {
      double *v = tensor(net, 1, &n_out, "layers.%d.%s.%d.%s", t, name, k,
                         part == 0   ? "bias"
                         : part == 1 ? "norm"
                                     : "norm_bias");
      memcpy(affine + part * n_out, v, (size_t) n_out * sizeof *v);
      free(v);
    }
    network->affine[k] = affine;
    network->weight[k] = w;
    if (k) continue;
    double *bias = net->pair_bias[is_density] =
        calloc((size_t) (n_elements * n_elements) * (size_t) n_out, sizeof *bias);
    for (int q = 0; q < n_elements * n_elements; q++)
      for (int64_t o = 0; o < n_out; o++)
        for (int c = 0; c < n; c++) /* M23: the neighbor first */
          bias[q * n_out + o] += (w[o * n_in + n_basis + c] * source[c * n_elements + q % n_elements] +
                                  w[o * n_in + n_basis + n + c] * target[c * n_elements + q / n_elements]) /
                                 sqrt(n_elements);
    for (int64_t o = 0; o < n_out; o++) memmove(w + o * n_basis, w + o * n_in, (size_t) n_basis * sizeof *w);
  }
  free(source);
  free(target);
  if (is_density) return NULL;
  const int64_t width = network->width[network->n_hidden - 1], n_out = n_weights;
  double *w = tensor(net, 2, (int64_t[]){n_out, width}, "layers.%d.%s.%d", t, name, network->n_hidden);
  double *bias = tensor(net, 1, &n_out, "layers.%d.%s.%d.bias", t, name, network->n_hidden);
  double *last = calloc((size_t) (n_out * (width + 1)), sizeof *last);
  for (int64_t o = 0; o < n_out; o++) {
    memcpy(last + o * (width + 1), w + o * width, (size_t) width * sizeof *w);
    last[o * (width + 1) + width] = bias[o];
  }
  free(w);
  free(bias);
  return last;
}

/* Reads the network of layer t; returns its last matrix. */
static double *read_network(plain_mace_net *net, int t, int n_weights)
{
  if (net->is_nonlinear) {
    read_normed(net, t, 1, 0);
    return read_normed(net, t, 0, n_weights);
  }
  plain_network *network = &net->network;
  double *w = NULL;
  for (int k = 0, n_in = network->basis.n; k <= network->n_hidden; n_in = network->width[k++]) {
    const int n_out = k < network->n_hidden ? network->width[k] : n_weights;
    w = tensor(net, 2, (int64_t[]){n_out, n_in}, "layers.%d.radial_mlp.%d", t, k);
    for (int q = 0; q < n_out * n_in; q++) w[q] /= sqrt(n_in);
    if (k < network->n_hidden) network->weight[k] = w;
  }
  return w;
}

/* M8: half of the sum for Agnesi. */
static double pair_radius(const plain_mace_net *net, int i, int j)
{
  const double sum = net->radius[net->atoms->species[i]] + net->radius[net->atoms->species[j]];
  return net->network.basis.transform == MLFF_NEQUIP_AGNESI ? sum / 2 : sum;
}

static double plain_density(const plain_mace_net *net, const double *w, double r)
{
  const mlff_nequip_basis *basis = &net->network.basis;
  double v = 0;
  for (int c = 0; c < basis->n; c++)
    v += w[c] * creal(plain_radial(basis, net->network.r0, net->network.frequency[c], r)) / sqrt(basis->n);
  return tanh(v * v);
}

static void free_networks(plain_mace_net *net)
{
  plain_network *const all[] = {&net->network, &net->density_network};
  for (int d = 0; d < 2; d++) {
    for (int k = 0; k < (d && !net->is_nonlinear ? 0 : all[d]->n_hidden); k++) {
      free((double *) all[d]->weight[k]);
      free((double *) all[d]->affine[k]);
    }
    free(net->pair_bias[d]);
  }
}

/* What the center and the neighbor add to the first layers of both networks; returns the density of the edge. */
static double choose_pair(plain_mace_net *net, int i, int j, double r)
{
  double value;
  const int pair = net->atoms->species[i] * net->n_elements + net->atoms->species[j];
  net->network.pair_bias = net->pair_bias[0] + pair * net->network.width[0];
  net->density_network.r0 = net->network.r0;
  net->density_network.pair_bias = net->pair_bias[1] + pair * net->density_network.width[0];
  plain_hidden(&net->density_network, r, &value, NULL);
  return value;
}

static void add_edge(plain_mace_net *net, const plain_mace_path *paths, int n_paths, double *const *maps,
                     const int *n_rows, const double *last, const double *density, int i, int64_t e)
{
  const mlff_graph *g = net->graph;
  const int32_t j = g->nbr[e];
  const int width = net->network.width[net->network.n_hidden - 1] + net->is_nonlinear;
  const int n_columns = paths[n_paths - 1].column + paths[n_paths - 1].n;
  double u[3], r = 0, hidden[128], harmonic[16], w[34 * 64];
  for (int d = 0; d < 3; d++) u[d] = g->pos[i][d] - g->pos[j][d]; /* M1: from the neighbor to the center */
  r = sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
  if (r >= net->network.basis.cutoff) return;
  for (int d = 0; d < 3; d++) u[d] /= r;
  plain_harmonics(u, harmonic);
  if (net->radius) net->network.r0 = pair_radius(net, i, g->node[j]);
  if (net->is_nonlinear) net->density[i] += choose_pair(net, i, g->node[j], r);
  plain_hidden(&net->network, r, hidden, NULL);
  if (density) net->density[i] += plain_density(net, density, r);
  for (int c = 0; c < n_columns; c++) {
    w[c] = 0;
    for (int h = 0; h < width; h++) w[c] += last[c * width + h] * hidden[h];
  }
  for (int p = 0; p < n_paths; p++)
    add_path(net, &paths[p], maps[paths[p].l3], n_rows[paths[p].l3], i, g->node[j], w, harmonic);
}

/* M22 */
static void divide_by_density(plain_mace_net *net, int t)
{
  double *alpha = tensor(net, 1, (int64_t[]){1}, "layers.%d.alpha", t);
  double *beta = tensor(net, 1, (int64_t[]){1}, "layers.%d.beta", t);
  for (int q = 0; q < net->n * net->n_z * COMPONENTS; q++)
    net->z[q] /= *alpha + *beta * net->density[q / (net->n_z * COMPONENTS)];
  free(alpha);
  free(beta);
}

/* net->z of layer t */
static void messages(plain_mace_net *net, int t)
{
  plain_mace_path paths[34];
  int n_rows[4], n_columns;
  double *maps[4] = {NULL};
  const int n_paths = list_paths(net, t, paths, n_rows, &n_columns);
  double *last = read_network(net, t, n_columns), *density = NULL;
  if (!net->is_nonlinear && !strcmp(net->divisor[t], "density"))
    density = tensor(net, 2, (int64_t[]){1, net->network.basis.n}, "layers.%d.density", t);
  net->density = calloc((size_t) net->n, sizeof *net->density);
  for (int l = 0; l <= net->lmax; l++)
    maps[l] = tensor(net, 2, (int64_t[]){l ? net->n_channels : net->n_z, n_rows[l]}, "layers.%d.linear.l%d", t, l);
  for (int i = 0; i < net->n; i++)
    for (int64_t e = net->graph->row[i]; e < net->graph->row[i + 1]; e++)
      add_edge(net, paths, n_paths, maps, n_rows, last, density, i, e);
  if (net->is_nonlinear) divide_by_density(net, t);
  for (int q = 0; !net->is_nonlinear && q < net->n * net->n_channels * COMPONENTS; q++)
    net->z[q] /= density ? 1 + net->density[q / (net->n_channels * COMPONENTS)] : net->avg[t]; /* M2 */
  free(net->density);
  free(density);
  for (int l = 0; l <= net->lmax; l++) free(maps[l]);
  free(last);
  free_networks(net);
}

static double sigmoid(double v)
{
  return 1 / (1 + exp(-v));
}

/* a of non-linear blocks, from z and y: residual, gates, linear_2. */
static void gate(plain_mace_net *net, int t, double *a)
{
  const int n = net->n_channels;
  double *gated = features(net);
  for (int l = 0; l < net->n_in; l++)
    add_map(net, t, "linear_res", l, l ? n : net->n_z, n_sent(net, t, l), net->y, net->z, net->n_z);
  for (int i = 0; i < net->n; i++)
    for (int c = 0; c < n; c++)
      for (int l = 0; l <= net->lmax; l++) {
        const double *scalar = net->z + (i * net->n_z + l * n + c) * COMPONENTS; /* M24: then gates of l = 1, 2, .. */
        for (int k = l * l; k < (l + 1) * (l + 1); k++)
          gated[(i * n + c) * COMPONENTS + k] =
              l ? net->gate_gain * sigmoid(*scalar) * net->z[(i * net->n_z + c) * COMPONENTS + k]
                : net->scalar_gain * *scalar * sigmoid(*scalar);
      }
  for (int l = 0; l <= net->lmax; l++) linear(net, t, "linear_2", l, gated, a);
  free(gated);
}

/* ---- polynomials and energies ------------------------------------------------------------------------------------ */

/* p += the polynomial of order l and of one degree, of a */
static void add_polynomial(plain_mace_net *net, int t, int l, int degree, const double *a, double *p)
{
  const int n = net->n_channels, n_rows = (int) *net->products++, n_weights = (int) *net->products++;
  if (!n_rows) return;
  double *rows = tensor(net, 2, (int64_t[]){n_rows, degree + 3}, "layers.%d.product.l%d.degree_%d.rows", t, l, degree);
  double *weight = tensor(net, 3, (int64_t[]){net->is_common ? 1 : net->n_elements, n_weights, n},
                          "layers.%d.product.l%d.degree_%d.weight", t, l, degree);
  for (int i = 0; i < net->n; i++)
    for (int r = 0; r < n_rows; r++)
      for (int c = 0; c < n; c++) {
        const double *row = rows + r * (degree + 3);
        const int s = net->is_common ? 0 : net->atoms->species[i];
        double all = row[degree + 2] * weight[(s * n_weights + (int) row[degree + 1]) * n + c];
        for (int q = 1; q <= degree; q++) all *= a[(i * n + c) * COMPONENTS + (int) row[q]];
        p[(i * n + c) * COMPONENTS + l * l + (int) row[0]] += all;
      }
  free(rows);
  free(weight);
}

/* energy += scale * readout of the last layer with two hidden ones */
static void read_out_twice(const plain_mace_net *net, int t, const double *x, double *energy)
{
  const int n = net->n_channels, n_hidden = net->n_readout;
  double *w = tensor(net, 2, (int64_t[]){n_hidden, n}, "readout.%d.0", t);
  double *middle = tensor(net, 2, (int64_t[]){n_hidden, n_hidden}, "readout.%d.1", t);
  double *bias = tensor(net, 1, (int64_t[]){n_hidden}, "readout.%d.1.bias", t);
  double *last = tensor(net, 2, (int64_t[]){1, n_hidden}, "readout.%d.2", t), first[64];
  for (int i = 0; i < net->n; i++) {
    for (int h = 0; h < n_hidden; h++) {
      double v = 0;
      for (int c = 0; c < n; c++) v += w[h * n + c] * x[(i * n + c) * COMPONENTS] / sqrt(n);
      first[h] = net->gain * (net->is_tanh ? tanh(v) : v * sigmoid(v));
    }
    for (int k = 0; k < n_hidden; k++) {
      double v = bias[k];
      for (int h = 0; h < n_hidden; h++) v += middle[k * n_hidden + h] * first[h] / sqrt(n_hidden);
      energy[i] += net->scale * last[k] * net->gain * (net->is_tanh ? tanh(v) : v * sigmoid(v)) / sqrt(n_hidden);
    }
  }
  free(w);
  free(middle);
  free(bias);
  free(last);
}

/* energy += scale * readout of layer t */
static void read_out(const plain_mace_net *net, int t, const double *x, double *energy)
{
  const int n = net->n_channels, n_hidden = t == net->n_layers - 1 ? net->n_readout : 0,
            n_out = n_hidden ? n_hidden : 1;
  if (t < net->n_layers - 1 && net->is_last_only) return; /* M12 */
  if (n_hidden && net->n_readout_layers == 2) {
    read_out_twice(net, t, x, energy);
    return;
  }
  double *w = tensor(net, 2, (int64_t[]){n_out, n}, "readout.%d.0", t), *last = NULL;
  if (n_hidden) last = tensor(net, 2, (int64_t[]){1, n_hidden}, "readout.%d.1", t);
  for (int i = 0; i < net->n; i++)
    for (int h = 0; h < n_out; h++) {
      double v = 0;
      for (int c = 0; c < n; c++) v += w[h * n + c] * x[(i * n + c) * COMPONENTS] / sqrt(n);
      const double act = net->gain * (net->is_tanh ? tanh(v) : v / (1 + exp(-v)));
      energy[i] += net->scale * (n_hidden ? last[h] * act / sqrt(n_hidden) : v);
    }
  free(w);
  free(last);
}

static void layer(plain_mace_net *net, int t, double *energy)
{
  const int n_out = t == net->n_layers - 1 ? 1 : net->n_orders, selects = !strcmp(net->skip[t], "messages");
  double *a = features(net), *p = features(net), *x = features(net);
  net->y = features(net);
  net->z = calloc((size_t) (net->n * net->n_z * COMPONENTS), sizeof *net->z);
  for (int l = 0; l < net->n_in; l++)
    add_map(net, t, "linear_up", l, n_sent(net, t, l), net->n_channels, net->x, net->y, net->n_channels);
  messages(net, t);
  if (net->is_nonlinear) gate(net, t, a);
  for (int l = 0; l <= net->lmax && selects; l++) select_element(net, t, l, net->z, a);
  for (int l = 0; l < n_out; l++) {
    for (int degree = 1; degree <= (int) net->degree[t]; degree++)
      add_polynomial(net, t, l, degree, selects || net->is_nonlinear ? a : net->z, p);
    linear(net, t, "product.linear", l, p, x);
    if (net->is_nonlinear && l < net->n_in)
      linear(net, t, "skip", l, net->x, x);
    else if (!selects && l < net->n_in)
      select_element(net, t, l, net->x, x); /* M6: x before linear_up */
  }
  read_out(net, t, x, energy);
  double *const done[] = {net->x, net->y, net->z, a, p};
  for (size_t k = 0; k < sizeof done / sizeof *done; k++) free(done[k]);
  net->x = x;
  net->n_in = n_out;
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

static void read_radial(plain_mace_net *net, const mlff_yaml *block)
{
  mlff_nequip_basis *basis = &net->network.basis;
  mlff_error error = {.code = MLFF_OK};
  const mlff_yaml *part = NULL;
  const char *kind = NULL, *transform = NULL, *activation = NULL;
  test_ok(mlff_yaml_map(net->file, block, "radial_basis", &part, &error), error);
  test_ok(mlff_yaml_int(net->file, part, "n", 1, 128, &basis->n, &error), error);
  test_ok(mlff_yaml_string(net->file, part, "kind", &kind, &error), error);
  basis->prefactor = sqrt(2 / basis->cutoff); /* M9 */
  if (!strcmp(kind, "gaussian")) {
    test_ok(mlff_yaml_double(net->file, part, "coefficient", -99, 0, &basis->coefficient, &error), error);
    basis->prefactor = 1;
  }
  net->network.frequency =
      tensor(net, 1, (int64_t[]){basis->n}, basis->coefficient < 0 ? "radial_centers" : "radial_frequencies");
  test_ok(mlff_yaml_string(net->file, block, "activation", &activation, &error), error);
  net->is_tanh = !strcmp(activation, "tanh");
  test_ok(mlff_yaml_map(net->file, block, "distance_transform", &part, &error), error);
  test_ok(mlff_yaml_string(net->file, part, "kind", &transform, &error), error);
  if (!strcmp(transform, "none")) return;
  test_ok(mlff_yaml_double(net->file, part, "a", 0, 99, &basis->a, &error), error);
  basis->transform = MLFF_NEQUIP_SOFT;
  net->radius = tensor(net, 1, (int64_t[]){net->n_elements}, "covalent_radii");
  if (strcmp(transform, "agnesi") != 0) return;
  basis->transform = MLFF_NEQUIP_AGNESI;
  test_ok(mlff_yaml_double(net->file, part, "p", 0, 99, &basis->p, &error), error);
  test_ok(mlff_yaml_double(net->file, part, "q", 0, 99, &basis->q, &error), error);
}

static int has_word(const plain_mace_net *net, const mlff_yaml *block, const char *key, const char *word)
{
  const char *found = NULL;
  mlff_error error = {.code = MLFF_OK};
  if (!mlff_yaml_has(block, key)) return 0;
  test_ok(mlff_yaml_string(net->file, block, key, &found, &error), error);
  return !strcmp(found, word);
}

/* Optional keys, and those of non-linear blocks. */
static void read_nonlinear(plain_mace_net *net, const mlff_yaml *block)
{
  const mlff_yaml *part = NULL;
  mlff_error error = {.code = MLFF_OK};
  const double *sent = NULL;
  double norm = 1, gate_norm = 1;
  int n = 0;
  net->is_common = has_word(net, block, "product_weights", "common");
  net->is_last_only = has_word(net, block, "readouts", "last");
  net->n_readout_layers = 1;
  if (mlff_yaml_has(block, "n_readout_layers"))
    test_ok(mlff_yaml_int(net->file, block, "n_readout_layers", 1, 2, &net->n_readout_layers, &error), error);
  net->n_sent_first = net->n_z = net->n_channels;
  for (int l = 0; l < 4; l++) net->n_sent[l] = net->n_channels;
  net->is_nonlinear = mlff_yaml_has(block, "nonlinear");
  if (!net->is_nonlinear) return;
  net->n_z = net->n_channels * (net->lmax + 1);
  test_ok(mlff_yaml_map(net->file, block, "nonlinear", &part, &error), error);
  test_ok(mlff_yaml_int(net->file, part, "n_edge_first", 1, 64, &net->n_sent_first, &error), error);
  test_ok(mlff_yaml_doubles(net->file, part, "n_edge", -1, &sent, &n, &error), error);
  for (int l = 0; l < n; l++) net->n_sent[l] = (int) sent[l];
  test_ok(mlff_yaml_double(net->file, part, "norm_epsilon", 0, 1, &net->network.epsilon, &error), error);
  test_ok(mlff_yaml_double(net->file, part, "activation_norm", 0, 9, &norm, &error), error);
  test_ok(mlff_yaml_double(net->file, part, "gate_norm", 0, 9, &gate_norm, &error), error);
  net->scalar_gain = 1 / norm;
  net->gate_gain = 1 / gate_norm;
  net->network.is_normed = 1;
  net->density_network = net->network;
  net->density_network.is_density = 1;
  net->density_network.n_hidden = 2;
  net->density_network.width[1] = 1;
  test_ok(mlff_yaml_int(net->file, part, "n_density", 1, 127, &net->density_network.width[0], &error), error);
}

static void read_block(plain_mace_net *net)
{
  const mlff_yaml *block = NULL, *part = NULL;
  mlff_nequip_basis *basis = &net->network.basis;
  mlff_error error = {.code = MLFF_OK};
  const double *hidden = NULL;
  double norm = 1;
  int n = 0;
  test_ok(mlff_yaml_map(net->file, mlff_modelfile_root(net->file), "mace", &block, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_layers", 1, 16, &net->n_layers, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "lmax", 0, 3, &net->lmax, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_orders", 1, 4, &net->n_orders, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_channels", 1, 64, &net->n_channels, &error), error);
  test_ok(mlff_yaml_doubles(net->file, block, "degree", -1, &net->degree, &n, &error), error);
  test_ok(mlff_yaml_strings(net->file, block, "skip", &net->skip, &n, &error), error);
  test_ok(mlff_yaml_doubles(net->file, block, "products", -1, &net->products, &n, &error), error);
  test_ok(mlff_yaml_doubles(net->file, block, "avg_num_neighbors", -1, &net->avg, &n, &error), error);
  test_ok(mlff_yaml_strings(net->file, block, "divisor", &net->divisor, &n, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_readout", 0, 64, &net->n_readout, &error), error);
  test_ok(mlff_yaml_double(net->file, block, "activation_norm", 0, 9, &norm, &error), error);
  net->gain = 1 / norm;
  test_ok(mlff_yaml_map(net->file, block, "cutoff_function", &part, &error), error);
  test_ok(mlff_yaml_double(net->file, part, "p", 0, 99, &basis->power, &error), error);
  test_ok(mlff_yaml_map(net->file, block, "radial_network", &part, &error), error);
  test_ok(mlff_yaml_doubles(net->file, part, "hidden", -1, &hidden, &net->network.n_hidden, &error), error);
  test_ok(mlff_yaml_double(net->file, part, "activation_norm", 0, 9, &norm, &error), error);
  for (int k = 0; k < net->network.n_hidden; k++) net->network.width[k] = (int) hidden[k];
  net->network.gain = 1 / norm;
  read_radial(net, block);
  read_nonlinear(net, block);
}

void plain_mace(const test_model *model, const test_atoms *atoms, double *energy)
{
  mlff_modelfile *file = test_model_must_parse(model);
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  plain_mace_net net = {.file = file,
                        .atoms = atoms,
                        .n = atoms->n,
                        .n_elements = head->n_elements,
                        .n_in = 1,
                        .network = {.basis = {.cutoff = head->cutoff}}};
  mlff_system *system = test_system(atoms, head->cutoff);
  net.graph = mlff_system_graph(system);
  read_block(&net);
  double *scale = tensor(&net, 1, (int64_t[]){1}, "energy_scale");
  double *w = tensor(&net, 2, (int64_t[]){net.n_channels, net.n_elements}, "embedding");
  net.scale = scale[0];
  net.x = features(&net);
  for (int i = 0; i < net.n; i++) {
    energy[i] = 0;
    for (int c = 0; c < net.n_channels; c++)
      net.x[(i * net.n_channels + c) * COMPONENTS] =
          w[c * net.n_elements + atoms->species[i]] / sqrt(net.n_elements); /* M3 */
  }
  for (int t = 0; t < net.n_layers; t++) layer(&net, t, energy);
  free(net.x);
  free((double *) net.network.frequency);
  free((double *) net.radius);
  free(scale);
  free(w);
  mlff_system_free(system);
  mlff_modelfile_free(file);
}
