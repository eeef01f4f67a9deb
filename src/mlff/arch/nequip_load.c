/* nequip_load.c: reads the `nequip` block and tensors of a model file and prepares them for nequip.c.
 *
 * Computed in double on the host. Channels are padded with zeros to a multiple of MLFF_NEQUIP_BLOCK; normalisations
 * (square roots of the number of inputs, of neighbors) are folded into matrices. The block is read in nequip_block.c,
 * layer 0 in nequip_first.c, radial networks in nequip_rows.c.
 */
#include "nequip_load.h"

#include "../backend/nequip_cg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

mlff_status nequip_upload_bytes(nequip_loader *in, mlff_buf *buf, const void *values, size_t bytes)
{
  mlff_backend *backend = in->net->backend;
  MLFF_TRY(mlff_buf_reserve(backend, buf, bytes, in->error));
  return backend->ops->upload(backend, buf->data, values, bytes, in->error);
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */

double *nequip_pad_matrix(const double *w, const nequip_side *rows, const nequip_side *cols, double scale)
{
  double *out = nequip_zeros((size_t) rows->n * (size_t) cols->n);
  for (int r = 0; out && r < rows->n; r++) {
    for (int c = 0; c < cols->n; c++) {
      if (rows->source[r] >= 0 && cols->source[c] >= 0)
        out[(size_t) r * (size_t) cols->n + (size_t) c] =
            scale * w[(size_t) rows->source[r] * (size_t) cols->n_file + (size_t) cols->source[c]];
    }
  }
  return out;
}

/* Reads layers.T.NAME.lL and packs it times scale, for the forward and backward pass. */
mlff_status nequip_read_map(nequip_loader *in, int t, const char *name, int l, const nequip_side *rows,
                            const nequip_side *cols, double scale, nequip_map *map)
{
  double *w = NULL, *padded = NULL;
  mlff_status status =
      mlff_modelfile_matrix(in->file, in->error, rows->n_file, cols->n_file, &w, "layers.%d.%s.l%d", t, name, l);
  if (!status && !(padded = nequip_pad_matrix(w, rows, cols, scale))) status = nequip_no_memory(in);
  if (!status)
    status =
        mlff_linear_make(in->net->backend, &map->forward[l], &map->back[l], padded, NULL, rows->n, cols->n, in->error);
  if (!status && map->n <= l) map->n = l + 1;
  free(w);
  free(padded);
  return status;
}

/* ---- shapes of a layer ------------------------------------------------------------------------------------------- */

static int is_last(const nequip_loader *in, int t)
{
  return t == in->net->n_layers - 1;
}

mlff_nequip_row nequip_make_row(int n_orders, const int *n)
{
  mlff_nequip_row row = {.n_orders = n_orders};
  for (int l = 0; l < n_orders; l++) {
    row.n[l] = n[l];
    row.offset[l] = (int) row.ld;
    row.ld += (2 * l + 1) * n[l];
  }
  return row;
}

/* Paths to `n_orders` orders, in the order of the file (l3 outermost, then l1, then l2), and the sizes that depend on
 * them. */
void nequip_list_paths(nequip_loader *in, int n_orders)
{
  const nequip_net *net = in->net;
  in->n_paths = 0;
  nequip_side_start(&in->columns);
  for (int l3 = 0; l3 < n_orders; l3++) {
    nequip_side_start(&in->sums[l3]);
    for (int l1 = 0; l1 < net->n_orders; l1++) {
      for (int l2 = abs(l1 - l3); l2 <= l1 + l3 && l2 <= net->lmax; l2++) {
        if (net->is_even && (l1 + l2 + l3) % 2) continue;
        in->paths[in->n_paths++] = (mlff_nequip_path){.l1 = l1,
                                                      .l2 = l2,
                                                      .l3 = l3,
                                                      .n = nequip_padded(net->n_sent[l1]),
                                                      .column = in->columns.n,
                                                      .out = in->sums[l3].n};
        nequip_side_add(&in->columns, net->n_sent[l1]);
        nequip_side_add(&in->sums[l3], net->n_sent[l1]);
      }
    }
  }
}

/* Rows before and after the gate of layer t, and of the sums of its message; in->scalars: order 0 before the gate. */
static mlff_status shape_layer(nequip_loader *in, int t)
{
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  const int n_orders = is_last(in, t) ? 1 : net->n_orders;
  int before[NEQUIP_ORDERS], after[NEQUIP_ORDERS], sums[NEQUIP_ORDERS];
  nequip_side_start(&in->scalars);
  for (int l = 0; l < n_orders; l++) nequip_side_add(&in->scalars, net->n_channels[l]);
  nequip_list_paths(in, n_orders);
  for (int l = 0; l < n_orders; l++) {
    after[l] = nequip_padded(net->n_channels[l]);
    before[l] = l ? after[l] : in->scalars.n;
    sums[l] = in->sums[l].n;
  }
  layer->x = nequip_make_row(n_orders, after);
  layer->z = nequip_make_row(n_orders, before);
  layer->sums = nequip_make_row(n_orders, sums);
  for (int k = 0; k < in->n_paths; k++) in->paths[k].out += layer->sums.offset[in->paths[k].l3];
  if (layer->z.ld <= NEQUIP_MAX_WIDTH) return MLFF_OK;
  return mlff_fail(in->error, MLFF_E_UNSUPPORTED,
                   "nequip: %lld features per atom before a gate; at most %d are supported", (long long) layer->z.ld,
                   NEQUIP_MAX_WIDTH);
}

/* ---- couplings --------------------------------------------------------------------------------------------------- */

static const mlff_cg_entry *find_coefficients(int l1, int l2, int l3, int *n)
{
#define ENTRY(a, b, c, count) {a, b, c, count, mlff_cg_##a##b##c},
  static const struct {
    int l1, l2, l3, n;
    const mlff_cg_entry *entries;
  } all[] = {MLFF_CG_TRIPLES(ENTRY)};
#undef ENTRY
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    if (all[k].l1 != l1 || all[k].l2 != l2 || all[k].l3 != l3) continue;
    *n = all[k].n;
    return all[k].entries;
  }
  *n = 0;
  return NULL;
}

