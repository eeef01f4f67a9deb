/* lammps_comm.cpp: what MLFFIO (lammps_io.h) sends between ranks and adds up over them. */
#include "lammps_io.h"

#include "comm.h"
#include "error.h"
#include "fix.h"
#include "pair.h"

#include <algorithm>
#include <cstdio>

using namespace LAMMPS_NS;

/* As much as the model announced. */
mlff_status MLFFIO::check_features(size_t bytes, mlff_error *problem) const
{
  if (bytes <= static_cast<size_t>(exchange_width)) return MLFF_OK;
  if (!problem) return MLFF_E_ARG;
  problem->code = MLFF_E_ARG;
  snprintf(problem->text, sizeof(problem->text), "exchange of %zu bytes per atom, but the model announced %d", bytes,
           exchange_width);
  return MLFF_E_ARG;
}

/* The other ranks wait for this one, so that it cannot go on and tell later. */
void MLFFIO::no_room_for_features() const
{
  error->one(FLERR,
             "pair_style mlff: no memory for the features that the ranks of this machine share; use more machines, "
             "fewer atoms or `pair_style mlff node_memory off`");
}

mlff_status MLFFIO::begin_features(void *context, void *values, size_t bytes, mlff_error *problem)
{
  auto *io = static_cast<MLFFIO *>(context);
  io->travelling = false;
  if (const mlff_status status = io->check_features(bytes, problem)) return status;
  if (!io->features.begin(static_cast<char *>(values), io->view.n_local, bytes)) io->no_room_for_features();
  io->travelling = true;
  return MLFF_OK;
}

mlff_status MLFFIO::pass_features(void *context, const void *packed, void *arrivals, size_t bytes, mlff_error *problem)
{
  auto *io = static_cast<MLFFIO *>(context);
  if (const mlff_status status = io->check_features(bytes, problem)) return status;
  io->features.pass(static_cast<const char *>(packed), static_cast<char *>(arrivals), bytes);
  return MLFF_OK;
}

mlff_status MLFFIO::finish_features(void *context, mlff_error * /*problem*/)
{
  auto *io = static_cast<MLFFIO *>(context);
  if (io->travelling && !io->features.finish()) io->no_room_for_features();
  io->travelling = false;
  return MLFF_OK;
}

void MLFFIO::move_features(void *context)
{
  auto *io = static_cast<MLFFIO *>(context);
  if (io->travelling) io->features.progress();
}

mlff_status MLFFIO::forward_features(void *context, void *values, size_t bytes, mlff_error *problem)
{
  const mlff_status begun = begin_features(context, values, bytes, problem);
  return begun ? begun : finish_features(context, problem);
}

mlff_status MLFFIO::reverse_features(void *context, void *values, int width, size_t real_size, mlff_error *problem)
{
  auto *io = static_cast<MLFFIO *>(context);
  if (width > io->reverse_comm) {
    if (problem) {
      problem->code = MLFF_E_ARG;
      snprintf(problem->text, sizeof(problem->text),
               "reverse exchange of %d numbers per atom, but the model announced %d", width, io->reverse_comm);
    }
    return MLFF_E_ARG;
  }
  io->reverse(values, width, real_size == sizeof(float));
  return MLFF_OK;
}

mlff_status MLFFIO::reduce_values(void *context, double *values, int n, mlff_error * /*problem*/)
{
  auto *io = static_cast<MLFFIO *>(context);
  MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_SUM, io->world);
  return MLFF_OK;
}

/* Every ghost gets its owner's rank and index there. LAMMPS takes the width from the pair style. That it can also be an
 * argument is too new for the oldest release. */
void MLFFIO::forward_owners()
{
  if (fix) {
    comm->forward_comm(fix, FORWARD_WIDTH);
    return;
  }
  const int saved = pair->comm_forward;
  const ExecutionSpace space = pair->execution_space;
  pair->comm_forward = FORWARD_WIDTH;
  pair->execution_space = Host;    // what is sent is there, wherever the style computes
  comm->forward_comm(pair);
  pair->execution_space = space;
  pair->comm_forward = saved;
}

/* Adds the rows of nodes of other ranks to those of their owners. values: [n_nodes][width].
 * Of the two widths, comm_style brick takes the larger and comm_style tiled the first. */
void MLFFIO::reverse(void *values, int width, bool floats)
{
  reverse_rows = values;
  reverse_width = width;
  reverse_floats = floats;
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

int MLFFIO::pack_forward(int n, const int *atoms, double *buf) const
{
  for (int k = 0; k < n; k++) {
    buf[2 * k] = owner_rank[atoms[k]];
    buf[2 * k + 1] = node[atoms[k]];
  }
  return FORWARD_WIDTH * n;
}

void MLFFIO::unpack_forward(int n, int first, const double *buf)
{
  for (int k = 0; k < n; k++) {
    owner_rank[first + k] = static_cast<int>(buf[2 * k]);
    node[first + k] = static_cast<int>(buf[2 * k + 1]);
  }
}

/* Images of own atoms have nothing to send: they share their owner's row. Of images of an atom of another rank, which
 * share a row as well, one sends it. */
template <class Real> int MLFFIO::pack_rows(int n, int first, double *buf) const
{
  const auto width = static_cast<size_t>(reverse_width);
  if (reverse_atoms) {
    const Real *from = static_cast<const Real *>(reverse_rows) + static_cast<size_t>(first) * width;
    std::copy(from, from + static_cast<size_t>(n) * width, buf);
    return n * reverse_width;
  }
  for (int k = 0; k < n; k++, buf += width) {
    const int v = node[first + k];
    const Real *from = static_cast<const Real *>(reverse_rows) + static_cast<size_t>(v) * width;
    const bool sends = v >= view.n_local && ghost_of_node[static_cast<size_t>(v - view.n_local)] == first + k;
    for (size_t c = 0; c < width; c++) buf[c] = sends ? static_cast<double>(from[c]) : 0.0;
  }
  return n * reverse_width;
}

template <class Real> void MLFFIO::add_rows(int n, const int *atoms, const double *buf)
{
  const auto width = static_cast<size_t>(reverse_width);
  for (int k = 0; k < n; k++, buf += width) {
    const int a = atoms[k], r = reverse_atoms ? a : a < view.n_local ? row_of[a] : node[a];
    Real *to = static_cast<Real *>(reverse_rows) + static_cast<size_t>(r) * width;
    for (size_t c = 0; c < width; c++) to[c] += static_cast<Real>(buf[c]);
  }
}

int MLFFIO::pack_reverse(int n, int first, double *buf) const
{
  return reverse_floats ? pack_rows<float>(n, first, buf) : pack_rows<double>(n, first, buf);
}

void MLFFIO::unpack_reverse(int n, const int *atoms, const double *buf)
{
  if (reverse_floats)
    add_rows<float>(n, atoms, buf);
  else
    add_rows<double>(n, atoms, buf);
}
