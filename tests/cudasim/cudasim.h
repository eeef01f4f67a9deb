/* cudasim.h: what tests ask of the simulated device. */
#ifndef MLFF_CUDASIM_H
#define MLFF_CUDASIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void cudasim_reset(void);        /* as at the start of the program but for memory, which should have been freed  */
void cudasim_set_devices(int n); /* 0: no device                                                             */
void cudasim_set_memory(size_t bytes);   /* of the device                                                            */
void cudasim_set_code(int has_code);     /* 0: the build has no code for the device                                  */
void cudasim_set_shuffle(unsigned seed); /* 0: in order; else blocks, warps and lanes in another one                 */
void cudasim_fail_allocation(long n);    /* the n-th allocation from now on fails; 0: none                           */
void cudasim_fail_launch(long n);        /* the n-th launch from now on fails, and everything after it               */
void cudasim_fail_capture(
    int which); /* from now on 1: capturing cannot begin, 2: does not end well, 3: no graph is made */
long cudasim_n_graph_launches(void);
long cudasim_n_synchronisations(void);
long cudasim_n_allocations(void); /* since the last reset                                                     */
long cudasim_n_launches(void);
long cudasim_n_copied(void);       /* copies between host and device */
long cudasim_n_bytes_copied(void); /* in these, and when they are replayed */
size_t cudasim_bytes_in_use(void); /* less those since before the last reset */

/* Ranges of NVTX: open ones, all since the last reset, and the name of the last one, "" for none. */
int cudasim_push_range(const char *name);
int cudasim_pop_range(void);
long cudasim_open_ranges(void);
long cudasim_n_ranges(void);
const char *cudasim_last_range(void);

/* 1: host code, such as MPI, may touch device memory until it is called with 0. */
void cudasim_let_others_in(int come);

#ifdef __cplusplus
}
#endif

#endif
