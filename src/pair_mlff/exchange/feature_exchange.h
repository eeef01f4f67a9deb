/* feature_exchange.h: exchange of feature rows directly between owners and the ranks that need them.
 *
 * The forward communication of LAMMPS sends rows in x, then y, then z, and sends all images of an atom. Features are
 * long and equal for all images. Here each row is sent once to each rank that needs it, through shared memory of the
 * ranks of a machine (host_memory.h) or as an MPI message.
 */
#ifndef LMP_MLFF_FEATURE_EXCHANGE_H
#define LMP_MLFF_FEATURE_EXCHANGE_H

#include "host_memory.h"
#include "store_choice.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFFeatureExchange {
 public:
  explicit MLFFFeatureExchange(MPI_Comm communicator) : world(communicator), number(0), place(nullptr), row_bytes(0) {}

  /* Uses shared memory within a machine if wanted and available. Returns the way for the log, and why shared memory is
   * not available. Before `build`. Collective. */
  std::string share_memory(bool wanted);

  /* Requested row k is row index[k] of rank[k]. Sorted by rank, without this rank. Collective. */
  void build(const std::vector<int> &rank, const std::vector<int> &index);

  /* Rows of this rank that others request, by peer, with repetitions. */
  const std::vector<int> &sent() const { return outgoing; }
  /* Row r of `build` becomes row_of[r]. */
  void renumber(const std::vector<int> &row_of);

  /* rows: [n_local + requested][bytes]; those after the first n_local are complete when `finish` returns. `progress`
   * may be called in between. Returns false if memory cannot be allocated. Collective. */
  bool begin(char *rows, int n_local, size_t bytes);
  void progress();
  bool finish();

  /* Blocking exchange of packed rows (those of `sent`) into arrivals [requested][bytes], in any memory that MPI
   * supports. Collective with `begin` and `finish` of other ranks. */
  void pass(const char *packed, char *arrivals, size_t bytes);

  double memory_usage() const;

 private:
  struct Peer {
    int rank;
    size_t first;    // of its rows among sent or requested rows
    int count;
    bool near;    // shares memory with this rank
  };

  MPI_Comm world;
  std::unique_ptr<MLFFHostMemory> memory;    // nullptr: not shared
  std::vector<mlff_store_choice> choices;    // [ranks of world], for ranks that share memory
  uint64_t number;                           // of the current exchange, the same on all ranks
  std::vector<Peer> senders, receivers;      // ranks that send to this rank, and that receive from it
  std::vector<int> outgoing;                 // rows of this rank that are sent, by peer
  std::vector<char> send_buffer;
  std::vector<MPI_Request> requests;    // of one exchange
  std::vector<MPI_Status> states;
  char *place;    // destination of the rows of the current exchange, and their size
  size_t row_bytes;

  bool is_near(int rank) const { return memory && memory->is_near(rank); }
  template <class Condition> void wait_until(Condition is_met);
  void pack(const char *rows, char *send);
  void pack_rows(const Peer &peer, const char *rows, char *to, bool past_caches);
  void start(const char *send, char *arrival, bool to_near);
};

}    // namespace LAMMPS_NS

#endif
