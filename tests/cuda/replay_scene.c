/* replay_scene.c: see replay_scene.h. */
#include "replay_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

mlff_model *open_model(const test_model *file, int which, const char *replay)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const mlff_options options = {.device = "cuda",
                                .precision = which / test_n_archs() == 1 ? "fp64" : "fp32",
                                .replay = replay,
                                .skip_self_test = 1};
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

void set_list(scene *s, double skin)
{
  test_atoms atoms = test_water_box(2, 5);
  test_atoms_species(&atoms, hco, 3);
  mlff_system_free(s->system);
  s->system = test_system(&atoms, mlff_model_info(s->replayed)->cutoff + skin);
  const uint64_t list_id = s->graph.list_id;
  s->graph = *mlff_system_graph(s->system);
  s->graph.list_id = list_id + 1;
  const size_t bytes = (size_t) s->graph.n_all * sizeof *s->pos;
  s->pos = realloc(s->pos, bytes);
  s->start = realloc(s->start, bytes);
  s->node = realloc(s->node, (size_t) s->graph.n_all * sizeof *s->node);
  memcpy(s->pos, s->graph.pos, bytes);
  memcpy(s->start, s->graph.pos, bytes);
  s->tag = realloc(s->tag, (size_t) s->graph.n_all * sizeof *s->tag);
  for (int32_t a = 0; a < s->graph.n_all; a++) s->tag[a] = s->node[a] = s->graph.node[a];
  s->graph.pos = (const double(*)[3]) s->pos;
  s->graph.node = s->node;
  s->graph.tag = s->tag;
  free_other_rank(&s->other);
  if (s->which >= n_cases()) s->other = make_other_rank(&s->graph, s->node);
  test_atoms_free(&atoms);
}

static scene scene_of(int which, test_model file)
{
  scene s = {.file = file, .rng = 7, .which = which};
  s.replayed = open_model(&s.file, which, "on");
  s.plain = open_model(&s.file, which, "off");
  set_list(&s, 0.5);
  return s;
}

scene make_scene(int which)
{
  device_reset(1);
  return scene_of(which, test_model_of_arch(which % test_n_archs()));
}

scene make_repelling_scene(int which)
{
  device_reset(1);
  test_model file = test_model_of_arch(which % test_n_archs());
  test_model_repel(&file, "H-H: 1.1, H-O: 0.85, O-O: 2.2");
  return scene_of(which, file);
}

scene make_clamped_scene(int which)
{
  device_reset(1);
  test_model file = test_model_of_arch(which % test_n_archs());
  test_model_edit(&file, "\nprovenance:",
                  "\nrepulsion: {kind: clamped, radii: {H: 0.55, C: 0.6, O: 1.1}, cutoffs: {H-O: 0.85}}\nprovenance:");
  return scene_of(which, file);
}

scene make_repelled_scene(int which)
{
  device_reset(1);
  test_model file = test_model_of_arch(which % test_n_archs());
  test_model_repel_mace(&file);
  return scene_of(which, file);
}

void free_scene(scene *s)
{
  mlff_model_close(s->replayed);
  mlff_model_close(s->plain);
  mlff_system_free(s->system);
  free(s->pos);
  free(s->start);
  free(s->node);
  free(s->tag);
  free_other_rank(&s->other);
  test_model_free(&s->file);
  device_is_empty();
}

void move(scene *s, double size, double scale)
{
  const mlff_graph *g = mlff_system_graph(s->system);
  for (int32_t a = 0; a < g->n_all; a++)
    for (int k = 0; k < 3; k++) {
      s->rng = s->rng * 6364136223846793005u + 1442695040888963407u;
      const double r = (double) (s->rng >> 40) / (double) (1 << 24) - 0.5;
      const double shift = a < g->n_local ? size * r : s->pos[g->node[a]][k] / scale - s->start[g->node[a]][k];
      s->pos[a][k] = scale * (s->start[a][k] + shift);
    }
}

int has_atoms(const scene *s)
{
  return (mlff_model_info(s->replayed)->traits & MLFF_CONSERVATIVE) != 0;
}

answer make_answer(const scene *s, int with_stress)
{
  const size_t n = (size_t) s->graph.n_nodes;
  answer a = {.n = n * (3 + 1 + 9) + 64};
  a.numbers = calloc(a.n, sizeof *a.numbers);
  a.result.forces = (double(*)[3]) a.numbers;
  if (has_atoms(s)) a.result.atom_energy = a.numbers + 3 * n;
  if (with_stress) a.result.atom_virial = (double(*)[9])(a.numbers + 4 * n);
  a.result.member_energy = a.numbers + 13 * n;
  return a;
}

