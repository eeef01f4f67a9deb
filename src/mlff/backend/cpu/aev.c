/* aev.c: atomic environment vectors of ANI and their gradients on the CPU.
 *
 * Loops over centers. Radial part: vectors run over the shifts R_k. Angular part: vectors run over triples. Neighbors
 * within the angular cutoff are sorted by species, so that the triples of one pair of species (j from block t, k from
 * block u) fill batches that contribute to one block of columns. A batch consists of segments "one j, consecutive k",
 * which need no gather. A triple takes n_angular + n_sections transcendental functions, because
 *   G_A[a,z] = f1[z] f2[a],   f1[z] = ((1 + cos(theta - theta_z)) / 2)^zeta,   f2[a] = w exp(-eta (m - R_a)^2),
 *   w = p fc(r_j) fc(r_k),  m = (r_j + r_k) / 2,
 *   (1 + cos(theta - theta_z)) / 2 = 1 - q,  q = sin((theta - theta_z) / 2)^2, by the difference formula from
 *   cos(theta/2) = sqrt((1 + c) / 2) and sin(theta/2) = sqrt((1 - c) / 2),  c = s cos(angle),
 * which keeps ln(1 - q) accurate where f1 is large: zeta multiplies its error.
 * The backward pass recomputes the geometry.
 */
#include "cpu.h"

#include "aev_math.h"

enum { BATCH = 256, N_NEAR = 6, N_FORCE = 5, N_BATCH = 9 };

/* Triples of neighbor j with neighbors k_first .. k_first+n-1, at `position` of the batch. */
typedef struct segment {
  int j, k_first, n, position;
} segment;

/* State of one center; the arrays are in the scratch buffer. */
typedef struct work {
  const mlff_aev *aev;
  const int32_t *compact;
  /* Radial shifts, rounded up to whole vectors. */
  int n_shifts;
  const real *radial_shift, *angular_shift;
  /* cos and sin of theta_z / 2, and their rounding errors. */
  const real *section_cos, *section_sin, *cos_low, *sin_low;
  int n_edges, n_near;
  const real (*vec)[4];
  const int32_t *species;
  /* [n_edges]; dE_dr of the radial part. */
  real *r, *fc, *fc_slope, *dE_dr;
  /* [n_used][n_shifts] columns (forward), their gradients (backward). */
  real *radial;
  /* [n_near] edges within the angular cutoff, unsorted and by species. */
  int32_t *unsorted, *near_edge;
  /* [n_used+1] start of each species in near_edge. */
  int32_t *first;
  /* [n_near] unit vectors, distances, cutoff function and slope. */
  real *ux, *uy, *uz, *near_r, *near_fc, *near_slope;
  /* [n_near] sums over triples, with K = dE/dcos: f = sum K u_other, sum K cos, sum dE/dr. */
  real *fx, *fy, *fz, *near_cos_dE_dcos, *near_dE_dr;
  /* Sizes of the batch. */
  int n, n_segments;
  segment segments[BATCH];
  /* [BATCH] c, m, w, dw/dr_j, dw/dr_k. */
  real *cosine, *mean_r, *weight, *weight_j, *weight_k;
  /* [BATCH] K, K cos, dE/dr_j, dE/dr_k. */
  real *dE_dcos, *cos_dE_dcos, *dE_dr_j, *dE_dr_k;
  /* [BATCH/VLEN][n_sections or n_angular][VLEN] */
  real *f1, *f2;
} work;

static int round_up(int n)
{
  return (n + MLFF_VLEN - 1) / MLFF_VLEN * MLFF_VLEN;
}

/* ---- setup ------------------------------------------------------------------------------------------------------ */

