/* testmodel.c: see testmodel.h. */
#include "testmodel.h"

#include "plain_painn.h"
#include "testmodel_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- architectures ---------------------------------------------------------------------------------------------- */

static void add_basis(test_weights *w, const test_model_options *o)
{
  const int64_t k = o->n_basis;
  double values[256], widths[256];
  if (k > 256) ck_abort_msg("at most 256 radial functions");
  if (!strcmp(o->basis, "gaussian")) {
    const double step = o->cutoff / (double) (k - 1);
    for (int b = 0; b < k; b++) {
      values[b] = b * step;
      widths[b] = step;
    }
    test_weights_add(w, 0, values, 1, &k, "basis.offsets");
    test_weights_add(w, 0, widths, 1, &k, "basis.widths");
  }
  if (!strcmp(o->basis, "bessel")) {
    for (int b = 0; b < k; b++) values[b] = 3.141592653589793 * (b + 1) / o->cutoff;
    test_weights_add(w, 0, values, 1, &k, "basis.freqs");
  }
}

test_model test_model_painn(test_model_options options)
{
  const test_model_options o = test_with_defaults(options);
  const int64_t f = o.n_features, embedding[2] = {o.n_elements, f};
  const int is_spline = !strcmp(o.basis, "bspline");
  test_writer w = {.text = NULL};
  test_weights t = {.rng = {o.seed + 1}};
  char name[64];
  test_put_head(&w, &o, "painn");
  test_put(&w, "painn:\n  n_features: %d\n  n_interactions: %d\n  n_readout: %d\n", o.n_features, o.n_interactions,
           o.n_readout);
  test_put(&w, "  radial_basis: {kind: %s, n: %d}\n  cutoff_function: %s\n  epsilon: 1.0e-8\n", o.basis, o.n_basis,
           is_spline ? "none" : "cosine");
  test_put_tail(&w, &o);
  test_weights_add(&t, 1.0, NULL, 2, embedding, "embedding");
  for (int l = 0; l < o.n_interactions; l++) {
    snprintf(name, sizeof name, "filter.%d", l);
    test_add_linear(&t, name, 3 * f, o.n_basis, !is_spline, 1.5);
    snprintf(name, sizeof name, "context.%d.0", l);
    test_add_linear(&t, name, f, f, 1, 1.2);
    snprintf(name, sizeof name, "context.%d.1", l);
    test_add_linear(&t, name, 3 * f, f, 1, 1.2);
    snprintf(name, sizeof name, "channel_mix.%d", l);
    test_add_linear(&t, name, 2 * f, f, 0, 1.0);
    snprintf(name, sizeof name, "mixing.%d.0", l);
    test_add_linear(&t, name, f, 2 * f, 1, 1.2);
    snprintf(name, sizeof name, "mixing.%d.1", l);
    test_add_linear(&t, name, 3 * f, f, 1, 1.2);
  }
  test_add_linear(&t, "readout.0", o.n_readout, f, 1, 1.2);
  test_add_linear(&t, "readout.1", 1, o.n_readout, 1, 1.2);
  add_basis(&t, &o);
  return test_finish(&w, &t, o.is_double);
}

/* Numbers that hidden layer l has for element s. */
static int ani_width(const test_model_options *o, int l, int s)
{
  return o->width - o->width / 5 * l + s;
}

static void put_ani(test_writer *w, const test_model_options *o, int n_aev)
{
  const double low = 0.8, pi = 3.141592653589793;
  test_put(w, "ani:\n  n_members: %d\n  constants: exact\n  radial: {cutoff: %.17g, eta: %.17g, prefactor: 0.25, ",
           o->n_members, o->cutoff, o->radial_eta);
  test_put_numbers(w, "shifts", o->n_radial, low, (o->cutoff - low) / o->n_radial);
  test_put(w, "}\n  angular: {cutoff: %.17g, eta: 8.0, zeta: 14.1, cos_scale: 0.95, prefactor: 2.0, ",
           o->angular_cutoff);
  test_put_numbers(w, "shifts", o->n_angular, low, (o->angular_cutoff - low) / o->n_angular);
  test_put(w, ", ");
  test_put_numbers(w, "sections", o->n_sections, pi / (2 * o->n_sections), pi / o->n_sections);
  test_put(w, "}\n  activation: {kind: celu, alpha: 0.1}\n  dims: {");
  for (int s = 0; s < o->n_elements; s++) {
    test_put(w, "%s%s: [%d", s ? ", " : "", o->elements[s], n_aev);
    for (int l = 0; l < o->n_hidden; l++) test_put(w, ", %d", ani_width(o, l, s));
    test_put(w, ", 1]");
  }
  test_put(w, "}\n");
}

