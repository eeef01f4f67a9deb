/* halo.cpp: see halo.h. */
#include "halo.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "fix.h"
#include "pair.h"

#include <algorithm>
#include <cstdio>

using namespace LAMMPS_NS;

static constexpr int VIRIAL_WIDTH = 9, FORWARD_WIDTH = 2;

/* Callbacks of the engine (mlff_halo), and packing of float and double rows. */
struct MLFFHalo::Calls {
  static MLFFHalo *halo_of(void *context) { return static_cast<MLFFHalo *>(context); }

  /* Buffers are sized for the announced width. */
  static mlff_status check(size_t wanted, const char *what, int announced, mlff_error *problem)
  {
    if (wanted <= static_cast<size_t>(announced)) return MLFF_OK;
    if (!problem) return MLFF_E_ARG;
    problem->code = MLFF_E_ARG;
    snprintf(problem->text, sizeof(problem->text),
             "internal error: exchange of %zu %s per atom, but the model announced %d", wanted, what, announced);
    return MLFF_E_ARG;
  }

  /* Stops at once, because other ranks wait for this one. */
  static void no_room(const MLFFHalo *halo)
  {
    halo->error->one(FLERR, "pair_style mlff: could not allocate shared memory for features of neighboring ranks. Use "
                            "more nodes, fewer atoms or `pair_style mlff node_memory no`");
  }

  static mlff_status begin(void *context, void *values, size_t bytes, mlff_error *problem)
  {
    MLFFHalo *halo = halo_of(context);
    halo->in_flight = false;
    if (const mlff_status status = check(bytes, "bytes", halo->exchange_width, problem)) return status;
    if (!halo->features.begin(static_cast<char *>(values), halo->nodes->n_local, bytes)) no_room(halo);
    halo->in_flight = true;
    return MLFF_OK;
  }

  static void progress(void *context)
  {
    if (halo_of(context)->in_flight) halo_of(context)->features.progress();
  }

  static mlff_status finish(void *context, mlff_error * /*problem*/)
  {
    MLFFHalo *halo = halo_of(context);
    if (halo->in_flight && !halo->features.finish()) no_room(halo);
    halo->in_flight = false;
    return MLFF_OK;
  }

  static mlff_status forward(void *context, void *values, size_t bytes, mlff_error *problem)
  {
    const mlff_status begun = begin(context, values, bytes, problem);
    return begun ? begun : finish(context, problem);
  }

  static mlff_status pass(void *context, const void *packed, void *arrivals, size_t bytes, mlff_error *problem)
  {
    if (const mlff_status status = check(bytes, "bytes", halo_of(context)->exchange_width, problem)) return status;
    halo_of(context)->features.pass(static_cast<const char *>(packed), static_cast<char *>(arrivals), bytes);
    return MLFF_OK;
  }

  static mlff_status reverse(void *context, void *values, int width, size_t real_size, mlff_error *problem)
  {
    if (const mlff_status status =
            check(static_cast<size_t>(width), "numbers", halo_of(context)->max_reverse_width, problem))
      return status;
    halo_of(context)->reverse(values, width, real_size == sizeof(float));
    return MLFF_OK;
  }

  static mlff_status reduce(void *context, double *values, int n, mlff_error * /*problem*/)
  {
    MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_SUM, halo_of(context)->world);
    return MLFF_OK;
  }

  /* Images of owned atoms share the row of the owner and send zeros. One image of each atom of another rank sends its
   * row. */
  template <class Real> static void pack(const MLFFHalo &halo, int n, int first, double *buf)
  {
    const MLFFNodes &nodes = *halo.nodes;
    const auto width = static_cast<size_t>(halo.width);
    const auto *rows = static_cast<const Real *>(halo.reverse_rows);
    for (int g = first; g < first + n; g++, buf += width) {
      const int v = halo.rows_are_atoms ? g : nodes.node[g];
      const bool sends = halo.rows_are_atoms || (v >= nodes.n_local && nodes.ghost_of_node[v - nodes.n_local] == g);
      for (size_t c = 0; c < width; c++)
        buf[c] = sends ? static_cast<double>(rows[static_cast<size_t>(v) * width + c]) : 0.0;
    }
  }

  template <class Real> static void add(const MLFFHalo &halo, int n, const int *atoms, const double *buf)
  {
    const MLFFNodes &nodes = *halo.nodes;
    const auto width = static_cast<size_t>(halo.width);
    for (int k = 0; k < n; k++, buf += width) {
      const int a = atoms[k], r = halo.rows_are_atoms ? a : a < nodes.n_local ? nodes.row_of[a] : nodes.node[a];
      Real *to = static_cast<Real *>(halo.reverse_rows) + static_cast<size_t>(r) * width;
      for (size_t c = 0; c < width; c++) to[c] += static_cast<Real>(buf[c]);
    }
  }
};

/* ---------------------------------------------------------------------- */

