/* exchange.cpp: features on their way to other ranks and back: from the memory of the GPU, or through pinned memory of
 * the host. Twin: src/mlff/backend/cpu/backend_cpu.c. */
#include "backend_cuda.h"

#include <cstdint>
#include <cstdlib>

/* ---- exchange: by MPI that takes the memory of the GPU ----------------------------------------------------------- */

/* Others touch device memory; the simulator has to know. */
static void let_others_in(int come)
{
#if MLFF_CUDASIM
  cudasim_let_others_in(come);
#else
  (void) come;
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
    MLFF_TRY(mlff_cuda_wait(cuda, error)); /* the list may change as soon as this returns */
    cuda->sent_list_id = a->edges->list_id;
  }
  (backend->real_size == sizeof(double) ? mlff_cuda_pack_rows_f64
                                        : mlff_cuda_pack_rows_f32)(backend, a->rows, (const int32_t *) cuda->sent.data,
                                                                   halo->n_sent, a->width, cuda->packed.data);
  return mlff_cuda_check(cuda, cudaEventRecord(cuda->rows_are_there, cuda->stream), "cudaEventRecord", error);
}

/* A device that has failed has nothing to send, and other ranks wait for something. */
static void send_nothing(const mlff_exchange_args *a, size_t row_bytes)
{
  void *zeros = calloc((size_t) a->edges->n_nodes + 1, row_bytes);
  if (zeros) a->halo->forward(a->halo->context, zeros, row_bytes, NULL);
  free(zeros);
}

/* The stream goes on with interior atoms meanwhile: they are neither sent nor fetched. */
static mlff_status direct_finish(mlff_cuda_backend *cuda, const mlff_exchange_args *a, mlff_error *error)
{
  const mlff_halo *halo = a->halo;
  const size_t row_bytes = (size_t) a->width * cuda->base.real_size;
  mlff_status status = cuda->base.forecast ? MLFF_E_NOMEM : mlff_cuda_status(cuda, error);
  if (!status && cuda->packed.capacity < (size_t) halo->n_sent * row_bytes + 1)
    status = mlff_fail(error, MLFF_E_NOMEM, "out of memory for a halo exchange");
  if (!status)
    status = mlff_cuda_check(cuda, cudaEventSynchronize(cuda->rows_are_there), "waiting for features", error);
  if (status) {
    send_nothing(a, row_bytes);
    return cuda->base.forecast ? MLFF_OK : status;
  }
  let_others_in(1);
  status = halo->forward_device(halo->context, cuda->packed.data,
                                (char *) a->rows + (size_t) a->edges->n_local * row_bytes, row_bytes, error);
  let_others_in(0);
  return status;
}

/* ---- exchange: through pinned memory ----------------------------------------------------------------------------- */

/* Where row 0 would be: what is pinned begins with that of the first atom that is not interior. */
static char *pinned_rows(const mlff_cuda_backend *cuda, const mlff_exchange_args *a, size_t row_bytes)
{
  return (char *) ((uintptr_t) cuda->rows.data - (uintptr_t) a->edges->n_interior * row_bytes);
}

static mlff_status make_event(mlff_cuda_backend *cuda, mlff_error *error)
{
  if (cuda->rows_are_there) return MLFF_OK;
  return mlff_cuda_check(cuda, cudaEventCreateWithFlags(&cuda->rows_are_there, cudaEventDisableTiming),
                         "cudaEventCreate", error);
}

static mlff_status pin_rows(mlff_cuda_backend *cuda, size_t bytes, mlff_error *error)
{
  if (bytes <= cuda->rows.bytes) return MLFF_OK;
  MLFF_TRY(mlff_cuda_wait(cuda, error)); /* for the last exchange, which may still be going up from there */
  return mlff_cuda_pin(&cuda->base, &cuda->rows, bytes, error);
}

/* Rows for other ranks come down behind what the stream does for them; the host does not wait. */
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
  if (n_sent && !backend->forecast)
    MLFF_TRY(mlff_cuda_copy_down(cuda, cuda->rows.data, (const char *) a->rows + first * row_bytes, n_sent * row_bytes,
                                 error));
  return mlff_cuda_check(cuda, cudaEventRecord(cuda->rows_are_there, cuda->stream), "cudaEventRecord", error);
}

/* The device works on its own. */
void exchange_progress_cuda(mlff_backend *backend, const mlff_exchange_args *a)
{
  (void) backend, (void) a;
}

/* While the host waits and talks to other ranks, the stream goes on with what was put on it since begin. The halo is
 * called even when the device has failed, so that no rank waits for this one. */
mlff_status exchange_finish_cuda(mlff_backend *backend, const mlff_exchange_args *a, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  const mlff_edges *edges = a->edges;
  const size_t row_bytes = (size_t) a->width * backend->real_size, first = (size_t) edges->n_local;
  if (!a->halo) return MLFF_OK;
  const mlff_cuda_exchange_pause pause(cuda);
  if (a->halo->forward_device) return direct_finish(cuda, a, error);
  if (((size_t) edges->n_nodes - (size_t) edges->n_interior) * row_bytes + 1 > cuda->rows.bytes)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a halo exchange");
  mlff_status down = mlff_cuda_status(cuda, error);
  if (!down) down = mlff_cuda_check(cuda, cudaEventSynchronize(cuda->rows_are_there), "waiting for features", error);
  char *rows = pinned_rows(cuda, a, row_bytes);
  const mlff_status passed = a->halo->forward(a->halo->context, rows, row_bytes, down ? NULL : error);
  if (down) return down;
  if (passed) return passed;
  return mlff_cuda_upload(backend, (char *) a->rows + first * row_bytes, rows + first * row_bytes,
                          ((size_t) edges->n_nodes - first) * row_bytes, error);
}

/* All rows, there and back. */
mlff_status exchange_sum_cuda(mlff_backend *backend, const mlff_halo *halo, void *rows, int64_t n_nodes, int64_t width,
                              mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  const size_t bytes = (size_t) n_nodes * (size_t) width * backend->real_size;
  if (!halo) return MLFF_OK;
  const mlff_cuda_exchange_pause pause(cuda);
  mlff_status down = pin_rows(cuda, bytes + 1, error);
  if (bytes + 1 > cuda->rows.bytes) return down;
  if (!down) down = mlff_cuda_status(cuda, error);
  if (!down && bytes && !backend->forecast) down = mlff_cuda_copy_down(cuda, cuda->rows.data, rows, bytes, error);
  if (!down) down = mlff_cuda_wait(cuda, error);
  const mlff_status passed =
      halo->reverse(halo->context, cuda->rows.data, (int) width, backend->real_size, down ? NULL : error);
  if (down) return down;
  if (passed) return passed;
  return mlff_cuda_upload(backend, rows, cuda->rows.data, bytes, error);
}
