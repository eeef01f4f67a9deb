/* store_choice.h: whether rows for a reader on another core are written by ordinary or by non-temporal stores.
 *
 * The reader has the lines of the exchange before in its cache. Where two cores share a cache, a store takes such a
 * line back in 3 ns; where they do not, in 34 (two Zen 4 cores, 240 kB). Non-temporal it is 2.5 ns everywhere, but then
 * the reader waits for memory, 2.5 ns more for each line. Which it is changes when ranks are moved, and virtual
 * machines tell nothing of it, so stores are timed. C and C++.
 */
#ifndef MLFF_STORE_CHOICE_H
#define MLFF_STORE_CHOICE_H

#include <stddef.h>

enum { MLFF_STORE_LEAST = 8, MLFF_STORE_MOST = 512 };

/* For one reader; begins as zero. */
typedef struct mlff_store_choice {
  int left;     /* exchanges with non-temporal stores until the usual way is tried again */
  int patience; /* how many they were last time; doubles while the usual way stays slow */
} mlff_store_choice;

static inline int mlff_store_past_caches(const mlff_store_choice *choice)
{
  return choice->left > 0;
}

/* So long an exchange of so many bytes took, the way that was chosen. */
static inline void mlff_store_took(mlff_store_choice *choice, double seconds, size_t bytes)
{
  const double line = 64.0, slow = 8e-9;
  if (choice->left > 0) {
    choice->left--;
    return;
  }
  if (seconds * line <= slow * (double) bytes)
    choice->patience = 0;
  else if (choice->patience == 0)
    choice->patience = MLFF_STORE_LEAST;
  else if (choice->patience < MLFF_STORE_MOST)
    choice->patience *= 2;
  choice->left = choice->patience;
}

#endif
