/* prof_context.h: the context block of a report: where and with what it was measured. */
#ifndef LMP_MLFF_PROF_CONTEXT_H
#define LMP_MLFF_PROF_CONTEXT_H

#include "mlff/mlff.h"
#include "mlff/mlffprof.h"

#include <string>

namespace LAMMPS_NS {

/* Machine, versions, model, units and the deck's variables into the recorder. On rank 0, when no compute may be
 * invoked: only variables that are text are read. */
/* Microseconds of one short message between ranks 0 and 1, the median of up to 100; NaN on one rank. On rank 0.
 * Collective. */
double prof_message_us(class LAMMPS *lammps);

void prof_describe(class LAMMPS *lammps, const mlff_info *info, mlffprof_recorder *recorder);

/* The model's name, or the pair style's. */
std::string prof_model_name(class LAMMPS *lammps, const mlff_info *info);

}    // namespace LAMMPS_NS

#endif
