/* test_orb.c: operations of Orb on every backend, against plain loops in double that follow the formulas
 * of backend/ops_orb.h literally; and the shifted softplus of linear. */
#include "painn_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int widths[] = {1, 7, 16, 33, 64, 130, 1028, 2560};
enum { N_WIDTHS = sizeof widths / sizeof *widths, MAX_WIDTH = 2560 };

/* O2: x itself above 20, and the shift is ln 2. */
static double ssp(double x)
{
  return (x > 20 ? x : log1p(exp(x))) - log(2.0);
}

/* A small box with many images, its graph, and what is on the host. Edges of sender i: row[i] <= edge < end[i]. */
typedef struct orb_scene {
  mlff_backend *backend;
  mlff_system *system;
  const mlff_graph *g;
  mlff_edges edges;
  mlff_orb_graph graph;
  int64_t n, *row, *end; /* n rows of arrays of edges */
  int32_t *node;
  double *vec, *env;
} orb_scene;

static void *download(mlff_backend *backend, const mlff_buf *buf, size_t bytes)
{
  mlff_error error = {0};
  void *data = malloc(bytes + 1);
  test_ok(backend->ops->download(backend, data, buf->data, bytes, &error), error);
  return data;
}

static double *download_reals(mlff_backend *backend, const mlff_buf *buf, int64_t n)
{
  mlff_error error = {0};
  double *data = malloc((size_t) (n + 1) * sizeof *data);
  test_ok(backend->ops->download_reals(backend, data, buf->data, n, &error), error);
  return data;
}

static orb_scene make_orb_scene(mlff_backend *backend, const test_atoms *atoms, const int64_t *tag, int n_neighbours)
{
  mlff_error error = {0};
  orb_scene s = {.backend = backend, .system = test_system(atoms, 6.3)};
  s.g = mlff_system_graph(s.system);
  mlff_graph tagged = *s.g;
  tagged.tag = tag;
  test_ok(backend->ops->edges(backend, &tagged, 6.0, &s.edges, &error), error);
  test_ok(backend->ops->orb_graph(backend, &tagged, &s.edges, n_neighbours, &s.graph, &error), error);
  s.n = s.graph.n_edges;
  s.node = download(backend, &s.graph.node, (size_t) s.n * sizeof *s.node);
  s.row = malloc(((size_t) atoms->n + 1) * sizeof *s.row);
  s.end = malloc(((size_t) atoms->n + 1) * sizeof *s.end);
  for (int i = 0; i <= atoms->n; i++) s.row[i] = s.end[i] = mlff_orb_first_row(&s.graph, i);
  for (int i = 0; i < atoms->n; i++)
    while (s.end[i] < s.row[i + 1] && s.node[s.end[i]] >= 0) s.end[i]++;
  s.vec = download_reals(backend, &s.graph.vec, 4 * s.n);
  s.env = download_reals(backend, &s.graph.env, s.n);
  return s;
}

