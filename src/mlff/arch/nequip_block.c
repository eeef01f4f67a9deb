/* nequip_block.c: reads the `nequip` block of a model file (docs/model_file.md). */
#include "nequip_load.h"

#include <math.h>

/* Reads a sequence of n_low to n_high integers from 1 to high. */
mlff_status nequip_read_counts(nequip_loader *in, const mlff_yaml *parent, const char *key, int n_low, int n_high,
                               int high, int *n, const double **values)
{
  MLFF_TRY(mlff_yaml_doubles(in->file, parent, key, -1, values, n, in->error));
  int bad = *n < n_low || *n > n_high;
  for (int k = 0; !bad && k < *n; k++)
    bad = !((*values)[k] >= 1 && (*values)[k] <= high && floor((*values)[k]) == (*values)[k]);
  if (!bad) return MLFF_OK;
  return mlff_yaml_fail(in->file, parent, in->error, "%s: expected %d to %d integers from 1 to %d", key, n_low, n_high,
                        high);
}

mlff_status nequip_read_cutoff_function(nequip_loader *in, const mlff_yaml *block)
{
  static const char *const cutoffs[] = {"polynomial", "xplor", NULL};
  mlff_nequip_basis *basis = &in->net->network.basis;
  const mlff_yaml *part = NULL;
  const double cutoff = in->head->cutoff;
  int kind = 0;
  MLFF_TRY(mlff_yaml_map(in->file, block, "cutoff_function", &part, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "kind", cutoffs, &kind, in->error));
  if (kind == 0)
    MLFF_TRY(mlff_yaml_double(in->file, part, "p", 2.0, 64.0, &basis->power, in->error));
  else
    MLFF_TRY(mlff_yaml_double(in->file, part, "onset", 0.0, 0.999 * cutoff, &basis->onset, in->error));
  basis->cutoff = cutoff;
  return MLFF_OK;
}

static mlff_status read_basis(nequip_loader *in, const mlff_yaml *block)
{
  static const char *const kinds[] = {"bessel", "trained", NULL};
  mlff_nequip_basis *basis = &in->net->network.basis;
  const mlff_yaml *part = NULL;
  const double cutoff = in->head->cutoff;
  MLFF_TRY(mlff_yaml_map(in->file, block, "radial_basis", &part, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "kind", kinds, &in->is_trained, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, part, "n", 1, MLFF_NEQUIP_HIDDEN, &basis->n, in->error));
  MLFF_TRY(nequip_read_cutoff_function(in, block));
  basis->prefactor = 2.0 / cutoff;
  if (in->is_trained)
    return mlff_modelfile_matrix(in->file, in->error, basis->n, 0, &in->frequency, "radial_frequencies");
  if (!(in->frequency = nequip_zeros((size_t) basis->n))) return nequip_no_memory(in);
  for (int k = 0; k < basis->n; k++) in->frequency[k] = (k + 1) * 3.14159265358979323846 / cutoff;
  return MLFF_OK;
}

mlff_status nequip_read_network_shape(nequip_loader *in, const mlff_yaml *block)
{
  static const char *const scalings[] = {"none", "sqrt", NULL};
  mlff_nequip_terms_args *network = &in->net->network;
  const mlff_yaml *part = NULL;
  const double *widths = NULL;
  double norm = 1.0;
  MLFF_TRY(mlff_yaml_map(in->file, block, "radial_network", &part, in->error));
  MLFF_TRY(
      nequip_read_counts(in, part, "hidden", 1, NEQUIP_MAX_HIDDEN, MLFF_NEQUIP_HIDDEN, &network->n_hidden, &widths));
  for (int k = 0; k < network->n_hidden; k++) network->width[k] = (int) widths[k];
  MLFF_TRY(mlff_yaml_double(in->file, part, "activation_norm", 1e-3, 1e3, &norm, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "fan_in", scalings, &in->is_scaled, in->error));
  network->gain = 1.0 / norm;
  return MLFF_OK;
}

