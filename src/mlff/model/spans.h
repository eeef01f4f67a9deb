/* spans.h: timing of the operations of a model. See mlff.h, "where the time goes". */
#ifndef MLFF_SPANS_H
#define MLFF_SPANS_H

#include "../backend/ops.h"

/* Adds the time of a part on the host, from `begin` to `end`, to a span. */
void mlff_spans_add(mlff_spans *spans, mlff_span_id span, double begin, double end);
/* Seconds of the monotonic clock. */
double mlff_spans_now(void);
/* Puts the plain operations back and frees. */
void mlff_spans_free(mlff_spans *spans, mlff_backend *backend);

/* On backends with stamps of their own (ops.h: mlff_timing_ops). restart: a step begins that is not replayed. settle:
 * its results are there; adds its parts, or those of the recording. Nothing while spans are off. */
void mlff_spans_restart(mlff_backend *backend);
void mlff_spans_settle(mlff_backend *backend, double begin);

#endif
