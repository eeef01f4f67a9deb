/* aev.c: the linear map between gradients by environment vectors and forces and virials, for training ensembles of ANI networks on
 * a CPU; compiled on first use by cpu_ani.py with -DM=members -DNR=radial shells -DNS=angular shells -DNZ=sections.
 *
 * With the AEV A_i(x) of atom i and a gradient G = dE/dA of each member m, pull gives
 *   F_k = - sum_i (dA_i/dx_k)^T G_i                    F [N][3][M] from G [N][length][M],
 *   W_ab = sum_i (dA_i/d strain_ab)^T G_i              W [3][3][M], of the positions' strain x_b += x_a s_ab,
 * and push, its adjoint, gives for weights X of the forces and Y of W
 *   G_i = - sum_k (dA_i/dx_k) X_k + sum_ab (dA_i/d strain_ab) Y_ab.
 * Both add to what is there. d[e] is the part of edge e: dE/d(x_j - x_i), or X_i - X_j + (x_j - x_i) Y in push. All
 * formulas are those of networks.Ani.prepare, and of networks.clamp for close pairs. One call does one frame.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define NA (NS * NZ)

typedef struct constants {
  float radial_cutoff, radial_eta, radial_prefactor, radial_shifts[NR];
  float angular_cutoff, angular_eta, zeta, cos_scale, angular_prefactor, angular_shifts[NS], cos_z[NZ], sin_z[NZ];
  int32_t n_species, length;
} constants;

typedef struct frame {
  int64_t n_edges, n_triples;
  const int32_t *i, *j, *species; /* [n_edges] [n_edges] [n_atoms] */
  const float (*vector)[3];       /* [n_edges] r_ij */
  const float (*seen)[3];         /* the same with clamped lengths, which the network gets */
  const float *slope;             /* derivatives of these lengths, 1 where they are the own ones */
  const int32_t *a, *b;           /* [n_triples] edges */
} frame;

typedef struct edge {
  float u[3], r, fc, dfc;
} edge;

static int pair_index(int s, int t, int n)
{
  const int low = s < t ? s : t, high = s < t ? t : s;
  return low * n - low * (low - 1) / 2 + high - low;
}

static void cosine(float r, float cutoff, float *fc, float *dfc)
{
  const float x = (float) M_PI * fminf(r / cutoff, 1.0f);
  *fc = 0.5f * (1.0f + cosf(x));
  *dfc = -0.5f * (float) M_PI / cutoff * sinf(x);
}

static void radial(const constants *c, const frame *f, int push, float (*g)[M], float (*d)[3][M], edge *edges)
{
  for (int64_t e = 0; e < f->n_edges; e++) {
    const float *v = f->seen[e];
    const float r = sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    float fc, dfc, slope[NR], along[M] = {0};
    edge *s = &edges[e];
    s->r = r;
    for (int k = 0; k < 3; k++) s->u[k] = v[k] / r;
    cosine(r, c->angular_cutoff, &s->fc, &s->dfc);
    cosine(r, c->radial_cutoff, &fc, &dfc);
    for (int k = 0; k < NR; k++) {
      const float x = r - c->radial_shifts[k];
      slope[k] = c->radial_prefactor * expf(-c->radial_eta * x * x) * (dfc - 2.0f * c->radial_eta * x * fc);
    }
    float(*block)[M] = g + (int64_t) f->i[e] * c->length + f->species[f->j[e]] * NR;
    if (push) {
      for (int k = 0; k < 3; k++)
        for (int m = 0; m < M; m++) along[m] += s->u[k] * d[e][k][m];
      for (int k = 0; k < NR; k++)
        for (int m = 0; m < M; m++) block[k][m] += slope[k] * along[m];
    } else {
      for (int k = 0; k < NR; k++)
        for (int m = 0; m < M; m++) along[m] += slope[k] * block[k][m];
      for (int k = 0; k < 3; k++)
        for (int m = 0; m < M; m++) d[e][k][m] += s->u[k] * along[m];
    }
  }
}

/* Coefficients of a triple: value along u_a, along u_b, and along the turn of the angle, [NA] each. */
static void coefficients(const constants *c, const edge *p, const edge *q, float cosine_of, float *along_a,
                         float *along_b, float *turn)
{
  const float ca = c->cos_scale * cosine_of, sa = sqrtf(1.0f - ca * ca);
  float f1[NZ], df1[NZ];
  for (int z = 0; z < NZ; z++) {
    const float half = fmaxf(0.5f * (1.0f + ca * c->cos_z[z] + sa * c->sin_z[z]), 1e-12f);
    const float sine = sa * c->cos_z[z] - ca * c->sin_z[z];
    const float power = expf((c->zeta - 1.0f) * logf(half));
    f1[z] = c->angular_prefactor * power * half;
    df1[z] = 0.5f * c->angular_prefactor * c->zeta * power * sine * c->cos_scale / sa;
  }
  for (int s = 0; s < NS; s++) {
    const float x = 0.5f * (p->r + q->r) - c->angular_shifts[s];
    const float f2 = expf(-c->angular_eta * x * x), df2 = -c->angular_eta * x * f2, both = p->fc * q->fc;
    for (int z = 0; z < NZ; z++) {
      const int k = s * NZ + z;
      along_a[k] = df2 * f1[z] * both + f2 * f1[z] * p->dfc * q->fc;
      along_b[k] = df2 * f1[z] * both + f2 * f1[z] * p->fc * q->dfc;
      turn[k] = f2 * df1[z] * both;
    }
  }
}

