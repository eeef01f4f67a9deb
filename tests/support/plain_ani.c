/* plain_ani.c: see plain_ani.h. */
#include "plain_ani.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* One pair of neighbors j, k: columns g (+=) and, when grad is not NULL, grad += sum_columns weight dg/dD. */
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

/* ---- whole models --------------------------------------------------------------------------------------------- */

mlff_modelfile *plain_parse(const test_model *model)
{
  mlff_modelfile *file = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_modelfile_parse("test.yaml", model->yaml, model->yaml_size, model->weights, model->weights_size, &file,
                               &error),
          error);
  return file;
}

static double number(const mlff_modelfile *file, const mlff_yaml *map, const char *key)
{
  double value = NAN;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_double(file, map, key, -1e9, 1e9, &value, &error), error);
  return value;
}

static const double *numbers_of(const mlff_modelfile *file, const mlff_yaml *map, const char *key, int *n)
{
  const double *values = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_doubles(file, map, key, -1, &values, n, &error), error);
  return values;
}

static const mlff_yaml *child(const mlff_modelfile *file, const mlff_yaml *map, const char *key)
{
  const mlff_yaml *node = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_map(file, map, key, &node, &error), error);
  return node;
}

static mlff_aev_constants constants_of(const mlff_modelfile *file)
{
  const mlff_yaml *ani = child(file, mlff_modelfile_root(file), "ani");
  const mlff_yaml *r = child(file, ani, "radial"), *a = child(file, ani, "angular");
  mlff_aev_constants c = {.radial_cutoff = number(file, r, "cutoff"),
                          .radial_eta = number(file, r, "eta"),
                          .radial_prefactor = number(file, r, "prefactor"),
                          .angular_cutoff = number(file, a, "cutoff"),
                          .angular_eta = number(file, a, "eta"),
                          .angular_zeta = number(file, a, "zeta"),
                          .angular_prefactor = number(file, a, "prefactor"),
                          .cos_scale = number(file, a, "cos_scale")};
  c.radial_shifts = numbers_of(file, r, "shifts", &c.n_radial);
  c.angular_shifts = numbers_of(file, a, "shifts", &c.n_angular);
  c.angular_sections = numbers_of(file, a, "sections", &c.n_sections);
  return c;
}

/* One member's energy of one atom: layers from the file, CELU between them. */
static double plain_network(const mlff_modelfile *file, int member, const char *element, const double *aev)
{
  const mlff_yaml *ani = child(file, mlff_modelfile_root(file), "ani");
  const double alpha = number(file, child(file, ani, "activation"), "alpha");
  double x[512], y[512];
  int n_dims;
  const double *dims = numbers_of(file, child(file, ani, "dims"), element, &n_dims);
  ck_assert_int_le((int) dims[0], 512);
  memcpy(x, aev, (size_t) dims[0] * sizeof *x);
  for (int l = 0; l + 1 < n_dims; l++) {
    const int n_in = (int) dims[l], n_out = (int) dims[l + 1];
    const int64_t shape[2] = {n_out, n_in};
    char name[96];
    double *weight = NULL, *bias = NULL;
    mlff_error error = {.code = MLFF_OK};
    snprintf(name, sizeof name, "member.%d.%s.%d.weight", member, element, l);
    test_ok(mlff_modelfile_tensor(file, name, 2, shape, &weight, &error), error);
    snprintf(name, sizeof name, "member.%d.%s.%d.bias", member, element, l);
    test_ok(mlff_modelfile_tensor(file, name, 1, shape, &bias, &error), error);
    for (int o = 0; o < n_out; o++) {
      y[o] = bias[o];
      for (int k = 0; k < n_in; k++) y[o] += weight[o * n_in + k] * x[k];
      if (l + 2 < n_dims && y[o] < 0) y[o] = alpha * expm1(y[o] / alpha);
    }
    memcpy(x, y, (size_t) n_out * sizeof *x);
    free(weight);
    free(bias);
  }
  return x[0];
}

void plain_ani_energies(const test_model *model, const test_atoms *atoms, int n_members, double *energy)
{
  mlff_modelfile *file = plain_parse(model);
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  const mlff_aev_constants c = constants_of(file);
  mlff_system *system = test_system(atoms, head->cutoff);
  const mlff_graph *g = mlff_system_graph(system);
  double aev[512];
  ck_assert_int_le(plain_n_columns(&c, head->n_elements), 512);
  for (int i = 0; i < atoms->n; i++) {
    plain_star s = {.n = (int) (g->row[i + 1] - g->row[i])};
    s.d = malloc((size_t) (s.n + 1) * sizeof *s.d);
    s.species = malloc((size_t) (s.n + 1) * sizeof *s.species);
    for (int k = 0; k < s.n; k++) {
      const int32_t j = g->nbr[g->row[i] + k];
      s.species[k] = g->species[j];
      for (int x = 0; x < 3; x++) s.d[k][x] = g->pos[j][x] - g->pos[i][x];
    }
    plain_aev(&c, head->n_elements, &s, aev, NULL, NULL);
    for (int m = 0; m < n_members; m++)
      energy[m * atoms->n + i] = plain_network(file, m, head->elements[atoms->species[i]], aev);
    free(s.d);
    free(s.species);
  }
  mlff_system_free(system);
  mlff_modelfile_free(file);
}
