/* sha256.c: SHA-256 (FIPS 180-4), with the names of the standard: K constants, w message schedule, a..h working
 * variables (h is `last` here). Uses the SHA instructions of the processor if available. */
#include "sha256.h"

#include <stdint.h>
#include <string.h>

#if MLFF_HAVE_AVX2 /* kernel paths of x86 processors are in this build */
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t K[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
                               0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
                               0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
                               0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
                               0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
                               0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
                               0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
                               0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
                               0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
                               0xc67178f2};

/* Not sanitized, because the hash of a large file would take minutes; called with whole blocks only. */
#define UNINSTRUMENTED __attribute__((no_sanitize("address", "undefined")))

UNINSTRUMENTED static inline uint32_t turn(uint32_t x, int n)
{
  return x >> n | x << (32 - n);
}

UNINSTRUMENTED static void hash_block(uint32_t h[8], const unsigned char block[64])
{
  uint32_t w[64];
  for (int t = 0; t < 16; t++)
    w[t] = (uint32_t) block[4 * t] << 24 | (uint32_t) block[4 * t + 1] << 16 | (uint32_t) block[4 * t + 2] << 8 |
           (uint32_t) block[4 * t + 3];
  for (int t = 16; t < 64; t++) {
    const uint32_t s0 = turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], last = h[7];
  for (int t = 0; t < 64; t++) {
    const uint32_t t1 = last + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t];
    const uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    last = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t s[8] = {a, b, c, d, e, f, g, last};
  for (int k = 0; k < 8; k++) h[k] += s[k];
}

UNINSTRUMENTED static void hash_blocks(uint32_t h[8], const unsigned char *bytes, size_t n_blocks)
{
  for (size_t k = 0; k < n_blocks; k++) hash_block(h, bytes + 64 * k);
}

#if MLFF_HAVE_AVX2
enum { SSSE3 = 1 << 9, SSE41 = 1 << 19, SHA = 1 << 29 }; /* leaf 1: ECX of the first two; leaf 7: EBX */

static int has_instructions(void)
{
  const unsigned sse = SSSE3 | SSE41;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & sse) != sse) return 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & SHA;
}

/* hash_blocks with SHA instructions, four rounds at a time: the variables are in registers (f e b a) and (h g d c),
 * lowest first; one instruction makes two rounds of w + K, or four words of w. */
__attribute__((target("sha,sse4.1,ssse3"))) static void hash_blocks_sha(uint32_t h[8], const unsigned char *bytes,
                                                                        size_t n_blocks)
{
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *) h), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *) (h + 4)), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0), w[16];
  for (; n_blocks; n_blocks--, bytes += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    for (int t = 0; t < 16; t++) {
      if (t < 4)
        w[t] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) (bytes + 16 * t)), big_endian);
      else
        w[t] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[t - 4], w[t - 3]),
                                                  _mm_alignr_epi8(w[t - 1], w[t - 2], 4)),
                                    w[t - 1]);
      const __m128i wk = _mm_add_epi32(w[t], _mm_loadu_si128((const __m128i *) (K + 4 * t)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128((__m128i *) h, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128((__m128i *) (h + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#else
static int has_instructions(void)
{
  return 0;
}

static void hash_blocks_sha(uint32_t h[8], const unsigned char *bytes, size_t n_blocks)
{
  hash_blocks(h, bytes, n_blocks);
}
#endif

void mlff_sha256_hex(const void *data, size_t size, char hex[65])
{
  mlff_sha256_hex_by(has_instructions(), data, size, hex);
}

int mlff_sha256_hex_by(int instructions, const void *data, size_t size, char hex[65])
{
  static const char digits[] = "0123456789abcdef";
  const unsigned char *bytes = data;
  if (instructions && !has_instructions()) return 0;
  void (*const hash)(uint32_t *, const unsigned char *, size_t) = instructions ? hash_blocks_sha : hash_blocks;
  uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char tail[128] = {0};
  const size_t n_tail = size % 64, n_padded = n_tail < 56 ? 64 : 128;
  hash(h, bytes, size / 64);
  if (n_tail) memcpy(tail, bytes + (size - n_tail), n_tail);
  tail[n_tail] = 0x80;
  for (int k = 0; k < 8; k++) tail[n_padded - 1 - (size_t) k] = (unsigned char) ((uint64_t) size * 8 >> 8 * k);
  hash(h, tail, n_padded / 64);
  for (int k = 0; k < 64; k++) hex[k] = digits[h[k / 8] >> (28 - 4 * (k % 8)) & 15];
  hex[64] = 0;
  return 1;
}
