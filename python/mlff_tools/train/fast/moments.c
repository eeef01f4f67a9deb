/* moments.c: moments of the neighbors of atoms and polynomials of them, for training `mace` networks of one layer on a
 * CPU; compiled on first use by cpu_mace.py with -DK=radial functions -DM=(lmax + 1)^2 -DC=channels -DP=invariants.
 *
 *   D_i[s][n][lm] = sum over neighbors j of element s of phi_n(r_ij) Y_lm(u_ij),  u_ij = (x_j - x_i)/r_ij
 *
 * moments makes D. pull gives dE/d(x_j - x_i) of each edge from G = dE/dD, and push its adjoint, the change of D when
 * the vectors of the edges change by d:
 *   pull: g_e = sum G_i[s][n][lm] d(phi_n Y_lm)/d(vector)         push: D'_i[s][n][lm] += d(phi_n Y_lm)/d(vector) . d_e
 * Y are the harmonics of mlff_nequip_harmonics (ops_math.h).
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct edges {
  int64_t n_atoms, n_species, n_knots;
  const int64_t *row;         /* [n_atoms + 1] */
  const int32_t *nbr;         /* [n_edges] */
  const int64_t *species;     /* [n_atoms] */
  const float (*vector)[3];   /* [n_edges] */
  const float (*table)[2][K]; /* [n_knots + 1]: phi_n, and its slope times the distance of knots */
  float spacing;              /* of the knots */
} edges;

typedef struct edge {
  float r, u[3], phi[K], dphi[K], y[M], dy[3][M];
} edge;

/* Y_lm(u), and the derivatives of these polynomials by u */
static void harmonics(const float u[3], float y[16], float d[3][16])
{
  const float a = u[0], b = u[1], c = u[2], aa = a * a, bb = b * b, cc = c * c;
  const float r3 = 1.7320508f, r5 = 2.2360680f, r15 = 3.8729833f, r7 = 2.6457513f, r105 = 10.2469508f, p = 2.0916501f,
              q = 1.6201852f;
  const float values[16] = {1,
                            r3 * a,
                            r3 * b,
                            r3 * c,
                            r15 * a * c,
                            r15 * a * b,
                            r5 * (bb - 0.5f * (aa + cc)),
                            r15 * b * c,
                            0.5f * r15 * (cc - aa),
                            p * a * (3 * cc - aa),
                            r105 * a * b * c,
                            q * a * (4 * bb - aa - cc),
                            0.5f * r7 * b * (2 * bb - 3 * (aa + cc)),
                            q * c * (4 * bb - aa - cc),
                            0.5f * r105 * b * (cc - aa),
                            p * c * (cc - 3 * aa)};
  const float slopes[3][16] = {{0, r3, 0, 0, r15 * c, r15 * b, -r5 * a, 0, -r15 * a, 3 * p * (cc - aa), r105 * b * c,
                                q * (4 * bb - 3 * aa - cc), -3 * r7 * a * b, -2 * q * a * c, -r105 * a * b,
                                -6 * p * a * c},
                               {0, 0, r3, 0, 0, r15 * a, 2 * r5 * b, r15 * c, 0, 0, r105 * a * c, 8 * q * a * b,
                                1.5f * r7 * (2 * bb - aa - cc), 8 * q * b * c, 0.5f * r105 * (cc - aa), 0},
                               {0, 0, 0, r3, r15 * a, 0, -r5 * c, r15 * b, r15 * c, 6 * p * a * c, r105 * a * b,
                                -2 * q * a * c, -3 * r7 * b * c, q * (4 * bb - aa - 3 * cc), r105 * b * c,
                                3 * p * (cc - aa)}};
  memcpy(y, values, sizeof values);
  memcpy(d, slopes, sizeof slopes);
}

static void make_edge(const edges *in, int64_t e, edge *out)
{
  const float *v = in->vector[e];
  float y[16], d[3][16];
  out->r = sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
  for (int k = 0; k < 3; k++) out->u[k] = v[k] / out->r;
  harmonics(out->u, y, d);
  memcpy(out->y, y, sizeof out->y);
  for (int m = 0; m < M; m++) {
    const float along = out->u[0] * d[0][m] + out->u[1] * d[1][m] + out->u[2] * d[2][m];
    for (int k = 0; k < 3; k++) out->dy[k][m] = (d[k][m] - out->u[k] * along) / out->r;
  }
  const float t = out->r / in->spacing;
  if (!(t < (float) in->n_knots)) {
    memset(out->phi, 0, sizeof out->phi);
    memset(out->dphi, 0, sizeof out->dphi);
    return;
  }
  const int64_t knot = (int64_t) t;
  const float x = t - (float) knot, z = 1 - x, slope = 1 / in->spacing;
  const float *p0 = in->table[knot][0], *m0 = in->table[knot][1], *p1 = in->table[knot + 1][0],
              *m1 = in->table[knot + 1][1];
  const float a = (1 + 2 * x) * z * z, b = x * z * z, c = x * x * (3 - 2 * x), d1 = -x * x * z;
  const float da = 6 * x * (x - 1), db = z * (1 - 3 * x), dd = x * (3 * x - 2);
  for (int n = 0; n < K; n++) {
    out->phi[n] = a * p0[n] + b * m0[n] + c * p1[n] + d1 * m1[n];
    out->dphi[n] = slope * (da * (p0[n] - p1[n]) + db * m0[n] + dd * m1[n]);
  }
}

