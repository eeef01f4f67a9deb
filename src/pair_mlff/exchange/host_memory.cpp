/* host_memory.cpp: see host_memory.h. */
#include "host_memory.h"

#include "machine.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

using namespace LAMMPS_NS;

static constexpr size_t LINE = 64, PAGE = 4096;

/* Start of a region, written by its owner. */
struct MLFFHostMemory::Header {
  uint64_t token;    // unique for this region
  uint64_t bytes;    // its length
  std::atomic<uint64_t> given;
};

/* After the header, one for each rank of the machine. */
struct alignas(LINE) MLFFHostMemory::Reader {
  uint64_t first;                 // written by the owner
  std::atomic<uint64_t> taken;    // by the reader
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomic numbers work between processes");

MLFFHostMemory::Header *MLFFHostMemory::header(int rank) const
{
  return reinterpret_cast<Header *>(regions[static_cast<size_t>(rank)].begin);
}

MLFFHostMemory::Reader *MLFFHostMemory::reader(int owner, size_t k) const
{
  return reinterpret_cast<Reader *>(regions[static_cast<size_t>(owner)].begin + LINE) + k;
}

#ifdef __linux__

static size_t rounded_up(size_t bytes)
{
  return (bytes + PAGE - 1) / PAGE * PAGE;
}

static std::string failed(const char *what)
{
  return std::string(what) + ": " + strerror(errno);
}

/* Creates the region of this rank, without data. Returns an error or "". */
std::string MLFFHostMemory::create(size_t n_near, uint64_t token)
{
  static_assert(sizeof(Header) <= LINE, "readers follow the header");
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return "the size of files is limited (ulimit -f)";    // a larger region would end the process by SIGXFSZ
  file = static_cast<int>(syscall(SYS_memfd_create, "mlff", 1u /* MFD_CLOEXEC */));
  if (file < 0) return failed("memfd_create");
  data_offset = rounded_up(LINE + n_near * sizeof(Reader));
  if (ftruncate(file, static_cast<off_t>(data_offset)) != 0) return failed("ftruncate");
  void *begin = mmap(nullptr, data_offset, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (begin == MAP_FAILED) return failed("mmap");
  regions[static_cast<size_t>(me)] = {static_cast<char *>(begin), data_offset};
  Header *mine = new (begin) Header;
  mine->bytes = data_offset;
  mine->given.store(0);
  mine->token = token;
  for (size_t k = 0; k < n_near; k++) {
    Reader *r = new (static_cast<void *>(reader(me, k))) Reader;
    r->first = 0;
    r->taken.store(0);
  }
  return "";
}

/* Opens the region of another rank. The token detects process numbers of another namespace. */
std::string MLFFHostMemory::open_region(int rank, int process, int their_file, uint64_t token)
{
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", process, their_file);
  const int theirs = open(path, O_RDWR | O_CLOEXEC);
  if (theirs < 0) return failed(path);
  const off_t length = lseek(theirs, 0, SEEK_END);
  void *begin = MAP_FAILED;
  if (length >= static_cast<off_t>(data_offset))
    begin = mmap(nullptr, data_offset, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0);
  close(theirs);
  if (begin == MAP_FAILED) return std::string(path) + " cannot be mapped";
  regions[static_cast<size_t>(rank)] = {static_cast<char *>(begin), data_offset};
  return header(rank)->token == token ? "" : std::string(path) + " belongs to another process";
}

void MLFFHostMemory::close_all()
{
  for (Region &region : regions) {
    if (region.begin) munmap(region.begin, region.bytes);
    region = {};
  }
  if (file >= 0) close(file);
  file = -1;
}

bool MLFFHostMemory::grow(Region *region, size_t bytes)
{
  void *begin = mremap(region->begin, region->bytes, bytes, MREMAP_MAYMOVE);
  if (begin == MAP_FAILED) return false;
  *region = {static_cast<char *>(begin), bytes};
  return true;
}

char *MLFFHostMemory::write(size_t bytes)
{
  Region &mine = regions[static_cast<size_t>(me)];
  if (data_offset + bytes > mine.bytes) {
    const size_t wanted = rounded_up(data_offset + bytes);
    if (ftruncate(file, static_cast<off_t>(wanted)) != 0 || !grow(&mine, wanted)) return nullptr;
    header(me)->bytes = wanted;
  }
  return mine.begin + data_offset;
}

/* Different for every region. */
static uint64_t new_token(int rank)
{
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto seconds = static_cast<uint64_t>(now.tv_sec), rest = static_cast<uint64_t>(now.tv_nsec);
  return ((seconds * 1000000000u + rest) ^ (static_cast<uint64_t>(getpid()) << 40)) * 0x9E3779B97F4A7C15u +
         static_cast<uint64_t>(rank) + 1u;
}

static int this_process()
{
  return getpid();
}

#else

std::string MLFFHostMemory::create(size_t, uint64_t)
{
  return "this system is not Linux";
}

std::string MLFFHostMemory::open_region(int, int, int, uint64_t)
{
  return "";
}

void MLFFHostMemory::close_all() {}

bool MLFFHostMemory::grow(Region *, size_t)
{
  return false;
}

char *MLFFHostMemory::write(size_t)
{
  return nullptr;
}

static uint64_t new_token(int)
{
  return 0;
}

static int this_process()
{
  return 0;
}

#endif

MLFFHostMemory::MLFFHostMemory(MPI_Comm world) : me(0), local_rank(0), file(-1), data_offset(0), given(0)
{
  struct Card {
    uint64_t token;
    int rank, process, file, usable;
  };
  int n_ranks = 1;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &n_ranks);
  regions.resize(static_cast<size_t>(n_ranks));
  place.resize(static_cast<size_t>(n_ranks));
  const MLFFMachine machine(world);
  local_rank = static_cast<size_t>(machine.rank);

  const uint64_t token = new_token(me);
  std::string text = create(static_cast<size_t>(machine.size), token);
  const Card card = {token, me, this_process(), file, text.empty()};
  std::vector<Card> cards(static_cast<size_t>(machine.size));
  MPI_Allgather(&card, sizeof(card), MPI_BYTE, cards.data(), sizeof(card), MPI_BYTE, machine.comm);
  for (size_t k = 0; k < cards.size(); k++) {
    const Card &theirs = cards[k];
    place[static_cast<size_t>(theirs.rank)] = k;
    if (text.empty() && !theirs.usable)
      text = "rank " + std::to_string(theirs.rank) + " could not create shared memory";
    if (text.empty() && theirs.rank != me) text = open_region(theirs.rank, theirs.process, theirs.file, theirs.token);
  }
  int mine = text.empty(), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, machine.comm);
  if (all) return;
  problem = text.empty() ? "another rank cannot open the memory of this rank" : text;
  close_all();
}

