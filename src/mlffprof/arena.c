/* arena.c: see arena.h. */
#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct piece {
  struct piece *next;
  alignas(max_align_t) unsigned char data[];
} piece;

struct mlffprof_arena {
  piece *first;
  int failed;
};

mlffprof_arena *mlffprof_arena_create(void)
{
  return calloc(1, sizeof(mlffprof_arena));
}

void mlffprof_arena_free(mlffprof_arena *arena)
{
  while (arena && arena->first) {
    piece *next = arena->first->next;
    free(arena->first);
    arena->first = next;
  }
  free(arena);
}

void *mlffprof_arena_alloc(mlffprof_arena *arena, size_t n, size_t size)
{
  piece *p = NULL;
  if (size == 0 || n < (SIZE_MAX - sizeof *p) / size) p = calloc(1, sizeof *p + n * size + 1);
  if (!p) {
    arena->failed = 1;
    return NULL;
  }
  p->next = arena->first;
  arena->first = p;
  return p->data;
}

const char *mlffprof_arena_text(mlffprof_arena *arena, const char *text)
{
  if (!text) return NULL;
  const size_t n = strlen(text) + 1;
  char *copy = mlffprof_arena_alloc(arena, n, 1);
  return copy ? memcpy(copy, text, n) : NULL;
}

int mlffprof_arena_failed(const mlffprof_arena *arena)
{
  return arena->failed;
}