void moments(const edges *in, float *moment)
{
  edge e;
  for (int64_t i = 0; i < in->n_atoms; i++)
    for (int64_t k = in->row[i]; k < in->row[i + 1]; k++) {
      make_edge(in, k, &e);
      float(*d)[M] = (float(*)[M])(moment + (i * in->n_species + in->species[in->nbr[k]]) * K * M);
      for (int n = 0; n < K; n++)
        for (int m = 0; m < M; m++) d[n][m] += e.phi[n] * e.y[m];
    }
}

void pull(const edges *in, const float *gradient, float (*out)[3])
{
  edge e;
  for (int64_t i = 0; i < in->n_atoms; i++)
    for (int64_t k = in->row[i]; k < in->row[i + 1]; k++) {
      make_edge(in, k, &e);
      const float(*g)[M] = (const float(*)[M])(gradient + (i * in->n_species + in->species[in->nbr[k]]) * K * M);
      float along = 0, angular[M] = {0}, radial[M] = {0};
      for (int n = 0; n < K; n++)
        for (int m = 0; m < M; m++) {
          angular[m] += e.phi[n] * g[n][m];
          radial[m] += e.dphi[n] * g[n][m];
        }
      for (int m = 0; m < M; m++) along += radial[m] * e.y[m];
      for (int x = 0; x < 3; x++) {
        out[k][x] = along * e.u[x];
        for (int m = 0; m < M; m++) out[k][x] += angular[m] * e.dy[x][m];
      }
    }
}