test_model test_model_ani(test_model_options options)
{
  test_model_options o = test_with_defaults(options);
  if (!o.width) o.width = 20;
  const int n_aev = o.n_elements * o.n_radial + o.n_elements * (o.n_elements + 1) / 2 * o.n_angular * o.n_sections;
  test_writer w = {.text = NULL};
  test_weights t = {.rng = {o.seed + 1}};
  char name[64];
  test_put_head(&w, &o, "ani");
  put_ani(&w, &o, n_aev);
  test_put_tail(&w, &o);
  for (int m = 0; m < o.n_members; m++) {
    for (int s = 0; s < o.n_elements; s++) {
      int n_in = n_aev;
      for (int l = 0; l <= o.n_hidden; l++) {
        const int n_out = l < o.n_hidden ? ani_width(&o, l, s) : 1;
        snprintf(name, sizeof name, "member.%d.%s.%d", m, o.elements[s], l);
        test_add_linear(&t, name, n_out, n_in, 1, l ? 1.2 : 4.0);
        n_in = n_out;
      }
    }
  }
  return test_finish(&w, &t, o.is_double);
}

test_model_options test_three_elements(void)
{
  static const char *const hco[] = {"H", "C", "O"};
  return (test_model_options){.elements = hco, .n_elements = 3, .is_double = 1};
}

static void add_orb_mlp(test_weights *w, const test_model_options *o, int n_in, int n_layers, int n_out,
                        const char *name)
{
  const int widths[4] = {n_in, n_layers == 3 ? o->width : o->n_readout, n_layers == 3 ? o->width : n_out, n_out};
  const int64_t n = n_out;
  char layer[64];
  for (int k = 0; k < n_layers; k++) {
    snprintf(layer, sizeof layer, "%s.%d", name, k);
    test_add_linear(w, layer, widths[k + 1], widths[k], 1, 1.3);
  }
  if (n_layers < 3) return;
  double *gain = test_weights_add(w, 0.2, NULL, 1, &n, "%s.norm.weight", name);
  for (int k = 0; k < n_out; k++) gain[k] += 1.0;
  test_weights_add(w, 0.1, NULL, 1, &n, "%s.norm.bias", name);
}

test_model test_model_orb(test_model_options options)
{
  test_model_options o = test_with_defaults(options);
  if (options.cutoff == 0) o.cutoff = 6.0;
  if (!o.width) o.width = 24;
  if (!o.n_neighbours) o.n_neighbours = 20;
  const int64_t f = o.n_features, embedding[2] = {o.n_elements, f};
  test_writer w = {.text = NULL};
  test_weights t = {.rng = {o.seed + 1}};
  char name[64];
  test_put_head(&w, &o, "orb");
  test_put(&w, "orb:\n  n_features: %d\n  n_hidden: %d\n  n_interactions: %d\n  n_readout: %d\n  n_neighbours: %d\n",
           o.n_features, o.width, o.n_interactions, o.n_readout, o.n_neighbours);
  test_put(&w, "  radial_basis: {kind: gaussian, n: 20, radius: 10.0}\n  norm_epsilon: 1.0e-5\n");
  test_put(&w, "  normalizers: {energy: [-0.37, 1.9], forces: [0.0125, 0.61], stress: [-0.0031, 0.0144]}\n");
  test_put_tail(&w, &o);
  test_weights_add(&t, 1.0, NULL, 2, embedding, "embedding");
  add_orb_mlp(&t, &o, o.n_features, 3, o.n_features, "node_encoder");
  add_orb_mlp(&t, &o, 23, 3, o.n_features, "edge_encoder");
  for (int l = 0; l < o.n_interactions; l++) {
    snprintf(name, sizeof name, "layer.%d.edge", l);
    add_orb_mlp(&t, &o, 3 * o.n_features, 3, o.n_features, name);
    snprintf(name, sizeof name, "layer.%d.node", l);
    add_orb_mlp(&t, &o, 3 * o.n_features, 3, o.n_features, name);
    snprintf(name, sizeof name, "layer.%d.receive", l);
    test_add_linear(&t, name, 1, f, 1, 1.5);
    snprintf(name, sizeof name, "layer.%d.send", l);
    test_add_linear(&t, name, 1, f, 1, 1.5);
  }
  add_orb_mlp(&t, &o, o.n_features, 2, 1, "energy");
  add_orb_mlp(&t, &o, o.n_features, 2, 3, "forces");
  add_orb_mlp(&t, &o, o.n_features, 2, 6, "stress");
  return test_finish(&w, &t, o.is_double);
}

