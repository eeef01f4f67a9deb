/* edits.h: places where a small model of testmodel.h is changed, so that each reaches an error of the loaders. */
#ifndef MLFF_TEST_EDITS_H
#define MLFF_TEST_EDITS_H

typedef struct fuzz_edit {
  const char *arch;
  const char *old, *text;
  int is_good; /* the file is still accepted */
} fuzz_edit;

extern const fuzz_edit fuzz_edits[];
extern const int fuzz_n_edits;

#endif
