/* ani_networks.cu: energies and gradients of ANI networks in one kernel, for systems so small that a kernel per layer
 * takes longer to launch than to run.
 *
 *   h_0 = celu(W_0 x + b_0),  h_l = celu(W_l h_{l-1} + b_l),  E = w h_L + b
 *   g_L = w celu'(h_L),  g_{l-1} = W_l^T g_l celu'(h_{l-1}),  dE/dx = W_0^T g_0
 *
 * with the AEV x of an atom. A block owns up to 16 atoms of one element and one member of the ensemble. E is linear in
 * h_L: the backward pass needs no result of other blocks, and h_l stays in shared memory, where g_l replaces it (celu'
 * is made from the value of celu). Each block reads all weights twice, packed for both passes. Copier threads prefetch
 * them in tiles, in the order of their use, while worker threads compute.
 *
 * Twins: linear, readout and linear one after another (linear.cu, ani_ops.cu), whose bits these are, FMA contraction
 * aside.
 */
#include "atoms.h"
#include "vectors.h"

#include <cstdlib>

using namespace ATOMS;

enum { WORKERS = 256, COPIERS = 128, NETWORK_THREADS = WORKERS + COPIERS }; /* of a block */
enum { NETWORK_WARPS = WORKERS / WARP, THREAD_COLUMNS = 4 };
enum { TILE_COLUMNS = NETWORK_WARPS * WARP }; /* of a GEMM at a time */
enum { TILE_LD = TILE_COLUMNS + 8 };
enum { LEAST_ATOMS = 4, MOST_ATOMS = MLFF_REAL_IS_DOUBLE ? 8 : 16 }; /* of a block */
/* At most so many atoms times members per multiprocessor: one wave of two blocks of 16 atoms on sm_90. Kernels of
 * single layers read weights less often. */
enum { ROWS_PER_SM = 32 };

/* Blocks of 16 atoms per multiprocessor, by its shared memory; two leave 80 registers per thread. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
enum { BLOCKS_OF_16 = 2 };
#else
enum { BLOCKS_OF_16 = 1 };
#endif

/* Rows of weights of a tile, and tiles, by the atoms of a block. */
static __host__ __device__ constexpr int depth(int rows)
{
  return (rows > 4 ? 64 : 128) / (int) sizeof(real);
}

static __host__ __device__ constexpr int most_tiles(int rows)
{
  return rows > 8 ? 2 : rows > 4 ? 5 : 3;
}

enum { LEAST_TILES = 2 };   /* where most_tiles do not fit */
enum { PAD = PADDED_ROWS }; /* widths in shared memory are padded to whole tiles, as weights are */
static_assert(PAD % depth(4) == 0 && PAD % depth(16) == 0, "a step reads no further");

static inline int padded(int n)
{
  return (n + PAD - 1) / PAD * PAD;
}

