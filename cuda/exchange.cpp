/* exchange.cpp: exchange of node features with other ranks, by GPU-aware MPI or through pinned host memory. Twin:
 * src/mlff/backend/cpu/backend_cpu.c. */
#include "backend_cuda.h"

#include <cstdint>
#include <cstdlib>

/* ---- GPU-aware MPI ----------------------------------------------------------------------------------------------- */

/* Tells the simulator that MPI accesses device memory. */
static void allow_mpi_access(int allow)
{
#if MLFF_CUDASIM
  cudasim_allow_host_access(allow);
#else
  (void) allow;
#endif
}

static mlff_status direct_begin(mlff_cuda_backend *cuda, const mlff_exchange_args *a, mlff_error *error)
{
  mlff_backend *backend = &cuda->base;
  const mlff_halo *halo = a->halo;
  const size_t n = (size_t) halo->n_sent, row_bytes = (size_t) a->width * backend->real_size;
  MLFF_TRY(mlff_buf_reserve(backend, &cuda->sent, (n + 1) * sizeof *halo->sent, error));
  MLFF_TRY(mlff_buf_reserve(backend, &cuda->packed, n * row_bytes + 1, error));
  if (cuda->sent_list_id != a->edges->list_id || !cuda->sent_list_id) {
    cuda->sent_list_id = 0;
    MLFF_TRY(mlff_cuda_upload(backend, cuda->sent.data, halo->sent, n * sizeof *halo->sent, error));
    MLFF_TRY(mlff_cuda_wait(cuda, error)); /* the caller may change the list afterwards */
    cuda->sent_list_id = a->edges->list_id;
  }
  (backend->real_size == sizeof(double) ? mlff_cuda_pack_rows_f64
                                        : mlff_cuda_pack_rows_f32)(backend, a->rows, (const int32_t *) cuda->sent.data,
                                                                   halo->n_sent, a->width, cuda->packed.data);
  return mlff_cuda_check(cuda, cudaEventRecord(cuda->rows_ready, cuda->stream), "cudaEventRecord", error);
}

/* Sends zeros after a failure of the device, because other ranks wait for a message. */
static void send_nothing(const mlff_exchange_args *a, size_t row_bytes)
{
  void *zeros = calloc((size_t) a->edges->n_nodes + 1, row_bytes);
  if (zeros) a->halo->forward(a->halo->context, zeros, row_bytes, NULL);
  free(zeros);
}

/* Meanwhile the stream computes interior atoms, which are not exchanged. */
static mlff_status direct_finish(mlff_cuda_backend *cuda, const mlff_exchange_args *a, mlff_error *error)
{
  const mlff_halo *halo = a->halo;
  const size_t row_bytes = (size_t) a->width * cuda->base.real_size;
  if (cuda->base.forecast) { /* arrays may be too small */
    send_nothing(a, row_bytes);
    return MLFF_OK;
  }
  mlff_status status = mlff_cuda_status(cuda, error);
  if (!status && cuda->packed.capacity < (size_t) halo->n_sent * row_bytes + 1)
    status = mlff_fail(error, MLFF_E_NOMEM, "out of memory: rows of a halo exchange");
  if (!status) status = mlff_cuda_check(cuda, cudaEventSynchronize(cuda->rows_ready), "waiting for features", error);
  if (status) {
    send_nothing(a, row_bytes);
    return status;
  }
  allow_mpi_access(1);
  status = halo->forward_device(halo->context, cuda->packed.data,
                                (char *) a->rows + (size_t) a->edges->n_local * row_bytes, row_bytes, error);
  allow_mpi_access(0);
  return status;
}

/* ---- pinned host memory ------------------------------------------------------------------------------------------ */

/* Address of row 0. Pinned memory begins with the first row that is not interior. */
static char *pinned_rows(const mlff_cuda_backend *cuda, const mlff_exchange_args *a, size_t row_bytes)
{
  return (char *) ((uintptr_t) cuda->rows.data - (uintptr_t) a->edges->n_interior * row_bytes);
}

static mlff_status make_event(mlff_cuda_backend *cuda, mlff_error *error)
{
  if (cuda->rows_ready) return MLFF_OK;
  return mlff_cuda_check(cuda, cudaEventCreateWithFlags(&cuda->rows_ready, cudaEventDisableTiming), "cudaEventCreate",
                         error);
}

