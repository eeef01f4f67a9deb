/* water.c: energy, forces and virial of a water molecule with nothing but the C API.
 *
 *   ./example_water MODEL.yaml
 *
 * MODEL must know H and O. Lengths are in Angstrom, energies in eV.
 */
#include "mlff/mlff.h"

#include <stdlib.h>
#include <string.h>

enum { N_ATOMS = 3 };

/* Index of an element in the model's list, which is what the engine calls species; -1 when it is not there. */
static int32_t species_of(const mlff_info *info, const char *element)
{
  for (int s = 0; s < info->n_elements; s++)
    if (!strcmp(info->elements[s], element)) return s;
  return -1;
}

int main(int argc, char **argv)
{
  static const char *const elements[N_ATOMS] = {"O", "H", "H"};
  static const double positions[N_ATOMS][3] = {{0.0, 0.0, 0.119262},
                                               {0.0, 0.763239, -0.477047},
                                               {0.0, -0.763239, -0.477047}};
  const mlff_options options = {.precision = "fp64", .elements = elements, .n_elements = N_ATOMS};
  mlff_model *model = NULL;
  mlff_system *system = NULL;
  mlff_error error = {.code = MLFF_OK};
  double forces[N_ATOMS][3];
  mlff_result result = {.forces = forces};
  int32_t species[N_ATOMS];

  if (argc != 2) {
    fprintf(stderr, "usage: %s MODEL.yaml\n", argv[0]);
    return 2;
  }
  /* Opening checks the file, its weights and its self-test. */
  if (mlff_model_open(argv[1], &options, &model, &error)) goto failed;
  const mlff_info *info = mlff_model_info(model);
  for (int i = 0; i < N_ATOMS; i++) species[i] = species_of(info, elements[i]);

  /* No cell: nothing is periodic. A program with its own neighbor list fills an mlff_graph itself. */
  if (mlff_system_create(N_ATOMS, species, positions, NULL, NULL, info->cutoff, &system, &error)) goto failed;
  if (mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, &error)) goto failed;

  printf("%s on %s (%s, %s)\n", info->name, info->device, info->precision, info->kernels);
  printf("energy %.8f eV\n", result.energy);
  for (int i = 0; i < N_ATOMS; i++)
    printf("force on %s  %12.8f %12.8f %12.8f eV/A\n", elements[i], forces[i][0], forces[i][1], forces[i][2]);
  mlff_system_free(system);
  mlff_model_close(model);
  return 0;

failed:
  fprintf(stderr, "%s: %s\n", mlff_status_name(error.code), error.text);
  mlff_system_free(system);
  mlff_model_close(model);
  return 1;
}
