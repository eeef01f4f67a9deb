/* feature_exchange.cpp: see feature_exchange.h. */
#include "feature_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <sched.h>

using namespace LAMMPS_NS;

static constexpr int TAG = 6253;              // messages of LAMMPS have 0
static constexpr int EAGER_CHECKS = 20000;    // of the counter of another rank: well below a millisecond

std::string MLFFFeatureExchange::share_memory(bool wanted)
{
  memory.reset();
  senders.clear();
  receivers.clear();
  if (!wanted) return "by MPI messages (node_memory no)";
  memory.reset(new MLFFHostMemory(world));
  const std::string why = memory->why_not();
  if (why.empty()) return "through shared memory within each node";
  memory.reset();
  return "by MPI messages, because shared memory is not available: " + why;
}

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
    if (wanted[k] > 0) senders.push_back({r, static_cast<size_t>(first_wanted), wanted[k], is_near(r)});
    if (asked[k] > 0) receivers.push_back({r, static_cast<size_t>(n_asked), asked[k], is_near(r)});
    first_wanted += wanted[k];
    n_asked += asked[k];
  }
  choices.resize(static_cast<size_t>(n_ranks));
  if (memory) memory->forget_readers();
  for (const Peer &peer : receivers)
    if (peer.near) memory->add_reader(peer.rank, peer.first);
  requests.reserve(senders.size() + receivers.size());
  states.resize(senders.size() + receivers.size());
  // never empty, so that data() is not null
  std::vector<int> rows_wanted(index);
  rows_wanted.resize(index.size() + 1);
  outgoing.resize(static_cast<size_t>(n_asked) + 1);
  MPI_Alltoallv(rows_wanted.data(), wanted.data(), wanted_first.data(), MPI_INT, outgoing.data(), asked.data(),
                asked_first.data(), MPI_INT, world);
  outgoing.pop_back();
}

void MLFFFeatureExchange::renumber(const std::vector<int> &row_of)
{
  for (int &row : outgoing) row = row_of[static_cast<size_t>(row)];
}

/* Spins first, then yields the core, for ranks that share one. */
template <class Condition> void MLFFFeatureExchange::wait_until(Condition is_met)
{
  for (int checks = 0; !is_met(); checks++) {
    if (checks < EAGER_CHECKS) continue;
    progress();
    sched_yield();
  }
}

void MLFFFeatureExchange::pack_rows(const Peer &peer, const char *rows, char *to, bool past_caches)
{
  auto row = outgoing.begin() + static_cast<std::ptrdiff_t>(peer.first);
  for (const auto end = row + peer.count; row != end; ++row, to += row_bytes) {
    const char *from = rows + static_cast<size_t>(*row) * row_bytes;
    if (past_caches)
      MLFFHostMemory::put(to, from, row_bytes);
    else
      memcpy(to, from, row_bytes);
  }
}

/* Copies the rows of all receivers. */
void MLFFFeatureExchange::pack(const char *rows, char *send)
{
  using clock = std::chrono::steady_clock;
  for (const Peer &peer : receivers) {
    mlff_store_choice &choice = choices[static_cast<size_t>(peer.rank)];
    const auto begin = clock::now();
    pack_rows(peer, rows, send + peer.first * row_bytes, peer.near && mlff_store_past_caches(&choice));
    const std::chrono::duration<double> took = clock::now() - begin;
    mlff_store_took(&choice, took.count(), static_cast<size_t>(peer.count) * row_bytes);
  }
}

bool MLFFFeatureExchange::begin(char *rows, int n_local, size_t bytes)
{
  row_bytes = bytes;
  const size_t n_packed = outgoing.size() * row_bytes;
  place = rows + static_cast<size_t>(n_local) * row_bytes;
  number++;
  char *send = nullptr;
  if (memory) {
    wait_until([this] { return memory->is_taken(); });
    send = memory->write(n_packed);
    if (!send) return false;
  } else {
    if (send_buffer.size() < n_packed) send_buffer.resize(n_packed);
    send = send_buffer.data();
  }
  pack(rows, send);
  if (memory) memory->give(number);
  start(send, place, false);
  return true;
}

/* Posts the sends and receives of all rows. */
void MLFFFeatureExchange::start(const char *send, char *arrival, bool to_near)
{
  const auto is_sent = [to_near](const Peer &peer) { return to_near || !peer.near; };
  requests.clear();
  if (std::none_of(senders.begin(), senders.end(), is_sent) &&
      std::none_of(receivers.begin(), receivers.end(), is_sent))
    return;
  MPI_Datatype row;    // counts of rows stay far below the largest int; bytes would not
  MPI_Type_contiguous(static_cast<int>(row_bytes), MPI_BYTE, &row);
  MPI_Type_commit(&row);
  for (const Peer &peer : senders) {
    if (!is_sent(peer)) continue;
    requests.emplace_back();
    MPI_Irecv(arrival + peer.first * row_bytes, peer.count, row, peer.rank, TAG, world, &requests.back());
  }
  for (const Peer &peer : receivers) {
    if (!is_sent(peer)) continue;
    requests.emplace_back();
    MPI_Isend(send + peer.first * row_bytes, peer.count, row, peer.rank, TAG, world, &requests.back());
  }
  MPI_Type_free(&row);    // once the messages are through
}

void MLFFFeatureExchange::pass(const char *packed, char *arrivals, size_t bytes)
{
  row_bytes = bytes;
  start(packed, arrivals, true);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), states.data());
}

/* Most MPI libraries progress large messages only inside MPI calls. */
void MLFFFeatureExchange::progress()
{
  int done;
  if (!requests.empty()) MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, states.data());
}

bool MLFFFeatureExchange::finish()
{
  for (const Peer &peer : senders) {
    if (!peer.near) continue;
    wait_until([this, &peer] { return memory->is_given(peer.rank, number); });
    const char *packed = memory->take(peer.rank, row_bytes);
    if (!packed) return false;
    memcpy(place + peer.first * row_bytes, packed, static_cast<size_t>(peer.count) * row_bytes);
    memory->done(peer.rank, number);
  }
  if (!requests.empty()) MPI_Waitall(static_cast<int>(requests.size()), requests.data(), states.data());
  return true;
}

/* Includes the rows that this rank maps from other ranks. */
double MLFFFeatureExchange::memory_usage() const
{
  double shared = memory ? memory->bytes() : 0.0;
  for (const Peer &peer : senders)
    if (peer.near) shared += static_cast<double>(peer.count) * static_cast<double>(row_bytes);
  return shared + static_cast<double>(send_buffer.capacity() + outgoing.capacity() * sizeof(int));
}
