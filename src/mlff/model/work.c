/* work.c: see work.h. Small operations (copies of rows, embeddings, sums over atoms) are not counted. */
#include "work.h"

#include <string.h>

/* Approximate operations of an exponential, a sine or a square root (polynomials of cpu/simd.h). */
static const double of_exp = 16;

static double real_bytes(const mlff_backend *backend, double n)
{
  return n * (double) backend->real_size;
}

/* Edges of the atoms begin <= i < end. */
static double edges_of(const mlff_edges *edges, int64_t begin, int64_t end)
{
  const int64_t *row = edges->row.data;
  return row && end > begin ? (double) (row[end] - row[begin]) : 0;
}

/* ---- all architectures ------------------------------------------------------------------------------------------- */

static mlff_work work_linear(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  const double rows = (double) args->n_rows, in = linear->n_in, out = linear->n_out;
  const double written = out * (1 + (args->slope != NULL) + (args->accumulate || args->scale));
  const double activation = args->act == MLFF_ACT_NONE || args->scale ? 0 : 2 * of_exp;
  return (mlff_work){.flop = rows * out * (2 * in + activation),
                     .bytes = real_bytes(backend, rows > 0 ? in * out + rows * (in + written) : 0)};
}

static mlff_work work_linear_many(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                  const mlff_linear_args *args)
{
  mlff_work sum = {0};
  for (int k = 0; k < n; k++) {
    const mlff_work one = work_linear(backend, linears[k], &args[k]);
    sum.flop += one.flop;
    sum.bytes += one.bytes;
  }
  return sum;
}

/* Per candidate: index of the neighbor, position, squared distance. */
static mlff_work work_edges(mlff_backend *backend, const mlff_graph *graph, double cutoff, mlff_edges *edges,
                            mlff_error *error)
{
  (void) backend, (void) cutoff, (void) edges, (void) error;
  const double n = graph->on_device || !graph->row ? 0 : (double) graph->row[graph->n_local];
  return (mlff_work){.flop = 8 * n, .bytes = (4 + 24) * n};
}

/* Per edge: a gradient added to both atoms, nine products of the virial. */
static mlff_work work_forces(mlff_backend *backend, const mlff_forces_args *args, mlff_error *error)
{
  (void) error;
  const double n = edges_of(args->edges, 0, args->edges->n_local);
  return (mlff_work){.flop = 24 * n, .bytes = real_bytes(backend, 8 * n) + (4 + 24) * n};
}

/* ---- PaiNN ------------------------------------------------------------------------------------------------------- */

/* Two cubic polynomials for each of four terms. */
static mlff_work work_edge_lines(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                 mlff_painn_radial *radial, mlff_error *error)
{
  (void) basis, (void) radial, (void) error;
  const double n = edges_of(edges, 0, edges->n_local);
  return (mlff_work){.flop = 60 * n, .bytes = real_bytes(backend, n * (4 + MLFF_PAINN_LINE))};
}

static mlff_work work_painn_radial(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                   mlff_painn_radial *radial, mlff_error *error)
{
  if (basis->kind == MLFF_PAINN_CUBIC) return work_edge_lines(backend, basis, edges, radial, error);
  const double n = edges_of(edges, 0, edges->n_local);
  return (mlff_work){.flop = n * (basis->n * (of_exp + 6) + 2 * of_exp),
                     .bytes = real_bytes(backend, n * (4 + MLFF_PAINN_LINE + 2 * basis->n_terms))};
}

static mlff_work painn_moments(const mlff_backend *backend, const mlff_painn_moments_args *a, double flop_of_term)
{
  const double n = edges_of(a->edges, a->begin, a->end);
  return (mlff_work){.flop = flop_of_term * a->n_terms * n,
                     .bytes = real_bytes(backend, n * MLFF_PAINN_LINE + (double) (a->end - a->begin) *
                                                                            (double) (a->ld_q + 3 * a->ld_mu))};
}

/* A term of an edge contributes to one scalar and three vector moments. */
static mlff_work work_painn_moments(mlff_backend *backend, const mlff_painn_moments_args *args)
{
  return painn_moments(backend, args, 8);
}