mlff_status MLFF_CPU(aev_setup_cpu)(mlff_backend *backend, mlff_aev *aev, const mlff_aev_constants *constants,
                                    int n_species, const int *use, mlff_error *error)
{
  const mlff_aev_constants *c = constants;
  const int n_shifts = round_up(c->n_radial);
  const size_t n_table = (size_t) n_shifts + (size_t) c->n_angular + 4 * (size_t) c->n_sections;
  MLFF_TRY(mlff_buf_reserve(backend, &aev->compact, (size_t) n_species * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &aev->tables, n_table * sizeof(real), error));
  aev->constants = *c;
  aev->constants.radial_shifts = aev->constants.angular_shifts = aev->constants.angular_sections = NULL;
  aev->n_species = n_species;
  aev->n_used = 0;
  int32_t *compact = aev->compact.data;
  for (int s = 0; s < n_species; s++) compact[s] = use[s] ? aev->n_used++ : -1;
  aev->n_columns = aev->n_used * c->n_radial + aev->n_used * (aev->n_used + 1) / 2 * c->n_angular * c->n_sections;

  real *table = aev->tables.data;
  for (int k = 0; k < n_shifts; k++) *table++ = (real) c->radial_shifts[k < c->n_radial ? k : c->n_radial - 1];
  for (int a = 0; a < c->n_angular; a++) *table++ = (real) c->angular_shifts[a];
  for (int z = 0; z < c->n_sections; z++, table++) {
    const split cosine = split_of(cos(c->angular_sections[z] / 2)), sine = split_of(sin(c->angular_sections[z] / 2));
    table[0] = cosine.high;
    table[c->n_sections] = sine.high;
    table[2 * c->n_sections] = cosine.low;
    table[3 * c->n_sections] = sine.low;
  }
  return MLFF_OK;
}

/* Takes n reals, in whole vectors, from the scratch buffer. */
static real *take(real **scratch, size_t n)
{
  real *array = *scratch;
  *scratch += (n + 15) / 16 * 16;
  return array;
}

/* Allocates scratch for the center with most edges. Arrays over neighbors and triples have room for one vector beyond
 * their end. */
static mlff_status prepare(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args, work *w, mlff_error *error)
{
  const mlff_aev_constants *c = &aev->constants;
  const int64_t *row = args->edges->row.data;
  int64_t longest = 0;
  for (int64_t k = 0; k < args->n_rows; k++) {
    const int64_t n = row[args->centers[k] + 1] - row[args->centers[k]];
    if (n > longest) longest = n;
  }
  *w = (work){.aev = aev, .compact = aev->compact.data, .n_shifts = round_up(c->n_radial)};
  w->radial_shift = aev->tables.data;
  w->angular_shift = w->radial_shift + w->n_shifts;
  w->section_cos = w->angular_shift + c->n_angular;
  w->section_sin = w->section_cos + c->n_sections;
  w->cos_low = w->section_sin + c->n_sections;
  w->sin_low = w->cos_low + c->n_sections;

  const size_t per_edge = (size_t) longest + 32, per_triple = BATCH + 16;
  const size_t n_radial = (size_t) aev->n_used * (size_t) w->n_shifts;
  const size_t n_f1 = (size_t) BATCH * (size_t) c->n_sections, n_f2 = (size_t) BATCH * (size_t) c->n_angular;
  const size_t n_reals =
      (4 + N_NEAR + N_FORCE) * (per_edge + 16) + N_BATCH * (per_triple + 16) + n_radial + n_f1 + n_f2 + 64;
  const size_t n_ints = 2 * per_edge + (size_t) aev->n_used + 2;
  MLFF_TRY(mlff_buf_reserve(backend, &aev->scratch, n_reals * sizeof(real) + n_ints * sizeof(int32_t), error));
  real *scratch = aev->scratch.data;
  real **const edge_arrays[] =
      {&w->r,         &w->fc,      &w->fc_slope,   &w->dE_dr, &w->ux, &w->uy, &w->uz,
       &w->near_r,    &w->near_fc, &w->near_slope, &w->fx,    &w->fy, &w->fz, &w->near_cos_dE_dcos,
       &w->near_dE_dr};
  real **const triple_arrays[] = {&w->cosine,  &w->mean_r,      &w->weight,  &w->weight_j, &w->weight_k,
                                  &w->dE_dcos, &w->cos_dE_dcos, &w->dE_dr_j, &w->dE_dr_k};
  for (int k = 0; k < 4 + N_NEAR + N_FORCE; k++) *edge_arrays[k] = take(&scratch, per_edge);
  for (int k = 0; k < N_BATCH; k++) *triple_arrays[k] = take(&scratch, per_triple);
  w->radial = take(&scratch, n_radial);
  w->f1 = take(&scratch, n_f1);
  w->f2 = take(&scratch, n_f2);
  w->near_edge = (int32_t *) (void *) scratch;
  w->unsorted = w->near_edge + per_edge;
  w->first = w->unsorted + per_edge;
  return MLFF_OK;
}