namespace { /* kernels and their arguments differ between element types */

/* offset: of the results of the layer in shared memory, in values per atom. */
typedef struct network_layer {
  const real *forward, *backward, *bias;
  int n_in, n_out, offset, unused;
} network_layer;

typedef struct network {
  network_layer layers[MLFF_ANI_MOST_HIDDEN];
  const real *readout;
  double readout_bias;
  int n_hidden, unused;
} network;

enum { NETWORK_BYTES = (sizeof(network) + 15) / 16 * 16 }; /* in shared memory */

typedef struct row_group {
  int row, n_rows, network, unused;
} row_group;

typedef struct networks_arrays {
  int64_t n_rows, ld, ld_energy;
  const network *networks;
  const real *aevs; /* [n_rows][ld] */
  real *energy;     /* [n_members][ld_energy] */
  real *grads;      /* [n_members][n_rows][ld] */
  double alpha, factor;
  int n_members, n_tiles;
  row_group groups[MLFF_ANI_MOST_GROUPS];
} networks_arrays;

/* ---- tiles of weights -------------------------------------------------------------------------------------------- */

/* One GEMM of a network. Offsets in shared memory, in values per atom: of x, and of its results (h forward, g
 * backward). */
typedef struct layer_gemm {
  const real *weight, *bias; /* [n_in][n_out] */
  int n_in, n_out, layer, is_back, x_offset, offset;
} layer_gemm;

MLFF_DEVICE layer_gemm gemm_of(const network &net, int l, int is_back)
{
  const network_layer &layer = net.layers[l], &below = net.layers[l ? l - 1 : 0];
  if (is_back) return {layer.backward, NULL, layer.n_out, layer.n_in, l, 1, layer.offset, below.offset};
  return {layer.forward, layer.bias, layer.n_in, layer.n_out, l, 0, below.offset, layer.offset};
}

/* Advances to the next GEMM; false after the last one. */
MLFF_DEVICE bool advance(const network &net, int *layer, int *is_back)
{
  if (*is_back) return --*layer >= 0;
  if (*layer + 1 < net.n_hidden)
    ++*layer;
  else
    *is_back = 1;
  return true;
}

/* The first GEMM reads x from global memory, in tiles; the last one writes to global memory. */
MLFF_DEVICE bool is_first(const layer_gemm &p)
{
  return p.layer == 0 && !p.is_back;
}

/* State of a block; aevs, grads and energy begin at its first atom. */
typedef struct block_arrays {
  const real *aevs;
  real *grads, *energy;
  int64_t ld;
  int n_rows, n_tiles;
  real *w_tiles;                                      /* [n_tiles][depth][TILE_LD] */
  real *x_tiles;                                      /* [n_tiles][depth][ROWS] */
  real *results;                                      /* [reals_per_row][ROWS] */
  int next_layer, next_is_back, next_col0, next_step; /* next tile of weights to copy; layer -1: none */
  int start, take;                                    /* tiles: of the next copy and of the next use */
} block_arrays;

MLFF_DEVICE bool is_worker()
{
  return threadIdx.x < WORKERS;
}

/* w_tile[k][c] = w[k0 + k][col0 + c] for columns below n_out. */
template <int N, int ROWS> MLFF_DEVICE void copy_weights(const layer_gemm &now, int col0, int k0, real *w_tile)
{
  enum { PIECES = TILE_COLUMNS / N, ROWS_PER_PASS = PIECES < COPIERS ? COPIERS / PIECES : 1 }; /* of a row */
  enum { UNROLLED = N > 1 ? depth(ROWS) : 1 };                                                 /* rare widths: not */
  const int t = (int) threadIdx.x - WORKERS, first = t / PIECES, n_out = now.n_out;
#pragma unroll 1
  for (int c = t % PIECES * N; c < TILE_COLUMNS; c += COPIERS * N) {
    if (col0 + c >= n_out) break;
    const real *source = now.weight + (k0 + first) * n_out + col0 + c;
    real *target = w_tile + first * TILE_LD + c;
#pragma unroll UNROLLED
    for (int k = 0; k < depth(ROWS); k += ROWS_PER_PASS) copy_async<N>(target + k * TILE_LD, source + k * n_out);
  }
}

/* x_tile[k][r] = aevs[r][k0 + k], 0 outside. */
template <int ROWS> MLFF_DEVICE void copy_aevs(const block_arrays &b, int n_in, int k0, real *x_tile)
{
#pragma unroll 1
  for (int q = (int) threadIdx.x - WORKERS; q < depth(ROWS) * ROWS; q += COPIERS) {
    const int k = q % depth(ROWS), r = q / depth(ROWS);
    if (k0 + k < n_in && r < b.n_rows)
      copy_async<1>(x_tile + k * ROWS + r, b.aevs + r * b.ld + k0 + k);
    else
      x_tile[k * ROWS + r] = 0;
  }
}

/* Starts the asynchronous copy of the next tile of weights, and of x for the first GEMM. Always commits, possibly an
 * empty batch. */
template <int ROWS> MLFF_DEVICE void start_tile(block_arrays *b, const network &net)
{
  enum { WIDE = 16 / sizeof(real) };
  if (b->next_layer >= 0) {
    const layer_gemm now = gemm_of(net, b->next_layer, b->next_is_back);
    const int k0 = b->next_step * depth(ROWS);
    real *w_tile = b->w_tiles + b->start * depth(ROWS) * TILE_LD;
    if (now.n_out % WIDE == 0)
      copy_weights<WIDE, ROWS>(now, b->next_col0, k0, w_tile);
    else
      copy_weights<1, ROWS>(now, b->next_col0, k0, w_tile);
    if (is_first(now)) copy_aevs<ROWS>(*b, now.n_in, k0, b->x_tiles + b->start * depth(ROWS) * ROWS);
    if (++b->next_step * depth(ROWS) >= now.n_in) {
      b->next_step = 0;
      b->next_col0 += TILE_COLUMNS;
      if (b->next_col0 >= now.n_out) {
        b->next_col0 = 0;
        advance(net, &b->next_layer, &b->next_is_back);
      }
    }
  }
  if (++b->start == b->n_tiles) b->start = 0;
  __pipeline_commit();
}

/* Waits for the next tile and returns its index. The barrier ends the use of the previous tile, whose buffer the next
 * copy fills. */
template <int ROWS> MLFF_DEVICE int wait_tile(block_arrays *b, const network &net)
{
  const int tile = b->take;
  if (!is_worker()) {
    if (b->n_tiles == LEAST_TILES)
      __pipeline_wait_prior(LEAST_TILES - 2);
    else
      __pipeline_wait_prior(most_tiles(ROWS) - 2);
  }
  __syncthreads();
  if (!is_worker()) start_tile<ROWS>(b, net);
  if (++b->take == b->n_tiles) b->take = 0;
  return tile;
}

/* ---- accumulators ------------------------------------------------------------------------------------------------ */

/* Epilogue of N rows of column col. Forward: h = celu(v), 0 in padding. Backward: g = v celu'(h) replaces h, or the
 * gradient is written. */
template <int ROWS, int N>
MLFF_DEVICE void finish_column(const block_arrays &b, const layer_gemm &now, real alpha, int row, int col,
                               vector_of<N> v)
{
  const bool has_column = col < now.n_out;
  real *result = b.results + (now.offset + col) * ROWS + row;
  if (!now.is_back) {
#pragma unroll
    for (int r = 0; r < N; r++) {
      real slope;
      v.v[r] = has_column ? celu_value(v.v[r], alpha, &slope) : (real) 0;
    }
    store_vector(result, v);
  } else if (has_column && now.layer) {
    const vector_of<N> h = load_vector<N>(result);
#pragma unroll
    for (int r = 0; r < N; r++) v.v[r] *= celu_slope(h.v[r], 1 / alpha);
    store_vector(result, v);
  } else if (has_column) {
#pragma unroll
    for (int r = 0; r < N; r++)
      if (row + r < b.n_rows) b.grads[(row + r) * b.ld + col] = v.v[r];
  }
}

/* Accumulators of a thread: ROWS / 4 rows by 4 columns, over k in order as in linear_kernel. Loads are double-buffered
 * in registers, STEP rows of weights at a time. */
template <int ROWS> struct row_sums {
  enum { THREAD_ROWS = ROWS / 4, STEP = THREAD_ROWS * sizeof(real) > 8 ? 2 : 4 };
  vector_of<THREAD_ROWS> sums[THREAD_COLUMNS];
  int row, col, unused[2]; /* row, col: the first ones, within the tile */

  __device__ __forceinline__ void begin(const real *bias, int n_left)
  {
    const int lane = (int) threadIdx.x % WARP;
    set_global(bias);
    row = lane / 8 * THREAD_ROWS;
    col = (int) threadIdx.x / WARP * WARP + lane % 8 * THREAD_COLUMNS;
#pragma unroll
    for (int c = 0; c < THREAD_COLUMNS; c++) {
      const real start = bias && col + c < n_left ? bias[col + c] : (real) 0;
#pragma unroll
      for (int r = 0; r < THREAD_ROWS; r++) sums[c].v[r] = start;
    }
  }

  __device__ __forceinline__ void add(const real *x_tile, const real *w_tile, int n_rows, int n_left)
  {
    if (row >= n_rows || col >= n_left) return;
    vector_of<THREAD_ROWS> x[2][STEP];
    vector_of<THREAD_COLUMNS> w[2][STEP];
    load(x_tile, w_tile, 0, x[0], w[0]);
#pragma unroll
    for (int k0 = 0; k0 < depth(ROWS); k0 += STEP) {
      const int now = k0 / STEP % 2;
      if (k0 + STEP < depth(ROWS)) load(x_tile, w_tile, k0 + STEP, x[1 - now], w[1 - now]);
#pragma unroll
      for (int k = 0; k < STEP; k++)
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
          for (int c = 0; c < THREAD_COLUMNS; c++) sums[c].v[r] += x[now][k].v[r] * w[now][k].v[c];
    }
  }

  __device__ __forceinline__ void load(const real *x_tile, const real *w_tile, int k0, vector_of<THREAD_ROWS> *x,
                                       vector_of<THREAD_COLUMNS> *w) const
  {
#pragma unroll
    for (int k = 0; k < STEP; k++) {
      x[k] = load_vector<THREAD_ROWS>(x_tile + (k0 + k) * ROWS + row);
      w[k] = load_vector<THREAD_COLUMNS>(w_tile + (k0 + k) * TILE_LD + col);
    }
  }

  __device__ __forceinline__ void finish(const block_arrays &b, const layer_gemm &now, real alpha, int col0)
  {
    const int n_columns = now.is_back ? now.n_out : (now.n_out + PAD - 1) / PAD * PAD;
#pragma unroll
    for (int c = 0; c < THREAD_COLUMNS; c++)
      if (col0 + col + c < n_columns) finish_column<ROWS>(b, now, alpha, row, col0 + col + c, sums[c]);
  }
};

/* ---- a network --------------------------------------------------------------------------------------------------- */

/* energy[r] = bias + sum_k w[k] h[k][r],  g[k][r] = celu' w[k] factor replaces h, of the last hidden layer. A warp owns
 * rows; sums as in ani_readout_kernel. */
template <int ROWS> MLFF_DEVICE void read_out(const block_arrays &b, const network &net, real alpha, real factor)
{
  const network_layer &last = net.layers[net.n_hidden - 1];
  const int lane = (int) threadIdx.x % WARP;
  const real *weight = net.readout;
  set_global(weight);
  for (int r = (int) threadIdx.x / WARP; r < b.n_rows; r += NETWORK_WARPS) {
    real sum = 0;
    for (int k = lane; k < last.n_out; k += WARP) {
      real *result = b.results + (last.offset + k) * ROWS + r;
      const real h = *result, w = weight[k];
      sum += w * h;
      *result = celu_slope(h, 1 / alpha) * w * factor;
    }
    sum = warp_sum(sum);
    if (lane == 0) b.energy[r] = sum + (real) net.readout_bias;
  }
}

/* One tile of columns of a GEMM. No barrier follows: readers of its results call wait_tile first. */
template <int ROWS>
MLFF_DEVICE void compute_tile(block_arrays *b, const network &net, const layer_gemm &now, int col0, real alpha)
{
  row_sums<ROWS> sums;
  sums.begin(now.bias ? now.bias + col0 : NULL, now.n_out - col0);
  for (int k0 = 0; k0 < now.n_in; k0 += depth(ROWS)) {
    const int tile = wait_tile<ROWS>(b, net);
    const real *x = is_first(now) ? b->x_tiles + tile * depth(ROWS) * ROWS : b->results + (now.x_offset + k0) * ROWS;
    if (is_worker()) sums.add(x, b->w_tiles + tile * depth(ROWS) * TILE_LD, b->n_rows, now.n_out - col0);
  }
  if (is_worker()) sums.finish(*b, now, alpha, col0);
}

/* energy[m][i] = bias + sum_k w[k] h_L[k],  h_l = celu(W_l h_{l-1} + b_l),  h_{-1} = aevs[i], and grads[m][i][c] =
 * factor d energy[m][i] / d aevs[i][c], for the atoms i of each group (of one element) and the members m.
 *   aevs [n_rows][ld], energy [n_members][ld_energy], grads [n_members][n_rows][ld], weights [n_in][n_out]
 * Grid: x over tiles of ROWS atoms, y over groups and members. Dynamic shared memory: the network's description, tiles
 * of weights and of AEVs, activations of all layers. Deterministic. Twins: linear_cpu, ani_readout_cpu. */
template <int ROWS>
__global__ void __launch_bounds__(NETWORK_THREADS, ROWS > 8 ? BLOCKS_OF_16 : 1) ani_networks_kernel(networks_arrays a)
{
  MLFF_SHARED_DYNAMIC(char, shared);
  const row_group &group = a.groups[blockIdx.y / (unsigned) a.n_members];
  const int member = (int) (blockIdx.y % (unsigned) a.n_members), first = (int) blockIdx.x * ROWS;
  const network &net = *(const network *) (const void *) shared;
  const int64_t *source = (const int64_t *) (const void *) &a.networks[group.network + member];
  for (int q = (int) threadIdx.x; q < (int) (sizeof(network) / sizeof(int64_t)); q += NETWORK_THREADS)
    ((int64_t *) (void *) shared)[q] = source[q];
  grid_dependency_wait(); /* the description is constant */
  if (first >= group.n_rows) return;
  __syncthreads();
  const int64_t row = group.row + first;
  block_arrays b = {};
  b.ld = a.ld;
  b.n_rows = group.n_rows - first < ROWS ? group.n_rows - first : ROWS;
  b.aevs = a.aevs + row * a.ld;
  b.grads = a.grads + (member * a.n_rows + row) * a.ld;
  b.energy = a.energy + member * a.ld_energy + row;
  b.w_tiles = (real *) (void *) (shared + NETWORK_BYTES);
  b.n_tiles = a.n_tiles;
  b.x_tiles = b.w_tiles + a.n_tiles * depth(ROWS) * TILE_LD;
  b.results = b.x_tiles + a.n_tiles * depth(ROWS) * ROWS;
#pragma unroll 1
  for (int k = 0; k < a.n_tiles - 1 && !is_worker(); k++) start_tile<ROWS>(&b, net);
  int layer = 0, is_back = 0;
  do {
    const layer_gemm now = gemm_of(net, layer, is_back);
    for (int col0 = 0; col0 < now.n_out; col0 += TILE_COLUMNS) compute_tile<ROWS>(&b, net, now, col0, (real) a.alpha);
    if (is_back || layer + 1 < net.n_hidden) continue;
    __syncthreads();
    if (is_worker()) read_out<ROWS>(b, net, (real) a.alpha, (real) a.factor);
  } while (advance(net, &layer, &is_back));
}

} // namespace

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* Bytes of shared memory of a block. */
static size_t shared_bytes(const mlff_ani_networks *networks, int rows, int n_tiles)
{
  const size_t tiles = (size_t) (n_tiles * depth(rows)) * (size_t) (TILE_LD + rows);
  return NETWORK_BYTES + (tiles + (size_t) networks->reals_per_row * (size_t) rows) * sizeof(real);
}