static mlff_work work_painn_moments_backward(mlff_backend *backend, const mlff_painn_moments_args *args)
{
  return painn_moments(backend, args, 18);
}

/* per_term, rest: operations per feature and edge. gathered: reals per feature read from a neighbor. */
static mlff_work painn_message(const mlff_backend *backend, const mlff_painn_message_args *a, double per_term,
                               double rest, double gathered)
{
  const double n = edges_of(a->edges, a->begin, a->end), f = a->n_features;
  return (mlff_work){.flop = n * f * (per_term * a->n_terms + rest),
                     .bytes = real_bytes(backend,
                                         n * (MLFF_PAINN_LINE + gathered * f) + (double) (a->end - a->begin) * 8 * f)};
}

/* Three filters of n_terms products; a, b u and c mu_j. */
static mlff_work work_painn_message(mlff_backend *backend, const mlff_painn_message_args *args)
{
  return painn_message(backend, args, 6, 16, 6);
}

/* The filters and their slopes; four adjoints, and the gradient of the edge. */
static mlff_work work_painn_message_backward(mlff_backend *backend, const mlff_painn_message_args *args)
{
  return painn_message(backend, args, 12, 40, 4);
}

static mlff_work painn_mix(const mlff_backend *backend, const mlff_painn_mix_args *a, double flop, double reals)
{
  const double n = (double) a->n * a->n_features;
  return (mlff_work){.flop = n * flop, .bytes = real_bytes(backend, n * reals)};
}

static mlff_work work_painn_mix_norm(mlff_backend *backend, const mlff_painn_mix_args *args)
{
  return painn_mix(backend, args, 6 + of_exp, 5);
}

static mlff_work work_painn_mix_update(mlff_backend *backend, const mlff_painn_mix_args *args)
{
  return painn_mix(backend, args, args->last ? 8 : 14, args->last ? 10 : 17);
}

static mlff_work work_painn_mix_backward_gates(mlff_backend *backend, const mlff_painn_mix_args *args)
{
  return painn_mix(backend, args, args->last ? 6 : 11, args->last ? 9 : 13);
}

static mlff_work work_painn_mix_backward_vectors(mlff_backend *backend, const mlff_painn_mix_args *args)
{
  return painn_mix(backend, args, args->last ? 18 : 24, args->last ? 15 : 18);
}

static mlff_work work_painn_mix_backward_sum(mlff_backend *backend, const mlff_painn_mix_args *args)
{
  return painn_mix(backend, args, 4, 12);
}

static mlff_work work_painn_readout(mlff_backend *backend, const mlff_painn_readout_args *args)
{
  const double n = (double) args->n * args->width;
  return (mlff_work){.flop = 3 * n, .bytes = real_bytes(backend, 3 * n)};
}

/* ---- ANI --------------------------------------------------------------------------------------------------------- */

/* Counts edges, and pairs of edges within the angular cutoff, of the centers of some rows. */
static void count_environments(const mlff_backend *backend, const mlff_aev *aev, const mlff_aev_args *a, double *pairs,
                               double *triples)
{
  const int64_t *row = a->edges->row.data;
  *pairs = *triples = 0;
  for (int64_t k = 0; row && k < a->n_rows; k++) {
    const int64_t i = a->centers[k];
    double near = 0;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const char *distance = (const char *) a->edges->vec.data + (size_t) (4 * e + 3) * backend->real_size;
      float single;
      double r;
      memcpy(&single, distance, sizeof single);
      if (backend->real_size == sizeof r)
        memcpy(&r, distance, sizeof r);
      else
        r = (double) single;
      near += r < aev->constants.angular_cutoff;
    }
    *pairs += (double) (row[i + 1] - row[i]);
    *triples += 0.5 * near * (near - 1);
  }
}

/* times: backward over forward operations; width: reals per edge. */
static mlff_work aev_work(const mlff_backend *backend, const mlff_aev *aev, const mlff_aev_args *a, double times,
                          double width)
{
  const mlff_aev_constants *c = &aev->constants;
  double pairs, triples;
  count_environments(backend, aev, a, &pairs, &triples);
  const double radial = c->n_radial * (of_exp + 5) + of_exp;
  const double angular =
      c->n_angular * (of_exp + 4) + c->n_sections * (2 * of_exp + 6) + 2.0 * c->n_angular * c->n_sections + 2 * of_exp;
  return (mlff_work){.flop = times * (pairs * radial + triples * angular),
                     .bytes = real_bytes(backend, pairs * width + (double) a->n_rows * aev->n_columns)};
}

