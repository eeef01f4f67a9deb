/* ani_networks.cu: whole ANI networks, forward and backward, in one kernel, for systems that are so small that a kernel
 * per layer takes longer to start than to work. Twins: linear, readout and linear one after another (linear.cu,
 * ani_ops.cu), whose numbers these are to the bit with 16 atoms for a block. With fewer, sums have another order.
 *
 * A block owns some atoms of one element and one member. The energy is linear in the last layer, so that the way back
 * begins where the way forth has ended: activations stay in shared memory, and of each atom the AEV is read, its
 * gradient and the energy are written. Weights are read twice, forward and transposed, and go through shared memory
 * in tiles that are on their way while earlier ones are used.
 *
 * What that takes for the largest network of ANI-2x, 1008-256-192-160-1 with the 128 columns of water: 450 kB of
 * weights in float, read forward and transposed by each block, and 225000 products for each atom. 16 atoms for a block:
 * 93 kB of shared memory (39 of them results), one block on a multiprocessor of sm_80 and two of sm_90, and 16 products
 * for each weight that is read. 8 or 4 atoms, for when more would leave multiprocessors without a block, or do not fit:
 * 124 and 113 kB, or less with fewer tiles, in double 143 and 122. A warp has 32 columns of all atoms. A thread has 4
 * columns: of 4 of 16 atoms, with all rows of weights; of all of fewer atoms, with every fourth row, so that a weight
 * is read from shared memory once. Tiles of weights, 17 or 34 kB, are on their way while another one is used, those of
 * the next product, too; threads that do nothing else start their copies.
 */
#include "atoms.h"
#include "vectors.h"

#include <cstdlib>

using namespace ATOMS;

enum { WORKERS = 256, COPIERS = 128, NETWORK_THREADS = WORKERS + COPIERS }; /* of a block; copiers copy weights and x */
enum { NETWORK_WARPS = WORKERS / WARP, THREAD_COLUMNS = 4 };
enum { TILE_COLUMNS = NETWORK_WARPS * WARP }; /* of a product at a time */
enum { TILE_LD = TILE_COLUMNS + 8 };
enum { LEAST_ATOMS = 4, MOST_ATOMS = MLFF_REAL_IS_DOUBLE ? 8 : 16 }; /* of a block */
/* Atoms times members for each multiprocessor; of larger systems, products layer by layer read weights less often. Two
 * blocks of 16 atoms: one wave of them on sm_90. */
enum { ROWS_PER_SM = 32 };

/* Of a multiprocessor, by its shared memory; which is 80 registers for two of them. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
enum { BLOCKS_OF_16 = 2 };
#else
enum { BLOCKS_OF_16 = 1 };
#endif

/* Rows of weights of a tile, by the atoms of a block. */
static __host__ __device__ constexpr int depth(int rows)
{
  return (rows > 8 ? 64 : 128) / (int) sizeof(real);
}

enum { TILES = 3, LEAST_TILES = 2 }; /* LEAST_TILES where there is no room for so many */
enum { PAD = PADDED_ROWS };          /* widths in shared memory are whole tiles, as are weights */
static_assert(PAD % depth(4) == 0 && PAD % depth(16) == 0, "a step reads no further");

static inline int padded(int n)
{
  return (n + PAD - 1) / PAD * PAD;
}

