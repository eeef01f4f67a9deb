/* mace_load.c: reads the `mace` block and tensors of a model file and prepares them for mace.c and nequip.c.
 *
 * Computed in double on the host. Normalisations are folded into matrices and coefficients. Matrices of elements that
 * are not used are left out.
 */
#include "mace_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = NEQUIP_ORDERS, HARMONICS = MLFF_NEQUIP_HARMONICS, MOST_DEGREE = 3 };

static mlff_status no_memory(const mace_block *b)
{
  return nequip_no_memory(b->in);
}

static int n_orders_of(const mace_block *b, int t)
{
  return nequip_is_last(b->in->net, t) ? 1 : b->in->net->n_orders;
}

/* ---- matrices of an element -------------------------------------------------------------------------------------- */

/* layers.T.skip.lL of the elements in use, side by side: [n_padded][n_slots * n_padded], times scale. */
static mlff_status read_wide(mace_block *b, int t, int l, double scale, double **wide)
{
  nequip_loader *in = b->in;
  const int n = b->n_channels, padded = nequip_padded(n), n_elements = in->head->n_elements;
  const size_t ld = (size_t) in->net->n_slots * (size_t) padded;
  const int64_t shape[3] = {n_elements, n, n};
  char name[64];
  double *w = NULL;
  snprintf(name, sizeof name, "layers.%d.skip.l%d", t, l);
  MLFF_TRY(mlff_modelfile_tensor(in->file, name, 3, shape, &w, in->error));
  *wide = nequip_zeros((size_t) padded * ld);
  for (int s = 0; *wide && s < n_elements; s++)
    for (int r = 0; in->slot[s] >= 0 && r < n; r++)
      for (int c = 0; c < n; c++)
        (*wide)[(size_t) r * ld + (size_t) (in->slot[s] * padded + c)] =
            scale * w[((size_t) s * (size_t) n + (size_t) r) * (size_t) n + (size_t) c];
  free(w);
  return *wide ? MLFF_OK : no_memory(b);
}

/* The maps of orders 0 .. n_orders - 1, from a row for all elements. */
static mlff_status read_selectors(mace_block *b, int t, int n_orders, nequip_map *map, mlff_nequip_row *wide_row)
{
  nequip_loader *in = b->in;
  const int padded = nequip_padded(b->n_channels);
  const double scale = 1 / sqrt((double) b->n_channels * in->head->n_elements);
  int n[ORDERS];
  for (int l = 0; l < n_orders; l++) {
    double *wide = NULL;
    n[l] = in->net->n_slots * padded;
    mlff_status status = read_wide(b, t, l, scale, &wide);
    if (!status)
      status = mlff_linear_make(in->net->backend, &map->forward[l], &map->back[l], wide, NULL, padded, n[l], in->error);
    free(wide);
    MLFF_TRY(status);
  }
  map->n = n_orders;
  *wide_row = nequip_make_row(n_orders, n);
  if (wide_row->ld > in->net->n_wide) in->net->n_wide = wide_row->ld;
  return MLFF_OK;
}

/* The self connection of layer 0, which is a constant of each element. */
static mlff_status read_start(mace_block *b, mace_layer *mace)
{
  nequip_loader *in = b->in;
  const int n = b->n_channels, padded = nequip_padded(n), n_elements = in->head->n_elements;
  const size_t ld = (size_t) in->net->n_slots * (size_t) padded;
  double *embedding = NULL, *wide = NULL, *start = nequip_zeros(ld);
  mlff_status status = start ? MLFF_OK : no_memory(b);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n, n_elements, &embedding, "embedding");
  if (!status) status = read_wide(b, 0, 0, 1 / (sqrt(n) * n_elements), &wide); /* 1/sqrt(S) of the embedding, too */
  for (int s = 0; !status && s < n_elements; s++)
    for (int r = 0; in->slot[s] >= 0 && r < n; r++)
      for (int c = 0; c < n; c++)
        start[in->slot[s] * padded + r] += wide[(size_t) r * ld + (size_t) (in->slot[s] * padded + c)] *
                                           embedding[(size_t) c * (size_t) n_elements + (size_t) s];
  if (!status) status = mlff_buf_fill(in->net->backend, &mace->start, start, (int64_t) ld, in->error);
  free(embedding);
  free(wide);
  free(start);
  return status;
}

