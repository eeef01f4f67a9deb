/* replay.cpp: captures a step as CUDA graphs and replays it with one launch per graph. Without an exchange between
 * ranks a step is one graph; otherwise a graph is a part between two exchanges, in which the host takes part.
 *
 * A captured step contains addresses and sizes. It is valid as long as a plain step would enqueue the same work: plain
 * steps hash the work from their positions to their last download and compare it with the captured step. Allocating an
 * array drops the captured step. edges.cu allocates a margin, so that most new lists change no size.
 */
#include "backend_cuda.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

/* ---- hash of a step ---------------------------------------------------------------------------------------------- */

static const uint64_t FNV_START = 14695981039346656037u, FNV_PRIME = 1099511628211u;

void mlff_cuda_begin_step(mlff_cuda_backend *cuda)
{
  cuda->replay.hash = FNV_START;
  cuda->results_used = 0;
  cuda->in_step = 1;
}

void mlff_cuda_hash(mlff_cuda_backend *cuda, const void *data, size_t bytes)
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
    char *rest = (char *) cuda->device_positions + bytes;
    MLFF_TRY(mlff_cuda_copy(&cuda->base, cuda->device_positions, graph->pos, bytes, error));
    if (room == bytes) return MLFF_OK;
    return mlff_cuda_check(cuda, cudaMemsetAsync(rest, 0, room - bytes, cuda->stream), "cudaMemsetAsync", error);
  }
  if (bytes) memcpy(cuda->positions.data, graph->pos, bytes);
  if (room > bytes) memset(cuda->positions.data + bytes, 0, room - bytes);
  return MLFF_OK;
}

