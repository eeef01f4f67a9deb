/* host_view.c: the graph as the host reads it: the graph itself, or a copy of a graph in device memory. The copy has
 * the arrays that change with the list except pairs: elements for energies and errors, rows for sizes. */
#include "model_impl.h"

#include <stdlib.h>

static mlff_status make_room(mlff_host_view *view, const mlff_graph *graph, mlff_error *error)
{
  const size_t bytes = ((size_t) graph->n_local + 1) * sizeof(int64_t) + 2 * (size_t) graph->n_all * sizeof(int32_t);
  if (bytes <= view->capacity) return MLFF_OK;
  const size_t wanted = view->capacity ? bytes + bytes / 4 : bytes;
  void *data = malloc(wanted);
  if (!data) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a list of %d atoms", (int) graph->n_all);
  free(view->data);
  view->data = data;
  view->list_id = 0;
  view->capacity = wanted;
  view->n_growths++;
  return MLFF_OK;
}

/* Sets the pointers of the graph to view->data. */
typedef struct copies {
  int64_t *row;
  int32_t *species, *node;
} copies;

static copies copies_of(const mlff_host_view *view, const mlff_graph *graph)
{
  copies c = {.row = view->data};
  c.species = (int32_t *) (void *) (c.row + graph->n_local + 1);
  c.node = c.species + graph->n_all;
  return c;
}

/* Copies a list from the device. */
static mlff_status bring_down(mlff_model *m, const mlff_graph *graph, mlff_error *error)
{
  mlff_host_view *view = &m->host_view;
  const mlff_ops *ops = m->backend->ops;
  const copies c = copies_of(view, graph);
  const size_t n_all = (size_t) graph->n_all;
  view->list_id = 0;
  MLFF_TRY(ops->download(m->backend, c.row, graph->row, ((size_t) graph->n_local + 1) * sizeof *c.row, error));
  MLFF_TRY(ops->download(m->backend, c.species, graph->species, n_all * sizeof *c.species, error));
  MLFF_TRY(ops->download(m->backend, c.node, graph->node, n_all * sizeof *c.node, error));
  view->list_id = graph->list_id;
  return MLFF_OK;
}

/* An empty graph. */
static void forget_list(mlff_host_view *view, const mlff_graph *graph)
{
  const copies c = copies_of(view, graph);
  view->list_id = 0;
  for (int32_t i = 0; i <= graph->n_local; i++) c.row[i] = 0;
  for (int32_t a = 0; a < graph->n_all; a++) {
    c.species[a] = -1;
    c.node[a] = 0;
  }
}

mlff_status mlff_host_view_make(mlff_model *m, const mlff_graph *graph, mlff_error *error)
{
  mlff_host_view *view = &m->host_view;
  view->graph = *graph;
  view->is_on_device = graph->on_device != 0;
  if (!graph->on_device) return MLFF_OK;
  if (!m->backend->ops->owns_graph)
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "the graph is in GPU memory (graph.on_device), but the model is on the CPU; pass host arrays or "
                     "open it with device cuda");
  const int is_new = graph->list_id == 0 || view->list_id != graph->list_id;
  if (is_new) MLFF_TRY(make_room(view, graph, error));
  mlff_status status = m->backend->ops->owns_graph(m->backend, graph, is_new, error);
  if (!status && is_new) status = bring_down(m, graph, error);
  /* the op `edges` reports the error, after which the exchanges are made: other ranks wait for them */
  if (status == MLFF_E_DEVICE)
    forget_list(view, graph);
  else if (status)
    return status;
  const copies c = copies_of(view, graph);
  view->graph.row = c.row;
  view->graph.species = c.species;
  view->graph.node = c.node;
  view->graph.nbr = NULL;
  view->graph.pos = NULL;
  view->graph.on_device = 0;
  if (is_new) view->longest_row = mlff_longest_row(&view->graph);
  m->edges.longest_row = view->longest_row;
  return MLFF_OK;
}