static mlff_status read_channels(nequip_loader *in, const mlff_yaml *block)
{
  static const char *const paths[] = {"all", "even", NULL};
  nequip_net *net = in->net;
  const double *channels = NULL;
  int n_divisors = 0;
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_layers", 1, 16, &net->n_layers, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "lmax", 0, NEQUIP_ORDERS - 1, &net->lmax, in->error));
  MLFF_TRY(
      nequip_read_counts(in, block, "n_channels", 1, net->lmax + 1, NEQUIP_MAX_CHANNELS, &net->n_orders, &channels));
  for (int l = 0; l < net->n_orders; l++) net->n_channels[l] = net->n_sent[l] = (int) channels[l];
  MLFF_TRY(mlff_yaml_choice(in->file, block, "paths", paths, &net->is_even, in->error));
  MLFF_TRY(mlff_yaml_doubles(in->file, block, "message_divisor", net->n_layers, &in->divisor, &n_divisors, in->error));
  for (int t = 0; t < n_divisors; t++)
    if (!(in->divisor[t] > 0))
      return mlff_yaml_fail(in->file, block, in->error, "message_divisor: %g is not positive", in->divisor[t]);
  return MLFF_OK;
}

/* The input of layer 0, and what depends on the element of an atom. */
static mlff_status read_elements(nequip_loader *in, const mlff_yaml *block)
{
  enum { LINEAR, ONE_HOT, ELEMENT };
  static const char *const embeddings[] = {"linear", "one_hot", "element", NULL}, *const connections[] = {"linear",
                                                                                                          "element",
                                                                                                          NULL};
  const int n_elements = in->head->n_elements;
  int embedding = LINEAR, n = 0;
  MLFF_TRY(mlff_yaml_choice(in->file, block, "embedding", embeddings, &embedding, in->error));
  in->is_one_hot = embedding == ONE_HOT;
  in->is_embedded = embedding == ELEMENT;
  in->n_first = in->is_one_hot ? n_elements : in->net->n_channels[0];
  if (in->is_embedded)
    MLFF_TRY(mlff_yaml_int(in->file, block, "n_embedding", 1, NEQUIP_MAX_CHANNELS, &in->n_first, in->error));
  in->n_input = in->n_first;
  if (mlff_yaml_has(block, "self_connection"))
    MLFF_TRY(mlff_yaml_choice(in->file, block, "self_connection", connections, &in->skips_by_element, in->error));
  if (in->skips_by_element && !in->is_embedded)
    return mlff_yaml_fail(in->file, block, in->error, "self_connection element needs embedding element");
  in->has_skip = !in->skips_by_element;
  if (!mlff_yaml_has(block, "neighbor_divisor")) return MLFF_OK;
  MLFF_TRY(mlff_yaml_doubles(in->file, block, "neighbor_divisor", n_elements, &in->neighbor_divisor, &n, in->error));
  for (int s = 0; s < n; s++)
    if (!(in->neighbor_divisor[s] > 0))
      return mlff_yaml_fail(in->file, block, in->error, "neighbor_divisor: %g is not positive",
                            in->neighbor_divisor[s]);
  return MLFF_OK;
}

static mlff_status read_readout_shape(nequip_loader *in, const mlff_yaml *block)
{
  static const char key[] = "readout_activation_norm";
  nequip_net *net = in->net;
  double norm = 1.0;
  MLFF_TRY(nequip_read_counts(in, block, "n_readout", 0, 4, 4096, &in->n_readout, &in->readout_width));
  if (!mlff_yaml_has(block, key)) return MLFF_OK;
  MLFF_TRY(mlff_yaml_double(in->file, block, key, 1e-3, 1e3, &norm, in->error));
  if (in->n_readout != 1 || in->readout_width[0] > MLFF_MACE_HIDDEN)
    return mlff_yaml_fail(in->file, block, in->error, "%s: expected n_readout with one integer from 1 to %d", key,
                          MLFF_MACE_HIDDEN);
  net->n_hidden = (int) in->readout_width[0];
  net->readout_gain = 1.0 / norm;
  return MLFF_OK;
}

mlff_status nequip_read_block(nequip_loader *in)
{
  static const char *const norms[] = {"none", "rms", NULL};
  nequip_net *net = in->net;
  const mlff_yaml *block = NULL, *part = NULL;
  double norm = 1.0;
  MLFF_TRY(mlff_yaml_map(in->file, mlff_modelfile_root(in->file), "nequip", &block, in->error));
  MLFF_TRY(read_channels(in, block));
  MLFF_TRY(read_elements(in, block));
  MLFF_TRY(read_basis(in, block));
  MLFF_TRY(nequip_read_network_shape(in, block));
  MLFF_TRY(mlff_yaml_map(in->file, block, "norm", &part, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "kind", norms, &in->has_norm, in->error));
  if (in->has_norm) MLFF_TRY(mlff_yaml_double(in->file, part, "epsilon", 1e-30, 1.0, &net->epsilon, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, block, "activation_norm", 1e-3, 1e3, &norm, in->error));
  net->gain = 1.0 / norm;
  return read_readout_shape(in, block);
}
