/* int16_rows.h: rows of floats quantised to 16-bit integers, for messages of half the size (exchange half).
 *
 * Every 64 numbers share a scale, so that a number is off by at most 1/65534 of the largest of its 64. C and C++.
 */
#ifndef MLFF_INT16_ROWS_H
#define MLFF_INT16_ROWS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MLFF_INT16_BLOCK = 64, MLFF_INT16_MOST = 32767 };

/* Bytes of n packed numbers: of each block a scale, then its integers. */
static inline size_t mlff_int16_bytes(size_t n)
{
  return (n + MLFF_INT16_BLOCK - 1) / MLFF_INT16_BLOCK * sizeof(float) + n * sizeof(int16_t);
}

/* Numbers in the next block when so many are left. */
static inline size_t mlff_int16_block(size_t left)
{
  const size_t most = MLFF_INT16_BLOCK;
  return left < most ? left : most;
}

/* One block; m is a constant for whole ones, so that compilers make vectors of the loops. A block with a number that is
 * not finite comes back as NaN, whole, so that nothing is hidden. */
static inline void mlff_int16_pack_block(const float *from, size_t m, float *scale_out, int16_t *packed)
{
  int32_t bits[MLFF_INT16_BLOCK], largest = 0; /* of magnitudes, whose bits are in the order of the numbers */
  memcpy(bits, from, m * sizeof *bits);
  for (size_t k = 0; k < m; k++) {
    const int32_t size = bits[k] & INT32_MAX;
    largest = size > largest ? size : largest;
  }
  float most, scale, inverse;
  memcpy(&most, &largest, sizeof most);
  const int bad = !(most <= FLT_MAX);
  scale = bad ? (float) NAN : most / (float) MLFF_INT16_MOST;
  if (scale * (float) MLFF_INT16_MOST > FLT_MAX) scale = nextafterf(scale, 0.0f);
  /* A scale below the smallest normal float would lose digits: such numbers are nothing. */
  inverse = scale >= FLT_MIN ? 1.0f / scale : 0.0f;
  *scale_out = scale;
  if (bad) {
    memset(packed, 0, m * sizeof *packed);
    return;
  }
  for (size_t k = 0; k < m; k++) {
    const float value = from[k] * inverse;
    packed[k] = (int16_t) (value + (value < 0.0f ? -0.5f : 0.5f));
  }
}

static inline void mlff_int16_pack(const float *from, size_t n, char *to)
{
  for (size_t first = 0; first < n; first += MLFF_INT16_BLOCK) {
    const size_t m = mlff_int16_block(n - first);
    int16_t packed[MLFF_INT16_BLOCK];
    float scale;
    if (m == MLFF_INT16_BLOCK)
      mlff_int16_pack_block(from + first, MLFF_INT16_BLOCK, &scale, packed);
    else
      mlff_int16_pack_block(from + first, m, &scale, packed);
    memcpy(to, &scale, sizeof scale);
    memcpy(to + sizeof scale, packed, m * sizeof *packed);
    to += sizeof scale + m * sizeof *packed;
  }
}

static inline void mlff_int16_unpack_block(float scale, const int16_t *packed, size_t m, float *to)
{
  for (size_t k = 0; k < m; k++) to[k] = scale * (float) packed[k];
}

static inline void mlff_int16_unpack(const char *from, size_t n, float *to)
{
  for (size_t first = 0; first < n; first += MLFF_INT16_BLOCK) {
    const size_t m = mlff_int16_block(n - first);
    int16_t packed[MLFF_INT16_BLOCK];
    float scale;
    memcpy(&scale, from, sizeof scale);
    memcpy(packed, from + sizeof scale, m * sizeof *packed);
    if (m == MLFF_INT16_BLOCK)
      mlff_int16_unpack_block(scale, packed, MLFF_INT16_BLOCK, to + first);
    else
      mlff_int16_unpack_block(scale, packed, m, to + first);
    from += sizeof scale + m * sizeof *packed;
  }
}

#endif
