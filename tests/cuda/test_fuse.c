/* test_fuse.c: fused operations (`fuse yes`) agree with unfused ones, to the bit on the simulator; and GEMMs on tensor
 * cores (`precision mixed`) are as accurate as promised, with the shipped models. Launches are counted in
 * ../cudasim/test_fuse.c. */
#include "fuse_scene.h"
#include "mixed.h"

#include "model/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

/* ---- fuse -------------------------------------------------------------------------------------------------------- */

/* Repeated evaluations have the same bits, for any order of blocks. */
START_TEST(fused_steps_agree)
{
  const char *precision = _i / 2 % 2 ? "fp64" : "fp32";
  device_reset(1);
  scene s = make_scene(_i, precision, "off");
  if (_i >= N_CASES / 2 && _i % 2) set_block(s.replayed, 10); /* five rows */
  const mlff_graph *graph = mlff_system_graph(s.system);
  answer plain = evaluate(s.plain, graph, 1), first = evaluate(s.replayed, graph, 1);
  same_answers(&first, &plain, precision);
  for (unsigned seed = 1; seed < 3; seed++) {
    device_shuffle(seed);
    answer again = evaluate(s.replayed, graph, 1);
    ck_assert_int_eq(memcmp(again.numbers, first.numbers, (size_t) first.n * sizeof *first.numbers), 0);
    ck_assert(again.result.energy == first.result.energy);
    free(again.numbers);
  }
  free(first.numbers);
  free(plain.numbers);
  free_scene(&s);
  device_is_empty();
}
END_TEST

/* GEMMs with weights in several chunks and passes, which limit the atoms of a block; columns of ANI in several
 * tiles. */
START_TEST(wide_networks_agree)
{
  static const int features[] = {0, 100, 200, 200, 320}; /* 0: ANI */
  const char *precision = _i % 2 ? "fp64" : "fp32";
  test_model_options o = test_three_elements();
  device_reset(1);
  o.n_features = features[_i / 2];
  o.width = 300; /* of ANI */
  test_model file = o.n_features ? test_model_painn(o) : test_model_ani(o);
  mlff_model *on = open_model(&file, (mlff_options){.precision = precision}),
             *off = open_model(&file, (mlff_options){.precision = precision, .fuse = "off"});
  test_atoms atoms = _i / 2 < 3 ? test_triclinic() : test_random(24, 12.0, 2.0, 1, (const int[]){1, 6, 8}, 3, 7);
  test_atoms_species(&atoms, hco, 3);
  mlff_system *system = test_system(&atoms, mlff_model_info(on)->cutoff);
  answer a = evaluate(on, mlff_system_graph(system), 0), b = evaluate(off, mlff_system_graph(system), 0);
  same_answers(&a, &b, precision);
  free(a.numbers);
  free(b.numbers);
  mlff_system_free(system);
  test_atoms_free(&atoms);
  mlff_model_close(on);
  mlff_model_close(off);
  test_model_free(&file);
  device_is_empty();
}
END_TEST

/* Large systems and timed steps run the networks of ANI layer by layer. Water is large for the simulated GPU. */
START_TEST(ani_layers_agree)
{
  mlff_error error = {.code = MLFF_OK};
  device_reset(1);
  scene scenes[2] = {make_scene(1, "fp32", "off"), make_scene(1, "fp32", "off")};
  put_in_water(&scenes[1]);
  test_ok(mlff_spans_start(scenes[0].replayed, 0, &error), error);
  for (int k = 0; k < 2; k++) {
    const mlff_graph *graph = mlff_system_graph(scenes[k].system);
    answer a = evaluate(scenes[k].replayed, graph, 1), b = evaluate(scenes[k].plain, graph, 1);
    same_answers(&a, &b, "fp32");
    free(a.numbers);
    free(b.numbers);
  }
  mlff_spans_stop(scenes[0].replayed);
  for (int k = 0; k < 2; k++) free_scene(&scenes[k]);
  device_is_empty();
}
END_TEST

