/* feature_exchange.cpp: see feature_exchange.h. */
#include "feature_exchange.h"

#include "half_rows.h"

#include <cstring>

using namespace LAMMPS_NS;

static constexpr int TAG = 6253;    // LAMMPS' own messages have 0

void MLFFFeatureExchange::build(const std::vector<int> &rank, const std::vector<int> &index)
{
  int n_ranks = 1;
  MPI_Comm_size(world, &n_ranks);
  std::vector<int> wanted(static_cast<size_t>(n_ranks), 0), asked(wanted), wanted_first(wanted), asked_first(wanted);
  for (const int r : rank) wanted[static_cast<size_t>(r)]++;
  MPI_Alltoall(wanted.data(), 1, MPI_INT, asked.data(), 1, MPI_INT, world);

  senders.clear();
  receivers.clear();
  int first_wanted = 0, n_asked = 0;
  for (int r = 0; r < n_ranks; r++) {
    const auto k = static_cast<size_t>(r);
    wanted_first[k] = first_wanted;
    asked_first[k] = n_asked;
    if (wanted[k] > 0) senders.push_back({r, static_cast<size_t>(first_wanted), wanted[k]});
    if (asked[k] > 0) receivers.push_back({r, static_cast<size_t>(n_asked), asked[k]});
    first_wanted += wanted[k];
    n_asked += asked[k];
  }
  n_wanted = index.size();
  requests.resize(senders.size() + receivers.size());
  states.resize(requests.size());
  // never empty, so that data() is not null
  std::vector<int> rows_wanted(index);
  rows_wanted.resize(n_wanted + 1);
  outgoing.resize(static_cast<size_t>(n_asked) + 1);
  MPI_Alltoallv(rows_wanted.data(), wanted.data(), wanted_first.data(), MPI_INT, outgoing.data(), asked.data(),
                asked_first.data(), MPI_INT, world);
  outgoing.pop_back();
}

void MLFFFeatureExchange::renumber(const std::vector<int> &row_of)
{
  for (int &row : outgoing) row = row_of[static_cast<size_t>(row)];
}

void MLFFFeatureExchange::pack(const Peer &peer, const char *rows)
{
  const size_t n_numbers = row_bytes / sizeof(float);
  char *to = send_buffer.data() + peer.first * packed_bytes;
  for (size_t k = peer.first; k < peer.first + static_cast<size_t>(peer.count); k++, to += packed_bytes) {
    const char *from = rows + static_cast<size_t>(outgoing[k]) * row_bytes;
    if (half)
      mlff_half_pack(reinterpret_cast<const float *>(from), n_numbers, to);
    else
      memcpy(to, from, packed_bytes);
  }
}

void MLFFFeatureExchange::begin(char *rows, int n_local, size_t bytes)
{
  row_bytes = bytes;
  packed_bytes = half ? mlff_half_bytes(row_bytes / sizeof(float)) : row_bytes;
  if (send_buffer.size() < outgoing.size() * packed_bytes) send_buffer.resize(outgoing.size() * packed_bytes);
  if (half && receive_buffer.size() < n_wanted * packed_bytes) receive_buffer.resize(n_wanted * packed_bytes);
  place = rows + static_cast<size_t>(n_local) * row_bytes;
  char *arrival = half ? receive_buffer.data() : place;

  for (const Peer &peer : receivers) pack(peer, rows);
  start(send_buffer.data(), arrival);
}

/* Posts all messages, of rows of packed_bytes. */
void MLFFFeatureExchange::start(const char *send, char *arrival)
{
  MPI_Datatype row;    // counts of rows stay far below the largest int; bytes would not
  MPI_Type_contiguous(static_cast<int>(packed_bytes), MPI_BYTE, &row);
  MPI_Type_commit(&row);
  MPI_Request *request = requests.data();
  for (const Peer &peer : senders)
    MPI_Irecv(arrival + peer.first * packed_bytes, peer.count, row, peer.rank, TAG, world, request++);
  for (const Peer &peer : receivers)
    MPI_Isend(send + peer.first * packed_bytes, peer.count, row, peer.rank, TAG, world, request++);
  MPI_Type_free(&row);    // once the messages are through
}

void MLFFFeatureExchange::pass(const char *packed, char *arrivals, size_t bytes)
{
  packed_bytes = bytes;
  start(packed, arrivals);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), states.data());
}

/* Most MPI libraries move large messages only within their functions. */
void MLFFFeatureExchange::progress()
{
  int done;
  MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, states.data());
}

void MLFFFeatureExchange::finish()
{
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), states.data());
  if (!half) return;
  for (size_t k = 0; k < n_wanted; k++)
    mlff_half_unpack(receive_buffer.data() + k * packed_bytes, row_bytes / sizeof(float),
                     reinterpret_cast<float *>(place + k * row_bytes));
}

double MLFFFeatureExchange::memory_usage() const
{
  return static_cast<double>(send_buffer.capacity() + receive_buffer.capacity() + outgoing.capacity() * sizeof(int));
}
