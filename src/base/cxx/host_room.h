/* host_room.h: how much memory the processes of this machine can still take. */
#ifndef MLFF_BASE_HOST_ROOM_H
#define MLFF_BASE_HOST_ROOM_H

#include <string>

/* Bytes and the limit that they come from. Infinity where nothing is known: then nothing is refused. */
struct MLFFRoom {
  double bytes;
  std::string limit;
};

/* For all processes of this machine, or of this batch job where it has a control group: the smaller of MemAvailable and
 * what the control groups (version 1 or 2) leave, file caches that can be dropped counted as free. */
MLFFRoom mlff_shared_room();
/* For this process alone: the address space that `ulimit -v` leaves. */
MLFFRoom mlff_own_room();

#endif
