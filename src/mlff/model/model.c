/* model.c: opens a model: file + architecture + backend. */
#define _POSIX_C_SOURCE 200809L

#include "../backend/tables.h"
#include "model_impl.h"
#include "spans.h"
#include "spline.h"

#include "../../base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading files ---------------------------------------------------------------------------------------------- */

/* Opens a regular file. Others are errors, because opening a pipe would block. */
static mlff_status open_file(const char *path, FILE **file, struct stat *about, mlff_error *error)
{
  const int number = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (number < 0) return mlff_fail(error, MLFF_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
  const int is_file = !fstat(number, about) && S_ISREG(about->st_mode);
  *file = is_file ? fdopen(number, "rb") : NULL;
  if (*file) return MLFF_OK;
  close(number);
  return mlff_fail(error, MLFF_E_IO, "%s: is not a file", path);
}

static mlff_status read_whole(const char *path, size_t limit, void **data, size_t *size, mlff_error *error)
{
  struct stat about;
  FILE *file;
  MLFF_TRY(open_file(path, &file, &about, error));
  if ((uint64_t) about.st_size > limit) {
    fclose(file);
    return mlff_fail(error, MLFF_E_FORMAT, "%s: has %lld bytes, at most %zu are allowed", path,
                     (long long) about.st_size, limit);
  }
  const size_t n = (size_t) about.st_size;
  char *buffer = malloc(n + 1);
  const size_t got = buffer ? fread(buffer, 1, n, file) : 0;
  fclose(file);
  if (!buffer) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory for %zu bytes", path, n);
  if (got != n) {
    free(buffer);
    return mlff_fail(error, MLFF_E_IO, "%s: only %zu of %zu bytes could be read", path, got, n);
  }
  buffer[n] = 0;
  *data = buffer;
  *size = n;
  return MLFF_OK;
}

mlff_status mlff_model_read(const char *path, char **yaml, size_t *yaml_size, void **weights, size_t *weights_size,
                            mlff_error *error)
{
  const size_t max_weights = (size_t) 1 << 36;
  void *text = NULL;
  char *name = NULL;
  size_t text_size = 0;
  if (!path || !yaml || !yaml_size || !weights || !weights_size)
    return mlff_fail(error, MLFF_E_ARG, "mlff_model_read: an argument is NULL");
  const char *ending = strrchr(path, '.');
  if (ending && !strcmp(ending, ".safetensors"))
    return mlff_fail(error, MLFF_E_ARG, "%s: these are weights; give the model file (.yaml) in the same folder", path);
  MLFF_TRY(read_whole(path, MLFF_YAML_MAX_BYTES, &text, &text_size, error));
  mlff_status status = mlff_modelfile_weights_name(path, text, text_size, &name, error);
  if (!status) status = read_whole(name, max_weights, weights, weights_size, error);
  free(name);
  if (status) {
    free(text);
  } else {
    *yaml = text;
    *yaml_size = text_size;
  }
  return status;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void list_names(const char *const *names, int n, char *text, size_t size)
{
  size_t length = 0;
  text[0] = 0;
  for (int k = 0; k < n && length + 1 < size; k++) {
    const int wrote = snprintf(text + length, size - length, "%s%s", k ? " " : "", names[k]);
    length += wrote > 0 ? (size_t) wrote : 0;
  }
}

static mlff_status find_arch(mlff_model *m, mlff_error *error)
{
  char known[256] = "";
  for (int k = 0; mlff_archs[k]; k++) {
    const size_t length = strlen(known);
    if (!strcmp(mlff_archs[k]->name, m->head->architecture)) m->arch = mlff_archs[k];
    snprintf(known + length, sizeof known - length, "%s%s", k ? ", " : "", mlff_archs[k]->name);
  }
  if (m->arch) return MLFF_OK;
  return mlff_yaml_fail(m->file, mlff_yaml_find(m->file->root, "architecture"), error,
                        "'%.40s' is not in this build; available: %s", m->head->architecture, known);
}

static mlff_status choose_species(mlff_model *m, const mlff_options *options, mlff_error *error)
{
  const int n = m->head->n_elements;
  m->use = calloc((size_t) n, sizeof *m->use);
  if (!m->use) return mlff_fail(error, MLFF_E_NOMEM, "out of memory");
  if (!options || !options->elements) {
    for (int s = 0; s < n; s++) m->use[s] = 1;
    return MLFF_OK;
  }
  if (options->n_elements < 0) return mlff_fail(error, MLFF_E_ARG, "options: n_elements is %d", options->n_elements);
  for (int k = 0; k < options->n_elements; k++) {
    const char *wanted = options->elements[k];
    int s = 0;
    while (s < n && (!wanted || strcmp(m->head->elements[s], wanted))) s++;
    if (s == n) {
      char known[512];
      list_names(m->head->elements, n, known, sizeof known);
      return mlff_fail(error, MLFF_E_ARG, "%s: element '%.20s' is not in the model, which has: %s [mlff-25]",
                       m->file->path, wanted ? wanted : "NULL", known);
    }
    m->use[s] = 1;
  }
  return MLFF_OK;
}

static void fill_info(mlff_model *m)
{
  const mlff_modelfile_head *h = m->head;
  const int width = m->arch->exchange_width ? m->arch->exchange_width(m->net) : 0;
  const int reverse_width = m->arch->reverse_width ? m->arch->reverse_width(m->net) : 0;
  int n_of_file = 1;
  const int n_members = m->arch->n_members ? m->arch->n_members(m->net, &n_of_file) : 1;
  m->scale = h->energy_in_ev;
  m->info = (mlff_info){.name = h->name,
                        .architecture = m->arch->name,
                        .citation = m->arch->citation,
                        .sha256 = h->sha256,
                        .device = strncmp(m->backend->name, "cpu", 3) ? "cuda" : "cpu",
                        .device_number = m->backend->number,
                        .device_id = m->backend->device_id,
                        .device_why = m->backend->why,
                        .precision = m->backend->precision,
                        .kernels = m->backend->kernels,
                        .traits = m->arch->traits(m->net),
                        .cutoff = h->cutoff,
                        .n_elements = h->n_elements,
                        .elements = h->elements,
                        .trained = h->trained,
                        .n_members = n_members,
                        .n_members_of_file = n_of_file,
                        .n_parameters = mlff_modelfile_n_parameters(m->file),
                        .exchange_width = width * (int) m->backend->real_size,
                        .reverse_width = reverse_width,
                        .temperature = h->temperature,
                        .density = h->density,
                        .distances = h->distances              ? h->distances
                                     : h->repulsion_is_clamped ? h->repulsion
                                                               : NULL,
                        .distances_are_cutoffs = !h->distances && h->repulsion_is_clamped,
                        .pressure = h->pressure,
                        .triples = h->triples,
                        .max_force = h->max_force,
                        .header_sha256 = h->header_sha256,
                        .header_is_hashed = h->header_is_hashed,
                        .caution = m->file->about.caution,
                        .n_self_tests = m->tests.n,
                        .model_citation = m->file->about.citation,
                        .license = m->file->about.license};
}

/* Option radial_intervals: 0 is auto. */
static mlff_status read_intervals(mlff_model *m, const mlff_options *options, mlff_error *error)
{
  const char *text = options ? options->radial_intervals : NULL;
  int64_t value = 0;
  if (!text || !strcmp(text, "auto")) return MLFF_OK;
  if (!m->arch->has_tables)
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "%s: radial_intervals %.40s: %s models have no radial table",
                     m->file->path, text, m->arch->name);
  if (!mlff_integer_parse(text, &value) || value < 1 || value > MLFF_SPLINE_MAX)
    return mlff_fail(error, MLFF_E_ARG, "radial_intervals is %.40s, expected auto or 1 to %d", text,
                     (int) MLFF_SPLINE_MAX);
  m->radial_intervals = (int) value;
  return MLFF_OK;
}

static mlff_status open_parts(mlff_model *m, const mlff_options *options, mlff_error *error)
{
  m->head = mlff_modelfile_get_head(m->file);
  MLFF_TRY(mlff_options_check(options, error));
  MLFF_TRY(find_arch(m, error));
  MLFF_TRY(choose_species(m, options, error));
  MLFF_TRY(mlff_selftest_read(m->file, &m->tests, error));
  MLFF_TRY(mlff_backend_open(options ? options->device : NULL, options ? options->local_rank : 0,
                             options ? options->precision : NULL, options ? options->kernels : NULL, &m->backend,
                             error));
  if (!mlff_option_is_on(options ? options->fuse : NULL)) {
    mlff_ops_fill_unfused(&m->unfused, m->backend->ops);
    m->backend->ops = &m->unfused;
  }
  const char *members = options ? options->members : NULL;
  if (members && strcmp(members, "all") && !m->arch->n_members)
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "%s: members %.40s: %s models are not ensembles", m->file->path,
                     members, m->arch->name);
  MLFF_TRY(read_intervals(m, options, error));
  const mlff_species_use use = {.n_species = m->head->n_elements,
                                .use = m->use,
                                .members = members,
                                .radial_intervals = m->radial_intervals};
  MLFF_TRY(m->arch->create(m->file, m->backend, &use, &m->net, error));
  fill_info(m);
  MLFF_TRY(mlff_uncertainty_open(m, error));
  MLFF_TRY(mlff_modelfile_finish(m->file, error));
  MLFF_TRY(mlff_repulsion_open(m, error));
  mlff_replay_open(m, options);
  m->own_bytes = m->backend->memory.bytes;
  if (!options || !options->skip_self_test) MLFF_TRY(mlff_selftest_run_all(m, error));
  m->without_offsets = !mlff_option_is_on(options ? options->e0 : NULL);
  mlff_replay_restart(m);
  m->file->weights = NULL; /* owned by the caller */
  return MLFF_OK;
}

