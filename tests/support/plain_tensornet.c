/* plain_tensornet.c: see plain_tensornet.h. Features are 3x3 matrices, [n][channels][9]. */
#include "plain_tensornet.h"

#include "model/modelfile.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHANNELS = 64, MOST_BASIS = 64 };

typedef struct plain_tensornet_net {
  const mlff_modelfile *file;
  const mlff_graph *graph;
  const test_atoms *atoms;
  int n, n_elements, n_layers, f, n_basis;
  int is_gaussian, act, is_so3, from_center;
  double cutoff, exponent, epsilon, scale, *centers;
  double *x, *y, *m; /* [n][f][9] */
} plain_tensornet_net;

static double *tensor(const plain_tensornet_net *net, int n_rows, int n_cols, const char *format, ...)
{
  char name[96];
  double *values = NULL;
  mlff_error error = {.code = MLFF_OK};
  const int64_t shape[2] = {n_rows, n_cols};
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  test_ok(mlff_modelfile_tensor(net->file, name, n_cols ? 2 : 1, shape, &values, &error), error);
  return values;
}

static double activate(int act, double x)
{
  switch (act) {
  case 0: return x / (1 + exp(-x));
  case 1: return tanh(x);
  case 2: return 1 / (1 + exp(-x));
  case 3: return log(1 + exp(x)) - log(2);
  default: return x;
  }
}

/* y = act(W x + b), W, b = NAME.weight, NAME.bias; act -1: none */
static void linear(const plain_tensornet_net *net, const char *name, int n_out, int n_in, int act, const double *x,
                   double *y)
{
  double *w = tensor(net, n_out, n_in, "%s.weight", name), *b = tensor(net, n_out, 0, "%s.bias", name);
  for (int o = 0; o < n_out; o++) {
    double sum = b[o];
    for (int c = 0; c < n_in; c++) sum += w[o * n_in + c] * x[c];
    y[o] = activate(act, sum);
  }
  free(w);
  free(b);
}

/* Layer norm in place. */
static void norm(const plain_tensornet_net *net, const char *name, int n, double *x)
{
  double *w = tensor(net, n, 0, "%s.weight", name), *b = tensor(net, n, 0, "%s.bias", name), mean = 0, variance = 0;
  for (int k = 0; k < n; k++) mean += x[k] / n;
  for (int k = 0; k < n; k++) variance += (x[k] - mean) * (x[k] - mean) / n;
  for (int k = 0; k < n; k++) x[k] = (x[k] - mean) / sqrt(variance + net->epsilon) * w[k] + b[k];
  free(w);
  free(b);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

/* The part I, A or S of x. */
static void part_of(int part, const double x[9], double out[9])
{
  const double third = (x[0] + x[4] + x[8]) / 3;
  for (int a = 0; a < 3; a++) {
    for (int b = 0; b < 3; b++) {
      const double one = a == b ? third : 0, even = 0.5 * (x[3 * a + b] + x[3 * b + a]);
      out[3 * a + b] = part == 0 ? one : part == 1 ? x[3 * a + b] - even : even - one;
    }
  }
}

static double square(const double x[9])
{
  double sum = 0;
  for (int k = 0; k < 9; k++) sum += x[k] * x[k];
  return sum;
}

/* out += scale a b */
static void add_product(double scale, const double a[9], const double b[9], double out[9])
{
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++)
      for (int k = 0; k < 3; k++) out[3 * i + j] += scale * a[3 * i + k] * b[3 * k + j];
}

static void normalize(double x[9])
{
  const double s = square(x) + 1;
  for (int k = 0; k < 9; k++) x[k] /= s;
}