/* ---- neighbors of a center --------------------------------------------------------------------------------------- */

/* Distances and radial cutoff function of all edges. */
static void load_center(work *w, const mlff_edges *edges, int32_t center)
{
  const int64_t *row = edges->row.data;
  const int64_t e = row[center];
  const cutoff fc = cutoff_of(w->aev->constants.radial_cutoff);
  w->n_edges = (int) (row[center + 1] - e);
  w->vec = (const real(*)[4]) edges->vec.data + e;
  w->species = (const int32_t *) edges->species.data + e;
  for (int k = 0; k < w->n_edges; k++) w->r[k] = w->vec[k][3];
  vstore(w->r + w->n_edges, vset(fc.rc.high));
  for (int k = 0; k < w->n_edges; k += MLFF_VLEN) {
    vreal slope;
    vstore(w->fc + k, vcutoff(vload(w->r + k), fc, &slope));
    vstore(w->fc_slope + k, slope);
  }
}

/* Neighbors within the angular cutoff, sorted by species. expand() applies the factor p. */
static void load_near(work *w)
{
  const cutoff fc = cutoff_of(w->aev->constants.angular_cutoff);
  const real rc = fc.rc.high;
  const int n_used = w->aev->n_used;
  int32_t *found = w->unsorted;
  int n = 0;
  for (int k = 0; k < w->n_edges; k++) { /* branch-free: the next edge overwrites a rejected one */
    found[n] = k;
    n += w->r[k] < rc;
  }
  w->n_near = n;
  for (int s = 0; s <= n_used; s++) w->first[s] = 0;
  for (int q = 0; q < n; q++) w->first[w->compact[w->species[found[q]]] + 1]++;
  for (int s = 0; s < n_used; s++) w->first[s + 1] += w->first[s];
  for (int q = 0; q < n; q++) w->near_edge[w->first[w->compact[w->species[found[q]]]]++] = found[q];
  for (int s = n_used; s > 0; s--) w->first[s] = w->first[s - 1]; /* filling advanced every start to the next one */
  w->first[0] = 0;

  for (int q = 0; q < w->n_near; q++) {
    const real *v = w->vec[w->near_edge[q]], inverse = (real) 1 / v[3];
    w->ux[q] = v[0] * inverse;
    w->uy[q] = v[1] * inverse;
    w->uz[q] = v[2] * inverse;
    w->near_r[q] = v[3];
  }
  real *const arrays[] = {w->ux, w->uy, w->uz};
  for (int k = 0; k < 3; k++) vstore(arrays[k] + w->n_near, vset(0));
  vstore(w->near_r + w->n_near, vset(rc));
  for (int q = 0; q < w->n_near + MLFF_VLEN; q += MLFF_VLEN) {
    vreal slope;
    vstore(w->near_fc + q, vcutoff(vload(w->near_r + q), fc, &slope));
    vstore(w->near_slope + q, slope);
  }
}

/* ---- radial part ------------------------------------------------------------------------------------------------- */

static void radial_forward(work *w, real *row)
{
  const mlff_aev_constants *c = &w->aev->constants;
  const real eta = (real) c->radial_eta, prefactor = (real) c->radial_prefactor;
  for (int k = 0; k < w->aev->n_used * w->n_shifts; k += MLFF_VLEN) vstore(w->radial + k, vset(0));
  for (int k = 0; k < w->n_edges; k++) {
    if (w->fc[k] == 0) continue;
    real *sum = w->radial + w->compact[w->species[k]] * w->n_shifts;
    for (int s = 0; s < w->n_shifts; s += MLFF_VLEN) {
      const vreal d = w->r[k] - vload(w->radial_shift + s);
      vstore(sum + s, vload(sum + s) + prefactor * w->fc[k] * vexp_or_zero(-eta * d * d));
    }
  }
  for (int t = 0; t < w->aev->n_used; t++)
    memcpy(row + t * c->n_radial, w->radial + t * w->n_shifts, (size_t) c->n_radial * sizeof(real));
}

