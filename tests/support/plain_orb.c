#include "plain_orb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct plain_edge {
  int s, r; /* sender and receiver, atoms */
  double v[3], d;
} plain_edge;

typedef struct plain_net {
  const mlff_modelfile *file;
  int n, n_edges, f, n_hidden, n_layers, n_readout, n_neighbours, n_basis;
  double cutoff, radius, epsilon;
  plain_edge *edges; /* [n][n_neighbours] at most */
} plain_net;

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static int compare_vectors(const double a[3], const double b[3])
{
  for (int c = 0; c < 3; c++)
    if (fabs(a[c] - b[c]) > 1e-6) return a[c] < b[c] ? -1 : 1;
  return 0;
}

static int by_distance(const void *first, const void *second)
{
  const plain_edge *a = first, *b = second;
  if (fabs(a->d - b->d) > 1e-9) return a->d < b->d ? -1 : 1;
  return a->r != b->r ? a->r - b->r : compare_vectors(a->v, b->v);
}

static void find_edges(plain_net *net, const test_atoms *atoms)
{
  mlff_system *system = test_system(atoms, net->cutoff);
  const mlff_graph *g = mlff_system_graph(system);
  net->edges = calloc((size_t) (net->n * net->n_neighbours), sizeof *net->edges);
  for (int i = 0; i < net->n; i++) {
    plain_edge *all = calloc((size_t) (g->row[i + 1] - g->row[i]) + 1, sizeof *all);
    int n = 0;
    for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
      plain_edge e = {.s = i, .r = g->node[g->nbr[p]]};
      for (int c = 0; c < 3; c++) e.v[c] = g->pos[g->nbr[p]][c] - g->pos[i][c];
      e.d = sqrt(e.v[0] * e.v[0] + e.v[1] * e.v[1] + e.v[2] * e.v[2]);
      if (e.d < net->cutoff) all[n++] = e;
    }
    qsort(all, (size_t) n, sizeof *all, by_distance);
    for (int k = 0; k < n && k < net->n_neighbours; k++) net->edges[net->n_edges++] = all[k];
    free(all);
  }
  mlff_system_free(system);
}

/* ---- networks ---------------------------------------------------------------------------------------------------- */

static double *tensor(const plain_net *net, int rows, int cols, const char *name, const char *what)
{
  char full[96];
  double *values = NULL;
  mlff_error error = {.code = MLFF_OK};
  const int64_t shape[2] = {rows, cols};
  snprintf(full, sizeof full, "%s%s", name, what);
  test_ok(mlff_modelfile_tensor(net->file, full, cols ? 2 : 1, shape, &values, &error), error);
  return values;
}

/* W x + b for n rows x [n_in], of NAME.LAYER, or NAME where layer is -1; the caller's to free. */
static double *linear(const plain_net *net, const char *name, int layer, int n, int n_out, int n_in, const double *x)
{
  char of[80];
  snprintf(of, sizeof of, layer < 0 ? "%s" : "%s.%d", name, layer);
  double *w = tensor(net, n_out, n_in, of, ".weight"), *b = tensor(net, n_out, 0, of, ".bias");
  double *y = malloc(((size_t) n * (size_t) n_out + 1) * sizeof *y);
  for (int i = 0; i < n; i++)
    for (int o = 0; o < n_out; o++) {
      y[i * n_out + o] = b[o];
      for (int k = 0; k < n_in; k++) y[i * n_out + o] += w[o * n_in + k] * x[i * n_in + k];
    }
  free(w);
  free(b);
  return y;
}

/* softplus less ln 2 */
static void activate(double *x, int n)
{
  for (int k = 0; k < n; k++) x[k] = (x[k] > 20 ? x[k] : log(1 + exp(x[k]))) - log(2);
}

/* A network of these widths [n_layers + 1], for n rows; the caller's to free. */
static double *network(const plain_net *net, const char *name, int n_layers, const int *widths, int n, const double *x)
{
  double *y = linear(net, name, 0, n, widths[1], widths[0], x);
  for (int k = 1; k < n_layers; k++) {
    double *below = y;
    activate(below, n * widths[k]);
    y = linear(net, name, k, n, widths[k + 1], widths[k], below);
    free(below);
  }
  return y;
}

