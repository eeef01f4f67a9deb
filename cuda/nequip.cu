/* nequip.cu: NequIP ops of the GPU: radial network, first layer, gates and readout. Messages: nequip_message.cu. Twin:
 * cpu/nequip.c.
 */
#include "nequip.h"

#include "../src/mlff/backend/nequip_radial.h"

enum { NODE_WARPS = 4, NODE_THREADS = NODE_WARPS * WARP };
enum { GATE_BLOCKS = 4 }; /* per multiprocessor; without this bound, doubles spill around divisions */

/* ---- radial network ---------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

typedef struct terms_arrays {
  const int64_t *n_edges; /* on the device: a captured step only knows the capacity */
  const real *vec, *lines, *frequency, *radius, *weight[4], *pair_bias, *affine[4];
  real *terms; /* [n_edges][2][n_terms] */
  mlff_nequip_basis basis;
  double gain, epsilon;
  int n_hidden, n_terms, is_density, is_normed, first, n_units, width[4];
} terms_arrays;

/* Units from h of layer k without its biases in `out`, and their slopes. Twin: mlff_nequip_normed_layer. */
MLFF_DEVICE void normed_layer(const terms_arrays &a, int k, const real *pair_bias, int lane, real *out)
{
  const int n = a.width[k];
  const bool has_norm = !a.is_density || k + 1 < a.n_hidden;
  const real *bias = a.affine[k], *weight = bias + n, *shift = weight + n;
  real *slope = out + MLFF_NEQUIP_HIDDEN;
  const double share = 1.0 / n;
  double mean = 0, d_mean = 0, square = 0, product = 0, d;
  for (int o = lane; o < n; o += WARP) {
    out[o] += bias[o] + (pair_bias ? pair_bias[o] : (real) 0);
    mean += share * (double) out[o];
    d_mean += share * (double) slope[o];
  }
  mean = warp_sum(mean);
  d_mean = warp_sum(d_mean);
  for (int o = lane; o < n; o += WARP) {
    const double v = (double) out[o] - mean;
    square += share * v * v;
    product += share * v * ((double) slope[o] - d_mean);
  }
  const double s = 1 / sqrt(warp_sum(square) + a.epsilon), along = s * s * warp_sum(product);
  for (int o = lane; o < n; o += WARP) {
    const double v = (double) out[o] - mean, dv = (double) slope[o] - d_mean, w = (double) weight[o];
    const double h = has_norm ? w * v * s + (double) shift[o] : (double) out[o];
    out[o] = (real) mlff_nequip_activation(!has_norm, h, a.gain, &d);
    slope[o] = (real) (d * (has_norm ? w * s * (dv - v * along) : (double) slope[o]));
  }
}

/* terms[e][0][o] = act(h_o), terms[e][1][o] = d act(h_o)/dr, with h the last hidden layer, h_k = A_k act(h_{k-1});
 * zeros beyond its width. With layer norms: ops_nequip.h. A warp owns an edge, a lane every 32nd unit of each layer.
 * Shared memory: values and slopes of two layers per warp. Deterministic. Twin: nequip_terms_cpu. */
