/* writer.c: see writer.h. */
#define _XOPEN_SOURCE 700

#include "writer.h"

#include "number.h"
#include "utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NUMBERS_PER_LINE = 16 };

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Control characters, and characters that YAML readers, which also read JSON, treat as line breaks or refuse. */
static int needs_escape(unsigned code)
{
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
         (code & 0xfffe) == 0xfffe;
}

static void write_escape(FILE *out, unsigned code)
{
  if (code == '\n')
    fputs("\\n", out);
  else if (code == '\t')
    fputs("\\t", out);
  else if (code < 0x10000)
    fprintf(out, "\\u%04x", code);
  else
    fprintf(out, "\\u%04x\\u%04x", 0xd7c0u + (code >> 10), 0xdc00u + (code & 0x3ff));
}

void mlff_json_text(FILE *out, const char *text)
{
  fputc('"', out);
  for (const unsigned char *s = (const unsigned char *) text; *s;) {
    unsigned code = 0;
    const int n = mlff_utf8_decode(s, &code);
    if (n == 0)
      fputs("\xef\xbf\xbd", out);
    else if (code == '"' || code == '\\')
      fprintf(out, "\\%c", (int) code);
    else if (needs_escape(code))
      write_escape(out, code);
    else
      fwrite(s, 1, (size_t) n, out);
    s += n ? n : 1;
  }
  fputc('"', out);
}

void mlff_json_number(FILE *out, double value, int digits)
{
  char text[MLFF_NUMBER_SIZE];
  fputs(isfinite(value) ? mlff_number_format(value, digits, text) : "null", out);
}

/* ---- objects and arrays ------------------------------------------------------------------------------------------ */

mlff_writer mlff_writer_on(FILE *out, int breaks)
{
  return (mlff_writer){.out = out, .breaks = breaks};
}

static void begin_line(mlff_writer *w)
{
  fputc('\n', w->out);
  for (int k = 0; k < w->depth; k++) fputc(' ', w->out);
}

static void begin_value(mlff_writer *w, const char *key)
{
  if (w->depth > 0) {
    if (w->n_items[w->depth]++) fputs(w->depth > w->breaks ? ", " : ",", w->out);
    if (w->depth <= w->breaks) begin_line(w);
  }
  if (!key) return;
  mlff_json_text(w->out, key);
  fputs(": ", w->out);
}

static void open_level(mlff_writer *w, const char *key, char opening, char closing)
{
  begin_value(w, key);
  fputc(opening, w->out);
  if (w->depth + 1 < MLFF_WRITER_DEPTH) w->depth++;
  w->n_items[w->depth] = 0;
  w->closing[w->depth] = closing;
}

void mlff_write_object(mlff_writer *w, const char *key)
{
  open_level(w, key, '{', '}');
}

void mlff_write_array(mlff_writer *w, const char *key)
{
  open_level(w, key, '[', ']');
}

void mlff_write_end(mlff_writer *w)
{
  const int breaks = w->depth <= w->breaks && w->n_items[w->depth] > 0;
  const char closing = w->closing[w->depth--];
  if (breaks) begin_line(w);
  fputc(closing, w->out);
  if (w->depth == 0) fputc('\n', w->out);
}

void mlff_write_null(mlff_writer *w, const char *key)
{
  begin_value(w, key);
  fputs("null", w->out);
}

void mlff_write_bool(mlff_writer *w, const char *key, int value)
{
  begin_value(w, key);
  fputs(value ? "true" : "false", w->out);
}

void mlff_write_integer(mlff_writer *w, const char *key, int64_t value)
{
  begin_value(w, key);
  fprintf(w->out, "%lld", (long long) value);
}

void mlff_write_number(mlff_writer *w, const char *key, double value)
{
  begin_value(w, key);
  mlff_json_number(w->out, value, 0);
}

void mlff_write_text(mlff_writer *w, const char *key, const char *text)
{
  begin_value(w, key);
  if (text)
    mlff_json_text(w->out, text);
  else
    fputs("null", w->out);
}

static void begin_item(mlff_writer *w, int64_t k)
{
  if (k) fputs(k % NUMBERS_PER_LINE ? ", " : ",", w->out);
  if (k && k % NUMBERS_PER_LINE == 0) begin_line(w);
}

void mlff_write_numbers(mlff_writer *w, const char *key, const double *values, int64_t n, double factor, int digits)
{
  begin_value(w, key);
  fputc('[', w->out);
  for (int64_t k = 0; k < n; k++) {
    begin_item(w, k);
    mlff_json_number(w->out, values[k] * factor, digits);
  }
  fputc(']', w->out);
}

void mlff_write_integers(mlff_writer *w, const char *key, const int64_t *values, int64_t n)
{
  begin_value(w, key);
  fputc('[', w->out);
  for (int64_t k = 0; k < n; k++) {
    begin_item(w, k);
    fprintf(w->out, "%lld", (long long) values[k]);
  }
  fputc(']', w->out);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int cannot(const char *path, const char *what, mlff_fault *fault)
{
  return mlff_fault_set(fault, MLFF_FAULT_IO, "%s: cannot be %s: %s", path, what, strerror(errno));
}

/* Creates a file PATH.PID.N.tmp with the usual permissions. */
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

/* Synchronises the directory, so that the rename is on disk. Some file systems do not support it. */
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

/* Returns the result of `write`, or a fault if any write to the stream has failed. */
static int write_content(FILE *out, const char *path, mlff_write_content *write, const void *user, mlff_fault *fault)
{
  errno = 0;
  const int status = write(out, user);
  if ((status && !ferror(out)) || (!fflush(out) && !ferror(out))) return status;
  if (!errno) errno = EIO;
  return cannot(path, "written", fault);
}

static int write_directly(const char *path, mlff_write_content *write, const void *user, mlff_fault *fault)
{
  FILE *out = fopen(path, "w");
  if (!out) return cannot(path, "opened for writing", fault);
  const int status = write_content(out, path, write, user, fault);
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
    return cannot(path, "written: no file can be created in its folder", fault);
  }
  int status = write_content(out, path, write, user, fault);
  if (!status && fsync(fd)) status = cannot(path, "written", fault);
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
  char *real = exists ? realpath(path, NULL) : NULL; /* replace the target of a link, not the link */
  const int status = write_beside(real ? real : path, write, user, fault);
  free(real);
  return status;
}

int mlff_append(int file, const char *text, size_t n, int *is_torn)
{
  const off_t begin = lseek(file, 0, SEEK_END);
  size_t done = 0;
  int problem = 0;
  while (done < n && !problem) {
    const ssize_t more = write(file, text + done, n - done);
    if (more > 0)
      done += (size_t) more;
    else if (more == 0 || errno != EINTR)
      problem = more ? errno : EIO;
  }
  const int torn = problem && done && ftruncate(file, begin);
  if (is_torn) *is_torn = torn;
  return problem;
}