/* Offsets of the paths in the couplings of an edge, and the matrices from harmonics to couplings. */
mlff_status nequip_make_couplings(nequip_loader *in, nequip_layer *layer)
{
  int64_t n = 0;
  int begin = 0;
  for (int l2 = 1; l2 < NEQUIP_ORDERS; l2++) {
    int end = begin;
    for (int k = 0; k < in->n_paths; k++) {
      if (in->paths[k].l2 != l2) continue;
      in->paths[k].coupling = end;
      end += (2 * in->paths[k].l1 + 1) * (2 * in->paths[k].l3 + 1);
    }
    layer->n_coupling[l2] = nequip_padded(end - begin);
    n += (int64_t) (2 * l2 + 1) * layer->n_coupling[l2];
    begin += layer->n_coupling[l2];
  }
  double *values = nequip_zeros((size_t) n), *part = values;
  if (!values) return nequip_no_memory(in);
  begin = 0;
  for (int l2 = 1; l2 < NEQUIP_ORDERS; l2++) {
    for (int k = 0; k < in->n_paths; k++) {
      const mlff_nequip_path *p = &in->paths[k];
      int n_entries;
      const mlff_cg_entry *cg = find_coefficients(p->l1, p->l2, p->l3, &n_entries);
      for (int q = 0; p->l2 == l2 && q < n_entries; q++)
        part[cg[q].j * layer->n_coupling[l2] + p->coupling - begin + cg[q].i * (2 * p->l3 + 1) + cg[q].k] = cg[q].c;
    }
    part += (2 * l2 + 1) * layer->n_coupling[l2];
    begin += layer->n_coupling[l2];
  }
  const mlff_status status = mlff_buf_fill(in->net->backend, &layer->coupling, values, n, in->error);
  free(values);
  MLFF_TRY(status);
  layer->n_paths = in->n_paths;
  return nequip_upload_bytes(in, &layer->paths, in->paths, (size_t) in->n_paths * sizeof *in->paths);
}

/* ---- the other layers -------------------------------------------------------------------------------------------- */

/* The rows R of layer t >= 1 in padded columns. */
mlff_status nequip_read_weights(nequip_loader *in, int t)
{
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  const int width = mlff_nequip_n_units(&net->network);
  const int n_pairs = nequip_n_pairs(net);
  const int64_t n_rows = net->n_rows * in->columns.n;
  double *last = NULL, *padded = NULL, *rows = nequip_zeros((size_t) (n_pairs * n_rows));
  nequip_side_start(&in->rows);
  for (int k = 0; k < width; k++) in->rows.source[in->rows.n++] = in->rows.n_file++;
  layer->n_weights = in->columns.n;
  mlff_status status = rows ? nequip_read_network(in, t, in->columns.n_file, &last) : nequip_no_memory(in);
  if (!status && !(padded = nequip_pad_matrix(last, &in->columns, &in->rows, 1.0))) status = nequip_no_memory(in);
  const mlff_nequip_terms_args network = nequip_host_network(in, &net->network);
  for (int k = 0; !status && k < n_pairs; k++) {
    const int twin = nequip_twin_pair(net, k);
    if (twin < k) {
      memcpy(rows + k * n_rows, rows + twin * n_rows, (size_t) n_rows * sizeof *rows);
      continue;
    }
    status = nequip_make_units(in, &network, k);
    if (!status) status = nequip_make_rows(in, padded, layer->n_weights, width, rows + k * n_rows);
  }
  if (!status) status = mlff_buf_fill(in->net->backend, &layer->rows, rows, n_pairs * n_rows, in->error);
  free(last);
  free(padded);
  free(rows);
  return status;
}