test_model test_model_small_orb(test_model_options options)
{
  options.n_features = 8;
  options.width = 12;
  options.n_readout = 6;
  options.n_neighbours = 6;
  options.n_interactions = 2;
  options.cutoff = 4.5;
  return test_model_orb(options);
}

test_model test_model_nth(int which, test_model_options options)
{
  static const char *const bases[] = {"bspline", "gaussian", "bessel"};
  options.seed += 7;
  if (which >= 3) return test_model_ani(options);
  options.basis = bases[which];
  return test_model_painn(options);
}

test_model test_model_ani_nth(int which, test_model_options o)
{
  if (o.cutoff == 0) o.cutoff = 4.2;
  if (which == 1) o.n_members = 1;
  if (which == 2) {
    o.n_elements = 3;
    o.n_radial = 16;
    o.n_angular = 8;
    o.n_sections = 4;
    o.n_hidden = 3;
    o.n_members = 8;
  }
  if (which == 3) {
    o.n_radial = o.n_angular = o.n_sections = o.n_hidden = 1;
    o.n_members = 2;
    o.radial_eta = 0.5; /* so wide that it sees all up to the cutoff */
  }
  if (which == 4) {
    o.n_radial = 7;
    o.n_angular = 5;
    o.n_sections = 3;
    o.angular_cutoff = o.cutoff; /* as long as the radial one */
    o.is_double = 1;
  }
  return test_model_ani(o);
}

/* ---- one maker for each architecture ----------------------------------------------------------------------------- */

/* The last variant of each has a short-range repulsion, which atoms of the properties' liquids feel. */
static test_model repelling(test_model model)
{
  test_model_repel(&model, "H-H: 1.5, H-O: 1.3, C-O: 1.7, O-O: 1.9");
  return model;
}

static test_model clamped(test_model model)
{
  test_model_repel_clamped(&model);
  return model;
}

/* Every basis, with one to three layers. */
static test_model make_painn(int variant)
{
  static const char *const bases[] = {"bspline", "gaussian", "bessel"};
  test_model_options o = test_three_elements();
  if (variant == 9) return repelling(make_painn(4));
  o.basis = bases[variant % 3];
  o.n_interactions = 1 + variant / 3;
  o.n_features = 20;
  o.n_readout = 9;
  o.n_basis = 11;
  o.cutoff = 4.0;
  o.seed = 5;
  return calm_painn(o);
}

static test_model make_ani(int variant)
{
  test_model_options o = test_three_elements();
  if (variant == TEST_N_ANI) return repelling(make_ani(0));
  o.seed = 40 + (uint64_t) variant;
  return test_model_ani_nth(variant, o);
}

/* Atoms with more neighbors in the cutoff than are kept, and with fewer. */
static test_model make_orb(int variant)
{
  test_model_options o = test_three_elements();
  if (variant == 2) return repelling(make_orb(0));
  o.seed = (uint64_t) variant;
  if (variant == 0) return test_model_small_orb(o);
  o.n_features = 12;
  o.n_interactions = 3;
  o.n_neighbours = 60;
  o.cutoff = 5.0;
  return test_model_orb(o);
}