mlff_status mlff_model_open_memory(const char *path, const char *yaml, size_t yaml_size, const void *weights,
                                   size_t weights_size, const mlff_options *options, mlff_model **model,
                                   mlff_error *error)
{
  if (!path || !yaml || !weights || !model) return mlff_fail(error, MLFF_E_ARG, "mlff_model_open: an argument is NULL");
  mlff_model *m = calloc(1, sizeof *m);
  if (!m) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", path);
  mlff_status status = mlff_modelfile_parse(path, yaml, yaml_size, weights, weights_size, &m->file, error);
  if (!status) status = open_parts(m, options, error);
  if (status)
    mlff_model_close(m);
  else
    *model = m;
  return status;
}

mlff_status mlff_model_open(const char *path, const mlff_options *options, mlff_model **model, mlff_error *error)
{
  char *yaml = NULL;
  void *weights = NULL;
  size_t yaml_size = 0, weights_size = 0;
  if (!path || !model) return mlff_fail(error, MLFF_E_ARG, "mlff_model_open: an argument is NULL");
  mlff_status status = mlff_model_read(path, &yaml, &yaml_size, &weights, &weights_size, error);
  if (!status) status = mlff_model_open_memory(path, yaml, yaml_size, weights, weights_size, options, model, error);
  free(yaml);
  free(weights);
  return status;
}

