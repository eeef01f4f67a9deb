/* host_memory.h: memory of a rank that the other ranks of its machine read.
 *
 * A message within a machine is copied twice, in pieces. Here the reader copies once from the memory of the writer. The
 * memory is a memfd, opened through /proc: it leaves no files behind, and /dev/shm does not limit its size.
 */
#ifndef LMP_MLFF_HOST_MEMORY_H
#define LMP_MLFF_HOST_MEMORY_H

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace LAMMPS_NS {

/* Single producer, many consumers: data of an increasing number stay unchanged until all readers have taken them. */
class MLFFHostMemory {
 public:
  /* Collective. All ranks of a machine get memory, or none, with the reason in `why_not`. */
  explicit MLFFHostMemory(MPI_Comm world);
  MLFFHostMemory(const MLFFHostMemory &) = delete;
  MLFFHostMemory &operator=(const MLFFHostMemory &) = delete;
  ~MLFFHostMemory();

  /* Empty if memory is shared. */
  const std::string &why_not() const { return problem; }
  /* Whether `rank` of world is another rank of this machine and shares memory. */
  bool is_near(int rank) const { return regions[static_cast<size_t>(rank)].begin != nullptr && rank != me; }

  /* Sets the readers: `rank` reads from position `first`. All data given before must be taken. */
  void forget_readers() { readers.clear(); }
  void add_reader(int rank, size_t first);
  /* Whether all readers have taken the last data. Then write() returns room for the bytes, or nullptr if it cannot be
   * allocated. */
  bool is_taken() const;
  char *write(size_t bytes);
  /* Copies into this room by non-temporal stores (store_choice.h). */
  static void put(char *to, const char *from, size_t bytes);
  void give(uint64_t number);

  /* Whether `rank` has given `number`. Then take() returns the data for this rank, in units of `bytes`, or nullptr if
   * they cannot be mapped. done() allows the owner to overwrite them. */
  bool is_given(int rank, uint64_t number) const;
  const char *take(int rank, size_t bytes);
  void done(int rank, uint64_t number);

  /* Size of the memory of this rank. */
  double bytes() const { return static_cast<double>(regions[static_cast<size_t>(me)].bytes); }

 private:
  struct Header;
  struct Reader;
  struct Region {
    char *begin = nullptr;    // header, readers of all ranks of the machine, data
    size_t bytes = 0;         // mapped here
  };

  int me;
  size_t local_rank;              // index of this rank within the machine
  int file;                       // of the region of this rank
  size_t data_offset;             // offset of data in every region
  std::vector<Region> regions;    // [ranks of world]; empty for other machines
  std::vector<size_t> place;      // [ranks of world] index within the machine
  std::vector<int> readers;
  uint64_t given;
  std::string problem;

  std::string create(size_t n_near, uint64_t token);
  std::string open_region(int rank, int process, int their_file, uint64_t token);
  void close_all();
  Header *header(int rank) const;
  Reader *reader(int owner, size_t k) const;
  static bool grow(Region *region, size_t bytes);
};

}    // namespace LAMMPS_NS

#endif
