/* find.c: models by name, and the nearest known word. */
#define _POSIX_C_SOURCE 200809L

#include "cli.h"

#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_WORD = 31 };

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Smallest number of inserted, deleted, changed or swapped letters (optimal string alignment). */
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
  int least = strlen(word) > 4 ? 3 : 2; /* farther words are no typing error */
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

/* Folders of models in search order: `.`, those of $LAMMPS_POTENTIALS, of $MLFF_MODELS, of this project. The same in
 * src/pair_mlff/find_model.cpp and modelfile.py. */
typedef struct places {
  char **folders;
  int n;
} places;

/* Adds a folder, unless it is there already or memory is short. */
static void add_place(places *p, const char *folder, size_t length)
{
  for (int k = 0; k < p->n; k++)
    if (!strncmp(p->folders[k], folder, length) && !p->folders[k][length]) return;
  char **grown = realloc(p->folders, (size_t) (p->n + 1) * sizeof *grown);
  if (grown) p->folders = grown;
  char *copy = grown ? strndup(folder, length) : NULL;
  if (copy) p->folders[p->n++] = copy;
}

/* Models installed by pip: in a package folder next to the folder of this program. */
static void add_installed(places *p)
{
  char program[CLI_PATH + 64] = "", pattern[2 * CLI_PATH + 128];
  glob_t found = {0};
  const ssize_t n = readlink("/proc/self/exe", program, CLI_PATH - 1);
  if (n <= 0) return;
  program[n] = '\0';
  for (int k = 0; k < 2; k++) { /* the parent of the folder of this program */
    char *slash = strrchr(program, '/');
    if (!slash) return;
    *slash = '\0';
  }
  size_t used = 0;
  for (const char *c = program; *c; c++) {
    if (strchr("*?[\\", *c)) pattern[used++] = '\\';
    pattern[used++] = *c;
  }
  strcpy(pattern + used, "/lib*/python3*/*-packages/mlff_tools/models");
  if (!glob(pattern, 0, NULL, &found))
    for (size_t k = 0; k < found.gl_pathc; k++) add_place(p, found.gl_pathv[k], strlen(found.gl_pathv[k]));
  globfree(&found);
}

/* The folders of a list such as PATH. */
static void add_list(places *p, const char *list)
{
  for (const char *folder = list ? list : ""; *folder; folder += strspn(folder, ":")) {
    const size_t length = strcspn(folder, ":");
    if (length) add_place(p, folder, length);
    folder += length;
  }
}

static places find_places(void)
{
  places p = {.n = 0};
  add_place(&p, ".", 1);
  add_list(&p, getenv("LAMMPS_POTENTIALS"));
  add_list(&p, getenv("MLFF_MODELS"));
  add_installed(&p);
#ifdef MLFF_SOURCE_MODELS
  add_place(&p, MLFF_SOURCE_MODELS, strlen(MLFF_SOURCE_MODELS));
#endif
  return p;
}

static void forget_places(places *p)
{
  for (int k = 0; k < p->n; k++) free(p->folders[k]);
  free(p->folders);
}

/* First folder with a model of this name, and the path of the model; -1 if there is none. */
static int find_place(const places *p, const char *name, char path[CLI_PATH])
{
  for (int k = 0; k < p->n; k++)
    if (snprintf(path, CLI_PATH, "%s/%s.yaml", p->folders[k], name) < CLI_PATH && !access(path, R_OK)) return k;
  return -1;
}

/* Calls visit for each model, each name once: the first in search order. */
static void each_model(const places *p, void (*visit)(const char *name, const char *path, void *user), void *user)
{
  static const char ending[] = ".safetensors";
  for (int k = 0; k < p->n; k++) {
    struct dirent **found = NULL;
    const int n = scandir(p->folders[k], &found, NULL, alphasort);
    for (int f = 0; f < n; f++) {
      char path[CLI_PATH], *name = found[f]->d_name;
      const size_t length = strlen(name);
      if (length > sizeof ending - 1 && !strcmp(name + length - (sizeof ending - 1), ending)) {
        name[length - (sizeof ending - 1)] = 0;
        if (find_place(p, name, path) == k) visit(name, path, user);
      }
      free(found[f]);
    }
    free(found);
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

static void print_name(const char *name, const char *path, void *user)
{
  (void) path;
  (void) user;
  puts(name);
}

void cli_print_models(int only_names)
{
  places p = find_places();
  if (!only_names) printf("%-28s %-8s %-20s %s\n", "model", "architecture", "elements", "file");
  each_model(&p, only_names ? print_name : print_model, NULL);
  forget_places(&p);
}

int cli_find_model(const char *command, const char *name, char path[CLI_PATH])
{
  struct stat file;
  names list = {.n = 0};
  if (strlen(name) >= CLI_PATH)
    return cli_error(CLI_WRONG, command, "model name of %zu characters is too long: at most %d are allowed",
                     strlen(name), CLI_PATH - 1);
  strcpy(path, name);
  if (strchr(name, '/') || strstr(name, ".yaml") || (!stat(name, &file) && !S_ISDIR(file.st_mode))) return CLI_OK;
  places p = find_places();
  const int found = find_place(&p, name, path) >= 0;
  if (!found) each_model(&p, add_name, &list);
  forget_places(&p);
  if (found) return CLI_OK;
  const char *nearest = cli_nearest(name, list.known, list.n);
  return cli_error(
      CLI_WRONG, command,
      "there is no model '%s'; known models (here, in LAMMPS_POTENTIALS and MLFF_MODELS, of mlff):%s%s%s%s", name,
      list.n ? list.text : " none", nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}
