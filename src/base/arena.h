/* arena.h: memory that is freed as a whole. */
#ifndef MLFF_BASE_ARENA_H
#define MLFF_BASE_ARENA_H

#include <stddef.h>

/* Zero-initialise. */
typedef struct mlff_arena {
  struct mlff_arena_block *blocks;
  int failed; /* a call below ran out of memory */
} mlff_arena;

/* Zeroed memory for n items of a size, aligned for any type; NULL if memory is short. */
void *mlff_arena_alloc(mlff_arena *arena, size_t n, size_t size);
/* A copy of n items; NULL if memory is short. */
void *mlff_arena_copy(mlff_arena *arena, const void *items, size_t n, size_t size);
/* A copy of text[length] with a terminating zero. */
char *mlff_arena_text(mlff_arena *arena, const char *text, size_t length);
/* A copy of a text; NULL for NULL, or if memory is short (then `failed` is set). */
const char *mlff_arena_string(mlff_arena *arena, const char *text);
void mlff_arena_free(mlff_arena *arena);

#endif