/* dE/dr_k = sum_s g_s p (fc' - 2 eta (r - R_s) fc) exp(-eta (r - R_s)^2) */
static void radial_backward(work *w, const real *row)
{
  const mlff_aev_constants *c = &w->aev->constants;
  const real eta = (real) c->radial_eta, prefactor = (real) c->radial_prefactor;
  for (int k = 0; k < w->aev->n_used * w->n_shifts; k += MLFF_VLEN) vstore(w->radial + k, vset(0));
  for (int t = 0; t < w->aev->n_used; t++)
    memcpy(w->radial + t * w->n_shifts, row + t * c->n_radial, (size_t) c->n_radial * sizeof(real));
  for (int k = 0; k < w->n_edges; k++) {
    const real *g = w->radial + w->compact[w->species[k]] * w->n_shifts;
    const real fc = prefactor * w->fc[k], slope = prefactor * w->fc_slope[k];
    vreal sum = vset(0);
    for (int s = 0; s < w->n_shifts; s += MLFF_VLEN) {
      const vreal d = w->r[k] - vload(w->radial_shift + s);
      sum += vload(g + s) * (slope - 2 * eta * d * fc) * vexp_or_zero(-eta * d * d);
    }
    w->dE_dr[k] = vsum(sum);
  }
}

/* ---- batches of triples ------------------------------------------------------------------------------------------ */

/* Appends triples (j, k_first ..) to the batch: c, m, w and, for the backward pass, the derivatives of w. */
static void expand(work *w, int j, int k_first, int n, int backward)
{
  const mlff_aev_constants *c = &w->aev->constants;
  const split scale = split_of(c->cos_scale);
  const real fc = (real) c->angular_prefactor * w->near_fc[j], slope = (real) c->angular_prefactor * w->near_slope[j];
  w->segments[w->n_segments++] = (segment){j, k_first, n, w->n};
  for (int v = 0; v < n; v += MLFF_VLEN) {
    const int k = k_first + v, p = w->n + v;
    const vreal dot = w->ux[j] * vload(w->ux + k) + w->uy[j] * vload(w->uy + k) + w->uz[j] * vload(w->uz + k);
    const vreal fc_k = vload(w->near_fc + k);
    vstore(w->cosine + p, scale.high * dot + scale.low * dot);
    vstore(w->mean_r + p, (real) 0.5 * (w->near_r[j] + vload(w->near_r + k)));
    vstore(w->weight + p, fc * fc_k);
    if (!backward) continue;
    vstore(w->weight_j + p, slope * fc_k);
    vstore(w->weight_k + p, fc * vload(w->near_slope + k));
  }
  w->n += n;
}

/* Pads the last vector of the batch with triples of weight 0. */
static void pad_batch(work *w)
{
  real *const zeros[] = {w->cosine, w->weight, w->weight_j, w->weight_k};
  for (int k = 0; k < 4; k++) vstore(zeros[k] + w->n, vset(0));
  vstore(w->mean_r + w->n, vset(w->angular_shift[0]));
}

/* sin((theta - theta_z) / 2) */
MLFF_INLINE vreal section_sine(const work *w, int z, vreal half_cos, vreal half_sin)
{
  const vreal rest = half_sin * w->cos_low[z] - half_cos * w->sin_low[z];
  return half_sin * w->section_cos[z] - (half_cos * w->section_sin[z] - rest);
}

/* ln((1 + cos(theta - theta_z)) / 2) from that sine; finite where the argument is 0 */
MLFF_INLINE vreal section_log(vreal sine)
{
  const real most = MLFF_REAL_IS_DOUBLE ? (real) (1 - 0x1p-53) : (real) (1 - 0x1p-24);
  return vlog1m(vmin(sine * sine, vset(most)));
}