START_TEST(fuse_is_on_or_off)
{
  test_model file = make_model(1);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  device_reset(1);
  test_fails(test_model_try(&file, &(mlff_options){.fuse = "maybe"}, &model, &error), error, MLFF_E_ARG, "yes no");
  test_model_free(&file);
}
END_TEST

/* ---- mixed ------------------------------------------------------------------------------------------------------- */

static const char *const shipped[] = {"water-benzene-student", "water-benzene-teacher"};
enum { N_SHIPPED = sizeof shipped / sizeof *shipped, N_FRAMES = 3 };

/* Not fused: fused small systems use no tensor cores. */
static mlff_model *open_shipped(const char *name, const char *precision)
{
  char path[600];
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const char *const elements[] = {"H", "O"};
  const mlff_options options = {.device = "cuda",
                                .precision = precision,
                                .fuse = "off",
                                .elements = elements,
                                .n_elements = 2};
  snprintf(path, sizeof path, "%s/models/%s.yaml", test_source_dir(), name);
  test_ok(mlff_model_open(path, &options, &model, &error), error);
  ck_assert_str_eq(mlff_model_info(model)->precision, precision);
  return model;
}

/* The accuracy stated in docs/gpu.md. Opening a model also runs the self-test of its file. */
START_TEST(mixed_keeps_the_promise)
{
  device_reset(1);
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

static mlff_system *water_of(const mlff_model *model, int n_side, double skin)
{
  test_atoms atoms = test_water_box(n_side, 5);
  test_atoms_species(&atoms, mlff_model_info(model)->elements, mlff_model_info(model)->n_elements);
  mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff + skin);
  test_atoms_free(&atoms);
  return system;
}

/* Values outside the range of half precision are an error. */
START_TEST(mixed_ends_at_65504)
{
  device_reset(1);
  mlff_error error = {.code = MLFF_OK};
  const test_model_options options = {.elements = hco, .n_elements = 3, .n_hidden = 3, .is_double = 1};
  test_model file = _i ? test_model_small_orb(options) : test_model_ani(options);
  test_model_scale_weights(&file, _i ? 1e6 : 1e3);
  for (int is_mixed = 0; is_mixed < 2; is_mixed++) {
    mlff_model *model = open_model(&file, (mlff_options){.precision = is_mixed ? "mixed" : "fp32", .fuse = "off"});
    mlff_system *system = water_of(model, 2, 0.5);
    const mlff_graph *graph = mlff_system_graph(system);
    mlff_result result = {.forces = malloc((size_t) graph->n_nodes * sizeof *result.forces)};
    if (is_mixed)
      test_fails(mlff_model_evaluate(model, graph, NULL, &result, &error), error, MLFF_E_NUMERIC, "65504");
    else
      test_ok(mlff_model_evaluate(model, graph, NULL, &result, &error), error);
    free(result.forces);
    mlff_system_free(system);
    mlff_model_close(model);
  }
  test_model_free(&file);
  device_is_empty();
}
END_TEST

/* ---- memory of mixed --------------------------------------------------------------------------------------------- */

enum { N_SIZED = N_SHIPPED + 1 };