__global__ void __launch_bounds__(NODE_THREADS, GATE_BLOCKS) nequip_terms_kernel(terms_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(real, units, NODE_WARPS * 4 * MLFF_NEQUIP_HIDDEN);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int64_t e = (int64_t) blockIdx.x * NODE_WARPS + warp;
  if (e >= *a.n_edges) return;
  const double r = (double) a.vec[4 * e + 3];
  const int64_t pair = a.lines ? line_load_index(a.lines + e * MLFF_PAINN_LINE).pair : 0;
  const double r0 = a.radius ? (double) a.radius[pair] : 0;
  real *in = units + warp * 4 * MLFF_NEQUIP_HIDDEN, *out = in + 2 * MLFF_NEQUIP_HIDDEN;
  double df, d, dt;
  const double t = mlff_nequip_argument(&a.basis, r0, r, &dt), f = mlff_nequip_cutoff(&a.basis, r, &df);
  const double fb = a.is_normed ? 1 : f, dfb = a.is_normed ? 0 : df;
  for (int n = lane; n < a.basis.n; n += WARP) {
    in[n] = (real) mlff_nequip_function(&a.basis, (double) a.frequency[n], t, dt, fb, dfb, &d);
    in[MLFF_NEQUIP_HIDDEN + n] = (real) d;
  }
  for (int k = 0, n_in = a.basis.n; k < a.n_hidden; n_in = a.width[k++]) {
    __syncwarp();
    for (int o = lane; o < a.width[k]; o += WARP) {
      const real *w = a.weight[k] + (int64_t) o * n_in;
      real x = 0, dx = 0;
      for (int c = 0; c < n_in; c++) {
        x += w[c] * in[c];
        dx += w[c] * in[MLFF_NEQUIP_HIDDEN + c];
      }
      out[o] = a.is_normed ? x : (real) mlff_nequip_activation(a.is_density, (double) x, a.gain, &d);
      out[MLFF_NEQUIP_HIDDEN + o] = a.is_normed ? dx : (real) d * dx;
    }
    if (a.is_normed) normed_layer(a, k, k ? NULL : a.pair_bias + pair * a.width[0], lane, out);
    real *last = in;
    in = out;
    out = last;
  }
  __syncwarp();
  real *terms = a.terms + e * 2 * a.n_terms;
  const int width = a.width[a.n_hidden - 1];
  for (int c = a.first + lane; c < a.n_terms; c += WARP) {
    const int o = c - a.first;
    const real v = o < width ? in[o] : (real) 1, dv = o < width ? in[MLFF_NEQUIP_HIDDEN + o] : (real) 0;
    terms[c] = o >= a.n_units ? (real) 0 : a.is_normed ? v * (real) f : v;
    terms[a.n_terms + c] = o >= a.n_units ? (real) 0 : a.is_normed ? dv * (real) f + v * (real) df : dv;
  }
}

} // namespace

void MLFF_CUDA(nequip_terms_cuda)(mlff_backend *backend, const mlff_nequip_terms_args *args)
{
  terms_arrays a;
  memset(&a, 0, sizeof a);
  a.n_edges = (const int64_t *) args->edges->row.data + args->edges->n_local;
  a.vec = (const real *) args->edges->vec.data;
  a.frequency = (const real *) args->frequency;
  a.terms = (real *) args->terms;
  a.lines = args->lines ? (const real *) args->lines->line.data : NULL;
  a.radius = (const real *) args->radius;
  a.basis = args->basis;
  a.gain = args->gain;
  a.is_density = args->is_density;
  a.is_normed = args->is_normed;
  a.epsilon = args->epsilon;
  a.pair_bias = (const real *) args->pair_bias;
  a.first = args->first;
  a.n_units = mlff_nequip_n_units(args);
  a.n_hidden = args->n_hidden;
  a.n_terms = args->n_terms;
  for (int k = 0; k < args->n_hidden; k++) {
    a.width[k] = args->width[k];
    a.weight[k] = (const real *) args->weight[k];
    a.affine[k] = (const real *) args->affine[k];
  }
  MLFF_LAUNCH(backend, nequip_terms_kernel, mlff_cuda_blocks(args->edges->n_room, NODE_WARPS), NODE_THREADS, 0, a);
}

/* ---- first layer ------------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

typedef struct first_arrays {
  int64_t begin, end, n_rows, ld;
  const int64_t *row;
  const int32_t *center_species, *slot;
  const real *bias;
  real *z;         /* [n][ld] block */
  real *edge_grad; /* [n_edges][4] */
  radial_part radial;
  int n[MLFF_NEQUIP_ORDERS], offset[MLFF_NEQUIP_ORDERS]; /* channels of an order, and its offset in a row of z */
  int n_orders, n_chunks, accumulate, unused;            /* n_chunks of all orders */
} first_arrays;

/* R of edge e from `column` on; NULL if the network has no weights for its species. */
MLFF_DEVICE const real *first_rows(const first_arrays &a, const real *line, int column)
{
  const line_index index = line_load_index(line);
  const int32_t slot = a.slot[index.species];
  const int64_t first = a.radial.n_terms == 4 ? index.first : 0;
  return slot < 0 ? NULL : a.radial.rows + (slot * a.n_rows + first) * a.radial.n_weights + column;
}