/* f1 and f2 of all triples of the batch */
static void angular_factors(work *w)
{
  const mlff_aev_constants *c = &w->aev->constants;
  const int n_sections = c->n_sections, n_angular = c->n_angular;
  const real eta = (real) c->angular_eta, zeta = (real) c->angular_zeta, half = (real) 0.5;
  real *f1 = w->f1, *f2 = w->f2;
  for (int p = 0; p < w->n; p += MLFF_VLEN) {
    const vreal cosine = vload(w->cosine + p), mean_r = vload(w->mean_r + p), weight = vload(w->weight + p);
    const vreal half_cos = vsqrt(half + half * cosine), half_sin = vsqrt(half - half * cosine);
    for (int z = 0; z < n_sections; z++, f1 += MLFF_VLEN)
      vstore(f1, vexp_or_zero(zeta * section_log(section_sine(w, z, half_cos, half_sin))));
    for (int a = 0; a < n_angular; a++, f2 += MLFF_VLEN) {
      const vreal d = mean_r - w->angular_shift[a];
      vstore(f2, weight * vexp_or_zero(-eta * d * d));
    }
  }
}

/* columns[a][z] += sum over the batch of f2[a] f1[z], for a < na and z < nz, accumulated in registers */
MLFF_INLINE void outer_tile(const int na, const int nz, const work *w, const real *f2, const real *f1, real *columns)
{
  const int n_sections = w->aev->constants.n_sections, n_angular = w->aev->constants.n_angular;
  vreal sum[4][4];
  for (int a = 0; a < na; a++)
    for (int z = 0; z < nz; z++) sum[a][z] = vset(0);
  for (int p = 0; p < w->n; p += MLFF_VLEN, f1 += n_sections * MLFF_VLEN, f2 += n_angular * MLFF_VLEN)
    for (int a = 0; a < na; a++) {
      const vreal fa = vload(f2 + a * MLFF_VLEN);
      for (int z = 0; z < nz; z++) sum[a][z] += fa * vload(f1 + z * MLFF_VLEN);
    }
  for (int a = 0; a < na; a++)
    for (int z = 0; z < nz; z++) columns[a * n_sections + z] += vsum(sum[a][z]);
}

static void angular_forward(work *w, real *columns)
{
  const int n_sections = w->aev->constants.n_sections, n_angular = w->aev->constants.n_angular;
  angular_factors(w);
  for (int a = 0; a < n_angular; a += n_angular - a >= 4 ? 4 : 1) {
    for (int z = 0; z < n_sections; z += n_sections - z >= 4 ? 4 : 1) {
      const real *f2 = w->f2 + a * MLFF_VLEN, *f1 = w->f1 + z * MLFF_VLEN;
      real *tile = columns + a * n_sections + z;
      const int na = n_angular - a >= 4, nz = n_sections - z >= 4;
      if (na && nz)
        outer_tile(4, 4, w, f2, f1, tile);
      else if (na)
        outer_tile(4, 1, w, f2, f1, tile);
      else if (nz)
        outer_tile(1, 4, w, f2, f1, tile);
      else
        outer_tile(1, 1, w, f2, f1, tile);
    }
  }
}

/* K, K cos, dE/dr_j and dE/dr_k of all triples of the batch from the gradient g[a][z] of its columns:
 *   v = sum f2 g f1,  v_r = sum df2/dr g f1,  v_t = sum f2 g df1/dtheta   (f2 without w here)
 *   K = dE/dcos = -w v_t s / sin(theta),  dE/dr_j = w v_r + dw/dr_j v,  df2/dr = -eta (m - R_a) f2,
 *   f1 = (1 - q)^zeta,  df1/dtheta = -zeta (1 - q)^(zeta-1) sin((theta - theta_z)/2) cos((theta - theta_z)/2) */
