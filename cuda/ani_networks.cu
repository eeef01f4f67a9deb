/* ani_networks.cu: whole ANI networks, forward and backward, in one kernel, for systems that are so small that a kernel
 * per layer takes longer to start than to work. Twins: linear, readout and linear one after another (linear.cu,
 * ani_ops.cu), whose numbers these are to the bit.
 *
 * A block owns some atoms of one element and one member. The energy is linear in the last layer, so that the way back
 * begins where the way forth has ended: activations and slopes stay in shared memory, and of each atom the AEV is read,
 * its gradient and the energy are written. Weights are read twice, forward and transposed, and go through shared memory
 * in tiles that are on their way while earlier ones are used.
 *
 * What that takes for the largest network of ANI-2x, 1008-256-192-160-1 with the 128 columns of water: 450 kB of
 * weights in float, read forward and transposed by each block, and 225000 products for each atom. 16 atoms for a block:
 * 104 kB of shared memory (68 of them results), one block on a multiprocessor of sm_80 and two of sm_90, and 16
 * products for each weight that is read. 8 atoms: 86 kB, one and two blocks, for when 16 would leave multiprocessors
 * without a block, or do not fit. In double 8 atoms take 120 kB. A thread has sums of ROWS / 4 atoms and 4 columns in
 * registers, for which it reads two vectors from shared memory for each row of weights; a
 * warp has 32 columns of all atoms. Tiles of 16 rows of weights, 17 kB, are on their way while another one is used;
 * threads that do nothing else start their copies, which takes as many instructions as a tile's sums.
 */
#include "atoms.h"
#include "vectors.h"

#include <cstdlib>

using namespace ATOMS;

enum { WORKERS = 256, COPIERS = 128, NETWORK_THREADS = WORKERS + COPIERS }; /* of a block; copiers copy weights and x */
enum { NETWORK_WARPS = WORKERS / WARP, THREAD_COLUMNS = 4 };
enum { TILE_COLUMNS = NETWORK_WARPS * WARP }; /* of a product at a time */
enum { TILE_DEPTH = 64 / sizeof(real), TILE_LD = TILE_COLUMNS + 8 };
enum { MOST_ATOMS = MLFF_REAL_IS_DOUBLE ? 8 : 16 }; /* of a block */
/* Atoms times members for each multiprocessor; of larger systems, products layer by layer read weights less often. Two
 * blocks of 16 atoms: one wave of them on sm_90. */
enum { ROWS_PER_SM = 32 };
enum { PAD = 16 }; /* widths in shared memory are whole steps */
static_assert(PAD % TILE_DEPTH == 0, "a step reads no further");

/* Of a multiprocessor, by its shared memory; which is 80 registers for two of them. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
enum { BLOCKS_OF_16 = 2 };
#else
enum { BLOCKS_OF_16 = 1 };
#endif

/* Tiles of weights for that many rows: of 16 rows, two blocks of sm_90 share a multiprocessor. */
static __host__ __device__ constexpr int n_tiles(int rows)
{
  return rows > 8 ? 2 : 3;
}

static inline int padded(int n)
{
  return (n + PAD - 1) / PAD * PAD;
}

namespace { /* kernels and their arguments differ between element types */

/* slope_at, hidden_at: where results of the layer begin in shared memory, in numbers for one atom. */
typedef struct network_layer {
  const real *forward, *backward, *bias;
  int n_in, n_out, slope_at, hidden_at;
} network_layer;

typedef struct network {
  network_layer layers[MLFF_ANI_MOST_HIDDEN];
  const real *readout;
  double readout_bias;
  int n_hidden, unused;
} network;

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
  int n_members, unused;
  row_group groups[MLFF_ANI_MOST_GROUPS];
} networks_arrays;

/* ---- tiles of weights -------------------------------------------------------------------------------------------- */

/* One product of a network, of a layer and a direction. */
typedef struct product {
  const real *weight; /* [n_in][n_out] */
  int n_in, n_out, layer, is_back;
} product;

MLFF_DEVICE product forward_of(const network &net, int l)
{
  return {net.layers[l].forward, net.layers[l].n_in, net.layers[l].n_out, l, 0};
}

MLFF_DEVICE product backward_of(const network &net, int l)
{
  return {net.layers[l].backward, net.layers[l].n_out, net.layers[l].n_in, l, 1};
}

