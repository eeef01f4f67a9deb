#include "mixed.h"

#include "backend/backend.h"
#include "model/model_impl.h"

#include <math.h>

#if defined(__aarch64__)
const char *const mixed_path_names[N_MIXED_PATHS] = {"generic", "neon", "sve256", "sve512"};
#else
const char *const mixed_path_names[N_MIXED_PATHS] = {"generic", "avx2", "avx512", "avx512_bf16", "amx"};
#endif

const char *mixed_path(int which)
{
  const char *path = mixed_path_names[which];
  if (mlff_cpu_has_kernels(path)) return path;
  test_skip("kernel path %s is not available here", path);
  return NULL;
}

static double network_energy(const mlff_model *model, const test_atoms *atoms, double energy)
{
  for (int i = 0; i < atoms->n; i++) energy -= model->head->offsets[atoms->species[i]] * model->scale;
  return energy;
}

mixed_errors compare_with_single(mlff_model *mixed, mlff_model *single, const test_atoms *atoms, int n)
{
  double energy = 0, energy_error = 0, force = 0, force_error = 0;
  ck_assert_str_eq(mlff_model_info(mixed)->precision, "mixed");
  ck_assert_str_eq(mlff_model_info(single)->precision, "fp32");
  for (int frame = 0; frame < n; frame++) {
    test_answer a = test_evaluate(mixed, &atoms[frame]), b = test_evaluate(single, &atoms[frame]);
    energy += fabs(network_energy(single, &atoms[frame], b.result.energy));
    energy_error += fabs(a.result.energy - b.result.energy);
    for (int i = 0; i < atoms[frame].n; i++) {
      for (int c = 0; c < 3; c++) {
        const double d = a.result.forces[i][c] - b.result.forces[i][c];
        force += b.result.forces[i][c] * b.result.forces[i][c];
        force_error += d * d;
      }
    }
    test_answer_free(&a);
    test_answer_free(&b);
  }
  return (mixed_errors){energy_error / energy, sqrt(force_error / force)};
}

void mixed_is_near_single(const char *name, mlff_model *mixed, mlff_model *single, const test_atoms *atoms, int n)
{
  const mixed_errors e = compare_with_single(mixed, single, atoms, n);
  printf("%s, %s: mixed against fp32: energy %.2g, forces %.2g\n", name, mlff_model_info(mixed)->kernels, e.energy,
         e.forces);
  ck_assert_msg(e.energy < 1e-4, "energy %g", e.energy);
  ck_assert_msg(e.forces > 0 && e.forces < 1e-4, "forces %g", e.forces);
}