/* ---- polynomials ------------------------------------------------------------------------------------------------- */

/* The monomials of component M, and the positions of their coefficients; -1: absent. */
typedef struct mace_tree {
  int one[HARMONICS], two[HARMONICS][HARMONICS], three[HARMONICS][HARMONICS][HARMONICS];
} mace_tree;

/* Rows (M, i_1 <= .. <= i_degree, weight, value) of one order and degree, and its weights [element][weight][channel].
 * offset: of M among all components. */
typedef struct mace_table {
  int degree, n_rows, n_weights, offset;
  double *rows, *weights;
} mace_table;

typedef struct mace_polynomial {
  int n_tables, n_components;
  mace_table tables[ORDERS * MOST_DEGREE];
  mace_tree *trees; /* [n_components] */
} mace_polynomial;

static mlff_status read_table(mace_block *b, int t, int l, mace_table *table)
{
  nequip_loader *in = b->in;
  const int n = table->n_rows, width = table->degree + 3, lmax = in->net->lmax;
  char name[64];
  if (n == 0) return MLFF_OK;
  const int64_t rows[2] = {n, width},
                weights[3] = {b->is_common ? 1 : in->head->n_elements, table->n_weights, b->n_channels};
  snprintf(name, sizeof name, "layers.%d.product.l%d.degree_%d.rows", t, l, table->degree);
  MLFF_TRY(mlff_modelfile_tensor(in->file, name, 2, rows, &table->rows, in->error));
  for (int r = 0; r < n; r++) {
    const double *row = table->rows + (size_t) r * (size_t) width;
    int bad = !(row[0] >= 0 && row[0] < 2 * l + 1 && floor(row[0]) == row[0]);
    for (int k = 1; k <= table->degree; k++)
      bad = bad || !(row[k] >= (k > 1 ? row[k - 1] : 0) && row[k] < (lmax + 1) * (lmax + 1) && floor(row[k]) == row[k]);
    bad = bad || !(row[width - 2] >= 0 && row[width - 2] < table->n_weights && floor(row[width - 2]) == row[width - 2]);
    if (bad)
      return mlff_fail(in->error, MLFF_E_FORMAT,
                       "tensor '%s': row %d is not a component, sorted components of A and a weight", name, r);
  }
  snprintf(name, sizeof name, "layers.%d.product.l%d.degree_%d.weight", t, l, table->degree);
  return mlff_modelfile_tensor(in->file, name, 3, weights, &table->weights, in->error);
}

static mlff_status read_tables(mace_block *b, int t, mace_polynomial *poly)
{
  poly->n_tables = poly->n_components = 0;
  for (int l = 0; l < n_orders_of(b, t); l++) {
    for (int degree = 1; degree <= (int) b->degree[t]; degree++) {
      const double *shape = b->products + b->next_product;
      if (b->next_product + 2 > b->n_products)
        return mlff_yaml_fail(b->in->file, b->yaml, b->in->error, "mace.products: has %d numbers, needs more",
                              b->n_products);
      b->next_product += 2;
      if (!(shape[0] >= 0 && shape[0] <= 1e6 && shape[1] >= 0 && shape[1] <= 1e4))
        return mlff_yaml_fail(b->in->file, b->yaml, b->in->error,
                              "mace.products: %g rows with %g weights, expected 0 to 1e6 with 0 to 1e4", shape[0],
                              shape[1]);
      mace_table *table = &poly->tables[poly->n_tables++];
      *table = (mace_table){.degree = degree,
                            .n_rows = (int) shape[0],
                            .n_weights = (int) shape[1],
                            .offset = poly->n_components};
      MLFF_TRY(read_table(b, t, l, table));
    }
    poly->n_components += 2 * l + 1;
  }
  return MLFF_OK;
}

