/* fuzz_weights.c: bytes as safetensors files (fuzz_weights of fuzz.h): the header is refused with a text, or its
 * tensors cover the file without gaps and have the sizes that they say. */
#include "fuzz.h"

#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void check(const mlff_tensor *tensors, int n, size_t size)
{
  size_t bytes = 0;
  for (int k = 0; k < n; k++) {
    const mlff_tensor *t = &tensors[k];
    int64_t count = 1;
    for (int d = 0; d < t->rank; d++) count *= t->shape[d];
    if (count != t->n || t->begin > t->end || t->end > size) fuzz_stop("a tensor beyond the file", t->name);
    if (k && strcmp(tensors[k - 1].name, t->name) >= 0) fuzz_stop("not sorted by name", t->name);
    bytes += t->end - t->begin;
  }
  if (bytes + 8 > size) fuzz_stop("tensors overlap", "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mlff_arena arena = {.failed = 0};
  mlff_tensor *tensors = NULL;
  mlff_error error = {.text = ""};
  size_t n_bytes = 0;
  int n = 0;
  unsigned char *bytes = fuzz_weights(data, size, &n_bytes);
  const mlff_status status = mlff_safetensors_parse("fuzz", bytes, n_bytes, &arena, &tensors, &n, &error);
  if (status && (!error.text[0] || error.code != status)) fuzz_stop("refused without a text", "");
  if (!status) check(tensors, n, n_bytes);
  fuzz_n_refused += status != MLFF_OK;
  fuzz_n_accepted += status == MLFF_OK;
  mlff_arena_free(&arena);
  free(bytes);
  return 0;
}

static const char *const words[] = {"{",
                                    "}",
                                    "[",
                                    "]",
                                    ":",
                                    ",",
                                    "\"",
                                    "\\",
                                    "0",
                                    "4",
                                    "[0,4]",
                                    "[2]",
                                    "\n",
                                    "9007199254740993",
                                    "{\"dtype\":",
                                    "\"F64\"",
                                    "\"BF16\"",
                                    "\"F32\"",
                                    "-1",
                                    "1e3",
                                    "\"shape\":",
                                    "\"U8\"",
                                    "null",
                                    "\"a\"",
                                    " ",
                                    "\"b\"",
                                    "\"I4\"",
                                    "\"data_offsets\":",
                                    "{\"a\":\"b\"}",
                                    "\"__metadata__\":",
                                    NULL};
const fuzz_target fuzz_this = {.name = "weights", .words = words};
