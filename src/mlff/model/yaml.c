/* yaml.c: libyaml events -> tree. See yaml.h. */
#include "yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct reader {
  const char *path;
  yaml_parser_t parser;
  mlff_arena *arena;
  int n_nodes;
  mlff_error *error;
} reader;

const char *mlff_yaml_kind_name(mlff_yaml_kind kind)
{
  return kind == MLFF_YAML_MAPPING ? "mapping" : kind == MLFF_YAML_SEQUENCE ? "sequence" : "value";
}

const mlff_yaml *mlff_yaml_find(const mlff_yaml *mapping, const char *key)
{
  for (const mlff_yaml *child = mapping->first; child; child = child->next)
    if (child->key && !strcmp(child->key, key)) return child;
  return NULL;
}

static int line_of(const yaml_event_t *event)
{
  return (int) event->start_mark.line + 1;
}

static mlff_status next_event(reader *r, yaml_event_t *event)
{
  if (yaml_parser_parse(&r->parser, event)) return MLFF_OK;
  if (r->parser.error == YAML_MEMORY_ERROR) return mlff_fail(r->error, MLFF_E_NOMEM, "%s: out of memory", r->path);
  const unsigned long line = (unsigned long) r->parser.problem_mark.line + 1;
  return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%lu: not valid YAML: %s%s%s", r->path, line,
                   r->parser.problem ? r->parser.problem : "syntax error", r->parser.context ? ", " : "",
                   r->parser.context ? r->parser.context : "");
}

/* Anchors, aliases and tags could make a file mean something else than what it shows. */
static mlff_status check_event(reader *r, const yaml_event_t *event)
{
  const void *anchor = NULL, *tag = NULL;
  switch (event->type) {
  case YAML_ALIAS_EVENT: anchor = event->data.alias.anchor; break;
  case YAML_SCALAR_EVENT:
    anchor = event->data.scalar.anchor;
    tag = event->data.scalar.tag;
    break;
  case YAML_SEQUENCE_START_EVENT:
    anchor = event->data.sequence_start.anchor;
    tag = event->data.sequence_start.tag;
    break;
  case YAML_MAPPING_START_EVENT:
    anchor = event->data.mapping_start.anchor;
    tag = event->data.mapping_start.tag;
    break;
  default: break;
  }
  if (anchor)
    return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: anchors and aliases (&, *) are not allowed: write the value out",
                     r->path, line_of(event));
  if (tag) return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: tags (!) are not allowed", r->path, line_of(event));
  return MLFF_OK;
}

static mlff_status new_node(reader *r, const yaml_event_t *event, mlff_yaml *parent, const char *key, mlff_yaml **node)
{
  if (r->n_nodes >= MLFF_YAML_MAX_NODES)
    return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: more than %d values", r->path, line_of(event),
                     MLFF_YAML_MAX_NODES);
  mlff_yaml *n = mlff_arena_alloc(r->arena, sizeof *n);
  if (!n) return mlff_fail(r->error, MLFF_E_NOMEM, "%s: out of memory", r->path);
  n->line = line_of(event);
  n->id = r->n_nodes++;
  n->key = key;
  n->parent = parent;
  if (event->type == YAML_SCALAR_EVENT) {
    n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->text = mlff_arena_text(r->arena, (const char *) event->data.scalar.value, event->data.scalar.length);
    if (!n->text) return mlff_fail(r->error, MLFF_E_NOMEM, "%s: out of memory", r->path);
    if (strlen(n->text) != event->data.scalar.length)
      return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: text with a zero byte", r->path, n->line);
  }
  if (event->type == YAML_SEQUENCE_START_EVENT) n->kind = MLFF_YAML_SEQUENCE;
  if (event->type == YAML_MAPPING_START_EVENT) n->kind = MLFF_YAML_MAPPING;
  if (parent) {
    if (parent->last)
      parent->last->next = n;
    else
      parent->first = n;
    parent->last = n;
    parent->n_children++;
  }
  *node = n;
  return MLFF_OK;
}

