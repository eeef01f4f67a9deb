/* host_memory.h: memory of a rank that the other ranks of its machine read.
 *
 * A message between two processes of a machine is copied into MPI's memory and out of it in pieces, which both have to
 * attend to. Here the reader copies once from where the writer has put it. The memory belongs to no file system
 * (memfd), so nothing of it is left behind however a run ends, and the size of /dev/shm is no limit; processes find it
 * in /proc.
 */
#ifndef LMP_MLFF_HOST_MEMORY_H
#define LMP_MLFF_HOST_MEMORY_H

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace LAMMPS_NS {

/* What is written has a number that grows; every rank counts for itself. What has been given stays as it is until all
 * its readers have taken it. */
class MLFFHostMemory {
 public:
  /* Collective. Either all ranks of a machine get memory, or none, and `why_not` says why. */
  explicit MLFFHostMemory(MPI_Comm world);
  MLFFHostMemory(const MLFFHostMemory &) = delete;
  MLFFHostMemory &operator=(const MLFFHostMemory &) = delete;
  ~MLFFHostMemory();

  /* Empty where memory is shared. */
  const std::string &why_not() const { return problem; }
  /* Whether `rank` of world is another one of this machine, and memory is shared. */
  bool is_near(int rank) const { return regions[static_cast<size_t>(rank)].begin != nullptr && rank != me; }

  /* From now on `rank` reads from position `first` on. Everything given before has been taken. */
  void forget_readers() { readers.clear(); }
  void add_reader(int rank, size_t first);
  /* Whether all readers have taken what was given last. Then write() gives room for so many bytes, or nullptr when the
   * system has no more. */
  bool is_taken() const;
  char *write(size_t bytes);
  /* Copies into that room, by non-temporal stores (store_choice.h). */
  static void put(char *to, const char *from, size_t bytes);
  void give(uint64_t number);

  /* Whether `rank` has given `number`. Then take() is where it begins for this rank, in units of `bytes`, or nullptr
   * when it cannot be mapped; it may be overwritten after done(). */
  bool is_given(int rank, uint64_t number) const;
  const char *take(int rank, size_t bytes);
  void done(int rank, uint64_t number);

  /* Of this rank's memory. */
  double bytes() const { return static_cast<double>(regions[static_cast<size_t>(me)].bytes); }

 private:
  struct Header;
  struct Reader;
  struct Region {
    char *begin = nullptr;    // header, readers of all ranks of the machine, data
    size_t bytes = 0;         // that are mapped here
  };

  int me;
  size_t here;                    // this rank among those of the machine
  int file;                       // of the own region
  size_t data_at;                 // where data begins in every region
  std::vector<Region> regions;    // [ranks of world]; empty on other machines
  std::vector<size_t> place;      // [ranks of world]: its place among those of this machine
  std::vector<int> readers;
  uint64_t given;
  std::string problem;

  std::string create(size_t n_near, uint64_t token);
  std::string open_region(int rank, int process, int their_file, uint64_t token);
  void close_all();
  Header *header(int rank) const;
  Reader *reader(int owner, size_t of) const;
  static bool grow(Region *region, size_t bytes);
};

}    // namespace LAMMPS_NS

#endif
