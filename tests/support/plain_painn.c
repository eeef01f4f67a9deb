#include "plain_painn.h"

#include "published.h"

#include "model/modelfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the network ------------------------------------------------------------------------------------------------- */

typedef struct plain_net {
  const mlff_modelfile *file;
  const mlff_graph *graph;
  int n, f, n_layers, n_readout, n_basis;
  int kind; /* 0 bspline, 1 gaussian, 2 bessel */
  double cutoff, epsilon;
  double *q, *mu;             /* [n][f], [n][3][f] */
  double *x, *q_new, *mu_new; /* [n][3f], as above */
  double *first, *second;     /* of the basis      */
} plain_net;

static double *tensor(const plain_net *net, int rank, int64_t rows, int64_t cols, const char *format, int l)
{
  char name[96];
  double *values = NULL;
  mlff_error error = {.code = MLFF_OK};
  const int64_t shape[2] = {rows, cols};
  snprintf(name, sizeof name, format, l);
  test_ok(mlff_modelfile_tensor(net->file, name, rank, shape, &values, &error), error);
  return values;
}

static double silu(double x)
{
  return x / (1.0 + exp(-x));
}

/* y [n_out] = act(W x + b) with W, b = NAME.weight, NAME.bias of layer l */
static void linear(const plain_net *net, const char *name, int l, int n_out, int n_in, int has_bias, int act,
                   const double *x, double *y)
{
  char format[96];
  snprintf(format, sizeof format, "%s.weight", name);
  double *w = tensor(net, 2, n_out, n_in, format, l), *b = NULL;
  snprintf(format, sizeof format, "%s.bias", name);
  if (has_bias) b = tensor(net, 1, n_out, 0, format, l);
  for (int o = 0; o < n_out; o++) {
    double sum = b ? b[o] : 0.0;
    for (int k = 0; k < n_in; k++) sum += w[o * n_in + k] * x[k];
    y[o] = act ? silu(sum) : sum;
  }
  free(w);
  free(b);
}

/* phi_k(r) times the cutoff function, k < n_basis; element n_basis is what multiplies the bias. */
static void radial(const plain_net *net, double r, double *phi)
{
  const double fc = net->kind ? 0.5 * (cos(acos(-1.0) * r / net->cutoff) + 1.0) : 1.0;
  for (int k = 0; k < net->n_basis; k++) {
    if (net->kind == 0) {
      static const double factor[5] = {1, -4, 6, -4, 1};
      const double t = r * net->n_basis / net->cutoff - (k - 3);
      phi[k] = 0;
      for (int m = 0; m < 5 && t > 0 && t < 4; m++) phi[k] += t > m ? factor[m] * pow(t - m, 3) / 6 : 0;
    } else if (net->kind == 1) {
      phi[k] = fc * exp(-0.5 * pow((r - net->first[k]) / net->second[k], 2));
    } else {
      phi[k] = fc * sin(net->first[k] * r) / r;
    }
  }
  phi[net->n_basis] = fc;
}

/* q += sum a, mu += sum (b u + c mu_j), from the old q and mu everywhere */
static void message(plain_net *net, int l)
{
  const int f = net->f;
  const mlff_graph *g = net->graph;
  double *w = tensor(net, 2, 3 * f, net->n_basis, "filter.%d.weight", l);
  double *b = net->kind ? tensor(net, 1, 3 * f, 0, "filter.%d.bias", l) : NULL;
  double *h = malloc((size_t) f * sizeof *h), phi[128];
  for (int i = 0; i < net->n; i++) {
    linear(net, "context.%d.0", l, f, f, 1, 1, net->q + i * f, h);
    linear(net, "context.%d.1", l, 3 * f, f, 1, 0, h, net->x + 3 * i * f);
  }
  memcpy(net->q_new, net->q, (size_t) (net->n * f) * sizeof(double));
  memcpy(net->mu_new, net->mu, (size_t) (3 * net->n * f) * sizeof(double));
  for (int i = 0; i < net->n; i++) {
    for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
      const int32_t j = g->nbr[p], owner = g->node[j];
      double d[3], r = 0, part[3];
      for (int c = 0; c < 3; c++) d[c] = g->pos[j][c] - g->pos[i][c];
      r = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
      if (r >= net->cutoff) continue;
      radial(net, r, phi);
      for (int k = 0; k < f; k++) {
        for (int c = 0; c < 3; c++) {
          const int row = c * f + k;
          double filter = b ? b[row] * phi[net->n_basis] : 0.0;
          for (int m = 0; m < net->n_basis; m++) filter += w[row * net->n_basis + m] * phi[m];
          part[c] = filter * net->x[3 * owner * f + row];
        }
        net->q_new[i * f + k] += part[0];
        for (int c = 0; c < 3; c++)
          net->mu_new[(3 * i + c) * f + k] += part[1] * d[c] / r + part[2] * net->mu[(3 * owner + c) * f + k];
      }
    }
  }
  memcpy(net->q, net->q_new, (size_t) (net->n * f) * sizeof(double));
  memcpy(net->mu, net->mu_new, (size_t) (3 * net->n * f) * sizeof(double));
  free(w);
  free(b);
  free(h);
}