static mlff_status read_layer(nequip_loader *in, int t)
{
  nequip_net *net = in->net;
  nequip_layer *layer = &net->layers[t];
  MLFF_TRY(nequip_read_weights(in, t));
  MLFF_TRY(nequip_make_couplings(in, layer));
  if (in->neighbor_divisor) layer->wide_y = nequip_make_wide_row(in, net->n_orders);
  if (in->skips_by_element) layer->wide_x = nequip_make_wide_row(in, layer->z.n_orders);
  for (int l = 0; l < net->n_orders; l++) {
    const int n = net->n_channels[l];
    nequip_side_start(&in->rows);
    nequip_side_add(&in->rows, n);
    if (in->neighbor_divisor)
      MLFF_TRY(nequip_read_divided_map(in, t, l, &in->rows, layer));
    else
      MLFF_TRY(nequip_read_map(in, t, in->linear_1, l, &in->rows, &in->rows, 1 / sqrt(n), &layer->linear_1));
    if (l >= layer->z.n_orders) continue;
    const nequip_side *out = l ? &in->rows : &in->scalars;
    if (in->skips_by_element)
      MLFF_TRY(nequip_read_element_skip(in, t, l, out, &in->rows, &layer->skip));
    else
      MLFF_TRY(nequip_read_map(in, t, "skip", l, out, &in->rows, 1 / sqrt(n), &layer->skip));
    MLFF_TRY(nequip_read_map(in, t, in->linear_2, l, out, &in->sums[l], 1 / (sqrt(in->sums[l].n_file) * in->divisor[t]),
                             &layer->linear_2));
  }
  return MLFF_OK;
}

static mlff_status read_norm(nequip_loader *in, int t)
{
  nequip_layer *layer = &in->net->layers[t];
  double *g = NULL, *all = nequip_zeros(NEQUIP_MAX_WIDTH);
  int n = 0;
  mlff_status status = all ? MLFF_OK : nequip_no_memory(in);
  for (int l = 0; !status && l < layer->z.n_orders; l++) {
    nequip_side_start(&in->rows);
    nequip_side_add(&in->rows, in->net->n_channels[l]);
    const nequip_side *side = l ? &in->rows : &in->scalars;
    status = mlff_modelfile_matrix(in->file, in->error, side->n_file, 0, &g, "layers.%d.norm.l%d", t, l);
    for (int k = 0; !status && k < side->n; k++) all[n++] = side->source[k] < 0 ? 0.0 : g[side->source[k]];
    free(g);
    g = NULL;
  }
  if (!status) status = mlff_buf_fill(in->net->backend, &layer->norm, all, n, in->error);
  free(all);
  return status;
}

/* A readout with one hidden layer; the scale of each species is in its last matrix. */
static mlff_status read_silu_readout(nequip_loader *in)
{
  nequip_net *net = in->net;
  const int n0 = net->n_channels[0], padded = nequip_padded(n0), n_hidden = net->n_hidden;
  double *w = NULL, *last = NULL, *scale = NULL, *rows = nequip_zeros((size_t) n_hidden * (size_t) padded);
  double *all = nequip_zeros((size_t) net->n_slots * (size_t) n_hidden);
  mlff_status status = rows && all ? MLFF_OK : nequip_no_memory(in);
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, n_hidden, n0, &w, "readout.0");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, 1, n_hidden, &last, "readout.1");
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, in->head->n_elements, 0, &scale, "energy_scale");
  for (int h = 0; !status && h < n_hidden; h++) {
    for (int c = 0; c < n0; c++) rows[h * padded + c] = w[h * n0 + c] / sqrt(n0);
    for (int s = 0; s < net->n_slots; s++) all[s * n_hidden + h] = scale[in->element[s]] * last[h] / sqrt(n_hidden);
  }
  if (!status) status = mlff_buf_fill(net->backend, &net->readout, rows, (int64_t) n_hidden * padded, in->error);
  if (!status) status = mlff_buf_fill(net->backend, &net->last, all, (int64_t) net->n_slots * n_hidden, in->error);
  free(w);
  free(last);
  free(scale);
  free(rows);
  free(all);
  return status;
}