static void angular(const constants *c, const frame *f, int push, float (*g)[M], float (*d)[3][M], const edge *edges)
{
  for (int64_t t = 0; t < f->n_triples; t++) {
    const int32_t a = f->a[t], b = f->b[t];
    const edge *p = &edges[a], *q = &edges[b];
    const float cos_ab = p->u[0] * q->u[0] + p->u[1] * q->u[1] + p->u[2] * q->u[2];
    float wa[NA], wb[NA], wt[NA], ta[3], tb[3], xa[M] = {0}, xb[M] = {0}, xt[M] = {0};
    coefficients(c, p, q, cos_ab, wa, wb, wt);
    for (int k = 0; k < 3; k++) {
      ta[k] = (q->u[k] - cos_ab * p->u[k]) / p->r;
      tb[k] = (p->u[k] - cos_ab * q->u[k]) / q->r;
    }
    float(*block)[M] = g + (int64_t) f->i[a] * c->length + c->n_species * NR +
                       NA * pair_index(f->species[f->j[a]], f->species[f->j[b]], c->n_species);
    if (push) {
      for (int k = 0; k < 3; k++)
        for (int m = 0; m < M; m++) {
          xa[m] += p->u[k] * d[a][k][m];
          xb[m] += q->u[k] * d[b][k][m];
          xt[m] += ta[k] * d[a][k][m] + tb[k] * d[b][k][m];
        }
      for (int k = 0; k < NA; k++)
        for (int m = 0; m < M; m++) block[k][m] += wa[k] * xa[m] + wb[k] * xb[m] + wt[k] * xt[m];
    } else {
      for (int k = 0; k < NA; k++)
        for (int m = 0; m < M; m++) {
          xa[m] += wa[k] * block[k][m];
          xb[m] += wb[k] * block[k][m];
          xt[m] += wt[k] * block[k][m];
        }
      for (int k = 0; k < 3; k++)
        for (int m = 0; m < M; m++) {
          d[a][k][m] += p->u[k] * xa[m] + ta[k] * xt[m];
          d[b][k][m] += q->u[k] * xb[m] + tb[k] * xt[m];
        }
    }
  }
}

/* d of edge e by r_ij from that by the vector that the network gets, and of a change the other way: this map is
 * symmetric. */
static void own(const frame *f, int64_t e, float (*d)[M])
{
  const float *v = f->vector[e], *s = f->seen[e], slope = f->slope[e];
  if (slope == 1.0f) return;
  const float r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
  const float scale = sqrtf((s[0] * s[0] + s[1] * s[1] + s[2] * s[2]) / r2);
  for (int m = 0; m < M; m++) {
    const float along = (slope - scale) * (v[0] * d[0][m] + v[1] * d[1][m] + v[2] * d[2][m]) / r2;
    for (int k = 0; k < 3; k++) d[k][m] = scale * d[k][m] + along * v[k];
  }
}

/* scratch: [n_edges] edge, then d [n_edges][3][M]; see SCRATCH in cpu_ani.py. */
void aev_pull(const constants *c, const frame *f, float (*g)[M], float (*force)[3][M], float (*virial)[3][M],
              void *scratch)
{
  edge *edges = scratch;
  float(*d)[3][M] = (float(*)[3][M])(edges + f->n_edges);
  memset(d, 0, (size_t) f->n_edges * sizeof *d);
  radial(c, f, 0, g, d, edges);
  angular(c, f, 0, g, d, edges);
  for (int64_t e = 0; e < f->n_edges; e++) {
    own(f, e, d[e]);
    for (int k = 0; k < 3; k++)
      for (int m = 0; m < M; m++) {
        force[f->i[e]][k][m] += d[e][k][m];
        force[f->j[e]][k][m] -= d[e][k][m];
        for (int a = 0; a < 3; a++) virial[a][k][m] += f->vector[e][a] * d[e][k][m];
      }
  }
}

void aev_push(const constants *c, const frame *f, float (*g)[M], float (*x)[3][M], float (*y)[3][M], void *scratch)
{
  edge *edges = scratch;
  float(*d)[3][M] = (float(*)[3][M])(edges + f->n_edges);
  for (int64_t e = 0; e < f->n_edges; e++) {
    for (int k = 0; k < 3; k++)
      for (int m = 0; m < M; m++) {
        d[e][k][m] = x[f->i[e]][k][m] - x[f->j[e]][k][m];
        for (int a = 0; a < 3; a++) d[e][k][m] += f->vector[e][a] * y[a][k][m];
      }
    own(f, e, d[e]);
  }
  radial(c, f, 1, g, d, edges);
  angular(c, f, 1, g, d, edges);
}
