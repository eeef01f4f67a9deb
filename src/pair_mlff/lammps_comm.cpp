/* lammps_comm.cpp: what MLFFIO (lammps_io.h) sends between ranks and adds up over them. */
#include "lammps_io.h"

#include "comm.h"
#include "fix.h"
#include "pair.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace LAMMPS_NS;

mlff_status MLFFIO::forward_features(void *context, void *features, size_t bytes, mlff_error *problem)
{
  auto *io = static_cast<MLFFIO *>(context);
  const size_t width = (bytes + sizeof(double) - 1) / sizeof(double);
  if (bytes > static_cast<size_t>(io->exchange_width)) {
    if (problem) {
      problem->code = MLFF_E_ARG;
      snprintf(problem->text, sizeof(problem->text), "exchange of %zu bytes per atom, but the model announced %d",
               bytes, io->exchange_width);
    }
    return MLFF_E_ARG;
  }
  io->rows = static_cast<char *>(features);
  io->row_bytes = bytes;
  io->forward(Forward::ROWS, static_cast<int>(width));
  return MLFF_OK;
}

mlff_status MLFFIO::reverse_features(void *context, void *features, int width, size_t real_size, mlff_error *problem)
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
  io->reverse(features, width, real_size == sizeof(float));
  return MLFF_OK;
}

mlff_status MLFFIO::reduce_values(void *context, double *values, int n, mlff_error * /*problem*/)
{
  auto *io = static_cast<MLFFIO *>(context);
  MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_SUM, io->world);
  return MLFF_OK;
}

/* LAMMPS takes the width from the pair style. That it can also be an argument is too new for the oldest release. */
void MLFFIO::forward(Forward kind, int width)
{
  forward_kind = kind;
  if (fix) {
    comm->forward_comm(fix, width);
    return;
  }
  const int saved = pair->comm_forward;
  pair->comm_forward = width;
  comm->forward_comm(pair);
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
  pair->comm_reverse = pair->comm_reverse_off = width;
  comm->reverse_comm(pair);
  pair->comm_reverse = saved;
  pair->comm_reverse_off = saved_off;
}

int MLFFIO::pack_forward(int n, const int *atoms, double *buf) const
{
  if (forward_kind == Forward::OWNERS) {
    for (int k = 0; k < n; k++) {
      buf[2 * k] = owner_rank[atoms[k]];
      buf[2 * k + 1] = node[atoms[k]];
    }
    return 2 * n;
  }
  const size_t width = (row_bytes + sizeof(double) - 1) / sizeof(double);
  for (int k = 0; k < n; k++, buf += width) {
    buf[width - 1] = 0.0;
    memcpy(buf, rows + static_cast<size_t>(node[atoms[k]]) * row_bytes, row_bytes);
  }
  return n * static_cast<int>(width);
}

void MLFFIO::unpack_forward(int n, int first, const double *buf)
{
  if (forward_kind == Forward::OWNERS) {
    for (int k = 0; k < n; k++) {
      owner_rank[first + k] = static_cast<int>(buf[2 * k]);
      node[first + k] = static_cast<int>(buf[2 * k + 1]);
    }
    return;
  }
  const size_t width = (row_bytes + sizeof(double) - 1) / sizeof(double);
  for (int k = 0; k < n; k++, buf += width) {
    const int v = node[first + k];
    if (v >= view.n_local) memcpy(rows + static_cast<size_t>(v) * row_bytes, buf, row_bytes);
  }
}

/* Images of own atoms have nothing to send: they share their owner's row. */
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
    for (size_t c = 0; c < width; c++) buf[c] = v >= view.n_local ? static_cast<double>(from[c]) : 0.0;
  }
  return n * reverse_width;
}

template <class Real> void MLFFIO::add_rows(int n, const int *atoms, const double *buf)
{
  const auto width = static_cast<size_t>(reverse_width);
  for (int k = 0; k < n; k++, buf += width) {
    Real *to =
        static_cast<Real *>(reverse_rows) + static_cast<size_t>(reverse_atoms ? atoms[k] : node[atoms[k]]) * width;
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