mlff_status mlff_cuda_read_summary(const mlff_cuda_backend *cuda, const mlff_graph *graph, mlff_edges *edges,
                                   mlff_error *error)
{
  edges->n_edges = cuda->summary->n_edges;
  edges->min_distance = sqrt(cuda->summary->closest2);
  edges->closest[0] = cuda->summary->closest[0];
  edges->closest[1] = cuda->summary->closest[1];
  edges->is_close = cuda->summary->no_close_pair == 0;
  if (cuda->summary->bad == MLFF_CUDA_NONE_BAD) return MLFF_OK;
  edges->n_edges = 0;
  return mlff_edges_bad_position(graph, cuda->summary->bad, error);
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

int mlff_cuda_is_capture_error(cudaError_t error)
{
  return (error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorGraphExecUpdateFailure) ||
         error == cudaErrorNotSupported || error == cudaErrorMemoryAllocation;
}

/* Stores the first reason why the capture failed. */
static void fail_capture(mlff_cuda_replay *r, cudaError_t problem, const char *what)
{
  if (problem == cudaSuccess) return;
  cudaGetLastError();
  if (r->problem != cudaSuccess) return;
  r->problem = problem;
  r->problem_in = what;
}

static mlff_status capture_status(mlff_cuda_backend *cuda, mlff_error *error)
{
  const mlff_cuda_replay *r = &cuda->replay;
  if (!mlff_cuda_is_capture_error(r->problem)) return mlff_cuda_check(cuda, r->problem, r->problem_in, error);
  return mlff_fail(error, MLFF_E_UNSUPPORTED, "the step could not be captured as a CUDA graph: %s (%s) in %s",
                   cudaGetErrorString(r->problem), cudaGetErrorName(r->problem), r->problem_in);
}

void mlff_cuda_drop_capture(mlff_cuda_backend *cuda)
{
  mlff_cuda_replay *r = &cuda->replay;
  for (int k = 0; k < r->n_parts; k++)
    if (r->parts[k] && cudaGraphExecDestroy(r->parts[k]) != cudaSuccess) cudaGetLastError();
  free(r->parts);
  r->parts = NULL;
  r->n_parts = 0;
  r->n_nodes = r->n_kernels = 0;
  if (r->paused == MLFF_CUDA_CAPTURING) fail_capture(r, cudaErrorMemoryAllocation, "an exchange");
}

static void begin_part(mlff_cuda_backend *cuda)
{
  fail_capture(&cuda->replay, cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
}

static mlff_status begin_cuda(mlff_backend *backend, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  mlff_cuda_drop_capture(cuda);
  MLFF_TRY(mlff_cuda_status(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  cuda->replay.problem = cudaSuccess;
  begin_part(cuda);
  MLFF_TRY(capture_status(cuda, error));
  cuda->replay.mode = MLFF_CUDA_CAPTURING;
  return MLFF_OK;
}

/* Adds the nodes and kernels of a part, for reports only: failures count as 0. */
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
  if (!parts) return fail_capture(r, cudaErrorMemoryAllocation, "cudaGraphInstantiate");
  r->parts = parts;
  if (cudaGraphGetNodes(graph, NULL, &n) == cudaSuccess && n == 0 && r->n_parts) {
    r->parts[r->n_parts++] = NULL; /* empty: between the begin and the end of an exchange */
    return;
  }
  cudaGetLastError();
  const cudaError_t problem = cudaGraphInstantiate(&part, graph, 0);
  if (problem != cudaSuccess) return fail_capture(r, problem, "cudaGraphInstantiate");
  r->parts[r->n_parts++] = part;
  count_nodes(r, graph);
}

static void end_part(mlff_cuda_backend *cuda)
{
  cudaGraph_t graph = NULL;
  fail_capture(&cuda->replay, cudaStreamEndCapture(cuda->stream, &graph), "cudaStreamEndCapture");
  if (!cuda->failure.code && cuda->replay.problem == cudaSuccess) add_part(&cuda->replay, graph);
  if (graph) cudaGraphDestroy(graph);
}

static mlff_status end_cuda(mlff_backend *backend, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  end_part(cuda);
  cuda->replay.mode = MLFF_CUDA_PLAIN;
  cuda->replay.captured = cuda->replay.hash;
  const mlff_status status = mlff_cuda_status(cuda, error);
  const mlff_status problem = status ? status : capture_status(cuda, error);
  if (problem) mlff_cuda_drop_capture(cuda);
  return problem;
}

static mlff_replay_state state_cuda(mlff_backend *backend)
{
  const mlff_cuda_replay *replay = &mlff_cuda_of(backend)->replay;
  if (!replay->n_parts) return MLFF_REPLAY_NONE;
  return replay->captured == replay->hash ? MLFF_REPLAY_SAME : MLFF_REPLAY_OTHER;
}

/* ---- replaying --------------------------------------------------------------------------------------------------- */

static mlff_status launch_part(mlff_cuda_backend *cuda, mlff_error *error)
{
  mlff_cuda_replay *r = &cuda->replay;
  if (r->next >= r->n_parts)
    return mlff_cuda_check(cuda, cudaErrorInvalidValue, "a captured step: fewer exchanges than the step", error);
  const cudaGraphExec_t part = r->parts[r->next++];
  if (!part) return mlff_cuda_status(cuda, error);
  r->in_flight = 1;
  return mlff_cuda_check(cuda, cudaGraphLaunch(part, cuda->stream), "a captured step", error);
}

mlff_cuda_exchange_pause::mlff_cuda_exchange_pause(mlff_cuda_backend *backend) : cuda(backend)
{
  mlff_cuda_replay *r = &cuda->replay;
  r->paused = r->mode;
  if (r->mode == MLFF_CUDA_CAPTURING) end_part(cuda);
  r->mode = MLFF_CUDA_PLAIN;
}

mlff_cuda_exchange_pause::~mlff_cuda_exchange_pause()
{
  mlff_cuda_replay *r = &cuda->replay;
  r->mode = r->paused;
  r->paused = MLFF_CUDA_PLAIN;
  if (r->mode == MLFF_CUDA_CAPTURING) begin_part(cuda);
  if (r->mode == MLFF_CUDA_REPLAYING) launch_part(cuda, NULL);
}

/* The first part computes the edges. The host checks them before any exchange. */
static mlff_status start_cuda(mlff_backend *backend, const mlff_graph *graph, mlff_edges *edges, int *overflow,
                              mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  *overflow = 0;
  MLFF_TRY(mlff_cuda_status(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  MLFF_TRY(mlff_cuda_set_positions(cuda, graph, edges, error));
  cuda->replay.next = 0;
  MLFF_TRY(launch_part(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "a captured step", error));
  cuda->replay.in_flight = 0;
  MLFF_TRY(mlff_cuda_read_summary(cuda, graph, edges, error));
  *overflow = edges->n_edges > edges->n_room;
  if (*overflow) return MLFF_OK;
  cuda->replay.mode = MLFF_CUDA_REPLAYING;
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
  cuda->replay.in_flight = 0;
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
