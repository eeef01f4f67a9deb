/* errors.h: formatted texts, and errors that stop all ranks. */
#ifndef LMP_MLFF_ERRORS_H
#define LMP_MLFF_ERRORS_H

#include <string>

namespace LAMMPS_NS {

/* printf into a string, with decimal points in every locale. */
std::string mlff_format(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;

/* Stops all ranks if `problem` is not empty on any, with the text of the lowest such rank. Collective. */
void mlff_stop_together(class LAMMPS *lammps, const std::string &problem);

/* Returns on all ranks the problem of the lowest rank that has one. Sets each of the n_flags flags (at most 4, 0 or 1)
 * on all ranks if it is set on any. Collective. */
std::string mlff_agree(class LAMMPS *lammps, const std::string &problem, int *flags, int n_flags);

}    // namespace LAMMPS_NS

#endif
