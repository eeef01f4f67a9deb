/* device_graph_scene.c: see device_graph_scene.h. */
#include "device_graph_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

int n_models(void)
{
  int n = 0;
  for (const test_arch *arch = test_archs; arch->name; arch++) n += arch->derivative > 0;
  return n;
}

test_model make_model(int which)
{
  int k = -1;
  for (int n = which % n_models(); n >= 0; n -= test_archs[k].derivative > 0) k++;
  return test_model_of_arch(k);
}

mlff_model *open_model(const test_model *file, const char *device, const char *precision, const char *replay)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const mlff_options options = {.device = device, .precision = precision, .replay = replay, .skip_self_test = 1};
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

models open_models(test_model file, const char *precision, const char *replay)
{
  models m = {.file = file};
  device_reset(1);
  m.a = open_model(&m.file, "cuda", precision, replay);
  m.b = open_model(&m.file, "cuda", precision, replay);
  return m;
}

/* ---- a graph twice ----------------------------------------------------------------------------------------------- */

static void free_device(mlff_graph *g)
{
  const void *const arrays[] = {g->species, g->node, g->row, g->nbr, g->pos};
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) device_free(arrays[k]);
}

void free_twins(twins *t)
{
  free_device(&t->device);
  mlff_system_free(t->system);
  free(t->node);
  free_other_rank(&t->other);
  free(t->pos);
}

twins make_twins(double reach, int n_side, int with_ranks)
{
  test_atoms atoms = test_water_box(n_side, 5);
  test_atoms_species(&atoms, hco, 3);
  twins t = {.system = test_system(&atoms, reach), .rng = 7};
  t.host = *mlff_system_graph(t.system);
  mlff_graph *g = &t.host;
  const size_t n_all = (size_t) g->n_all;
  t.pos = malloc(n_all * sizeof *t.pos);
  t.node = malloc(n_all * sizeof *t.node);
  memcpy(t.pos, g->pos, n_all * sizeof *t.pos);
  memcpy(t.node, g->node, n_all * sizeof *t.node);
  g->pos = (const double(*)[3]) t.pos;
  g->node = t.node;
  if (with_ranks) t.other = make_other_rank(g, t.node);
  t.device = t.host;
  t.device.on_device = 1;
  t.device.species = device_array(g->species, n_all * sizeof *g->species);
  t.device.node = device_array(g->node, n_all * sizeof *g->node);
  t.device.row = device_array(g->row, ((size_t) g->n_local + 1) * sizeof *g->row);
  t.device.nbr = device_array(g->nbr, (size_t) g->n_pairs * sizeof *g->nbr);
  t.device.pos = device_array(g->pos, n_all * sizeof *g->pos);
  test_atoms_free(&atoms);
  return t;
}

void write_positions(twins *t)
{
  device_write((void *) (uintptr_t) t->device.pos, t->pos, (size_t) t->host.n_all * sizeof *t->pos);
}

void move(twins *t)
{
  const mlff_graph *g = mlff_system_graph(t->system);
  double(*shift)[3] = malloc((size_t) g->n_local * sizeof *shift);
  for (int32_t a = 0; a < g->n_all; a++)
    for (int k = 0; k < 3; k++) {
      t->rng = t->rng * 6364136223846793005u + 1442695040888963407u;
      if (a < g->n_local) shift[a][k] = 0.1 * ((double) (t->rng >> 40) / (double) (1 << 24) - 0.5);
      t->pos[a][k] += shift[g->node[a]][k];
    }
  free(shift);
  write_positions(t);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

answer make_answer(const mlff_graph *g, int with_stress)
{
  const size_t n = (size_t) g->n_nodes;
  answer a = {.n = n * (3 + 1 + 9) + 64};
  a.numbers = calloc(a.n, sizeof *a.numbers);
  a.result.forces = (double(*)[3]) a.numbers;
  a.result.atom_energy = a.numbers + 3 * n;
  if (with_stress) a.result.atom_virial = (double(*)[9])(a.numbers + 4 * n);
  a.result.member_energy = a.numbers + 13 * n;
  return a;
}

void same_bits(const answer *a, const answer *b)
{
  ck_assert_int_eq(memcmp(a->numbers, b->numbers, a->n * sizeof *a->numbers), 0);
  ck_assert_int_eq(memcmp(a->result.virial, b->result.virial, sizeof a->result.virial), 0);
  ck_assert(a->result.energy == b->result.energy && a->result.min_distance == b->result.min_distance);
  ck_assert_int_eq(a->result.n_edges, b->result.n_edges);
}

void step(mlff_model *on_host, mlff_model *on_device, twins *t, int wanted)
{
  mlff_error error = {.code = MLFF_OK};
  const mlff_halo halo = halo_of(&t->other, 0), direct = halo_of(&t->other, 1);
  const int has_ranks = t->host.n_nodes > t->host.n_local;
  answer a = make_answer(&t->host, wanted & 1), b = make_answer(&t->host, wanted & 1);
  if (!(wanted & 2)) b.result.forces = NULL;
  test_ok(mlff_model_evaluate(on_host, &t->host, has_ranks ? &halo : NULL, &a.result, &error), error);
  const mlff_halo *ranks = has_ranks ? (wanted & 4 ? &direct : &halo) : NULL;
  test_ok(mlff_model_evaluate(on_device, &t->device, ranks, &b.result, &error), error);
  ck_assert_ptr_null(a.result.device_forces);
  if (wanted & 2) {
    double *there = malloc((size_t) t->host.n_nodes * 3 * sizeof *there);
    device_read(there, b.result.device_forces, (size_t) t->host.n_nodes * 3 * sizeof *there);
    ck_assert_int_eq(memcmp(there, b.numbers, (size_t) t->host.n_nodes * 3 * sizeof *there), 0);
    free(there);
  } else {
    device_read(b.numbers, b.result.device_forces, (size_t) t->host.n_nodes * 3 * sizeof *b.numbers);
  }
  same_bits(&a, &b);
  ck_assert(fabs(a.numbers[0]) > 0);
  free(a.numbers);
  free(b.numbers);
}

void close_models(mlff_model *a, mlff_model *b, test_model *file)
{
  mlff_model_close(a);
  mlff_model_close(b);
  test_model_free(file);
  device_is_empty();
}

scene open_scene(int which, int with_ranks)
{
  scene s;
  device_reset(1);
  s.file = make_model(which);
  s.model = open_model(&s.file, "cuda", "fp32", "on");
  s.t = make_twins(mlff_model_info(s.model)->cutoff + 0.5, 2, with_ranks);
  return s;
}

void close_scene(scene *s)
{
  free_twins(&s->t);
  close_models(s->model, NULL, &s->file);
}
