/* nequip_normed.c: reads radial networks with biases and layer norms. Their first layer has more columns than radial
 * functions: embeddings of the neighbor's and of the center's element, which are constants of a pair. */
#include "nequip_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct normed_source {
  nequip_loader *in;
  const char *name;
  int t;
} normed_source;

static mlff_status read_vector(const normed_source *f, int k, const char *part, int n, double *values)
{
  double *v = NULL;
  MLFF_TRY(mlff_modelfile_matrix(f->in->file, f->in->error, n, 0, &v, "layers.%d.%s.%d.%s", f->t, f->name, k, part));
  memcpy(values, v, (size_t) n * sizeof *values);
  free(v);
  return MLFF_OK;
}

/* Splits w [n_out][n_basis + 2 n_input] into radial functions and, for each pair, what the embeddings give. */
static mlff_status split_first(const normed_source *f, const mlff_nequip_terms_args *shape, const double *w)
{
  nequip_loader *in = f->in;
  const int n = in->n_input, n_elements = in->head->n_elements, n_basis = shape->basis.n, n_out = shape->width[0];
  const int n_slots = in->net->n_slots, n_columns = n_basis + 2 * n;
  double *source = NULL, *target = NULL;
  in->hidden[0] = nequip_zeros((size_t) n_out * (size_t) n_basis);
  in->pair_bias = nequip_zeros((size_t) n_slots * (size_t) n_slots * (size_t) n_out);
  mlff_status status = in->hidden[0] && in->pair_bias ? MLFF_OK : nequip_no_memory(in);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n, n_elements, &source, "layers.%d.source", f->t);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n, n_elements, &target, "layers.%d.target", f->t);
  for (int o = 0; !status && o < n_out; o++, w += n_columns) {
    memcpy(in->hidden[0] + (size_t) o * (size_t) n_basis, w, (size_t) n_basis * sizeof *w);
    for (int pair = 0; pair < n_slots * n_slots; pair++)
      for (int c = 0; c < n; c++)
        in->pair_bias[(size_t) pair * (size_t) n_out + (size_t) o] +=
            (w[n_basis + c] * source[c * n_elements + in->element[pair % n_slots]] +
             w[n_basis + n + c] * target[c * n_elements + in->element[pair / n_slots]]) /
            sqrt(n_elements);
  }
  free(source);
  free(target);
  return status;
}

static mlff_status read_affine(const normed_source *f, int k, int n, int has_norm)
{
  static const char *const parts[] = {"bias", "norm", "norm_bias"};
  double *affine = f->in->affine[k] = nequip_zeros(3 * (size_t) n);
  if (!affine) return nequip_no_memory(f->in);
  for (int p = 0; p < (has_norm ? 3 : 1); p++) MLFF_TRY(read_vector(f, k, parts[p], n, affine + p * n));
  return MLFF_OK;
}

/* The last matrix, with its biases in a column for the unit that is the cutoff function. */
static mlff_status read_last(const normed_source *f, int k, int n_out, int n_in, double **last)
{
  double *w = NULL, *bias = nequip_zeros((size_t) n_out);
  *last = nequip_zeros((size_t) n_out * (size_t) (n_in + 1));
  mlff_status status = bias && *last ? MLFF_OK : nequip_no_memory(f->in);
  if (!status)
    status = mlff_modelfile_matrix(f->in->file, f->in->error, n_out, n_in, &w, "layers.%d.%s.%d", f->t, f->name, k);
  if (!status) status = read_vector(f, k, "bias", n_out, bias);
  for (int o = 0; !status && o < n_out; o++) {
    double *row = *last + (size_t) o * (size_t) (n_in + 1);
    memcpy(row, w + (size_t) o * (size_t) n_in, (size_t) n_in * sizeof *w);
    row[n_in] = bias[o];
  }
  free(w);
  free(bias);
  return status;
}

static mlff_status upload(nequip_loader *in, const mlff_nequip_terms_args *shape, nequip_network *network)
{
  mlff_backend *backend = in->net->backend;
  for (int k = 0, n_in = shape->basis.n; k < shape->n_hidden; n_in = shape->width[k++]) {
    const int n = shape->width[k];
    MLFF_TRY(mlff_buf_fill(backend, &network->weight[k], in->hidden[k], (int64_t) n * n_in, in->error));
    MLFF_TRY(mlff_buf_fill(backend, &network->affine[k], in->affine[k], 3 * (int64_t) n, in->error));
  }
  const int64_t n_pairs = (int64_t) in->net->n_slots * in->net->n_slots;
  return mlff_buf_fill(backend, &network->pair_bias, in->pair_bias, n_pairs * shape->width[0], in->error);
}

mlff_status nequip_read_normed(nequip_loader *in, int t, const char *name, const mlff_nequip_terms_args *shape,
                               int n_out, double **last, nequip_network *network)
{
  const normed_source f = {in, name, t};
  int n_in = shape->basis.n + 2 * in->n_input;
  nequip_free_network(in);
  for (int k = 0; k < shape->n_hidden; n_in = shape->width[k++]) {
    const int n = shape->width[k];
    double *w = NULL;
    mlff_status status = mlff_modelfile_matrix(in->file, in->error, n, n_in, &w, "layers.%d.%s.%d", t, name, k);
    if (!status && k == 0) status = split_first(&f, shape, w);
    if (k > 0)
      in->hidden[k] = w;
    else
      free(w);
    if (!status) status = read_affine(&f, k, n, !shape->is_density || k + 1 < shape->n_hidden);
    MLFF_TRY(status);
  }
  if (last) MLFF_TRY(read_last(&f, shape->n_hidden, n_out, n_in, last));
  return in->net->is_exact ? upload(in, shape, network) : MLFF_OK;
}

void nequip_release_network(mlff_backend *backend, nequip_network *network)
{
  for (int k = 0; k < NEQUIP_MAX_HIDDEN; k++) {
    mlff_buf_release(backend, &network->weight[k]);
    mlff_buf_release(backend, &network->affine[k]);
  }
  mlff_buf_release(backend, &network->pair_bias);
}