static void update(plain_net *net, int l)
{
  const int f = net->f;
  double *vw = malloc((size_t) (6 * f) * sizeof *vw), *qn = malloc((size_t) (2 * f) * sizeof *qn);
  double *h = malloc((size_t) f * sizeof *h), *svt = malloc((size_t) (3 * f) * sizeof *svt);
  for (int i = 0; i < net->n; i++) {
    double *q = net->q + i * f, *mu = net->mu + 3 * i * f;
    for (int c = 0; c < 3; c++) linear(net, "channel_mix.%d", l, 2 * f, f, 0, 0, mu + c * f, vw + 2 * c * f);
    for (int k = 0; k < f; k++) {
      double v2 = 0;
      for (int c = 0; c < 3; c++) v2 += vw[2 * c * f + k] * vw[2 * c * f + k];
      qn[k] = q[k];
      qn[f + k] = sqrt(v2 + net->epsilon);
    }
    linear(net, "mixing.%d.0", l, f, 2 * f, 1, 1, qn, h);
    linear(net, "mixing.%d.1", l, 3 * f, f, 1, 0, h, svt);
    for (int k = 0; k < f; k++) {
      double dot = 0;
      for (int c = 0; c < 3; c++) dot += vw[2 * c * f + k] * vw[(2 * c + 1) * f + k];
      q[k] += svt[k] + svt[2 * f + k] * dot;
      for (int c = 0; c < 3; c++) mu[c * f + k] += svt[f + k] * vw[(2 * c + 1) * f + k];
    }
  }
  free(vw);
  free(qn);
  free(h);
  free(svt);
}

static void read_hyper_parameters(plain_net *net)
{
  static const char *const kinds[] = {"bspline", "gaussian", "bessel", NULL};
  const mlff_yaml *block = NULL, *basis = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_map(net->file, mlff_modelfile_root(net->file), "painn", &block, &error), error);
  test_ok(mlff_yaml_map(net->file, block, "radial_basis", &basis, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_features", 1, 1000, &net->f, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_interactions", 1, 10, &net->n_layers, &error), error);
  test_ok(mlff_yaml_int(net->file, block, "n_readout", 1, 1000, &net->n_readout, &error), error);
  test_ok(mlff_yaml_double(net->file, block, "epsilon", 0, 1, &net->epsilon, &error), error);
  test_ok(mlff_yaml_int(net->file, basis, "n", 1, 127, &net->n_basis, &error), error);
  test_ok(mlff_yaml_choice(net->file, basis, "kind", kinds, &net->kind, &error), error);
  if (net->kind) net->first = tensor(net, 1, net->n_basis, 0, net->kind == 1 ? "basis.offsets" : "basis.freqs", 0);
  if (net->kind == 1) net->second = tensor(net, 1, net->n_basis, 0, "basis.widths", 0);
}

