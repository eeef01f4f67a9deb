/* atomic_file.c: see atomic_file.h. */
#define _XOPEN_SOURCE 700

#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot(const char *path, const char *what, mlff_fault *fault)
{
  return mlff_fault_set(fault, MLFF_FAULT_IO, "%s: cannot be %s: %s", path, what, strerror(errno));
}

/* A new file PATH.PID.N.tmp with the rights of a usual one. */
static int open_beside(const char *path, char *name, size_t size)
{
  int fd = -1;
  for (int k = 0; k < 1000 && fd < 0; k++) {
    const int n = snprintf(name, size, "%s.%ld.%d.tmp", path, (long) getpid(), k);
    if (n < 0 || (size_t) n >= size) {
      errno = ENAMETOOLONG;
      return -1;
    }
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return -1;
  }
  return fd;
}

/* The rename is on disk only when the directory is. Some file systems cannot; the file itself is safe there. */
static void sync_directory(const char *path)
{
  char dir[PATH_MAX];
  const char *slash = strrchr(path, '/');
  const size_t n = slash ? (size_t) (slash - path) : 0;
  snprintf(dir, sizeof dir, "%.*s", slash ? (int) (n ? n : 1) : 1, slash ? path : ".");
  const int fd = open(dir, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void) fsync(fd);
  close(fd);
}

static int write_directly(const char *path, mlff_write_content *write, const void *user, mlff_fault *fault)
{
  FILE *out = fopen(path, "w");
  if (!out) return cannot(path, "opened for writing", fault);
  const int status = write(out, user);
  if (fclose(out) && !status) return cannot(path, "written", fault);
  return status;
}

static int write_beside(const char *path, mlff_write_content *write, const void *user, mlff_fault *fault)
{
  char name[PATH_MAX];
  const int fd = open_beside(path, name, sizeof name);
  FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
  if (!out) {
    if (fd >= 0) close(fd);
    return cannot(path, "written: no file can be made beside it", fault);
  }
  int status = write(out, user);
  if (!status && (fflush(out) || fsync(fd))) status = cannot(path, "written", fault);
  if (fclose(out) && !status) status = cannot(path, "written", fault);
  if (!status && rename(name, path)) status = cannot(path, "replaced", fault);
  if (status)
    unlink(name);
  else
    sync_directory(path);
  return status;
}

int mlff_atomic_write(const char *path, mlff_write_content *write, const void *user, mlff_fault *fault)
{
  struct stat s;
  if (!path || !*path) return mlff_fault_set(fault, MLFF_FAULT_ARG, "a file name is empty");
  const int exists = !stat(path, &s);
  if (exists && S_ISDIR(s.st_mode))
    return mlff_fault_set(fault, MLFF_FAULT_IO, "%s: cannot be written: it is a directory", path);
  if (exists && !S_ISREG(s.st_mode)) return write_directly(path, write, user, fault);
  char *real = exists ? realpath(path, NULL) : NULL; /* the target of a link, not the link, is replaced */
  const int status = write_beside(real ? real : path, write, user, fault);
  free(real);
  return status;
}
