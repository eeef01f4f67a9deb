/* spans.h: timing of the operations of a model. See mlff.h, "where the time goes". */
#ifndef MLFF_SPANS_H
#define MLFF_SPANS_H

#include "../backend/ops.h"

/* Adds the time since `begin` to a span. */
void mlff_spans_add(mlff_spans *spans, mlff_span_id span, double begin);
/* Seconds of the monotonic clock. */
double mlff_spans_now(void);
/* Puts the plain operations back and frees. */
void mlff_spans_free(mlff_spans *spans, mlff_backend *backend);

#endif
