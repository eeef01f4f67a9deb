/* watch.c: checks structures against the domain of a model (mlff_watch.h).
 *
 * The two nearest neighbors of each element suffice for every atom: the nearest one is the shortest pair, and both are
 * the triple whose farther end is closest. The check is one loop over pairs and a short one over elements.
 */
#include "mlff/mlff_watch.h"

#include "../graph/graph.h"
#include "../errors.h"
#include "model_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Margins of the limits. Temperatures fluctuate by T sqrt(2/(3N)); half-step velocities and thermostats deviate by some
 * per cent, and boxes under pressure fluctuate. Runs that are longer or larger than the training data have slightly
 * closer pairs and larger forces. FAR excludes structures that no such run visits. */
static const double SLACK = 0.02, DEVIATIONS = 4.0, CLOSER = 0.95, FAR = 0.75, LARGER = 1.25;

static const double AT_REST = 1.0; /* K: below it velocities have not been set */

enum { CHECKS = 10 }; /* averaged for a mean */

/* Successive temperatures are correlated. Half of their variance is that of the total energy (harmonic: kinetic and
 * potential energy have the same heat capacity), which a thermostat of relaxation time t forgets as exp(-dt/t). A mean
 * of ten with a check every dt has variance INEFFICIENCY / 10 of a single one for t = 1.7 dt: 0.17 ps with steps of
 * 1 fs. */
static const double INEFFICIENCY = 2.0;

typedef struct mean {
  double values[CHECKS];
  int64_t n;
} mean;

typedef struct nearest {
  double square[2]; /* A^2, of the nearest and the second neighbor of an element; infinity = none */
  int32_t atom[2];
} nearest;

/* Worst finding: squared distance over squared limit, and its atoms, the center of a triple first. */
typedef struct worst {
  double ratio;
  int32_t atoms[3];
} worst;

struct mlff_watch {
  const mlff_info *info;
  char every[48]; /* "every 100 steps" */
  nearest *near;  /* [n_elements] of one atom */
  int32_t *met;   /* [n_elements] elements among its neighbors */
  mean temperature, density, pressure;
  unsigned said; /* bits of mlff_watched */
  mlff_watch_counts counts;
};

/* ---- life ------------------------------------------------------------------------------------------------------- */

mlff_status mlff_watch_create(const mlff_info *info, int every, const char *unit, mlff_watch **watch, mlff_error *error)
{
  mlff_watch *w = calloc(1, sizeof *w);
  const size_t n = (size_t) info->n_elements;
  if (w) w->near = malloc(n * sizeof *w->near);
  if (w) w->met = malloc(n * sizeof *w->met);
  if (!w || !w->near || !w->met) {
    mlff_watch_free(w);
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the domain of %s", info->name);
  }
  w->info = info;
  snprintf(w->every, sizeof w->every, "every %d %s", every, unit);
  for (size_t s = 0; s < n; s++) w->near[s] = (nearest){{INFINITY, INFINITY}, {-1, -1}};
  *watch = w;
  return MLFF_OK;
}

void mlff_watch_free(mlff_watch *watch)
{
  if (!watch) return;
  free(watch->near);
  free(watch->met);
  free(watch);
}

void mlff_watch_begin(mlff_watch *watch)
{
  watch->temperature.n = watch->density.n = watch->pressure.n = 0;
  watch->said = 0;
}

int mlff_watch_has(const mlff_watch *watch, mlff_watched kind)
{
  const mlff_info *i = watch->info;
  switch (kind) {
  case MLFF_WATCHED_TEMPERATURE: return i->temperature != NULL;
  case MLFF_WATCHED_DENSITY: return i->density != NULL;
  case MLFF_WATCHED_PRESSURE: return i->pressure != NULL;
  case MLFF_WATCHED_FORCE: return i->max_force > 0;
  case MLFF_WATCHED_UNCERTAINTY: return i->uncertainty_unit != NULL;
  case MLFF_WATCHED_DISTANCE:
  case MLFF_WATCHED_PAIR: return i->distances != NULL;
  case MLFF_WATCHED_TRIPLE: return i->triples != NULL;
  default: return 0;
  }
}

