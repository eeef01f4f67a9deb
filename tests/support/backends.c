#include "backends.h"

#include <float.h>
#include <stdlib.h>

#if MLFF_HAVE_CUDA
#include "backend/cuda.h"
#endif

static const char *const precisions[] = {"fp32", "fp64"};
#if defined(__aarch64__)
static const char *const kernel_paths[] = {"generic", "neon", "sve256", "sve512"};
#else
static const char *const kernel_paths[] = {"generic", "avx2", "avx512"};
#endif

int n_backends(void)
{
#if MLFF_HAVE_CUDA
  static int n;
  char why[200] = "";
  if (n) return n;
  n = mlff_cuda_n_devices(why, sizeof why) > 0 ? N_CPU_BACKENDS + 2 : N_CPU_BACKENDS;
  if (n == N_CPU_BACKENDS) test_skip("the same on a GPU: %s", why);
  return n;
#else
  return N_CPU_BACKENDS;
#endif
}

const char *auto_device(void)
{
  return n_backends() > N_CPU_BACKENDS ? "cuda" : "cpu";
}

int choose_backend(int which, mlff_options *options)
{
  options->precision = precisions[which % 2];
  options->device = which < N_CPU_BACKENDS ? "cpu" : "cuda";
  options->kernels = which < N_CPU_BACKENDS ? kernel_paths[which / 2] : NULL;
  if (which >= N_CPU_BACKENDS || mlff_cpu_has_kernels(options->kernels)) return 1;
  test_skip("kernel path %s is not available here", options->kernels);
  return 0;
}

mlff_backend *open_backend(int which)
{
  mlff_error error = {0};
  mlff_options options = {0};
  mlff_backend *backend = NULL;
  if (choose_backend(which, &options))
    test_ok(mlff_backend_open(options.device, 0, options.precision, options.kernels, &backend, &error), error);
  return backend;
}

double rounding(const mlff_backend *backend)
{
  return backend->real_size == sizeof(float) ? FLT_EPSILON : DBL_EPSILON;
}

double between_kernels(int is_double)
{
  if (kernels_round_alike()) return 0;
  return is_double ? 1e-11 : 1e-4;
}

int kernels_round_alike(void)
{
#if MLFF_CUDASIM
  return 1;
#else
  return 0;
#endif
}

mlff_buf bytes_to_backend(mlff_backend *backend, const void *data, size_t bytes)
{
  mlff_error error = {0};
  mlff_buf buf = {0};
  test_ok(mlff_buf_reserve(backend, &buf, bytes, &error), error);
  test_ok(backend->ops->upload(backend, buf.data, data, bytes, &error), error);
  return buf;
}

void *bytes_from_backend(mlff_backend *backend, const void *data, size_t bytes)
{
  mlff_error error = {0};
  void *copy = malloc(bytes + 1);
  test_ok(backend->ops->download(backend, copy, data, bytes, &error), error);
  return copy;
}

mlff_buf reals_to_backend(mlff_backend *backend, const double *x, int64_t n)
{
  mlff_error error = {0};
  mlff_buf buf = {0};
  test_ok(mlff_buf_reserve(backend, &buf, (size_t) n * backend->real_size, &error), error);
  test_ok(backend->ops->upload_reals(backend, buf.data, x, n, &error), error);
  return buf;
}

double *reals_from_backend(mlff_backend *backend, const void *data, int64_t n)
{
  mlff_error error = {0};
  double *x = malloc((size_t) (n + 1) * sizeof *x);
  test_ok(backend->ops->download_reals(backend, x, data, n, &error), error);
  return x;
}

mlff_graph graph_of_list(int n, const int32_t *species, const int32_t *node, const int64_t *row, const int32_t *nbr,
                         const double (*pos)[3])
{
  return (mlff_graph){.n_local = n,
                      .n_all = n,
                      .n_nodes = n,
                      .n_pairs = row[n],
                      .list_id = 1,
                      .species = species,
                      .node = node,
                      .row = row,
                      .nbr = nbr,
                      .pos = pos};
}

void release_edges(mlff_backend *backend, mlff_edges *edges)
{
  mlff_buf *bufs[] = {&edges->row,    &edges->nbr, &edges->node, &edges->species, &edges->vec, &edges->center_species,
                      &edges->scratch};
  for (size_t k = 0; k < sizeof bufs / sizeof bufs[0]; k++) mlff_buf_release(backend, bufs[k]);
}
