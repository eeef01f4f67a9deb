#define _GNU_SOURCE /* names of registers in a signal's context */

#include "emulate.h"

#if defined(__x86_64__) && defined(__linux__)

#include "backend/backend.h"

#include <cpuid.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* ---- registers of the interrupted program ------------------------------------------------------------------------ */

/* An area of XSAVE in its standard form: bytes 512 to 519 say which parts of it are not zero. */
enum { PART_SSE = 1, PART_AVX = 2, PART_ZMM_HIGH = 6, PART_ZMM_16 = 7, XMM = 160, HEADER = 512 };

typedef union zmm {
  unsigned char bytes[64];
  float real[16];
  uint32_t bits[16];
  uint16_t half[32];
} zmm;

static unsigned part_offset[8];

/* Copies n bytes between a register and its place; a part that is marked as zero is not written out. */
static void move(unsigned char *area, int part, size_t offset, unsigned char *bytes, size_t n, int store)
{
  uint64_t present;
  memcpy(&present, area + HEADER, sizeof present);
  const int is_present = (int) (present >> part & 1);
  if (!store) {
    if (is_present)
      memcpy(bytes, area + offset, n);
    else
      memset(bytes, 0, n);
    return;
  }
  if (!is_present) {
    if (part == PART_ZMM_16) memset(area + part_offset[part], 0, 16 * 64);
    if (part == PART_ZMM_HIGH) memset(area + part_offset[part], 0, 16 * 32);
    if (part == PART_AVX) memset(area + part_offset[part], 0, 16 * 16);
    if (part == PART_SSE) memset(area + XMM, 0, 16 * 16);
    present |= (uint64_t) 1 << part;
    memcpy(area + HEADER, &present, sizeof present);
  }
  memcpy(area + offset, bytes, n);
}

static void move_zmm(ucontext_t *context, unsigned number, zmm *value, int store)
{
  unsigned char *area = (unsigned char *) context->uc_mcontext.fpregs;
  if (number >= 16) {
    move(area, PART_ZMM_16, part_offset[PART_ZMM_16] + 64 * (number - 16), value->bytes, 64, store);
    return;
  }
  move(area, PART_SSE, XMM + 16 * number, value->bytes, 16, store);
  move(area, PART_AVX, part_offset[PART_AVX] + 16 * number, value->bytes + 16, 16, store);
  move(area, PART_ZMM_HIGH, part_offset[PART_ZMM_HIGH] + 32 * number, value->bytes + 32, 32, store);
}

