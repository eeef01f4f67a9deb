/* prof_units.h: units of the input script in those of a report: eV, ps, A, bar. */
#ifndef LMP_MLFF_PROF_UNITS_H
#define LMP_MLFF_PROF_UNITS_H

namespace LAMMPS_NS {

struct ProfUnits {
  const char *style;
  double energy, time, length, pressure;    // one unit of the script in eV, ps, A, bar
  bool reduced;                             // lj: numbers stay as they are
};

/* Units of a style of LAMMPS; nullptr for an unknown one. */
const ProfUnits *prof_find_units(const char *style);

}    // namespace LAMMPS_NS

#endif