static mlff_work work_aev_forward(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args, mlff_error *error)
{
  (void) error;
  return aev_work(backend, aev, args, 1, 4);
}

static mlff_work work_aev_backward(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args, mlff_error *error)
{
  (void) error;
  return aev_work(backend, aev, args, 2, 8);
}

/* ---- NequIP ------------------------------------------------------------------------------------------------------ */

/* Per edge: the radial weights, and the coupling of 2 l1 + 1 with 2 l3 + 1 components for each path. times: products
 * per component. */
static mlff_work nequip_message(const mlff_backend *backend, const mlff_nequip_message_args *a, double times)
{
  const double n = edges_of(a->edges, a->begin, a->end);
  double flop = 2.0 * a->radial.n_terms * a->radial.n_weights;
  for (int p = 0; p < a->n_paths; p++) {
    const mlff_nequip_path *path = &a->paths[p];
    flop += (double) path->n * (2 * path->l3 + 1) * (2 * (2 * path->l1 + 1) + 2);
  }
  return (mlff_work){.flop = times * n * flop,
                     .bytes = real_bytes(backend, n * (MLFF_PAINN_LINE + times * (double) a->in.ld) +
                                                      (double) (a->end - a->begin) * (double) a->out.ld)};
}

static mlff_work work_nequip_message(mlff_backend *backend, const mlff_nequip_message_args *args)
{
  return nequip_message(backend, args, 1);
}

/* Adjoints of features, of weights and of couplings. */
static mlff_work work_nequip_message_backward(mlff_backend *backend, const mlff_nequip_message_args *args)
{
  return nequip_message(backend, args, 3);
}

static mlff_work nequip_first(const mlff_backend *backend, const mlff_nequip_first_args *a, double times)
{
  const double n = edges_of(a->edges, a->begin, a->end);
  double harmonics = 0;
  for (int l = 0; l < a->out.n_orders; l++) harmonics += 2.0 * (2 * l + 1) * a->out.n[l];
  return (mlff_work){.flop = times * n * (2.0 * a->radial.n_terms * a->radial.n_weights + harmonics),
                     .bytes =
                         real_bytes(backend, n * MLFF_PAINN_LINE + (double) (a->end - a->begin) * (double) a->out.ld)};
}

static mlff_work work_nequip_first(mlff_backend *backend, const mlff_nequip_first_args *args)
{
  return nequip_first(backend, args, 1);
}

static mlff_work work_nequip_first_backward(mlff_backend *backend, const mlff_nequip_first_args *args)
{
  return nequip_first(backend, args, 2);
}

const mlff_work_table mlff_works = {.linear = work_linear,
                                    .linear_many = work_linear_many,
                                    .edges = work_edges,
                                    .forces = work_forces,
                                    .edge_lines = work_edge_lines,
                                    .painn_radial = work_painn_radial,
                                    .painn_moments = work_painn_moments,
                                    .painn_moments_backward = work_painn_moments_backward,
                                    .painn_message = work_painn_message,
                                    .painn_message_backward = work_painn_message_backward,
                                    .painn_mix_norm = work_painn_mix_norm,
                                    .painn_mix_update = work_painn_mix_update,
                                    .painn_mix_backward_gates = work_painn_mix_backward_gates,
                                    .painn_mix_backward_vectors = work_painn_mix_backward_vectors,
                                    .painn_mix_backward_sum = work_painn_mix_backward_sum,
                                    .painn_readout = work_painn_readout,
                                    .aev_forward = work_aev_forward,
                                    .aev_backward = work_aev_backward,
                                    .nequip_first = work_nequip_first,
                                    .nequip_first_backward = work_nequip_first_backward,
                                    .nequip_message = work_nequip_message,
                                    .nequip_message_backward = work_nequip_message_backward};