/* z of atom i at channels c .. of order L; `column`: first column of the weights of the order. */
template <int L> MLFF_DEVICE void first_order(const first_arrays &a, int64_t i, int column, int c, int slot)
{
  vec sum[2 * L + 1];
#pragma unroll
  for (int m = 0; m < 2 * L + 1; m++) sum[m] = vec_zero();
  const int64_t end = c < a.n[L] ? a.row[i + 1] : 0;
#pragma unroll 2
  for (int64_t e = a.row[i] + slot; e < end; e += SLOTS) {
    const real *line = a.radial.lines + e * MLFF_PAINN_LINE, *rows = first_rows(a, line, column + c);
    if (!rows) continue;
    real y[MLFF_NEQUIP_HARMONICS];
    vec w;
    edge_weights(a.radial, rows, line, e, &w, NULL);
    mlff_nequip_harmonics(line + LINE_UNIT, y);
#pragma unroll
    for (int m = 0; m < 2 * L + 1; m++) vec_add(&sum[m], y[L * L + m], w);
  }
  const int32_t species = a.center_species[i], own_slot = species < 0 ? -1 : a.slot[species];
#pragma unroll
  for (int m = 0; m < 2 * L + 1; m++) {
    slots_sum(&sum[m]);
    if (c >= a.n[L] || m % SLOTS != slot) continue;
    if (L == 0 && own_slot >= 0) vec_add(&sum[m], 1, vec_load(a.bias + (int64_t) own_slot * a.n[0] + c));
    vec_store(a.z + (i - a.begin) * a.ld + a.offset[L] + m * a.n[L] + c, sum[m]);
  }
}

/* z[i][l][m][o] = bias[s_i][o] (l = 0) + sum_{e of i} w_{l,o}(r_e; s_j) Y_lm(e),  w = sum_t coef_t R[s_j][first + t]
 *   R [n_slots][n_rows][n_weights], z [n][ld], bias [n_slots][n[0]]
 * A warp owns CHUNK channels of one order of receiver i, a slot every SLOTS-th of its edges; sums are in registers. No
 * shared memory; deterministic. Twin: nequip_first_cpu. */
__global__ void __launch_bounds__(NODE_THREADS) nequip_first_kernel(first_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t task = (int64_t) blockIdx.x * NODE_WARPS + threadIdx.x / WARP, i = a.begin + task / a.n_chunks;
  if (i >= a.end) return;
  int l = 0, c = (int) (task % a.n_chunks) * CHUNK, column = 0;
  for (int n = (a.n[0] + CHUNK - 1) / CHUNK * CHUNK; c >= n; n = (a.n[l] + CHUNK - 1) / CHUNK * CHUNK) {
    c -= n;
    column += a.n[l++];
  }
  c += lane % LANES * VEC;
  if (l == 0) first_order<0>(a, i, column, c, lane / LANES);
  if (l == 1) first_order<1>(a, i, column, c, lane / LANES);
  if (l == 2) first_order<2>(a, i, column, c, lane / LANES);
  if (l == 3) first_order<3>(a, i, column, c, lane / LANES);
}

/* Adjoint of z[l][m][o] += w_{l,o} Y_lm for the channels of a lane and order L, g the adjoint of z: v += (dE/dr,
 * dE/dY) */
template <int L>
MLFF_DEVICE void first_order_backward(const first_arrays &a, const real *line, int64_t e, const real *g, int column,
                                      int lane, real *v)
{
  real y[MLFF_NEQUIP_HARMONICS];
  mlff_nequip_harmonics(line + LINE_UNIT, y);
  for (int c = lane % LANES * VEC; c < a.n[L]; c += CHUNK) {
    vec w, dw, dE_dw = vec_zero();
    edge_weights(a.radial, first_rows(a, line, column + c), line, e, &w, &dw);
#pragma unroll
    for (int m = 0; m < 2 * L + 1; m++) {
      const vec gm = vec_load(g + a.offset[L] + m * a.n[L] + c);
      vec_add(&dE_dw, y[L * L + m], gm);
      if (L > 0) v[L * L + m] += vec_dot(w, gm);
    }
    v[0] += vec_dot(dE_dw, dw);
  }
}

