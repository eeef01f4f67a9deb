/* trace.c: spans in the Trace Event Format (JSON array form) of Chrome and Perfetto: complete events "X" with times in
 * microseconds, counters "C" and names "M". The file grows by whole events, and the closing bracket is optional in that
 * form: the file of a run that was killed still opens. Where the disk is full, it ends with the last whole event. */
#define _POSIX_C_SOURCE 200809L
#include "../../base/writer.h"
#include "errors.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_EVENTS = 1000000, ROOM = 65536 /* bytes before a write */ };

struct mlffprof_trace {
  FILE *out; /* in memory: whole events that are not in the file yet */
  char *text, *path;
  size_t size;
  int file, error; /* errno of the first failure, after which nothing more is written */
  int has_events;  /* in the file */
  int64_t n, n_max, n_dropped;
  int begun;     /* something was written                           */
  double origin; /* time of the first event, the origin in viewers */
};

mlffprof_status mlffprof_trace_open(const char *path, int64_t max_events, mlffprof_trace **trace, mlffprof_error *error)
{
  *trace = NULL;
  if (!path || !*path) return mlffprof_fail(error, MLFFPROF_E_ARG, "the name of a trace file is empty");
  if (max_events < 0)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "%s: %lld events at most is not possible", path,
                         (long long) max_events);
  mlffprof_trace *t = calloc(1, sizeof *t);
  if (t) t->path = malloc(strlen(path) + 1);
  if (!t || !t->path) {
    free(t);
    return mlffprof_fail(error, MLFFPROF_E_NOMEM, "%s: out of memory", path);
  }
  memcpy(t->path, path, strlen(path) + 1);
  t->n_max = max_events ? max_events : DEFAULT_EVENTS;
  t->origin = NAN;
  t->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  t->out = t->file < 0 ? NULL : open_memstream(&t->text, &t->size);
  if (!t->out) {
    const mlffprof_status status =
        mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be opened for writing: %s", path, strerror(errno));
    if (t->file >= 0) close(t->file);
    free(t->path);
    free(t);
    return status;
  }
  *trace = t;
  return MLFFPROF_OK;
}

/* Writes the buffer if it is full or if requested. */
static mlffprof_status check(mlffprof_trace *t, int wanted, mlffprof_error *error)
{
  const off_t waiting = ftello(t->out);
  if (waiting >= (wanted ? 1 : ROOM)) {
    if (fflush(t->out) && !t->error) t->error = errno;
    if (!t->error) t->error = mlff_append(t->file, t->text, t->size, NULL);
    if (!t->error) t->has_events = 1;
    rewind(t->out);
  }
  if (!t->error) return MLFFPROF_OK;
  return mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be written: %s; it ends with the last whole event", t->path,
                       strerror(t->error));
}

/* Counts an event; 1 if there is room for it. */
static int take_event(mlffprof_trace *t)
{
  if (t->n >= t->n_max) {
    t->n_dropped++;
    return 0;
  }
  t->n++;
  return 1;
}

/* An event up to its times; the caller closes the brace. */
static mlff_writer begin_event(mlffprof_trace *t, const char *kind, const char *name, int pid, int tid)
{
  mlff_writer w = mlff_writer_on(t->out, 0);
  fputs(t->begun ? ",\n" : "[\n", t->out);
  t->begun = 1;
  mlff_write_object(&w, NULL);
  mlff_write_text(&w, "ph", kind);
  mlff_write_text(&w, "name", name ? name : "");
  mlff_write_integer(&w, "pid", pid);
  mlff_write_integer(&w, "tid", tid);
  return w;
}

/* Microseconds with three decimals. */
static void write_us(mlff_writer *w, const char *key, double seconds)
{
  mlff_write_number(w, key, round(1e9 * seconds) / 1e3);
}

static double since_origin(mlffprof_trace *t, double time)
{
  if (isnan(t->origin)) t->origin = time;
  return time - t->origin;
}

static void write_name(mlffprof_trace *t, const char *what, const char *name, int pid, int tid)
{
  mlff_writer w = begin_event(t, "M", what, pid, tid);
  mlff_write_object(&w, "args");
  mlff_write_text(&w, "name", name);
  mlff_write_end(&w);
  fputc('}', t->out);
}

mlffprof_status mlffprof_trace_row(mlffprof_trace *t, int pid, int tid, const char *process, const char *row,
                                   mlffprof_error *error)
{
  if (process) write_name(t, "process_name", process, pid, tid);
  if (row) write_name(t, "thread_name", row, pid, tid);
  return check(t, 0, error);
}

static void write_tags(mlff_writer *w, unsigned tags)
{
  mlff_write_array(w, "tags");
  for (int bit = 0; bit < MLFFPROF_N_TAGS; bit++)
    if (tags >> bit & 1) mlff_write_text(w, NULL, mlffprof_tag_name(bit));
  mlff_write_end(w);
}

mlffprof_status mlffprof_trace_span(mlffprof_trace *t, int pid, int tid, const char *name, double begin, double seconds,
                                    int64_t step, unsigned tags, mlffprof_error *error)
{
  if (!isfinite(begin) || !(seconds >= 0) || !isfinite(seconds))
    return mlffprof_fail(error, MLFFPROF_E_ARG, "a span '%.60s' from %g s that takes %g s", name ? name : "", begin,
                         seconds);
  if (!take_event(t)) return MLFFPROF_OK;
  mlff_writer w = begin_event(t, "X", name, pid, tid);
  write_us(&w, "ts", since_origin(t, begin));
  write_us(&w, "dur", seconds);
  if (step != MLFFPROF_UNKNOWN || tags) {
    mlff_write_object(&w, "args");
    if (step != MLFFPROF_UNKNOWN) mlff_write_integer(&w, "step", step);
    if (tags) write_tags(&w, tags);
    mlff_write_end(&w);
  }
  fputc('}', t->out);
  return check(t, 0, error);
}

mlffprof_status mlffprof_trace_counter(mlffprof_trace *t, int pid, const char *name, double time, double value,
                                       mlffprof_error *error)
{
  if (!isfinite(time)) return mlffprof_fail(error, MLFFPROF_E_ARG, "a counter at %g s", time);
  if (!isfinite(value) || !take_event(t)) return MLFFPROF_OK;
  mlff_writer w = begin_event(t, "C", name, pid, 0);
  write_us(&w, "ts", since_origin(t, time));
  mlff_write_object(&w, "args");
  mlff_write_number(&w, "value", value);
  mlff_write_end(&w);
  fputc('}', t->out);
  return check(t, 0, error);
}

mlffprof_status mlffprof_trace_close(mlffprof_trace *t, mlffprof_error *error)
{
  if (!t) return MLFFPROF_OK;
  char text[96];
  snprintf(text, sizeof text, "%lld events were dropped: the file was full", (long long) t->n_dropped);
  if (t->n_dropped) write_name(t, "process_labels", text, 0, 0);
  mlffprof_status status = check(t, 1, error);
  const char *const closing = t->has_events ? "\n]\n" : "[]\n";
  t->error = mlff_append(t->file, closing, strlen(closing), NULL);
  if (close(t->file) && !t->error) t->error = errno;
  if (t->error && !status)
    status = mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be written: %s", t->path, strerror(t->error));
  fclose(t->out);
  free(t->text);
  free(t->path);
  free(t);
  return status;
}
