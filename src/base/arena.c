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

#if !defined(__has_feature)
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { BLOCK = 0 }; /* for AddressSanitizer: one block per allocation */
#else
enum { BLOCK = 16384 };
#endif

/* The newest block, or a new one if it is full; NULL if memory is short. */
static struct mlff_arena_block *block_with(mlff_arena *arena, size_t room)
{
  struct mlff_arena_block *block = arena->blocks;
  if (block && block->size - block->used >= room) return block;
  const size_t size = room > BLOCK ? room : BLOCK;
  block = calloc(1, sizeof *block + size);
  if (!block) return NULL;
  block->size = size;
  block->next = arena->blocks;
  arena->blocks = block;
  return block;
}

void *mlff_arena_alloc(mlff_arena *arena, size_t n, size_t size)
{
  const size_t unit = alignof(max_align_t);
  const int fits = !size || n < SIZE_MAX / 4 / size;
  const size_t room = fits ? (n * size + unit - 1) / unit * unit : 0;
  struct mlff_arena_block *block = fits ? block_with(arena, room) : NULL;
  if (!block) {
    arena->failed = 1;
    return NULL;
  }
  block->used += room;
  return block->data + block->used - room;
}

void *mlff_arena_copy(mlff_arena *arena, const void *items, size_t n, size_t size)
{
  void *copy = mlff_arena_alloc(arena, n, size);
  return copy && n ? memcpy(copy, items, n * size) : copy;
}

char *mlff_arena_text(mlff_arena *arena, const char *text, size_t length)
{
  char *copy = mlff_arena_alloc(arena, length + 1, 1);
  return copy && length ? memcpy(copy, text, length) : copy;
}

const char *mlff_arena_string(mlff_arena *arena, const char *text)
{
  return text ? mlff_arena_text(arena, text, strlen(text)) : NULL;
}

void mlff_arena_free(mlff_arena *arena)
{
  while (arena->blocks) {
    struct mlff_arena_block *next = arena->blocks->next;
    free(arena->blocks);
    arena->blocks = next;
  }
}
