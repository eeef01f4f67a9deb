/* test_fuse.c: operations that are done at once (`fuse on`) give the bits of those done one by one, in fewer launches; and
 * products on tensor cores (`precision mixed`) are as near to fp32 as is promised, with the shipped models. */
#include "backends.h"
#include "cudasim.h"
#include "mixed.h"

#include "model/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

/* What one evaluation gives, all of it. */
typedef struct answer {
  mlff_result result;
  double *numbers;
  size_t n;
} answer;

static answer evaluate(mlff_model *model, const mlff_graph *graph, int with_member_forces)
{
  mlff_error error = {.code = MLFF_OK};
  const size_t n = (size_t) graph->n_local, n_members = (size_t) mlff_model_info(model)->n_members;
  answer a = {.n = n * (3 + 1 + 1 + 3 * n_members) + n_members};
  a.numbers = calloc(a.n, sizeof *a.numbers);
  a.result.forces = (double(*)[3]) a.numbers;
  a.result.atom_energy = a.numbers + 3 * n;
  a.result.atom_spread = a.numbers + 4 * n;
  a.result.member_energy = a.numbers + 5 * n;
  if (with_member_forces && n_members > 1) a.result.member_forces = (double(*)[3])(a.numbers + 5 * n + n_members);
  test_ok(mlff_model_evaluate(model, graph, NULL, &a.result, &error), error);
  return a;
}

static mlff_model *open_model(const test_model *file, mlff_options options)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  options.device = "cuda";
  options.skip_self_test = 1;
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

/* Rows that ANI and atoms that PaiNN takes at a time, so that few atoms are many batches. */
static void set_block(mlff_model *model, int64_t block)
{
  mlff_ops *ops = (mlff_ops *) (uintptr_t) model->backend->ops;
  ops->ani.block = ops->painn.block = block;
}

/* ---- fuse ---------------------------------------------------------------------------------------------------------- */

enum { N_CASES = 8 }; /* two kinds of models, two precisions, all atoms at once and in batches */

/* Members of other depths and widths are in one launch, and elements end within a batch. */
static test_model make_model(int which)
{
  test_model_options o = {.elements = hco, .n_elements = 3, .is_double = 1};
  if (which % 2) {
    o.n_members = 8;
    o.n_hidden = 3;
  }
  return which % 2 ? test_model_ani(o) : test_model_nth(0, o);
}

static long count_launches(mlff_model *model, const mlff_graph *graph)
{
  const long before = cudasim_n_launches();
  free(evaluate(model, graph, 0).numbers);
  return cudasim_n_launches() - before;
}

/* One model with and without fused operations, and eight atoms for it. */
typedef struct scene {
  test_model file;
  mlff_model *on, *off;
  test_atoms atoms;
  mlff_system *system;
} scene;

/* graph: of `on` */
static scene make_scene(int which, const char *precision, const char *graph)
{
  scene s = {.file = make_model(which), .atoms = test_triclinic()};
  cudasim_reset();
  s.on = open_model(&s.file, (mlff_options){.precision = precision, .graph = graph});
  s.off = open_model(&s.file, (mlff_options){.precision = precision, .graph = "off", .fuse = "off"});
  test_atoms_species(&s.atoms, hco, 3);
  s.system = test_system(&s.atoms, mlff_model_info(s.on)->cutoff);
  return s;
}

static void free_scene(scene *s)
{
  mlff_system_free(s->system);
  test_atoms_free(&s->atoms);
  mlff_model_close(s->on);
  mlff_model_close(s->off);
  test_model_free(&s->file);
  ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
}

/* Launches of a step with a new list, and of one whose list stays. More of them is what fusing is against, fewer should be
 * known: so these are the numbers, not bounds. */
typedef struct launches {
  long first, settled;
} launches;

static launches count_both(mlff_model *model, const mlff_graph *graph)
{
  launches n;
  n.first = count_launches(model, graph);
  n.settled = count_launches(model, graph);
  ck_assert_int_eq(count_launches(model, graph), n.settled);
  return n;
}

