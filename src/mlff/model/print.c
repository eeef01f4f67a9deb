/* print.c: the text of mlff info. */
#include "model_impl.h"

#include <math.h>
#include <string.h>

static void print_elements(const mlff_model *m, FILE *out)
{
  int n_untrained = 0;
  fprintf(out, "elements      ");
  for (int s = 0; s < m->head->n_elements; s++) {
    fprintf(out, " %s%s", m->head->elements[s], m->head->trained[s] ? "" : "*");
    n_untrained += !m->head->trained[s];
  }
  fprintf(out, "%s\n", n_untrained ? "   (* = did not occur in training)" : "");
}

/* Prints the distances of pairs of elements; nothing without the table. */
static void print_pairs(const mlff_model *m, const char *title, const double *table, FILE *out)
{
  const mlff_modelfile_head *h = m->head;
  if (!table) return;
  fprintf(out, "%s", title);
  for (int s = 0, n = 0; s < h->n_elements; s++)
    for (int t = s; t < h->n_elements; t++)
      if (table[s * h->n_elements + t] > 0)
        fprintf(out, "%s %s-%s %g", n++ ? "," : "", h->elements[s], h->elements[t], table[s * h->n_elements + t]);
  fprintf(out, " A\n");
}

/* Prints a line per center: the distance within which it had both neighbors. */
static void print_triples(const mlff_model *m, FILE *out)
{
  const mlff_modelfile_head *h = m->head;
  const ptrdiff_t n = h->n_elements;
  for (ptrdiff_t s = 0; h->triples && s < n; s++) {
    char title[64];
    snprintf(title, sizeof title, "  both near %-3s", h->elements[s]);
    if (h->trained[s]) print_pairs(m, title, h->triples + s * n * n, out);
  }
}

/* Prints the limits that the file does not state. */
static void print_unknown(const mlff_model *m, FILE *out)
{
  char missing[80];
  mlff_domain_missing(&m->info, missing, sizeof missing);
  if (*missing) fprintf(out, "  not known    %s: not in the file, so runs are not checked\n", missing);
}

static void print_traits(const mlff_model *m, FILE *out)
{
  static const struct {
    unsigned bit;
    const char *name;
  } traits[] = {{MLFF_CONSERVATIVE, "conservative forces"}, {MLFF_ROTATION_EXACT, "rotation exact"},
                {MLFF_INVERSION_EXACT, "inversion exact"},  {MLFF_SMOOTH, "smooth"},
                {MLFF_STRICTLY_LOCAL, "strictly local"},    {MLFF_NODE_ENERGIES, "atom energies"}};
  int n = 0;
  fprintf(out, "promises       ");
  for (size_t k = 0; k < sizeof traits / sizeof *traits; k++)
    if (m->info.traits & traits[k].bit) fprintf(out, "%s%s", n++ ? ", " : "", traits[k].name);
  if (!n) fprintf(out, "none: forces and stress are network outputs, not derivatives of the energy");
  fprintf(out, "\n");
}

static void print_domain(const mlff_model *m, FILE *out)
{
  const mlff_about *a = &m->file->about;
  fprintf(out, "domain         %s\n", a->domain);
  const double *temperature = m->head->temperature, *density = m->head->density;
  if (temperature) fprintf(out, "  temperature  %g to %g K\n", temperature[0], temperature[1]);
  if (density) fprintf(out, "  density      %g to %g g/cm3\n", density[0], density[1]);
  if (m->head->pressure)
    fprintf(out, "  pressure     %g to %g GPa, without its kinetic part\n", m->head->pressure[0], m->head->pressure[1]);
  if (m->head->max_force > 0) fprintf(out, "  forces       up to %g eV/A\n", m->head->max_force);
  print_pairs(m, "  shortest    ", m->head->distances, out);
  print_triples(m, out);
  print_unknown(m, out);
  fprintf(out, "  distances    at least %g A; closer atoms are an error\n", m->head->min_distance);
  fprintf(out, "accuracy       %s\n", a->accuracy);
  if (a->caution) fprintf(out, "  caution      %s\n", a->caution);
  if (!isnan(a->force_rmse)) fprintf(out, "  forces       %g meV/A (RMSE, held out)\n", a->force_rmse);
  if (!isnan(a->energy_rmse)) fprintf(out, "  energy       %g meV/atom (RMSE, held out)\n", a->energy_rmse);
  if (m->info.uncertainty_unit)
    fprintf(out, "uncertainty    of atoms, limit %g (%s)%s%s\n", m->info.uncertainty_limit, m->info.uncertainty_unit,
            m->uncertainty.description ? "; " : "", m->uncertainty.description ? m->uncertainty.description : "");
  else
    fprintf(out, "uncertainty    none: %s\n", m->info.uncertainty_why);
}

