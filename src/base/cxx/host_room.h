/* host_room.h: free memory of this machine. */
#ifndef MLFF_BASE_HOST_ROOM_H
#define MLFF_BASE_HOST_ROOM_H

#include <string>

/* Free bytes, and what limits them; infinity if unknown. */
struct MLFFRoom {
  double bytes;
  std::string limit;
};

/* For all processes of this machine or batch job: the smaller of MemAvailable and the room of the control groups
 * (version 1 or 2). Reclaimable file caches count as free. */
MLFFRoom mlff_shared_room();
/* For this process: the rest of the address space of `ulimit -v`. */
MLFFRoom mlff_own_room();

#endif
