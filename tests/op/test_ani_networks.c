/* test_ani_networks.c: the op ani_networks (GPUs) against the same layers one by one on that backend, to the bit on the
 * simulator, and against cpu64; rows and networks that it leaves to kernels of single layers. */
#include "backends.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = MLFF_ANI_MOST_HIDDEN + 1, MOST_GROUPS = 2, MOST_MEMBERS = 3, MOST_NETWORKS = 6, EXTRA = 3 };
static const double alpha = 0.1, factor = 0.25, untouched = 7.0;

/* Groups of rows with the widths of their networks; dims[0] is the same for all. */
typedef struct shape {
  int n_members, n_groups, n_rows[MOST_GROUPS], dims[MOST_GROUPS][MOST_DIMS]; /* up to the first 0 */
} shape;

static const shape shapes[] = {
    {1, 1, {1}, {{5, 3}}},
    {3, 2, {9, 3}, {{48, 20, 16, 12}, {48, 21, 17, 13, 9}}}, /* other depths, odd widths */
    {1, 1, {8}, {{128, 256, 192, 160}}},                     /* ANI-2x in water */
    {2, 2, {7, 2}, {{291, 271, 31}, {291, 600, 16}}},        /* more columns than a tile has */
    {1, 1, {17}, {{16, 16, 16, 16, 16}}},
    {2, 1, {0}, {{4, 4}}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int depth(const int *dims)
{
  int n = 0;
  while (n < MOST_DIMS && dims[n]) n++;
  return n - 1;
}

/* A network on a backend. */
typedef struct matrices {
  mlff_linear forward[MLFF_ANI_MOST_HIDDEN], backward[MLFF_ANI_MOST_HIDDEN];
  mlff_buf readout;
  double bias;
} matrices;

static double *random_numbers(test_rng *rng, int n, double size)
{
  double *x = malloc((size_t) (n + 1) * sizeof *x);
  for (int k = 0; k < n; k++) x[k] = test_uniform(rng, -size, size);
  return x;
}

static void pack(mlff_backend *backend, const int *dims, uint64_t seed, matrices *m)
{
  mlff_error error = {0};
  test_rng rng = {.state = seed};
  const int n_hidden = depth(dims);
  memset(m, 0, sizeof *m);
  for (int l = 0; l < n_hidden; l++) {
    double *w = random_numbers(&rng, dims[l + 1] * dims[l], 2.5 / sqrt(dims[l])),
           *b = random_numbers(&rng, dims[l + 1], 0.3);
    test_ok(backend->ops->linear_pack(backend, &m->forward[l], w, b, dims[l + 1], dims[l], 0, &error), error);
    test_ok(backend->ops->linear_pack(backend, &m->backward[l], w, NULL, dims[l + 1], dims[l], 1, &error), error);
    free(w);
    free(b);
  }
  double *readout = random_numbers(&rng, dims[n_hidden], 1.0);
  m->readout = reals_to_backend(backend, readout, dims[n_hidden]);
  m->bias = test_uniform(&rng, -1.0, 1.0);
  free(readout);
}

/* A shape on a backend. Between groups is a row that belongs to none. */
typedef struct scene {
  const shape *shape;
  mlff_backend *backend;
  matrices networks[MOST_NETWORKS];
  mlff_ani_rows groups[MOST_GROUPS];
  int64_t n_rows, ld;
  mlff_buf aevs, energy, grads;
} scene;

static void clear(scene *s)
{
  const int64_t n_energies = s->shape->n_members * s->n_rows, n = n_energies * s->ld;
  double *fill = malloc((size_t) (n + 1) * sizeof *fill);
  for (int64_t k = 0; k < n; k++) fill[k] = untouched;
  mlff_buf_release(s->backend, &s->energy);
  mlff_buf_release(s->backend, &s->grads);
  s->energy = reals_to_backend(s->backend, fill, n_energies);
  s->grads = reals_to_backend(s->backend, fill, n);
  free(fill);
}

static scene make_scene(mlff_backend *backend, const shape *of)
{
  scene s = {.shape = of, .backend = backend, .ld = of->dims[0][0] + EXTRA};
  test_rng rng = {.state = 5};
  for (int g = 0; g < of->n_groups; g++) {
    s.groups[g] = (mlff_ani_rows){.row = s.n_rows, .n_rows = of->n_rows[g], .network = g * of->n_members};
    s.n_rows += of->n_rows[g] + 1;
    for (int m = 0; m < of->n_members; m++) {
      const int k = g * of->n_members + m;
      pack(backend, of->dims[g], 11 + (uint64_t) k, &s.networks[k]);
    }
  }
  double *aevs = random_numbers(&rng, (int) (s.n_rows * s.ld), 1.0);
  s.aevs = reals_to_backend(backend, aevs, s.n_rows * s.ld);
  free(aevs);
  clear(&s);
  return s;
}

static void free_scene(scene *s)
{
  for (int k = 0; k < MOST_NETWORKS; k++) {
    for (int l = 0; l < MLFF_ANI_MOST_HIDDEN; l++) {
      mlff_linear_release(s->backend, &s->networks[k].forward[l]);
      mlff_linear_release(s->backend, &s->networks[k].backward[l]);
    }
    mlff_buf_release(s->backend, &s->networks[k].readout);
  }
  mlff_buf_release(s->backend, &s->aevs);
  mlff_buf_release(s->backend, &s->energy);
  mlff_buf_release(s->backend, &s->grads);
}

/* ---- layer by layer ---------------------------------------------------------------------------------------------- */

static void run_layers(scene *s, int g, int member)
{
  mlff_backend *backend = s->backend;
  mlff_error error = {0};
  const int *dims = s->shape->dims[g], n_hidden = depth(dims);
  const int64_t row = s->groups[g].row, n = s->groups[g].n_rows;
  const matrices *m = &s->networks[s->groups[g].network + member];
  mlff_buf hidden[MLFF_ANI_MOST_HIDDEN] = {{0}};
  for (int l = 0; l < n_hidden; l++) {
    const int width = dims[l + 1];
    test_ok(mlff_buf_reserve(backend, &hidden[l], (size_t) (n * width) * backend->real_size, &error), error);
    backend->ops->linear(backend, &m->forward[l],
                         &(mlff_linear_args){.n_rows = n,
                                             .x = l ? hidden[l - 1].data : mlff_at(backend, s->aevs.data, row * s->ld),
                                             .ldx = l ? dims[l] : s->ld,
                                             .y = hidden[l].data,
                                             .ldy = width,
                                             .act = MLFF_ACT_CELU,
                                             .alpha = alpha});
  }
  backend->ops->ani_readout(backend, 1,
                            &(mlff_ani_readout_args){.n_rows = n,
                                                     .n = dims[n_hidden],
                                                     .hidden = hidden[n_hidden - 1].data,
                                                     .ld_hidden = dims[n_hidden],
                                                     .alpha = alpha,
                                                     .weight = m->readout.data,
                                                     .bias = m->bias,
                                                     .factor = factor,
                                                     .energy =
                                                         mlff_at(backend, s->energy.data, member * s->n_rows + row)});
  for (int l = n_hidden - 1; l >= 0; l--) {
    void *first = mlff_at(backend, s->grads.data, (member * s->n_rows + row) * s->ld);
    backend->ops->linear(backend, &m->backward[l],
                         &(mlff_linear_args){.n_rows = n,
                                             .x = hidden[l].data,
                                             .ldx = dims[l + 1],
                                             .y = l ? hidden[l - 1].data : first,
                                             .ldy = l ? dims[l] : s->ld,
                                             .act = l ? MLFF_ACT_CELU : MLFF_ACT_NONE,
                                             .alpha = alpha,
                                             .scale = l ? hidden[l - 1].data : NULL,
                                             .ld_scale = dims[l]});
  }
  for (int l = 0; l < n_hidden; l++) mlff_buf_release(backend, &hidden[l]);
}

/* ---- batched evaluation ------------------------------------------------------------------------------------------ */

static mlff_ani_networks set_up(scene *s)
{
  mlff_error error = {0};
  mlff_ani_networks networks = {0};
  mlff_ani_network all[MOST_NETWORKS];
  memset(all, 0, sizeof all);
  for (int g = 0; g < s->shape->n_groups; g++)
    for (int m = 0; m < s->shape->n_members; m++) {
      const int k = s->groups[g].network + m;
      all[k] = (mlff_ani_network){.n_hidden = depth(s->shape->dims[g]),
                                  .readout = s->networks[k].readout.data,
                                  .readout_bias = s->networks[k].bias};
      for (int l = 0; l < all[k].n_hidden; l++) {
        all[k].forward[l] = &s->networks[k].forward[l];
        all[k].backward[l] = &s->networks[k].backward[l];
      }
    }
  test_ok(s->backend->ops->ani_networks_setup(s->backend, &networks, s->shape->n_groups * s->shape->n_members, all,
                                              &error),
          error);
  return networks;
}

static int run_networks(scene *s)
{
  mlff_ani_networks networks = set_up(s);
  const int done = s->backend->ops->ani_networks(s->backend, &networks,
                                                 &(mlff_ani_networks_args){.n_groups = s->shape->n_groups,
                                                                           .n_members = s->shape->n_members,
                                                                           .groups = s->groups,
                                                                           .n_rows = s->n_rows,
                                                                           .ld = s->ld,
                                                                           .ld_energy = s->n_rows,
                                                                           .alpha = alpha,
                                                                           .factor = factor,
                                                                           .aevs = s->aevs.data,
                                                                           .energy = s->energy.data,
                                                                           .grads = s->grads.data});
  mlff_ani_networks_release(s->backend, &networks);
  return done;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* Energies and gradients as one array; padding and rows of no group too. */
static double *take_results(const scene *s, int64_t *n)
{
  const int64_t n_energies = s->shape->n_members * s->n_rows, n_grads = n_energies * s->ld;
  double *energy = reals_from_backend(s->backend, s->energy.data, n_energies),
         *grads = reals_from_backend(s->backend, s->grads.data, n_grads);
  *n = n_energies + n_grads;
  double *all = realloc(energy, (size_t) (*n + 1) * sizeof *all);
  memcpy(all + n_energies, grads, (size_t) n_grads * sizeof *all);
  free(grads);
  return all;
}

static double *layer_by_layer(scene *s, int64_t *n)
{
  clear(s);
  for (int g = 0; g < s->shape->n_groups; g++)
    for (int m = 0; m < s->shape->n_members; m++) run_layers(s, g, m);
  return take_results(s, n);
}

static mlff_backend *open_it(const char *device, const char *precision)
{
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  test_ok(mlff_backend_open(device, 0, precision, NULL, &backend, &error), error);
  return backend;
}

static const struct {
  const char *precision;
  double tolerance; /* against cpu64, of numbers up to 7: some roundings of each layer */
} ways[] = {{"fp32", 8e-6}, {"fp64", 2e-14}, {"mixed", 8e-6}};
enum { N_WAYS = sizeof ways / sizeof *ways };

START_TEST(networks_are_their_layers)
{
  mlff_backend *gpu = open_it("cuda", ways[_i % N_WAYS].precision), *oracle = open_it("cpu", "fp64");
  const shape *of = &shapes[_i / N_WAYS];
  scene here = make_scene(gpu, of), there = make_scene(oracle, of);
  int64_t n;
  ck_assert_int_eq(run_networks(&here), 1);
  double *at_once = take_results(&here, &n);
  double *layers = layer_by_layer(&here, &n), *reference = layer_by_layer(&there, &n);
  const int is_same = kernels_round_alike() && strcmp(ways[_i % N_WAYS].precision, "mixed") != 0; /* tensor cores */
  near_all(at_once, layers, n, is_same ? 0.0 : ways[_i % N_WAYS].tolerance, 0.0);
  near_all(at_once, reference, n, ways[_i % N_WAYS].tolerance, 0.0);
  free(at_once);
  free(layers);
  free(reference);
  free_scene(&here);
  free_scene(&there);
  ck_assert_uint_eq(gpu->memory.bytes, 0);
  mlff_backend_close(gpu);
  mlff_backend_close(oracle);
}
END_TEST

/* Nothing is done then. */
static void check_left(mlff_backend *backend, const shape *of, int64_t n_rows)
{
  scene s = make_scene(backend, of);
  int64_t n;
  s.groups[0].n_rows = n_rows;
  ck_assert_int_eq(run_networks(&s), 0);
  double *results = take_results(&s, &n);
  for (int64_t k = 0; k < n; k++) ck_assert(results[k] == untouched);
  free(results);
  free_scene(&s);
}

START_TEST(many_rows_and_wide_networks_are_left)
{
  static const shape narrow = {1, 1, {3}, {{5, 3}}}, wide = {1, 1, {3}, {{5, 12000}}};
  mlff_backend *gpu = open_it("cuda", ways[_i].precision);
  check_left(gpu, &narrow, 1000000);
  check_left(gpu, &wide, 3);
  mlff_backend_close(gpu);
}
END_TEST

/* Where layers are as good, nothing else is offered. */
START_TEST(cpus_work_layer_by_layer)
{
  mlff_backend *cpu = open_it("cpu", "fp32");
  ck_assert(!cpu->ops->ani_networks_setup && !cpu->ops->ani_networks);
  mlff_backend_close(cpu);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("ani_networks");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 120);
  const int has_gpu = n_backends() > N_CPU_BACKENDS;
  tcase_add_test(tcase, cpus_work_layer_by_layer);
  tcase_add_loop_test(tcase, networks_are_their_layers, 0, has_gpu ? N_SHAPES * N_WAYS : 0);
  tcase_add_loop_test(tcase, many_rows_and_wide_networks_are_left, 0, has_gpu ? N_WAYS : 0);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