/* Marks the monomials of a table, with those of which they are multiples. */
static void mark_monomials(const mace_table *table, mace_tree *trees)
{
  for (int r = 0; r < table->n_rows; r++) {
    const double *row = table->rows + (size_t) r * (size_t) (table->degree + 3);
    mace_tree *tree = &trees[table->offset + (int) row[0]];
    const int i = (int) row[1], j = table->degree > 1 ? (int) row[2] : -1, k = table->degree > 2 ? (int) row[3] : -1;
    tree->one[i] = 0;
    if (j >= 0) tree->two[i][j] = 0;
    if (k >= 0) tree->three[i][j][k] = 0;
  }
}

/* Terms of ops_mace.h that grow; without `terms` they are only counted. */
typedef struct term_list {
  int32_t *terms;
  int n, n_coef;
} term_list;

static void put(term_list *list, int value)
{
  if (list->terms) list->terms[list->n] = value;
  list->n++;
}

/* Puts the index and numbers its coefficient. */
static void put_index(term_list *list, int index, int *coef)
{
  put(list, index);
  *coef = list->n_coef++;
}

static int n_present(const int *coefs)
{
  int n = 0;
  for (int k = 0; k < HARMONICS; k++) n += coefs[k] >= 0;
  return n;
}

/* Appends the monomials of one component. */
static void list_terms(mace_tree *tree, term_list *list)
{
  put(list, n_present(tree->one));
  for (int i = 0; i < HARMONICS; i++) {
    if (tree->one[i] < 0) continue;
    put_index(list, i, &tree->one[i]);
    put(list, n_present(tree->two[i]));
    for (int j = 0; j < HARMONICS; j++) {
      if (tree->two[i][j] < 0) continue;
      put_index(list, j, &tree->two[i][j]);
      put(list, n_present(tree->three[i][j]));
      for (int k = 0; k < HARMONICS; k++)
        if (tree->three[i][j][k] >= 0) put_index(list, k, &tree->three[i][j][k]);
    }
  }
}

/* coef [slot][coefficient][channel] += value weight of a table */
static void add_table(const mace_block *b, const mace_table *table, const mace_tree *trees, int n_coef, double *coef)
{
  const nequip_loader *in = b->in;
  const size_t n = (size_t) b->n_channels, padded = (size_t) nequip_padded(b->n_channels);
  const int width = table->degree + 3;
  for (int r = 0; r < table->n_rows; r++) {
    const double *row = table->rows + (size_t) r * (size_t) width;
    const mace_tree *tree = &trees[table->offset + (int) row[0]];
    const int i = (int) row[1], j = (int) row[2], k = (int) row[3];
    const int at = table->degree == 1 ? tree->one[i] : table->degree == 2 ? tree->two[i][j] : tree->three[i][j][k];
    for (int s = 0; s < in->head->n_elements; s++) {
      if (in->slot[s] < 0) continue;
      const double *w =
          table->weights + ((b->is_common ? 0 : (size_t) s) * (size_t) table->n_weights + (size_t) row[width - 2]) * n;
      double *out = coef + ((size_t) in->slot[s] * (size_t) n_coef + (size_t) at) * padded;
      for (size_t c = 0; c < n; c++) out[c] += row[width - 1] * w[c];
    }
  }
}

static mlff_status make_polynomial(mace_block *b, mace_polynomial *poly, mace_layer *mace)
{
  nequip_loader *in = b->in;
  term_list count = {.terms = NULL}, list = {.terms = NULL};
  memset(poly->trees, -1, (size_t) poly->n_components * sizeof *poly->trees);
  for (int q = 0; q < poly->n_tables; q++) mark_monomials(&poly->tables[q], poly->trees);
  for (int p = 0; p < poly->n_components; p++) list_terms(&poly->trees[p], &count);
  const size_t n = (size_t) in->net->n_slots * (size_t) count.n_coef * (size_t) nequip_padded(b->n_channels);
  const size_t bytes = (size_t) count.n * sizeof *list.terms;
  double *coef = nequip_zeros(n);
  list.terms = malloc(bytes);
  mlff_status status = list.terms && coef ? MLFF_OK : no_memory(b);
  for (int p = 0; !status && p < poly->n_components; p++) list_terms(&poly->trees[p], &list);
  for (int q = 0; !status && q < poly->n_tables; q++) add_table(b, &poly->tables[q], poly->trees, list.n_coef, coef);
  mace->n_coef = list.n_coef;
  if (!status) status = nequip_upload_bytes(in, &mace->terms, list.terms, bytes);
  if (!status) status = mlff_buf_fill(in->net->backend, &mace->coef, coef, (int64_t) n, in->error);
  free(list.terms);
  free(coef);
  return status;
}

