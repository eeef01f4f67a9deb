/* bf16.h: the instructions of products in bf16, each in one small function next to its twin in plain C.
 *
 * A bf16 number is the upper half of a float. Numbers come as pairs in 32 bits, the even one in the lower half; a vbits
 * is MLFF_VLEN pairs. Paths avx512_bf16 and amx have the instructions, all others compute the same with what they have,
 * and tests run these. The product of two bf16 numbers is exact in a float, so only sums are rounded. The twins follow
 * the operation sections of Intel's Software Developer's Manual (VCVTNE2PS2BF16, VDPBF16PS; amx.h: TDPBF16PS) but for
 * sums below 1e-38, which the instructions take for zero.
 */
#ifndef MLFF_BF16_H
#define MLFF_BF16_H

#include "simd.h"

#define MLFF_HAVE_DOT (MLFF_KERNELS_AVX512_BF16 || MLFF_KERNELS_AMX)

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

/* To the nearest bf16, of two the even one; below the smallest normal number to zero. NaN stays NaN. Lanes have the
 * bits of floats whose lower halves are zero. */
MLFF_INLINE vbits vround_bf16(vreal x)
{
  const vbits bits = (vbits) x, magnitude = bits & 0x7fffffffu;
  const vbits rounded = bits + 0x7fffu + (bits >> 16 & 1u), zero = bits & 0x80000000u, nan = bits | 0x00400000u;
  const vreal finite = vselect((vmask) (magnitude < 0x00800000u), (vreal) zero, (vreal) rounded);
  return (vbits) vselect((vmask) (magnitude > 0x7f800000u), (vreal) nan, finite) & 0xffff0000u;
}

/* 2 MLFF_VLEN floats, a before b, as pairs. */
MLFF_INLINE void store_pairs(uint32_t *out, vreal a, vreal b)
{
#if MLFF_HAVE_DOT
  const __m512bh pairs = _mm512_cvtne2ps_pbh((__m512) b, (__m512) a);
  memcpy(out, &pairs, sizeof pairs);
#else
  const vbits first = vround_bf16(a), second = vround_bf16(b);
  uint32_t bits[2 * MLFF_VLEN];
  memcpy(bits, &first, sizeof first);
  memcpy(bits + MLFF_VLEN, &second, sizeof second);
  for (int p = 0; p < MLFF_VLEN; p++) out[p] = bits[2 * p] >> 16 | bits[2 * p + 1];
#endif
}

MLFF_INLINE vbits set_pairs(uint32_t x)
{
  return x - (vbits){0};
}

/* ---- sums of two products in each lane --------------------------------------------------------------------------- */

/* acc + x_odd w_odd, then + x_even w_even. */
MLFF_INLINE vreal dot_bf16(vreal acc, vbits x, vbits w)
{
#if MLFF_HAVE_DOT
  return (vreal) _mm512_dpbf16_ps((__m512) acc, (__m512bh) x, (__m512bh) w);
#else
  acc += (vreal) (x & 0xffff0000u) * (vreal) (w & 0xffff0000u);
  return acc + (vreal) (x << 16) * (vreal) (w << 16);
#endif
}

#endif
