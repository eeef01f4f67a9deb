/* ani_ops.c: the small operations around ANI's networks on the CPU. */
#include "cpu.h"

static void read_out(const mlff_ani_readout_args *a)
{
  const real *weight = a->weight, inverse_alpha = (real) (1 / a->alpha), factor = (real) a->factor;
  const int n_rest = a->n % MLFF_VLEN, n_whole = a->n - n_rest;
  for (int64_t r = 0; r < a->n_rows; r++) {
    real *h = (real *) a->hidden + r * a->ld_hidden;
    vreal sums = vset(0);
    for (int k = 0; k < n_whole; k += MLFF_VLEN) {
      const vreal w = vload(weight + k), v = vload(h + k);
      sums += w * v;
      vstore(h + k, mlff_celu_slope(vmin(vset(0), v), inverse_alpha) * w * factor);
    }
    if (n_rest) {
      const vreal w = vload_part(weight + n_whole, n_rest), v = vload_part(h + n_whole, n_rest);
      sums += w * v;
      vstore_part(h + n_whole, mlff_celu_slope(vmin(vset(0), v), inverse_alpha) * w * factor, n_rest);
    }
    const real sum = vsum(sums);
    ((real *) a->energy)[r] = sum + (real) a->bias;
  }
}

void MLFF_CPU(ani_readout_cpu)(mlff_backend *backend, int n, const mlff_ani_readout_args *args)
{
  (void) backend;
  for (int k = 0; k < n; k++) read_out(&args[k]);
}

void MLFF_CPU(ani_collect_cpu)(mlff_backend *backend, const mlff_ani_collect_args *a)
{
  (void) backend;
  real *node = a->node, *member = a->member;
  const real *energy = a->energy;
  for (int64_t r = 0; r < a->n_local; r++) {
    const int32_t i = a->centers[r];
    double sum = 0.0;
    for (int m = 0; m < a->n_members; m++) {
      const real e = r < a->n_rows ? energy[m * a->n_rows + r] : (real) 0;
      member[m * a->n_local + i] = e;
      sum += (double) e;
    }
    node[i] = (real) (sum / a->n_members);
  }
}
