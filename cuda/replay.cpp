/* replay.cpp: a whole step as one CUDA graph: recorded once, then started with one call per step.
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

void mlff_cuda_forget(mlff_cuda_backend *cuda)
{
  if (cuda->replay.exec && cudaGraphExecDestroy(cuda->replay.exec) != cudaSuccess) cudaGetLastError();
  cuda->replay.exec = NULL;
  cuda->replay.n_nodes = cuda->replay.n_kernels = 0;
}

static mlff_status cannot_record(cudaError_t problem, const char *what, mlff_error *error)
{
  cudaGetLastError();
  return mlff_fail(error, MLFF_E_UNSUPPORTED, "a step could not be recorded as a CUDA graph: %s (%s) in %s",
                   cudaGetErrorString(problem), cudaGetErrorName(problem), what);
}

static mlff_status begin_cuda(mlff_backend *backend, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  mlff_cuda_forget(cuda);
  MLFF_TRY(mlff_cuda_status(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  const cudaError_t begun = cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal);
  if (mlff_cuda_is_recording_error(begun)) return cannot_record(begun, "cudaStreamBeginCapture", error);
  MLFF_TRY(mlff_cuda_check(cuda, begun, "cudaStreamBeginCapture", error));
  cuda->replay.problem = cudaSuccess;
  cuda->replay.mode = MLFF_CUDA_RECORDING;
  return MLFF_OK;
}

/* What a recorded step consists of. Only told: where it cannot be found out, it is nothing. */
static void count_nodes(mlff_cuda_replay *replay, cudaGraph_t graph)
{
  size_t n = 0;
  if (cudaGraphGetNodes(graph, NULL, &n) != cudaSuccess) n = 0;
  cudaGraphNode_t *nodes = n ? (cudaGraphNode_t *) malloc(n * sizeof *nodes) : NULL;
  if (nodes && cudaGraphGetNodes(graph, nodes, &n) == cudaSuccess) {
    replay->n_nodes = (int64_t) n;
    for (size_t k = 0; k < n; k++) {
      cudaGraphNodeType type;
      if (cudaGraphNodeGetType(nodes[k], &type) == cudaSuccess && type == cudaGraphNodeTypeKernel) replay->n_kernels++;
    }
  }
  free(nodes);
  cudaGetLastError();
}

static mlff_status end_cuda(mlff_backend *backend, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  mlff_cuda_replay *replay = &cuda->replay;
  cudaGraph_t graph = NULL;
  const char *what = "cudaStreamEndCapture";
  cudaError_t problem = cudaStreamEndCapture(cuda->stream, &graph);
  replay->mode = MLFF_CUDA_PLAIN;
  if (problem == cudaSuccess && !cuda->failure.code && replay->problem == cudaSuccess) {
    what = "cudaGraphInstantiate";
    problem = cudaGraphInstantiate(&replay->exec, graph, 0);
    if (problem == cudaSuccess)
      count_nodes(replay, graph);
    else
      replay->exec = NULL;
  }
  if (graph) cudaGraphDestroy(graph);
  MLFF_TRY(mlff_cuda_status(cuda, error));
  if (replay->problem != cudaSuccess) return cannot_record(replay->problem, replay->problem_in, error);
  if (mlff_cuda_is_recording_error(problem)) return cannot_record(problem, what, error);
  replay->recorded = replay->hash;
  return mlff_cuda_check(cuda, problem, what, error);
}

static mlff_replay_state state_cuda(mlff_backend *backend)
{
  const mlff_cuda_replay *replay = &mlff_cuda_of(backend)->replay;
  if (!replay->exec) return MLFF_REPLAY_NONE;
  return replay->recorded == replay->hash ? MLFF_REPLAY_SAME : MLFF_REPLAY_OTHER;
}

/* ---- replaying --------------------------------------------------------------------------------------------------- */

static mlff_status start_cuda(mlff_backend *backend, const mlff_graph *graph, mlff_edges *edges, int *overflow,
                              mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  *overflow = 0;
  MLFF_TRY(mlff_cuda_status(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  MLFF_TRY(mlff_cuda_set_positions(cuda, graph, edges, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaGraphLaunch(cuda->replay.exec, cuda->stream), "a recorded step", error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "a recorded step", error));
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