/* The one after it; no weights when it was the last. */
MLFF_DEVICE product following(const network &net, const product &now)
{
  if (!now.is_back) return now.layer + 1 < net.n_hidden ? forward_of(net, now.layer + 1) : backward_of(net, now.layer);
  return now.layer ? backward_of(net, now.layer - 1) : product{NULL, 0, 0, 0, 1};
}

/* What a block has: `aevs` and so on are those of its first atom. x tiles are for the first product, which reads from
 * global memory. */
typedef struct block_arrays {
  const real *aevs;
  real *grads, *energy;
  int64_t ld;
  int n_rows, unused;
  real *w_tiles; /* [n_tiles][TILE_DEPTH][TILE_LD] */
  real *x_tiles; /* [n_tiles][TILE_DEPTH][ROWS]    */
  real *results; /* [reals_per_row][ROWS]          */
} block_arrays;

MLFF_DEVICE bool is_worker()
{
  return threadIdx.x < WORKERS;
}

/* w_tile[k][c] = w[k0 + k][col0 + c], 0 for rows that are not there; columns that are not there are left alone. */
template <int N> MLFF_DEVICE void copy_weights(const product &now, int col0, int k0, real *w_tile)
{
  enum { PIECES = TILE_COLUMNS / N, ROWS_AT_ONCE = PIECES < COPIERS ? COPIERS / PIECES : 1 }; /* pieces of a row */
  const int t = (int) threadIdx.x - WORKERS;
  for (int c = t % PIECES * N; c < TILE_COLUMNS; c += COPIERS * N) {
    if (col0 + c >= now.n_out) break;
    const int first = t / PIECES, n_left = now.n_in - k0;
    const real *from = now.weight + (int64_t) (k0 + first) * now.n_out + col0 + c;
    real *to = w_tile + first * TILE_LD + c;
#pragma unroll 4
    for (int k = first; k < TILE_DEPTH; k += ROWS_AT_ONCE) {
      if (k < n_left)
        copy_ahead<N>(to, from);
      else
        for (int n = 0; n < N; n++) to[n] = 0;
      from += ROWS_AT_ONCE * now.n_out;
      to += ROWS_AT_ONCE * TILE_LD;
    }
  }
}

/* Starts copying the tiles of step k0 and on, of the first product also those of x, with zeros outside. Always a group
 * of copies, be it empty. */
template <int ROWS> MLFF_DEVICE void start_tile(const block_arrays &b, const product &now, int col0, int step)
{
  enum { WIDE = 16 / sizeof(real) };
  const int k0 = step * TILE_DEPTH, tile = step % n_tiles(ROWS);
  real *w_tile = b.w_tiles + tile * TILE_DEPTH * TILE_LD, *x_tile = b.x_tiles + tile * TILE_DEPTH * ROWS;
  if (k0 < now.n_in) {
    if (now.n_out % WIDE == 0)
      copy_weights<WIDE>(now, col0, k0, w_tile);
    else
      copy_weights<1>(now, col0, k0, w_tile);
    const bool is_first = now.layer == 0 && !now.is_back;
    for (int q = (int) threadIdx.x - WORKERS; is_first && q < TILE_DEPTH * ROWS; q += COPIERS) {
      const int k = q % TILE_DEPTH, r = q / TILE_DEPTH;
      if (k0 + k < now.n_in && r < b.n_rows)
        copy_ahead<1>(x_tile + k * ROWS + r, b.aevs + r * b.ld + k0 + k);
      else
        x_tile[k * ROWS + r] = 0;
    }
  }
  __pipeline_commit();
}

