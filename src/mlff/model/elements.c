/* elements.c: chemical symbols. */
#include "mlff/mlff_xyz.h"
#include "modelfile_impl.h"

#include <string.h>

static const char *const symbols[] = {"H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg",
                                      "Al", "Si", "P",  "S",  "Cl", "Ar", "K",  "Ca", "Sc", "Ti", "V",  "Cr",
                                      "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Kr",
                                      "Rb", "Sr", "Y",  "Zr", "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag", "Cd",
                                      "In", "Sn", "Sb", "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr", "Nd",
                                      "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu", "Hf",
                                      "Ta", "W",  "Re", "Os", "Ir", "Pt", "Au", "Hg", "Tl", "Pb", "Bi", "Po",
                                      "At", "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U",  "Np", "Pu", "Am", "Cm",
                                      "Bk", "Cf", "Es", "Fm", "Md", "No", "Lr", "Rf", "Db", "Sg", "Bh", "Hs",
                                      "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};
enum { N_SYMBOLS = sizeof symbols / sizeof *symbols };

int mlff_atomic_number(const char *text)
{
  for (int k = 0; k < N_SYMBOLS; k++)
    if (!strcmp(symbols[k], text)) return k + 1;
  return 0;
}

const char *mlff_chemical_symbol(int atomic_number)
{
  return atomic_number >= 1 && atomic_number <= N_SYMBOLS ? symbols[atomic_number - 1] : NULL;
}