static void free_orb_scene(orb_scene *s)
{
  mlff_buf *bufs[] = {&s->graph.row,    &s->graph.node,    &s->graph.vec, &s->graph.env,
                      &s->graph.in_row, &s->graph.in_edge, &s->graph.tag, &s->graph.scratch};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(s->backend, bufs[k]);
  release_edges(s->backend, &s->edges);
  mlff_system_free(s->system);
  free(s->row);
  free(s->end);
  free(s->node);
  free(s->vec);
  free(s->env);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

/* O4: every atom sends to its nearest neighbors; O15: env ends at the cutoff. */
static void check_graph(const orb_scene *s, int n_neighbours)
{
  const mlff_graph *g = s->g;
  const double tolerance = 8 * rounding(s->backend);
  for (int32_t i = 0; i < g->n_local; i++) {
    double all[2000];
    int n = 0;
    for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
      double r2 = 0;
      for (int c = 0; c < 3; c++) r2 += pow(g->pos[g->nbr[p]][c] - g->pos[i][c], 2);
      if (r2 < 36.0) all[n++] = sqrt(r2);
    }
    qsort(all, (size_t) n, sizeof *all, by_size);
    ck_assert_int_eq(s->end[i] - s->row[i], n < n_neighbours ? n : n_neighbours);
    for (int64_t e = s->row[i]; e < s->end[i]; e++) {
      const double *v = s->vec + 4 * e, x = v[3] / 6;
      near_one(v[3], all[e - s->row[i]], 10 * tolerance);
      near_one(v[0] * v[0] + v[1] * v[1] + v[2] * v[2], 1.0, tolerance);
      near_one(s->env[e], 1 - 15 * pow(x, 4) + 24 * pow(x, 5) - 10 * pow(x, 6), 20 * tolerance);
    }
    for (int64_t e = s->end[i]; e < s->row[i + 1]; e++) {
      const double *v = s->vec + 4 * e;
      ck_assert(v[0] == 0 && v[1] == 0 && v[2] == 0 && v[3] == 0 && s->env[e] == 0);
    }
  }
}

START_TEST(nearest_neighbours)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_atoms box = test_triclinic(), water = test_water();
  static const int sizes[] = {1, 20, 37, 1000};
  for (int k = 0; k < 4; k++) {
    orb_scene s = make_orb_scene(backend, k % 2 ? &box : &water, NULL, sizes[k]);
    check_graph(&s, sizes[k]);
    free_orb_scene(&s);
    s = make_orb_scene(backend, &box, NULL, sizes[k]);
    check_graph(&s, sizes[k]);
    free_orb_scene(&s);
  }
  test_atoms_free(&box);
  test_atoms_free(&water);
  mlff_backend_close(backend);
}
END_TEST

/* Perfect diamond, 64 atoms, moved by `shift` and with noise of 1e-13 A: 4 + 12 neighbors and a shell of 12. */
static test_atoms diamond(uint64_t seed)
{
  static const double unit[8][3] = {{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {2, 2, 0},
                                    {1, 1, 1}, {1, 3, 3}, {3, 1, 3}, {3, 3, 1}};
  test_atoms atoms = test_atoms_new(64);
  test_rng rng = {seed};
  for (int k = 0; k < 3; k++) {
    atoms.pbc[k] = 1;
    atoms.cell[k][k] = 2 * 5.43;
  }
  for (int i = 0; i < 64; i++) {
    atoms.number[i] = 1;
    for (int c = 0; c < 3; c++)
      atoms.pos[i][c] = 5.43 / 4 * unit[i % 8][c] + 5.43 * (i / 8 >> c & 1) + 1e-13 * test_normal(&rng) + 0.6 * c;
  }
  return atoms;
}

/* O3: which of the shell's atoms are taken depends on tags and vectors, not on rounding or the order of the list. */
START_TEST(ties_go_by_tag)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  enum { N = 64, K = 20 };
  int32_t first[N][K];
  for (int trial = 0; trial < 4; trial++) {
    test_atoms atoms = diamond((uint64_t) trial);
    int order[N];
    for (int i = 0; i < N; i++) order[i] = i;
    if (trial > 1) test_order(N, (uint64_t) trial, order);
    test_atoms_permute(&atoms, order);
    mlff_system *system = test_system(&atoms, 6.3);
    const mlff_graph *g = mlff_system_graph(system);
    int64_t *tag = malloc((size_t) g->n_all * sizeof *tag);
    for (int32_t a = 0; a < g->n_all; a++) tag[a] = 100 + order[g->node[a]];
    mlff_system_free(system);
    orb_scene s = make_orb_scene(backend, &atoms, tag, K);
    for (int i = 0; i < N; i++) {
      int64_t shell[12];
      int n_shell = 0;
      ck_assert_int_eq(s.end[i] - s.row[i], K);
      for (int64_t e = s.row[i]; e < s.end[i]; e++) {
        const int32_t receiver = order[s.node[e]];
        const int k = (int) (e - s.row[i]);
        if (s.vec[4 * e + 3] < 4.4) continue;
        if (trial == 0) first[order[i]][k] = receiver;
        ck_assert_int_eq(first[order[i]][k], receiver);
        shell[n_shell++] = receiver;
      }
      ck_assert_int_eq(n_shell, 4);
      for (int k = 1; k < 4; k++) ck_assert_int_le(shell[k - 1], shell[k]);
    }
    free_orb_scene(&s);
    free(tag);
    test_atoms_free(&atoms);
  }
  mlff_backend_close(backend);
}
END_TEST