static void check_launches(const char *what, launches got, launches expected)
{
  printf("%s: %ld launches with a new list, %ld in a settled step\n", what, got.first, got.settled);
  ck_assert_int_eq(got.first, expected.first);
  ck_assert_int_eq(got.settled, expected.settled);
}

START_TEST(fused_steps_have_the_same_bits)
{
  static const launches fused[2][2] = {{{26, 15}, {26, 15}},
                                       {{23, 12}, {27, 16}}}; /* painn, ani: at once, in batches */
  static const launches plain[2] = {{56, 45}, {193, 182}};
  const char *precision = _i / 2 % 2 ? "fp64" : "fp32";
  scene s = make_scene(_i, precision, "off");
  mlff_model *on = s.on, *off = s.off;
  if (_i >= N_CASES / 2 && _i % 2) set_block(on, 10); /* five rows */
  const mlff_graph *graph = mlff_system_graph(s.system);
  printf("%s %s: ", mlff_model_info(on)->architecture, precision);
  check_launches("fuse on", count_both(on, graph), fused[_i % 2][_i >= N_CASES / 2]);
  check_launches("fuse off", count_both(off, graph), plain[_i % 2]);
  answer b = evaluate(off, graph, 1);
  for (unsigned seed = 0; seed < 3; seed++) {
    cudasim_set_shuffle(seed);
    answer a = evaluate(on, graph, 1);
    ck_assert_int_eq(memcmp(a.numbers, b.numbers, a.n * sizeof *a.numbers), 0);
    ck_assert(a.result.energy == b.result.energy && fabs(a.numbers[0]) > 0);
    free(a.numbers);
  }
  free(b.numbers);
  free_scene(&s);
}
END_TEST

/* Large systems and steps whose parts are timed take ANI's networks layer by layer, with the same bits. */
START_TEST(ani_layers_have_the_same_bits)
{
  static const launches whole = {23, 12}, layers = {29, 18};
  mlff_error error = {.code = MLFF_OK};
  scene s = make_scene(1, "fp32", "off"), water = make_scene(1, "fp32", "off");
  mlff_system_free(water.system);
  test_atoms_free(&water.atoms);
  water.atoms = test_water_box(2, 11); /* 24 atoms, none of them carbon, eight members */
  test_atoms_species(&water.atoms, hco, 3);
  water.system = test_system(&water.atoms, mlff_model_info(water.on)->cutoff);
  check_launches("few atoms", count_both(s.on, mlff_system_graph(s.system)), whole);
  check_launches("many atoms", count_both(water.on, mlff_system_graph(water.system)), layers);
  test_ok(mlff_spans_start(s.on, 0, &error), error);
  ck_assert_int_eq(count_launches(s.on, mlff_system_graph(s.system)), layers.settled);
  for (const scene *of = &s; of; of = of == &s ? &water : NULL) {
    answer a = evaluate(of->on, mlff_system_graph(of->system), 1),
           b = evaluate(of->off, mlff_system_graph(of->system), 1);
    ck_assert_int_eq(memcmp(a.numbers, b.numbers, a.n * sizeof *a.numbers), 0);
    free(a.numbers);
    free(b.numbers);
  }
  mlff_spans_stop(s.on);
  check_launches("few atoms", count_both(s.on, mlff_system_graph(s.system)), (launches){12, 12});
  mlff_model_close(water.on);
  mlff_model_close(water.off);
  mlff_system_free(water.system);
  test_atoms_free(&water.atoms);
  test_model_free(&water.file);
  free_scene(&s);
}
END_TEST

START_TEST(fuse_is_on_or_off)
{
  test_model file = make_model(1);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  cudasim_reset();
  test_fails(test_model_try(&file, &(mlff_options){.fuse = "yes"}, &model, &error), error, MLFF_E_ARG, "on or off");
  test_model_free(&file);
}
END_TEST

/* ---- mixed --------------------------------------------------------------------------------------------------------- */

static const char *const shipped[] = {"water-benzene-student", "water-benzene-teacher"};
enum { N_SHIPPED = sizeof shipped / sizeof *shipped, N_FRAMES = 3 };