/* The readout has no activations: the product of its linear layers, times the scale of each species. */
static mlff_status read_readout(nequip_loader *in)
{
  nequip_net *net = in->net;
  const int n0 = net->n_channels[0], padded = nequip_padded(n0);
  double *vector = NULL, *w = NULL, *next = NULL, *scale = NULL;
  double *all = nequip_zeros((size_t) net->n_slots * (size_t) padded);
  mlff_status status = all ? MLFF_OK : nequip_no_memory(in);
  for (int k = in->n_readout; !status && k >= 0; k--) { /* from the energy to the features */
    const int n_out = k < in->n_readout ? (int) in->readout_width[k] : 1;
    const int n_in = k ? (int) in->readout_width[k - 1] : n0;
    status = mlff_modelfile_matrix(in->file, in->error, n_out, n_in, &w, "readout.%d", k);
    if (!status && !(next = nequip_zeros((size_t) n_in))) status = nequip_no_memory(in);
    for (int o = 0; !status && o < n_out; o++)
      for (int c = 0; c < n_in; c++)
        next[c] += (vector ? vector[o] : 1.0) * w[(size_t) o * (size_t) n_in + (size_t) c] / sqrt(n_in);
    free(vector);
    free(w);
    vector = next;
    w = next = NULL;
  }
  if (!status) status = mlff_modelfile_matrix(in->file, in->error, in->head->n_elements, 0, &scale, "energy_scale");
  for (int s = 0; !status && s < in->head->n_elements; s++)
    for (int c = 0; in->slot[s] >= 0 && c < n0; c++) all[in->slot[s] * padded + c] = scale[s] * vector[c];
  if (!status) status = mlff_buf_fill(in->net->backend, &net->readout, all, (int64_t) net->n_slots * padded, in->error);
  free(vector);
  free(scale);
  free(all);
  return status;
}

/* ---- the network ----------------------------------------------------------------------------------------------- */

/* Intervals of the layer that needs most. */
static mlff_status count_intervals(nequip_loader *in, int *n)
{
  *n = 0;
  for (int t = 0; t < in->net->n_layers; t++) {
    MLFF_TRY(nequip_read_network(in, t, 0, NULL));
    const mlff_nequip_terms_args network = nequip_host_network(in, &in->net->network);
    for (int k = 0; k < nequip_n_pairs(in->net); k++) {
      if (nequip_twin_pair(in->net, k) < k) continue;
      const mlff_nequip_terms_args a = nequip_network_of_pair(&network, k);
      const int needed = nequip_table_intervals(&a, nequip_pair_radius(in, k));
      if (needed > *n) *n = needed;
    }
  }
  return MLFF_OK;
}

/* Lines of edges name their pair. */
static mlff_status choose_pairs(nequip_loader *in)
{
  nequip_net *net = in->net;
  const int n = net->n_slots * net->n_slots;
  net->table.slot = net->slot.data;
  net->table.n_slots = net->n_slots;
  net->table.pair_rows = net->is_exact ? 0 : (int32_t) net->n_rows;
  if (!net->is_exact || !in->radius) return MLFF_OK;
  double *radius = nequip_zeros((size_t) n);
  if (!radius) return nequip_no_memory(in);
  for (int k = 0; k < n; k++) radius[k] = nequip_pair_radius(in, k);
  const mlff_status status = mlff_buf_fill(net->backend, &net->radius, radius, n, in->error);
  free(radius);
  return status;
}

/* Chooses between networks and tables, the size of the tables, and uploads the frequencies of networks. */
mlff_status nequip_choose_radial(nequip_loader *in)
{
  nequip_net *net = in->net;
  mlff_nequip_terms_args *network = &net->network;
  int n = in->use->radial_intervals;
  net->is_exact = (!n && net->backend->real_size == sizeof(double)) ||
                  (nequip_is_paired(network) && net->n_slots > NEQUIP_MAX_PAIRED);
  if (net->is_exact)
    n = 1;
  else if (!n)
    MLFF_TRY(count_intervals(in, &n));
  nequip_choose_table(&network->basis, n, &net->table);
  network->n_terms = net->is_exact ? nequip_padded(mlff_nequip_n_units(network)) : 4;
  net->n_rows = net->is_exact ? network->n_terms : net->table.n + (net->table.split ? 6 : 3);
  if (nequip_is_paired(network)) MLFF_TRY(choose_pairs(in));
  return net->is_exact ? mlff_buf_fill(in->net->backend, &net->frequency, in->frequency, network->basis.n, in->error)
                       : MLFF_OK;
}

