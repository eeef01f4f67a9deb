/* fuzz.c: see fuzz.h.
 *
 *   test_fuzz_NAME [SECONDS [SEED [FOLDER]]]     default: 2 seconds, seed 1
 * FOLDER gets the seeds, and the words as FOLDER.dict, for libFuzzer.
 */
#define _GNU_SOURCE /* memfd_create */

#include "fuzz.h"

#include "support.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

long fuzz_n_accepted, fuzz_n_refused;

void fuzz_stop(const char *what, const char *text)
{
  fprintf(stderr, "fuzz_%s: %s: %s\n", fuzz_this.name, what, text);
  abort();
}

static void *must(void *pointer)
{
  if (!pointer) fuzz_stop("cannot go on", "out of memory, or a file that cannot be opened");
  return pointer;
}

const char *fuzz_path(const void *data, size_t size)
{
  static char path[64];
  static int fd = -1;
  if (fd < 0) fd = memfd_create("fuzz", 0);
  if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t) size)
    fuzz_stop("cannot write a file in memory", "memfd_create, ftruncate or pwrite");
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return path;
}

void *fuzz_nowhere(void)
{
  static FILE *file;
  if (!file) file = must(fopen("/dev/null", "w"));
  return file;
}

unsigned char *fuzz_weights(const uint8_t *data, size_t size, size_t *n_bytes)
{
  const int is_text = size && data[0] == '{';
  const uint8_t *end = is_text ? memchr(data, '\n', size) : NULL;
  const size_t n_header = end ? (size_t) (end - data) + 1 : size;
  unsigned char *out = must(malloc(size + 8));
  for (int k = 0; is_text && k < 8; k++) out[k] = (unsigned char) ((uint64_t) n_header >> 8 * k);
  if (size) memcpy(out + (is_text ? 8 : 0), data, size);
  *n_bytes = size + (is_text ? 8 : 0);
  return out;
}

#ifdef MLFF_LIBFUZZER

void fuzz_seed(const char *name, const void *data, size_t size)
{
  (void) name;
  (void) data;
  (void) size;
}

#else

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

typedef struct seed {
  char name[80];
  uint8_t *data;
  size_t size;
} seed;

static seed *seeds;
static int n_seeds;

void fuzz_seed(const char *name, const void *data, size_t size)
{
  seeds = must(realloc(seeds, ((size_t) n_seeds + 1) * sizeof *seeds));
  seed *s = &seeds[n_seeds++];
  *s = (seed){.data = must(malloc(size + 1)), .size = size};
  snprintf(s->name, sizeof s->name, "%s", name);
  memcpy(s->data, data, size);
}

static void read_seed(const char *path, const char *name)
{
  FILE *file = must(fopen(path, "rb"));
  char *data = NULL;
  size_t size = 0, room = 0;
  do {
    room += 4096;
    data = must(realloc(data, room));
    size += fread(data + size, 1, room - size, file);
  } while (size == room);
  fclose(file);
  fuzz_seed(name, data, size);
  free(data);
}

static void read_seeds(void)
{
  char folder[600], path[900];
  struct dirent **list = NULL;
  snprintf(folder, sizeof folder, "%s/tests/fuzz/seeds/%s", test_source_dir(), fuzz_this.name);
  const int n = scandir(folder, &list, NULL, alphasort);
  for (int k = 0; k < n; k++) {
    snprintf(path, sizeof path, "%s/%s", folder, list[k]->d_name);
    if (list[k]->d_name[0] != '.') read_seed(path, list[k]->d_name);
    free(list[k]);
  }
  free(list);
  if (fuzz_this.make_seeds) fuzz_this.make_seeds();
}

/* Whether every seed ends as its name says. */
static int run_seeds(void)
{
  int n_good = 0, n_wrong = 0;
  for (int k = 0; k < n_seeds; k++) {
    const long accepted = fuzz_n_accepted, refused = fuzz_n_refused;
    LLVMFuzzerTestOneInput(seeds[k].data, seeds[k].size);
    const int is_good = !strncmp(seeds[k].name, "good", 4), is_bad = !strncmp(seeds[k].name, "bad", 3);
    n_good += is_good;
    if (!(is_good ? fuzz_n_accepted > accepted : is_bad && fuzz_n_refused > refused)) {
      fprintf(stderr, "seed %s of %s did not end as its name says\n", seeds[k].name, fuzz_this.name);
      n_wrong++;
    }
  }
  return n_good && !n_wrong;
}

