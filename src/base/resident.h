/* resident.h: memory of this process. */
#ifndef MLFF_BASE_RESIDENT_H
#define MLFF_BASE_RESIDENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Resident bytes, and those of files and shared memory among them; -1 (MLFFPROF_UNKNOWN) if the system does not report
 * them. */
void mlff_resident(int64_t *resident, int64_t *of_files);

#ifdef __cplusplus
}
#endif

#endif