/* With g the adjoint of z[i]: dE/dr = sum_{l,m,o} Y_lm g_lmo dw_lo/dr,  dE/dY_lm = sum_o w_lo g_lmo, and from them
 * edge_grad[e] = (or +=) dE/d(x_j - x_i).
 * Grid: x over receivers, y over the split of their edges. A warp owns receiver i and SLOTS of its edges at a time, a
 * lane every LANES-th VEC channels of one edge. Shared memory: 16 sums per slot of a warp. Deterministic.
 * Twin: nequip_first_backward_cpu, first_edge. */
__global__ void __launch_bounds__(NODE_THREADS) nequip_first_backward_kernel(first_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(real, sums, NODE_WARPS * SLOTS * MLFF_NEQUIP_HARMONICS);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP, slot = lane / LANES;
  const int64_t i = a.begin + (int64_t) blockIdx.x * NODE_WARPS + warp, step = (int64_t) gridDim.y * SLOTS;
  if (i >= a.end) return;
  real *warp_sums = sums + warp * SLOTS * MLFF_NEQUIP_HARMONICS;
  const real *g = a.z + (i - a.begin) * a.ld;
  for (int64_t e0 = a.row[i] + (int64_t) blockIdx.y * SLOTS; e0 < a.row[i + 1]; e0 += step) {
    const int64_t e = e0 + slot;
    const real *line = a.radial.lines + e * MLFF_PAINN_LINE;
    real v[MLFF_NEQUIP_HARMONICS];
#pragma unroll
    for (int k = 0; k < MLFF_NEQUIP_HARMONICS; k++) v[k] = 0;
    if (e < a.row[i + 1] && first_rows(a, line, 0)) {
      first_order_backward<0>(a, line, e, g, 0, lane, v);
      if (a.n_orders > 1) first_order_backward<1>(a, line, e, g, a.n[0], lane, v);
      if (a.n_orders > 2) first_order_backward<2>(a, line, e, g, a.n[0] + a.n[1], lane, v);
      if (a.n_orders > 3) first_order_backward<3>(a, line, e, g, a.n[0] + a.n[1] + a.n[2], lane, v);
    }
    slot_sum(v, lane, warp_sums + slot * MLFF_NEQUIP_HARMONICS);
    __syncwarp();
    if (lane % LANES == 0 && e < a.row[i + 1])
      store_gradient(line, warp_sums + slot * MLFF_NEQUIP_HARMONICS, 1, 0, a.edge_grad + 4 * e, a.accumulate);
    __syncwarp();
  }
}

} // namespace

static first_arrays first_arrays_of(const mlff_nequip_first_args *args)
{
  first_arrays a;
  memset(&a, 0, sizeof a);
  a.begin = args->begin;
  a.end = args->end;
  a.n_rows = args->n_rows;
  a.ld = args->out.ld;
  a.row = (const int64_t *) args->edges->row.data;
  a.center_species = (const int32_t *) args->edges->center_species.data;
  a.slot = args->slot;
  a.bias = (const real *) args->bias;
  a.z = (real *) args->z;
  a.edge_grad = (real *) args->edge_grad;
  a.radial = radial_of(&args->radial, args->rows);
  a.n_orders = args->out.n_orders;
  a.accumulate = args->accumulate;
  for (int l = 0; l < args->out.n_orders; l++) {
    a.n[l] = args->out.n[l];
    a.offset[l] = args->out.offset[l];
    a.n_chunks += (a.n[l] + CHUNK - 1) / CHUNK;
  }
  return a;
}

void MLFF_CUDA(nequip_first_cuda)(mlff_backend *backend, const mlff_nequip_first_args *args)
{
  const first_arrays a = first_arrays_of(args);
  const unsigned n_blocks = mlff_cuda_blocks((a.end - a.begin) * a.n_chunks, NODE_WARPS);
  MLFF_LAUNCH(backend, nequip_first_kernel, n_blocks, NODE_THREADS, 0, a);
}