static mlff_status read_polynomial(mace_block *b, int t, mace_layer *mace)
{
  mace_polynomial poly = {.n_tables = 0};
  poly.trees = calloc(ORDERS * ORDERS, sizeof *poly.trees);
  mlff_status status = poly.trees ? read_tables(b, t, &poly) : no_memory(b);
  if (!status) status = make_polynomial(b, &poly, mace);
  for (int q = 0; q < poly.n_tables; q++) {
    free(poly.tables[q].rows);
    free(poly.tables[q].weights);
  }
  free(poly.trees);
  return status;
}

/* ---- readouts ---------------------------------------------------------------------------------------------------- */

/* A matrix of the readout of layer t, or with n_in = 0 the bias of its second layer, times scale. */
static mlff_status read_hidden(mace_block *b, int t, int k, int n_out, int n_in, double scale, mlff_buf *buf)
{
  nequip_loader *in = b->in;
  const char *name = n_in ? "readout.%d.%d" : "readout.%d.%d.bias";
  const int64_t n = (int64_t) n_out * (n_in ? n_in : 1);
  double *w = NULL;
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n_out, n_in, &w, name, t, k));
  for (int64_t q = 0; q < n; q++) w[q] *= scale;
  const mlff_status status = mlff_buf_fill(in->net->backend, buf, w, n, in->error);
  free(w);
  return status;
}

/* The scale of the energy is folded into the last matrix. */
static mlff_status read_readout(mace_block *b, int t, double energy_scale, mace_layer *mace)
{
  nequip_loader *in = b->in;
  const int n = b->n_channels, padded = nequip_padded(n), is_last = nequip_is_last(in->net, t);
  const int n_hidden = mace->n_hidden = is_last ? b->n_readout : 0, n_rows = n_hidden ? n_hidden : 1;
  mace->has_readout = is_last || !b->is_last_only;
  if (!mace->has_readout) return MLFF_OK;
  double *w = NULL, *rows = nequip_zeros((size_t) n_rows * (size_t) padded);
  mlff_status status = rows ? MLFF_OK : no_memory(b);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n_rows, n, &w, "readout.%d.0", t);
  for (int h = 0; !status && h < n_rows; h++)
    for (int c = 0; c < n; c++)
      rows[h * padded + c] = (n_hidden ? 1.0 : energy_scale) / sqrt(n) * w[(size_t) h * (size_t) n + (size_t) c];
  if (!status) status = mlff_buf_fill(in->net->backend, &mace->weight, rows, (int64_t) n_rows * padded, in->error);
  free(w);
  free(rows);
  if (status || !n_hidden) return status;
  if (b->n_readout_layers == 2) {
    MLFF_TRY(read_hidden(b, t, 1, n_hidden, n_hidden, 1 / sqrt(n_hidden), &mace->middle));
    MLFF_TRY(read_hidden(b, t, 1, n_hidden, 0, 1.0, &mace->middle_bias));
  }
  return read_hidden(b, t, b->n_readout_layers, 1, n_hidden, energy_scale / sqrt(n_hidden), &mace->last);
}

/* ---- densities --------------------------------------------------------------------------------------------------- */

/* The matrices of all layers, one below the other: row t gives the density of layer t. */
static mlff_status read_density_matrix(mace_block *b, double *matrix)
{
  nequip_loader *in = b->in;
  const int n = in->net->network.basis.n;
  for (int t = 0; t < in->net->n_layers; t++) {
    double *w = NULL;
    if (strcmp(b->divisor[t], "density") != 0) continue;
    MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, 1, n, &w, "layers.%d.density", t));
    for (int c = 0; c < n; c++) matrix[t * n + c] = w[c] / sqrt(n);
    free(w);
  }
  return MLFF_OK;
}