/* One atom whose neighbors are all images of it: the smaller vectors first. */
START_TEST(ties_of_images_go_by_vector)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_atoms atom = test_atoms_new(1);
  for (int k = 0; k < 3; k++) {
    atom.pbc[k] = 1;
    atom.cell[k][k] = 3.0;
    atom.pos[0][k] = 0.7;
  }
  orb_scene s = make_orb_scene(backend, &atom, NULL, 4); /* of the six at 3 A */
  static const double expected[4][3] = {{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}, {0, 0, 1}};
  ck_assert_int_eq(s.n, 4);
  for (int e = 0; e < 4; e++) near_all(s.vec + 4 * e, expected[e], 3, 1e-6, 0);
  free_orb_scene(&s);
  test_atoms_free(&atom);
  mlff_backend_close(backend);
}
END_TEST

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* Eight atoms with 20 neighbors each, and open with 7 at most, so that with a stride there are rows without edges. */
static test_atoms eight_atoms(int is_open)
{
  test_atoms box = test_triclinic();
  for (int c = 0; c < 3 && is_open; c++) box.pbc[c] = 0;
  return box;
}

/* The same in half the length: hundreds of images are within the cutoff. */
static test_atoms eight_close_atoms(void)
{
  test_atoms box = eight_atoms(0);
  for (int a = 0; a < 3; a++)
    for (int c = 0; c < 3; c++) box.cell[a][c] *= 0.5;
  for (int i = 0; i < box.n; i++)
    for (int c = 0; c < 3; c++) box.pos[i][c] *= 0.5;
  return box;
}

START_TEST(features_and_gather)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {11};
  for (int w = 0; w < N_WIDTHS; w++) {
    test_atoms box = eight_atoms(w % 2);
    orb_scene s = make_orb_scene(backend, &box, NULL, 20);
    const int64_t begin = 2, end = 6, first = s.row[begin], n = s.row[end] - first;
    const int k = widths[w];
    array out = random_array(backend, &rng, n * (k + 3));
    const mlff_orb_features_args features =
        {.graph = &s.graph, .begin = begin, .end = end, .n_basis = k, .spacing = 10.0 / k, .out = out.buf.data};
    backend->ops->orb_features(backend, &features);
    for (int64_t i = begin; i < end; i++)
      for (int64_t e = s.row[i]; e < s.row[i + 1]; e++) /* those without an edge have a vector of zeros */
        for (int c = 0; c < k + 3; c++) {
          const double *v = s.vec + 4 * e, x = v[3] - c * (10.0 / k);
          out.host[(e - first) * (k + 3) + c] = c < k ? exp(-x * x) : v[c - k];
        }
    check_array(backend, "features", &out, 60); /* x^2 of 36 has that much rounding */
    array_free(backend, &out);

    array y = random_array(backend, &rng, n * k), sender = random_array(backend, &rng, box.n * k),
          receiver = random_array(backend, &rng, box.n * k);
    for (int64_t e = 0; e < n * k; e++) y.host[e] *= 30; /* both sides of 20 */
    array scaled = array_of(backend, y.host, n * k);
    const mlff_orb_gather_args gather = {.graph = &s.graph,
                                         .begin = begin,
                                         .end = end,
                                         .width = k,
                                         .from_sender = sender.buf.data,
                                         .from_receiver = receiver.buf.data,
                                         .y = scaled.buf.data};
    backend->ops->orb_gather(backend, &gather);
    for (int64_t i = begin; i < end; i++)
      for (int64_t e = s.row[i]; e < s.end[i]; e++)
        for (int c = 0; c < k; c++)
          scaled.host[(e - first) * k + c] =
              ssp(scaled.host[(e - first) * k + c] + sender.host[i * k + c] + receiver.host[s.node[e] * k + c]);
    check_array(backend, "gather", &scaled, 4);
    array_free(backend, &y);
    array_free(backend, &sender);
    array_free(backend, &receiver);
    array_free(backend, &scaled);
    free_orb_scene(&s);
    test_atoms_free(&box);
  }
  mlff_backend_close(backend);
}
END_TEST