void MLFF_CUDA(nequip_first_backward_cuda)(mlff_backend *backend, const mlff_nequip_first_args *args)
{
  const first_arrays a = first_arrays_of(args);
  const unsigned n_blocks = mlff_cuda_blocks(a.end - a.begin, NODE_WARPS);
  const dim3 grid(n_blocks, edge_split(backend, args->edges, n_blocks, SLOTS));
  MLFF_LAUNCH(backend, nequip_first_backward_kernel, grid, NODE_THREADS, 0, a);
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

typedef struct gate_arrays {
  int64_t n, in_ld, out_ld;
  const real *z, *weight, *grad_x;
  real *scale, *x, *grad_z;
  double epsilon;
  real gain, gate_gain;                  /* gate_gain: of sigmoid, 0 for silu */
  real order_weight[MLFF_NEQUIP_ORDERS]; /* 1/((2l+1)^2 n_orders), weight of order l in the norm */
  int n_in[MLFF_NEQUIP_ORDERS], in_offset[MLFF_NEQUIP_ORDERS], n_out[MLFF_NEQUIP_ORDERS],
      out_offset[MLFF_NEQUIP_ORDERS];
  int n_orders_in, n_orders_out;
} gate_arrays;

/* g/sqrt(s) of VEC channels; `channel` counts over all orders. */
MLFF_DEVICE vec channel_scale(const gate_arrays &a, int channel, real scale)
{
  vec out;
  const vec g = a.weight ? vec_load(a.weight + channel) : vec_zero();
#pragma unroll
  for (int b = 0; b < VEC; b++) out.v[b] = a.weight ? g.v[b] * scale : (real) 1;
  return out;
}

/* q = z s: returns gain silu(q), slope = its derivative by q */
MLFF_DEVICE vec vec_gate(const gate_arrays &a, const vec &z, const vec &s, vec *slope)
{
  vec out;
#pragma unroll
  for (int b = 0; b < VEC; b++) {
    const real q = z.v[b] * s.v[b];
    out.v[b] = a.gain * mlff_silu(q, real_sigmoid(q), &slope->v[b]);
    slope->v[b] *= a.gain;
  }
  return out;
}

/* Gates of orders l > 0: the same, or gate_gain sigmoid(q) */
MLFF_DEVICE vec vec_order_gate(const gate_arrays &a, const vec &z, const vec &s, vec *slope)
{
  if (a.gate_gain == 0) return vec_gate(a, z, s, slope);
  vec out;
#pragma unroll
  for (int b = 0; b < VEC; b++) {
    const real y = real_sigmoid(z.v[b] * s.v[b]);
    out.v[b] = a.gate_gain * y;
    slope->v[b] = a.gate_gain * y * (1 - y);
  }
  return out;
}

/* q = g z/sqrt(s), s = epsilon + sum_{l,m,u} z_lmu^2/((2l+1)^2 n_orders);  x_0 = gain silu(q_0),
 * x_lmu = gain q_lmu silu(gate of l, u), or with gate_gain the sigmoid of it
 *   z [n][in_ld], x [n][out_ld], weight g, scale [n] = 1/sqrt(s)
 * A warp owns an atom, a lane every 32nd VEC channels. No shared memory; deterministic. Twin: nequip_gate_cpu. */
__global__ void __launch_bounds__(NODE_THREADS, GATE_BLOCKS) nequip_gate_kernel(gate_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * NODE_WARPS + threadIdx.x / WARP;
  if (i >= a.n) return;
  const real *z = a.z + i * a.in_ld;
  real *x = a.x + i * a.out_ld, scale = 1;
  vec slope;
  if (a.weight) {
    real sum = 0;
    for (int l = 0; l < a.n_orders_in; l++)
      for (int c = lane * VEC; c < (2 * l + 1) * a.n_in[l]; c += WARP * VEC) {
        const vec v = vec_load(z + a.in_offset[l] + c);
        sum += a.order_weight[l] * vec_dot(v, v);
      }
    scale = (real) (1.0 / sqrt(a.epsilon + (double) warp_sum(sum)));
    if (lane == 0) a.scale[i] = scale;
  }
  for (int c = lane * VEC; c < a.n_out[0]; c += WARP * VEC)
    vec_store(x + c, vec_gate(a, vec_load(z + c), channel_scale(a, c, scale), &slope));
  for (int l = 1, gates = a.n_out[0], channel = a.n_in[0]; l < a.n_orders_out;
       gates += a.n_out[l], channel += a.n_out[l++])
    for (int c = lane * VEC; c < a.n_out[l]; c += WARP * VEC) {
      const vec gate =
          vec_product(vec_order_gate(a, vec_load(z + gates + c), channel_scale(a, gates + c, scale), &slope),
                      channel_scale(a, channel + c, scale));
      for (int m = 0; m < 2 * l + 1; m++)
        vec_store(x + a.out_offset[l] + m * a.n_out[l] + c,
                  vec_product(gate, vec_load(z + a.in_offset[l] + m * a.n_in[l] + c)));
    }
}

/* Adjoint of nequip_gate_kernel for VEC channels c of order l and their gates: v = g_q g/sqrt(s), which is g_z without
 * the derivative of the norm. Returns sum v z. STORE: also stores g_z = v - norm_grad order_weight z. */
template <int STORE>
MLFF_DEVICE real gate_backward(const gate_arrays &a, const real *z, const real *g, real *grad, real scale, int l, int c,
                               int gates, int channel, real norm_grad)
{
  const vec gate_scale = channel_scale(a, gates + c, scale), x_scale = channel_scale(a, channel + c, scale);
  const vec z_gate = vec_load(z + gates + c);
  vec slope, sum = vec_zero(), v = vec_zero();
  const vec gate = vec_product(x_scale, vec_order_gate(a, z_gate, gate_scale, &slope));
  real dot = 0;
  for (int m = 0; m < 2 * l + 1; m++) {
    const int offset = a.in_offset[l] + m * a.n_in[l] + c;
    const vec gm = vec_load(g + a.out_offset[l] + m * a.n_out[l] + c), zm = vec_load(z + offset);
    vec_add_product(&sum, gm, zm);
    v = vec_product(gm, gate);
    dot += vec_dot(v, zm);
    if (STORE) vec_add(&v, -norm_grad * a.order_weight[l], zm);
    if (STORE) vec_store(grad + offset, v);
  }
  v = vec_product(vec_product(x_scale, sum), vec_product(slope, gate_scale));
  dot += vec_dot(v, z_gate);
  if (STORE) vec_add(&v, -norm_grad * a.order_weight[0], z_gate);
  if (STORE) vec_store(grad + gates + c, v);
  return dot;
}

/* As gate_backward, for scalars. */
template <int STORE>
MLFF_DEVICE real scalars_backward(const gate_arrays &a, const real *z, const real *g, real *grad, real scale, int c,
                                  real norm_grad)
{
  const vec s = channel_scale(a, c, scale), zc = vec_load(z + c);
  vec slope;
  vec_gate(a, zc, s, &slope);
  vec v = vec_product(vec_product(vec_load(g + c), slope), s);
  const real dot = vec_dot(v, zc);
  if (STORE) vec_add(&v, -norm_grad * a.order_weight[0], zc);
  if (STORE) vec_store(grad + c, v);
  return dot;
}

/* Returns sum v z over the channels of a lane; STORE: also stores g_z. */
template <int STORE>
MLFF_DEVICE real row_backward(const gate_arrays &a, const real *z, const real *g, real *grad, real scale, int lane,
                              real norm_grad)
{
  real dot = 0;
  for (int c = lane * VEC; c < a.n_out[0]; c += WARP * VEC)
    dot += scalars_backward<STORE>(a, z, g, grad, scale, c, norm_grad);
  for (int l = 1, gates = a.n_out[0], channel = a.n_in[0]; l < a.n_orders_out;
       gates += a.n_out[l], channel += a.n_out[l++])
    for (int c = lane * VEC; c < a.n_out[l]; c += WARP * VEC)
      dot += gate_backward<STORE>(a, z, g, grad, scale, l, c, gates, channel, norm_grad);
  return dot;
}

/* g_z = v - z sum(v z)/(s (2l+1)^2 n_orders),  v = g_q g/sqrt(s) of the gates
 *   grad_x [n][out_ld], grad_z [n][in_ld], which may be z
 * A warp owns an atom, a lane every 32nd VEC channels and their gates, so grad_z may alias z. v is computed twice, for
 * the sum and for g_z. No shared memory; deterministic. Twin: nequip_gate_backward_cpu. */
__global__ void __launch_bounds__(NODE_THREADS, GATE_BLOCKS) nequip_gate_backward_kernel(gate_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * NODE_WARPS + threadIdx.x / WARP;
  if (i >= a.n) return;
  const real *z = a.z + i * a.in_ld, *g = a.grad_x + i * a.out_ld;
  real scale = 1, norm_grad = 0;
  if (a.weight) {
    scale = a.scale[i];
    norm_grad = warp_sum(row_backward<0>(a, z, g, NULL, scale, lane, 0)) * scale * scale;
  }
  row_backward<1>(a, z, g, a.grad_z + i * a.in_ld, scale, lane, norm_grad);
}

} // namespace