/* Rows that give each density: the unit matrix of a radial network whose hidden layer has one unit for each layer. */
static mlff_status make_density(mace_block *b, const double *matrix)
{
  enum { N = MLFF_NEQUIP_BLOCK };
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  mace_density *density = net->density;
  const int n_pairs = nequip_n_pairs(net), width = net->n_layers;
  const int64_t n_rows = net->n_rows * N;
  mlff_nequip_terms_args network = density->args;
  double unit[N * N] = {0}, ones[N], *rows = nequip_zeros((size_t) (n_pairs * n_rows));
  double *bias = nequip_zeros((size_t) net->n_slots * N);
  mlff_status status = rows && bias ? MLFF_OK : no_memory(b);
  for (int k = 0; k < N; k++) ones[k] = 1;
  for (int k = 0; k < width; k++) unit[k * width + k] = 1;
  for (int k = 0; !status && k < net->n_slots; k++) memcpy(bias + (ptrdiff_t) k * N, ones, sizeof ones);
  network.frequency = in->frequency;
  network.weight[0] = matrix;
  nequip_free_network(in);
  for (int k = 0; !status && k < n_pairs; k++) {
    status = nequip_make_units(in, &network, k);
    if (!status) status = nequip_make_rows(in, unit, N, width, rows + k * n_rows);
  }
  nequip_free_network(in);
  if (!status) status = mlff_buf_fill(net->backend, &density->rows, rows, n_pairs * n_rows, in->error);
  if (!status) status = mlff_buf_fill(net->backend, &density->bias, bias, (int64_t) net->n_slots * N, in->error);
  free(rows);
  free(bias);
  return status;
}