void plain_painn(const test_model *model, const test_atoms *atoms, double *energy)
{
  mlff_modelfile *file = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_modelfile_parse("plain.yaml", model->yaml, model->yaml_size, model->weights, model->weights_size, &file,
                               &error),
          error);
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  plain_net net = {.file = file, .n = atoms->n, .cutoff = head->cutoff};
  mlff_system *system = test_system(atoms, head->cutoff);
  net.graph = mlff_system_graph(system);
  read_hyper_parameters(&net);
  const size_t features = (size_t) (atoms->n * net.f);
  double *buffers[] = {calloc(features, 8), calloc(3 * features, 8), calloc(3 * features, 8), calloc(features, 8),
                       calloc(3 * features, 8)};
  net.q = buffers[0];
  net.mu = buffers[1];
  net.x = buffers[2];
  net.q_new = buffers[3];
  net.mu_new = buffers[4];
  double *embedding = tensor(&net, 2, head->n_elements, net.f, "embedding", 0), h[1000];
  for (int i = 0; i < atoms->n; i++)
    memcpy(net.q + i * net.f, embedding + atoms->species[i] * net.f, (size_t) net.f * sizeof(double));
  for (int l = 0; l < net.n_layers; l++) {
    message(&net, l);
    update(&net, l);
  }
  for (int i = 0; i < atoms->n; i++) {
    linear(&net, "readout.0", 0, net.n_readout, net.f, 1, 1, net.q + i * net.f, h);
    linear(&net, "readout.1", 0, 1, net.n_readout, 1, 0, h, &energy[i]);
  }
  for (int k = 0; k < 5; k++) free(buffers[k]);
  free(embedding);
  free(net.first);
  free(net.second);
  mlff_system_free(system);
  mlff_modelfile_free(file);
}

/* ---- random parameters ------------------------------------------------------------------------------------------- */

static void add_random(test_weights *w, const char *name, int64_t n_out, int64_t n_in, int has_bias, double scale)
{
  const int64_t shape[2] = {n_out, n_in};
  test_weights_add(w, scale / sqrt((double) n_in), NULL, 2, shape, "%s.weight", name);
  if (has_bias) test_weights_add(w, 0.3 * scale, NULL, 1, shape, "%s.bias", name);
}

test_model calm_painn(test_model_options o)
{
  const int64_t f = o.n_features, n = o.n_basis, embedding[2] = {o.n_elements, f};
  const int is_spline = !strcmp(o.basis, "bspline"), is_gaussian = !strcmp(o.basis, "gaussian");
  test_model model = test_model_painn(o);
  test_weights w = {.rng = {o.seed + 1}};
  char name[64];
  double first[128], widths[128];
  test_weights_add(&w, 1.0, NULL, 2, embedding, "embedding");
  for (int l = 0; l < o.n_interactions; l++) {
    snprintf(name, sizeof name, "filter.%d", l);
    add_random(&w, name, 3 * f, n, !is_spline, 0.4);
    for (int k = 0; k < 2; k++) {
      snprintf(name, sizeof name, "context.%d.%d", l, k);
      add_random(&w, name, k ? 3 * f : f, f, 1, 1.0);
      snprintf(name, sizeof name, "mixing.%d.%d", l, k);
      add_random(&w, name, k ? 3 * f : f, k ? f : 2 * f, 1, 1.0);
    }
    snprintf(name, sizeof name, "channel_mix.%d", l);
    add_random(&w, name, 2 * f, f, 0, 1.0);
  }
  add_random(&w, "readout.0", o.n_readout, f, 1, 1.0);
  add_random(&w, "readout.1", 1, o.n_readout, 1, 1.0);
  for (int k = 0; k < o.n_basis; k++) {
    widths[k] = o.cutoff / (o.n_basis - 1);
    first[k] = is_gaussian ? k * widths[k] : (k + 1) * acos(-1.0) / o.cutoff;
  }
  if (is_gaussian) test_weights_add(&w, 0, widths, 1, &n, "basis.widths");
  if (!is_spline) test_weights_add(&w, 0, first, 1, &n, is_gaussian ? "basis.offsets" : "basis.freqs");
  void *data;
  size_t size;
  test_weights_pack(&w, o.is_double, &data, &size);
  test_model_set_weights(&model, data, size);
  free(data);
  test_weights_free(&w);
  return model;
}

/* ---- published parameters ---------------------------------------------------------------------------------------- */

/* Adds rows first .. first + rows of published tensor `from` as `to`; cols = 0: a vector. */
static void move(const published *p, test_weights *w, const char *from, int64_t first, int64_t rows, int64_t cols,
                 const char *to)
{
  int64_t n_rows;
  double *values = published_values(p, from, &n_rows);
  const int64_t shape[2] = {rows, cols};
  ck_assert_int_le(first + rows, n_rows);
  test_weights_add(w, 1.0, values + first * (cols ? cols : 1), cols ? 2 : 1, shape, "%s", to);
  free(values);
}