template <int ROWS> MLFF_DEVICE void start_first_tiles(const block_arrays &b, const product &now, int col0)
{
  for (int step = 0; step < n_tiles(ROWS) - 1; step++) start_tile<ROWS>(b, now, col0, step);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* What becomes of the sum v of column col and row r. Forward: h = celu(v) and its slope, 0 in padding; backward: v
 * times the slope that it meets, or the gradient. */
template <int ROWS>
MLFF_DEVICE void finish_sum(const block_arrays &b, const network &net, const product &now, real alpha, int r, int col,
                            real v)
{
  const bool is_there = col < now.n_out;
  if (!now.is_back) {
    const network_layer &layer = net.layers[now.layer];
    real slope = 0;
    v = is_there ? celu_value(v, alpha, &slope) : (real) 0;
    b.results[(layer.hidden_at + col) * ROWS + r] = v;
    b.results[(layer.slope_at + col) * ROWS + r] = slope;
  } else if (is_there && now.layer) {
    b.results[(net.layers[now.layer - 1].slope_at + col) * ROWS + r] *= v;
  } else if (is_there && r < b.n_rows) {
    b.grads[r * b.ld + col] = v;
  }
}

/* A thread's sums: ROWS / 4 rows by 4 columns, over k in order as in linear_kernel. */
template <int ROWS> struct row_sums {
  enum { OWN_ROWS = ROWS / 4, AHEAD = OWN_ROWS * sizeof(real) > 8 ? 2 : 4 }; /* rows of weights, of a tile */
  real of[OWN_ROWS][THREAD_COLUMNS];
  int row, col; /* the first ones, within the tile */

  __device__ __forceinline__ void begin(const real *bias, int n_left)
  {
    const int lane = (int) threadIdx.x % WARP;
    row = lane / 8 * OWN_ROWS;
    col = (int) threadIdx.x / WARP * WARP + lane % 8 * THREAD_COLUMNS;
#pragma unroll
    for (int c = 0; c < THREAD_COLUMNS; c++) {
      const real start = bias && col + c < n_left ? bias[col + c] : (real) 0;
#pragma unroll
      for (int r = 0; r < OWN_ROWS; r++) of[r][c] = start;
    }
  }

  __device__ __forceinline__ void add(const real *x_tile, const real *w_tile, int n_rows, int n_left)
  {
    if (row >= n_rows || col >= n_left) return;
    vector_of<OWN_ROWS> x[2][AHEAD];
    vector_of<THREAD_COLUMNS> w[2][AHEAD];
    load(x_tile, w_tile, 0, x[0], w[0]);
#pragma unroll
    for (int k0 = 0; k0 < TILE_DEPTH; k0 += AHEAD) {
      const int now = k0 / AHEAD % 2;
      if (k0 + AHEAD < TILE_DEPTH) load(x_tile, w_tile, k0 + AHEAD, x[1 - now], w[1 - now]);
#pragma unroll
      for (int k = 0; k < AHEAD; k++)
#pragma unroll
        for (int r = 0; r < OWN_ROWS; r++)
#pragma unroll
          for (int c = 0; c < THREAD_COLUMNS; c++) of[r][c] += x[now][k].of[r] * w[now][k].of[c];
    }
  }

  __device__ __forceinline__ void load(const real *x_tile, const real *w_tile, int k0, vector_of<OWN_ROWS> *x,
                                       vector_of<THREAD_COLUMNS> *w) const
  {
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      x[k] = load_vector<OWN_ROWS>(x_tile + (k0 + k) * ROWS + row);
      w[k] = load_vector<THREAD_COLUMNS>(w_tile + (k0 + k) * TILE_LD + col);
    }
  }

  __device__ __forceinline__ void finish(const block_arrays &b, const network &net, const product &now, real alpha,
                                         int col0)
  {
    const int n_columns = now.is_back ? now.n_out : (now.n_out + PAD - 1) / PAD * PAD;
#pragma unroll
    for (int r = 0; r < OWN_ROWS; r++)
#pragma unroll
      for (int c = 0; c < THREAD_COLUMNS; c++)
        if (col0 + col + c < n_columns) finish_sum<ROWS>(b, net, now, alpha, row + r, col0 + col + c, of[r][c]);
  }
};

/* ---- a network --------------------------------------------------------------------------------------------------- */

/* energy[r] = bias + sum_k w[k] h[k][r],  slope[k][r] *= w[k] factor, of the last hidden layer. A warp owns rows; sums
 * as in ani_readout_kernel. */
template <int ROWS> MLFF_DEVICE void read_out(const block_arrays &b, const network &net, real factor)
{
  const network_layer &last = net.layers[net.n_hidden - 1];
  const int lane = (int) threadIdx.x % WARP;
  for (int r = (int) threadIdx.x / WARP; r < b.n_rows; r += NETWORK_WARPS) {
    real sum = 0;
    for (int k = lane; k < last.n_out; k += WARP) {
      sum += net.readout[k] * b.results[(last.hidden_at + k) * ROWS + r];
      b.results[(last.slope_at + k) * ROWS + r] *= net.readout[k] * factor;
    }
    sum = warp_sum(sum);
    if (lane == 0) b.energy[r] = sum + (real) net.readout_bias;
  }
}

