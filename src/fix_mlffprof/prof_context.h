/* prof_context.h: context of a report: machine, versions, model, input script. */
#ifndef LMP_MLFF_PROF_CONTEXT_H
#define LMP_MLFF_PROF_CONTEXT_H

#include "mlff/mlff.h"
#include "mlff/mlffprof.h"

#include <string>

namespace LAMMPS_NS {

/* Microseconds of one short message between ranks 0 and 1, the median of up to 100; NaN on one rank. Result on rank 0.
 * Collective. */
double prof_message_us(class LAMMPS *lammps);

/* Writes machine, versions, model, units and variables of the script to the recorder of rank 0. Reads only variables
 * that are text, because computes may not be invoked. */
void prof_describe(class LAMMPS *lammps, const mlff_info *info, mlffprof_recorder *recorder);

/* Name of the model or of the pair style. */
std::string prof_model_name(class LAMMPS *lammps, const mlff_info *info);

}    // namespace LAMMPS_NS

#endif