/* Adds the normalised output of a network of three layers to y, n rows of n_features. */
static void add_network(const plain_net *net, const char *name, int n_in, int n, const double *x, double *y)
{
  const int f = net->f, widths[4] = {n_in, net->n_hidden, net->n_hidden, f};
  double *out = network(net, name, 3, widths, n, x);
  double *gain = tensor(net, f, 0, name, ".norm.weight"), *shift = tensor(net, f, 0, name, ".norm.bias");
  for (int i = 0; i < n; i++) {
    double mean = 0, variance = 0;
    for (int k = 0; k < f; k++) mean += out[i * f + k] / f;
    for (int k = 0; k < f; k++) variance += pow(out[i * f + k] - mean, 2) / f;
    for (int k = 0; k < f; k++)
      y[i * f + k] += (out[i * f + k] - mean) / sqrt(variance + net->epsilon) * gain[k] + shift[k];
  }
  free(out);
  free(gain);
  free(shift);
}

static void encode_edges(const plain_net *net, double *e)
{
  const int n_in = net->n_basis + 3;
  double *x = malloc(((size_t) (net->n_edges * n_in) + 1) * sizeof *x);
  for (int k = 0; k < net->n_edges; k++) {
    const plain_edge *edge = &net->edges[k];
    for (int b = 0; b < net->n_basis; b++) x[k * n_in + b] = exp(-pow(edge->d - b * net->radius / net->n_basis, 2));
    for (int c = 0; c < 3; c++) x[k * n_in + net->n_basis + c] = edge->v[c] / edge->d;
  }
  add_network(net, "edge_encoder", n_in, net->n_edges, x, e);
  free(x);
}

/* sum_i += gate(e) m for the end of each edge that the gate is of; e without m */
static void add_messages(const plain_net *net, const char *gate, int is_sender, const double *e, const double *m,
                         double *sum)
{
  const int f = net->f;
  double *open = linear(net, gate, -1, net->n_edges, 1, f, e);
  for (int k = 0; k < net->n_edges; k++) {
    const plain_edge *edge = &net->edges[k];
    const double x = edge->d / net->cutoff;
    const double a = (1 - 15 * pow(x, 4) + 24 * pow(x, 5) - 10 * pow(x, 6)) / (1 + exp(-open[k]));
    for (int c = 0; c < f; c++) sum[(is_sender ? edge->s : edge->r) * f + c] += a * m[k * f + c];
  }
  free(open);
}

static void run_layer(const plain_net *net, int l, double *h, double *e)
{
  const size_t f = (size_t) net->f, n = (size_t) net->n, n_edges = (size_t) net->n_edges;
  double *x = calloc(3 * f * (n + n_edges), sizeof *x), *m = calloc(n_edges * f + 1, sizeof *m);
  double *sums[2] = {calloc(n * f, sizeof **sums), calloc(n * f, sizeof **sums)};
  char name[48];
  for (size_t k = 0; k < n_edges; k++) {
    memcpy(x + 3 * k * f, e + k * f, f * sizeof *x);
    memcpy(x + (3 * k + 1) * f, h + (size_t) net->edges[k].s * f, f * sizeof *x);
    memcpy(x + (3 * k + 2) * f, h + (size_t) net->edges[k].r * f, f * sizeof *x);
  }
  snprintf(name, sizeof name, "layer.%d.edge", l);
  add_network(net, name, 3 * net->f, net->n_edges, x, m);
  for (int k = 0; k < 2; k++) {
    snprintf(name, sizeof name, "layer.%d.%s", l, k ? "send" : "receive");
    add_messages(net, name, k, e, m, sums[k]);
  }
  for (size_t i = 0; i < n; i++) {
    memcpy(x + 3 * i * f, h + i * f, f * sizeof *x);
    for (size_t k = 0; k < 2; k++) memcpy(x + (3 * i + 1 + k) * f, sums[k] + i * f, f * sizeof *x);
  }
  snprintf(name, sizeof name, "layer.%d.node", l);
  add_network(net, name, 3 * net->f, net->n, x, h);
  for (size_t k = 0; k < n_edges * f; k++) e[k] += m[k];
  free(x);
  free(m);
  for (int k = 0; k < 2; k++) free(sums[k]);
}