const char *mlff_watched_name(int kind)
{
  static const char *const all[] = {"temperature", "density", "pressure", "pair",
                                    "distance",    "triple",  "force",    "uncertainty"};
  return kind >= 0 && kind < MLFF_N_WATCHED ? all[kind] : NULL;
}

mlff_watch_counts mlff_watch_count(const mlff_watch *watch)
{
  return watch->counts;
}

/* ---- atoms ------------------------------------------------------------------------------------------------------ */

/* Stores the nearest neighbors of atom i in w->near; returns the number of their elements. */
static int find_nearest(mlff_watch *w, const mlff_graph *g, int32_t i)
{
  const double *x = g->pos[i];
  int n_met = 0;
  for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
    const int32_t j = g->nbr[p], t = g->species[j];
    if (t < 0) continue;
    nearest *near = &w->near[t];
    const double dx = g->pos[j][0] - x[0], dy = g->pos[j][1] - x[1], dz = g->pos[j][2] - x[2];
    const double square = dx * dx + dy * dy + dz * dz;
    if (!(square < near->square[1])) continue;
    if (near->atom[0] < 0) w->met[n_met++] = t;
    const int is_first = square < near->square[0];
    near->square[1] = is_first ? near->square[0] : square;
    near->atom[1] = is_first ? near->atom[0] : j;
    if (is_first) near->square[0] = square;
    if (is_first) near->atom[0] = j;
  }
  return n_met;
}

static void keep(worst *least, double ratio, int32_t i, int32_t j, int32_t k)
{
  if (ratio < least->ratio) *least = (worst){ratio, {i, j, k}};
}

/* Checks the pairs of atom i, and the triples whose pairs occur in the training data. */
static void compare(const mlff_watch *w, int32_t i, int s, int n_met, worst found[MLFF_N_WATCHED])
{
  const mlff_info *info = w->info;
  const int n = info->n_elements;
  const double *pairs = info->distances + (ptrdiff_t) s * n, cutoff = info->cutoff,
               *triples = info->triples ? info->triples + (ptrdiff_t) s * n * n : NULL;
  for (int a = 0; a < n_met; a++) {
    const int t = w->met[a];
    const nearest *one = &w->near[t];
    if (!info->trained[t]) continue;
    const double limit = pairs[t] > 0 ? pairs[t] : cutoff;
    keep(&found[pairs[t] > 0 ? MLFF_WATCHED_DISTANCE : MLFF_WATCHED_PAIR], one->square[0] / (limit * limit), i,
         one->atom[0], -1);
    for (int b = 0; triples && pairs[t] > 0 && b <= a; b++) {
      const int u = w->met[b];
      const nearest *other = &w->near[u];
      if (!(pairs[u] > 0)) continue;
      const double square = a == b ? one->square[1] : fmax(one->square[0], other->square[0]);
      const double r = triples[t * n + u] > 0 ? triples[t * n + u] : cutoff;
      keep(&found[MLFF_WATCHED_TRIPLE], square / (r * r), i, one->atom[0], a == b ? one->atom[1] : other->atom[0]);
    }
  }
}

