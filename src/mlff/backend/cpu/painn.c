/* painn.c: the PaiNN ops of the CPU, and their radial part.
 *
 * The other files painn_*.c: moments (first layer), messages (other layers), mix (updates of atoms, readout).
 */
#include "painn.h"

/* ---- cubic B-splines -------------------------------------------------------------------------------------------- */

static const real piece[4][4] = MLFF_SPLINE_PIECES;

static void fill_cubic(const mlff_painn_basis *basis, const mlff_edges *edges, real *line)
{
  const v4 c0 = v4_load(piece[0]), c1 = v4_load(piece[1]), c2 = v4_load(piece[2]), c3 = v4_load(piece[3]);
  const real(*vec)[4] = edges->vec.data;
  const int32_t *node = edges->node.data, *species = edges->species.data;
  const real inverse_h = (real) (basis->n / basis->cutoff);
  const int split = basis->split ? basis->split : basis->n;
  for (int64_t e = 0; e < edges->n_edges; e++, line += MLFF_PAINN_LINE) {
    const real r = vec[e][3], x = r * inverse_h, inverse = 1 / r;
    int32_t first = (int32_t) x;
    if (first >= basis->n) first = basis->n - 1; /* r rounded up to the cutoff */
    const real t = x - (real) first;
    v4_store(line + LINE_COEF, ((c3 * t + c2) * t + c1) * t + c0);
    v4_store(line + LINE_SLOPE, ((3 * c3 * t + 2 * c2) * t + c1) * inverse_h);
    v4_store(line + LINE_UNIT, v4_load(vec[e]) * inverse);
    line[LINE_INVERSE] = inverse;
    const line_index index = {first + (first >= split ? 3 : 0), node[e], species[e], 0};
    memcpy(line + LINE_INDEX, &index, sizeof index);
  }
}

/* Tags lines with their pair of species, whose rows follow those of the pairs before. */
static void add_pairs(const mlff_painn_basis *basis, const mlff_edges *edges, real *line)
{
  const int64_t *row = edges->row.data;
  const int32_t *center_species = edges->center_species.data;
  for (int32_t i = 0; i < edges->n_local; i++) {
    const int32_t center = row[i] < row[i + 1] ? basis->slot[center_species[i]] : -1;
    for (int64_t e = row[i]; e < row[i + 1]; e++, line += MLFF_PAINN_LINE) {
      line_index index = line_load_index(line);
      const int32_t neighbor = basis->slot[index.species];
      if (center < 0 || neighbor < 0) continue;
      index.pair = center * basis->n_slots + neighbor;
      index.first += index.pair * basis->pair_rows;
      memcpy(line + LINE_INDEX, &index, sizeof index);
    }
  }
}

/* ---- Gaussian and Bessel functions with a cosine cutoff --------------------------------------------------------- */

/* sin(x) and cos(x) for |x| < 1000: x = m pi/2 + y with |y| <= pi/4, both by their Taylor series, then the quadrant. */
MLFF_INLINE void vsincos(vreal x, vreal *sine, vreal *cosine)
{
#if MLFF_REAL_IS_DOUBLE
  enum { TERMS = 9 };
  const real magic = 6755399441055744.0; /* 1.5 * 2^52 */
  const real half_pi_high = 0x1.921fb54400000p+0, half_pi_middle = 0x1.0b4611a600000p-34,
             half_pi_low = 0x1.3198a2e037073p-69;
#else
  enum { TERMS = 5 };
  const real magic = 12582912.0f; /* 1.5 * 2^23 */
  const real half_pi_high = 0x1.92p+0f, half_pi_middle = 0x1.fb4p-12f, half_pi_low = 0x1.4442d2p-24f;
#endif
  const vreal m = (x * (real) 0.6366197723675814 + magic) - magic;
  const vreal y = ((x - m * half_pi_high) - m * half_pi_middle) - m * half_pi_low;
  const vreal y2 = y * y;
  vreal s = vset(1), c = vset(1);
#pragma GCC unroll 16
  for (int k = TERMS; k >= 1; k--) {
    s = 1 - s * y2 * (real) (1.0 / ((2 * k) * (2 * k + 1)));
    c = 1 - c * y2 * (real) (1.0 / ((2 * k - 1) * (2 * k)));
  }
  s *= y;
  const vmask quadrant = __builtin_convertvector(m, vmask);
  const vmask odd = (quadrant & 1) != 0, sine_minus = (quadrant & 2) != 0, cosine_minus = ((quadrant + 1) & 2) != 0;
  const vreal a = vselect(odd, c, s), b = vselect(odd, s, c);
  *sine = vselect(sine_minus, -a, a);
  *cosine = vselect(cosine_minus, -b, b);
}

