/* amx.h: products of tiles of 16 rows of 64 bytes, in the registers of AMX or in memory; see bf16.h.
 *
 * Macros, because numbers of registers must be literals. Tiles are floats [16][16], rows of x in pairs [16][16], or
 * weights [16][16]: row k / 2 has the pairs of k and k + 1 of 16 columns.
 */
#ifndef MLFF_AMX_H
#define MLFF_AMX_H

#include "bf16.h"

enum { AMX_ROWS = 16, AMX_PAIRS = 16 }; /* rows of a tile; floats or pairs in a row */

#if MLFF_KERNELS_AMX

typedef struct amx_tiles {
  char none; /* they are the processor's */
} amx_tiles;

/* Makes the compiler finish its writes to memory: the intrinsics of GCC 12 do not say what they read. */
#define AMX_READS(rows) __asm__ volatile("" : : "r"(rows) : "memory")

/* All tiles of this thread whole, and zero; before and after products. */
MLFF_INLINE void amx_begin(void)
{
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes_of_row[16];
    uint8_t n_rows[16];
  } config = {.palette = 1};
  for (int t = 0; t < 8; t++) {
    config.bytes_of_row[t] = 64;
    config.n_rows[t] = AMX_ROWS;
  }
  AMX_READS(&config);
  _tile_loadconfig(&config);
}

MLFF_INLINE void amx_end(void)
{
  _tile_release();
}

#define AMX_LOAD(tiles, t, rows, bytes_apart) \
  do {                                        \
    (void) (tiles);                           \
    AMX_READS(rows);                          \
    _tile_loadd(t, rows, bytes_apart);        \
  } while (0)
#define AMX_STORE(tiles, t, rows, bytes_apart) _tile_stored(t, rows, bytes_apart)
#define AMX_PRODUCT(tiles, c, a, b) _tile_dpbf16ps(c, a, b)

#else

typedef struct amx_tiles {
  uint32_t bits[8][AMX_ROWS][AMX_PAIRS];
} amx_tiles;

MLFF_INLINE void amx_begin(void) {}

MLFF_INLINE void amx_end(void) {}

MLFF_INLINE void amx_load(amx_tiles *tiles, int t, const void *rows, size_t bytes_apart)
{
  for (size_t r = 0; r < AMX_ROWS; r++) memcpy(tiles->bits[t][r], (const char *) rows + r * bytes_apart, 64);
}

MLFF_INLINE void amx_store(const amx_tiles *tiles, int t, void *rows, size_t bytes_apart)
{
  for (size_t r = 0; r < AMX_ROWS; r++) memcpy((char *) rows + r * bytes_apart, tiles->bits[t][r], 64);
}

/* c[m][n] += sum over even k + sum over odd k of a[m][k] b[k][n], where row k / 2 of b has the pairs of k and k + 1. */
static void amx_product(amx_tiles *tiles, int c, int a, int b)
{
  for (int m = 0; m < AMX_ROWS; m++) {
    for (int n = 0; n < AMX_PAIRS; n += MLFF_VLEN) {
      vreal even = {0}, odd = {0}, sum;
      for (int k = 0; k < AMX_PAIRS; k++) {
        const uint32_t x = tiles->bits[a][m][k];
        vbits w;
        memcpy(&w, &tiles->bits[b][k][n], sizeof w);
        even += (vreal) (set_pairs(x) << 16) * (vreal) (w << 16);
        odd += (vreal) (set_pairs(x) & 0xffff0000u) * (vreal) (w & 0xffff0000u);
      }
      memcpy(&sum, &tiles->bits[c][m][n], sizeof sum);
      sum += even + odd;
      memcpy(&tiles->bits[c][m][n], &sum, sizeof sum);
    }
  }
}

#define AMX_LOAD(tiles, t, rows, bytes_apart) amx_load(tiles, t, rows, bytes_apart)
#define AMX_STORE(tiles, t, rows, bytes_apart) amx_store(tiles, t, rows, bytes_apart)
#define AMX_PRODUCT(tiles, c, a, b) amx_product(tiles, c, a, b)

#endif

#endif