static gate_arrays gate_arrays_of(const mlff_nequip_gate_args *args)
{
  gate_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.in_ld = args->in.ld;
  a.out_ld = args->out.ld;
  a.z = (const real *) args->z;
  a.weight = (const real *) args->weight;
  a.grad_x = (const real *) args->grad_x;
  a.scale = (real *) args->scale;
  a.x = (real *) args->x;
  a.grad_z = (real *) args->grad_z;
  a.epsilon = args->epsilon;
  a.gain = (real) args->gain;
  a.gate_gain = (real) args->gate_gain;
  a.n_orders_in = args->in.n_orders;
  a.n_orders_out = args->out.n_orders;
  for (int l = 0; l < MLFF_NEQUIP_ORDERS; l++) {
    a.order_weight[l] = (real) (1.0 / ((2 * l + 1) * (2 * l + 1) * args->in.n_orders));
    a.n_in[l] = args->in.n[l];
    a.in_offset[l] = args->in.offset[l];
    a.n_out[l] = args->out.n[l];
    a.out_offset[l] = args->out.offset[l];
  }
  return a;
}

void MLFF_CUDA(nequip_gate_cuda)(mlff_backend *backend, const mlff_nequip_gate_args *args)
{
  MLFF_LAUNCH(backend, nequip_gate_kernel, mlff_cuda_blocks(args->n, NODE_WARPS), NODE_THREADS, 0,
              gate_arrays_of(args));
}