static mlff_status read_density(mace_block *b)
{
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  const int64_t n = (int64_t) net->n_layers * net->network.basis.n;
  if (!(net->density = calloc(1, sizeof *net->density))) return no_memory(b);
  mlff_nequip_terms_args *network = &net->density->args;
  *network = net->network;
  network->n_hidden = 1;
  network->width[0] = net->n_layers;
  network->is_density = 1;
  if (net->is_exact) network->n_terms = nequip_padded(net->n_layers);
  if (b->is_nonlinear) return mace_read_normed_density(b);
  double *matrix = nequip_zeros((size_t) n);
  mlff_status status = matrix ? read_density_matrix(b, matrix) : no_memory(b);
  if (!status) status = make_density(b, matrix);
  if (!status && net->is_exact)
    status = mlff_buf_fill(net->backend, &net->density->networks[0].weight[0], matrix, n, in->error);
  free(matrix);
  return status;
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

static void shape_layer(mace_block *b, int t)
{
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  const int n_orders = net->lmax + 1;
  int n[ORDERS], sums[ORDERS];
  nequip_side_start(&in->scalars);
  for (int l = 0; l < (b->is_nonlinear ? n_orders : 1); l++) nequip_side_add(&in->scalars, b->n_channels);
  nequip_list_paths(in, n_orders);
  for (int l = 0; l < n_orders; l++) {
    n[l] = nequip_padded(b->n_channels);
    sums[l] = in->sums[l].n;
  }
  layer->x = nequip_make_row(n_orders_of(b, t), n);
  layer->a = nequip_make_row(n_orders, n);
  n[0] = in->scalars.n;
  layer->z = nequip_make_row(n_orders, n);
  layer->sums = nequip_make_row(n_orders, sums);
  for (int k = 0; k < in->n_paths; k++) in->paths[k].out += layer->sums.offset[in->paths[k].l3];
}

static mlff_status read_messages(mace_block *b, int t)
{
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  if (t == 0) return nequip_read_first_layer(in);
  MLFF_TRY(nequip_read_weights(in, t));
  MLFF_TRY(nequip_make_couplings(in, layer));
  nequip_side_start(&in->rows);
  nequip_side_add(&in->rows, b->n_channels);
  for (int l = 0; l < net->n_orders; l++) {
    nequip_side sent;
    nequip_side_start(&sent);
    nequip_side_add(&sent, net->n_sent[l]);
    MLFF_TRY(nequip_read_map(in, t, in->linear_1, l, &sent, &in->rows, 1 / sqrt(b->n_channels), &layer->linear_1));
  }
  for (int l = 0; l < layer->z.n_orders; l++)
    MLFF_TRY(nequip_read_map(in, t, in->linear_2, l, l ? &in->rows : &in->scalars, &in->sums[l],
                             1 / (sqrt(in->sums[l].n_file) * in->divisor[t]), &layer->linear_2));
  return MLFF_OK;
}

static mlff_status read_layer(mace_block *b, int t, double energy_scale)
{
  nequip_loader *in = b->in;
  nequip_layer *layer = &in->net->layers[t];
  mace_layer *mace = layer->mace = calloc(1, sizeof *mace);
  if (!mace) return no_memory(b);
  mace->is_residual = !strcmp(b->skip[t], "features");
  mace->has_density = !strcmp(b->divisor[t], "density");
  shape_layer(b, t);
  MLFF_TRY(read_messages(b, t));
  if (b->is_nonlinear)
    MLFF_TRY(mace_read_nonlinear(b, t, mace));
  else if (!mace->is_residual)
    MLFF_TRY(read_selectors(b, t, layer->z.n_orders, &mace->select, &mace->wide_z));
  else if (t == 0)
    MLFF_TRY(read_start(b, mace));
  else
    MLFF_TRY(read_selectors(b, t, layer->x.n_orders, &layer->skip, &mace->wide_x));
  MLFF_TRY(read_polynomial(b, t, mace));
  nequip_side_start(&in->rows);
  nequip_side_add(&in->rows, b->n_channels);
  for (int l = 0; l < layer->x.n_orders; l++)
    MLFF_TRY(nequip_read_map(in, t, "product.linear", l, &in->rows, &in->rows, 1 / sqrt(b->n_channels), &mace->out));
  return read_readout(b, t, energy_scale, mace);
}

/* Words of each layer; *values is NULL without the key. */
static mlff_status read_words(mace_block *b, const mlff_yaml *block, const char *key, const char *const choices[2],
                              const char *const **values)
{
  nequip_loader *in = b->in;
  int n = 0;
  MLFF_TRY(mlff_yaml_strings(in->file, block, key, values, &n, in->error));
  if (n != in->net->n_layers)
    return mlff_yaml_fail(in->file, block, in->error, "%s: expected %d words", key, in->net->n_layers);
  for (int t = 0; t < n; t++)
    if (strcmp((*values)[t], choices[0]) != 0 && strcmp((*values)[t], choices[1]) != 0)
      return mlff_yaml_fail(in->file, block, in->error, "mace.%s: '%s': use %s or %s", key, (*values)[t], choices[0],
                            choices[1]);
  return MLFF_OK;
}

static mlff_status read_transform(mace_block *b, const mlff_yaml *block)
{
  static const char *const kinds[] = {"none", "agnesi", "soft", NULL};
  nequip_loader *in = b->in;
  mlff_nequip_basis *basis = &in->net->network.basis;
  const mlff_yaml *part = NULL;
  int kind = 0;
  MLFF_TRY(mlff_yaml_map(in->file, block, "distance_transform", &part, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "kind", kinds, &kind, in->error));
  basis->transform = (mlff_nequip_transform) kind;
  if (kind == 0) return MLFF_OK;
  MLFF_TRY(mlff_yaml_double(in->file, part, "a", 1e-3, 1e3, &basis->a, in->error));
  if (basis->transform == MLFF_NEQUIP_AGNESI) {
    MLFF_TRY(mlff_yaml_double(in->file, part, "q", 1e-3, 64.0, &basis->q, in->error));
    MLFF_TRY(mlff_yaml_double(in->file, part, "p", basis->q + 1.0, 64.0, &basis->p, in->error));
  }
  const int n = in->head->n_elements;
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, n, 0, &in->radius, "covalent_radii"));
  for (int s = 0; s < n; s++) {
    if (!(in->radius[s] > 0.01 && in->radius[s] < 10))
      return mlff_fail(in->error, MLFF_E_FORMAT, "tensor 'covalent_radii': %g A of %s is not a radius", in->radius[s],
                       in->head->elements[s]);
    if (basis->transform == MLFF_NEQUIP_AGNESI) in->radius[s] *= 0.5;
  }
  return MLFF_OK;
}