mlff_status nequip_choose_species(nequip_loader *in)
{
  const size_t n = (size_t) in->head->n_elements;
  in->slot = calloc(n, sizeof *in->slot);
  in->element = calloc(n, sizeof *in->element);
  if (!in->slot || !in->element) return nequip_no_memory(in);
  for (int s = 0; s < in->head->n_elements; s++) {
    in->slot[s] = s < in->use->n_species && in->use->use[s] ? in->net->n_slots++ : -1;
    if (in->slot[s] >= 0) in->element[in->slot[s]] = s;
  }
  return nequip_upload_bytes(in, &in->net->slot, in->slot, n * sizeof *in->slot);
}

static mlff_status read_all(nequip_loader *in)
{
  nequip_net *net = in->net;
  net->update = &nequip_gates;
  in->linear_1 = "linear_1";
  in->linear_2 = "linear_2";
  MLFF_TRY(nequip_read_block(in));
  MLFF_TRY(nequip_choose_species(in));
  MLFF_TRY(nequip_choose_radial(in));
  if (!(net->layers = calloc((size_t) net->n_layers, sizeof *net->layers))) return nequip_no_memory(in);
  for (int t = 0; t < net->n_layers; t++) {
    MLFF_TRY(shape_layer(in, t));
    MLFF_TRY(t ? read_layer(in, t) : nequip_read_first_layer(in));
    if (in->has_norm) MLFF_TRY(read_norm(in, t));
  }
  return net->n_hidden ? read_silu_readout(in) : read_readout(in);
}

mlff_status nequip_load(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use,
                        mlff_status (*read)(nequip_loader *), void **net, mlff_error *error)
{
  nequip_loader *in = calloc(1, sizeof *in);
  nequip_net *made = calloc(1, sizeof *made);
  mlff_status status = MLFF_OK;
  if (!in || !made) {
    status = mlff_fail(error, MLFF_E_NOMEM, "out of memory while loading a model");
    free(made);
  } else {
    made->backend = backend;
    *in = (nequip_loader){.net = made, .file = file, .use = use, .head = mlff_modelfile_get_head(file), .error = error};
    status = read(in);
    if (!status && !made->y.ld) made->y = made->layers[0].x;
    nequip_free_network(in);
    free(in->frequency);
    free(in->slot);
    free(in->element);
    free(in->radius);
    if (status)
      nequip_destroy(made);
    else
      *net = made;
  }
  free(in);
  return status;
}

mlff_status nequip_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                          mlff_error *error)
{
  return nequip_load(file, backend, use, read_all, net, error);
}

void nequip_release_map(mlff_backend *backend, nequip_map *map)
{
  for (int l = 0; l < NEQUIP_ORDERS; l++) {
    mlff_linear_release(backend, &map->forward[l]);
    mlff_linear_release(backend, &map->back[l]);
  }
}

static void release_layer(const nequip_net *net, nequip_layer *layer)
{
  mlff_backend *backend = net->backend;
  nequip_release_map(backend, &layer->linear_1);
  nequip_release_map(backend, &layer->linear_1_back);
  nequip_release_map(backend, &layer->linear_2);
  nequip_release_map(backend, &layer->skip);
  nequip_release_network(backend, &layer->network);
  mlff_buf *const bufs[] = {&layer->rows, &layer->paths,    &layer->coupling, &layer->norm,
                            &layer->y,    &layer->z_values, &layer->scale,    &layer->a_values};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(backend, bufs[k]);
}

void nequip_destroy(void *opaque)
{
  nequip_net *net = opaque;
  if (!net) return;
  mlff_backend *backend = net->backend;
  if (net->update && net->update->release) net->update->release(net);
  for (int t = 0; net->layers && t < net->n_layers; t++) release_layer(net, &net->layers[t]);
  free(net->layers);
  mlff_buf *const bufs[] = {&net->frequency,    &net->radius,      &net->slot,           &net->bias,
                            &net->readout,      &net->radial.line, &net->terms,          &net->x,
                            &net->grad_x,       &net->grad_y,      &net->node_energy,    &net->edge_grad,
                            &net->sums,         &net->grad_z,      &net->last_x,         &net->last_grad,
                            &net->radial.terms, &net->scratch,     &net->messages,       &net->products,
                            &net->wide,         &net->densities,   &net->grad_densities, &net->last,
                            &net->gated};
  for (size_t k = 0; k < sizeof bufs / sizeof *bufs; k++) mlff_buf_release(backend, bufs[k]);
  free(net);
}