static void say(mlff_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(mlff_finding *finding, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(finding->text, sizeof finding->text, format, args);
  va_end(args);
}

/* Sorts two atoms by species, then by name, so that the text is the same on any rank. */
static void order(const mlff_graph *g, int32_t *first, int32_t *second)
{
  char one[MLFF_NAME], other[MLFF_NAME];
  const int s = g->species[*first], t = g->species[*second];
  if (s < t || (s == t && strcmp(mlff_atom_name(g, *first, one), mlff_atom_name(g, *second, other)) <= 0)) return;
  const int32_t i = *first;
  *first = *second;
  *second = i;
}

static void say_pair(const mlff_watch *w, const mlff_graph *g, worst found, int is_known, mlff_finding *finding)
{
  const mlff_info *info = w->info;
  char one[MLFF_NAME], other[MLFF_NAME];
  order(g, &found.atoms[0], &found.atoms[1]);
  const int s = g->species[found.atoms[0]], t = g->species[found.atoms[1]];
  const double limit = is_known ? info->distances[s * info->n_elements + t] : info->cutoff;
  say(finding, "%s-%s distance %.4g A (%s, %s) is below %.4g A, %s", info->elements[s], info->elements[t],
      limit * sqrt(found.ratio), mlff_atom_name(g, found.atoms[0], one), mlff_atom_name(g, found.atoms[1], other),
      limit,
      !is_known                     ? "the cutoff, within which there was no such pair"
      : info->distances_are_cutoffs ? "the cutoff of the repulsion, which replaces the pairs that are missing"
                                    : "the shortest one");
}

static void say_triple(const mlff_watch *w, const mlff_graph *g, worst found, mlff_finding *finding)
{
  const mlff_info *info = w->info;
  char centre[MLFF_NAME], one[MLFF_NAME], other[MLFF_NAME];
  const ptrdiff_t n = info->n_elements;
  order(g, &found.atoms[1], &found.atoms[2]);
  const int s = g->species[found.atoms[0]], t = g->species[found.atoms[1]], u = g->species[found.atoms[2]];
  const double known = info->triples[(s * n + t) * n + u], limit = known > 0 ? known : info->cutoff;
  say(finding, "%s-%s-%s with both ends within %.4g A (center %s, ends %s, %s) is below %.4g A, %s", info->elements[t],
      info->elements[s], info->elements[u], limit * sqrt(found.ratio), mlff_atom_name(g, found.atoms[0], centre),
      mlff_atom_name(g, found.atoms[1], one), mlff_atom_name(g, found.atoms[2], other), limit,
      known > 0 ? "the smallest one" : "the cutoff, within which there was no such triple");
}

static void look_at_distances(mlff_watch *w, const mlff_graph *g, mlff_finding found[MLFF_N_WATCHED])
{
  worst least[MLFF_N_WATCHED];
  for (int k = 0; k < MLFF_N_WATCHED; k++) least[k] = (worst){INFINITY, {-1, -1, -1}};
  for (int32_t i = 0; i < g->n_local; i++) {
    const int s = g->species[i];
    if (s < 0 || !w->info->trained[s]) continue;
    const int n_met = find_nearest(w, g, i);
    compare(w, i, s, n_met, least);
    for (int k = 0; k < n_met; k++) w->near[w->met[k]] = (nearest){{INFINITY, INFINITY}, {-1, -1}};
  }
  for (int k = MLFF_WATCHED_PAIR; k <= MLFF_WATCHED_TRIPLE; k++) {
    found[k].excess = CLOSER / sqrt(least[k].ratio);
    if (!(found[k].excess > 1)) continue;
    if (k == MLFF_WATCHED_TRIPLE)
      say_triple(w, g, least[k], &found[k]);
    else
      say_pair(w, g, least[k], k == MLFF_WATCHED_DISTANCE, &found[k]);
  }
}

static void look_at_forces(const mlff_watch *w, const mlff_graph *g, const double (*forces)[3], mlff_finding *finding)
{
  double square = 0;
  int32_t most = -1;
  char text[MLFF_NAME];
  for (int32_t i = 0; i < g->n_local; i++) {
    const double *f = forces[i], square_i = f[0] * f[0] + f[1] * f[1] + f[2] * f[2];
    if (g->species[i] < 0 || !(square_i > square)) continue;
    square = square_i;
    most = i;
  }
  finding->excess = sqrt(square) / (LARGER * w->info->max_force);
  if (finding->excess > 1)
    say(finding, "force %.4g eV/A on %s (%s) is above %.4g eV/A, the largest one", sqrt(square),
        mlff_atom_name(g, most, text), w->info->elements[g->species[most]], w->info->max_force);
}

static void look_at_uncertainty(const mlff_watch *w, const mlff_graph *g, const double *u, mlff_finding *finding)
{
  int32_t most = -1;
  char text[MLFF_NAME];
  for (int32_t i = 0; i < g->n_local; i++)
    if (g->species[i] >= 0 && (most < 0 || u[i] > u[most])) most = i;
  if (most < 0) return;
  finding->excess = u[most] / w->info->uncertainty_limit;
  if (finding->excess > 1)
    say(finding, "uncertainty %.4g (%s) of %s (%s) is above %.4g, the limit", u[most], w->info->uncertainty_unit,
        mlff_atom_name(g, most, text), w->info->elements[g->species[most]], w->info->uncertainty_limit);
}

void mlff_watch_atoms(mlff_watch *watch, const mlff_graph *graph, const double (*forces)[3], const double *uncertainty,
                      mlff_finding found[MLFF_N_WATCHED])
{
  for (int k = 0; k < MLFF_N_WATCHED; k++) {
    found[k].excess = 0;
    found[k].verdict = MLFF_VERDICT_NONE;
    found[k].text[0] = '\0';
  }
  if (watch->info->distances) look_at_distances(watch, graph, found);
  if (forces && watch->info->max_force > 0) look_at_forces(watch, graph, forces, &found[MLFF_WATCHED_FORCE]);
  if (uncertainty && watch->info->uncertainty_unit)
    look_at_uncertainty(watch, graph, uncertainty, &found[MLFF_WATCHED_UNCERTAINTY]);
}

/* ---- the whole system: means, because all of it fluctuates ------------------------------------------------------ */

/* Adds a sample unless it is NaN. Returns whether the mean is complete. */
static int mean_add(mean *m, double sample, double *value)
{
  if (isnan(sample)) return 0;
  m->values[m->n++ % CHECKS] = sample;
  const int n = m->n < CHECKS ? (int) m->n : CHECKS;
  double sum = 0;
  for (int k = 0; k < n; k++) sum += m->values[k];
  *value = sum / n;
  return m->n >= CHECKS;
}

/* below, above: margins of the range. */
static void judge_range(const double range[2], double value, double below, double above, mlff_finding *finding)
{
  const int is_inside = value >= range[0] - below && value <= range[1] + above;
  finding->excess = is_inside ? 0.5 : 2.0;
}

static void look_at_temperature(mlff_watch *w, const mlff_watch_system *s, mlff_finding *finding)
{
  double value = NAN;
  const double *range = w->info->temperature, deviation = sqrt(2.0 / s->n_free * INEFFICIENCY / CHECKS),
               margin = SLACK + DEVIATIONS * deviation;
  if (!(s->temperature > AT_REST) || !mean_add(&w->temperature, s->temperature, &value)) return;
  judge_range(range, value, margin * range[0], margin * range[1], finding);
  say(finding, "temperature %.4g K (mean of %d checks, %s) is outside of %g to %g K", value, CHECKS, w->every, range[0],
      range[1]);
}

static void look_at_density(mlff_watch *w, const mlff_watch_system *s, mlff_finding *finding)
{
  char averaged[96] = "";
  double value = NAN;
  const double *range = w->info->density;
  const int is_full = mean_add(&w->density, s->density, &value);
  if (!s->box_changes) value = s->density;
  if (isnan(value) || (s->box_changes && !is_full)) return;
  if (s->box_changes) snprintf(averaged, sizeof averaged, " (mean of %d checks, %s)", CHECKS, w->every);
  judge_range(range, value, SLACK * range[0], SLACK * range[1], finding);
  say(finding, "density %.4g g/cm3%s is outside of %g to %g g/cm3", value, averaged, range[0], range[1]);
}

static void look_at_pressure(mlff_watch *w, const mlff_watch_system *s, mlff_finding *finding)
{
  double value = NAN;
  const double *range = w->info->pressure,
               slack = SLACK * fmax(range[1] - range[0], fmax(fabs(range[0]), fabs(range[1])));
  if (!mean_add(&w->pressure, s->pressure, &value)) return;
  judge_range(range, value, slack, slack, finding);
  say(finding, "pressure %.4g GPa without its kinetic part (mean of %d checks, %s) is outside of %g to %g GPa", value,
      CHECKS, w->every, range[0], range[1]);
}

void mlff_watch_state(mlff_watch *watch, const mlff_watch_system *system, mlff_finding found[MLFF_N_WATCHED])
{
  if (watch->info->temperature) look_at_temperature(watch, system, &found[MLFF_WATCHED_TEMPERATURE]);
  if (watch->info->density) look_at_density(watch, system, &found[MLFF_WATCHED_DENSITY]);
  if (watch->info->pressure) look_at_pressure(watch, system, &found[MLFF_WATCHED_PRESSURE]);
}

/* ---- verdicts --------------------------------------------------------------------------------------------------- */

void mlff_watch_judge(mlff_watch *watch, int is_first, mlff_finding found[MLFF_N_WATCHED])
{
  watch->counts.n_checks++;
  for (int k = 0; k < MLFF_N_WATCHED; k++) {
    const unsigned bit = 1u << k;
    const int is_outside = found[k].excess > 1, is_new = !(watch->said & bit);
    const int is_grave = k == MLFF_WATCHED_PAIR || (k == MLFF_WATCHED_DISTANCE && found[k].excess > CLOSER / FAR);
    found[k].verdict = !is_outside || !is_new ? MLFF_VERDICT_NONE
                       : is_first && is_grave ? MLFF_VERDICT_STOP
                                              : MLFF_VERDICT_WARN;
    watch->counts.n_outside[k] += is_outside;
    if (is_outside) watch->said |= bit;
  }
}

/* ---- in one line ------------------------------------------------------------------------------------------------ */

static void add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t size, const char *format, ...)
{
  const size_t n = strlen(text);
  va_list args;
  va_start(args, format);
  if (n < size) vsnprintf(text + n, size - n, format, args);
  va_end(args);
}