/* One tile of columns of a product. Its first tiles are under way; those of the next product are when this ends. */
template <int ROWS>
MLFF_DEVICE void multiply(const block_arrays &b, const network &net, const product &now, int col0, const product &next,
                          int next_col0, real alpha)
{
  const network_layer &layer = net.layers[now.layer];
  const bool is_first = now.layer == 0 && !now.is_back;
  const real *x = b.results + (now.is_back ? layer.slope_at
                               : now.layer ? net.layers[now.layer - 1].hidden_at
                                           : 0) *
                                  ROWS;
  row_sums<ROWS> sums;
  sums.begin(now.is_back ? (const real *) NULL : layer.bias + col0, now.n_out - col0);
  for (int step = 0; step * TILE_DEPTH < now.n_in; step++) {
    const int tile = step % n_tiles(ROWS);
    if (!is_worker()) __pipeline_wait_prior(n_tiles(ROWS) - 2);
    __syncthreads(); /* the tile of this step is there, and that of the last one has been used */
    if (!is_worker()) {
      start_tile<ROWS>(b, now, col0, step + n_tiles(ROWS) - 1);
      continue;
    }
    sums.add(is_first ? b.x_tiles + tile * TILE_DEPTH * ROWS : x + step * TILE_DEPTH * ROWS,
             b.w_tiles + tile * TILE_DEPTH * TILE_LD, b.n_rows, now.n_out - col0);
  }
  __syncthreads();
  if (is_worker())
    sums.finish(b, net, now, alpha, col0);
  else if (next.weight)
    start_first_tiles<ROWS>(b, next, next_col0);
}

/* energy[m][i] = bias + sum_k w[k] h_L[k],  h_l = celu(W_l h_{l-1} + b_l),  h_{-1} = aevs[i], and
 * grads[m][i][c] = factor d energy[m][i] / d aevs[i][c], for the atoms i of each group and its networks m.
 *   aevs [n_rows][ld], energy [n_members][ld_energy], grads [n_members][n_rows][ld], weights [n_in][n_out]
 * Grid: x over tiles of ROWS atoms, y over groups and members; blocks beyond the last atom of theirs do nothing. A
 * block owns the atoms of a tile, a warp 32 columns of a product, a thread its sums. Dynamic shared memory: tiles of
 * weights and of AEVs, activations and slopes of all layers. Deterministic. Twins: linear_cpu, ani_readout_cpu. */
template <int ROWS>
__global__ void __launch_bounds__(NETWORK_THREADS, ROWS > 8 ? BLOCKS_OF_16 : 1) ani_networks_kernel(networks_arrays a)
{
  MLFF_SHARED_DYNAMIC(real, shared);
  const row_group &group = a.groups[blockIdx.y / (unsigned) a.n_members];
  const int member = (int) (blockIdx.y % (unsigned) a.n_members), first = (int) blockIdx.x * ROWS;
  if (first >= group.n_rows) return;
  const network &net = a.networks[group.network + member];
  const int64_t row = group.row + first;
  block_arrays b;
  b.ld = a.ld;
  b.n_rows = group.n_rows - first < ROWS ? group.n_rows - first : ROWS;
  b.aevs = a.aevs + row * a.ld;
  b.grads = a.grads + (member * a.n_rows + row) * a.ld;
  b.energy = a.energy + member * a.ld_energy + row;
  b.w_tiles = shared;
  b.x_tiles = b.w_tiles + n_tiles(ROWS) * TILE_DEPTH * TILE_LD;
  b.results = b.x_tiles + n_tiles(ROWS) * TILE_DEPTH * ROWS;
  product now = forward_of(net, 0);
  if (!is_worker()) start_first_tiles<ROWS>(b, now, 0);
  for (int col0 = 0; now.weight;) { /* tile by tile of columns */
    const bool is_whole = col0 + TILE_COLUMNS >= now.n_out;
    const product next = is_whole ? following(net, now) : now;
    const int next_col0 = is_whole ? 0 : col0 + TILE_COLUMNS;
    multiply<ROWS>(b, net, now, col0, next, next_col0, (real) a.alpha);
    if (!now.is_back && next.is_back) {
      __syncthreads();
      if (is_worker()) read_out<ROWS>(b, net, (real) a.factor);
    }
    now = next;
    col0 = next_col0;
  }
}

} // namespace

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* Bytes of shared memory of a block. */
static size_t shared_bytes(const mlff_ani_networks *networks, int rows)
{
  return ((size_t) n_tiles(rows) * TILE_DEPTH * (size_t) (TILE_LD + rows) +
          (size_t) networks->reals_per_row * (size_t) rows) *
         sizeof(real);
}

