/* plant.c: regressions for tests/decks/planted.py. Loaded by LD_PRELOAD, it does in each tenth clock_gettime what the
 * environment says, in bytes. A step of in.bench has ten:
 *   PLANT_COPY      copies so many into a buffer that stays
 *   PLANT_ALLOCATE  allocates so many and frees them
 *   PLANT_LEAK      allocates so many
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *volatile last; /* so that no compiler leaves out what is done */

static size_t bytes(const char *name)
{
  const char *text = getenv(name);
  return text ? strtoul(text, NULL, 10) : 0;
}

static void copy(size_t n)
{
  static char *from, *to;
  if (!from) from = calloc(n, 1);
  if (!to) to = calloc(n, 1);
  if (!from || !to) abort();
  memcpy(to, from, n);
  last = to;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
  static int (*own)(clockid_t, struct timespec *);
  static int calls;
  if (!own) own = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
  if (++calls % 10 == 0) {
    if (bytes("PLANT_COPY")) copy(bytes("PLANT_COPY"));
    if (bytes("PLANT_ALLOCATE")) {
      last = malloc(bytes("PLANT_ALLOCATE"));
      free(last);
    }
    if (bytes("PLANT_LEAK")) last = malloc(bytes("PLANT_LEAK"));
  }
  return own(clock, now);
}
