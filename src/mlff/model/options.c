/* options.c: text options of a model, one row each, for the C API, pair_style mlff, fix mlffprof and the program mlff.
 * */
#include "model_impl.h"

#include <stddef.h>
#include <string.h>

static const struct {
  mlff_option option;
  size_t offset; /* of the field of mlff_options */
} rows[] = {
    {{"device", "auto cpu cuda cuda:N", "auto", "device of the network; auto: a usable GPU, else the CPU"},
     offsetof(mlff_options, device)},
    {{"precision", "fp32 fp64 mixed", "fp32", "of the network; mixed: faster GEMMs of reduced precision"},
     offsetof(mlff_options, precision)},
    {{"kernels", "auto generic avx2 avx512 neon sve256 sve512 avx512_bf16 amx", "auto",
      "kernel path; the last two require precision mixed"},
     offsetof(mlff_options, kernels)},
    {{"replay", "yes no", "yes", "capture settled steps on a GPU as a CUDA graph and replay it"},
     offsetof(mlff_options, replay)},
    {{"fuse", "yes no", "yes", "use fused kernels on a GPU"}, offsetof(mlff_options, fuse)},
    {{"radial_intervals", "auto N", "auto", "intervals of radial tables: more are more accurate and take more memory"},
     offsetof(mlff_options, radial_intervals)},
    {{"members", "all LIST", "all", "members of an ensemble to use, from 0 as in 0:2,5"},
     offsetof(mlff_options, members)},
    {{"e0", "yes no", "yes", "include the energies of free atoms (energy_offsets)"}, offsetof(mlff_options, e0)},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

const mlff_option *mlff_option_at(int k)
{
  return k >= 0 && k < N_ROWS ? &rows[k].option : NULL;
}

/* Row of that name; N_ROWS if there is none. */
static int find_row(const char *name)
{
  int k = 0;
  if (!strcmp(name, "graph")) name = "replay"; /* older name */
  while (k < N_ROWS && strcmp(rows[k].option.name, name) != 0) k++;
  return k;
}

const mlff_option *mlff_option_find(const char *name)
{
  return mlff_option_at(find_row(name));
}

int mlff_yes_or_no(const char *text)
{
  static const char *const words[] = {"no", "yes", "off", "on", "false", "true"};
  for (int k = 0; k < 6; k++)
    if (!strcmp(text, words[k])) return k % 2;
  return -1;
}

/* Whether a value matches a word of `values` (n letters): the same text, a number for N, any text for capitals. */
static int stands_for(const char *word, size_t n, const char *value)
{
  if (n > 1 && *word >= 'A' && *word <= 'Z') return *value != 0;
  if (word[n - 1] != 'N') return strlen(value) == n && !strncmp(word, value, n);
  const char *number = value + n - 1;
  return !strncmp(word, value, n - 1) && *number && strspn(number, "0123456789") == strlen(number);
}

mlff_status mlff_option_check(const mlff_option *option, const char *value, mlff_error *error)
{
  if (strstr(option->values, "yes no") && mlff_yes_or_no(value) >= 0) return MLFF_OK;
  for (const char *word = option->values; *word; word += strspn(word, " ")) {
    const size_t n = strcspn(word, " ");
    if (stands_for(word, n, value)) return MLFF_OK;
    word += n;
  }
  return mlff_fail(error, MLFF_E_ARG, "unknown value '%.40s' of '%s'; known are: %s", value, option->name,
                   option->values);
}

mlff_status mlff_options_set(mlff_options *options, const char *name, const char *value, mlff_error *error)
{
  const int k = find_row(name);
  if (k == N_ROWS) return mlff_fail(error, MLFF_E_ARG, "option '%.40s' is unknown", name);
  MLFF_TRY(mlff_option_check(&rows[k].option, value, error));
  memcpy((char *) options + rows[k].offset, &value, sizeof value);
  return MLFF_OK;
}

mlff_status mlff_options_check(const mlff_options *options, mlff_error *error)
{
  for (int k = 0; options && k < N_ROWS; k++) {
    const char *value;
    memcpy(&value, (const char *) options + rows[k].offset, sizeof value);
    if (value) MLFF_TRY(mlff_option_check(&rows[k].option, value, error));
  }
  return MLFF_OK;
}