static void write_file(const char *path, const void *data, size_t size)
{
  FILE *file = must(fopen(path, "wb"));
  if (fwrite(data, 1, size, file) != size || fclose(file)) fuzz_stop("cannot write", path);
}

/* The seeds and the dictionary for libFuzzer. */
static void save(const char *folder)
{
  char path[700];
  for (int k = 0; k < n_seeds; k++) {
    snprintf(path, sizeof path, "%s/%s", folder, seeds[k].name);
    write_file(path, seeds[k].data, seeds[k].size);
  }
  snprintf(path, sizeof path, "%s.dict", folder);
  FILE *file = must(fopen(path, "w"));
  for (int k = 0; fuzz_this.words[k]; k++) {
    fputc('"', file);
    for (const char *c = fuzz_this.words[k]; *c; c++) fprintf(file, "\\x%02x", (unsigned char) *c);
    fputs("\"\n", file);
  }
  if (fclose(file)) fuzz_stop("cannot write", path);
}

/* ---- mutants ----------------------------------------------------------------------------------------------------- */

enum { ROOM = 1024 }; /* how much a mutant may grow */

typedef struct mutant {
  uint8_t *data;
  size_t size, room;
} mutant;

static size_t below(test_rng *rng, size_t n)
{
  return n ? (size_t) test_below(rng, (int) n) : 0;
}

/* Puts text[n] at `at`, over what is there or between. */
static void put(mutant *m, size_t at, const void *text, size_t n, int is_over)
{
  if (is_over) {
    if (at + n <= m->size) memmove(m->data + at, text, n);
  } else if (m->size + n <= m->room) {
    memmove(m->data + at + n, m->data + at, m->size - at);
    memcpy(m->data + at, text, n);
    m->size += n;
  }
}

/* One change: a bit, a byte, a piece left out, repeated, or taken from elsewhere, a word put in. */
static void mutate(test_rng *rng, mutant *m)
{
  int n_words = 0;
  while (fuzz_this.words[n_words]) n_words++;
  if (!m->size) return;
  const size_t front = fuzz_this.front ? fuzz_this.front(m->data, m->size) : m->size;
  const size_t at = below(rng, test_below(rng, 4) && front && front <= m->size ? front : m->size);
  const size_t most = m->size - at < 60 ? m->size - at : 60, n = below(rng, 1 + below(rng, most + 1));
  const char *word = fuzz_this.words[test_below(rng, n_words)];
  uint8_t piece[64];
  switch (test_below(rng, 7)) {
  case 0: m->data[at] ^= (uint8_t) (1u << test_below(rng, 8)); break;
  case 1: m->data[at] = (uint8_t) test_below(rng, 256); break;
  case 2:
    memmove(m->data + at, m->data + at + n, m->size - at - n);
    m->size -= n;
    break;
  case 3:
  case 4: {
    const size_t from = test_below(rng, 2) ? at : below(rng, m->size - n + 1);
    memcpy(piece, m->data + from, n);
    put(m, at, piece, n, test_below(rng, 2));
    break;
  }
  default: put(m, at, word, strlen(word), test_below(rng, 2));
  }
}

static void run_mutant(test_rng *rng)
{
  const seed *s = &seeds[test_below(rng, n_seeds)];
  mutant m = {.data = must(malloc(s->size + ROOM)), .size = s->size, .room = s->size + ROOM};
  memcpy(m.data, s->data, s->size);
  for (int n = 1 + test_below(rng, 4); n > 0; n--) mutate(rng, &m);
  uint8_t *exact = must(malloc(m.size + !m.size)); /* so that sanitizers see a read behind the end */
  memcpy(exact, m.data, m.size);
  free(m.data);
  LLVMFuzzerTestOneInput(exact, m.size);
  free(exact);
}

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

int main(int argc, char **argv)
{
  const double budget = argc > 1 ? atof(argv[1]) : 2.0;
  const unsigned long long number = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  test_rng rng = {number};
  long n_runs = 0;
  read_seeds();
  if (!n_seeds) fuzz_stop("there are no seeds", test_source_dir());
  if (argc > 3) save(argv[3]);
  const int is_good = run_seeds();
  const double start = seconds(); /* seeds take what they take */
  while (seconds() - start < budget) {
    run_mutant(&rng);
    n_runs++;
  }
  printf("%d seeds, %ld mutants (seed %llu): %ld refused, %ld accepted\n", n_seeds, n_runs, number, fuzz_n_refused,
         fuzz_n_accepted);
  for (int k = 0; k < n_seeds; k++) free(seeds[k].data);
  free(seeds);
  return is_good && (n_runs > 0 || budget == 0.0) ? 0 : 1;
}

#endif
