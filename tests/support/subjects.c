/* subjects.c: see subjects.h. */
#include "subjects.h"

#include "model/arch.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SUBJECTS = 64 };

static subject subjects[MOST_SUBJECTS];
static int n_subjects = -1;

mlff_model *open_on_backend(const test_model *file, int which)
{
  mlff_options options = {.skip_self_test = 1};
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  if (choose_backend(which, &options)) test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

const test_arch *arch_named(const char *name)
{
  const test_arch *arch = test_archs;
  while (arch->name && strcmp(arch->name, name)) arch++;
  return arch->name ? arch : NULL;
}

/* Before Check has begun, in a process that may fork later: the CPU only. What has no test model fails the
 * first test. */
static void find_subjects(void)
{
  const int each = test_cases(1, 0) ? 1 : 5; /* of the variants */
  n_subjects = 0;
  for (int k = 0; mlff_archs[k]; k++) {
    const test_arch *arch = arch_named(mlff_archs[k]->name);
    for (int v = 0; arch && v < arch->n_variants; v += each) {
      const mlff_options options = {.device = "cpu", .precision = "fp64", .skip_self_test = 1};
      test_model file = arch->make(v);
      mlff_model *model = NULL;
      mlff_error error = {.text = "more than MOST_SUBJECTS models"};
      if (n_subjects == MOST_SUBJECTS || test_model_try(&file, &options, &model, &error)) {
        fprintf(stderr, "%s, variant %d: %s\n", arch->name, v, error.text);
        exit(1);
      }
      subjects[n_subjects++] = (subject){.arch = arch, .variant = v, .traits = mlff_model_info(model)->traits};
      mlff_model_close(model);
      test_model_free(&file);
    }
  }
}

int n_with(unsigned traits)
{
  int n = 0;
  if (n_subjects < 0) find_subjects();
  for (int k = 0; k < n_subjects; k++) n += (subjects[k].traits & traits) == traits;
  return n;
}

const subject *nth_with(unsigned traits, int which)
{
  for (int k = 0; k < n_subjects; k++)
    if ((subjects[k].traits & traits) == traits && which-- == 0) {
      printf("%s, variant %d\n", subjects[k].arch->name, subjects[k].variant);
      return &subjects[k];
    }
  ck_abort_msg("there is no such model");
  return NULL;
}

target open_target(unsigned traits, int which)
{
  target t = {.s = nth_with(traits, which / n_backends())};
  t.file = t.s->arch->make(t.s->variant);
  t.model = open_on_backend(&t.file, which % n_backends());
  return t;
}

void close_target(target *t)
{
  mlff_model_close(t->model);
  test_model_free(&t->file);
}
