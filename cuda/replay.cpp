/* replay.cpp: a whole step as one CUDA graph: recorded once, then started with one call per step. Where features travel
 * between ranks, it is several: the parts between exchanges, in which the host takes part.
 *
 * A recording holds addresses and sizes. It stays valid as long as steps would put the very same things on the stream:
 * plain steps add what they put there to a hash, from their positions to their last download, which must be that of the
 * recorded step; and whenever an array is allocated, the recording is dropped. edges.cu makes room for a little more
 * than is needed, so that most rebuilds of a list leave all sizes as they are.
 */
#include "backend_cuda.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

/* ---- what a step puts on the stream ------------------------------------------------------------------------------ */

static const uint64_t FNV_START = 14695981039346656037u, FNV_PRIME = 1099511628211u;

void mlff_cuda_begin_step(mlff_cuda_backend *cuda)
{
  cuda->replay.hash = FNV_START;
  cuda->results_used = 0;
  cuda->in_step = 1;
}

void mlff_cuda_note(mlff_cuda_backend *cuda, const void *data, size_t bytes)
{
  if (!cuda->base.records) return;
  const unsigned char *byte = (const unsigned char *) data;
  uint64_t hash = cuda->replay.hash;
  for (; bytes >= 8; bytes -= 8, byte += 8) {
    uint64_t word;
    memcpy(&word, byte, 8);
    hash = (hash ^ word) * FNV_PRIME;
    hash ^= hash >> 29;
  }
  for (; bytes; bytes--, byte++) hash = (hash ^ *byte) * FNV_PRIME;
  cuda->replay.hash = hash;
}

/* ---- positions and summary --------------------------------------------------------------------------------------- */

mlff_status mlff_cuda_set_positions(mlff_cuda_backend *cuda, const mlff_graph *graph, const mlff_edges *edges,
                                    mlff_error *error)
{
  const size_t bytes = (size_t) graph->n_all * 3 * sizeof(double);
  const size_t room = (size_t) edges->all_room * 3 * sizeof(double);
  if (graph->on_device) {
    char *behind = (char *) cuda->device_positions + bytes;
    MLFF_TRY(mlff_cuda_copy(&cuda->base, cuda->device_positions, graph->pos, bytes, error));
    if (room == bytes) return MLFF_OK;
    return mlff_cuda_check(cuda, cudaMemsetAsync(behind, 0, room - bytes, cuda->stream), "cudaMemsetAsync", error);
  }
  if (bytes) memcpy(cuda->positions.data, graph->pos, bytes);
  if (room > bytes) memset(cuda->positions.data + bytes, 0, room - bytes);
  return MLFF_OK;
}

