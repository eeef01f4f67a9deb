/* elements.h: standard atomic weights: elements of masses, and checks of the names in pair_coeff. */
#ifndef MLFF_BASE_ELEMENTS_H
#define MLFF_BASE_ELEMENTS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Mass in g/mol of the element with this symbol; 0 if there is no such element. */
double mlff_element_mass(const char *symbol);
/* Symbol of the element whose mass is nearest. */
const char *mlff_element_of_mass(double mass);
/* Whether the mass fits the symbol: within 0.5 g/mol or 2 %, or an isotope of hydrogen. */
int mlff_mass_fits(const char *symbol, double mass);
/* "deuterium" or "tritium" if the mass fits, else NULL. */
const char *mlff_hydrogen_isotope(const char *symbol, double mass);

#ifdef __cplusplus
}
#endif

#endif
