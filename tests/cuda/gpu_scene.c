/* gpu_scene.c: see gpu_scene.h. */
#include "gpu_scene.h"

#include <stdlib.h>

static const char *const hco[] = {"H", "C", "O"};

mlff_status try_open_with(const test_model *file, const char *fuse, mlff_model **model, mlff_error *error)
{
  const mlff_options options = {.device = "cuda", .fuse = fuse, .skip_self_test = 1};
  return test_model_try(file, &options, model, error);
}

mlff_status try_open(const test_model *file, mlff_model **model, mlff_error *error)
{
  return try_open_with(file, "on", model, error);
}

mlff_system *water_for(const mlff_model *model, int n_side, int *n_atoms)
{
  test_atoms atoms = test_water_box(n_side, 5);
  test_atoms_species(&atoms, hco, 3);
  mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff + 0.5);
  *n_atoms = atoms.n;
  test_atoms_free(&atoms);
  return system;
}

mlff_status try_evaluate(mlff_model *model, int n_side, double **forces, int *n_atoms, mlff_error *error)
{
  int n;
  mlff_system *system = water_for(model, n_side, &n);
  mlff_result result = {.forces = malloc((size_t) n * sizeof *result.forces)};
  const mlff_status status = mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, error);
  if (n_atoms) *n_atoms = n;
  if (forces && !status)
    *forces = &result.forces[0][0];
  else
    free(result.forces);
  mlff_system_free(system);
  return status;
}
