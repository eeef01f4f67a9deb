/* prof_units.h: conversion from units of the script to those of reports (eV, ps, A, bar). */
#ifndef LMP_MLFF_PROF_UNITS_H
#define LMP_MLFF_PROF_UNITS_H

namespace LAMMPS_NS {

struct ProfUnits {
  const char *style;
  double energy, time, length, pressure;    // one unit of the script in eV, ps, A, bar
  bool reduced;                             // lj: not converted
};

/* nullptr: unknown style. */
const ProfUnits *prof_find_units(const char *style);

}    // namespace LAMMPS_NS

#endif
