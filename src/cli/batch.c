/* batch.c: mlff batch runs commands from standard input in one process. */
#define _POSIX_C_SOURCE 200809L

#include "cli.h"

#include <string.h>
#include <unistd.h>

enum { MOST_CHARACTERS = 8192, MOST_WORDS = 128 };

/* Size of the cache of structures and lists: 4 GiB, at most a quarter of the memory. A list of a million atoms of water
 * within 6.25 A takes 0.45 GB. */
static size_t cache_size(void)
{
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  const size_t most = (size_t) 1 << 32, quarter = pages > 0 && size > 0 ? (size_t) pages / 4 * (size_t) size : most;
  return quarter < most ? quarter : most;
}

/* Reads a line. Returns 0 at the end of the input. *wrong: why the line is invalid, or NULL. */
static int read_line(char line[MOST_CHARACTERS + 1], const char **wrong)
{
  int c = getchar(), n = 0;
  *wrong = NULL;
  if (c == EOF) return 0;
  for (; c != EOF && c != '\n'; c = getchar()) {
    if (c == 0) *wrong = "it contains a NUL character";
    if (n == MOST_CHARACTERS)
      *wrong = "it is longer than 8192 characters";
    else
      line[n++] = (char) c;
  }
  line[n] = 0;
  return 1;
}

/* Splits the line in place into words after words[0], terminated by NULL. Returns the number of words, with words[0];
 * *wrong as above. */
static int split(char *line, char *words[MOST_WORDS + 2], const char **wrong)
{
  static const char blanks[] = " \t\r";
  int n = 1;
  for (const char *in = line + strspn(line, blanks); *in; in += strspn(in, blanks)) {
    char *out = line; /* removing quotes only shortens a word */
    int in_quotes = 0;
    if (n > MOST_WORDS) {
      *wrong = "it has more than 128 words";
      return 0;
    }
    words[n++] = out;
    for (; *in && (in_quotes || !strchr(blanks, *in)); in++) {
      if (*in == '"')
        in_quotes = !in_quotes;
      else
        *out++ = *in;
    }
    if (in_quotes) {
      *wrong = "a double quote is not closed";
      return 0;
    }
    if (*in) in++;
    *out++ = 0;
    line = out;
  }
  words[n] = NULL;
  return n;
}

static int run_line(char *line, const char *wrong)
{
  char program[] = "mlff", *words[MOST_WORDS + 2] = {program};
  const int n = wrong ? 0 : split(line, words, &wrong);
  if (wrong) return cli_error(CLI_WRONG, "batch", "invalid line: %s", wrong);
  return cli_run(n, words, 1);
}

int cli_batch(const cli_options *options)
{
  char line[MOST_CHARACTERS + 1];
  const char *wrong;
  int worst = CLI_OK;
  (void) options;
  cli_structures_keep(cache_size());
  for (int k = 1; !ferror(stdout) && read_line(line, &wrong);) {
    const char first = line[strspn(line, " \t\r")];
    if (!wrong && (!first || first == '#')) continue;
    const double begin = mlffprof_seconds();
    cli_error_forget();
    const int status = run_line(line, wrong);
    printf("{\"batch\": %d, \"status\": %d, \"seconds\": %.6f, \"error\": ", k++, status, mlffprof_seconds() - begin);
    mlff_json_text(stdout, cli_error_text());
    printf("}\n");
    fflush(stdout);
    if (status > worst) worst = status;
  }
  cli_structures_keep(0);
  if (ferror(stdin) || ferror(stdout))
    return cli_error(CLI_FAILED, "batch", "cannot access standard %s", ferror(stdin) ? "input" : "output");
  return worst;
}
