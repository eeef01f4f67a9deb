/* status.h: errors of base, and what the errors of both libraries share. */
#ifndef MLFF_BASE_STATUS_H
#define MLFF_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

/* Error of a function of base. Each library converts it to its own type; mlff_status and mlffprof_status begin with
 * these codes. */
enum { MLFF_FAULT_ARG = 1, MLFF_FAULT_NOMEM, MLFF_FAULT_IO, MLFF_FAULT_FORMAT };
typedef struct mlff_fault {
  int code; /* 0 = none */
  char text[1024];
} mlff_fault;

#if defined(__GNUC__)
#define MLFF_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define MLFF_PRINTF(text, first)
#endif

/* Sets a fault and returns code. */
int mlff_fault_set(mlff_fault *fault, int code, const char *format, ...) MLFF_PRINTF(3, 4);

/* Formats the text of an error. Bytes of quoted files that are not UTF-8, and control characters, become '?'. */
void mlff_error_text(char *text, size_t size, const char *format, va_list args);

/* The functions of a library whose types are PREFIX_status and PREFIX_error:
 *   PREFIX_fail     writes code and printf-style text to error (may be NULL) and returns code
 *   PREFIX_fail_as  converts a fault of base
 * MLFF_DECLARE_FAIL goes into its header, MLFF_DEFINE_FAIL into one of its sources. */
#define MLFF_DECLARE_FAIL(prefix)                                                                     \
  prefix##_status prefix##_fail(prefix##_error *error, prefix##_status code, const char *format, ...) \
      MLFF_PRINTF(3, 4);                                                                              \
  prefix##_status prefix##_fail_as(prefix##_error *error, const mlff_fault *fault)

#define MLFF_DEFINE_FAIL(prefix, PREFIX)                                                                 \
  prefix##_status prefix##_fail(prefix##_error *error, prefix##_status code, const char *format, ...)    \
  {                                                                                                      \
    if (error) {                                                                                         \
      va_list args;                                                                                      \
      va_start(args, format);                                                                            \
      mlff_error_text(error->text, sizeof error->text, format, args);                                    \
      va_end(args);                                                                                      \
      error->code = code;                                                                                \
    }                                                                                                    \
    return code;                                                                                         \
  }                                                                                                      \
  prefix##_status prefix##_fail_as(prefix##_error *error, const mlff_fault *fault)                       \
  {                                                                                                      \
    return prefix##_fail(error, (prefix##_status) fault->code, "%s", fault->text);                       \
  }                                                                                                      \
  _Static_assert((int) PREFIX##_E_ARG == MLFF_FAULT_ARG && (int) PREFIX##_E_FORMAT == MLFF_FAULT_FORMAT, \
                 "codes of base")

/* Returns from the calling function if `call` fails. Use it where nothing is owned; otherwise `goto done`. */
#define MLFF_TRY(call)                                \
  do {                                                \
    const __typeof__(call) mlff_try_status_ = (call); \
    if (mlff_try_status_) return mlff_try_status_;    \
  } while (0)

#endif
