/* evaluate.c: mlff evaluate prints energy, forces and virial of structures. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>

typedef struct answer {
  cli_list *list;
  mlff_result result;                     /* atom_energy is NULL for models without energies of atoms */
  double *members, *spread, *uncertainty; /* uncertainty is NULL for models without */
} answer;

static void answer_free(answer *a)
{
  cli_list_give_back(a->list);
  free(a->result.forces);
  free(a->result.atom_energy);
  free(a->members);
  free(a->spread);
  free(a->uncertainty);
}

static mlff_status evaluate(mlff_model *model, cli_file *file, int frame, answer *a, mlff_error *error)
{
  const size_t n = (size_t) file->frames[frame].n_atoms + 1;
  const mlff_info *info = mlff_model_info(model);
  const int has_atom_energy = (info->traits & MLFF_NODE_ENERGIES) != 0;
  *a = (answer){.result = {.forces = malloc(n * sizeof *a->result.forces),
                           .atom_energy = has_atom_energy ? malloc(n * sizeof(double)) : NULL},
                .members = malloc((size_t) info->n_members * sizeof(double)),
                .spread = malloc(n * sizeof(double)),
                .uncertainty = info->uncertainty_unit ? malloc(n * sizeof(double)) : NULL};
  a->result.atom_uncertainty = a->uncertainty;
  if (!a->result.forces || (has_atom_energy && !a->result.atom_energy) || !a->members || !a->spread ||
      (info->uncertainty_unit && !a->uncertainty)) {
    snprintf(error->text, sizeof error->text, "out of memory");
    return error->code = MLFF_E_NOMEM;
  }
  if (info->n_members > 1) {
    a->result.member_energy = a->members;
    a->result.atom_spread = a->spread;
  }
  const mlff_status status = cli_list_take(file, frame, info->cutoff, 1, &a->list, error);
  return status ? status : mlff_model_evaluate(model, cli_list_graph(a->list), NULL, &a->result, error);
}

static void json_numbers(const char *name, const double *values, int64_t n, int per_row)
{
  printf(",\n     \"%s\": [", name);
  for (int64_t k = 0; k < n; k++) {
    if (per_row && k % per_row == 0)
      printf("%s[", k ? ", " : "");
    else if (k)
      printf(", ");
    mlff_json_number(stdout, values[k], 0);
    if (per_row && k % per_row == per_row - 1) printf("]");
  }
  printf("]");
}

static mlff_status print_json(const mlff_info *info, const cli_frame *frame, const answer *a, mlff_error *error)
{
  const mlff_result *r = &a->result;
  printf("    {\"name\": ");
  mlff_json_text(stdout, frame->name);
  printf(", \"n_atoms\": %d,\n     \"elements\": [", (int) frame->n_atoms);
  for (int32_t i = 0; i < frame->n_atoms; i++) printf("%s\"%s\"", i ? ", " : "", frame->elements[i]);
  printf("],\n     \"energy\": ");
  mlff_json_number(stdout, r->energy, 0);
  json_numbers("virial", r->virial, 6, 0);
  json_numbers("forces", &r->forces[0][0], 3 * (int64_t) frame->n_atoms, 3);
  if (r->atom_energy) json_numbers("atom_energies", r->atom_energy, frame->n_atoms, 0);
  if (info->n_members > 1) {
    json_numbers("member_energies", a->members, info->n_members, 0);
    json_numbers("atom_spread", a->spread, frame->n_atoms, 0);
  }
  if (a->uncertainty) json_numbers("atom_uncertainties", a->uncertainty, frame->n_atoms, 0);
  printf(",\n     \"n_edges\": %lld, \"min_distance\": ", (long long) r->n_edges);
  mlff_json_number(stdout, r->min_distance, 0);
  const mlff_status status = cli_print_outside(info, cli_list_graph(a->list), r, 1, error);
  printf("}");
  return status;
}