/* A network for the kernel. Returns its reals per row. */
static int describe(network *out, const mlff_ani_network *net)
{
  int offset = 0;
  out->readout = (const real *) net->readout;
  out->readout_bias = net->readout_bias;
  out->n_hidden = net->n_hidden;
  for (int l = 0; l < net->n_hidden; l++) {
    const mlff_linear *forward = net->forward[l], *backward = net->backward[l];
    out->layers[l] = {(const real *) forward->packed.data,
                      (const real *) backward->packed.data,
                      (const real *) forward->bias.data,
                      forward->n_in,
                      forward->n_out,
                      offset,
                      0};
    offset += padded(forward->n_out);
  }
  return offset;
}

mlff_status MLFF_CUDA(ani_networks_setup_cuda)(mlff_backend *backend, mlff_ani_networks *networks, int n,
                                               const mlff_ani_network *from, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  networks->n = 0;
  networks->reals_per_row = 0;
  const cudaError_t failed = mlff_cuda_opt_in_shared(cuda, &networks->most_shared, ani_networks_kernel<4>,
                                                     ani_networks_kernel<8>, ani_networks_kernel<MOST_ATOMS>);
  MLFF_TRY(mlff_cuda_check(cuda, failed, "shared memory of ani_networks_kernel", error));
  MLFF_TRY(mlff_buf_reserve(backend, &networks->table, (size_t) n * sizeof(network), error));
  network *table = (network *) calloc((size_t) n + 1, sizeof *table);
  if (!table) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the table of %d networks", n);
  for (int k = 0; k < n; k++) {
    const int reals = describe(&table[k], &from[k]);
    networks->reals_per_row = reals > networks->reals_per_row ? reals : networks->reals_per_row;
  }
  const mlff_status status =
      backend->ops->upload(backend, networks->table.data, table, (size_t) n * sizeof *table, error);
  free(table);
  if (!status) networks->n = n;
  return status;
}

