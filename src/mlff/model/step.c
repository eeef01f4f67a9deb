/* step.c: a step op by op: edges, architecture, forces, energies, checks.
 *
 * After a numeric error the architecture still runs to its end, so that other ranks do not wait in a halo exchange; the
 * error is returned afterwards. Energies are summed in double. The element offsets, thousands of eV, are never
 * converted to single precision.
 */
#include "../graph/graph.h"
#include "model_impl.h"
#include "spans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = MLFF_NAME + 32 };

static const char *element_of(const mlff_model *m, int32_t species)
{
  return species >= 0 && species < m->head->n_elements ? m->head->elements[species] : "not of this model";
}

/* Reserves n doubles on the host. */
static mlff_status reserve_host(mlff_model *m, size_t n, mlff_error *error)
{
  if (n <= m->host_capacity) return MLFF_OK;
  const size_t wanted = m->host_capacity ? n + n / 4 : n;
  double *data = calloc(wanted, sizeof *data);
  if (!data) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %zu energies", n);
  free(m->host);
  m->host = data;
  m->host_capacity = wanted;
  m->n_host_growths++;
  return MLFF_OK;
}

static double offset_of(const mlff_model *m, const mlff_graph *graph, int32_t i)
{
  const int32_t s = graph->species[i];
  return s >= 0 && !m->without_offsets ? m->head->offsets[s] : 0.0;
}

/* Energies of owned atoms: network outputs and offsets are summed separately, so that no digits are lost. */
static mlff_status take_energies(const mlff_model *m, const mlff_graph *graph, const mlff_arch_outputs *out,
                                 double network, mlff_result *result, mlff_error *error)
{
  double *of_atom = result->atom_energy;
  result->energy = (network + m->offsets) * m->scale;
  if (!of_atom) return MLFF_OK;
  MLFF_TRY(m->backend->ops->download_reals(m->backend, of_atom, out->node_energy, graph->n_local, error));
  for (int32_t i = 0; i < graph->n_local; i++)
    of_atom[i] = ((graph->species[i] >= 0 ? of_atom[i] : 0.0) + offset_of(m, graph, i)) * m->scale;
  return MLFF_OK;
}

/* Results of a direct model. */
static void take_direct(const mlff_model *m, const mlff_graph *graph, const mlff_direct *direct, mlff_result *result)
{
  for (int32_t i = 0; i < graph->n_nodes; i++)
    for (int c = 0; c < 3; c++) result->forces[i][c] = i < graph->n_local ? direct->forces[i][c] * m->scale : 0.0;
  for (int k = 0; k < 6; k++) result->virial[k] = direct->virial[k] * m->scale;
  result->energy = (direct->energy + m->offsets) * m->scale;
}

/* Adds them to the results of the repulsion and the offsets. */
static void add_direct(const mlff_model *m, const mlff_graph *graph, const mlff_direct *direct, mlff_result *result)
{
  for (int32_t i = 0; i < graph->n_local; i++)
    for (int c = 0; c < 3; c++) result->forces[i][c] += direct->forces[i][c] * m->scale;
  for (int k = 0; k < 6; k++) result->virial[k] += direct->virial[k] * m->scale;
  result->energy += direct->energy * m->scale;
}

/* 1 if energies of the members must be downloaded. */
static int wants_members(const mlff_model *m, const mlff_arch_outputs *out, const mlff_result *result)
{
  return mlff_wants_members(m, result) && out->member_energy;
}

/* Energies of the members, and their standard deviation (n-1) per atom. */
static mlff_status sum_members(mlff_model *m, const mlff_graph *graph, const mlff_arch_outputs *out,
                               mlff_result *result, mlff_error *error)
{
  const int32_t n = graph->n_local;
  const int n_members = m->info.n_members;
  if (!result->member_energy && !result->atom_spread) return MLFF_OK;
  if (!wants_members(m, out, result)) {
    if (result->member_energy) result->member_energy[0] = result->energy;
    for (int32_t i = 0; result->atom_spread && i < n; i++) result->atom_spread[i] = 0.0;
    return MLFF_OK;
  }
  const int64_t count = (int64_t) n * n_members;
  MLFF_TRY(reserve_host(m, (size_t) count, error));
  MLFF_TRY(m->backend->ops->download_reals(m->backend, m->host, out->member_energy, count, error));
  for (int k = 0; result->member_energy && k < n_members; k++) {
    double network = 0;
    for (int32_t i = 0; i < n; i++) network += graph->species[i] >= 0 ? m->host[(int64_t) k * n + i] : 0.0;
    result->member_energy[k] = (network + m->offsets) * m->scale;
  }
  for (int32_t i = 0; result->atom_spread && i < n; i++) {
    double mean = 0, square = 0;
    for (int k = 0; k < n_members; k++) mean += m->host[(int64_t) k * n + i] / n_members;
    for (int k = 0; k < n_members; k++) {
      const double d = m->host[(int64_t) k * n + i] - mean;
      square += d * d;
    }
    result->atom_spread[i] = graph->species[i] >= 0 ? sqrt(square / (n_members - 1)) * m->scale : 0.0;
  }
  return MLFF_OK;
}

