/* faults.c: loaded by LD_PRELOAD, makes the calls that write files fail, and the clock of the day jump.
 *
 * The file FAULTS_STATE, which injection.py writes and all processes of a run map, selects the fault: the N-th call of
 * one kind, and all later ones if the fault lasts, fails with an errno, or the process gets a signal just before it.
 * Only calls on files below FAULTS_FOLDER are counted. A full disk takes half of what the first call writes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN, WRITE, FSYNC, CLOSE, RENAME, MKDIR, N_KINDS };

typedef struct state {
  int64_t kind, position; /* position: from 1, 0 for no fault */
  int64_t error;          /* errno, or -signal */
  int64_t lasts;
  int64_t jump, n_clock; /* seconds; calls that ask for the time of the day */
  int64_t n[N_KINDS];
} state;

static state *shared;
static const char *folder;
static size_t folder_length;

/* The function behind this one. */
static void *own(const char *name)
{
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) abort();
  return found;
}
#define OWN(name) ((__typeof__(&(name))) own(#name))

__attribute__((constructor)) static void begin(void)
{
  const char *path = getenv("FAULTS_STATE");
  signal(SIGXFSZ, SIG_IGN); /* a limit of the size of files is an error, as a quota is */
  folder = getenv("FAULTS_FOLDER");
  folder_length = folder ? strlen(folder) : 0;
  const int fd = path ? OWN(open)(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *at = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) shared = at;
  OWN(close)(fd);
}

/* ---- which calls count ------------------------------------------------------------------------------------------- */

static int is_below(const char *path)
{
  return shared && folder_length && !strncmp(path, folder, folder_length) && path[folder_length] == '/';
}

static int is_path_below(int at, const char *path)
{
  char base[PATH_MAX] = "", whole[2 * PATH_MAX], place[32];
  if (!shared || !path) return 0;
  if (*path != '/') {
    snprintf(place, sizeof place, "/proc/self/fd/%d", at);
    if (readlink(at == AT_FDCWD ? "/proc/self/cwd" : place, base, sizeof base - 1) < 0) return 0;
  }
  snprintf(whole, sizeof whole, "%s%s%s", base, *base ? "/" : "", path);
  return is_below(whole);
}

/* A file that is open for writing. */
static int is_ours(int fd)
{
  char place[32], path[PATH_MAX] = "";
  const int flags = shared && fd > 2 ? fcntl(fd, F_GETFL) : -1;
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) return 0;
  snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
  return readlink(place, path, sizeof path - 1) > 0 && is_below(path);
}