/* Tails of Gaussians below exp of this are zero: relative to 1 they are far below rounding, and products of such
 * numbers would be denormal, which costs a factor of ten in time. */
#define SMALLEST_EXPONENT ((real) (MLFF_REAL_IS_DOUBLE ? -300 : -40))

/* coef and slope of one edge: MLFF_VLEN functions at a time. */
static void fill_terms(const mlff_painn_basis *basis, real r, real *coef, real *slope)
{
  const real *first = basis->first.data, *second = basis->second.data;
  const double x = (double) r * 3.14159265358979323846 / basis->cutoff;
  const real fc = (real) (0.5 * cos(x) + 0.5);
  const real dfc = (real) (-0.5 * 3.14159265358979323846 / basis->cutoff * sin(x));
  const real inverse = 1 / r;
  for (int k = 0; k < basis->n_terms; k += MLFF_VLEN) {
    vreal phi, dphi;
    if (basis->kind == MLFF_PAINN_GAUSSIAN) {
      const vreal y = r - vload(first + k), w = vload(second + k);
      const vreal power = (real) -0.5 * y * y * w;
      phi = vselect(power > SMALLEST_EXPONENT, vexp(power), vset(0));
      dphi = -y * w * phi;
    } else {
      const vreal f = vload(first + k);
      vreal s, c;
      vsincos(f * r, &s, &c);
      phi = s * inverse;
      dphi = (f * c - phi) * inverse;
    }
    vstore(coef + k, phi * fc);
    vstore(slope + k, dphi * fc + phi * dfc);
  }
  coef[basis->n] = fc;
  slope[basis->n] = dfc;
  for (int k = basis->n + 1; k < basis->n_terms; k++) coef[k] = slope[k] = 0;
}

static void fill_dense(const mlff_painn_basis *basis, const mlff_edges *edges, real *line, real *terms)
{
  const real(*vec)[4] = edges->vec.data;
  const int32_t *node = edges->node.data, *species = edges->species.data;
  for (int64_t e = 0; e < edges->n_edges; e++, line += MLFF_PAINN_LINE, terms += 2 * basis->n_terms) {
    const real inverse = 1 / vec[e][3];
    v4_store(line + LINE_UNIT, v4_load(vec[e]) * inverse);
    line[LINE_INVERSE] = inverse;
    const line_index index = {0, node[e], species[e], 0};
    memcpy(line + LINE_INDEX, &index, sizeof index);
    fill_terms(basis, vec[e][3], terms, terms + basis->n_terms);
  }
}

mlff_status MLFF_CPU(edge_lines_cpu)(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                     mlff_painn_radial *radial, mlff_error *error)
{
  MLFF_TRY(mlff_reserve_edge_lines(backend, basis, edges, radial, error));
  fill_cubic(basis, edges, radial->line.data);
  if (basis->slot) add_pairs(basis, edges, radial->line.data);
  return MLFF_OK;
}

mlff_status MLFF_CPU(painn_radial_cpu)(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                       mlff_painn_radial *radial, mlff_error *error)
{
  if (basis->kind == MLFF_PAINN_CUBIC) return MLFF_CPU(edge_lines_cpu)(backend, basis, edges, radial, error);
  MLFF_TRY(mlff_reserve_painn_radial(backend, basis, edges, radial, error));
  fill_dense(basis, edges, radial->line.data, radial->terms.data);
  return MLFF_OK;
}