/* Number of blocks of `rows` atoms. */
static int64_t blocks_of(const mlff_ani_networks_args *args, int rows)
{
  int64_t n = 0;
  for (int g = 0; g < args->n_groups; g++) n += (args->groups[g].n_rows + rows - 1) / rows * args->n_members;
  return n;
}

/* Atoms of a block: the fewest with which no multiprocessor has two blocks; 0: layer by layer. */
static int choose_rows(const mlff_ani_networks *networks, const mlff_ani_networks_args *args, int n_multiprocessors)
{
  int most = 0;
  for (int rows = LEAST_ATOMS; rows <= MOST_ATOMS; rows *= 2) {
    if (shared_bytes(networks, rows, LEAST_TILES) > (size_t) networks->most_shared) break;
    most = rows;
    if (blocks_of(args, rows) <= n_multiprocessors) break;
  }
  return most;
}

int MLFF_CUDA(ani_networks_cuda)(mlff_backend *backend, const mlff_ani_networks *networks,
                                 const mlff_ani_networks_args *args)
{
  const int n_multiprocessors = mlff_cuda_of(backend)->n_multiprocessors;
  networks_arrays a;
  int64_t n_rows = 0, most_rows = 0;
  memset(&a, 0, sizeof a);
  for (int g = 0; g < args->n_groups; g++) {
    const mlff_ani_rows *rows = &args->groups[g];
    a.groups[g] = {(int) rows->row, (int) rows->n_rows, rows->network, 0};
    n_rows += rows->n_rows * args->n_members;
    most_rows = rows->n_rows > most_rows ? rows->n_rows : most_rows;
  }
  if (n_rows > (int64_t) ROWS_PER_SM * n_multiprocessors) return 0;
  const int rows = choose_rows(networks, args, n_multiprocessors);
  if (!rows) return 0;
  a.n_rows = args->n_rows;
  a.ld = args->ld;
  a.ld_energy = args->ld_energy;
  a.networks = (const network *) networks->table.data;
  a.aevs = (const real *) args->aevs;
  a.energy = (real *) args->energy;
  a.grads = (real *) args->grads;
  a.alpha = args->alpha;
  a.factor = args->factor;
  a.n_members = args->n_members;
  a.n_tiles = most_tiles(rows);
  if (shared_bytes(networks, rows, a.n_tiles) > (size_t) networks->most_shared) a.n_tiles = LEAST_TILES;
  const dim3 grid(mlff_cuda_blocks(most_rows, rows), (unsigned) (args->n_groups * args->n_members));
  const size_t bytes = shared_bytes(networks, rows, a.n_tiles);
  const auto kernel = rows == 4   ? ani_networks_kernel<4>
                      : rows == 8 ? ani_networks_kernel<8>
                                  : ani_networks_kernel<MOST_ATOMS>;
  mlff_cuda_launch(backend, "ani_networks_kernel", 0, kernel, grid, NETWORK_THREADS, bytes, a);
  return 1;
}