mlff_status evaluate(scene *s, mlff_model *model, mlff_result *result, mlff_error *error)
{
  const mlff_halo halo = halo_of(&s->other, s->which >= 3 * test_n_archs());
  return mlff_model_evaluate(model, &s->graph, s->other.owner ? &halo : NULL, result, error);
}

mlff_status record(scene *s, mlff_model *model, mlff_result *result, double *seconds, mlff_error *error)
{
  const mlff_halo halo = halo_of(&s->other, s->which >= 3 * test_n_archs());
  return mlff_model_record(model, &s->graph, s->other.owner ? &halo : NULL, result, seconds, error);
}

static void evaluate_both(scene *s, answer *a, answer *b)
{
  const other_rank first = s->other;
  mlff_error error = {.code = MLFF_OK};
  test_ok(evaluate(s, s->replayed, &a->result, &error), error);
  const other_rank then = s->other;
  test_ok(evaluate(s, s->plain, &b->result, &error), error);
  ck_assert_int_eq(s->other.n_forward - then.n_forward, then.n_forward - first.n_forward);
  ck_assert_int_eq(s->other.n_direct - then.n_direct, then.n_direct - first.n_direct);
  ck_assert_int_eq(s->other.n_reverse - then.n_reverse, then.n_reverse - first.n_reverse);
  ck_assert_int_eq(s->other.n_reduce - then.n_reduce, then.n_reduce - first.n_reduce);
  ck_assert_int_eq(a->result.n_edges, b->result.n_edges);
  ck_assert(fabs(a->numbers[0]) > 0 && a->result.min_distance == b->result.min_distance);
}

void step(scene *s, int with_stress)
{
  answer a = make_answer(s, with_stress), b = make_answer(s, with_stress);
  evaluate_both(s, &a, &b);
  ck_assert_int_eq(memcmp(a.numbers, b.numbers, a.n * sizeof *a.numbers), 0);
  ck_assert_int_eq(memcmp(a.result.virial, b.result.virial, sizeof a.result.virial), 0);
  ck_assert(a.result.energy == b.result.energy);
  free(a.numbers);
  free(b.numbers);
}

void timed_step(scene *s)
{
  const char *precision = mlff_model_info(s->replayed)->precision;
  const int64_t n = s->graph.n_nodes;
  answer a = make_answer(s, 0), b = make_answer(s, 0);
  evaluate_both(s, &a, &b);
  same_of_kernels("energy", &a.result.energy, &b.result.energy, 1, precision);
  same_of_kernels("forces", a.numbers, b.numbers, 3 * n, precision);
  same_of_kernels("energies", a.numbers + 3 * n, b.numbers + 3 * n, (int64_t) a.n - 3 * n, precision);
  same_of_kernels("virial", a.result.virial, b.result.virial, 6, precision);
  free(a.numbers);
  free(b.numbers);
}

void check_counts(const scene *s, int64_t n_steps, int64_t n_replayed, int64_t n_recorded, int64_t n_overflows)
{
  const mlff_replays on = mlff_model_replays(s->replayed), off = mlff_model_replays(s->plain);
  ck_assert(on.is_on && !*on.why && !off.is_on && strstr(off.why, "replay no"));
  ck_assert_int_eq(on.n_steps, n_steps);
  ck_assert_int_eq(on.n_replayed, n_replayed);
  ck_assert_int_eq(on.n_recorded, n_recorded);
  ck_assert_int_eq(on.n_overflows, n_overflows);
  ck_assert_int_eq(off.n_replayed + off.n_recorded, 0);
}

double record_now(scene *s, mlff_model *model, int with_stress)
{
  mlff_error error = {.code = MLFF_OK};
  double seconds = NAN;
  answer a = make_answer(s, with_stress), b = make_answer(s, with_stress);
  const other_rank before = s->other;
  test_ok(record(s, model, &a.result, &seconds, &error), error);
  ck_assert(memcmp(&before, &s->other, sizeof before) == 0);
  const int has_exchanges = before.owner && mlff_model_info(model)->exchange_width > 0;
  if (seconds > 0 && !has_exchanges) { /* the capture has evaluated the model */
    test_ok(evaluate(s, s->plain, &b.result, &error), error);
    ck_assert_int_eq(memcmp(a.numbers, b.numbers, a.n * sizeof *a.numbers), 0);
    ck_assert(a.result.energy == b.result.energy);
  }
  free(a.numbers);
  free(b.numbers);
  return seconds;
}