/* O13: variance over n, epsilon inside the root. */
static void plain_norm(const double *x, int width, double epsilon, const double *gain, const double *shift, double *y)
{
  double mean = 0, variance = 0;
  for (int k = 0; k < width; k++) mean += x[k] / width;
  for (int k = 0; k < width; k++) variance += (x[k] - mean) * (x[k] - mean) / width;
  for (int k = 0; k < width; k++) y[k] = (x[k] - mean) / sqrt(variance + epsilon) * gain[k] + shift[k];
}

typedef struct norm_setup {
  mlff_orb_norm norm;
  array gain, shift;
} norm_setup;

static norm_setup make_norm(mlff_backend *backend, test_rng *rng, int width, double epsilon)
{
  norm_setup s = {.gain = random_array(backend, rng, width), .shift = random_array(backend, rng, width)};
  s.norm = (mlff_orb_norm){.epsilon = epsilon, .gain = s.gain.buf, .shift = s.shift.buf};
  return s;
}

START_TEST(norms)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {12};
  for (int w = 0; w < 2 * N_WIDTHS; w++) {
    const int k = widths[w / 2], accumulate = w % 2;
    const double epsilon = w % 3 ? 1e-5 : 0.3;
    if (k == 1 && epsilon < 0.1) continue; /* 0/sqrt(1e-5): all rounding */
    for (int n = 0; n < 7; n += 3) {
      norm_setup s = make_norm(backend, &rng, k, epsilon);
      array x = random_array(backend, &rng, n * k), y = random_array(backend, &rng, n * k);
      const mlff_orb_norm_args args =
          {.n = n, .width = k, .norm = &s.norm, .x = x.buf.data, .y = y.buf.data, .accumulate = accumulate};
      backend->ops->orb_norm(backend, &args);
      for (int i = 0; i < n; i++) {
        double row[MAX_WIDTH];
        plain_norm(x.host + i * k, k, epsilon, s.gain.host, s.shift.host, row);
        for (int c = 0; c < k; c++) y.host[i * k + c] = row[c] + (accumulate ? y.host[i * k + c] : 0.0);
      }
      check_array(backend, "norm", &y, 20);
      array_free(backend, &x);
      array_free(backend, &y);
      array_free(backend, &s.gain);
      array_free(backend, &s.shift);
    }
  }
  mlff_backend_close(backend);
}
END_TEST

/* O12: gates read e before the update, and e is updated with the message itself. O11: receive is the first gate. */
static void plain_message(const orb_scene *s, int64_t begin, int64_t end, int k, const norm_setup *norm,
                          const double *x, const double *gates, const double bias[2], double *e, double *received,
                          double *sent, int last)
{
  for (int64_t i = begin; i < end; i++) {
    for (int c = 0; c < k; c++) sent[i * k + c] = 0;
    for (int64_t edge = s->row[i]; edge < s->end[i]; edge++) {
      double m[MAX_WIDTH], a[2];
      plain_norm(x + (edge - s->row[begin]) * k, k, norm->norm.epsilon, norm->gain.host, norm->shift.host, m);
      for (int g = 0; g < 2; g++) {
        double z = bias[g];
        for (int c = 0; c < k; c++) z += gates[g * k + c] * e[edge * k + c];
        a[g] = s->env[edge] / (1 + exp(-z));
      }
      for (int c = 0; c < k; c++) {
        received[s->node[edge] * k + c] += m[c] * a[0];
        sent[i * k + c] += m[c] * a[1];
        if (!last) e[edge * k + c] += m[c];
      }
    }
  }
}

