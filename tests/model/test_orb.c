/* test_orb.c: Orb as a whole, from the file to forces and stress.
 *
 * The small random Orb of the shared directory is compared with the numbers of orb-models in double; its known traps
 * each make that or one of the other tests here, in op/test_orb.c, python/test_orb.py or lammps/test_orb.py fail. Here:
 * O1 three linear layers, O3 ties, O5 mean features, O6 net force, O7 torque, O8 orientation, O9 order of the stress,
 * O10 numbers of the file, O11 order of inputs, O16 atoms without neighbors.
 */
#include "backends.h"
#include "mixed.h"
#include "reference.h"
#include "testmodel.h"

#include "arch/orb.h"
#include "model/model_impl.h"
#include "model/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

static test_model small_orb(int seed)
{
  return test_model_orb((test_model_options){.elements = hco,
                                             .n_elements = 3,
                                             .is_double = 1,
                                             .seed = (uint64_t) seed,
                                             .n_features = 12,
                                             .n_interactions = 3});
}

static void sum_of_forces(const test_answer *a, double sum[3])
{
  for (int c = 0; c < 3; c++) sum[c] = 0;
  for (int i = 0; i < a->n_nodes; i++)
    for (int c = 0; c < 3; c++) sum[c] += a->result.forces[i][c];
}

/* Torque about the centroid of the forces without the normaliser's mean. */
static double torque_of(const test_answer *a, const test_atoms *atoms)
{
  double centroid[3] = {0}, torque[3] = {0};
  for (int i = 0; i < atoms->n; i++)
    for (int c = 0; c < 3; c++) centroid[c] += atoms->pos[i][c] / atoms->n;
  for (int i = 0; i < atoms->n; i++) {
    double q[3], f[3];
    for (int c = 0; c < 3; c++) {
      q[c] = atoms->pos[i][c] - centroid[c];
      f[c] = a->result.forces[i][c] - 0.0125;
    }
    for (int c = 0; c < 3; c++) torque[c] += q[(c + 1) % 3] * f[(c + 2) % 3] - q[(c + 2) % 3] * f[(c + 1) % 3];
  }
  return sqrt(torque[0] * torque[0] + torque[1] * torque[1] + torque[2] * torque[2]);
}

/* ---- the published numbers --------------------------------------------------------------------------------------- */

typedef struct renaming {
  const char *old, *renamed;
} renaming;

/* Replaces the first `from` in text by `to`. */
static void rename_part(char *text, size_t size, const char *from, const char *to)
{
  char *at = strstr(text, from), rest[160];
  if (!at) return;
  snprintf(rest, sizeof rest, "%s", at + strlen(from));
  snprintf(at, size - (size_t) (at - text), "%s%s", to, rest);
}

static void new_name(const char *old, char *name, size_t size)
{
  static const renaming parts[] = {{"model._encoder._node_fn", "node_encoder"},
                                   {"model._encoder._edge_fn", "edge_encoder"},
                                   {"model.gnn_stacks.", "layer."},
                                   {"._edge_mlp", ".edge"},
                                   {"._node_mlp", ".node"},
                                   {"._receive_attn", ".receive"},
                                   {"._send_attn", ".send"},
                                   {"heads.", ""},
                                   {".mlp.NN-", "."},
                                   {".layer_norm", ".norm"}};
  snprintf(name, size, "%s", old);
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) rename_part(name, size, parts[k].old, parts[k].renamed);
}