/* The shipped models, and a random ensemble of about the size of ANI-2x; without self-test. */
static mlff_model *open_sized(int which, const char *precision)
{
  static const char *const elements[] = {"H", "O"};
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  char path[600];
  if (which < N_SHIPPED) {
    const mlff_options options = {.device = "cuda",
                                  .precision = precision,
                                  .fuse = "off",
                                  .elements = elements,
                                  .n_elements = 2,
                                  .skip_self_test = 1};
    snprintf(path, sizeof path, "%s/models/%s.yaml", test_source_dir(), shipped[which]);
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

static double foresee(mlff_model *model, const mlff_graph *graph)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_forecast forecast;
  mlff_result result = {.forces = malloc((size_t) graph->n_local * sizeof *result.forces)};
  test_ok(mlff_model_forecast(model, graph, &result, &forecast, &error), error);
  free(result.forces);
  return (double) forecast.first_bytes + (double) forecast.host_bytes;
}

/* The memory stated in docs/dev/gpu.md for 100 thousand atoms. */
START_TEST(mixed_takes_less_memory)
{
  device_reset(1);
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

/* The memory in use, not only the forecast, in a small system with smaller blocks; same bits as with one block. */
START_TEST(blocks_of_mixed)
{
  device_reset(1);
  const int is_ani = _i == N_SHIPPED;
  mlff_model *blocks = open_sized(_i, "mixed"), *one = open_sized(_i, "mixed"), *single = open_sized(_i, "fp32");
  set_block(blocks, is_ani ? 8 : 5); /* with eight members 4 rows */
  mlff_system *system = water_of(blocks, is_ani ? 2 : 3, 0.5);
  const mlff_graph *graph = mlff_system_graph(system);
  const double foreseen = foresee(blocks, graph);
  answer a = evaluate(blocks, graph, 0), b = evaluate(one, graph, 0), c = evaluate(single, graph, 0);
  same_answers(&a, is_ani ? &c : &b, "mixed"); /* ANI's networks of so few rows are one kernel, which is that of fp32 */
  const double held = (double) mlff_model_memory(blocks).bytes, full = (double) mlff_model_memory(single).bytes;
  const double own = (double) blocks->own_bytes, full_own = (double) single->own_bytes; /* weights */
  ck_assert_msg(foreseen > 0.98 * held && foreseen < 1.02 * held, "foreseen %g, held %g", foreseen, held);
  ck_assert_msg(held - own < 0.7 * (full - full_own), "%g of %g", held - own, full - full_own);
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
  device_reset(1);
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
  device_is_empty();
}
END_TEST

/* Mixed steps of small systems are those of fp32: fused, without tensor cores; same bits with replay and in any
 * order. */
START_TEST(mixed_steps_of_few_atoms_are_those_of_fp32)
{
  device_reset(1);
  scene s = make_scene(_i, "mixed", "on"), single = make_scene(_i, "fp32", "on");
  const mlff_graph *graph = mlff_system_graph(s.system);
  answer plain = evaluate(single.replayed, mlff_system_graph(single.system), 0), first = evaluate(s.replayed, graph, 0);
  same_answers(&first, &plain, "mixed");
  for (unsigned step = 1; step < 3; step++) {
    device_shuffle(step);
    answer again = evaluate(s.replayed, graph, 0);
    ck_assert_int_eq(memcmp(again.numbers, first.numbers, (size_t) first.n * sizeof *first.numbers), 0);
    ck_assert(again.result.energy == first.result.energy);
    free(again.numbers);
  }
  ck_assert_int_eq(mlff_model_replays(s.replayed).n_replayed, 2);
  free(first.numbers);
  free(plain.numbers);
  free_scene(&s);
  free_scene(&single);
  device_is_empty();
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("fuse");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, fused_steps_agree, 0, N_CASES);
  tcase_add_loop_test(tcase, wide_networks_agree, 0, 10);
  tcase_add_test(tcase, ani_layers_agree);
  tcase_add_test(tcase, fuse_is_on_or_off);
  tcase_add_loop_test(tcase, mixed_keeps_the_promise, 0, test_cases(N_SHIPPED, 1));
  tcase_add_loop_test(tcase, mixed_ends_at_65504, 0, 2);
  tcase_add_loop_test(tcase, mixed_takes_less_memory, 0, N_SHIPPED);
  tcase_add_loop_test(tcase, blocks_of_mixed, 0, test_cases(N_SIZED, 1));
  tcase_add_test(tcase, mixed_orb_is_near_single);
  tcase_add_loop_test(tcase, mixed_steps_of_few_atoms_are_those_of_fp32, 0, 2);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return device_main("cuda_fuse", make_suite);
}
