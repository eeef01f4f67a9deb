/* arena.h: memory of a report: many small pieces, freed together. */
#ifndef MLFFPROF_ARENA_H
#define MLFFPROF_ARENA_H

#include <stddef.h>

typedef struct mlffprof_arena mlffprof_arena;

/* NULL when memory is out. */
mlffprof_arena *mlffprof_arena_create(void);
void mlffprof_arena_free(mlffprof_arena *arena);

/* Zeroed memory for n items of a size, aligned for any type; never NULL for n = 0, NULL when memory is out. */
void *mlffprof_arena_alloc(mlffprof_arena *arena, size_t n, size_t size);

/* A copy; NULL for NULL, and when memory is out, which mlffprof_arena_failed tells apart. */
const char *mlffprof_arena_text(mlffprof_arena *arena, const char *text);

/* 1 when any of the calls above ran out of memory. */
int mlffprof_arena_failed(const mlffprof_arena *arena);

#endif
