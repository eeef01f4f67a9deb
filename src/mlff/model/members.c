/* members.c: selection of the members of an ensemble, and the forces of each. */
#include "model_impl.h"

#include <stdlib.h>
#include <string.h>

static mlff_status parse_failed(const char *text, int n, mlff_error *error)
{
  return mlff_fail(error, MLFF_E_ARG,
                   "members '%.60s' are invalid; use all, or members and ranges from 0 to %d such as 0:2,5", text,
                   n - 1);
}

mlff_status mlff_members_parse(const char *text, int n, int *use, mlff_error *error)
{
  const int all = !text || !strcmp(text, "all");
  for (int k = 0; k < n; k++) use[k] = all;
  if (all) return MLFF_OK;
  for (const char *word = text;; word++) {
    char *end = NULL;
    if (*word < '0' || *word > '9') return parse_failed(text, n, error);
    const long first = strtol(word, &end, 10);
    long last = first;
    if (*end == ':') {
      word = end + 1;
      if (*word < '0' || *word > '9') return parse_failed(text, n, error);
      last = strtol(word, &end, 10);
    }
    if (last < first || last >= n) return parse_failed(text, n, error);
    for (long k = first; k <= last; k++) use[k] = 1;
    if (!*end) return MLFF_OK;
    if (*end != ',') return parse_failed(text, n, error);
    word = end;
  }
}

mlff_status mlff_members_evaluate(mlff_model *model, const mlff_graph *graph, mlff_result *result, mlff_error *error)
{
  for (int k = 0; k < model->info.n_members; k++) {
    const mlff_arch_inputs in = {.graph = graph, .edges = &model->edges, .single = 1, .member = k};
    mlff_arch_outputs out = {.node_energy = NULL};
    mlff_result of_member = {.forces = result->member_forces + (int64_t) k * graph->n_nodes};
    MLFF_TRY(mlff_repulsion_clamp(model, error));
    MLFF_TRY(model->arch->evaluate(model->net, &in, &out, error));
    MLFF_TRY(mlff_repulsion_add(model, &out, error));
    const mlff_forces_args args = {.edges = &model->edges,
                                   .grad = out.edge_grad,
                                   .scale = model->scale,
                                   .result = &of_member};
    MLFF_TRY(model->backend->ops->forces(model->backend, &args, error));
    if (result->member_virial) memcpy(result->member_virial[k], of_member.virial, sizeof of_member.virial);
  }
  return MLFF_OK;
}
