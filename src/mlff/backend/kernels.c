/* kernels.c: availability and selection of kernel paths of the CPU. */
#if defined(__linux__)
#define _GNU_SOURCE /* syscall */
#endif

#include "kernels.h"

#include "backend.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if MLFF_HAVE_AVX2
#include <cpuid.h>
#endif
#if MLFF_HAVE_AMX && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if MLFF_HAVE_SVE256 && defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

static int is(const char *text, const char *word)
{
  return strcmp(text, word) == 0;
}

/* ---- detection --------------------------------------------------------------------------------------------------- */

#define NO_BUILD "not in this build"
#define NO_PROCESSOR "not in this processor"
#define NO_SYSTEM "not enabled by the operating system"

static const char *lacks_avx2(void)
{
#if MLFF_HAVE_AVX2
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? NULL : NO_PROCESSOR;
#else
  return NO_BUILD;
#endif
}

static const char *lacks_avx512(void)
{
#if MLFF_HAVE_AVX512
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("fma")
             ? NULL
             : NO_PROCESSOR;
#else
  return NO_BUILD;
#endif
}

#if MLFF_HAVE_AVX512_BF16 || MLFF_HAVE_AMX
enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AVX512_BF16 = 1 << 5 }; /* leaf 7: EDX of 0, EAX of 1 */

static unsigned features_of_leaf7(int sub_leaf)
{
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, (unsigned) sub_leaf, &a, &b, &c, &d)) return 0;
  return sub_leaf ? a : d;
}
#endif

static const char *lacks_avx512_bf16(void)
{
#if MLFF_HAVE_AVX512_BF16
  if (lacks_avx512()) return lacks_avx512(); /* the system then saves its registers */
  return features_of_leaf7(1) & AVX512_BF16 ? NULL : NO_PROCESSOR;
#else
  return NO_BUILD;
#endif
}

#if MLFF_HAVE_AMX && defined(__linux__)
enum { ARCH_GET_XCOMP_SUPP = 0x1021, ARCH_REQ_XCOMP_PERM = 0x1023, XTILE_CFG = 17, XTILE_DATA = 18 };

static int system_keeps_tiles(void)
{
  uint32_t low, high;
  uint64_t supported = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* registers that the system saves */
  return low >> XTILE_CFG & low >> XTILE_DATA & 1u && !syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPP, &supported) &&
         supported >> XTILE_DATA & 1u;
}

/* A program must request the 8 KiB of tiles once, for this thread and all threads that are started later. */
static int may_use_tiles(void)
{
  return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILE_DATA);
}

static const char *lacks_amx(void)
{
  const unsigned wanted = AMX_TILE | AMX_BF16;
  if (lacks_avx512_bf16()) return lacks_avx512_bf16(); /* for operations other than GEMMs */
  if ((features_of_leaf7(0) & wanted) != wanted) return NO_PROCESSOR;
  return system_keeps_tiles() ? NULL : NO_SYSTEM;
}
#else
static int may_use_tiles(void)
{
  return 0;
}

static const char *lacks_amx(void)
{
  return NO_BUILD;
}
#endif

static const char *lacks_nothing(void)
{
  return NULL;
}

static const char *lacks_neon(void)
{
#if MLFF_HAVE_NEON
  return NULL; /* every aarch64 has it */
#else
  return NO_BUILD;
#endif
}

/* Kernels for SVE are compiled for one vector length. */
static const char *lacks_sve(int bits)
{
#if MLFF_HAVE_SVE256 && defined(__linux__)
  enum { HAS_SVE = 1 << 22, GET_LENGTH = 51, LENGTH = 0xffff }; /* AT_HWCAP; PR_SVE_GET_VL, in bytes */
  if (!(getauxval(AT_HWCAP) & HAS_SVE)) return NO_PROCESSOR;
  const int length = prctl(GET_LENGTH, 0, 0, 0, 0);
  return length >= 0 && (length & LENGTH) == bits / 8 ? NULL : "vectors of this processor have another length";
#else
  (void) bits;
  return NO_BUILD;
#endif
}

static const char *lacks_sve256(void)
{
  return lacks_sve(256);
}

static const char *lacks_sve512(void)
{
  return lacks_sve(512);
}

