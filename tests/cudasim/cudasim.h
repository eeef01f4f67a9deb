/* cudasim.h: control of the simulated device, for tests. */
#ifndef MLFF_CUDASIM_H
#define MLFF_CUDASIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Restores the state at the start of the program. Device memory in use counts as leaked. */
void cudasim_reset(void);
/* 0: no device. */
void cudasim_set_devices(int n);
/* Memory of the device. */
void cudasim_set_memory(size_t bytes);
/* 0: the build has no code for the device. */
void cudasim_set_code(int has_code);
/* 0: blocks, warps and lanes run in order; otherwise in an order that depends on the seed. */
void cudasim_set_shuffle(unsigned seed);
/* The n-th allocation from now on fails; 0: none. */
void cudasim_fail_allocation(long n);
/* The n-th launch from now on fails, and everything after it; 0: none. */
void cudasim_fail_launch(long n);
/* From now on fails 1: the begin of a capture, 2: its end, 3: the instantiation of a graph. */
void cudasim_fail_capture(int which);
/* Counts since the last reset. n_copied: copies between host and device; n_bytes_copied: also when replayed. */
long cudasim_n_graph_launches(void);
long cudasim_n_synchronisations(void);
long cudasim_n_allocations(void);
long cudasim_n_launches(void);
long cudasim_n_copied(void);
long cudasim_n_bytes_copied(void);
/* Without memory that was in use at the last reset. */
size_t cudasim_bytes_in_use(void);

/* NVTX ranges: open ones, all since the last reset, and the name of the last one or "". */
int cudasim_push_range(const char *name);
int cudasim_pop_range(void);
long cudasim_open_ranges(void);
long cudasim_n_ranges(void);
const char *cudasim_last_range(void);

/* 1: host code, such as MPI, may access device memory, until a call with 0. */
void cudasim_allow_host_access(int allow);

#ifdef __cplusplus
}
#endif

#endif