static void move_linear(const published *p, test_weights *w, const char *from, int64_t first, int64_t rows,
                        int64_t cols, int has_bias, const char *to)
{
  char a[160], b[160];
  snprintf(a, sizeof a, "%s.weight", from);
  snprintf(b, sizeof b, "%s.weight", to);
  move(p, w, a, first, rows, cols, b);
  snprintf(a, sizeof a, "%s.bias", from);
  snprintf(b, sizeof b, "%s.bias", to);
  if (has_bias) move(p, w, a, first, rows, 0, b);
}

static void move_layer(const published *p, test_weights *w, int l, int f, int n_basis)
{
  char from[128], to[64];
  snprintf(to, sizeof to, "filter.%d", l);
  move_linear(p, w, "representation.filter_net", 3 * f * l, 3 * f, n_basis, 1, to); /* P4: one tensor for all layers */
  for (int k = 0; k < 2; k++) {
    snprintf(from, sizeof from, "representation.interactions.%d.interatomic_context_net.%d", l, k);
    snprintf(to, sizeof to, "context.%d.%d", l, k);
    move_linear(p, w, from, 0, k ? 3 * f : f, f, 1, to);
    snprintf(from, sizeof from, "representation.mixing.%d.intraatomic_context_net.%d", l, k);
    snprintf(to, sizeof to, "mixing.%d.%d", l, k);
    move_linear(p, w, from, 0, k ? 3 * f : f, k ? f : 2 * f, 1, to);
  }
  snprintf(from, sizeof from, "representation.mixing.%d.mu_channel_mix", l);
  snprintf(to, sizeof to, "channel_mix.%d", l);
  move_linear(p, w, from, 0, 2 * f, f, 0, to);
}

int published_painn(const char *name, const char *const *elements, int n_elements, test_model *model)
{
  char path[512], file[128];
  snprintf(file, sizeof file, "models/%s.yaml", name);
  if (!test_shared(file, path, sizeof path)) return 0;
  test_json *y = test_json_read(path);
  snprintf(file, sizeof file, "models/%s.safetensors", name);
  ck_assert(test_shared(file, path, sizeof path));
  published p = published_read(path);
  const int f = (int) test_json_number(test_json_get(y, "n_atom_basis"));
  const int n_layers = (int) test_json_number(test_json_get(y, "n_interactions"));
  const int n_basis = (int) test_json_number(test_json_get(y, "radial_basis.n_rbf"));
  const char *kind = test_json_text(test_json_get(y, "radial_basis.kind"));
  int64_t n_readout, n_rows;
  free(published_values(&p, "output_modules.0.outnet.0.weight", &n_readout));
  double *cutoff =
      published_values(&p, "representation.cutoff_fn.cutoff", &n_rows); /* P2: rounded to float32, as stored */
  const test_model_options o = {.name = "published",
                                .elements = elements,
                                .n_elements = n_elements,
                                .cutoff = cutoff[0],
                                .is_double = 1,
                                .basis = kind,
                                .n_features = f,
                                .n_interactions = n_layers,
                                .n_readout = (int) n_readout,
                                .n_basis = n_basis};
  free(cutoff);
  *model = test_model_painn(o);

  test_weights w = {.n = 0};
  double *embedding = published_values(&p, "representation.embedding.weight", &n_rows);
  const int64_t shape[2] = {n_elements, f};
  double *mine = test_weights_add(&w, 1.0, NULL, 2, shape, "embedding");
  for (int s = 0; s < n_elements; s++)
    memcpy(mine + s * f, embedding + (int64_t) test_number(elements[s]) * f, (size_t) f * sizeof(double));
  free(embedding);
  for (int l = 0; l < n_layers; l++) move_layer(&p, &w, l, f, n_basis);
  move_linear(&p, &w, "output_modules.0.outnet.0", 0, n_readout, f, 1, "readout.0");
  move_linear(&p, &w, "output_modules.0.outnet.1", 0, 1, n_readout, 1, "readout.1");
  if (!strcmp(kind, "gaussian")) {
    move(&p, &w, "representation.radial_basis.offsets", 0, n_basis, 0, "basis.offsets");
    move(&p, &w, "representation.radial_basis.widths", 0, n_basis, 0, "basis.widths");
  } else {
    move(&p, &w, "representation.radial_basis.freqs", 0, n_basis, 0, "basis.freqs");
  }
  void *data;
  size_t size;
  test_weights_pack(&w, 1, &data, &size);
  test_model_set_weights(model, data, size);
  free(data);
  test_weights_free(&w);
  published_free(&p);
  test_json_free(y);
  return 1;
}