/* Each is faster than the previous ones of the same processor; products: for precision mixed only. */
static const struct {
  const char *name;
  const char *(*lacks)(void);
  int products;
} paths[] = {{"generic", lacks_nothing, 0},         {"avx2", lacks_avx2, 0},
             {"avx512", lacks_avx512, 0},           {"neon", lacks_neon, 0},
             {"sve256", lacks_sve256, 0},           {"sve512", lacks_sve512, 0},
             {"avx512_bf16", lacks_avx512_bf16, 1}, {"amx", lacks_amx, 1}};
enum { N_PATHS = sizeof paths / sizeof *paths };

const char *mlff_cpu_kernels_at(int k)
{
  return k >= 0 && k < N_PATHS && !paths[k].products ? paths[k].name : NULL;
}

/* N_PATHS if there is none of that name. */
static int find_path(const char *kernels)
{
  int k = 0;
  while (k < N_PATHS && !is(kernels, paths[k].name)) k++;
  return k;
}

const char *mlff_cpu_lacks(const char *kernels)
{
  const int k = find_path(kernels);
  return k < N_PATHS ? paths[k].lacks() : "not known";
}

int mlff_cpu_has_kernels(const char *kernels)
{
  return !mlff_cpu_lacks(kernels);
}

const char *mlff_cpu_best_kernels(const char *precision)
{
  const int for_mixed = is(precision, "mixed");
  const char *best = NULL;
  for (int k = 0; k < N_PATHS; k++)
    if (paths[k].products == for_mixed && !paths[k].lacks()) best = paths[k].name;
  return best;
}

static int is_for_products(const char *kernels)
{
  const int k = find_path(kernels);
  return k < N_PATHS && paths[k].products;
}

const char *mlff_cpu_common_kernels(const char *kernels)
{
  return is_for_products(kernels) ? "avx512" : kernels;
}

void mlff_cpu_describe_mixed(char *text, size_t size)
{
  const char *const no_amx = mlff_cpu_lacks("amx"), *const no_dot = mlff_cpu_lacks("avx512_bf16");
  snprintf(text, size, "amx %s%s, avx512_bf16 %s%s", no_amx ? "no: " : "yes", no_amx ? no_amx : "",
           no_dot ? "no: " : "yes", no_dot ? no_dot : "");
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

static mlff_status choose_for_mixed(const char **kernels, mlff_error *error)
{
  char found[200];
  *kernels = !mlff_cpu_lacks("amx") && may_use_tiles() ? "amx" : "avx512_bf16";
  if (!mlff_cpu_lacks(*kernels)) return MLFF_OK;
  mlff_cpu_describe_mixed(found, sizeof found);
  return mlff_fail(error, MLFF_E_UNSUPPORTED,
                   "precision mixed on the CPU needs bf16 instructions (%s): use fp32. To test mixed without them, "
                   "slower than fp32, select kernels generic or another path of fp32",
                   found);
}

static mlff_status check_path(const char *asked, int is_mixed, mlff_error *error)
{
  const char *const lacks = mlff_cpu_lacks(asked);
  if (is_for_products(asked) && !is_mixed)
    return mlff_fail(error, MLFF_E_ARG, "kernels '%s' require precision mixed; use 'auto' (here: %s)", asked,
                     mlff_cpu_best_kernels("fp32"));
  if (lacks)
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "kernels '%s': %s; use %s'auto' (here: %s)", asked, lacks,
                     is_mixed ? "precision fp32 and " : "", mlff_cpu_best_kernels("fp32"));
  if (is(asked, "amx") && !may_use_tiles())
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "kernels 'amx': the operating system refuses AMX tiles, possibly because an alternate signal "
                     "stack is too small; use avx512_bf16 or precision fp32");
  return MLFF_OK;
}

mlff_status mlff_cpu_choose_kernels(const char *asked, const char *precision, const char **kernels, mlff_error *error)
{
  const int is_mixed = is(precision, "mixed");
  if (!asked || is(asked, "auto")) {
    *kernels = mlff_cpu_best_kernels("fp32");
    return is_mixed ? choose_for_mixed(kernels, error) : MLFF_OK;
  }
  const int k = find_path(asked);
  if (k < N_PATHS) {
    MLFF_TRY(check_path(asked, is_mixed, error));
    *kernels = paths[k].name;
    return MLFF_OK;
  }
  return mlff_fail(error, MLFF_E_ARG,
                   "kernels '%s' is unknown; use auto, generic, avx2, avx512, neon, sve256, sve512, avx512_bf16 or amx",
                   asked);
}
