/* json.h: the JSON of a report: the table of mlff/mlffprof_fields.h as data, for writing, reading, the metrics and the
 * schema. */
#ifndef MLFFPROF_JSON_H
#define MLFFPROF_JSON_H

#include "mlff/mlffprof.h"

/* How values are kept. */
typedef enum mlffprof_shape {
  MLFFPROF_NONE,
  MLFFPROF_NUMBER,  /* double; NaN: null                                          */
  MLFFPROF_INTEGER, /* int64_t, or int by kind->size                              */
  MLFFPROF_BOOL,    /* int                                                        */
  MLFFPROF_TEXT,    /* const char *                                               */
  MLFFPROF_WORD,    /* int: one of kind->words, the first of which is kind->first */
  MLFFPROF_TAGS,    /* unsigned: kind->words of its bits                          */
  MLFFPROF_NUMBERS, /* const double *, int length                                 */
  MLFFPROF_COLUMN,  /* the same, as long as the steps of its series               */
  MLFFPROF_STEPS,   /* const int64_t *, int length                                */
  MLFFPROF_BINS,    /* int64_t[MLFFPROF_N_BINS]                                   */
  MLFFPROF_CONTEXT, /* const mlffprof_context_entry *, int length                 */
  MLFFPROF_BLOCK    /* a struct, or with a length an array of them                */
} mlffprof_shape;

typedef struct mlffprof_kind mlffprof_kind;

typedef struct mlffprof_field {
  const char *name, *unit, *meaning;
  const mlffprof_kind *kind;
  /* Offsets in the struct of the block; of derived fields in mlffprof_derived. */
  size_t offset, length_offset;
  /* Columns: the block that was measured or not, and its offset; NULL = always shown. */
  const mlffprof_kind *presence;
  size_t presence_offset;
  int is_list, is_later, is_derived;
} mlffprof_field;

struct mlffprof_kind {
  mlffprof_shape shape;
  size_t size;
  int is_nullable, is_metric;
  int is_needed;            /* reading fails without it                                                     */
  int is_bound;             /* numbers: >= 0, and 0 where it is missing                                     */
  int64_t low, missing;     /* integers, bools: the smallest, and what stands for one that is missing       */
  int most;                 /* integers: the largest; blocks: how many a list may have; 0 = any             */
  const char *const *words; /* of words, tags, texts that are always one of them; NULL among them: null     */
  int n_words, first;
  const char *title; /* text that is written for NULL                                                */
  double scale;      /* arrays: factor to the unit of the JSON                                       */
  int digits;        /* arrays: significant digits, 0 = all                                          */
  int is_left_out;   /* columns: not written where they were not measured; others are empty there    */
  const char *name;  /* blocks: of the definition in the schema                                      */
  const mlffprof_field *fields;
  int n_fields;
  int is_inside;            /* blocks: the fields are members of the struct around it; of a list: arrays    */
  mlffprof_shape key_shape; /* blocks: null where the member at `key` is NaN (NUMBER: double) or 0          */
  size_t key;               /* (INTEGER: int64_t, BOOL: int); NONE: never                                   */
};

/* The whole report. */
extern const mlffprof_kind mlffprof_report_kind;

/* 1 when a block at `base` is more than null. */
int mlffprof_block_is_shown(const mlffprof_kind *block, const void *base);
/* Fields that were not measured; arrays are left alone. */
void mlffprof_block_clear(const mlffprof_kind *block, void *base);

/* Values of derived fields; texts and arrays are those of the report and of this struct. */
typedef struct mlffprof_derived {
  double memory_initial_gb, memory_final_gb, memory_peak_gb, warmup_time_s;
  const char *memory_of, *system_size;
  const double *memory_per_step_gb; /* bytes */
  int n_points;
  char text[48];
} mlffprof_derived;
void mlffprof_derive(const mlffprof_report *report, mlffprof_derived *derived);

#endif
