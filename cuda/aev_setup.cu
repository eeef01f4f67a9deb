/* aev_setup.cu: tables of the descriptors of ANI on the GPU. Twin: aev_setup_cpu. */
#include "aev.h"

#include <cstdlib>

/* Tables: radial shifts, angular shifts, then cos and sin of half the sections and what rounding took of them. */
static mlff_status upload_tables(mlff_backend *backend, mlff_aev *aev, const mlff_aev_constants *c, mlff_error *error)
{
  const size_t n_shifts = (size_t) c->n_radial + (size_t) c->n_angular, n = n_shifts + 4 * (size_t) c->n_sections;
  double *table = (double *) malloc(n * sizeof *table), *sections = table + n_shifts;
  if (!table) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for tables of the AEV");
  for (int k = 0; k < c->n_radial; k++) table[k] = c->radial_shifts[k];
  for (int k = 0; k < c->n_angular; k++) table[c->n_radial + k] = c->angular_shifts[k];
  for (int z = 0; z < c->n_sections; z++) {
    const split cosine = split_of(cos(c->angular_sections[z] / 2)), sine = split_of(sin(c->angular_sections[z] / 2));
    sections[z] = (double) cosine.high;
    sections[c->n_sections + z] = (double) sine.high;
    sections[2 * c->n_sections + z] = (double) cosine.low;
    sections[3 * c->n_sections + z] = (double) sine.low;
  }
  mlff_status status = mlff_buf_reserve(backend, &aev->tables, n * sizeof(real), error);
  if (!status) status = backend->ops->upload_reals(backend, aev->tables.data, table, (int64_t) n, error);
  free(table);
  return status;
}

mlff_status MLFF_CUDA(aev_setup_cuda)(mlff_backend *backend, mlff_aev *aev, const mlff_aev_constants *constants,
                                      int n_species, const int *use, mlff_error *error)
{
  const mlff_aev_constants *c = constants;
  const size_t bytes = (size_t) n_species * sizeof(int32_t);
  MLFF_TRY(mlff_buf_reserve(backend, &aev->compact, bytes, error));
  int32_t *compact = (int32_t *) malloc(bytes + 1);
  if (!compact) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for tables of the AEV");
  aev->constants = *c;
  aev->constants.radial_shifts = aev->constants.angular_shifts = aev->constants.angular_sections = NULL;
  aev->n_species = n_species;
  aev->n_used = 0;
  for (int s = 0; s < n_species; s++) compact[s] = use[s] ? aev->n_used++ : -1;
  aev->n_columns = aev->n_used * c->n_radial + aev->n_used * (aev->n_used + 1) / 2 * c->n_angular * c->n_sections;
  const mlff_status status = backend->ops->upload(backend, aev->compact.data, compact, bytes, error);
  free(compact);
  return status ? status : upload_tables(backend, aev, c, error);
}
