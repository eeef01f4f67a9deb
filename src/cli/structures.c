/* structures.c: cache of structure files and neighbor lists. Entries that no command uses are kept up to a memory
 * limit (in a batch) and evicted least recently used first. */
#define _POSIX_C_SOURCE 200809L

#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

struct cli_list {
  mlff_system *system;
  int frame, n_replicas;
  double reach;
  size_t bytes;
  uint64_t last_use;
  int n_users;
  cli_list *next;
};

/* A cached file with its lists. */
typedef struct kept_file {
  cli_file file; /* first member: cli_file pointers are cast to kept_file */
  char *path;
  struct stat status;
  size_t bytes;
  uint64_t last_use;
  int n_users;
  cli_list *lists;
  struct kept_file *next;
} kept_file;

static struct {
  kept_file *files;
  size_t bytes, limit;
  uint64_t n_uses;
} kept;

static mlff_status fail_memory(mlff_error *error)
{
  snprintf(error->text, sizeof error->text, "out of memory for structures");
  return error->code = MLFF_E_NOMEM;
}

static void drop_list(cli_list **link)
{
  cli_list *list = *link;
  *link = list->next;
  kept.bytes -= list->bytes;
  mlff_system_free(list->system);
  free(list);
}

static void drop_file(kept_file **link)
{
  kept_file *file = *link;
  while (file->lists) drop_list(&file->lists);
  *link = file->next;
  kept.bytes -= file->bytes;
  cli_frames_free(file->file.frames, file->file.n_frames);
  free(file->path);
  free(file);
}

/* Evicts the least recently used entries, lists before files, down to the limit. */
static void trim(void)
{
  while (kept.bytes > kept.limit) {
    cli_list **list = NULL;
    kept_file **file = NULL;
    for (kept_file **f = &kept.files; *f; f = &(*f)->next) {
      for (cli_list **l = &(*f)->lists; *l; l = &(*l)->next)
        if (!(*l)->n_users && (!list || (*l)->last_use < (*list)->last_use)) list = l;
      if (!(*f)->n_users && !(*f)->lists && (!file || (*f)->last_use < (*file)->last_use)) file = f;
    }
    if (list)
      drop_list(list);
    else if (file)
      drop_file(file);
    else
      return; /* everything is in use */
  }
}

void cli_structures_keep(size_t bytes)
{
  kept.limit = bytes;
  trim();
}

size_t cli_structures_bytes(void)
{
  return kept.bytes;
}

static int is_same(const struct stat *a, const struct stat *b)
{
  return S_ISREG(a->st_mode) && S_ISREG(b->st_mode) && a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
         a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The cached file, or NULL. Drops an entry whose file has changed. */
static kept_file *find_file(const char *path, const struct stat *status)
{
  for (kept_file **f = &kept.files; *f;) {
    if (strcmp((*f)->path, path)) {
      f = &(*f)->next;
    } else if (is_same(&(*f)->status, status)) {
      return *f;
    } else if ((*f)->n_users) {
      f = &(*f)->next;
    } else {
      drop_file(f);
    }
  }
  return NULL;
}

mlff_status cli_file_take(const char *path, cli_file **file, mlff_error *error)
{
  struct stat status = {.st_size = 0};
  if (stat(path, &status)) status.st_mode = 0; /* cli_read_xyz reports it */
  kept_file *f = find_file(path, &status);
  if (!f) {
    cli_frame *frames = NULL;
    int n = 0;
    const int is_data = S_ISREG(status.st_mode) && cli_is_lammps_data(path); /* a pipe can be read once */
    if ((is_data ? cli_read_lammps_data : cli_read_xyz)(path, &frames, &n, error)) return error->code;
    f = calloc(1, sizeof *f);
    char *copy = strdup(path);
    if (!f || !copy) {
      free(f);
      free(copy);
      cli_frames_free(frames, n);
      return fail_memory(error);
    }
    *f = (kept_file){.file = {frames, n}, .path = copy, .status = status, .bytes = sizeof *f, .next = kept.files};
    for (int k = 0; k < n; k++)
      f->bytes += sizeof *frames + (size_t) frames[k].n_atoms *
                                       (sizeof *frames->elements + sizeof *frames->species + sizeof *frames->pos);
    kept.bytes += f->bytes;
    kept.files = f;
  }
  f->n_users++;
  f->last_use = ++kept.n_uses;
  *file = &f->file;
  return MLFF_OK;
}

void cli_file_give_back(cli_file *file)
{
  if (!file) return;
  ((kept_file *) file)->n_users--;
  trim();
}

/* Joins n copies of a system. */
static mlff_status replicate(const mlff_system *one, int n, mlff_system **all, mlff_error *error)
{
  const mlff_system **copies = malloc((size_t) n * sizeof *copies);
  if (!copies) return fail_memory(error);
  for (int k = 0; k < n; k++) copies[k] = one;
  const mlff_status status = mlff_system_join(copies, n, all, error);
  free(copies);
  return status;
}

static mlff_status build(cli_file *file, int frame, double reach, int n_replicas, mlff_system **system,
                         mlff_error *error)
{
  if (n_replicas == 1) return cli_frame_system(&file->frames[frame], reach, system, error);
  cli_list *one = NULL;
  if (cli_list_take(file, frame, reach, 1, &one, error)) return error->code;
  const mlff_status status = replicate(one->system, n_replicas, system, error);
  cli_list_give_back(one);
  return status;
}

static cli_list *find_list(const kept_file *f, int frame, double reach, int n_replicas)
{
  const cli_frame *structure = &f->file.frames[frame];
  const size_t bytes = (size_t) structure->n_atoms * sizeof *structure->species;
  for (cli_list *l = f->lists; l; l = l->next)
    if (l->frame == frame && l->reach == reach && l->n_replicas == n_replicas &&
        !memcmp(mlff_system_graph(l->system)->species, structure->species, bytes)) /* species depend on the model */
      return l;
  return NULL;
}

mlff_status cli_list_take(cli_file *file, int frame, double reach, int n_replicas, cli_list **list, mlff_error *error)
{
  kept_file *f = (kept_file *) file;
  cli_list *l = find_list(f, frame, reach, n_replicas);
  if (!l) {
    mlff_system *system = NULL;
    if (build(file, frame, reach, n_replicas, &system, error)) return error->code;
    l = calloc(1, sizeof *l);
    if (!l) {
      mlff_system_free(system);
      return fail_memory(error);
    }
    const mlff_graph *g = mlff_system_graph(system);
    *l = (cli_list){system, .frame = frame, .n_replicas = n_replicas, .reach = reach, .next = f->lists};
    l->bytes = sizeof *l + (size_t) g->n_all * (sizeof *g->pos + sizeof *g->species + sizeof *g->node) +
               (size_t) g->n_local * sizeof *g->row + (size_t) g->n_pairs * sizeof *g->nbr;
    kept.bytes += l->bytes;
    f->lists = l;
  }
  l->n_users++;
  l->last_use = ++kept.n_uses;
  *list = l;
  return MLFF_OK;
}

void cli_list_give_back(cli_list *list)
{
  if (!list) return;
  list->n_users--;
  trim();
}

const mlff_graph *cli_list_graph(const cli_list *list)
{
  return mlff_system_graph(list->system);
}
