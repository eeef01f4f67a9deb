/* arena.h: memory that is freed all at once. */
#ifndef MLFF_BASE_ARENA_H
#define MLFF_BASE_ARENA_H

#include <stddef.h>

/* Begins as all zeros. */
typedef struct mlff_arena {
  struct mlff_arena_block *blocks;
  int failed; /* a call below ran out of memory */
} mlff_arena;

/* Zeroed memory for n items of a size, aligned for any type; NULL only when memory is out. */
void *mlff_arena_alloc(mlff_arena *arena, size_t n, size_t size);
/* A copy of n items; NULL only when memory is out. */
void *mlff_arena_copy(mlff_arena *arena, const void *items, size_t n, size_t size);
/* A copy of text[length] with a terminating zero. */
char *mlff_arena_text(mlff_arena *arena, const char *text, size_t length);
/* A copy of a whole text; NULL for NULL, and when memory is out, which `failed` tells apart. */
const char *mlff_arena_string(mlff_arena *arena, const char *text);
void mlff_arena_free(mlff_arena *arena);

#endif