START_TEST(messages)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {13};
  for (int w = 1; w < N_WIDTHS; w++) {
    const int k = widths[w], last = w % 2, are_many = w == 2; /* more than kernels of GPUs take at once */
    test_atoms box = are_many ? eight_close_atoms() : eight_atoms(w > 2);
    orb_scene s = make_orb_scene(backend, &box, NULL, are_many ? 1000 : 20);
    if (are_many) ck_assert_int_gt(s.end[3] - s.row[3], 300);
    const int64_t begin = w % 3, end = 8 - w % 2, n = s.row[end] - s.row[begin];
    const double bias[2] = {0.3, -0.8};
    norm_setup norm = make_norm(backend, &rng, k, 1e-5);
    array x = random_array(backend, &rng, n * k), gates = random_array(backend, &rng, 2 * k),
          e = random_array(backend, &rng, s.n * k), received = random_array(backend, &rng, box.n * k),
          sent = random_array(backend, &rng, box.n * k);
    const mlff_orb_message_args args = {.graph = &s.graph,
                                        .begin = begin,
                                        .end = end,
                                        .width = k,
                                        .norm = &norm.norm,
                                        .x = x.buf.data,
                                        .gates = gates.buf.data,
                                        .gate_bias = {bias[0], bias[1]},
                                        .e = e.buf.data,
                                        .received = received.buf.data,
                                        .sent = sent.buf.data,
                                        .last = last};
    backend->ops->orb_message(backend, &args);
    plain_message(&s, begin, end, k, &norm, x.host, gates.host, bias, e.host, received.host, sent.host, last);
    check_array(backend, "e", &e, 20);
    check_array(backend, "received", &received, 40);
    check_array(backend, "sent", &sent, 40);
    array *const arrays[] = {&x, &gates, &e, &received, &sent, &norm.gain, &norm.shift};
    for (int a = 0; a < 7; a++) array_free(backend, arrays[a]);
    free_orb_scene(&s);
    test_atoms_free(&box);
  }
  mlff_backend_close(backend);
}
END_TEST

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

START_TEST(rows)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  mlff_error error = {0};
  test_rng rng = {14};
  enum { N = 5 };
  const int32_t species[N] = {1, -1, 0, 2, 1};
  for (int w = 0; w < N_WIDTHS; w++) {
    const int k = widths[w];
    array part[3], out = random_array(backend, &rng, N * 3 * k), h = random_array(backend, &rng, N * k);
    for (int p = 0; p < 3; p++) part[p] = random_array(backend, &rng, N * k); /* O11: order of the three */
    const mlff_orb_concat_args concat =
        {.n = N, .width = k, .a = part[0].buf.data, .b = part[1].buf.data, .c = part[2].buf.data, .out = out.buf.data};
    backend->ops->orb_concat(backend, &concat);
    for (int i = 0; i < 3 * N * k; i++) out.host[i] = part[i / k % 3].host[i / (3 * k) * k + i % k];
    check_array(backend, "concat", &out, 0);

    mlff_buf species_buf = {0};
    test_ok(mlff_buf_reserve(backend, &species_buf, sizeof species, &error), error);
    test_ok(backend->ops->upload(backend, species_buf.data, species, sizeof species, &error), error);
    const mlff_orb_embed_args embed = {.n = N,
                                       .width = k,
                                       .species = species_buf.data,
                                       .table = part[0].buf.data,
                                       .out = h.buf.data};
    backend->ops->orb_embed(backend, &embed);
    double sum[MAX_WIDTH], expected[MAX_WIDTH] = {0};
    for (int i = 0; i < N * k; i++) h.host[i] = species[i / k] < 0 ? 0.0 : part[0].host[species[i / k] * k + i % k];
    check_array(backend, "embed", &h, 0);
    test_ok(backend->ops->orb_sum(backend, part[1].buf.data, N, k, species_buf.data, sum, &error), error);
    for (int i = 0; i < N * k; i++) expected[i % k] += species[i / k] < 0 ? 0.0 : part[1].host[i];
    near_all(sum, expected, k, 1e-14, 0);
    mlff_buf_release(backend, &species_buf);
    for (int p = 0; p < 3; p++) array_free(backend, &part[p]);
    array_free(backend, &out);
    array_free(backend, &h);
  }
  mlff_backend_close(backend);
}
END_TEST

