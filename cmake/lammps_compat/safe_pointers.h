/* safe_pointers.h: substitute for the LAMMPS header of this name. LAMMPS of 2026 includes it from citeme.h and
 * variable.h but does not install it. Only the size of the class matters: plugin code uses no such member. Used only
 * when the headers of LAMMPS lack it (cmake/LammpsHeaders.cmake). */
#ifndef LMP_SAFE_POINTERS_H
#define LMP_SAFE_POINTERS_H

#include <cstdio>

namespace LAMMPS_NS {

class SafeFilePtr {
public:
  SafeFilePtr() = default;
  SafeFilePtr(const SafeFilePtr &) = delete;
  SafeFilePtr &operator=(const SafeFilePtr &) = delete;

private:
  FILE *fp = nullptr;
  bool use_pclose = false;
};

} // namespace LAMMPS_NS

#endif