/* "atom 5 (O)". */
static const char *atom_of(const mlff_model *m, const mlff_graph *graph, int32_t i, char text[WORDS])
{
  char name[MLFF_NAME];
  snprintf(text, WORDS, "%s (%s)", mlff_atom_name(graph, i, name), element_of(m, graph->species[i]));
  return text;
}

/* The atom whose features a node has. */
static const char *node_name(const mlff_graph *graph, int32_t node, char text[MLFF_NAME])
{
  int32_t i = node < graph->n_local ? node : graph->n_local;
  while (i < graph->n_all && graph->node[i] != node) i++;
  if (i < graph->n_all) return mlff_atom_name(graph, i, text);
  snprintf(text, MLFF_NAME, "an atom of another rank");
  return text;
}

/* Numeric error, "WHAT: the simulation ...", with the closest atoms. */
static mlff_status unstable(const mlff_model *m, const mlff_graph *graph, const char *what, mlff_error *error)
{
  const mlff_edges *e = &m->edges;
  char closest[3 * WORDS] = "", one[WORDS], other[WORDS];
  if (e->closest[0] >= 0 && e->closest[1] >= 0)
    snprintf(closest, sizeof closest, "; the closest atoms of this rank are %s and %s, %.4g A apart",
             atom_of(m, graph, e->closest[0], one), atom_of(m, graph, e->closest[1], other), e->min_distance);
  return mlff_fail(error, MLFF_E_NUMERIC,
                   "%s: the simulation has become unstable or left the model's domain%s; reduce the time step or check "
                   "the structure%s [mlff-43]",
                   what, closest, mlff_backend_overflow(m->backend));
}

/* Checks that energy and forces are finite. bad: first node whose force is not, or -1. */
static mlff_status check_finite(const mlff_model *m, const mlff_graph *graph, const mlff_result *result, int32_t bad,
                                mlff_error *error)
{
  char name[WORDS], what[3 * WORDS];
  if (bad < 0 && isfinite(result->energy)) return MLFF_OK;
  if (bad >= 0) {
    const char *node = node_name(graph, bad, name);
    const double *f = result->forces ? result->forces[bad] : NULL; /* NULL: it is on the device */
    if (f)
      snprintf(what, sizeof what, "the force on %s is (%g, %g, %g) eV/A", node, f[0], f[1], f[2]);
    else
      snprintf(what, sizeof what, "the force on %s is not finite", node);
    return unstable(m, graph, what, error);
  }
  for (int32_t i = 0; i < graph->n_local; i++) {
    if (!result->atom_energy || isfinite(result->atom_energy[i])) continue;
    snprintf(what, sizeof what, "the energy of %s is %g eV", atom_of(m, graph, i, name), result->atom_energy[i]);
    return unstable(m, graph, what, error);
  }
  snprintf(what, sizeof what, "the energy of this rank's atoms is %g eV", result->energy);
  return unstable(m, graph, what, error);
}

static int32_t first_bad(const mlff_graph *graph, const mlff_result *result)
{
  return mlff_first_bad_force((const double(*)[3]) result->forces, graph->n_nodes);
}

mlff_status mlff_step_check_distance(const mlff_model *m, const mlff_graph *graph, mlff_error *error)
{
  const mlff_edges *e = &m->edges;
  if (!(e->min_distance < m->head->min_distance)) return MLFF_OK;
  const int32_t i = e->closest[0], j = e->closest[1];
  char one[WORDS], other[WORDS];
  return mlff_fail(error, MLFF_E_NUMERIC,
                   "%s and %s%s are %.4f A apart, closer than the %.4g A of domain.min_distance; remove "
                   "overlaps, minimize, or reduce the time step [mlff-41]",
                   atom_of(m, graph, i, one), j >= graph->n_local ? "an image or ghost of " : "",
                   atom_of(m, graph, j, other), e->min_distance, m->head->min_distance);
}

static mlff_status finish_result(mlff_model *m, const mlff_graph *graph, const mlff_arch_outputs *out, int32_t bad,
                                 mlff_result *result, mlff_error *error)
{
  MLFF_TRY(sum_members(m, graph, out, result, error));
  result->n_edges = m->edges.n_edges;
  result->min_distance = m->edges.min_distance;
  return check_finite(m, graph, result, bad, error);
}

static mlff_forces_args forces_args(const mlff_model *m, const mlff_arch_outputs *out, mlff_result *result)
{
  return (mlff_forces_args){.edges = &m->edges,
                            .grad = out->edge_grad,
                            .scale = m->scale,
                            .on_device = m->host_view.is_on_device,
                            .node_energy = out->node_energy,
                            .result = result};
}