static void angular_gradients(work *w, const real *g)
{
  const mlff_aev_constants *c = &w->aev->constants;
  const int n_sections = c->n_sections, n_angular = c->n_angular;
  const real eta = (real) c->angular_eta, zeta = (real) c->angular_zeta;
  const real scale = (real) c->cos_scale, inverse_scale = (real) (1 / c->cos_scale), half = (real) 0.5;
  real *f1 = w->f1, *df1 = w->f1 + n_sections * MLFF_VLEN; /* BATCH holds at least two vectors */
  for (int p = 0; p < w->n; p += MLFF_VLEN) {
    const vreal cosine = vload(w->cosine + p), mean_r = vload(w->mean_r + p), weight = vload(w->weight + p);
    const vreal half_cos = vsqrt(half + half * cosine), half_sin = vsqrt(half - half * cosine);
    for (int z = 0; z < n_sections; z++) {
      const vreal sine = section_sine(w, z, half_cos, half_sin);
      const vreal other = half_cos * w->section_cos[z] + half_sin * w->section_sin[z]; /* cos((theta - theta_z) / 2) */
      const vreal power = vexp_or_zero((zeta - 1) * section_log(sine));
      vstore(f1 + z * MLFF_VLEN, power * (other * other));
      vstore(df1 + z * MLFF_VLEN, -zeta * power * sine * other);
    }
    vreal value = vset(0), by_r = vset(0), by_theta = vset(0);
    for (int a = 0; a < n_angular; a++) {
      vreal sum = vset(0), dsum = vset(0);
      for (int z = 0; z < n_sections; z++) {
        sum += g[a * n_sections + z] * vload(f1 + z * MLFF_VLEN);
        dsum += g[a * n_sections + z] * vload(df1 + z * MLFF_VLEN);
      }
      const vreal d = mean_r - w->angular_shift[a], f2 = vexp_or_zero(-eta * d * d);
      value += f2 * sum;
      by_r -= eta * d * f2 * sum;
      by_theta += f2 * dsum;
    }
    const vreal dE_dcos = -half * scale * weight * by_theta / (half_sin * half_cos);
    vstore(w->dE_dcos + p, dE_dcos);
    vstore(w->cos_dE_dcos + p, dE_dcos * cosine * inverse_scale);
    vstore(w->dE_dr_j + p, weight * by_r + vload(w->weight_j + p) * value);
    vstore(w->dE_dr_k + p, weight * by_r + vload(w->weight_k + p) * value);
  }
}

/* Adds a batch to the sums of its neighbors:  f_j += K u_k,  K cos  and  dE/dr_j, and likewise for k. */
static void scatter_gradients(work *w)
{
  vreal lane;
  for (int l = 0; l < MLFF_VLEN; l++) lane[l] = (real) l;
  for (int s = 0; s < w->n_segments; s++) {
    const segment row = w->segments[s];
    const int j = row.j;
    vreal fx = vset(0), fy = fx, fz = fx, sum_cos = fx, sum_dE_dr = fx;
    for (int v = 0; v < row.n; v += MLFF_VLEN) {
      const int p = row.position + v, k = row.k_first + v;
      const vmask inside = lane < (real) (row.n - v);
      const vreal dE_dcos = vselect(inside, vload(w->dE_dcos + p), vset(0));
      const vreal cos_dE_dcos = vselect(inside, vload(w->cos_dE_dcos + p), vset(0));
      fx += dE_dcos * vload(w->ux + k);
      fy += dE_dcos * vload(w->uy + k);
      fz += dE_dcos * vload(w->uz + k);
      sum_cos += cos_dE_dcos;
      sum_dE_dr += vselect(inside, vload(w->dE_dr_j + p), vset(0));
      vstore(w->fx + k, vload(w->fx + k) + dE_dcos * w->ux[j]);
      vstore(w->fy + k, vload(w->fy + k) + dE_dcos * w->uy[j]);
      vstore(w->fz + k, vload(w->fz + k) + dE_dcos * w->uz[j]);
      vstore(w->near_cos_dE_dcos + k, vload(w->near_cos_dE_dcos + k) + cos_dE_dcos);
      vstore(w->near_dE_dr + k, vload(w->near_dE_dr + k) + vselect(inside, vload(w->dE_dr_k + p), vset(0)));
    }
    w->fx[j] += vsum(fx);
    w->fy[j] += vsum(fy);
    w->fz[j] += vsum(fz);
    w->near_cos_dE_dcos[j] += vsum(sum_cos);
    w->near_dE_dr[j] += vsum(sum_dE_dr);
  }
}

