/* store_choice.h: selects ordinary or non-temporal stores for rows that another core reads.
 *
 * The cache of the reader holds the lines of the previous exchange. An ordinary store takes 3 ns per line if both cores
 * share a cache, otherwise 34 ns; a non-temporal store takes 2.5 ns, and its reader 2.5 ns more (two Zen 4 cores,
 * 240 kB). The topology can change during a run and is hidden in virtual machines, so stores are timed. C and C++.
 */
#ifndef MLFF_STORE_CHOICE_H
#define MLFF_STORE_CHOICE_H

#include <stddef.h>

enum { MLFF_STORE_LEAST = 8, MLFF_STORE_MOST = 512 };

/* For one reader; zero-initialized. */
typedef struct mlff_store_choice {
  int left;     /* exchanges with non-temporal stores until ordinary stores are tried again */
  int patience; /* previous number of them; doubles while ordinary stores stay slow */
} mlff_store_choice;

static inline int mlff_store_past_caches(const mlff_store_choice *choice)
{
  return choice->left > 0;
}

/* Reports the time of an exchange with the selected stores. */
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
