/* repulsion.c: the optional short-range repulsion of a model file, for any architecture: block, table, evaluation.
 *
 * It is a pair potential. Its gradients and energies are added to those of the network, edge by edge, before forces,
 * virials and energies of atoms and members are computed from them. The op `edges` finds out whether a pair is close
 * enough; other steps skip the repulsion. Kinds mace and nequip are parts of trained models, and added in every step.
 * Kind clamped also replaces the distances of close pairs that the network gets.
 */
#include "model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* e^2/(4 pi epsilon_0) in eV A, and the screening length of Ziegler, Biersack and Littmark, with the values of LAMMPS
 * pair_style zbl. */
static const double coulomb = 14.399645, screening = 0.46850, exponent = 0.23;
/* The same of MACE, which reads the exponent and a factor of the screening length from its file. */
static const double mace_coulomb = 14.3996, mace_screening = 0.529;

/* ---- the block -------------------------------------------------------------------------------------------------- */

/* The cutoff of a pair is the sum of the radii of its elements, A. */
static mlff_status read_radii(mlff_modelfile *f, const mlff_yaml *block, double **table, mlff_error *error)
{
  const mlff_modelfile_head *h = &f->head;
  const mlff_yaml *radii = NULL;
  const int n = h->n_elements;
  double *cutoffs = mlff_arena_alloc(f->arena, (size_t) n * (size_t) n, sizeof *cutoffs);
  if (!cutoffs) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
  MLFF_TRY(mlff_yaml_map(f, block, "radii", &radii, error));
  for (int s = 0; s < n; s++) {
    double radius = 0;
    MLFF_TRY(mlff_yaml_double(f, radii, h->elements[s], 0.01, 10.0, &radius, error));
    for (int t = 0; t < n; t++) {
      cutoffs[s * n + t] += radius;
      cutoffs[t * n + s] += radius;
    }
  }
  *table = cutoffs;
  return MLFF_OK;
}

static mlff_status read_mace(mlff_modelfile *f, const mlff_yaml *block, mlff_error *error)
{
  mlff_modelfile_head *h = &f->head;
  double *cutoffs = NULL;
  MLFF_TRY(mlff_yaml_double(f, block, "p", 2.0, 64.0, &h->repulsion_power, error));
  MLFF_TRY(mlff_yaml_double(f, block, "exponent", 0.01, 1.0, &h->repulsion_exponent, error));
  MLFF_TRY(mlff_yaml_double(f, block, "prefactor", 0.01, 10.0, &h->repulsion_prefactor, error));
  MLFF_TRY(mlff_yaml_double(f, block, "scale", 0.0, 1e6, &h->repulsion_scale, error));
  MLFF_TRY(read_radii(f, block, &cutoffs, error));
  h->repulsion = cutoffs;
  return MLFF_OK;
}

/* Sums of radii, replaced by the entries of `cutoffs`. */
static mlff_status read_clamped(mlff_modelfile *f, const mlff_yaml *block, mlff_error *error)
{
  mlff_modelfile_head *h = &f->head;
  const mlff_yaml *pairs = NULL;
  const double *listed = NULL;
  const int n = h->n_elements;
  double *cutoffs = NULL;
  MLFF_TRY(read_radii(f, block, &cutoffs, error));
  if (mlff_yaml_has(block, "cutoffs")) {
    MLFF_TRY(mlff_yaml_map(f, block, "cutoffs", &pairs, error));
    MLFF_TRY(mlff_pairs_read(f, pairs, &listed, error));
  }
  for (int k = 0; k < n * n; k++) {
    if (listed && listed[k] > 0) cutoffs[k] = listed[k];
    if (cutoffs[k] > h->cutoff)
      return mlff_yaml_fail(f, block, error,
                            "has radii of %s and %s that add up to %g A, expected up to the cutoff %g A",
                            h->elements[k / n], h->elements[k % n], cutoffs[k], h->cutoff);
  }
  h->repulsion = cutoffs;
  h->repulsion_is_clamped = 1;
  return MLFF_OK;
}

/* The cutoff of each pair is that of the model. */
static mlff_status read_nequip(mlff_modelfile *f, const mlff_yaml *block, mlff_error *error)
{
  mlff_modelfile_head *h = &f->head;
  const int n = h->n_elements * h->n_elements;
  double *cutoffs = mlff_arena_alloc(f->arena, (size_t) n, sizeof *cutoffs);
  if (!cutoffs) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
  for (int k = 0; k < n; k++) cutoffs[k] = h->cutoff;
  h->repulsion = cutoffs;
  return mlff_yaml_double(f, block, "p", 2.0, 64.0, &h->repulsion_power, error);
}

mlff_status mlff_repulsion_read(mlff_modelfile *f, mlff_error *error)
{
  static const char *const kinds[] = {"zbl", "mace", "nequip", "clamped", NULL};
  const mlff_yaml *block = NULL, *cutoffs = NULL;
  int kind = 0;
  if (!mlff_yaml_has(f->root, "repulsion")) return MLFF_OK;
  MLFF_TRY(mlff_yaml_map(f, f->root, "repulsion", &block, error));
  MLFF_TRY(mlff_yaml_choice(f, block, "kind", kinds, &kind, error));
  if (kind == 1) return read_mace(f, block, error);
  if (kind == 2) return read_nequip(f, block, error);
  if (kind == 3) return read_clamped(f, block, error);
  MLFF_TRY(mlff_yaml_map(f, block, "cutoffs", &cutoffs, error));
  if (!cutoffs->first) return mlff_yaml_fail(f, cutoffs, error, "has no pair; remove the block repulsion");
  return mlff_pairs_read(f, cutoffs, &f->head.repulsion, error);
}