/* Nequix, SevenNet and the package nequip (variant 6) in small: what the block of the file can say; variant 4 sees its
 * neighbors only, simulated GPUs run variant 3. */
static test_model make_nequip(int variant)
{
  test_model_options o = test_three_elements();
  if (variant == 5) return clamped(make_nequip(3));
  o.n_interactions = 3;
  o.n_features = 11;
  o.n_basis = 6;
  o.cutoff = 4.0;
  o.seed = 60 + (uint64_t) variant;
  o.is_sevennet = variant % 2;
  o.is_package = variant == 6;
  o.lmax = variant < 2 ? 3 : variant == 6 ? 2 : variant - 2;
  if (variant == 3) o.cutoff = 3.0;
  if (variant == 4) o.n_interactions = 1;
  return test_model_nequip(o);
}

/* One to three layers; variant 0 sees its neighbors only, variant 4 has the repulsion of MACE, variants 6 and 7 have
 * non-linear blocks. Simulated GPUs run variant 1. */
static test_model make_mace(int variant)
{
  test_model_options o = test_three_elements();
  if (variant == 5) return repelling(make_mace(1));
  o.n_interactions = variant == 0 ? 1 : variant == 1 ? 2 : 3;
  o.n_features = 7;
  o.n_basis = 6;
  o.n_readout = variant % 2 ? 5 : -1;
  o.cutoff = variant == 1 ? 3.2 : 3.6;
  o.seed = 90 + (uint64_t) variant;
  o.lmax = variant == 3 ? 3 : 2;
  o.n_orders = 1 + variant % 3;
  o.selects = variant % 2;
  o.transform = variant % 3;
  o.densities = variant == 1 ? 3 : variant == 4 ? 5 : 0;
  o.is_nonlinear = variant >= 6;
  o.is_common = o.reads_last = variant == 6;
  o.reads_twice = variant == 7;
  test_model model = test_model_mace(o);
  if (variant == 4) test_model_repel_mace(&model);
  return model;
}

/* One to three layers, both kinds of messages, all activations; simulated GPUs run variant 1. */
static test_model make_tensornet(int variant)
{
  static const char *const activations[] = {"silu", "silu", "tanh", "sigmoid", "softplus"};
  test_model_options o = test_three_elements();
  if (variant == 5) return clamped(make_tensornet(1));
  o.n_interactions = variant < 2 ? 2 : 1 + variant % 3;
  o.n_features = variant == 1 ? 7 : 20;
  o.n_basis = variant == 2 ? 6 : 3;
  o.cutoff = variant == 1 ? 3.2 : 4.0;
  o.seed = 120 + (uint64_t) variant;
  o.basis = variant == 2 ? "gaussian" : "bessel";
  o.activation = activations[variant];
  o.is_so3 = variant == 2 || variant == 3;
  o.from_center = variant == 0 || variant == 3;
  return test_model_tensornet(o);
}

const test_arch test_archs[] = {
    {.name = "painn", .n_variants = 10, .make = make_painn, .step = 1e-4, .derivative = 1e-8, .small = 3},
    /* a short step: CELU has kinks in its second derivative */
    {.name = "ani", .n_variants = TEST_N_ANI + 1, .make = make_ani, .step = 3e-6, .derivative = 1e-7},
    {.name = "orb", .n_variants = 3, .make = make_orb},
    {.name = "nequip", .n_variants = 7, .make = make_nequip, .step = 1e-4, .derivative = 1e-8, .small = 3},
    {.name = "mace", .n_variants = 8, .make = make_mace, .step = 1e-4, .derivative = 1e-8, .small = 1},
    {.name = "tensornet", .n_variants = 6, .make = make_tensornet, .step = 1e-4, .derivative = 1e-8, .small = 1},
    {.name = NULL},
};

int test_n_archs(void)
{
  int n = 0;
  while (test_archs[n].name) n++;
  return n;
}

test_model test_model_of_arch(int which)
{
  return test_archs[which].make(test_archs[which].small);
}