START_TEST(linear_with_ssp)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  mlff_error error = {0};
  enum { N_FINITE = 401, N };
  double x[N], one = 1.0, zero = 0.0;
  for (int k = 0; k < N_FINITE; k++) x[k] = k < 200 ? -30.0 + 0.3 * k : 19.9 + 1e-3 * (k - 200);
  x[7] = -1000.0;
  x[8] = 1000.0;
  x[9] = 20.0;
  x[10] = nextafter(20.0, 21.0);
  x[11] = 1e30;
  x[12] = -1e30;
  x[N_FINITE] = NAN;
  array in = array_of(backend, x, N), y = array_of(backend, x, N), slope = array_of(backend, x, N);
  mlff_linear linear = {0};
  test_ok(backend->ops->linear_pack(backend, &linear, &one, &zero, 1, 1, 0, &error), error);
  const mlff_linear_args args = {.n_rows = N,
                                 .x = in.buf.data,
                                 .ldx = 1,
                                 .y = y.buf.data,
                                 .ldy = 1,
                                 .act = MLFF_ACT_SSP,
                                 .slope = slope.buf.data,
                                 .ld_slope = 1};
  backend->ops->linear(backend, &linear, &args);
  double *got = download_reals(backend, &y.buf, N), *got_slope = download_reals(backend, &slope.buf, N);
  ck_assert(isnan(got[N_FINITE]) && isnan(got_slope[N_FINITE]));
  for (int k = 0; k < N_FINITE; k++) {
    near_one(got[k], ssp(in.host[k]), 3 * rounding(backend) * (1 + fabs(in.host[k])));
    near_one(got_slope[k], 1 / (1 + exp(-in.host[k])), 4 * rounding(backend));
  }
  if (backend->real_size == sizeof(double)) near_one(got[9] - got[10], 2.06e-9, 1e-11); /* PyTorch's threshold */
  free(got);
  free(got_slope);
  mlff_linear_release(backend, &linear);
  array_free(backend, &in);
  array_free(backend, &y);
  array_free(backend, &slope);
  mlff_backend_close(backend);
}
END_TEST

static Suite *orb_suite(void)
{
  Suite *suite = suite_create("orb ops");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 120);
  tcase_add_loop_test(tcase, nearest_neighbours, 0, n_backends());
  tcase_add_loop_test(tcase, ties_go_by_tag, 0, n_backends());
  tcase_add_loop_test(tcase, ties_of_images_go_by_vector, 0, n_backends());
  tcase_add_loop_test(tcase, features_and_gather, 0, n_backends());
  tcase_add_loop_test(tcase, norms, 0, n_backends());
  tcase_add_loop_test(tcase, messages, 0, n_backends());
  tcase_add_loop_test(tcase, rows, 0, n_backends());
  tcase_add_loop_test(tcase, linear_with_ssp, 0, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(orb_suite);
}
