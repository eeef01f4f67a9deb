/* nequip_elements.c: loads matrices of NequIP networks that depend on the element of an atom. They multiply a row that
 * has the channels of every element in use, of which only those of the atom's element are not zero (mace_expand). */
#include "nequip_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Packs matrices [n_slots][rows][cols], side by side, as a map from rows for all elements: [rows->n][n_slots cols->n].
 * back: NULL, or gets the reverse. */
static mlff_status make_wide(nequip_loader *in, const double *matrices, const nequip_side *rows,
                             const nequip_side *cols, mlff_linear *forward, mlff_linear *back)
{
  const size_t n_slots = (size_t) in->net->n_slots, n_cols = (size_t) cols->n, ld = n_slots * n_cols;
  double *wide = nequip_zeros((size_t) rows->n * ld);
  mlff_status status = wide ? MLFF_OK : nequip_no_memory(in);
  for (size_t s = 0; !status && s < n_slots; s++) {
    double *one = nequip_pad_matrix(matrices + s * (size_t) rows->n_file * (size_t) cols->n_file, rows, cols, 1.0);
    if (!one) status = nequip_no_memory(in);
    for (size_t r = 0; one && r < (size_t) rows->n; r++)
      memcpy(wide + r * ld + s * n_cols, one + r * n_cols, n_cols * sizeof *wide);
    free(one);
  }
  if (!status) status = mlff_linear_make(in->net->backend, forward, back, wide, NULL, rows->n, (int) ld, in->error);
  free(wide);
  return status;
}

mlff_nequip_row nequip_make_wide_row(nequip_loader *in, int n_orders)
{
  int n[NEQUIP_ORDERS];
  for (int l = 0; l < n_orders; l++) n[l] = in->net->n_slots * nequip_padded(in->net->n_channels[l]);
  const mlff_nequip_row row = nequip_make_row(n_orders, n);
  if (row.ld > in->net->n_wide) in->net->n_wide = row.ld;
  return row;
}

mlff_status nequip_read_divided_map(nequip_loader *in, int t, int l, const nequip_side *side, nequip_layer *layer)
{
  const size_t n = (size_t) side->n_file;
  double *w = NULL, *all = nequip_zeros((size_t) in->net->n_slots * n * n),
         *back = nequip_zeros((size_t) in->net->n_slots * n * n);
  mlff_status status = all && back ? MLFF_OK : nequip_no_memory(in);
  if (!status)
    status = mlff_modelfile_matrix(in->file, in->error, side->n_file, side->n_file, &w, "layers.%d.linear_1.l%d", t, l);
  for (int s = 0; !status && s < in->net->n_slots; s++) {
    const double scale = 1 / (sqrt((double) n) * in->neighbor_divisor[in->element[s]]);
    for (size_t q = 0; q < n * n; q++) {
      all[(size_t) s * n * n + q] = scale * w[q];
      back[(size_t) s * n * n + q % n * n + q / n] = scale * w[q];
    }
  }
  if (!status) status = make_wide(in, all, side, side, &layer->linear_1.forward[l], NULL);
  if (!status) status = make_wide(in, back, side, side, &layer->linear_1_back.forward[l], NULL);
  layer->linear_1.n = layer->linear_1_back.n = l + 1;
  free(w);
  free(all);
  free(back);
  return status;
}

mlff_status nequip_read_element_skip(nequip_loader *in, int t, int l, const nequip_side *out, const nequip_side *cols,
                                     nequip_map *map)
{
  const size_t n_embedding = (size_t) in->n_first, n_elements = (size_t) in->head->n_elements;
  const size_t n_matrix = (size_t) out->n_file * (size_t) cols->n_file;
  const int64_t shape[3] = {out->n_file, cols->n_file, in->n_first};
  const double scale = 1 / sqrt((double) cols->n_file * in->n_first);
  char name[64];
  double *w = NULL, *embedding = NULL, *all = nequip_zeros((size_t) in->net->n_slots * n_matrix);
  snprintf(name, sizeof name, "layers.%d.skip.l%d", t, l);
  mlff_status status = all ? MLFF_OK : nequip_no_memory(in);
  if (!status) status = mlff_modelfile_tensor(in->file, name, 3, shape, &w, in->error);
  if (!status)
    status = mlff_modelfile_matrix(in->file, in->error, in->n_first, in->head->n_elements, &embedding, "embedding");
  for (int s = 0; !status && s < in->net->n_slots; s++)
    for (size_t q = 0; q < n_matrix; q++)
      for (size_t v = 0; v < n_embedding; v++)
        all[(size_t) s * n_matrix + q] +=
            scale * w[q * n_embedding + v] * embedding[v * n_elements + (size_t) in->element[s]];
  if (!status) status = make_wide(in, all, out, cols, &map->forward[l], &map->back[l]);
  if (map->n <= l) map->n = l + 1;
  free(w);
  free(embedding);
  free(all);
  return status;
}