static int count_pairs(const mlff_info *info)
{
  int n_pairs = 0;
  for (int s = 0; s < info->n_elements; s++)
    for (int t = s; t < info->n_elements; t++) n_pairs += info->distances[s * info->n_elements + t] > 0;
  return n_pairs;
}

static int count_triples(const mlff_info *info)
{
  const int n = info->n_elements;
  int n_triples = 0;
  for (int s = 0; s < n; s++)
    for (int t = 0; t < n; t++)
      for (int u = t; u < n; u++) n_triples += info->triples[((ptrdiff_t) s * n + t) * n + u] > 0;
  return n_triples;
}

static int knows_pairs(const mlff_info *info)
{
  return info->distances && !info->distances_are_cutoffs;
}

void mlff_domain_missing(const mlff_info *info, char *text, size_t size)
{
  const char *const missing[] = {info->temperature ? NULL : "temperature", info->density ? NULL : "density",
                                 info->pressure ? NULL : "pressure",       info->max_force > 0 ? NULL : "largest force",
                                 knows_pairs(info) ? NULL : "pairs",       info->triples ? NULL : "triples"};
  text[0] = '\0';
  for (size_t k = 0; k < sizeof missing / sizeof *missing; k++)
    if (missing[k]) add(text, size, "%s%s", *text ? ", " : "", missing[k]);
}

void mlff_domain_text(const mlff_info *info, char *text, size_t size)
{
  const double *t = info->temperature, *d = info->density, *p = info->pressure;
  char missing[80];
  mlff_domain_missing(info, missing, sizeof missing);
  text[0] = '\0';
  if (t) add(text, size, "%g to %g K, ", t[0], t[1]);
  if (d) add(text, size, "%g to %g g/cm3, ", d[0], d[1]);
  if (p) add(text, size, "%g to %g GPa, ", p[0], p[1]);
  if (info->max_force > 0) add(text, size, "forces up to %g eV/A, ", info->max_force);
  if (knows_pairs(info)) add(text, size, "%d pairs of elements, ", count_pairs(info));
  if (info->triples) add(text, size, "%d triples, ", count_triples(info));
  const size_t n = strlen(text);
  if (n >= 2) text[n - 2] = '\0';
  if (*missing) add(text, size, "%snot known: %s", n ? "; " : "", missing);
}
