/* spans.h: timing of the operations of a model. See mlff.h, "timing". */
#ifndef MLFF_SPANS_H
#define MLFF_SPANS_H

#include "../backend/ops.h"

/* Adds a part on the host, from `begin` to `end`, to a span. */
void mlff_spans_add(mlff_spans *spans, mlff_span_id span, double begin, double end);
/* Seconds of the monotonic clock. */
double mlff_spans_now(void);
/* Restores the plain operations and frees. */
void mlff_spans_free(mlff_spans *spans, mlff_backend *backend);

/* For backends with events (ops.h: mlff_timing_ops). restart: a plain step begins. settle: the step has completed; adds
 * its parts, or those of its capture. Nothing while timing is off. */
void mlff_spans_restart(mlff_backend *backend);
void mlff_spans_settle(mlff_backend *backend, double begin);

#endif