MLFFHostMemory::~MLFFHostMemory()
{
  close_all();
}

void MLFFHostMemory::add_reader(int rank, size_t first)
{
  readers.push_back(rank);
  reader(me, place[static_cast<size_t>(rank)])->first = first;
  reader(me, place[static_cast<size_t>(rank)])->taken.store(given);
}

bool MLFFHostMemory::is_taken() const
{
  for (const int rank : readers)
    if (reader(me, place[static_cast<size_t>(rank)])->taken.load(std::memory_order_acquire) < given) return false;
  return true;
}

void MLFFHostMemory::put(char *to, const char *from, size_t bytes)
{
  size_t done = 0;
#ifdef __SSE2__
  if (reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0)
    for (; done + sizeof(__m128i) <= bytes; done += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i *>(to + done),
                       _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + done)));
#endif
  memcpy(to + done, from + done, bytes - done);
}

void MLFFHostMemory::give(uint64_t number)
{
#ifdef __SSE2__
  _mm_sfence();    // non-temporal stores are visible before their number
#endif
  given = number;
  header(me)->given.store(number, std::memory_order_release);
}

bool MLFFHostMemory::is_given(int rank, uint64_t number) const
{
  return header(rank)->given.load(std::memory_order_acquire) >= number;
}

const char *MLFFHostMemory::take(int rank, size_t bytes)
{
  Region &theirs = regions[static_cast<size_t>(rank)];
  if (header(rank)->bytes > theirs.bytes && !grow(&theirs, header(rank)->bytes)) return nullptr;
  return theirs.begin + data_offset + reader(rank, local_rank)->first * bytes;
}

void MLFFHostMemory::done(int rank, uint64_t number)
{
  reader(rank, local_rank)->taken.store(number, std::memory_order_release);
}
