/* against.c: comparison with the same evaluation in double precision on the CPU (mlff time --against cpu). */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

mlff_status cli_against_begin(mlff_model *reference, const mlff_graph *graph, cli_against *against, mlff_error *error)
{
  mlff_result result = {.forces = malloc(((size_t) graph->n_local + 1) * sizeof *result.forces)};
  if (!result.forces) {
    snprintf(error->text, sizeof error->text, "out of memory for %d forces", (int) graph->n_local);
    return error->code = MLFF_E_NOMEM;
  }
  const mlff_status status = mlff_model_evaluate(reference, graph, NULL, &result, error);
  against->energy = result.energy;
  against->forces = result.forces;
  return status;
}

/* Tolerances of energies (eV/atom), forces (eV/A) and of the ratio of RMS. fp64 and fp32 as in the self-tests of the
 * shipped models. Mixed: on a GPU pairs of fp16, close to fp32; on a CPU bf16, as in the self-tests. */
static void choose_bounds(const mlff_info *info, double largest_force, double bounds[3])
{
  const int is_double = !strcmp(info->precision, "fp64"), is_mixed = !strcmp(info->precision, "mixed");
  bounds[0] = is_double ? 1e-8 : 1e-5;
  bounds[1] = is_double ? 1e-7 : 1e-3;
  bounds[2] = INFINITY;
  if (!is_mixed) return;
  if (strcmp(info->device, "cpu")) {
    bounds[2] = 1e-4;
  } else {
    bounds[0] += 1e-3;
    bounds[1] += 0.01 * largest_force;
  }
}

int cli_against_end(cli_against *a, const mlff_info *info, const mlff_result *result, int32_t n_atoms)
{
  const double *right = n_atoms ? a->forces[0] : NULL, *got = n_atoms ? result->forces[0] : NULL;
  double sum = 0, sum_apart = 0, largest = 0, bounds[3];
  a->force_difference = 0;
  for (int64_t k = 0; k < 3 * (int64_t) n_atoms; k++) {
    const double apart = fabs(got[k] - right[k]);
    if (!(apart <= a->force_difference)) a->force_difference = apart; /* NaN stays */
    largest = fmax(largest, fabs(right[k]));
    sum_apart += apart * apart;
    sum += right[k] * right[k];
  }
  a->force_rms_ratio = sum_apart > 0 ? sqrt(sum_apart / sum) : sum_apart;
  a->energy_difference = n_atoms ? fabs(result->energy - a->energy) / n_atoms : 0;
  choose_bounds(info, largest, bounds);
  if (a->energy_difference <= bounds[0] && a->force_difference <= bounds[1] && a->force_rms_ratio <= bounds[2])
    return CLI_OK;
  return cli_error(CLI_FAILED, NULL,
                   "%s on %s (%s) is too far from fp64 on the CPU: energy by %.3g eV/atom (tolerance %.3g), forces by "
                   "%.3g eV/A (tolerance %.3g), RMS %.3g of that of the forces (tolerance %.3g)",
                   info->precision, info->device, info->kernels, a->energy_difference, bounds[0], a->force_difference,
                   bounds[1], a->force_rms_ratio, bounds[2]);
}
