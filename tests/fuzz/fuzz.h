/* fuzz.h: what the fuzz targets of this folder share.
 *
 * A target fuzz_NAME.c has LLVMFuzzerTestOneInput, which libFuzzer calls in a build by Clang with `make fuzz`, and the
 * row fuzz_this. Without libFuzzer, main of fuzz.c reads all seeds and then mutants of them for some seconds. Both pass
 * when nothing crashes, under the sanitizers that the build has, and when the target finds the outcomes to make sense.
 *
 * Seeds are the files of seeds/NAME and what the target makes. Those that are named good... must be accepted and those
 * that are named bad... refused.
 */
#ifndef MLFF_TEST_FUZZ_H
#define MLFF_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
  const char *name;         /* of the folder of seeds                                                  */
  const char *const *words; /* inserted into mutants, in addition to changed bytes; ends with NULL     */
  void (*make_seeds)(void); /* calls fuzz_seed; NULL: all are in the folder                            */
  /* Where most of the changes belong: at the front of an input, in so many bytes. NULL: anywhere. */
  size_t (*front)(const uint8_t *data, size_t size);
} fuzz_target;

extern const fuzz_target fuzz_this;
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How the target's inputs ended. */
extern long fuzz_n_accepted, fuzz_n_refused;

/* Ends the program as a find: what is wrong, and the text of an error. */
void fuzz_stop(const char *what, const char *text) __attribute__((noreturn));

/* Adds a copy of the input to the seeds. */
void fuzz_seed(const char *name, const void *data, size_t size);

/* The path of a file with these bytes, for readers that take a path. The next call changes the file. */
const char *fuzz_path(const void *data, size_t size);

/* Where a text that nobody reads is printed to. */
void *fuzz_nowhere(void);

/* The bytes of a safetensors file: data as it is, or, when it begins with '{', the first line as the header, with its
 * length in front, and the rest as what the tensors hold. So most changes leave a file, and seeds are texts. The
 * caller frees it. */
unsigned char *fuzz_weights(const uint8_t *data, size_t size, size_t *n_bytes);

#endif
