/* feature_exchange.h: rows of nodes of other ranks, straight from the ranks that own them.
 *
 * LAMMPS' own forward communication passes rows on in x, then y, then z, and copies all images of atoms, also of those
 * that a rank owns. That is right for positions, which differ between images. Features do not, and are long: here each
 * row travels once from its owner to each rank that needs it, into its place: through memory that the ranks of a
 * machine share (host_memory.h), or as a message.
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

  /* Whether ranks of one machine share memory. Says how rows travel then, and why no memory is shared where it is
   * wanted. Before `build`. Collective. */
  std::string share_memory(bool wanted);

  /* Wanted row k is row index[k] of rank[k]. Sorted by rank, no rank is this one. Collective. */
  void build(const std::vector<int> &rank, const std::vector<int> &index);

  /* Rows of this rank that others want, peer after peer, so with repetitions. */
  const std::vector<int> &sent() const { return outgoing; }
  /* What was row r when exchange was built is row_of[r] from now on. */
  void renumber(const std::vector<int> &row_of);

  /* rows: [n_local + wanted][bytes]; fills those behind the first n_local until `finish` returns. progress may be
   * called between the two. False when there is no memory for them. Collective. */
  bool begin(char *rows, int n_local, size_t bytes);
  void progress();
  bool finish();

  /* At once, from and to any memory that MPI takes: packed has the rows of `sent`, arrivals [wanted][bytes] gets those
   * behind n_local. Collective, together with `begin` and `finish` of ranks that do it so. */
  void pass(const char *packed, char *arrivals, size_t bytes);

  double memory_usage() const;

 private:
  struct Peer {
    int rank;
    size_t first;    // of its rows in what is sent or wanted
    int count;
    bool near;    // shares memory with this one
  };

  MPI_Comm world;
  std::unique_ptr<MLFFHostMemory> memory;    // or no memory is shared
  std::vector<mlff_store_choice> choices;    // [ranks of world]; counts for those that share memory
  uint64_t number;                           // of the exchange, the same on all ranks
  std::vector<Peer> senders, receivers;      // ranks that send to this one, and that this one sends to
  std::vector<int> outgoing;                 // rows of this rank that are sent, peer after peer
  std::vector<char> send_buffer;
  std::vector<MPI_Request> requests;    // of one exchange
  std::vector<MPI_Status> states;
  char *place;    // destination of the rows of the current exchange, and their size
  size_t row_bytes;

  bool is_near(int rank) const { return memory && memory->is_near(rank); }
  template <class Condition> void wait_until(Condition is_so);
  void pack(const char *rows, char *send);
  void pack_rows(const Peer &peer, const char *rows, char *to, bool past_caches);
  void start(const char *send, char *arrival, bool to_near);
};

}    // namespace LAMMPS_NS

#endif