static mlff_status print_text(const mlff_info *info, const cli_frame *frame, const answer *a, int with_forces,
                              mlff_error *error)
{
  const mlff_result *r = &a->result;
  printf("%s: %d atoms\n", frame->name, (int) frame->n_atoms);
  printf("  energy   %.8f eV", r->energy);
  if (frame->n_atoms) printf("  (%.8f eV/atom)", r->energy / frame->n_atoms);
  printf("\n  virial   %.6f %.6f %.6f %.6f %.6f %.6f eV  (xx yy zz xy xz yz)\n", r->virial[0], r->virial[1],
         r->virial[2], r->virial[3], r->virial[4], r->virial[5]);
  printf("  edges    %lld, smallest distance %.4f A\n", (long long) r->n_edges, r->min_distance);
  if (info->n_members > 1) {
    double most = 0;
    for (int32_t i = 0; i < frame->n_atoms; i++) most = fmax(most, a->spread[i]);
    printf("  spread   %.6f eV at the atom with the largest, over %d members\n", most, info->n_members);
  }
  if (a->uncertainty) {
    double most = 0;
    for (int32_t i = 0; i < frame->n_atoms; i++) most = fmax(most, a->uncertainty[i]);
    printf("  unsure   %.6f (%s) at the atom with the largest uncertainty, limit %g\n", most, info->uncertainty_unit,
           info->uncertainty_limit);
  }
  const mlff_status status = cli_print_outside(info, cli_list_graph(a->list), r, 0, error);
  if (!with_forces) return status;
  printf("  forces   eV/A\n");
  for (int32_t i = 0; i < frame->n_atoms; i++)
    printf("  %6d %-3s %15.8f %15.8f %15.8f\n", (int) i + 1, frame->elements[i], r->forces[i][0], r->forces[i][1],
           r->forces[i][2]);
  return status;
}

static void print_json_head(const mlff_info *info)
{
  printf("{\"model\": ");
  mlff_json_text(stdout, info->name);
  printf(", \"sha256\": \"%s\", \"header_sha256\": \"%s\",\n \"origin\": \"mlff %s, %s, %s, kernels %s\",\n \"units\": "
         "{\"energy\": \"eV\", "
         "\"forces\": "
         "\"eV/A\", \"virial\": \"eV\"},\n \"structures\": [\n",
         info->sha256, info->header_sha256, MLFF_VERSION, info->device, info->precision, info->kernels);
}

static int evaluate_all(const cli_options *o, mlff_model *model, cli_file *file)
{
  cli_frame *const frames = file->frames;
  const int n_frames = file->n_frames;
  const mlff_info *info = mlff_model_info(model);
  mlff_error error = {.code = MLFF_OK};
  for (int k = 0; k < n_frames; k++)
    if (cli_frame_species(&frames[k], info, o->arguments[1], &error)) return cli_fail(&error);
  if (o->json) print_json_head(info);
  for (int k = 0; k < n_frames; k++) {
    answer a;
    mlff_status status = evaluate(model, file, k, &a, &error);
    if (!status && o->json && k) printf(",\n");
    if (!status)
      status = o->json ? print_json(info, &frames[k], &a, &error) : print_text(info, &frames[k], &a, o->forces, &error);
    answer_free(&a);
    if (status) {
      if (o->json && k) printf("\n"); /* ends the line, for readers of `mlff batch` */
      return cli_error(cli_status(status), NULL, "%s, structure %d (%s): %s", o->arguments[1], k + 1, frames[k].name,
                       error.text);
    }
  }
  if (o->json) printf("\n ]}\n");
  return CLI_OK;
}

int cli_evaluate(const cli_options *options)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  cli_file *file = NULL;
  if (cli_file_take(options->arguments[1], &file, &error)) return cli_fail(&error);
  int code;
  if (mlff_model_open(options->arguments[0], &options->open, &model, &error)) {
    code = cli_fail(&error);
  } else {
    cli_warn("evaluate", model);
    code = evaluate_all(options, model, file);
  }
  mlff_model_close(model);
  cli_file_give_back(file);
  return code;
}
