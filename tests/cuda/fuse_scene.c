/* fuse_scene.c: see fuse_scene.h. */
#include "fuse_scene.h"

#include "model/model_impl.h"

#include <math.h>
#include <stdlib.h>

static const char *const hco[] = {"H", "C", "O"};

answer evaluate(mlff_model *model, const mlff_graph *graph, int with_member_forces)
{
  mlff_error error = {.code = MLFF_OK};
  const size_t n = (size_t) graph->n_local, n_members = (size_t) mlff_model_info(model)->n_members;
  answer a = {.n_forces = 3 * (int64_t) n, .n_energies = (int64_t) (2 * n + n_members)};
  a.n = a.n_forces + a.n_energies + 3 * (int64_t) (n * n_members);
  a.numbers = calloc((size_t) a.n, sizeof *a.numbers);
  a.result.forces = (double(*)[3]) a.numbers;
  a.result.atom_energy = a.numbers + 3 * n;
  a.result.atom_spread = a.numbers + 4 * n;
  a.result.member_energy = a.numbers + 5 * n;
  if (with_member_forces && n_members > 1) a.result.member_forces = (double(*)[3])(a.numbers + 5 * n + n_members);
  test_ok(mlff_model_evaluate(model, graph, NULL, &a.result, &error), error);
  return a;
}

void same_answers(const answer *a, const answer *b, const char *precision)
{
  const int64_t members = a->n_forces + a->n_energies;
  same_of_kernels("energy", &a->result.energy, &b->result.energy, 1, precision);
  same_of_kernels("forces", a->numbers, b->numbers, a->n_forces, precision);
  same_of_kernels("energies", a->numbers + a->n_forces, b->numbers + a->n_forces, a->n_energies, precision);
  same_of_kernels("forces of members", a->numbers + members, b->numbers + members, a->n - members, precision);
  ck_assert(fabs(a->numbers[0]) > 0);
}

mlff_model *open_model(const test_model *file, mlff_options options)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  options.device = "cuda";
  options.skip_self_test = 1;
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

void set_block(mlff_model *model, int64_t block)
{
  mlff_ops *ops = (mlff_ops *) (uintptr_t) model->backend->ops;
  ops->ani_block = ops->painn_block = block;
}

/* Members of different depths and widths in one launch; elements end within a batch. */
test_model make_model(int which)
{
  test_model_options o = {.elements = hco, .n_elements = 3, .is_double = 1};
  if (which % 2) {
    o.n_members = 8;
    o.n_hidden = 3;
  }
  return which % 2 ? test_model_ani(o) : test_model_nth(0, o);
}

scene make_scene(int which, const char *precision, const char *replay)
{
  scene s = {.file = make_model(which), .atoms = test_triclinic()};
  s.replayed = open_model(&s.file, (mlff_options){.precision = precision, .replay = replay});
  s.plain = open_model(&s.file, (mlff_options){.precision = precision, .replay = "off", .fuse = "off"});
  test_atoms_species(&s.atoms, hco, 3);
  s.system = test_system(&s.atoms, mlff_model_info(s.replayed)->cutoff);
  return s;
}

void free_scene(scene *s)
{
  mlff_system_free(s->system);
  test_atoms_free(&s->atoms);
  mlff_model_close(s->replayed);
  mlff_model_close(s->plain);
  test_model_free(&s->file);
}

void put_in_water(scene *s)
{
  mlff_system_free(s->system);
  test_atoms_free(&s->atoms);
  s->atoms = test_water_box(2, 11);
  test_atoms_species(&s->atoms, hco, 3);
  s->system = test_system(&s->atoms, mlff_model_info(s->replayed)->cutoff);
}