/* out = the matrices NAME.I, NAME.A and NAME.S over channels, for all atoms */
static void mix(const plain_tensornet_net *net, const char *name, const double *in, double *out)
{
  const int f = net->f;
  memset(out, 0, (size_t) (net->n * f * 9) * sizeof *out);
  for (int p = 0; p < 3; p++) {
    double *w = tensor(net, f, f, "%s.%c", name, "IAS"[p]);
    for (int i = 0; i < net->n; i++)
      for (int c = 0; c < f; c++) {
        double part[9];
        part_of(p, in + (i * f + c) * 9, part);
        for (int o = 0; o < f; o++)
          for (int k = 0; k < 9; k++) out[(i * f + o) * 9 + k] += w[o * f + c] * part[k];
      }
    free(w);
  }
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* The smooth functions by their definition: Gram-Schmidt of f_k. */
static void smooth_bessel(int n, double cutoff, double r, double *g)
{
  const double pi = acos(-1.0);
  double d = 1;
  for (int k = 0; k < n; k++) {
    const double a = (k + 1) * pi * r / cutoff, b = (k + 2) * pi * r / cutoff, e0 = k * (k + 2);
    const double e = e0 * e0 / (4 * pow(k + 1, 4) + 1), before = d;
    const double f = pow(-1, k) * sqrt(2) * pi / pow(cutoff, 1.5) * (k + 1) * (k + 2) / hypot(k + 1, k + 2) *
                     (sin(a) / a + sin(b) / b);
    d = k ? 1 - e / before : 1;
    g[k] = (f + (k ? sqrt(e / before) * g[k - 1] : 0)) / sqrt(d);
  }
}

typedef struct plain_edge {
  int j;
  double u[3], g[MOST_BASIS], fc;
} plain_edge;

/* Returns 0 for a pair beyond the cutoff. */
static int find_edge(const plain_tensornet_net *net, int i, int64_t p, plain_edge *e)
{
  const int32_t k = net->graph->nbr[p];
  double r = 0;
  for (int c = 0; c < 3; c++) {
    e->u[c] = net->graph->pos[k][c] - net->graph->pos[i][c];
    r += e->u[c] * e->u[c];
  }
  r = sqrt(r);
  if (r >= net->cutoff) return 0;
  for (int c = 0; c < 3; c++) e->u[c] /= r;
  e->j = net->graph->node[k];
  e->fc = 0.5 * (cos(acos(-1.0) * r / net->cutoff) + 1);
  if (net->is_gaussian)
    for (int b = 0; b < net->n_basis; b++) e->g[b] = exp(-net->exponent * pow(r - net->centers[b], 2));
  else
    smooth_bessel(net->n_basis, net->cutoff, r, e->g);
  return 1;
}

/* The matrix of part p of an edge: 1, [u]x, u u^T - 1/3 */
static double edge_matrix(int p, const double u[3], int a, int b)
{
  if (p == 0) return a == b;
  if (p == 2) return u[a] * u[b] - (a == b) / 3.0;
  return a == b ? 0 : ((b - a + 3) % 3 == 1 ? -1 : 1) * u[3 - a - b];
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

static void embed_edge(const plain_tensornet_net *net, const double *em, const double *center, const double *neighbor,
                       const double *bias, int i, const plain_edge *e)
{
  const int f = net->f, *species = net->atoms->species;
  double w[3][MOST_CHANNELS];
  for (int p = 0; p < 3; p++) {
    const char name[] = {"embedding.radial.?"};
    char of_part[sizeof name];
    memcpy(of_part, name, sizeof name);
    of_part[sizeof name - 2] = "IAS"[p];
    linear(net, of_part, f, net->n_basis, -1, e->g, w[p]);
  }
  for (int c = 0; c < f; c++) {
    double z = bias[c];
    for (int k = 0; k < f; k++)
      z += center[c * f + k] * em[species[i] * f + k] + neighbor[c * f + k] * em[species[e->j] * f + k];
    for (int p = 0; p < 3; p++)
      for (int k = 0; k < 9; k++)
        net->x[(i * f + c) * 9 + k] += z * w[p][c] * e->fc * edge_matrix(p, e->u, k / 3, k % 3);
  }
}

static void embed(const plain_tensornet_net *net)
{
  const int f = net->f;
  double *em = tensor(net, net->n_elements, f, "embedding.species"), *bias = tensor(net, f, 0, "embedding.pair.bias");
  double *center = tensor(net, f, f, "embedding.pair.center"), *neighbor = tensor(net, f, f, "embedding.pair.neighbor");
  for (int i = 0; i < net->n; i++)
    for (int64_t p = net->graph->row[i]; p < net->graph->row[i + 1]; p++) {
      plain_edge e;
      if (find_edge(net, i, p, &e)) embed_edge(net, em, center, neighbor, bias, i, &e);
    }
  mix(net, "embedding.mix", net->x, net->y);
  for (int i = 0; i < net->n; i++) {
    double h[MOST_CHANNELS], hidden[2 * MOST_CHANNELS], s[3 * MOST_CHANNELS];
    for (int c = 0; c < f; c++) h[c] = square(net->x + (i * f + c) * 9);
    norm(net, "embedding.norm", f, h);
    linear(net, "embedding.scalar.0", 2 * f, f, net->act, h, hidden);
    linear(net, "embedding.scalar.1", 3 * f, 2 * f, net->act, hidden, s);
    for (int c = 0; c < f; c++) {
      double *x = net->x + (i * f + c) * 9, part[9];
      memset(x, 0, 9 * sizeof *x);
      for (int p = 0; p < 3; p++) {
        part_of(p, net->y + (i * f + c) * 9, part);
        for (int k = 0; k < 9; k++) x[k] += s[3 * c + p] * part[k];
      }
    }
  }
  double *const arrays[] = {em, bias, center, neighbor};
  for (int k = 0; k < 4; k++) free(arrays[k]);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static void add_message(const plain_tensornet_net *net, int t, int i, const plain_edge *e)
{
  const int f = net->f, from = net->from_center ? i : e->j, widths[4] = {net->n_basis, f, 2 * f, 3 * f};
  double h[2][3 * MOST_CHANNELS];
  memcpy(h[0], e->g, (size_t) net->n_basis * sizeof(double));
  for (int k = 0; k < 3; k++) {
    char name[64];
    snprintf(name, sizeof name, "layers.%d.radial.%d", t, k);
    linear(net, name, widths[k + 1], widths[k], net->act, h[k % 2], h[(k + 1) % 2]);
  }
  for (int c = 0; c < f; c++)
    for (int p = 0; p < 3; p++) {
      double part[9];
      part_of(p, net->y + (from * f + c) * 9, part);
      for (int k = 0; k < 9; k++) net->m[(i * f + c) * 9 + k] += h[1][3 * c + p] * e->fc * part[k];
    }
}

static void layer(const plain_tensornet_net *net, int t)
{
  const int f = net->f;
  char name[64];
  for (int k = 0; k < net->n * f; k++) normalize(net->x + 9 * k);
  snprintf(name, sizeof name, "layers.%d.mix_1", t);
  mix(net, name, net->x, net->y);
  memset(net->m, 0, (size_t) (net->n * f * 9) * sizeof(double));
  for (int i = 0; i < net->n; i++)
    for (int64_t p = net->graph->row[i]; p < net->graph->row[i + 1]; p++) {
      plain_edge e;
      if (find_edge(net, i, p, &e)) add_message(net, t, i, &e);
    }
  for (int k = 0; k < net->n * f; k++) {
    double q[9] = {0};
    add_product(net->is_so3 ? 2 : 1, net->y + 9 * k, net->m + 9 * k, q);
    if (!net->is_so3) add_product(1, net->m + 9 * k, net->y + 9 * k, q);
    normalize(q);
    memcpy(net->m + 9 * k, q, sizeof q);
  }
  snprintf(name, sizeof name, "layers.%d.mix_2", t);
  mix(net, name, net->m, net->y);
  for (int k = 0; k < net->n * f; k++) {
    const double *d = net->y + 9 * k;
    for (int c = 0; c < 9; c++) net->x[9 * k + c] += d[c];
    add_product(1, d, d, net->x + 9 * k);
  }
}

static double readout(const plain_tensornet_net *net, int i)
{
  const int f = net->f;
  double h[3 * MOST_CHANNELS], z[MOST_CHANNELS], out[2];
  for (int c = 0; c < f; c++)
    for (int p = 0; p < 3; p++) {
      double part[9];
      part_of(p, net->x + (i * f + c) * 9, part);
      h[p * f + c] = square(part);
    }
  norm(net, "out.norm", 3 * f, h);
  linear(net, "out.linear", f, 3 * f, -1, h, z);
  for (int branch = 0; branch < 2; branch++) {
    double u[2][MOST_CHANNELS];
    memcpy(u[0], z, sizeof z);
    for (int k = 0; k < 4; k++) {
      char name[64];
      snprintf(name, sizeof name, "readout.%s.%d", branch ? "gate" : "value", k);
      linear(net, name, k < 3 ? f : 1, f, k < 3 ? 0 : -1, u[k % 2], u[(k + 1) % 2]);
    }
    out[branch] = u[0][0];
  }
  return net->scale * out[0] / (1 + exp(-out[1]));
}

static void read_block(plain_tensornet_net *net)
{
  static const char *const kinds[] = {"bessel_smooth", "gaussian", NULL}, *const groups[] = {"o3", "so3", NULL};
  static const char *const acts[] = {"silu", "tanh", "sigmoid", "softplus", NULL};
  static const char *const sources[] = {"neighbor", "center", NULL};
  const mlff_yaml *block = NULL, *basis = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_map(net->file, mlff_modelfile_root(net->file), "tensornet", &block, &error), error);
  test_ok(mlff_yaml_map(net->file, block, "radial_basis", &basis, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_features", 1, MOST_CHANNELS, &net->f, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_layers", 1, 16, &net->n_layers, &error), error);
  test_ok(mlff_yaml_choice(net->file, block, "activation", acts, &net->act, &error), error);
  test_ok(mlff_yaml_choice(net->file, block, "group", groups, &net->is_so3, &error), error);
  test_ok(mlff_yaml_choice(net->file, block, "message_from", sources, &net->from_center, &error), error);
  test_ok(mlff_yaml_double(net->file, block, "norm_epsilon", 0, 1, &net->epsilon, &error), error);
  test_ok(mlff_yaml_double(net->file, block, "energy_scale", -10, 10, &net->scale, &error), error);
  test_ok(mlff_yaml_int(net->file, basis, "n", 1, MOST_BASIS, &net->n_basis, &error), error);
  test_ok(mlff_yaml_choice(net->file, basis, "kind", kinds, &net->is_gaussian, &error), error);
  if (!net->is_gaussian) return;
  test_ok(mlff_yaml_double(net->file, basis, "exponent", 0, 100, &net->exponent, &error), error);
  net->centers = tensor(net, net->n_basis, 0, "radial.centers");
}

void plain_tensornet(const test_model *model, const test_atoms *atoms, double *energy)
{
  mlff_modelfile *file = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_modelfile_parse("plain.yaml", model->yaml, model->yaml_size, model->weights, model->weights_size, &file,
                               &error),
          error);
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  plain_tensornet_net net = {.file = file,
                             .n = atoms->n,
                             .atoms = atoms,
                             .n_elements = head->n_elements,
                             .cutoff = head->cutoff};
  mlff_system *system = test_system(atoms, head->cutoff);
  net.graph = mlff_system_graph(system);
  read_block(&net);
  double *const arrays[] = {calloc((size_t) (net.n * net.f * 9), 8), calloc((size_t) (net.n * net.f * 9), 8),
                            calloc((size_t) (net.n * net.f * 9), 8)};
  net.x = arrays[0];
  net.y = arrays[1];
  net.m = arrays[2];
  embed(&net);
  for (int t = 0; t < net.n_layers; t++) layer(&net, t);
  for (int i = 0; i < atoms->n; i++) energy[i] = readout(&net, i);
  for (int k = 0; k < 3; k++) free(arrays[k]);
  free(net.centers);
  mlff_system_free(system);
  mlff_modelfile_free(file);
}