static uint64_t general(const ucontext_t *context, unsigned number)
{
  static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return (uint64_t) context->uc_mcontext.gregs[order[number]];
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* An instruction with a VEX (three bytes) or EVEX prefix and a byte ModRM. */
typedef struct instruction {
  int is_evex, map, pp, w, length;     /* length: in bits, 128 or 512 */
  unsigned opcode, mod, reg, rm, vvvv; /* with the bits that prefixes add */
  int is_broadcast, is_masked;
  const unsigned char *address; /* of memory: base + displacement, with index unless `stride` is wanted */
  uint64_t index;               /* scaled */
  const unsigned char *end;
} instruction;

static const unsigned char *read_prefix(const unsigned char *at, instruction *i, unsigned *x, unsigned *b)
{
  const unsigned inverted = (unsigned) ~at[1];
  i->is_evex = at[0] == 0x62;
  if (!i->is_evex && at[0] != 0xc4) return NULL;
  i->reg = (inverted >> 7 & 1) << 3;
  *x = (inverted >> 6 & 1) << 3;
  *b = (inverted >> 5 & 1) << 3;
  i->map = at[1] & (i->is_evex ? 7 : 31);
  i->w = at[2] >> 7;
  i->vvvv = (unsigned) ~at[2] >> 3 & 15;
  i->pp = at[2] & 3;
  if (!i->is_evex) {
    i->length = at[2] & 4 ? 256 : 128;
    return at + 3;
  }
  i->reg |= (inverted >> 4 & 1) << 4;
  i->vvvv |= ((unsigned) ~at[3] >> 3 & 1) << 4;
  i->length = 128 << (at[3] >> 5 & 3);
  i->is_broadcast = at[3] >> 4 & 1;
  i->is_masked = (at[3] & 7) != 0;
  return at + 4;
}

/* ModRM, SIB and displacement. 0: not an instruction with VEX or EVEX. */
static int decode(const ucontext_t *context, instruction *i)
{
  unsigned x = 0, b = 0;
  memset(i, 0, sizeof *i);
  const unsigned char *at = read_prefix((const unsigned char *) context->uc_mcontext.gregs[REG_RIP], i, &x, &b);
  if (!at) return 0;
  i->opcode = *at++;
  const unsigned modrm = *at++;
  i->mod = modrm >> 6;
  i->reg |= modrm >> 3 & 7;
  i->rm = (modrm & 7) | b;
  if (i->mod == 3) {
    if (i->is_evex) i->rm |= x << 1;
    i->end = at;
    return 1;
  }
  uint64_t address = 0;
  int has_base = 1, is_relative = 0;
  if ((modrm & 7) == 4) {
    const unsigned sib = *at++, index = (sib >> 3 & 7) | x;
    if (index != 4) i->index = general(context, index) << (sib >> 6);
    i->rm = (sib & 7) | b;
    has_base = i->mod != 0 || (sib & 7) != 5;
  } else if (i->mod == 0 && (modrm & 7) == 5) {
    has_base = 0;
    is_relative = 1;
  }
  if (has_base) address = general(context, i->rm);
  if (i->mod == 1) {
    address += (uint64_t) ((int64_t) (signed char) *at++ * (!i->is_evex ? 1 : i->is_broadcast ? 4 : i->length / 8));
  } else if (i->mod == 2 || !has_base) {
    int32_t displacement;
    memcpy(&displacement, at, sizeof displacement);
    at += sizeof displacement;
    address += (uint64_t) (int64_t) displacement;
  }
  i->end = at;
  if (is_relative) address += (uint64_t) (uintptr_t) at;
  i->address = (const unsigned char *) (uintptr_t) address;
  return 1;
}

/* ---- arithmetic: denormals are zero, before and after; to the nearest, ties to even ------------------------------ */

static float without_denormal(float x)
{
  return fabsf(x) < 0x1p-126F ? copysignf(0.0F, x) : x;
}

static float float_of(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return without_denormal(x);
}

static float low(uint32_t pair)
{
  return float_of(pair << 16);
}

static float high(uint32_t pair)
{
  return float_of(pair & 0xffff0000u);
}

static float multiply_add(float x, float y, float sum)
{
  return without_denormal(fmaf(x, y, without_denormal(sum)));
}

static uint16_t to_bf16(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (isnan(value)) return (uint16_t) (bits >> 16 | 0x40);
  if (fabsf(value) < 0x1p-126F) return (uint16_t) (bits >> 16 & 0x8000);
  if (isinf(value)) return (uint16_t) (bits >> 16);
  return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

static int run_vector(ucontext_t *context, const instruction *i)
{
  zmm sum, first, second, result;
  const int is_dot = i->pp == 2 && i->opcode == 0x52, is_round = i->pp == 3 && i->opcode == 0x72;
  if (!i->is_evex || i->map != 2 || i->w || i->length != 512 || i->is_masked || !(is_dot || is_round)) return 0;
  move_zmm(context, i->reg, &sum, 0);
  move_zmm(context, i->vvvv, &first, 0);
  if (i->mod == 3)
    move_zmm(context, i->rm, &second, 0);
  else
    for (int k = 0; k < 16; k++) memcpy(&second.bits[k], i->address + i->index + (i->is_broadcast ? 0 : 4 * k), 4);
  for (int k = 0; k < 16; k++) {
    if (is_dot) {
      const float odd = multiply_add(high(first.bits[k]), high(second.bits[k]), sum.real[k]);
      result.real[k] = multiply_add(low(first.bits[k]), low(second.bits[k]), odd);
    } else {
      result.half[k] = to_bf16(second.real[k]);
      result.half[16 + k] = to_bf16(first.real[k]);
    }
  }
  move_zmm(context, i->reg, &result, 1);
  return 1;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

typedef union tile {
  float real[16][16];
  uint32_t bits[16][16];
} tile;

static tile tiles[8];
static int is_configured;

/* All tiles must be whole: no other configuration is in use. */
static int configure(const unsigned char *config)
{
  if (config[0] != 1 || config[1] != 0) return 0;
  for (int k = 2; k < 16; k++)
    if (config[k]) return 0;
  for (int t = 0; t < 8; t++)
    if (config[16 + 2 * t] != 64 || config[17 + 2 * t] || config[48 + t] != 16) return 0;
  for (int t = 8; t < 16; t++)
    if (config[16 + 2 * t] || config[17 + 2 * t] || config[48 + t]) return 0;
  memset(tiles, 0, sizeof tiles);
  is_configured = 1;
  return 1;
}

static void multiply(tile *c, const tile *a, const tile *b)
{
  for (int m = 0; m < 16; m++) {
    for (int n = 0; n < 16; n++) {
      float even = 0, odd = 0;
      for (int k = 0; k < 16; k++) {
        even = multiply_add(low(a->bits[m][k]), low(b->bits[k][n]), even);
        odd = multiply_add(high(a->bits[m][k]), high(b->bits[k][n]), odd);
      }
      c->real[m][n] = without_denormal(without_denormal(c->real[m][n]) + without_denormal(even + odd));
    }
  }
}

static int run_tile(const instruction *i)
{
  if (i->is_evex || i->map != 2 || i->w || i->length != 128) return 0;
  if (i->opcode == 0x49 && i->pp == 0 && i->mod != 3 && i->reg == 0) return configure(i->address + i->index);
  if (!is_configured || i->reg > 7) return 0;
  if (i->opcode == 0x49 && i->pp == 0 && i->mod == 3 && i->reg == 0) {
    is_configured = 0;
  } else if (i->opcode == 0x4b && i->mod != 3 && (i->pp == 3 || i->pp == 2)) {
    for (uint64_t row = 0; row < 16; row++) {
      unsigned char *at = (unsigned char *) (uintptr_t) i->address + row * i->index;
      if (i->pp == 3)
        memcpy(tiles[i->reg].bits[row], at, 64);
      else
        memcpy(at, tiles[i->reg].bits[row], 64);
    }
  } else if (i->opcode == 0x5c && i->pp == 2 && i->mod == 3 && i->rm < 8 && i->vvvv < 8) {
    if (i->reg == i->rm || i->reg == i->vvvv || i->rm == i->vvvv) return 0; /* illegal */
    multiply(&tiles[i->reg], &tiles[i->rm], &tiles[i->vvvv]);
  } else {
    return 0;
  }
  return 1;
}

/* ---- the signal -------------------------------------------------------------------------------------------------- */

static void on_illegal(int number, siginfo_t *about, void *data)
{
  ucontext_t *context = data;
  instruction i;
  (void) about;
  if (decode(context, &i) && (run_vector(context, &i) || run_tile(&i)))
    context->uc_mcontext.gregs[REG_RIP] = (greg_t) (uintptr_t) i.end;
  else
    signal(number, SIG_DFL); /* it comes again, and ends the program */
}

int emulate_bf16(void)
{
  if (!mlff_cpu_has_kernels("avx512")) return 0;
  for (unsigned part = PART_AVX; part < 8; part++) {
    unsigned size, offset, c, d;
    if (!__get_cpuid_count(13, part, &size, &offset, &c, &d)) return 0;
    part_offset[part] = offset;
  }
  const struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
  return !sigaction(SIGILL, &action, NULL);
}

#else

int emulate_bf16(void)
{
  return 0;
}

#endif