/* Evaluates and empties the batch. columns: AEV block of its species pair (forward: +=) or its gradient (backward). */
static void flush(work *w, real *columns, int backward)
{
  pad_batch(w);
  if (backward) {
    angular_gradients(w, columns);
    scatter_gradients(w);
  } else {
    angular_forward(w, columns);
  }
  w->n = w->n_segments = 0;
}

/* All triples of the center, one pair of species after another. */
static void for_all_triples(work *w, real *row, int backward)
{
  const mlff_aev_constants *c = &w->aev->constants;
  const int n_used = w->aev->n_used;
  real *columns = row + n_used * c->n_radial;
  for (int t = 0; t < n_used; t++) {
    for (int u = t; u < n_used; u++, columns += c->n_angular * c->n_sections) {
      for (int j = w->first[t]; j < w->first[t + 1]; j++) {
        const int end = w->first[u + 1];
        int k = u == t ? j + 1 : w->first[u];
        while (k < end) {
          const int n = end - k < BATCH - w->n ? end - k : BATCH - w->n;
          expand(w, j, k, n, backward);
          k += n;
          if (w->n == BATCH) flush(w, columns, backward);
        }
      }
      if (w->n) flush(w, columns, backward);
    }
  }
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

mlff_status MLFF_CPU(aev_forward_cpu)(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args,
                                      mlff_error *error)
{
  work w;
  MLFF_TRY(prepare(backend, aev, args, &w, error));
  const int n_radial = aev->n_used * aev->constants.n_radial;
  for (int64_t k = 0; k < args->n_rows; k++) {
    real *row = (real *) args->rows + k * args->ld;
    load_center(&w, args->edges, args->centers[k]);
    load_near(&w);
    radial_forward(&w, row);
    memset(row + n_radial, 0, (size_t) (aev->n_columns - n_radial) * sizeof(real));
    for_all_triples(&w, row, 0);
  }
  return MLFF_OK;
}

/* dE/dD_e = dE/dr u;  for near neighbors also  + sum dE/dr u + (f - sum K cos u) / r */
static void store_gradients(const work *w, real (*grad)[4])
{
  for (int k = 0; k < w->n_edges; k++) {
    const real *v = w->vec[k], dE_dr = w->dE_dr[k] / v[3];
    for (int x = 0; x < 3; x++) grad[k][x] = dE_dr * v[x];
    grad[k][3] = 0;
  }
  for (int q = 0; q < w->n_near; q++) {
    real *g = grad[w->near_edge[q]];
    const real inverse = (real) 1 / w->near_r[q], radial = w->near_dE_dr[q] - w->near_cos_dE_dcos[q] * inverse;
    g[0] += radial * w->ux[q] + w->fx[q] * inverse;
    g[1] += radial * w->uy[q] + w->fy[q] * inverse;
    g[2] += radial * w->uz[q] + w->fz[q] * inverse;
  }
}

mlff_status MLFF_CPU(aev_backward_cpu)(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args,
                                       mlff_error *error)
{
  work w;
  MLFF_TRY(prepare(backend, aev, args, &w, error));
  const int64_t *row_start = args->edges->row.data;
  for (int64_t k = 0; k < args->n_rows; k++) {
    real *row = (real *) args->rows + k * args->ld;
    load_center(&w, args->edges, args->centers[k]);
    load_near(&w);
    radial_backward(&w, row);
    real *const sums[] = {w.fx, w.fy, w.fz, w.near_cos_dE_dcos, w.near_dE_dr};
    for (int s = 0; s < N_FORCE; s++) memset(sums[s], 0, (size_t) (w.n_near + MLFF_VLEN) * sizeof(real));
    for_all_triples(&w, row, 1);
    store_gradients(&w, (real(*)[4]) args->grad + row_start[args->centers[k]]);
  }
  return MLFF_OK;
}