/* Counts a call. 1: it fails, errno being set; -1: it is the first one on a disk that is full. */
static int fails(int kind)
{
  const int64_t k = __atomic_add_fetch(&shared->n[kind], 1, __ATOMIC_SEQ_CST);
  if (kind != shared->kind || !shared->position || k < shared->position || (k > shared->position && !shared->lasts))
    return 0;
  if (shared->error < 0) {
    if (k == shared->position) raise((int) -shared->error);
    return 0;
  }
  errno = (int) shared->error;
  return kind == WRITE && shared->lasts && k == shared->position ? -1 : 1;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static int writes(int flags)
{
  return (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT;
}

#define MODE_OF(flags, mode)             \
  mode_t mode = 0;                       \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list list;                        \
    va_start(list, flags);               \
    mode = va_arg(list, mode_t);         \
    va_end(list);                        \
  }

int open(const char *path, int flags, ...)
{
  MODE_OF(flags, mode)
  if (writes(flags) && is_path_below(AT_FDCWD, path) && fails(OPEN)) return -1;
  return OWN(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
  MODE_OF(flags, mode)
  if (writes(flags) && is_path_below(AT_FDCWD, path) && fails(OPEN)) return -1;
  return OWN(open64)(path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
  MODE_OF(flags, mode)
  if (writes(flags) && is_path_below(at, path) && fails(OPEN)) return -1;
  return OWN(openat)(at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...)
{
  MODE_OF(flags, mode)
  if (writes(flags) && is_path_below(at, path) && fails(OPEN)) return -1;
  return OWN(openat64)(at, path, flags, mode);
}

/* How many of n bytes can be written; -1 with errno: none. */
static ssize_t room(int fd, size_t n)
{
  if (!is_ours(fd)) return (ssize_t) n;
  const int failed = fails(WRITE);
  return !failed ? (ssize_t) n : failed > 0 || n < 2 ? -1 : (ssize_t) (n / 2);
}

ssize_t write(int fd, const void *data, size_t n)
{
  const ssize_t most = room(fd, n);
  return most < 0 ? -1 : OWN(write)(fd, data, (size_t) most);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
  const ssize_t most = room(fd, n);
  return most < 0 ? -1 : OWN(pwrite64)(fd, data, (size_t) most, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
  return pwrite64(fd, data, n, at);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
  return is_ours(fd) && fails(WRITE) ? -1 : OWN(writev)(fd, parts, n);
}

ssize_t sendfile64(int out, int in, off64_t *at, size_t n)
{
  return is_ours(out) && fails(WRITE) ? -1 : OWN(sendfile64)(out, in, at, n);
}

ssize_t sendfile(int out, int in, off_t *at, size_t n)
{
  return sendfile64(out, in, at, n);
}

int fsync(int fd)
{
  return is_ours(fd) && fails(FSYNC) ? -1 : OWN(fsync)(fd);
}

int fdatasync(int fd)
{
  return is_ours(fd) && fails(FSYNC) ? -1 : OWN(fdatasync)(fd);
}

/* A descriptor is gone also where close fails. */
int close(int fd)
{
  const int failed = is_ours(fd) && fails(CLOSE), error = errno;
  const int status = OWN(close)(fd);
  if (!failed) return status;
  errno = error;
  return -1;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

int rename(const char *from, const char *to)
{
  return is_path_below(AT_FDCWD, to) && fails(RENAME) ? -1 : OWN(rename)(from, to);
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
  return is_path_below(to_at, to) && fails(RENAME) ? -1 : OWN(renameat)(from_at, from, to_at, to);
}

int mkdir(const char *path, mode_t mode)
{
  return is_path_below(AT_FDCWD, path) && fails(MKDIR) ? -1 : OWN(mkdir)(path, mode);
}

int mkdirat(int at, const char *path, mode_t mode)
{
  return is_path_below(at, path) && fails(MKDIR) ? -1 : OWN(mkdirat)(at, path, mode);
}

/* ---- streams: the C library writes them without calling write(), so that they become streams of ours ------------- */

enum { N_STREAMS = 256 };

static struct {
  FILE *stream;
  int fd;
} streams[N_STREAMS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(FILE *stream, int fd)
{
  pthread_mutex_lock(&lock);
  for (int k = 0; k < N_STREAMS; k++) {
    if (streams[k].stream && streams[k].fd != fd) continue;
    streams[k].stream = stream;
    streams[k].fd = fd;
    break;
  }
  pthread_mutex_unlock(&lock);
}

static void forget(int fd)
{
  pthread_mutex_lock(&lock);
  for (int k = 0; k < N_STREAMS; k++)
    if (streams[k].stream && streams[k].fd == fd) streams[k].stream = NULL;
  pthread_mutex_unlock(&lock);
}

int fileno(FILE *stream)
{
  int fd = -1;
  pthread_mutex_lock(&lock);
  for (int k = 0; k < N_STREAMS; k++)
    if (streams[k].stream == stream) fd = streams[k].fd;
  pthread_mutex_unlock(&lock);
  return fd >= 0 ? fd : OWN(fileno)(stream);
}

static int fd_of(void *cookie)
{
  return (int) (intptr_t) cookie;
}

static ssize_t stream_read(void *cookie, char *data, size_t n)
{
  return read(fd_of(cookie), data, n);
}

static ssize_t stream_write(void *cookie, const char *data, size_t n)
{
  size_t done = 0;
  while (done < n) {
    const ssize_t more = write(fd_of(cookie), data + done, n - done);
    if (more <= 0) break;
    done += (size_t) more;
  }
  return (ssize_t) done;
}

static int stream_seek(void *cookie, off64_t *at, int whence)
{
  const off64_t now = lseek64(fd_of(cookie), *at, whence);
  if (now < 0) return -1;
  *at = now;
  return 0;
}

static int stream_close(void *cookie)
{
  forget(fd_of(cookie));
  return close(fd_of(cookie));
}

FILE *fdopen(int fd, const char *mode)
{
  const cookie_io_functions_t how = {stream_read, stream_write, stream_seek, stream_close};
  if (!is_ours(fd)) return OWN(fdopen)(fd, mode);
  FILE *stream = fopencookie((void *) (intptr_t) fd, mode, how);
  if (stream) remember(stream, fd);
  return stream;
}

static FILE *open_stream(const char *path, const char *mode)
{
  const int extra = strchr(mode, 'e') ? O_CLOEXEC : 0, access = strchr(mode, '+') ? O_RDWR : O_WRONLY;
  const int fd = open(path, access | extra | O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC), 0666);
  return fd < 0 ? NULL : fdopen(fd, mode);
}

FILE *fopen(const char *path, const char *mode)
{
  const int is_written = *mode == 'w' || *mode == 'a';
  return is_written && is_path_below(AT_FDCWD, path) ? open_stream(path, mode) : OWN(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
  const int is_written = *mode == 'w' || *mode == 'a';
  return is_written && is_path_below(AT_FDCWD, path) ? open_stream(path, mode) : OWN(fopen64)(path, mode);
}

/* ---- the clock of the day ---------------------------------------------------------------------------------------- */

/* Forth and back from call to call. */
static int64_t jump_now(void)
{
  static const int64_t factor[] = {0, 1, -1, 2};
  if (!shared || !shared->jump) return 0;
  return shared->jump * factor[__atomic_fetch_add(&shared->n_clock, 1, __ATOMIC_SEQ_CST) % 4];
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
  static int (*before)(clockid_t, struct timespec *);
  if (!before) before = OWN(clock_gettime);
  const int status = before(clock, now);
  if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump_now();
  return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
  const int status = OWN(gettimeofday)(now, zone);
  if (!status) now->tv_sec += jump_now();
  return status;
}

time_t time(time_t *now)
{
  const time_t found = OWN(time)(NULL) + jump_now();
  if (now) *now = found;
  return found;
}