namespace { /* kernels and their arguments differ between element types */

/* at: where results of the layer begin in shared memory, in numbers for one atom. */
typedef struct network_layer {
  const real *forward, *backward, *bias;
  int n_in, n_out, at, unused;
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

/* One product of a network, of a layer and a direction; where in shared memory, in numbers for one atom, it finds x and
 * puts its results: forward activations, backward what becomes of them. */
typedef struct product {
  const real *weight, *bias; /* [n_in][n_out] */
  int n_in, n_out, layer, is_back, x_at, at;
} product;

MLFF_DEVICE product product_of(const network &net, int l, int is_back)
{
  const network_layer &layer = net.layers[l], &below = net.layers[l ? l - 1 : 0];
  if (is_back) return {layer.backward, NULL, layer.n_out, layer.n_in, l, 1, layer.at, below.at};
  return {layer.forward, layer.bias, layer.n_in, layer.n_out, l, 0, below.at, layer.at};
}

/* Moves on to the product after it; false: it was the last. */
MLFF_DEVICE bool advance(const network &net, int *layer, int *is_back)
{
  if (*is_back) return --*layer >= 0;
  if (*layer + 1 < net.n_hidden)
    ++*layer;
  else
    *is_back = 1;
  return true;
}

/* The first of a network takes x from global memory, by tiles, and the last one writes there. */
MLFF_DEVICE bool is_first(const product &p)
{
  return p.layer == 0 && !p.is_back;
}

/* What a block has: `aevs` and so on are those of its first atom. x tiles are for the first product, which reads from
 * global memory. */
typedef struct block_arrays {
  const real *aevs;
  real *grads, *energy;
  int64_t ld;
  int n_rows, n_tiles;
  real *w_tiles;                                      /* [n_tiles][depth][TILE_LD] */
  real *x_tiles;                                      /* [n_tiles][depth][ROWS] */
  real *results;                                      /* [reals_per_row][ROWS] */
  int next_layer, next_is_back, next_col0, next_step; /* tile of weights to be copied next; layer -1: none */
  int start, take;                                    /* tiles: that of the next copy, and of the next use */
} block_arrays;

MLFF_DEVICE bool is_worker()
{
  return threadIdx.x < WORKERS;
}

/* w_tile[k][c] = w[k0 + k][col0 + c]; columns that are not there are left alone. */
template <int N, int ROWS> MLFF_DEVICE void copy_weights(const product &now, int col0, int k0, real *w_tile)
{
  enum { PIECES = TILE_COLUMNS / N, ROWS_AT_ONCE = PIECES < COPIERS ? COPIERS / PIECES : 1 }; /* pieces of a row */
  enum { UNROLLED = N > 1 ? depth(ROWS) : 1 };                                                /* rare widths: not */
  const int t = (int) threadIdx.x - WORKERS, first = t / PIECES, n_out = now.n_out;
#pragma unroll 1
  for (int c = t % PIECES * N; c < TILE_COLUMNS; c += COPIERS * N) {
    if (col0 + c >= n_out) break;
    const real *from = now.weight + (k0 + first) * n_out + col0 + c;
    real *to = w_tile + first * TILE_LD + c;
#pragma unroll UNROLLED
    for (int k = 0; k < depth(ROWS); k += ROWS_AT_ONCE) copy_ahead<N>(to + k * TILE_LD, from + k * n_out);
  }
}

/* x_tile[k][r] = aevs[r][k0 + k], 0 outside. */
template <int ROWS> MLFF_DEVICE void copy_aevs(const block_arrays &b, int n_in, int k0, real *x_tile)
{
#pragma unroll 1
  for (int q = (int) threadIdx.x - WORKERS; q < depth(ROWS) * ROWS; q += COPIERS) {
    const int k = q % depth(ROWS), r = q / depth(ROWS);
    if (k0 + k < n_in && r < b.n_rows)
      copy_ahead<1>(x_tile + k * ROWS + r, b.aevs + r * b.ld + k0 + k);
    else
      x_tile[k * ROWS + r] = 0;
  }
}

/* Starts copying the next tile of weights, those of all products in the order of their use, of the first product also
 * that of x. Always a group of copies, be it empty. */
template <int ROWS> MLFF_DEVICE void start_tile(block_arrays *b, const network &net)
{
  enum { WIDE = 16 / sizeof(real) };
  if (b->next_layer >= 0) {
    const product now = product_of(net, b->next_layer, b->next_is_back);
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

/* The place of the next tile, once it is there; the tile before it has been used, in whose place the next copy is
 * started. */
template <int ROWS> MLFF_DEVICE int take_tile(block_arrays *b, const network &net)
{
  const int tile = b->take;
  if (!is_worker()) {
    if (b->n_tiles == LEAST_TILES)
      __pipeline_wait_prior(LEAST_TILES - 2);
    else
      __pipeline_wait_prior(TILES - 2);
  }
  __syncthreads();
  if (!is_worker()) start_tile<ROWS>(b, net);
  if (++b->take == b->n_tiles) b->take = 0;
  return tile;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* What becomes of the sums v of column col and N rows. Forward: h = celu(v), 0 in padding; backward: v times the slope
 * of the h that it meets, in its place, or the gradient. */
template <int ROWS, int N>
MLFF_DEVICE void finish_column(const block_arrays &b, const product &now, real alpha, int row, int col, vector_of<N> v)
{
  const bool is_there = col < now.n_out;
  real *result = b.results + (now.at + col) * ROWS + row;
  if (!now.is_back) {
#pragma unroll
    for (int r = 0; r < N; r++) {
      real slope;
      v.of[r] = is_there ? celu_value(v.of[r], alpha, &slope) : (real) 0;
    }
    store_vector(result, v);
  } else if (is_there && now.layer) {
    const vector_of<N> h = load_vector<N>(result);
#pragma unroll
    for (int r = 0; r < N; r++) v.of[r] *= celu_slope(h.of[r], 1 / alpha);
    store_vector(result, v);
  } else if (is_there) {
#pragma unroll
    for (int r = 0; r < N; r++)
      if (row + r < b.n_rows) b.grads[(row + r) * b.ld + col] = v.of[r];
  }
}

/* A thread's sums, of OWN_ROWS rows by 4 columns. Of 16 rows it has 4, over k in order as in linear_kernel; fewer it
 * has all, and lanes that are 8 or 16 apart, which have the same sums, every fourth k each: a slice. */
template <int ROWS> struct row_sums {
  enum { SLICES = ROWS > 8 ? 1 : 4, OWN_ROWS = ROWS / 4 * SLICES };
  vector_of<OWN_ROWS> of[THREAD_COLUMNS];
  int row, col, slice, unused; /* row, col: the first ones, within the tile */

  __device__ __forceinline__ void begin(const real *bias, int n_left)
  {
    const int lane = (int) threadIdx.x % WARP;
    set_global(bias);
    row = lane / 8 / SLICES * OWN_ROWS;
    slice = lane / 8 % SLICES;
    col = (int) threadIdx.x / WARP * WARP + lane % 8 * THREAD_COLUMNS;
#pragma unroll
    for (int c = 0; c < THREAD_COLUMNS; c++) {
      const real start = bias && slice == 0 && col + c < n_left ? bias[col + c] : (real) 0;
#pragma unroll
      for (int r = 0; r < OWN_ROWS; r++) of[c].of[r] = start;
    }
  }

  __device__ __forceinline__ void add(const real *x_tile, const real *w_tile, int n_rows, int n_left)
  {
    if (row >= n_rows || col >= n_left) return;
    x_tile += slice * ROWS + row;
    w_tile += slice * TILE_LD + col;
#pragma unroll
    for (int k = 0; k < depth(ROWS); k += SLICES) {
      const vector_of<OWN_ROWS> x = load_vector<OWN_ROWS>(x_tile + k * ROWS);
      const vector_of<THREAD_COLUMNS> w = load_vector<THREAD_COLUMNS>(w_tile + k * TILE_LD);
#pragma unroll
      for (int r = 0; r < OWN_ROWS; r++)
#pragma unroll
        for (int c = 0; c < THREAD_COLUMNS; c++) of[c].of[r] += x.of[r] * w.of[c];
    }
  }

  /* Adds the sums of lanes that are WITH apart, each of which keeps half of its N columns. */
  template <int WITH, int N> __device__ __forceinline__ void halve()
  {
    const bool high = (threadIdx.x & WITH) != 0;
#pragma unroll
    for (int c = 0; c < N / 2; c++)
#pragma unroll
      for (int r = 0; r < OWN_ROWS; r++) {
        const real low = of[c].of[r], other = of[c + N / 2].of[r];
        of[c].of[r] = (high ? other : low) + __shfl_xor_sync(FULL_WARP, high ? low : other, WITH);
      }
    col += high ? N / 2 : 0;
  }

  __device__ __forceinline__ void finish(const block_arrays &b, const product &now, real alpha, int col0)
  {
    const int n_columns = now.is_back ? now.n_out : (now.n_out + PAD - 1) / PAD * PAD;
    if (SLICES > 1) {
      halve<16, THREAD_COLUMNS>();
      halve<8, THREAD_COLUMNS / 2>();
    }
#pragma unroll
    for (int c = 0; c < THREAD_COLUMNS / SLICES; c++)
      if (col0 + col + c < n_columns) finish_column<ROWS>(b, now, alpha, row, col0 + col + c, of[c]);
  }
};

/* ---- a network --------------------------------------------------------------------------------------------------- */

/* energy[r] = bias + sum_k w[k] h[k][r],  h[k][r] = its slope w[k] factor, of the last hidden layer. A warp owns rows;
 * sums as in ani_readout_kernel. */
template <int ROWS> MLFF_DEVICE void read_out(const block_arrays &b, const network &net, real alpha, real factor)
{
  const network_layer &last = net.layers[net.n_hidden - 1];
  const int lane = (int) threadIdx.x % WARP;
  const real *weight = net.readout;
  set_global(weight);
  for (int r = (int) threadIdx.x / WARP; r < b.n_rows; r += NETWORK_WARPS) {
    real sum = 0;
    for (int k = lane; k < last.n_out; k += WARP) {
      real *result = b.results + (last.at + k) * ROWS + r;
      const real h = *result, w = weight[k];
      sum += w * h;
      *result = celu_slope(h, 1 / alpha) * w * factor;
    }
    sum = warp_sum(sum);
    if (lane == 0) b.energy[r] = sum + (real) net.readout_bias;
  }
}

/* One tile of columns of a product. Nobody waits behind its results: who reads them takes a tile before. */
template <int ROWS>
MLFF_DEVICE void multiply(block_arrays *b, const network &net, const product &now, int col0, real alpha)
{
  row_sums<ROWS> sums;
  sums.begin(now.bias ? now.bias + col0 : NULL, now.n_out - col0);
  for (int k0 = 0; k0 < now.n_in; k0 += depth(ROWS)) {
    const int tile = take_tile<ROWS>(b, net);
    const real *x = is_first(now) ? b->x_tiles + tile * depth(ROWS) * ROWS : b->results + (now.x_at + k0) * ROWS;
    if (is_worker()) sums.add(x, b->w_tiles + tile * depth(ROWS) * TILE_LD, b->n_rows, now.n_out - col0);
  }
  if (is_worker()) sums.finish(*b, now, alpha, col0);
}

/* energy[m][i] = bias + sum_k w[k] h_L[k],  h_l = celu(W_l h_{l-1} + b_l),  h_{-1} = aevs[i], and
 * grads[m][i][c] = factor d energy[m][i] / d aevs[i][c], for the atoms i of each group and its networks m.
 *   aevs [n_rows][ld], energy [n_members][ld_energy], grads [n_members][n_rows][ld], weights [n_in][n_out]
 * Grid: x over tiles of ROWS atoms, y over groups and members; blocks beyond the last atom of theirs do nothing. The
 * network's description is read while the kernel before may still run. Dynamic shared memory: tiles of weights and of
 * AEVs, activations of all layers. Deterministic. Twins: linear_cpu, ani_readout_cpu. */
template <int ROWS>
__global__ void __launch_bounds__(NETWORK_THREADS, ROWS > 8 ? BLOCKS_OF_16 : 1) ani_networks_kernel(networks_arrays a)
{
  MLFF_SHARED_DYNAMIC(char, shared);
  const row_group &group = a.groups[blockIdx.y / (unsigned) a.n_members];
  const int member = (int) (blockIdx.y % (unsigned) a.n_members), first = (int) blockIdx.x * ROWS;
  const network &net = *(const network *) (const void *) shared;
  const int64_t *from = (const int64_t *) (const void *) &a.networks[group.network + member];
  for (int q = (int) threadIdx.x; q < (int) (sizeof(network) / sizeof(int64_t)); q += NETWORK_THREADS)
    ((int64_t *) (void *) shared)[q] = from[q];
  grid_dependency_wait();
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
    const product now = product_of(net, layer, is_back);
    for (int col0 = 0; col0 < now.n_out; col0 += TILE_COLUMNS) multiply<ROWS>(&b, net, now, col0, (real) a.alpha);
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

/* A network as kernels see it. Returns its reals per row. */
static int describe(network *to, const mlff_ani_network *from)
{
  int at = 0;
  to->readout = (const real *) from->readout;
  to->readout_bias = from->readout_bias;
  to->n_hidden = from->n_hidden;
  for (int l = 0; l < from->n_hidden; l++) {
    const mlff_linear *forward = from->forward[l], *backward = from->backward[l];
    to->layers[l] = {(const real *) forward->packed.data,
                     (const real *) backward->packed.data,
                     (const real *) forward->bias.data,
                     forward->n_in,
                     forward->n_out,
                     at,
                     0};
    at += padded(forward->n_out);
  }
  return at;
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

/* Blocks of so many atoms. */
static int64_t blocks_of(const mlff_ani_networks_args *args, int rows)
{
  int64_t n = 0;
  for (int g = 0; g < args->n_groups; g++) n += (args->groups[g].n_rows + rows - 1) / rows * args->n_members;
  return n;
}

/* Atoms of a block: the fewest with which each multiprocessor has one block at most; 0: layer by layer. */
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
  a.n_tiles = TILES;
  if (shared_bytes(networks, rows, a.n_tiles) > (size_t) networks->most_shared) a.n_tiles = LEAST_TILES;
  const dim3 grid(mlff_cuda_blocks(most_rows, rows), (unsigned) (args->n_groups * args->n_members));
  const size_t bytes = shared_bytes(networks, rows, a.n_tiles);
  const auto kernel = rows == 4   ? ani_networks_kernel<4>
                      : rows == 8 ? ani_networks_kernel<8>
                                  : ani_networks_kernel<MOST_ATOMS>;
  mlff_cuda_launch(backend, "ani_networks_kernel", 0, kernel, grid, NETWORK_THREADS, bytes, a);
  return 1;
}
