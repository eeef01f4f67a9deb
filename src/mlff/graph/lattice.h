/* lattice.h: a cell with any periodic directions.
 *
 * Fractional coordinates: x = sum_k s_k a_k. Directions without periodicity get unit vectors normal to the periodic
 * ones, so the same code serves all cases. h_k is the distance between the cell's faces along direction k; a sphere of
 * radius r spans s_k +- r/h_k.
 */
#ifndef MLFF_LATTICE_H
#define MLFF_LATTICE_H

#include "mlff/mlff.h"

typedef struct mlff_lattice {
  int pbc[3];
  double a[3][3];         /* rows are vectors                                     */
  double to_frac[3][3];   /* s_k = sum_c to_frac[k][c] x_c                        */
  double reach[3];        /* cutoff / h_k                                         */
  double low[3], high[3]; /* range of s over the owned atoms, after wrapping; set by the caller */
  double volume;          /* of the cell with its unit vectors                    */
} mlff_lattice;

/* Arguments as in mlff_system_create. */
mlff_status mlff_lattice_make(const double (*cell)[3], const int *pbc, double cutoff, mlff_lattice *l,
                              mlff_error *error);
/* Longest periodic cell vector, and longest displacement of an atom by wrapping, A: beyond it wrapped positions in
 * double precision have errors above 1e-9 A. */
#define MLFF_MOST_LENGTH 1e7
/* MLFF_E_NUMERIC if atom i is too far away to be moved by `turns` vectors k. */
mlff_status mlff_check_turns(const mlff_lattice *l, int32_t i, int k, double turns, mlff_error *error);
/* MLFF_E_NUMERIC for a position of atom i that is not finite. */
mlff_status mlff_check_position(int32_t i, const double x[3], mlff_error *error);
double mlff_dot(const double a[3], const double b[3]);

#endif