static mlff_status read_radial_basis(mace_block *b, const mlff_yaml *block)
{
  static const char *const kinds[] = {"bessel", "gaussian", NULL};
  nequip_loader *in = b->in;
  mlff_nequip_basis *basis = &in->net->network.basis;
  const mlff_yaml *part = NULL;
  int is_gaussian = 0;
  MLFF_TRY(mlff_yaml_map(in->file, block, "radial_basis", &part, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, part, "kind", kinds, &is_gaussian, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, part, "n", 1, MLFF_NEQUIP_HIDDEN, &basis->n, in->error));
  MLFF_TRY(nequip_read_cutoff_function(in, block));
  basis->prefactor = is_gaussian ? 1.0 : sqrt(2.0 / basis->cutoff);
  if (is_gaussian)
    MLFF_TRY(mlff_yaml_double(in->file, part, "coefficient", -1e4, -1e-4, &basis->coefficient, in->error));
  MLFF_TRY(read_transform(b, block));
  return mlff_modelfile_matrix(in->file, in->error, basis->n, 0, &in->frequency,
                               is_gaussian ? "radial_centers" : "radial_frequencies");
}

static mlff_status read_divisors(mace_block *b, const mlff_yaml *block)
{
  static const char *const divisors[2] = {"average", "density"};
  nequip_loader *in = b->in;
  const int n_layers = in->net->n_layers;
  const double *average = NULL;
  int n = 0;
  MLFF_TRY(read_words(b, block, "divisor", divisors, &b->divisor));
  MLFF_TRY(mlff_yaml_doubles(in->file, block, "avg_num_neighbors", n_layers, &average, &n, in->error));
  for (int t = 0; t < n; t++)
    if (!(average[t] > 0))
      return mlff_yaml_fail(in->file, block, in->error, "avg_num_neighbors: %g is not positive", average[t]);
  if (!(b->average = nequip_zeros((size_t) n))) return no_memory(b);
  for (int t = 0; t < n; t++) b->average[t] = strcmp(b->divisor[t], "density") ? average[t] : 1.0;
  in->divisor = b->average;
  return MLFF_OK;
}

static mlff_status read_optional(mace_block *b, const mlff_yaml *block)
{
  static const char *const weights[] = {"element", "common", NULL}, *const readouts[] = {"all", "last", NULL};
  nequip_loader *in = b->in;
  b->n_readout_layers = 1;
  if (mlff_yaml_has(block, "product_weights"))
    MLFF_TRY(mlff_yaml_choice(in->file, block, "product_weights", weights, &b->is_common, in->error));
  if (mlff_yaml_has(block, "readouts"))
    MLFF_TRY(mlff_yaml_choice(in->file, block, "readouts", readouts, &b->is_last_only, in->error));
  if (mlff_yaml_has(block, "n_readout_layers"))
    MLFF_TRY(mlff_yaml_int(in->file, block, "n_readout_layers", 1, 2, &b->n_readout_layers, in->error));
  return MLFF_OK;
}