MLFFHalo::MLFFHalo(LAMMPS *lammps, Pair *pair_style, Fix *fix_style) :
    Pointers(lammps), pair(pair_style), fix(fix_style), n_ranks(lammps->comm->nprocs), exchange_width(0),
    max_reverse_width(VIRIAL_WIDTH), width(0), exchange{}, features(lammps->world), nodes(nullptr),
    reverse_rows(nullptr), rows_are_floats(false), rows_are_atoms(false), in_flight(false), owner_types(nullptr)
{
  exchange.context = this;
  exchange.forward = Calls::forward;
  exchange.begin = Calls::begin;
  exchange.progress = Calls::progress;
  exchange.finish = Calls::finish;
  exchange.reverse = Calls::reverse;
  exchange.reduce = Calls::reduce;
}

void MLFFHalo::set_model(const mlff_info *info)
{
  exchange_width = info->exchange_width;
  max_reverse_width = std::max(VIRIAL_WIDTH, info->reverse_width);
}

std::string MLFFHalo::set_ways(bool gpu_aware, bool shared)
{
  exchange.forward_device = gpu_aware ? Calls::pass : nullptr;
  return has_features() ? features.share_memory(shared) : "";
}

const std::vector<int> &MLFFHalo::connect(const std::vector<int> &rank, const std::vector<int> &index)
{
  if (has_features()) features.build(rank, index);
  exchange.sent = features.sent().data();
  exchange.n_sent = static_cast<int32_t>(features.sent().size());
  return features.sent();
}

void MLFFHalo::set_order(const std::vector<int> &row_of)
{
  features.renumber(row_of);
}

void MLFFHalo::find_owners(MLFFNodes &map)
{
  nodes = &map;
  forward();
}

void MLFFHalo::find_owner_types(std::vector<int> &types)
{
  // commands may have changed the number of atoms since the ghosts were set up
  types.assign(static_cast<size_t>(atom->nmax), -1);
  owner_types = &types;
  forward();
  owner_types = nullptr;
}

/* The width as an argument is not available in the oldest supported release. */
void MLFFHalo::forward()
{
  if (fix) {
    comm->forward_comm(fix, FORWARD_WIDTH);
    return;
  }
  const int saved = pair->comm_forward;
  const ExecutionSpace space = pair->execution_space;
  pair->comm_forward = FORWARD_WIDTH;
  pair->execution_space = Host;    // the data are on the host, wherever the style computes
  comm->forward_comm(pair);
  pair->execution_space = space;
  pair->comm_forward = saved;
}

/* values: [n_nodes][width]. Sets both widths, because comm_style brick uses the larger one and comm_style tiled the
 * first. */
void MLFFHalo::reverse(void *values, int row_width, bool of_floats)
{
  reverse_rows = values;
  width = row_width;
  rows_are_floats = of_floats;
  if (fix) {
    comm->reverse_comm(fix, width);
    return;
  }
  const int saved = pair->comm_reverse, saved_off = pair->comm_reverse_off;
  const ExecutionSpace space = pair->execution_space;
  pair->execution_space = Host;
  pair->comm_reverse = pair->comm_reverse_off = width;
  comm->reverse_comm(pair);
  pair->execution_space = space;
  pair->comm_reverse = saved;
  pair->comm_reverse_off = saved_off;
}

void MLFFHalo::reverse_to_owners(double *rows, int row_width)
{
  if (is_needed()) reverse(rows, row_width, false);
}

void MLFFHalo::add_ghosts(double (*values)[3])
{
  rows_are_atoms = true;
  reverse(&values[0][0], 3, false);
  rows_are_atoms = false;
}

int MLFFHalo::forward_width() const
{
  return FORWARD_WIDTH;
}

/* Owner and index at the owner, or type and 0. */
int MLFFHalo::pack_forward(int n, const int *atoms, double *buf) const
{
  for (int k = 0; k < n; k++) {
    const int a = atoms[k];
    // LAMMPS forwards values that it has just unpacked from ghost to ghost
    const bool is_passed_on = owner_types && a >= atom->nlocal;
    buf[2 * k] = is_passed_on ? (*owner_types)[a] : owner_types ? atom->type[a] : nodes->owner_rank[a];
    buf[2 * k + 1] = owner_types ? 0.0 : nodes->node[a];
  }
  return FORWARD_WIDTH * n;
}

void MLFFHalo::unpack_forward(int n, int first, const double *buf)
{
  for (int k = 0; k < n; k++) {
    if (owner_types) {
      (*owner_types)[first + k] = static_cast<int>(buf[2 * k]);
      continue;
    }
    nodes->owner_rank[first + k] = static_cast<int>(buf[2 * k]);
    nodes->node[first + k] = static_cast<int>(buf[2 * k + 1]);
  }
}

int MLFFHalo::pack_reverse(int n, int first, double *buf) const
{
  rows_are_floats ? Calls::pack<float>(*this, n, first, buf) : Calls::pack<double>(*this, n, first, buf);
  return n * width;
}

void MLFFHalo::unpack_reverse(int n, const int *atoms, const double *buf)
{
  rows_are_floats ? Calls::add<float>(*this, n, atoms, buf) : Calls::add<double>(*this, n, atoms, buf);
}