static char *read_file(const char *path, size_t *size)
{
  FILE *file = fopen(path, "rb");
  ck_assert_ptr_nonnull(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t) ftell(file);
  rewind(file);
  char *bytes = malloc(*size);
  ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

/* What becomes of the YAML: O10, normalisers and offsets are those of the weights. */
static void put_numbers(test_model *model, const double *reference, const double (*normalizers)[2])
{
  char text[256];
  snprintf(text, sizeof text, "energy: [%.17g, %.17g], forces: [%.17g, %.17g], stress: [%.17g, %.17g]",
           normalizers[0][0], normalizers[0][1], normalizers[1][0], normalizers[1][1], normalizers[2][0],
           normalizers[2][1]);
  test_model_edit(model, "energy: [-0.37, 1.9], forces: [0.0125, 0.61], stress: [-0.0031, 0.0144]", text);
  static const char *const old[4] = {"Si: -54", "O: -40", "C: -27", "H: -13"};
  static const char *const symbols[4] = {"Si", "O", "C", "H"};
  for (int s = 0; s < 4; s++) {
    char *at = strstr(model->yaml, old[s]), was[64];
    ck_assert_ptr_nonnull(at);
    snprintf(was, sizeof was, "%.*s", (int) strcspn(at, ",}"), at);
    snprintf(text, sizeof text, "%s: %.17g", symbols[s], reference[test_number(symbols[s])]);
    test_model_edit(model, was, text);
  }
}

/* The shared model under the names of this project; 0 (skipped) without it. */
static int published_orb(test_model *model)
{
  static const char *const elements[4] = {"H", "C", "O", "Si"};
  char path[512];
  if (!test_shared("models/orb_tiny.safetensors", path, sizeof path)) return 0;
  mlff_error error = {.code = MLFF_OK};
  mlff_arena arena = {0};
  mlff_tensor *tensors;
  size_t size;
  int n;
  char *bytes = read_file(path, &size);
  test_ok(mlff_safetensors_parse(path, bytes, size, &arena, &tensors, &n, &error), error);
  test_weights w = {.n = 0};
  double normalizers[3][2], reference[118];
  for (int k = 0; k < n; k++) {
    const mlff_tensor *t = &tensors[k];
    double *values = malloc((size_t) t->n * sizeof *values);
    char name[160];
    for (int64_t e = 0; e < t->n; e++) {
      float x;
      memcpy(&x, bytes + t->begin + 4 * (size_t) e, 4);
      values[e] = (double) x;
    }
    new_name(t->name, name, sizeof name);
    if (!strcmp(t->name, "model.atom_emb.embeddings.weight")) {
      const int64_t shape[2] = {4, t->shape[1]};
      double *mine = test_weights_add(&w, 0, values, 2, shape, "embedding");
      for (int s = 0; s < 4; s++)
        memcpy(mine + s * shape[1], values + test_number(elements[s]) * shape[1], (size_t) shape[1] * sizeof *mine);
    } else if (strstr(name, "reference")) {
      memcpy(reference, values, sizeof reference);
    } else if (strstr(name, "normalizer")) {
      normalizers[name[0] == 'e' ? 0 : name[0] == 'f' ? 1 : 2][strstr(name, "running_var") ? 1 : 0] = values[0];
    } else if (!strstr(name, "_decoder")) {
      test_weights_add(&w, 0, values, t->rank, t->shape, "%s", name);
    }
    free(values);
  }
  *model = test_model_orb((test_model_options){.elements = elements,
                                               .n_elements = 4,
                                               .is_double = 1,
                                               .n_features = 32,
                                               .width = 64,
                                               .n_readout = 32,
                                               .n_interactions = 2});
  put_numbers(model, reference, (const double(*)[2]) normalizers);
  void *data;
  test_weights_pack(&w, 1, &data, &size);
  test_model_set_weights(model, data, size);
  free(data);
  test_weights_free(&w);
  mlff_arena_free(&arena);
  free(bytes);
  return 1;
}

/* Energy, forces, stress and features. In float twice what the numpy evaluation in float32 is off on these structures:
 * 1.5e-6 eV per atom, 3.2e-6 eV/A, features 4.3e-6 (the energy is N times a number of order 1, so it is held per atom;
 * the stress head reads the same mean feature and has a tenth of the energy's scale). */
static void check_structure(mlff_model *model, const test_json *s, const char *const *elements, int is_double)
{
  test_atoms atoms = test_json_atoms(s);
  test_atoms_species(&atoms, elements, 4);
  test_answer a = test_evaluate(model, &atoms);
  int64_t n;
  near_one(a.result.energy, test_json_number(test_json_get(s, "energy_ev")), is_double ? 1e-10 : 3e-6 * atoms.n);
  double *forces = test_json_numbers(test_json_get(s, "forces_ev_per_ang"), &n);
  near_all(a.result.forces, forces, n, is_double ? 1e-10 : 7e-6, 0.0);
  if (atoms.pbc[0]) {
    static const int order[6] = {0, 1, 2, 5, 4, 3};
    double *stress = test_json_numbers(test_json_get(s, "stress_ev_per_ang3_voigt"), &n), virial[6], volume = 0;
    for (int c = 0; c < 3; c++)
      volume += atoms.cell[0][c] * (atoms.cell[1][(c + 1) % 3] * atoms.cell[2][(c + 2) % 3] -
                                    atoms.cell[1][(c + 2) % 3] * atoms.cell[2][(c + 1) % 3]);
    for (int k = 0; k < 6; k++) virial[k] = -a.result.virial[order[k]] / volume;
    near_all(virial, stress, 6, is_double ? 1e-12 : 3e-7, 0.0);
    free(stress);
  }
  if (!test_json_is_null(test_json_find(s, "node_features_final"))) {
    double *expected = test_json_numbers(test_json_get(s, "node_features_final"), &n);
    double *h = malloc((size_t) n * sizeof *h);
    const orb_net *net = model->net;
    mlff_error error = {.code = MLFF_OK};
    ck_assert_int_eq(n, 32 * atoms.n);
    test_ok(model->backend->ops->download_reals(model->backend, h, net->h.data, n, &error), error);
    near_all(h, expected, n, is_double ? 1e-10 : 1e-5, 0.0);
    free(h);
    free(expected);
  }
  free(forces);
  test_answer_free(&a);
  test_atoms_free(&atoms);
}

START_TEST(published_numbers)
{
  static const char *const elements[4] = {"H", "C", "O", "Si"};
  char path[512];
  test_model file;
  mlff_options options = {.skip_self_test = 1};
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  if (!choose_backend(_i, &options) || !published_orb(&file)) return;
  ck_assert(test_shared("models/orb_tiny_reference.json", path, sizeof path));
  test_json *json = test_json_read(path);
  const test_json *structures = test_json_get(json, "structures");
  test_ok(test_model_try(&file, &options, &model, &error), error);
  ck_assert_int_ge(test_json_length(structures), 3);
  for (int k = 0; k < test_json_length(structures); k++)
    check_structure(model, test_json_item(structures, k), elements, _i % 2);
  mlff_model_close(model);
  test_model_free(&file);
  test_json_free(json);
}
END_TEST

/* Precision mixed keeps its promise there: on the CPU's paths, and behind them on a GPU. */
START_TEST(published_in_mixed)
{
  static const char *const elements[4] = {"H", "C", "O", "Si"};
  enum { MOST = 16 };
  char shared[512];
  const int on_gpu = _i == N_MIXED_PATHS;
  const char *path = on_gpu ? "auto" : mixed_path(_i);
  test_model file;
  if (!path || !published_orb(&file)) return;
  ck_assert(test_shared("models/orb_tiny_reference.json", shared, sizeof shared));
  test_json *json = test_json_read(shared);
  const test_json *structures = test_json_get(json, "structures");
  test_atoms atoms[MOST];
  int n = 0;
  for (; n < test_json_length(structures) && n < MOST; n++) {
    atoms[n] = test_json_atoms(test_json_item(structures, n));
    test_atoms_species(&atoms[n], elements, 4);
  }
  mlff_model *mixed = test_model_open_for(&file, "mixed", path, NULL), *single = test_model_open(&file, "fp32");
  mixed_is_near_single("orb_tiny", mixed, single, atoms, n);
  mlff_model_close(mixed);
  mlff_model_close(single);
  while (n) test_atoms_free(&atoms[--n]);
  test_model_free(&file);
  test_json_free(json);
}
END_TEST

/* ---- of its own -------------------------------------------------------------------------------------------------- */

START_TEST(traits_are_honest)
{
  test_model file = small_orb(1);
  mlff_model *model = test_model_open(&file, "fp64");
  const mlff_info *info = mlff_model_info(model);
  ck_assert_uint_eq(info->traits, 0);
  ck_assert_int_eq(info->exchange_width, 12 * 8);
  ck_assert_int_eq(info->reverse_width, 12);
  test_atoms box = test_triclinic();
  mlff_system *system = test_system(&box, 6.0);
  double forces[8][3], nine[8][9], eight[8];
  mlff_result results[3] = {{.forces = forces, .atom_energy = eight},
                            {.forces = forces, .atom_virial = nine},
                            {.forces = forces, .atom_centroid = nine}};
  static const char *const reasons[3] = {"not a sum over atoms", "the stress of the whole cell",
                                         "the stress of the whole cell"};
  mlff_error error;
  for (int k = 0; k < 3; k++)
    test_fails(mlff_model_evaluate(model, mlff_system_graph(system), NULL, &results[k], &error), error,
               MLFF_E_UNSUPPORTED, reasons[k]);

  mlff_result result = {.forces = forces};
  mlff_graph graph = *mlff_system_graph(system);
  graph.boundary = MLFF_BOUNDARY_MIXED;
  test_fails(mlff_model_evaluate(model, &graph, NULL, &result, &error), error, MLFF_E_UNSUPPORTED,
             "three periodic directions or none");
  graph.boundary = MLFF_BOUNDARY_UNKNOWN;
  test_fails(mlff_model_evaluate(model, &graph, NULL, &result, &error), error, MLFF_E_UNSUPPORTED, "boundary");
  graph.boundary = MLFF_BOUNDARY_PERIODIC;
  graph.volume = 0;
  test_fails(mlff_model_evaluate(model, &graph, NULL, &result, &error), error, MLFF_E_ARG, "volume");
  const mlff_halo halo = {.context = NULL};
  test_fails(mlff_model_evaluate(model, mlff_system_graph(system), &halo, &result, &error), error, MLFF_E_ARG,
             "halo.reverse");
  mlff_system_free(system);
  test_atoms_free(&box);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* O6: the net force is N times the mean of the normaliser. O7: torque is removed in open systems only. */
START_TEST(net_force_and_torque)
{
  for (int seed = 0; seed < 3; seed++) {
    test_model file = small_orb(seed);
    mlff_model *model = test_model_open(&file, "fp64");
    test_atoms box = test_triclinic(), open = test_atoms_copy(&box);
    open.pbc[0] = open.pbc[1] = open.pbc[2] = 0;
    test_answer a = test_evaluate(model, &box), b = test_evaluate(model, &open);
    double sum[3], expected[3] = {8 * 0.0125, 8 * 0.0125, 8 * 0.0125};
    sum_of_forces(&a, sum);
    near_all(sum, expected, 3, 1e-12, 0);
    sum_of_forces(&b, sum);
    near_all(sum, expected, 3, 1e-12, 0);
    near_one(torque_of(&b, &open), 0.0, 1e-12);
    ck_assert(torque_of(&a, &box) > 1e-3);
    test_answer_free(&a);
    test_answer_free(&b);
    test_atoms_free(&box);
    test_atoms_free(&open);
    mlff_model_close(model);
    test_model_free(&file);
  }
}
END_TEST

/* O7, O16: single atoms, atoms in line and atoms out of reach. */
START_TEST(few_atoms)
{
  test_model file = small_orb(2);
  mlff_model *model = test_model_open(&file, "fp64");
  for (int n = 0; n <= 4; n++) {
    test_atoms atoms = test_atoms_new(n);
    for (int i = 0; i < n; i++) {
      atoms.species[i] = i % 3;
      for (int c = 0; c < 3; c++) atoms.pos[i][c] = (i == 3 ? 20.0 : 1.1 * i) * (c + 1) / 3.0;
    }
    test_answer a = test_evaluate(model, &atoms);
    ck_assert(isfinite(a.result.energy));
    ck_assert(n > 0 || a.result.energy == 0.0);
    near_one(torque_of(&a, &atoms), 0.0, 1e-11);
    if (n == 1) near_all(a.result.forces[0], ((double[3]){0.0125, 0.0125, 0.0125}), 3, 1e-14, 0);
    for (int i = 0; i < n; i++) ck_assert(isfinite(a.result.forces[i][0]));
    test_answer_free(&a);
    test_atoms_free(&atoms);
  }
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* The virial of an open system is that of its forces; of a periodic one it grows with the volume alone when the
 * network's part is switched off. O9 in full is checked by the published numbers. */
START_TEST(virial_of_open_systems)
{
  test_model file = small_orb(3);
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms water = test_water();
  test_atoms_species(&water, hco, 3);
  test_answer a = test_evaluate(model, &water);
  double trace = 0, centroid[3] = {0};
  for (int i = 0; i < 3; i++)
    for (int c = 0; c < 3; c++) centroid[c] += water.pos[i][c] / 3;
  for (int i = 0; i < 3; i++)
    for (int c = 0; c < 3; c++) trace += (water.pos[i][c] - centroid[c]) * a.result.forces[i][c];
  near_one(a.result.virial[0] + a.result.virial[1] + a.result.virial[2], trace, 1e-12);
  ck_assert(fabs(trace) > 1e-3);
  test_answer_free(&a);
  test_atoms_free(&water);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Turned atoms are not the same system (O8). Two cells have twice the energy (O5: mean). */
START_TEST(symmetries)
{
  test_model file = small_orb(4);
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms box = test_triclinic(), turned = test_atoms_copy(&box), twice = test_atoms_new(16);
  double r[3][3];
  memcpy(twice.cell, box.cell, sizeof twice.cell);
  for (int c = 0; c < 3; c++) {
    twice.pbc[c] = 1;
    twice.cell[0][c] *= 2;
  }
  for (int i = 0; i < 16; i++) {
    twice.species[i] = box.species[i % 8];
    for (int c = 0; c < 3; c++) twice.pos[i][c] = box.pos[i % 8][c] + (i < 8 ? 0.0 : box.cell[0][c]);
  }
  test_answer a = test_evaluate(model, &box), d = test_evaluate(model, &twice);
  near_one(d.result.energy, 2 * a.result.energy, 1e-11);
  near_all(d.result.forces, a.result.forces, 24, 1e-12, 0);

  test_rotation(9, r);
  test_atoms_rotate(&turned, r);
  test_answer c = test_evaluate(model, &turned);
  ck_assert(fabs(c.result.energy - a.result.energy) > 1e-6);
  test_answer_free(&a);
  test_answer_free(&c);
  test_answer_free(&d);
  test_atoms_free(&box);
  test_atoms_free(&turned);
  test_atoms_free(&twice);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Atoms of other styles (species -1) are not there; elements that are not asked for are left out, which is exact. */
START_TEST(other_styles_and_pruning)
{
  test_model file = small_orb(5);
  mlff_model *model = test_model_open(&file, "fp64"), *pruned = NULL;
  const mlff_options options = {.precision = "fp64", .skip_self_test = 1, .elements = &hco[1], .n_elements = 2};
  mlff_error error;
  test_ok(mlff_model_open_memory("test.yaml", file.yaml, file.yaml_size, file.weights, file.weights_size, &options,
                                 &pruned, &error),
          error);
  test_atoms box = test_triclinic(), heavy = test_atoms_copy(&box);
  int n = 0;
  for (int i = 0; i < 8; i++) {
    if (box.species[i] == 0) continue;
    memcpy(heavy.pos[n], box.pos[i], sizeof heavy.pos[n]);
    heavy.species[n++] = box.species[i];
  }
  heavy.n = n;
  for (int i = 0; i < 8; i++)
    if (box.species[i] == 0) box.species[i] = -1;
  test_answer a = test_evaluate(model, &box), b = test_evaluate(pruned, &heavy);
  near_one(a.result.energy, b.result.energy, 1e-12);
  near_all(a.result.virial, b.result.virial, 6, 1e-12, 0);
  for (int i = 0, k = 0; i < 8; i++) {
    const double none[3] = {0};
    near_all(a.result.forces[i], box.species[i] < 0 ? none : b.result.forces[k++], 3, 1e-13, 0);
  }
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&box);
  test_atoms_free(&heavy);
  mlff_model_close(model);
  mlff_model_close(pruned);
  test_model_free(&file);
}
END_TEST

START_TEST(bad_blocks)
{
  static const struct {
    const char *old, *changed, *part;
  } cases[] = {{"n_features: 12", "n_features: 0", "n_features"},
               {"n_neighbours: 20", "n_neighbours: 20\n  n_neighbors: 20", "n_neighbors"},
               {"kind: gaussian", "kind: bessel", "kind"},
               {"forces: [0.0125, 0.61]", "forces: [0.0125, -0.61]", "variance"},
               {"n_interactions: 3", "n_interactions: 2", "layer.2"},
               {"n_interactions: 3", "n_interactions: 4", "layer.3"},
               {"n: 20, radius", "n: 21, radius", "edge_encoder.0.weight"}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    test_model file = small_orb(7);
    mlff_model *model = NULL;
    mlff_error error;
    test_model_edit(&file, cases[k].old, cases[k].changed);
    test_fails(mlff_model_open_memory("test.yaml", file.yaml, file.yaml_size, file.weights, file.weights_size, NULL,
                                      &model, &error),
               error, MLFF_E_FORMAT, cases[k].part);
    test_model_free(&file);
  }
}
END_TEST

static Suite *orb_suite(void)
{
  Suite *suite = suite_create("orb models");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 120);
  tcase_add_loop_test(tcase, published_numbers, 0, n_backends());
  tcase_add_loop_test(tcase, published_in_mixed, N_CPU_BACKENDS ? 0 : N_MIXED_PATHS,
                      N_MIXED_PATHS + (n_backends() > N_CPU_BACKENDS));
  tcase_add_test(tcase, traits_are_honest);
  tcase_add_test(tcase, net_force_and_torque);
  tcase_add_test(tcase, few_atoms);
  tcase_add_test(tcase, virial_of_open_systems);
  tcase_add_test(tcase, symmetries);
  tcase_add_test(tcase, other_styles_and_pruning);
  tcase_add_test(tcase, bad_blocks);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(orb_suite);
}
