/* trace.c: spans in the Trace Event Format (JSON array form) of Chrome and Perfetto: complete events "X" with times in
 * microseconds, counters "C" and names "M". The closing bracket is optional in that form, so the file of a run that
 * was killed still opens. */
#include "../../base/writer.h"
#include "status.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_EVENTS = 1000000 };

struct mlffprof_trace {
  FILE *out;
  char *path;
  int64_t n, n_max, n_dropped;
  int begun;     /* something was written                           */
  double origin; /* time of the first event: viewers show times from there */
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
  t->out = fopen(path, "w");
  if (!t->out) {
    const mlffprof_status status =
        mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be opened for writing: %s", path, strerror(errno));
    free(t->path);
    free(t);
    return status;
  }
  *trace = t;
  return MLFFPROF_OK;
}

static mlffprof_status check(const mlffprof_trace *t, mlffprof_error *error)
{
  if (!ferror(t->out)) return MLFFPROF_OK;
  return mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be written: %s", t->path, strerror(errno));
}

/* 1 when there is room for one event more, which is counted. */
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
  return check(t, error);
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
  return check(t, error);
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
  return check(t, error);
}

mlffprof_status mlffprof_trace_close(mlffprof_trace *t, mlffprof_error *error)
{
  if (!t) return MLFFPROF_OK;
  char text[96];
  snprintf(text, sizeof text, "%lld events were dropped: the file was full", (long long) t->n_dropped);
  if (t->n_dropped) write_name(t, "process_labels", text, 0, 0);
  fputs(t->begun ? "\n]\n" : "[]\n", t->out);
  const int failed = ferror(t->out) != 0, closed = fclose(t->out) == 0;
  mlffprof_status status = MLFFPROF_OK;
  if (failed || !closed)
    status = mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be written: %s", t->path, strerror(errno));
  free(t->path);
  free(t);
  return status;
}