static mlff_status read_block(mace_block *b)
{
  static const char *const skips[2] = {"features", "messages"}, *const activations[] = {"silu", "tanh", NULL};
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  const mlff_yaml *block = NULL;
  double norm = 1.0;
  int n = 0;
  MLFF_TRY(mlff_yaml_map(in->file, mlff_modelfile_root(in->file), "mace", &block, in->error));
  b->yaml = block;
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_layers", 1, 16, &net->n_layers, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "lmax", 0, ORDERS - 1, &net->lmax, in->error));
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_orders", 1, net->lmax + 1, &net->n_orders, in->error));
  const int most = mlff_yaml_has(block, "nonlinear") ? MACE_MAX_CHANNELS : NEQUIP_MAX_CHANNELS;
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_channels", 1, most, &b->n_channels, in->error));
  MLFF_TRY(nequip_read_counts(in, block, "degree", net->n_layers, net->n_layers, MOST_DEGREE, &n, &b->degree));
  MLFF_TRY(read_words(b, block, "skip", skips, &b->skip));
  MLFF_TRY(mlff_yaml_doubles(in->file, block, "products", -1, &b->products, &b->n_products, in->error));
  MLFF_TRY(read_divisors(b, block));
  MLFF_TRY(read_radial_basis(b, block));
  MLFF_TRY(nequip_read_network_shape(in, block));
  MLFF_TRY(mlff_yaml_int(in->file, block, "n_readout", 0, MLFF_MACE_HIDDEN, &b->n_readout, in->error));
  MLFF_TRY(mlff_yaml_double(in->file, block, "activation_norm", 1e-3, 1e3, &norm, in->error));
  MLFF_TRY(mlff_yaml_choice(in->file, block, "activation", activations, &net->is_tanh, in->error));
  net->gain = 1.0 / norm;
  net->is_even = 1;
  for (int l = 0; l <= net->lmax; l++) net->n_channels[l] = b->n_channels;
  MLFF_TRY(read_optional(b, block));
  return mace_read_nonlinear_block(b, block);
}

static mlff_status read_network(mace_block *b)
{
  nequip_loader *in = b->in;
  nequip_net *net = in->net;
  double *scale = NULL;
  MLFF_TRY(read_block(b));
  if (!(net->layers = calloc((size_t) net->n_layers, sizeof *net->layers))) return nequip_no_memory(in);
  MLFF_TRY(nequip_choose_species(in));
  MLFF_TRY(nequip_choose_radial(in));
  MLFF_TRY(mlff_modelfile_matrix(in->file, in->error, 1, 0, &scale, "energy_scale"));
  const double energy_scale = scale[0];
  free(scale);
  for (int t = 0; t < net->n_layers; t++) MLFF_TRY(read_layer(b, t, energy_scale));
  net->n_products = net->layers[0].x.ld;
  int n_sent[ORDERS];
  for (int l = 0; l < net->n_orders; l++) n_sent[l] = nequip_padded(net->n_sent[l]);
  net->y = nequip_make_row(net->n_orders, n_sent);
  if (b->next_product != b->n_products)
    return mlff_yaml_fail(in->file, b->yaml, in->error, "mace.products: has %d numbers, needs %d", b->n_products,
                          b->next_product);
  for (int t = 0; t < net->n_layers; t++)
    if (net->layers[t].mace->has_density) return read_density(b);
  return MLFF_OK;
}

static mlff_status read_all(nequip_loader *in)
{
  mace_block b = {.in = in};
  in->net->update = &mace_products;
  in->linear_1 = "linear_up";
  in->linear_2 = "linear";
  const mlff_status status = read_network(&b);
  free(b.average);
  return status;
}

mlff_status mace_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                        mlff_error *error)
{
  return nequip_load(file, backend, use, read_all, net, error);
}

static void release_layer(mlff_backend *backend, mace_layer *mace)
{
  if (!mace) return;
  nequip_release_map(backend, &mace->select);
  nequip_release_map(backend, &mace->out);
  nequip_release_map(backend, &mace->gated);
  nequip_release_map(backend, &mace->residual);
  mlff_buf *const bufs[] = {&mace->start,  &mace->residual_bias, &mace->terms,       &mace->coef,
                            &mace->weight, &mace->middle,        &mace->middle_bias, &mace->last};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(backend, bufs[k]);
  free(mace);
}

void mace_release(nequip_net *net)
{
  for (int t = 0; net->layers && t < net->n_layers; t++) release_layer(net->backend, net->layers[t].mace);
  if (!net->density) return;
  for (int t = 0; t < net->n_layers; t++) nequip_release_network(net->backend, &net->density->networks[t]);
  mlff_buf_release(net->backend, &net->density->rows);
  mlff_buf_release(net->backend, &net->density->bias);
  free(net->density);
}
