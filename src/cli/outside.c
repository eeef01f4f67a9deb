/* outside.c: checks a structure against the training domain. */
#include "cli.h"

#include "mlff/mlff_watch.h"

static void name_atom(void *context, int32_t i, char text[64])
{
  const mlff_graph *graph = context;
  snprintf(text, 64, "atom %d", (int) graph->node[i] + 1);
}

mlff_status cli_print_outside(const mlff_info *info, const mlff_graph *graph, const mlff_result *result, int is_json,
                              mlff_error *error)
{
  mlff_watch *watch = NULL;
  mlff_finding found[MLFF_N_WATCHED];
  int n = 0;
  const mlff_status status = mlff_watch_create(info, 1, "structures", &watch, error);
  if (status) return status;
  mlff_graph named = *graph;
  named.name = name_atom;
  named.name_context = &named;
  mlff_watch_atoms(watch, &named, result->forces, result->atom_uncertainty, found);
  if (is_json) printf(", \"outside\": [");
  for (int k = 0; k < MLFF_N_WATCHED; k++) {
    if (!(found[k].excess > 1)) continue;
    printf("%s", !is_json ? "  outside  " : n ? ", " : "");
    if (is_json)
      mlff_json_text(stdout, found[k].text);
    else
      printf("%s in the training\n", found[k].text);
    n++;
  }
  if (is_json) printf("]");
  mlff_watch_free(watch);
  return MLFF_OK;
}