mlff_status mlff_cuda_take_summary(const mlff_cuda_backend *cuda, const mlff_graph *graph, mlff_edges *edges,
                                   mlff_error *error)
{
  edges->n_edges = cuda->summary->n_edges;
  edges->min_distance = sqrt(cuda->summary->closest2);
  edges->closest[0] = cuda->summary->closest[0];
  edges->closest[1] = cuda->summary->closest[1];
  edges->is_close = cuda->summary->apart == 0;
  if (cuda->summary->bad == MLFF_CUDA_NONE_BAD) return MLFF_OK;
  edges->n_edges = 0;
  return mlff_edges_bad_position(graph, cuda->summary->bad, error);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

int mlff_cuda_is_recording_error(cudaError_t error)
{
  return (error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorGraphExecUpdateFailure) ||
         error == cudaErrorNotSupported || error == cudaErrorMemoryAllocation;
}

/* Keeps the first reason why the recording that is being made is useless. */
static void no_part(mlff_cuda_replay *r, cudaError_t problem, const char *what)
{
  if (problem == cudaSuccess) return;
  cudaGetLastError();
  if (r->problem != cudaSuccess) return;
  r->problem = problem;
  r->problem_in = what;
}

static mlff_status what_was_wrong(mlff_cuda_backend *cuda, mlff_error *error)
{
  const mlff_cuda_replay *r = &cuda->replay;
  if (!mlff_cuda_is_recording_error(r->problem)) return mlff_cuda_check(cuda, r->problem, r->problem_in, error);
  return mlff_fail(error, MLFF_E_UNSUPPORTED, "a step could not be recorded as a CUDA graph: %s (%s) in %s",
                   cudaGetErrorString(r->problem), cudaGetErrorName(r->problem), r->problem_in);
}

void mlff_cuda_forget(mlff_cuda_backend *cuda)
{
  mlff_cuda_replay *r = &cuda->replay;
  for (int k = 0; k < r->n_parts; k++)
    if (r->parts[k] && cudaGraphExecDestroy(r->parts[k]) != cudaSuccess) cudaGetLastError();
  free(r->parts);
  r->parts = NULL;
  r->n_parts = 0;
  r->n_nodes = r->n_kernels = 0;
  if (r->paused == MLFF_CUDA_RECORDING) no_part(r, cudaErrorMemoryAllocation, "an exchange"); /* parts are missing */
}

static void begin_part(mlff_cuda_backend *cuda)
{
  no_part(&cuda->replay, cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
}

static mlff_status begin_cuda(mlff_backend *backend, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  mlff_cuda_forget(cuda);
  MLFF_TRY(mlff_cuda_status(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  cuda->replay.problem = cudaSuccess;
  begin_part(cuda);
  MLFF_TRY(what_was_wrong(cuda, error));
  cuda->replay.mode = MLFF_CUDA_RECORDING;
  return MLFF_OK;
}

/* Adds what a part consists of. Only told: where it cannot be found out, it is nothing. */
static void count_nodes(mlff_cuda_replay *replay, cudaGraph_t graph)
{
  size_t n = 0;
  if (cudaGraphGetNodes(graph, NULL, &n) != cudaSuccess) n = 0;
  cudaGraphNode_t *nodes = n ? (cudaGraphNode_t *) malloc(n * sizeof *nodes) : NULL;
  if (nodes && cudaGraphGetNodes(graph, nodes, &n) == cudaSuccess) {
    replay->n_nodes += (int64_t) n;
    for (size_t k = 0; k < n; k++) {
      cudaGraphNodeType type;
      if (cudaGraphNodeGetType(nodes[k], &type) == cudaSuccess && type == cudaGraphNodeTypeKernel) replay->n_kernels++;
    }
  }
  free(nodes);
  cudaGetLastError();
}

static void add_part(mlff_cuda_replay *r, cudaGraph_t graph)
{
  cudaGraphExec_t *parts = (cudaGraphExec_t *) realloc(r->parts, ((size_t) r->n_parts + 1) * sizeof *parts),
                  part = NULL;
  size_t n = 1;
  if (!parts) return no_part(r, cudaErrorMemoryAllocation, "cudaGraphInstantiate");
  r->parts = parts;
  if (cudaGraphGetNodes(graph, NULL, &n) == cudaSuccess && n == 0 && r->n_parts) {
    r->parts[r->n_parts++] = NULL; /* between the begin and the end of an exchange there may be nothing */
    return;
  }
  cudaGetLastError();
  const cudaError_t problem = cudaGraphInstantiate(&part, graph, 0);
  if (problem != cudaSuccess) return no_part(r, problem, "cudaGraphInstantiate");
  r->parts[r->n_parts++] = part;
  count_nodes(r, graph);
}

static void end_part(mlff_cuda_backend *cuda)
{
  cudaGraph_t graph = NULL;
  no_part(&cuda->replay, cudaStreamEndCapture(cuda->stream, &graph), "cudaStreamEndCapture");
  if (!cuda->failure.code && cuda->replay.problem == cudaSuccess) add_part(&cuda->replay, graph);
  if (graph) cudaGraphDestroy(graph);
}

static mlff_status end_cuda(mlff_backend *backend, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  end_part(cuda);
  cuda->replay.mode = MLFF_CUDA_PLAIN;
  cuda->replay.recorded = cuda->replay.hash;
  const mlff_status status = mlff_cuda_status(cuda, error);
  const mlff_status problem = status ? status : what_was_wrong(cuda, error);
  if (problem) mlff_cuda_forget(cuda);
  return problem;
}

static mlff_replay_state state_cuda(mlff_backend *backend)
{
  const mlff_cuda_replay *replay = &mlff_cuda_of(backend)->replay;
  if (!replay->n_parts) return MLFF_REPLAY_NONE;
  return replay->recorded == replay->hash ? MLFF_REPLAY_SAME : MLFF_REPLAY_OTHER;
}

/* ---- replaying --------------------------------------------------------------------------------------------------- */

static mlff_status start_part(mlff_cuda_backend *cuda, mlff_error *error)
{
  mlff_cuda_replay *r = &cuda->replay;
  if (r->next >= r->n_parts)
    return mlff_cuda_check(cuda, cudaErrorInvalidValue, "a recorded step, of fewer exchanges", error);
  const cudaGraphExec_t part = r->parts[r->next++];
  if (!part) return mlff_cuda_status(cuda, error);
  r->is_behind = 1;
  return mlff_cuda_check(cuda, cudaGraphLaunch(part, cuda->stream), "a recorded step", error);
}

mlff_cuda_exchange_pause::mlff_cuda_exchange_pause(mlff_cuda_backend *of) : cuda(of)
{
  mlff_cuda_replay *r = &cuda->replay;
  r->paused = r->mode;
  if (r->mode == MLFF_CUDA_RECORDING) end_part(cuda);
  r->mode = MLFF_CUDA_PLAIN;
}

mlff_cuda_exchange_pause::~mlff_cuda_exchange_pause()
{
  mlff_cuda_replay *r = &cuda->replay;
  r->mode = r->paused;
  r->paused = MLFF_CUDA_PLAIN;
  if (r->mode == MLFF_CUDA_RECORDING) begin_part(cuda);
  if (r->mode == MLFF_CUDA_HANDING_OUT) start_part(cuda, NULL);
}

/* The first part has the edges, and nothing of a step depends on other ranks before they are known to be sound. */
static mlff_status start_cuda(mlff_backend *backend, const mlff_graph *graph, mlff_edges *edges, int *overflow,
                              mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  *overflow = 0;
  MLFF_TRY(mlff_cuda_status(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  MLFF_TRY(mlff_cuda_set_positions(cuda, graph, edges, error));
  cuda->replay.next = 0;
  MLFF_TRY(start_part(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "a recorded step", error));
  cuda->replay.is_behind = 0;
  MLFF_TRY(mlff_cuda_take_summary(cuda, graph, edges, error));
  *overflow = edges->n_edges > edges->n_room;
  if (*overflow) return MLFF_OK;
  cuda->replay.mode = MLFF_CUDA_HANDING_OUT;
  cuda->results_used = 0;
  cuda->in_step = 1;
  return MLFF_OK;
}

static void count_cuda(mlff_backend *backend, int64_t *n_nodes, int64_t *n_kernels)
{
  *n_nodes = mlff_cuda_of(backend)->replay.n_nodes;
  *n_kernels = mlff_cuda_of(backend)->replay.n_kernels;
}

static void finish_cuda(mlff_backend *backend)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  cuda->replay.mode = MLFF_CUDA_PLAIN;
  cuda->replay.is_behind = 0;
  cuda->in_step = 0;
}

void mlff_cuda_replay_ops(mlff_replay_ops *ops)
{
  ops->begin = begin_cuda;
  ops->end = end_cuda;
  ops->state = state_cuda;
  ops->start = start_cuda;
  ops->finish = finish_cuda;
  ops->count = count_cuda;
}
