/* errors.h: texts, and errors that stop all ranks. */
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

/* If `problem` is not empty on any rank, stops all of them with the text of the lowest such rank. Collective. */
void mlff_stop_together(class LAMMPS *lammps, const std::string &problem);

}    // namespace LAMMPS_NS

#endif