/* A network as kernels see it. Activations of one layer are read while those of the next one are written, so they take
 * turns in two places, behind the slopes of all layers. Returns its reals per row. */
static int describe(network *to, const mlff_ani_network *from)
{
  int turns[2] = {0, 0}, at = 0;
  to->readout = (const real *) from->readout;
  to->readout_bias = from->readout_bias;
  to->n_hidden = from->n_hidden;
  for (int l = 0; l < from->n_hidden; l++) {
    const mlff_linear *forward = from->forward[l], *backward = from->backward[l];
    const int width = padded(forward->n_out);
    to->layers[l] = {(const real *) forward->packed.data,
                     (const real *) backward->packed.data,
                     (const real *) forward->bias.data,
                     forward->n_in,
                     forward->n_out,
                     at,
                     0};
    at += width;
    turns[l % 2] = width > turns[l % 2] ? width : turns[l % 2];
  }
  for (int l = 0; l < from->n_hidden; l++) to->layers[l].hidden_at = at + (l % 2 ? turns[0] : 0);
  return at + turns[0] + turns[1];
}

/* Lets all kernels have what a block of this GPU can have. */
static mlff_status ask_for_shared_memory(mlff_backend *backend, int *most, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
#if MLFF_REAL_IS_DOUBLE
  const cudaError_t failed = mlff_cuda_ask_for_shared(cuda, most, ani_networks_kernel<8>);
#else
  const cudaError_t failed = mlff_cuda_ask_for_shared(cuda, most, ani_networks_kernel<8>, ani_networks_kernel<16>);
#endif
  return mlff_cuda_check(cuda, failed, "shared memory of ani_networks_kernel", error);
}

mlff_status MLFF_CUDA(ani_networks_setup_cuda)(mlff_backend *backend, mlff_ani_networks *networks, int n,
                                               const mlff_ani_network *from, mlff_error *error)
{
  networks->n = 0;
  networks->reals_per_row = 0;
  MLFF_TRY(ask_for_shared_memory(backend, &networks->most_shared, error));
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

/* Atoms of a block; 0: layer by layer. */
static int choose_rows(const mlff_ani_networks *networks, int64_t n_blocks_of_8, int n_multiprocessors)
{
  const bool has_16 = MOST_ATOMS >= 16 && shared_bytes(networks, 16) <= (size_t) networks->most_shared;
  const bool has_8 = shared_bytes(networks, 8) <= (size_t) networks->most_shared;
  if (has_16 && n_blocks_of_8 > n_multiprocessors) return 16;
  return has_8 ? 8 : 0;
}

int MLFF_CUDA(ani_networks_cuda)(mlff_backend *backend, const mlff_ani_networks *networks,
                                 const mlff_ani_networks_args *args)
{
  const int n_multiprocessors = mlff_cuda_of(backend)->n_multiprocessors;
  networks_arrays a;
  int64_t n_rows = 0, most_rows = 0, n_blocks_of_8 = 0;
  memset(&a, 0, sizeof a);
  for (int g = 0; g < args->n_groups; g++) {
    const mlff_ani_rows *rows = &args->groups[g];
    a.groups[g] = {(int) rows->row, (int) rows->n_rows, rows->network, 0};
    n_rows += rows->n_rows * args->n_members;
    n_blocks_of_8 += (rows->n_rows + 7) / 8 * args->n_members;
    most_rows = rows->n_rows > most_rows ? rows->n_rows : most_rows;
  }
  if (n_rows > (int64_t) ROWS_PER_SM * n_multiprocessors) return 0;
  const int rows = choose_rows(networks, n_blocks_of_8, n_multiprocessors);
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
  const dim3 grid(mlff_cuda_blocks(most_rows, rows), (unsigned) (args->n_groups * args->n_members));
  const size_t bytes = shared_bytes(networks, rows);
#if MLFF_REAL_IS_DOUBLE
  MLFF_LAUNCH(backend, ani_networks_kernel<8>, grid, NETWORK_THREADS, bytes, a);
#else
  if (rows == 16)
    MLFF_LAUNCH(backend, ani_networks_kernel<16>, grid, NETWORK_THREADS, bytes, a);
  else
    MLFF_LAUNCH(backend, ani_networks_kernel<8>, grid, NETWORK_THREADS, bytes, a);
#endif
  return 1;
}