static void release_edges(mlff_backend *backend, mlff_edges *edges)
{
  mlff_buf *const buffers[] = {&edges->row,     &edges->nbr, &edges->node,
                               &edges->species, &edges->vec, &edges->center_species,
                               &edges->scratch};
  for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++) mlff_buf_release(backend, buffers[k]);
}

void mlff_model_close(mlff_model *model)
{
  if (!model) return;
  mlff_spans_free(model->spans, model->backend);
  if (model->arch) model->arch->destroy(model->net);
  if (model->backend) {
    release_edges(model->backend, &model->edges);
    mlff_repulsion_close(model);
    mlff_uncertainty_close(model);
    mlff_backend_close(model->backend);
  }
  mlff_modelfile_free(model->file);
  free(model->use);
  free(model->host);
  free(model->host_view.data);
  free(model);
}

const mlff_info *mlff_model_info(const mlff_model *model)
{
  return &model->info;
}

mlff_memory mlff_model_memory(const mlff_model *model)
{
  mlff_memory memory = model->backend->memory;
  const size_t host_bytes = model->host_capacity * sizeof *model->host + model->host_view.capacity;
  memory.bytes += host_bytes;
  memory.peak_bytes += host_bytes;
  memory.n_growths += (int64_t) (model->n_host_growths + model->host_view.n_growths);
  return memory;
}