/* ---- heads ------------------------------------------------------------------------------------------------------- */

/* The mean and the root of the variance of an output. */
static void normalizer(const plain_net *net, const char *key, double of[2])
{
  const mlff_yaml *block = NULL, *map = NULL;
  const double *values = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_map(net->file, mlff_modelfile_root(net->file), "orb", &block, &error), error);
  test_ok(mlff_yaml_map(net->file, block, "normalizers", &map, &error), error);
  test_ok(mlff_yaml_doubles(net->file, map, key, 2, &values, NULL, &error), error);
  of[0] = values[0];
  of[1] = sqrt(values[1]);
}

/* NAME's outputs [n][n_out] for n rows of features. */
static double *head(const plain_net *net, const char *name, int n_out, int n, const double *x)
{
  const int widths[3] = {net->f, net->n_readout, n_out};
  return network(net, name, 2, widths, n, x);
}

static void cross(const double a[3], const double b[3], double c[3])
{
  for (int k = 0; k < 3; k++) c[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

static double triple_product(const double a[3], const double b[3], const double c[3])
{
  double bc[3];
  cross(b, c, bc);
  return a[0] * bc[0] + a[1] * bc[1] + a[2] * bc[2];
}

/* Adds the rigid rotation that cancels the torque of forces on atoms at q: by Cramer's rule; of two atoms, whose torque
 * has no part along their line, by their moment of inertia; of one atom, nothing. */
static void remove_torque(int n, const double (*q)[3], double (*forces)[3])
{
  double torque[3] = {0}, inertia[3][3] = {{0}}, mu[3] = {0}, arm[3], q2 = 0;
  for (int i = 0; i < n; i++) {
    const double square = q[i][0] * q[i][0] + q[i][1] * q[i][1] + q[i][2] * q[i][2];
    cross(q[i], forces[i], arm);
    q2 += square;
    for (int a = 0; a < 3; a++) {
      torque[a] += arm[a];
      for (int b = 0; b < 3; b++) inertia[a][b] += (a == b ? square : 0) - q[i][a] * q[i][b];
    }
  }
  for (int k = 0; k < 3 && n > 1; k++) {
    double with[3][3];
    memcpy(with, inertia, sizeof with);
    memcpy(with[k], torque, sizeof torque); /* symmetric: a row is a column */
    mu[k] = n == 2 ? torque[k] / q2
                   : triple_product(with[0], with[1], with[2]) / triple_product(inertia[0], inertia[1], inertia[2]);
  }
  for (int i = 0; i < n; i++) {
    cross(mu, q[i], arm);
    for (int c = 0; c < 3; c++) forces[i][c] -= arm[c];
  }
}

/* xx yy zz xy xz yz */
static const int row_of[6] = {0, 1, 2, 0, 0, 1}, column_of[6] = {0, 1, 2, 1, 2, 2};

static void finish_open(const plain_net *net, const test_atoms *atoms, double (*forces)[3], double *virial)
{
  double centroid[3] = {0}, unit[2], (*q)[3] = malloc((size_t) net->n * sizeof *q);
  normalizer(net, "forces", unit);
  for (int k = 0; k < 3 * net->n; k++) centroid[k % 3] += atoms->pos[k / 3][k % 3] / net->n;
  for (int k = 0; k < 3 * net->n; k++) q[k / 3][k % 3] = atoms->pos[k / 3][k % 3] - centroid[k % 3];
  remove_torque(net->n, (const double(*)[3]) q, forces);
  for (int k = 0; k < 6; k++) virial[k] = 0;
  for (int i = 0; i < net->n; i++)
    for (int k = 0; k < 6; k++) {
      const int a = row_of[k], b = column_of[k];
      virial[k] += 0.5 * (q[i][a] * (forces[i][b] * unit[1] + unit[0]) + q[i][b] * (forces[i][a] * unit[1] + unit[0]));
    }
  free(q);
}

static void finish_periodic(const plain_net *net, const test_atoms *atoms, const double *mean, double *virial)
{
  static const int voigt[6] = {0, 1, 2, 5, 4, 3}; /* the head's order is xx yy zz yz xz xy */
  const double volume = fabs(triple_product(atoms->cell[0], atoms->cell[1], atoms->cell[2]));
  double unit[2], *stress = head(net, "stress", 6, 1, mean);
  normalizer(net, "stress", unit);
  for (int k = 0; k < 6; k++) virial[k] = -volume * (stress[voigt[k]] * unit[1] + unit[0]);
  free(stress);
}

static void finish(const plain_net *net, const test_atoms *atoms, const double *h, double *energy, double (*forces)[3],
                   double *virial)
{
  const int n = net->n, f = net->f;
  double unit[2], total[3] = {0}, *mean = calloc((size_t) f, sizeof *mean);
  for (int k = 0; k < n * f; k++) mean[k % f] += h[k] / n;
  double *of_mean = head(net, "energy", 1, 1, mean), *out = head(net, "forces", 3, n, h);
  normalizer(net, "energy", unit);
  *energy = n * (of_mean[0] * unit[1] + unit[0]);
  for (int k = 0; k < 3 * n; k++) total[k % 3] += out[k];
  for (int k = 0; k < 3 * n; k++) forces[k / 3][k % 3] = out[k] - total[k % 3] / n;
  if (atoms->pbc[0])
    finish_periodic(net, atoms, mean, virial);
  else
    finish_open(net, atoms, forces, virial);
  normalizer(net, "forces", unit);
  for (int k = 0; k < 3 * n; k++) forces[k / 3][k % 3] = forces[k / 3][k % 3] * unit[1] + unit[0];
  free(mean);
  free(of_mean);
  free(out);
}

static void read_hyper_parameters(plain_net *net)
{
  const mlff_yaml *block = NULL, *basis = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_map(net->file, mlff_modelfile_root(net->file), "orb", &block, &error), error);
  test_ok(mlff_yaml_map(net->file, block, "radial_basis", &basis, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_features", 1, 1000, &net->f, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_hidden", 1, 1000, &net->n_hidden, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_interactions", 1, 100, &net->n_layers, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_readout", 1, 1000, &net->n_readout, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_neighbours", 1, 1000, &net->n_neighbours, &error), error);
  test_ok(mlff_yaml_double(net->file, block, "norm_epsilon", 0, 1, &net->epsilon, &error), error);
  test_ok(mlff_yaml_int(net->file, basis, "n", 1, 1000, &net->n_basis, &error), error);
  test_ok(mlff_yaml_double(net->file, basis, "radius", 0, 1000, &net->radius, &error), error);
}

void plain_orb(const test_model *model, const test_atoms *atoms, double *energy, double (*forces)[3], double *virial)
{
  mlff_modelfile *file = test_model_must_parse(model);
  const mlff_modelfile_head *of = mlff_modelfile_get_head(file);
  plain_net net = {.file = file, .n = atoms->n, .cutoff = of->cutoff};
  read_hyper_parameters(&net);
  find_edges(&net, atoms);
  const size_t f = (size_t) net.f, n = (size_t) net.n;
  double *embedding = tensor(&net, of->n_elements, net.f, "embedding", ""), *x = malloc(n * f * sizeof *x);
  double *h = calloc(n * f, sizeof *h), *e = calloc((size_t) net.n_edges * f + 1, sizeof *e);
  for (size_t i = 0; i < n; i++) memcpy(x + i * f, embedding + (size_t) atoms->species[i] * f, f * sizeof *x);
  add_network(&net, "node_encoder", net.f, net.n, x, h);
  encode_edges(&net, e);
  for (int l = 0; l < net.n_layers; l++) run_layer(&net, l, h, e);
  finish(&net, atoms, h, energy, forces, virial);
  free(embedding);
  free(x);
  free(h);
  free(e);
  free(net.edges);
  mlff_modelfile_free(file);
}