/* A key of the mapping `node` from a scalar event. */
static mlff_status read_key(reader *r, const yaml_event_t *event, const mlff_yaml *node, const char **key)
{
  if (event->type != YAML_SCALAR_EVENT)
    return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: keys must be plain text", r->path, line_of(event));
  *key = mlff_arena_text(r->arena, (const char *) event->data.scalar.value, event->data.scalar.length);
  if (!*key) return mlff_fail(r->error, MLFF_E_NOMEM, "%s: out of memory", r->path);
  if (node->n_children >= MLFF_YAML_MAX_KEYS)
    return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: more than %d keys", r->path, line_of(event), MLFF_YAML_MAX_KEYS);
  const mlff_yaml *twin = mlff_yaml_find(node, *key);
  if (twin)
    return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: key '%.60s' is there twice, first in line %d", r->path,
                     line_of(event), *key, twin->line);
  return MLFF_OK;
}

/* Reads events until the document is complete; `at` is the container being filled, without recursion. */
static mlff_status read_nodes(reader *r, mlff_yaml **root)
{
  mlff_yaml *at = NULL;
  const char *key = NULL;
  int depth = 0, key_line = 0;
  mlff_status status = MLFF_OK;
  do {
    yaml_event_t event;
    MLFF_TRY(next_event(r, &event));
    status = check_event(r, &event);
    const int starts = event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
    if (status) {
      yaml_event_delete(&event);
      return status;
    }
    if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT) {
      at = at->parent;
      depth--;
    } else if (at && at->kind == MLFF_YAML_MAPPING && !key) {
      status = read_key(r, &event, at, &key);
      key_line = line_of(&event);
    } else if (starts || event.type == YAML_SCALAR_EVENT) {
      mlff_yaml *node = NULL;
      status = new_node(r, &event, at, key, &node);
      if (key && node) node->line = key_line; /* where a person looks for it */
      key = NULL;
      if (!status && !at) *root = node;
      if (!status && starts) {
        at = node;
        if (++depth > MLFF_YAML_MAX_DEPTH)
          status = mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: nested more than %d levels deep", r->path, node->line,
                             MLFF_YAML_MAX_DEPTH);
      }
    }
    yaml_event_delete(&event);
  } while (!status && at);
  return status;
}

/* stream start, document start, nodes, document end, stream end */
static mlff_status read_document(reader *r, mlff_yaml **root)
{
  static const yaml_event_type_t before[] = {YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT};
  static const yaml_event_type_t after[] = {YAML_DOCUMENT_END_EVENT, YAML_STREAM_END_EVENT};
  for (int k = 0; k < 4; k++) {
    yaml_event_t event;
    if (k == 2) {
      MLFF_TRY(read_nodes(r, root));
      if (!*root) return mlff_fail(r->error, MLFF_E_FORMAT, "%s: the file is empty", r->path);
    }
    MLFF_TRY(next_event(r, &event));
    const int expected = event.type == (k < 2 ? before[k] : after[k - 2]), line = line_of(&event);
    const int is_end = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    if (!expected && is_end) return mlff_fail(r->error, MLFF_E_FORMAT, "%s: the file is empty", r->path);
    if (!expected)
      return mlff_fail(r->error, MLFF_E_FORMAT, "%s:%d: a second document; one is expected", r->path, line);
  }
  return MLFF_OK;
}

mlff_status mlff_yaml_parse(const char *path, const char *text, size_t size, mlff_arena *arena, mlff_yaml **root,
                            int *n_nodes, mlff_error *error)
{
  reader r = {.path = path, .arena = arena, .error = error};
  *root = NULL;
  if (size > MLFF_YAML_MAX_BYTES)
    return mlff_fail(error, MLFF_E_FORMAT, "%s: %zu bytes, more than the %d that are allowed", path, size,
                     MLFF_YAML_MAX_BYTES);
  if (!yaml_parser_initialize(&r.parser)) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", path);
  yaml_parser_set_input_string(&r.parser, (const unsigned char *) text, size);
  yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
  const mlff_status status = read_document(&r, root);
  yaml_parser_delete(&r.parser);
  if (n_nodes) *n_nodes = r.n_nodes;
  return status;
}