/* ---- table ------------------------------------------------------------------------------------------------------ */

/* Sets the constants of all pairs. */
static void fill_pairs(const mlff_modelfile_head *h, mlff_repulsion_pair *pairs)
{
  for (int s = 0; s < h->n_elements; s++) {
    for (int t = 0; t < h->n_elements; t++) {
      const double zs = mlff_atomic_number(h->elements[s]), zt = mlff_atomic_number(h->elements[t]);
      const double cutoff = h->repulsion[s * h->n_elements + t];
      const double power = h->repulsion_exponent;
      mlff_repulsion_pair *pair = &pairs[s * h->n_elements + t];
      *pair = (mlff_repulsion_pair){.cutoff = cutoff,
                                    .inverse = (pow(zs, exponent) + pow(zt, exponent)) / screening,
                                    .factor = 0.5 * coulomb * zs * zt / h->energy_in_ev};
      if (power > 0) {
        pair->inverse = (pow(zs, power) + pow(zt, power)) / (h->repulsion_prefactor * mace_screening);
        pair->factor = 0.5 * mace_coulomb * zs * zt * h->repulsion_scale;
      }
    }
  }
}

void mlff_repulsion_bound(mlff_model *m)
{
  const int n = m->head->n_elements;
  m->repulsion.reach = 0.0;
  for (int s = 0; m->head->repulsion && s < n; s++)
    for (int t = 0; t < n; t++)
      if (m->use[s] && m->use[t]) m->repulsion.reach = fmax(m->repulsion.reach, m->head->repulsion[s * n + t]);
}

mlff_status mlff_repulsion_open(mlff_model *m, mlff_error *error)
{
  mlff_repulsion *r = &m->repulsion;
  if (!m->head->repulsion) return MLFF_OK;
  if (m->head->repulsion_is_clamped && !(m->info.traits & MLFF_CONSERVATIVE))
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "model %s: repulsion.kind is 'clamped', which requires forces that are derivatives of the energy; "
                     "use zbl with architecture %s",
                     m->head->name, m->head->architecture);
  const size_t n = (size_t) m->head->n_elements * (size_t) m->head->n_elements;
  mlff_repulsion_pair *pairs = calloc(n, sizeof *pairs);
  if (!pairs) return mlff_fail(error, MLFF_E_NOMEM, "out of memory");
  r->n_species = m->head->n_elements;
  r->power = m->head->repulsion_power;
  r->is_always = r->power > 0;
  r->is_mace = m->head->repulsion_exponent > 0;
  r->is_clamped = m->head->repulsion_is_clamped;
  fill_pairs(m->head, pairs);
  mlff_repulsion_bound(m);
  mlff_status status = mlff_buf_reserve(m->backend, &r->pairs, n * sizeof *pairs, error);
  if (!status) status = m->backend->ops->upload(m->backend, r->pairs.data, pairs, n * sizeof *pairs, error);
  free(pairs);
  m->edges.repulsion = r;
  return status;
}

void mlff_repulsion_close(mlff_model *m)
{
  mlff_buf_release(m->backend, &m->repulsion.pairs);
  mlff_buf_release(m->backend, &m->repulsion_grad);
  mlff_buf_release(m->backend, &m->repulsion_energy);
  mlff_buf_release(m->backend, &m->repulsion_vec);
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

/* Gradients and energies for direct models. Reserved in every step, so that memory forecasts include them. */
static mlff_status reserve_direct(mlff_model *m, mlff_error *error)
{
  MLFF_TRY(mlff_buf_reserve_rows(m->backend, &m->repulsion_grad, m->edges.n_room, 4, error));
  return mlff_buf_reserve_rows(m->backend, &m->repulsion_energy, m->edges.n_local, 1, error);
}

static void zero_direct(mlff_model *m, mlff_arch_outputs *out)
{
  const size_t size = m->backend->real_size;
  out->edge_grad = m->repulsion_grad.data;
  out->node_energy = m->repulsion_energy.data;
  m->backend->ops->zero(m->backend, out->edge_grad, (size_t) m->edges.n_edges * 4 * size);
  m->backend->ops->zero(m->backend, out->node_energy, (size_t) m->edges.n_local * size);
}

mlff_status mlff_repulsion_clamp(mlff_model *m, mlff_error *error)
{
  if (!m->repulsion.is_clamped) return MLFF_OK;
  MLFF_TRY(mlff_buf_reserve_rows(m->backend, &m->repulsion_vec, m->edges.n_room, 4, error));
  if (!m->edges.is_close) return MLFF_OK;
  m->backend->ops->clamp(m->backend, &(mlff_clamp_args){.edges = &m->edges, .vec = m->repulsion_vec.data});
  return MLFF_OK;
}

mlff_status mlff_repulsion_add(mlff_model *m, mlff_arch_outputs *out, mlff_error *error)
{
  if (!m->edges.repulsion) return MLFF_OK;
  if (out->direct) MLFF_TRY(reserve_direct(m, error));
  if (!m->edges.is_close && !m->repulsion.is_always) return MLFF_OK;
  if (out->direct) zero_direct(m, out);
  const mlff_repulsion_args args = {.edges = &m->edges,
                                    .vec = m->repulsion.is_clamped ? m->repulsion_vec.data : NULL,
                                    .grad = out->edge_grad,
                                    .node_energy = out->node_energy,
                                    .member_energy = out->member_energy,
                                    .n_members = m->info.n_members};
  m->backend->ops->repulsion(m->backend, &args);
  return MLFF_OK;
}
