/* arena.c: see arena.h. */
#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct mlff_arena_block {
  struct mlff_arena_block *next;
  size_t used, size;
  alignas(max_align_t) unsigned char data[];
};

enum { BLOCK = 16384, ALIGN = alignof(max_align_t) };

void *mlff_arena_alloc(mlff_arena *arena, size_t n)
{
  if (n > SIZE_MAX / 2) return NULL;
  n = (n + ALIGN - 1) / ALIGN * ALIGN;
  struct mlff_arena_block *block = arena->blocks;
  if (!block || block->size - block->used < n) {
    const size_t size = n > BLOCK ? n : BLOCK;
    block = calloc(1, sizeof *block + size);
    if (!block) return NULL;
    block->size = size;
    block->next = arena->blocks;
    arena->blocks = block;
  }
  void *data = block->data + block->used;
  block->used += n;
  return data;
}

char *mlff_arena_text(mlff_arena *arena, const char *text, size_t length)
{
  char *copy = mlff_arena_alloc(arena, length + 1);
  if (copy && length) memcpy(copy, text, length);
  return copy;
}

void mlff_arena_free(mlff_arena *arena)
{
  while (arena->blocks) {
    struct mlff_arena_block *next = arena->blocks->next;
    free(arena->blocks);
    arena->blocks = next;
  }
}
