/* status.h: errors of base, and the texts of all errors. */
#ifndef MLFF_BASE_STATUS_H
#define MLFF_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

/* What went wrong in a function of base. Each library makes an error of its own type of it; mlff_status and
 * mlffprof_status begin with these codes. */
enum { MLFF_FAULT_ARG = 1, MLFF_FAULT_NOMEM, MLFF_FAULT_IO, MLFF_FAULT_FORMAT };
typedef struct mlff_fault {
  int code; /* 0: nothing */
  char text[1024];
} mlff_fault;

/* Returns code. */
int mlff_fault_set(mlff_fault *fault, int code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The text of an error. It quotes files, and quotations are cut: what is not UTF-8, or a control character, becomes a
 * question mark. */
void mlff_error_text(char *text, size_t size, const char *format, va_list args);

#endif
