/* plain_ani.c: see plain_ani.h. */
#include "plain_ani.h"

#include <math.h>
#include <string.h>

static double fc(double r, double rc)
{
  return r < rc ? 0.5 * cos(acos(-1.0) * r / rc) + 0.5 : 0.0;
}

static double fc_slope(double r, double rc)
{
  return r < rc ? -0.5 * acos(-1.0) / rc * sin(acos(-1.0) * r / rc) : 0.0;
}

static double length(const double d[3])
{
  return sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
}

int plain_n_columns(const mlff_aev_constants *c, int n_used)
{
  return n_used * c->n_radial + n_used * (n_used + 1) / 2 * c->n_angular * c->n_sections;
}

int plain_angular_block(const mlff_aev_constants *c, int n_used, int t, int u)
{
  int block = 0;
  for (int a = 0; a < n_used; a++)
    for (int b = a; b < n_used; b++, block++)
      if ((a == t && b == u) || (a == u && b == t)) return n_used * c->n_radial + block * c->n_angular * c->n_sections;
  ck_abort_msg("no block for species %d and %d", t, u);
}

/* One pair of neighbours j, k: columns g (+=) and, when grad is not NULL, grad += sum_columns weight dg/dD. */
static void plain_triple(const mlff_aev_constants *c, const plain_star *s, int j, int k, double *g,
                         const double *weight, double (*grad)[3])
{
  const double *dj = s->d[j], *dk = s->d[k], rj = length(dj), rk = length(dk), rc = c->angular_cutoff;
  const double cosine = (dj[0] * dk[0] + dj[1] * dk[1] + dj[2] * dk[2]) / (rj * rk),
               theta = acos(c->cos_scale * cosine);
  double by_cos = 0.0, by_rj = 0.0, by_rk = 0.0;
  for (int a = 0; a < c->n_angular; a++) {
    const double m = 0.5 * (rj + rk) - c->angular_shifts[a], f2 = exp(-c->angular_eta * m * m);
    for (int z = 0; z < c->n_sections; z++) {
      const double phi = theta - c->angular_sections[z], x = 0.5 * (1.0 + cos(phi));
      const double f1 = c->angular_prefactor * pow(x, c->angular_zeta),
                   w = weight ? weight[a * c->n_sections + z] : 0.0;
      const double f1_slope = -0.5 * c->angular_prefactor * c->angular_zeta * pow(x, c->angular_zeta - 1.0) * sin(phi);
      if (g) g[a * c->n_sections + z] += f1 * f2 * fc(rj, rc) * fc(rk, rc);
      by_cos += w * f1_slope * f2 * fc(rj, rc) * fc(rk, rc) * -c->cos_scale / sin(theta);
      by_rj += w * f1 * f2 * (fc_slope(rj, rc) - c->angular_eta * m * fc(rj, rc)) * fc(rk, rc);
      by_rk += w * f1 * f2 * (fc_slope(rk, rc) - c->angular_eta * m * fc(rk, rc)) * fc(rj, rc);
    }
  }
  for (int x = 0; grad && x < 3; x++) {
    grad[j][x] += by_rj * dj[x] / rj + by_cos * (dk[x] / rk - cosine * dj[x] / rj) / rj;
    grad[k][x] += by_rk * dk[x] / rk + by_cos * (dj[x] / rj - cosine * dk[x] / rk) / rk;
  }
}

void plain_aev(const mlff_aev_constants *c, int n_used, const plain_star *s, double *g, const double *weight,
               double (*grad)[3])
{
  if (g) memset(g, 0, (size_t) plain_n_columns(c, n_used) * sizeof *g);
  if (grad) memset(grad, 0, (size_t) s->n * sizeof *grad);
  for (int j = 0; j < s->n; j++) {
    const double r = length(s->d[j]), rc = c->radial_cutoff;
    for (int q = 0; q < c->n_radial; q++) {
      const double m = r - c->radial_shifts[q], f = c->radial_prefactor * exp(-c->radial_eta * m * m);
      const int column = s->species[j] * c->n_radial + q;
      if (g) g[column] += f * fc(r, rc);
      const double slope = f * (fc_slope(r, rc) - 2.0 * c->radial_eta * m * fc(r, rc));
      for (int x = 0; grad && x < 3; x++) grad[j][x] += weight[column] * slope * s->d[j][x] / r;
    }
    for (int k = 0; k < j; k++) {
      if (length(s->d[j]) >= c->angular_cutoff || length(s->d[k]) >= c->angular_cutoff) continue;
      const int block = plain_angular_block(c, n_used, s->species[j], s->species[k]);
      plain_triple(c, s, j, k, g ? g + block : NULL, weight ? weight + block : NULL, grad);
    }
  }
}