void push(const edges *in, const float (*change)[3], float *moment)
{
  edge e;
  for (int64_t i = 0; i < in->n_atoms; i++)
    for (int64_t k = in->row[i]; k < in->row[i + 1]; k++) {
      make_edge(in, k, &e);
      const float *v = change[k];
      float(*d)[M] = (float(*)[M])(moment + (i * in->n_species + in->species[in->nbr[k]]) * K * M);
      const float along = v[0] * e.u[0] + v[1] * e.u[1] + v[2] * e.u[2];
      float turn[M], stretch[M];
      for (int m = 0; m < M; m++) {
        turn[m] = v[0] * e.dy[0][m] + v[1] * e.dy[1][m] + v[2] * e.dy[2][m];
        stretch[m] = along * e.y[m];
      }
      for (int n = 0; n < K; n++)
        for (int m = 0; m < M; m++) d[n][m] += e.phi[n] * turn[m] + e.dphi[n] * stretch[m];
    }
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

/* Rows of the invariants: I_p = sum of value a_i (a_j (a_k)); the factors that are missing have index M. */
typedef struct terms {
  int64_t n;
  const int32_t (*index)[4]; /* [n]: i, j, k, p */
  const float *value;        /* [n] */
} terms;

typedef float channels[C];

/* out[c] = sum_p w[p][c] I_p, and out_dot its change along a_dot; a, a_dot [M + 1][C] of one atom, whose last row is
 * one, and zero. */
static void invariants(const terms *t, const channels *a, const channels *a_dot, channels *v, channels *v_dot)
{
  memset(v, 0, P * sizeof *v);
  if (a_dot) memset(v_dot, 0, P * sizeof *v);
  for (int64_t q = 0; q < t->n; q++) {
    const int32_t *x = t->index[q];
    const float s = t->value[q], *ai = a[x[0]], *aj = a[x[1]], *ak = a[x[2]];
    for (int c = 0; c < C; c++) v[x[3]][c] += s * ai[c] * aj[c] * ak[c];
    if (!a_dot) continue;
    const float *di = a_dot[x[0]], *dj = a_dot[x[1]], *dk = a_dot[x[2]];
    for (int c = 0; c < C; c++) v_dot[x[3]][c] += s * (di[c] * aj[c] * ak[c] + ai[c] * (dj[c] * ak[c] + aj[c] * dk[c]));
  }
}

static void load(const float *a, int64_t i, int64_t n_atoms, float last, channels *out)
{
  for (int m = 0; m < M; m++) memcpy(out[m], a + (m * n_atoms + i) * C, sizeof *out);
  for (int c = 0; c < C; c++) out[M][c] = last;
}

static void store(float *a, int64_t i, int64_t n_atoms, const channels *in)
{
  for (int m = 0; m < M; m++) memcpy(a + (m * n_atoms + i) * C, in[m], sizeof *in);
}

/* a, a_dot [M][n_atoms][C], w [n_species][P][C]; out, out_dot [n_atoms][C]. a_dot may be NULL. */
void product(const terms *t, int64_t n_atoms, const int64_t *species, const float *a, const float *a_dot,
             const float *w, channels *out, channels *out_dot)
{
  channels x[M + 1], x_dot[M + 1], v[P], v_dot[P];
  for (int64_t i = 0; i < n_atoms; i++) {
    load(a, i, n_atoms, 1, x);
    if (a_dot) load(a_dot, i, n_atoms, 0, x_dot);
    invariants(t, x, a_dot ? x_dot : NULL, v, v_dot);
    const channels *wi = (const channels *) w + species[i] * P;
    memset(out[i], 0, sizeof *out);
    if (a_dot) memset(out_dot[i], 0, sizeof *out);
    for (int p = 0; p < P; p++)
      for (int c = 0; c < C; c++) {
        out[i][c] += wi[p][c] * v[p][c];
        if (a_dot) out_dot[i][c] += wi[p][c] * v_dot[p][c];
      }
  }
}

/* Adjoints of product from g and g_dot of its outputs: g_a, g_a_dot (=), g_w (+=). a_dot, g_dot, g_a_dot NULL together;
 * g_w may be NULL. */
void product_backward(const terms *t, int64_t n_atoms, const int64_t *species, const float *a, const float *a_dot,
                      const float *w, const channels *g, const channels *g_dot, float *g_a, float *g_a_dot, float *g_w)
{
  channels x[M + 1], x_dot[M + 1], v[P], v_dot[P], gx[M + 1], gx_dot[M + 1], u[P], u_dot[P];
  for (int64_t i = 0; i < n_atoms; i++) {
    const channels *wi = (const channels *) w + species[i] * P;
    load(a, i, n_atoms, 1, x);
    if (a_dot) load(a_dot, i, n_atoms, 0, x_dot);
    memset(gx, 0, sizeof gx);
    memset(gx_dot, 0, sizeof gx_dot);
    for (int p = 0; p < P; p++)
      for (int c = 0; c < C; c++) {
        u[p][c] = wi[p][c] * g[i][c];
        u_dot[p][c] = a_dot ? wi[p][c] * g_dot[i][c] : 0;
      }
    for (int64_t q = 0; q < t->n; q++) {
      const int32_t *z = t->index[q];
      const float s = t->value[q], *ai = x[z[0]], *aj = x[z[1]], *ak = x[z[2]], *up = u[z[3]], *ud = u_dot[z[3]];
      float *gi = gx[z[0]], *gj = gx[z[1]], *gk = gx[z[2]];
      for (int c = 0; c < C; c++) gi[c] += s * up[c] * aj[c] * ak[c];
      for (int c = 0; c < C; c++) gj[c] += s * up[c] * ai[c] * ak[c];
      for (int c = 0; c < C; c++) gk[c] += s * up[c] * ai[c] * aj[c];
      if (!a_dot) continue;
      const float *di = x_dot[z[0]], *dj = x_dot[z[1]], *dk = x_dot[z[2]];
      float *hi = gx_dot[z[0]], *hj = gx_dot[z[1]], *hk = gx_dot[z[2]];
      for (int c = 0; c < C; c++) gi[c] += s * ud[c] * (dj[c] * ak[c] + aj[c] * dk[c]);
      for (int c = 0; c < C; c++) gj[c] += s * ud[c] * (di[c] * ak[c] + ai[c] * dk[c]);
      for (int c = 0; c < C; c++) gk[c] += s * ud[c] * (di[c] * aj[c] + ai[c] * dj[c]);
      for (int c = 0; c < C; c++) hi[c] += s * ud[c] * aj[c] * ak[c];
      for (int c = 0; c < C; c++) hj[c] += s * ud[c] * ai[c] * ak[c];
      for (int c = 0; c < C; c++) hk[c] += s * ud[c] * ai[c] * aj[c];
    }
    store(g_a, i, n_atoms, gx);
    if (a_dot) store(g_a_dot, i, n_atoms, gx_dot);
    if (!g_w) continue;
    invariants(t, x, a_dot ? x_dot : NULL, v, v_dot);
    channels *gw = (channels *) g_w + species[i] * P;
    for (int p = 0; p < P; p++)
      for (int c = 0; c < C; c++) gw[p][c] += g[i][c] * v[p][c] + (a_dot ? g_dot[i][c] * v_dot[p][c] : 0);
  }
}