static mlff_status pin_rows(mlff_cuda_backend *cuda, size_t bytes, mlff_error *error)
{
  if (bytes <= cuda->rows.bytes) return MLFF_OK;
  MLFF_TRY(mlff_cuda_wait(cuda, error)); /* an upload of the last exchange may be in flight */
  return mlff_cuda_pin(&cuda->base, &cuda->rows, bytes, error);
}

/* Enqueues the download of the rows for other ranks. */
mlff_status exchange_begin_cuda(mlff_backend *backend, const mlff_exchange_args *a, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  const mlff_edges *edges = a->edges;
  const size_t row_bytes = (size_t) a->width * backend->real_size;
  const size_t first = (size_t) edges->n_interior, n_sent = (size_t) edges->n_local - first;
  if (!a->halo) return MLFF_OK;
  const mlff_cuda_exchange_pause pause(cuda);
  MLFF_TRY(mlff_cuda_status(cuda, error));
  MLFF_TRY(make_event(cuda, error));
  if (a->halo->forward_device) return direct_begin(cuda, a, error);
  MLFF_TRY(pin_rows(cuda, ((size_t) edges->n_nodes - first) * row_bytes + 1, error));
  if (n_sent)
    MLFF_TRY(mlff_cuda_download(cuda, cuda->rows.data, (const char *) a->rows + first * row_bytes, n_sent * row_bytes,
                                error));
  return mlff_cuda_check(cuda, cudaEventRecord(cuda->rows_ready, cuda->stream), "cudaEventRecord", error);
}

/* Nothing to do: the device runs asynchronously. */
void exchange_progress_cuda(mlff_backend *backend, const mlff_exchange_args *a)
{
  (void) backend, (void) a;
}

/* The stream runs the work enqueued since begin while the host waits and communicates. Calls the halo even after a
 * failure of the device, so that no rank waits for this one. */
mlff_status exchange_finish_cuda(mlff_backend *backend, const mlff_exchange_args *a, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  const mlff_edges *edges = a->edges;
  const size_t row_bytes = (size_t) a->width * backend->real_size, first = (size_t) edges->n_local;
  if (!a->halo) return MLFF_OK;
  const mlff_cuda_exchange_pause pause(cuda);
  if (a->halo->forward_device) return direct_finish(cuda, a, error);
  if (((size_t) edges->n_nodes - (size_t) edges->n_interior) * row_bytes + 1 > cuda->rows.bytes)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory: rows of a halo exchange");
  mlff_status status = mlff_cuda_status(cuda, error);
  if (!status) status = mlff_cuda_check(cuda, cudaEventSynchronize(cuda->rows_ready), "waiting for features", error);
  char *rows = pinned_rows(cuda, a, row_bytes);
  const mlff_status exchanged = a->halo->forward(a->halo->context, rows, row_bytes, status ? NULL : error);
  if (status) return status;
  if (exchanged) return exchanged;
  return mlff_cuda_upload(backend, (char *) a->rows + first * row_bytes, rows + first * row_bytes,
                          ((size_t) edges->n_nodes - first) * row_bytes, error);
}

/* Sums rows over ranks: downloads all rows, calls the halo, uploads them. */
mlff_status exchange_sum_cuda(mlff_backend *backend, const mlff_halo *halo, void *rows, int64_t n_nodes, int64_t width,
                              mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  const size_t bytes = (size_t) n_nodes * (size_t) width * backend->real_size;
  if (!halo) return MLFF_OK;
  const mlff_cuda_exchange_pause pause(cuda);
  mlff_status status = pin_rows(cuda, bytes + 1, error);
  if (bytes + 1 > cuda->rows.bytes) return status;
  if (!status) status = mlff_cuda_status(cuda, error);
  if (!status && bytes) status = mlff_cuda_download(cuda, cuda->rows.data, rows, bytes, error);
  if (!status) status = mlff_cuda_wait(cuda, error);
  const mlff_status exchanged =
      halo->reverse(halo->context, cuda->rows.data, (int) width, backend->real_size, status ? NULL : error);
  if (status) return status;
  if (exchanged) return exchanged;
  return mlff_cuda_upload(backend, rows, cuda->rows.data, bytes, error);
}
