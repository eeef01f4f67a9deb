/* elements.h: standard atomic weights, to check the names in pair_coeff against the masses of the atom types. */
#ifndef MLFF_BASE_ELEMENTS_H
#define MLFF_BASE_ELEMENTS_H

/* Mass in g/mol of the element with this symbol; 0 if there is no such element. */
double mlff_element_mass(const char *symbol);
/* Symbol of the element whose mass is nearest. */
const char *mlff_element_of_mass(double mass);
/* Whether the mass fits the symbol: within 0.5 g/mol or 2 %, or an isotope of hydrogen. */
bool mlff_mass_fits(const char *symbol, double mass);
/* "deuterium" or "tritium" if the mass fits, else nullptr. */
const char *mlff_hydrogen_isotope(const char *symbol, double mass);

#endif
