/* safe_pointers.h: stands in for the LAMMPS header of this name, which LAMMPS of 2026 includes from citeme.h and
 * variable.h but does not install. Only the size of the class matters here: no plugin code touches such a member. Used
 * only when the headers found lack it (cmake/LammpsHeaders.cmake). */
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
