/* arena.h: memory that is freed all at once. */
#ifndef MLFF_ARENA_H
#define MLFF_ARENA_H

#include <stddef.h>

typedef struct mlff_arena {
  struct mlff_arena_block *blocks;
} mlff_arena;

/* n zeroed bytes, aligned for any type; NULL when there is no memory. */
void *mlff_arena_alloc(mlff_arena *arena, size_t n);
/* A copy of text[length] with a terminating zero. */
char *mlff_arena_text(mlff_arena *arena, const char *text, size_t length);
void mlff_arena_free(mlff_arena *arena);

#endif
