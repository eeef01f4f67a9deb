/* plant.c: regressions for tests/decks/planted.py. Loaded by LD_PRELOAD, it does before each MPI_Allreduce, of
 * which a step of in.bench has one, what the environment says, in bytes:
 *   PLANT_COPY      copies so many into a buffer that stays
 *   PLANT_ALLOCATE  allocates so many and frees them
 *   PLANT_LEAK      allocates so many
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* Handles of MPI, int in some libraries and pointers in others, are passed on as they are. */
typedef uintptr_t word;

int MPI_Allreduce(word from, word to, int n, word type, word op, word comm);
int MPI_Allreduce(word from, word to, int n, word type, word op, word comm)
{
  static int (*own)(word, word, int, word, word, word);
  if (!own) own = (int (*)(word, word, int, word, word, word)) dlsym(RTLD_NEXT, "MPI_Allreduce");
  if (bytes("PLANT_COPY")) copy(bytes("PLANT_COPY"));
  if (bytes("PLANT_ALLOCATE")) {
    last = malloc(bytes("PLANT_ALLOCATE"));
    free(last);
  }
  if (bytes("PLANT_LEAK")) last = malloc(bytes("PLANT_LEAK"));
  return own(from, to, n, type, op, comm);
}
