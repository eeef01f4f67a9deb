/* half_rows.h: rows of floats as 16-bit integers, for messages of half the size.
 *
 * Every 64 numbers share a scale, so that a number is off by at most 1/65534 of the largest of its 64. C and C++.
 */
#ifndef MLFF_HALF_ROWS_H
#define MLFF_HALF_ROWS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MLFF_HALF_BLOCK = 64, MLFF_HALF_MOST = 32767 };

/* Bytes of n packed numbers: of each block a scale, then its integers. */
static inline size_t mlff_half_bytes(size_t n)
{
  return (n + MLFF_HALF_BLOCK - 1) / MLFF_HALF_BLOCK * sizeof(float) + n * sizeof(int16_t);
}

/* Numbers in the next block when so many are left. */
static inline size_t mlff_half_block(size_t left)
{
  const size_t most = MLFF_HALF_BLOCK;
  return left < most ? left : most;
}

/* A block with a number that is not finite comes back as NaN, whole, so that nothing is hidden. */
static inline void mlff_half_pack(const float *from, size_t n, char *to)
{
  for (size_t first = 0; first < n; first += MLFF_HALF_BLOCK) {
    const size_t m = mlff_half_block(n - first);
    int16_t packed[MLFF_HALF_BLOCK];
    float most = 0.0f, scale;
    int bad = 0;
    for (size_t k = 0; k < m; k++) {
      const float size = fabsf(from[first + k]);
      bad |= !(size <= FLT_MAX);
      most = size > most ? size : most;
    }
    scale = bad ? (float) NAN : most / (float) MLFF_HALF_MOST;
    if (scale * (float) MLFF_HALF_MOST > FLT_MAX) scale = nextafterf(scale, 0.0f);
    /* A scale below the smallest normal float would lose digits: such numbers are nothing. */
    const float inverse = scale >= FLT_MIN ? 1.0f / scale : 0.0f;
    for (size_t k = 0; k < m; k++) {
      const float value = bad ? 0.0f : from[first + k] * inverse;
      packed[k] = (int16_t) (value < 0.0f ? value - 0.5f : value + 0.5f);
    }
    memcpy(to, &scale, sizeof scale);
    memcpy(to + sizeof scale, packed, m * sizeof *packed);
    to += sizeof scale + m * sizeof *packed;
  }
}

static inline void mlff_half_unpack(const char *from, size_t n, float *to)
{
  for (size_t first = 0; first < n; first += MLFF_HALF_BLOCK) {
    const size_t m = mlff_half_block(n - first);
    int16_t packed[MLFF_HALF_BLOCK];
    float scale;
    memcpy(&scale, from, sizeof scale);
    memcpy(packed, from + sizeof scale, m * sizeof *packed);
    for (size_t k = 0; k < m; k++) to[first + k] = scale * (float) packed[k];
    from += sizeof scale + m * sizeof *packed;
  }
}

#endif
