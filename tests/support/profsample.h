/* profsample.h: what the tests of the profiler library share. */
#ifndef MLFF_TEST_PROFSAMPLE_H
#define MLFF_TEST_PROFSAMPLE_H

#include "support.h"

#include "mlff/mlffprof.h"

/* Fails the test with the error's text unless call returns MLFFPROF_OK. */
#define prof_ok(call, error)                                                                               \
  do {                                                                                                     \
    const mlffprof_status prof_status_ = (call);                                                           \
    if (prof_status_) ck_abort_msg("%s: %s: %s", #call, mlffprof_status_name(prof_status_), (error).text); \
    mark_point();                                                                                          \
  } while (0)

/* Fails unless call returns `status` and the text contains `part`. */
#define prof_fails(call, error, status, part)                                                              \
  do {                                                                                                     \
    (error).text[0] = 0;                                                                                   \
    const mlffprof_status prof_status_ = (call);                                                           \
    if (prof_status_ != (status) || !strstr((error).text, (part)))                                         \
      ck_abort_msg("%s: expected %s with '%s', got %s: '%s'", #call, mlffprof_status_name(status), (part), \
                   mlffprof_status_name(prof_status_), (error).text);                                      \
    mark_point();                                                                                          \
  } while (0)

/* Fails unless the value is NaN: not measured. */
#define prof_unmeasured(value)                                                              \
  do {                                                                                      \
    const double prof_value_ = (value);                                                     \
    if (prof_value_ == prof_value_) ck_abort_msg("%s is %g, not NaN", #value, prof_value_); \
    mark_point();                                                                           \
  } while (0)

/* A recorder with everything in it: tree of components, tags, two ranks, memory of host and device, all energies,
 * accuracy per element, nested context, texts with quotes and characters of one to four bytes. */
mlffprof_recorder *prof_sample_recorder(int n_steps);
/* Its report. */
mlffprof_report *prof_sample(int n_steps);

/* The report of a recorder. */
mlffprof_report *prof_finish(const mlffprof_recorder *r);

/* A report of n steps with latencies ms[k], or, for ms = NULL, of normally distributed ones. */
mlffprof_report *prof_report_of(const double *ms, int n, double mean_ms, double std_ms, uint64_t seed);

#endif
