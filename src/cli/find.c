/* find.c: models by their names, and the word that was meant. */
#define _POSIX_C_SOURCE 200809L

#include "cli.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PLACES = 16, LONGEST_WORD = 31 };

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Letters to put in, to take out, to change, or neighbours to swap, at least (optimal string alignment). */
static int distance(const char *a, const char *b)
{
  int d[LONGEST_WORD + 1][LONGEST_WORD + 1];
  const int n_a = (int) strlen(a), n_b = (int) strlen(b);
  for (int i = 0; i <= n_a; i++)
    for (int k = 0; k <= n_b; k++) {
      d[i][k] = i + k;
      if (!i || !k) continue;
      const int changed = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
      d[i][k] = 1 + (d[i - 1][k] < d[i][k - 1] ? d[i - 1][k] : d[i][k - 1]);
      if (changed < d[i][k]) d[i][k] = changed;
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] && d[i - 2][k - 2] + 1 < d[i][k])
        d[i][k] = d[i - 2][k - 2] + 1;
    }
  return d[n_a][n_b];
}

const char *cli_nearest(const char *word, const char *const *known, int n_known)
{
  const char *best = NULL;
  int least = strlen(word) > 4 ? 3 : 2; /* farther ones were not meant */
  if (strlen(word) > LONGEST_WORD) return NULL;
  for (int k = 0; k < n_known; k++) {
    if (strlen(known[k]) > LONGEST_WORD) continue;
    const int d = distance(word, known[k]);
    if (d >= least) continue;
    least = d;
    best = known[k];
  }
  return best;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* Where models lie, the first place first: `.`, those of $MLFF_MODELS, those of this project. */
typedef struct places {
  glob_t of_project;
  char variable[4096];
  const char *at[MOST_PLACES];
  int n;
} places;

static void find_places(places *p)
{
  char beside[CLI_PATH + 64] = "";
  char *rest = NULL;
  const char *named = getenv("MLFF_MODELS");
  p->n = 0;
  p->at[p->n++] = ".";
  snprintf(p->variable, sizeof p->variable, "%s", named ? named : "");
  for (char *part = strtok_r(p->variable, ":", &rest); part && p->n < MOST_PLACES; part = strtok_r(NULL, ":", &rest))
    p->at[p->n++] = part;
  const ssize_t n = readlink("/proc/self/exe", beside, CLI_PATH - 1);
  if (n > 0) beside[n] = 0;
  char *slash = strrchr(beside, '/');
  memset(&p->of_project, 0, sizeof p->of_project);
  if (slash) { /* installed by pip in an environment */
    strcpy(slash, "/../lib*/python3*/*-packages/mlff_tools/models");
    glob(beside, 0, NULL, &p->of_project);
  }
#ifdef MLFF_SOURCE_MODELS
  glob(MLFF_SOURCE_MODELS, p->of_project.gl_pathc ? GLOB_APPEND : 0, NULL, &p->of_project);
#endif
  for (size_t k = 0; k < p->of_project.gl_pathc && p->n < MOST_PLACES; k++) p->at[p->n++] = p->of_project.gl_pathv[k];
}

/* 1: path is that of the model in the first place that has it. */
static int model_path(const places *p, const char *name, char path[CLI_PATH])
{
  for (int k = 0; k < p->n; k++)
    if (snprintf(path, CLI_PATH, "%s/%s.yaml", p->at[k], name) < CLI_PATH && !access(path, R_OK)) return 1;
  return 0;
}

static void forget_places(places *p)
{
  globfree(&p->of_project);
}

/* Calls visit for each model file of the places, each name once: the first is the one that the name stands for. */
static void each_model(const places *p, void (*visit)(const char *name, const char *path, void *user), void *user)
{
  for (int k = 0; k < p->n; k++) {
    char pattern[CLI_PATH];
    glob_t found = {0};
    if (snprintf(pattern, sizeof pattern, "%s/*.safetensors", p->at[k]) >= (int) sizeof pattern) continue;
    glob(pattern, 0, NULL, &found);
    for (size_t f = 0; f < found.gl_pathc; f++) {
      char name[NAME_MAX + 1], path[CLI_PATH];
      const char *start = strrchr(found.gl_pathv[f], '/') + 1;
      snprintf(name, sizeof name, "%.*s", (int) (strrchr(start, '.') - start), start);
      if (model_path(p, name, path) && !strncmp(path, p->at[k], strlen(p->at[k]))) visit(name, path, user);
    }
    globfree(&found);
  }
}

typedef struct names {
  char text[2048], name[128][LONGEST_WORD + 1];
  const char *known[128];
  int n;
} names;

static void add_name(const char *name, const char *path, void *user)
{
  names *list = user;
  const size_t used = strlen(list->text);
  (void) path;
  if (list->n == 128 || strlen(name) > LONGEST_WORD) return;
  snprintf(list->text + used, sizeof list->text - used, " %s", name);
  list->known[list->n] = strcpy(list->name[list->n], name);
  list->n++;
}

static void print_model(const char *name, const char *path, void *user)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const mlff_options open = {.skip_self_test = 1};
  (void) user;
  if (mlff_model_open(path, &open, &model, &error)) {
    printf("%-28s %s\n", name, error.text);
    return;
  }
  const mlff_info *info = mlff_model_info(model);
  char elements[32] = "";
  int n_trained = 0;
  for (int s = 0; s < info->n_elements; s++) {
    const size_t used = strlen(elements);
    if (info->trained[s])
      snprintf(elements + used, sizeof elements - used, "%s%s", n_trained++ ? " " : "", info->elements[s]);
  }
  if (n_trained > 8) snprintf(elements, sizeof elements, "%d elements", n_trained);
  printf("%-28s %-8s %-20s %s\n", name, info->architecture, elements, path);
  mlff_model_close(model);
}

void cli_print_models(void)
{
  places p;
  find_places(&p);
  printf("%-28s %-8s %-20s %s\n", "model", "network", "elements", "file");
  each_model(&p, print_model, NULL);
  forget_places(&p);
}

int cli_find_model(const char *command, const char *name, char path[CLI_PATH])
{
  places p;
  names list = {.n = 0};
  if (strlen(name) >= CLI_PATH) return cli_error(CLI_FAILED, command, "the name of the model is too long");
  strcpy(path, name);
  if (!access(name, F_OK) || strchr(name, '/') || strstr(name, ".yaml")) return CLI_OK; /* a file, there or not */
  find_places(&p);
  const int found = model_path(&p, name, path);
  if (!found) each_model(&p, add_name, &list);
  forget_places(&p);
  if (found) return CLI_OK;
  const char *meant = cli_nearest(name, list.known, list.n);
  return cli_error(CLI_FAILED, command, "there is no model '%s'; here, in MLFF_MODELS and of mlff there are:%s%s%s%s",
                   name, list.n ? list.text : " none", meant ? "; is it '" : "", meant ? meant : "", meant ? "'?" : "");
}