mlff_status mlff_step_downloads(mlff_model *m, const mlff_graph *graph, const mlff_arch_outputs *out,
                                mlff_result *result, mlff_error *error)
{
  const mlff_forces_args forces = forces_args(m, out, result);
  const mlff_ops *ops = m->backend->ops;
  const int64_t n = graph->n_local, n_members = wants_members(m, out, result) ? m->info.n_members : 0;
  if (out->direct) return MLFF_OK; /* the architecture has made them */
  MLFF_TRY(reserve_host(m, (size_t) (n * n_members), error));
  MLFF_TRY(ops->forces(m->backend, &forces, error));
  if (result->atom_energy) MLFF_TRY(ops->download_reals(m->backend, result->atom_energy, out->node_energy, n, error));
  if (!n_members) return MLFF_OK;
  return ops->download_reals(m->backend, m->host, out->member_energy, n * n_members, error);
}

mlff_status mlff_step_results(mlff_model *m, const mlff_graph *graph, const mlff_arch_outputs *out, mlff_result *result,
                              mlff_error *error)
{
  int32_t bad = -1;
  double network = 0;
  mlff_forces_args forces = forces_args(m, out, result);
  forces.bad = &bad;
  forces.energy = &network;
  /* not in the architecture, which a replayed step calls again */
  if (m->backend->spans && out->direct && out->direct->stress_end > 0.0)
    mlff_spans_add(m->backend->spans, MLFF_SPAN_STRESS, out->direct->stress_begin, out->direct->stress_end);
  if (out->direct && !out->edge_grad) {
    take_direct(m, graph, out->direct, result);
    return finish_result(m, graph, out, first_bad(graph, result), result, error);
  }
  const mlff_status status = m->backend->ops->forces(m->backend, &forces, error);
  if (status == MLFF_E_NOMEM && m->backend->ops->memory)
    return mlff_forecast_memory(m, graph, NULL, m->edges.n_edges, result, error);
  if (status) return status;
  MLFF_TRY(take_energies(m, graph, out, network, result, error));
  if (out->direct) {
    add_direct(m, graph, out->direct, result);
    bad = first_bad(graph, result);
  }
  return finish_result(m, graph, out, bad, result, error);
}

static mlff_status one_evaluation(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                                  mlff_error *error)
{
  const int has_memory = m->backend->ops->memory != NULL; /* of its own, so a forecast makes sense */
  const mlff_graph *view = &m->host_view.graph;
  mlff_arch_outputs out = {.node_energy = NULL};
  mlff_error ignored;
  mlff_spans_restart(m->backend);

  /* Without edges after a bad position or a device failure: the network is still evaluated, for its exchanges. */
  mlff_status status = m->backend->ops->edges(m->backend, graph, m->head->cutoff, &m->edges, error);
  m->host_view.graph.n_pairs = m->edges.n_pairs; /* of a list that was made */
  if (status == MLFF_E_NOMEM && has_memory)
    return mlff_forecast_memory(m, view, halo, m->edges.n_edges ? m->edges.n_edges : -1, result, error);
  if (status && status != MLFF_E_NUMERIC && status != MLFF_E_DEVICE) return status;
  if (!status) status = mlff_step_check_distance(m, view, error);
  if (!status) status = mlff_repulsion_clamp(m, error);
  mlff_last_features last;
  if (!status) status = mlff_uncertainty_want(m, result, &last, error);
  if (status == MLFF_E_NOMEM && has_memory) return mlff_forecast_memory(m, view, halo, m->edges.n_edges, result, error);
  const mlff_arch_inputs in = {.graph = view,
                               .edges = &m->edges,
                               .halo = halo,
                               .last = !status && mlff_wants_features(result) ? &last : NULL};
  const mlff_status network = m->arch->evaluate(m->net, &in, &out, status ? &ignored : error);
  if (status) return status;
  if (network == MLFF_E_NOMEM && has_memory)
    return mlff_forecast_memory(m, view, halo, m->edges.n_edges, result, error);
  if (network) return network;

  MLFF_TRY(mlff_repulsion_add(m, &out, error));
  MLFF_TRY(mlff_step_results(m, view, &out, result, error));
  MLFF_TRY(mlff_uncertainty_take(m, result, error));
  return result->member_forces ? mlff_members_evaluate(m, view, result, error) : MLFF_OK;
}

mlff_status mlff_step_plain(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                            mlff_error *error)
{
  mlff_error ignored;
  mlff_status status = one_evaluation(m, graph, halo, result, error);
  if (mlff_wants_centroid(m, result)) /* after a failure as well, for its exchanges */
    mlff_keep_first(&status, mlff_centroid_evaluate(m, &m->host_view.graph, halo, result->atom_centroid,
                                                    status ? &ignored : error));
  return status;
}