void MLFF_CUDA(nequip_gate_backward_cuda)(mlff_backend *backend, const mlff_nequip_gate_args *args)
{
  MLFF_LAUNCH(backend, nequip_gate_backward_kernel, mlff_cuda_blocks(args->n, NODE_WARPS), NODE_THREADS, 0,
              gate_arrays_of(args));
}

/* ---- readout ----------------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

typedef struct readout_arrays {
  int64_t n, width;
  const real *x, *weight;
  const int32_t *slot, *species;
  real *energy, *grad;
} readout_arrays;

/* energy[i] = sum_u x[i][u] weight[slot of i][u], grad[i] = that weight; zeros for atoms of species -1.
 *   x, grad [n][width], weight [n_slots][width]
 * A warp owns an atom, a lane every 32nd VEC channels. No shared memory; deterministic. Twin: nequip_readout_cpu. */
__global__ void __launch_bounds__(NODE_THREADS) nequip_readout_kernel(readout_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * NODE_WARPS + threadIdx.x / WARP;
  if (i >= a.n) return;
  const int32_t slot = a.species[i] < 0 ? -1 : a.slot[a.species[i]];
  real sum = 0;
  for (int64_t c = lane * VEC; c < a.width; c += WARP * VEC) {
    const vec w = slot < 0 ? vec_zero() : vec_load(a.weight + slot * a.width + c);
    sum += vec_dot(w, vec_load(a.x + i * a.width + c));
    vec_store(a.grad + i * a.width + c, w);
  }
  sum = warp_sum(sum);
  if (lane == 0) a.energy[i] = slot < 0 ? (real) 0 : sum;
}

} // namespace

void MLFF_CUDA(nequip_readout_cuda)(mlff_backend *backend, const mlff_nequip_readout_args *args)
{
  readout_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.width = args->width;
  a.x = (const real *) args->x;
  a.weight = (const real *) args->weight;
  a.slot = args->slot;
  a.species = args->species;
  a.energy = (real *) args->energy;
  a.grad = (real *) args->grad;
  MLFF_LAUNCH(backend, nequip_readout_kernel, mlff_cuda_blocks(args->n, NODE_WARPS), NODE_THREADS, 0, a);
}