void mlff_model_print(const mlff_model *model, FILE *out)
{
  const mlff_about *a = &model->file->about;
  const mlff_info *i = &model->info;
  fprintf(out, "model          %s\n", i->name);
  if (a->description) fprintf(out, "description    %s\n", a->description);
  fprintf(out, "architecture   %s: %s\n", i->architecture, i->citation);
  print_elements(model, out);
  fprintf(out, "cutoff         %g A\n", i->cutoff);
  if (model->head->repulsion_power > 0 && !(model->head->repulsion_exponent > 0))
    fprintf(out, "repulsion      zbl below the cutoff\n");
  else if (model->head->repulsion_power > 0)
    fprintf(out, "repulsion      zbl with the constants of MACE, below sums of covalent radii\n");
  else if (model->head->repulsion_is_clamped)
    fprintf(out, "repulsion      zbl below sums of radii, with clamped distances for the network\n");
  else
    print_pairs(model, "repulsion      zbl, below", model->head->repulsion, out);
  fprintf(out, "parameters     %lld", (long long) i->n_parameters);
  if (i->n_members_of_file > 1) fprintf(out, " in %d members", i->n_members_of_file);
  fprintf(out, "\nweights        %s, sha256 %s\n", a->weights_file, i->sha256);
  fprintf(out, "header         sha256 %s%s\n", i->header_sha256,
          i->header_is_hashed ? "" : " (header not hashed: the file does not state it)");
  print_traits(model, out);
  print_domain(model, out);
  fprintf(out, "labels         %s\n", a->labels);
  fprintf(out, "data           %s (sha256 %s)\n", a->data, a->data_sha256);
  fprintf(out, "made by        %s\n", a->code);
  fprintf(out, "license        %s\n", a->license);
  fprintf(out, "cite           %s\n", a->citation);
  if (model->tests.n)
    fprintf(out, "self-test      %d structure%s, numbers from %s\n", model->tests.n, model->tests.n == 1 ? "" : "s",
            model->tests.origin);
  else
    fprintf(out, "self-test      none: the file has no structures, and nothing checks what it computes\n");
  fprintf(out, "runs on        %s, %s, kernels %s\n", i->device, i->precision, i->kernels);
}

static void print_range(const char *what, const double *range, const char *unit, FILE *out)
{
  if (range) fprintf(out, " %s %g to %g %s,", what, range[0], range[1], unit);
}

enum { MANY = 10 }; /* elements whose names are left out */

void mlff_model_print_methods(const mlff_model *model, FILE *out)
{
  const mlff_about *a = &model->file->about;
  const mlff_info *i = &model->info;
  fprintf(
      out,
      "Forces were computed with %s (weights sha256 %.12s, header sha256 %.12s), %s of architecture %s [%s] with %lld "
      "parameters and a cutoff of %g A, for",
      i->name, i->sha256, i->header_sha256, i->n_members_of_file > 1 ? "an ensemble of networks" : "a network",
      i->architecture, i->citation, (long long) i->n_parameters, i->cutoff);
  if (i->n_elements > MANY) fprintf(out, " %d elements", i->n_elements);
  for (int s = 0; s < i->n_elements && i->n_elements <= MANY; s++) fprintf(out, "%s%s", s ? ", " : " ", i->elements[s]);
  fprintf(out, ".\nLabels: %s. Data: %s.\n", a->labels, a->data);
  if (isfinite(a->force_rmse) && isfinite(a->energy_rmse))
    fprintf(out,
            "On held-out data its forces deviate from its labels by %g meV/A and its energies by %g meV/atom (RMSE).\n",
            a->force_rmse, a->energy_rmse);
  fprintf(out, "Training domain:");
  print_range("temperature", i->temperature, "K", out);
  print_range("density", i->density, "g/cm3", out);
  print_range("pressure", i->pressure, "GPa", out);
  const size_t n = strlen(a->data); /* many descriptions of the domain begin with the data */
  const char *domain = a->domain && !strncmp(a->domain, a->data, n) ? a->domain + n : a->domain;
  fprintf(out, " %s.\n", !domain ? "not stated" : *domain ? domain : "that of the data");
  if (a->caution) fprintf(out, "Known failures: %s.\n", a->caution);
  fprintf(out, "Publications: %s. Licence of the model: %s.\n", a->citation, a->license);
}