static mlff_model *open_shipped(const char *name, const char *precision)
{
  char path[600];
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const char *const elements[] = {"H", "O"};
  const mlff_options options = {.device = "cuda", .precision = precision, .elements = elements, .n_elements = 2};
  snprintf(path, sizeof path, "%s/models/%s.yaml", MLFF_TEST_SOURCE_DIR, name);
  test_ok(mlff_model_open(path, &options, &model, &error), error);
  ck_assert_str_eq(mlff_model_info(model)->precision, precision);
  return model;
}

/* The promise of docs/gpu.md. The self-tests of the files pass as well: they run when the model is opened. */
START_TEST(mixed_keeps_the_promise)
{
  cudasim_reset();
  mlff_model *mixed = open_shipped(shipped[_i], "mixed"), *single = open_shipped(shipped[_i], "fp32");
  test_atoms atoms[N_FRAMES];
  for (int frame = 0; frame < N_FRAMES; frame++) {
    atoms[frame] = test_water_box(2, 11 + (uint64_t) frame);
    test_atoms_species(&atoms[frame], mlff_model_info(mixed)->elements, mlff_model_info(mixed)->n_elements);
  }
  mixed_is_near_single(shipped[_i], mixed, single, atoms, N_FRAMES);
  for (int frame = 0; frame < N_FRAMES; frame++) test_atoms_free(&atoms[frame]);
  mlff_model_close(mixed);
  mlff_model_close(single);
}
END_TEST

/* ---- memory of mixed ----------------------------------------------------------------------------------------------- */

enum { N_SIZED = N_SHIPPED + 1 };

/* The shipped models, and an ensemble of about the size of ANI-2x with random weights; without self-test. */
static mlff_model *open_sized(int which, const char *precision)
{
  static const char *const elements[] = {"H", "O"};
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  char path[600];
  if (which < N_SHIPPED) {
    const mlff_options options = {.device = "cuda",
                                  .precision = precision,
                                  .elements = elements,
                                  .n_elements = 2,
                                  .skip_self_test = 1};
    snprintf(path, sizeof path, "%s/models/%s.yaml", MLFF_TEST_SOURCE_DIR, shipped[which]);
    test_ok(mlff_model_open(path, &options, &model, &error), error);
    return model;
  }
  test_model file = test_model_ani((test_model_options){.cutoff = 5.1,
                                                        .angular_cutoff = 3.5,
                                                        .n_members = 8,
                                                        .n_radial = 16,
                                                        .n_angular = 8,
                                                        .n_sections = 4,
                                                        .n_hidden = 3,
                                                        .width = 256});
  model = open_model(&file, (mlff_options){.precision = precision});
  test_model_free(&file);
  return model;
}

static mlff_system *water_of(const mlff_model *model, int n_side, double skin)
{
  test_atoms atoms = test_water_box(n_side, 5);
  test_atoms_species(&atoms, mlff_model_info(model)->elements, mlff_model_info(model)->n_elements);
  mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff + skin);
  test_atoms_free(&atoms);
  return system;
}

static double foresee(mlff_model *model, const mlff_graph *graph)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_forecast forecast;
  mlff_result result = {.forces = malloc((size_t) graph->n_local * sizeof *result.forces)};
  test_ok(mlff_model_forecast(model, graph, &result, &forecast, &error), error);
  free(result.forces);
  return (double) forecast.first_bytes + (double) forecast.host_bytes;
}

/* The promise of docs/gpu.md for 100 thousand atoms. */
START_TEST(mixed_takes_less_memory)
{
  cudasim_reset();
  mlff_model *mixed = open_sized(_i, "mixed"), *single = open_sized(_i, "fp32");
  mlff_system *system = water_of(mixed, 32, 1.0);
  const double a = foresee(mixed, mlff_system_graph(system)), b = foresee(single, mlff_system_graph(system));
  printf("%s, %d atoms: %.0f MB mixed, %.0f MB fp32\n", mlff_model_info(mixed)->name,
         (int) mlff_system_graph(system)->n_local, a / 1e6, b / 1e6);
  ck_assert_msg(a < 0.7 * b, "%g of %g", a, b);
  mlff_system_free(system);
  mlff_model_close(mixed);
  mlff_model_close(single);
}
END_TEST

/* The same held and not only foreseen, in a small system and as much smaller blocks; and with the bits of one block. */
START_TEST(blocks_of_mixed)
{
  cudasim_reset();
  const int is_ani = _i == N_SHIPPED;
  mlff_model *blocks = open_sized(_i, "mixed"), *one = open_sized(_i, "mixed"), *single = open_sized(_i, "fp32");
  set_block(blocks, is_ani ? 8 : 5); /* with eight members 4 rows */
  mlff_system *system = water_of(blocks, is_ani ? 2 : 3, 0.5);
  const mlff_graph *graph = mlff_system_graph(system);
  const double foreseen = foresee(blocks, graph);
  answer a = evaluate(blocks, graph, 0), b = evaluate(one, graph, 0), c = evaluate(single, graph, 0);
  ck_assert_int_eq(memcmp(a.numbers, b.numbers, a.n * sizeof *a.numbers), 0);
  ck_assert(a.result.energy == b.result.energy && fabs(a.numbers[0]) > 0);
  const double held = (double) mlff_model_memory(blocks).bytes, full = (double) mlff_model_memory(single).bytes;
  const double own = (double) blocks->own_bytes;
  ck_assert_msg(foreseen > 0.98 * held && foreseen < 1.02 * held, "foreseen %g, held %g", foreseen, held);
  ck_assert_msg(held - own < 0.7 * (full - own), "%g of %g", held - own, full - own);
  free(a.numbers);
  free(b.numbers);
  free(c.numbers);
  mlff_system_free(system);
  mlff_model_close(blocks);
  mlff_model_close(one);
  mlff_model_close(single);
}
END_TEST

START_TEST(mixed_orb_is_near_single)
{
  cudasim_reset();
  test_model file = test_model_small_orb((test_model_options){.elements = hco, .n_elements = 3});
  mlff_model *mixed = open_model(&file, (mlff_options){.precision = "mixed"}),
             *single = open_model(&file, (mlff_options){.precision = "fp32"});
  test_atoms atoms = test_water_box(2, 11);
  test_atoms_species(&atoms, hco, 3);
  mixed_is_near_single("orb", mixed, single, &atoms, 1);
  test_atoms_free(&atoms);
  mlff_model_close(mixed);
  mlff_model_close(single);
  test_model_free(&file);
  ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
}
END_TEST

/* Mixed steps, too, are the same bits recorded, fused and in any order. */
START_TEST(mixed_steps_have_the_same_bits)
{
  scene s = make_scene(_i, "mixed", "on");
  const mlff_graph *graph = mlff_system_graph(s.system);
  const size_t bytes = (size_t) s.atoms.n * 3 * sizeof(double);
  answer b = evaluate(s.off, graph, 0);
  for (unsigned step = 0; step < 3; step++) {
    mlff_error error = {.code = MLFF_OK};
    double forces[8][3];
    mlff_result result = {.forces = forces};
    cudasim_set_shuffle(step);
    test_ok(mlff_model_evaluate(s.on, graph, NULL, &result, &error), error);
    ck_assert_int_eq(memcmp(forces, b.numbers, bytes), 0);
    ck_assert(result.energy == b.result.energy);
  }
  ck_assert_int_eq(mlff_model_replays(s.on).n_replayed, 2);
  free(b.numbers);
  free_scene(&s);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("fuse");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, fused_steps_have_the_same_bits, 0, N_CASES);
  tcase_add_test(tcase, ani_layers_have_the_same_bits);
  tcase_add_test(tcase, fuse_is_on_or_off);
  tcase_add_loop_test(tcase, mixed_keeps_the_promise, 0, N_SHIPPED);
  tcase_add_loop_test(tcase, mixed_takes_less_memory, 0, N_SIZED);
  tcase_add_loop_test(tcase, blocks_of_mixed, 0, N_SIZED);
  tcase_add_test(tcase, mixed_orb_is_near_single);
  tcase_add_loop_test(tcase, mixed_steps_have_the_same_bits, 0, 2);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
