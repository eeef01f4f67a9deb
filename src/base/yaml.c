/* yaml.c: libyaml events -> tree. See yaml.h. */
#include "yaml.h"

#include "number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct reader {
  const char *path;
  yaml_parser_t parser;
  mlff_arena *arena;
  int n_nodes;
  mlff_fault *fault;
} reader;

#define TRY(call)             \
  do {                        \
    const int code_ = (call); \
    if (code_) return code_;  \
  } while (0)

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

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

int mlff_yaml_number(const mlff_yaml *node, double *value)
{
  return node->kind == MLFF_YAML_SCALAR && !node->quoted && mlff_number_parse(node->text, value);
}

int mlff_yaml_integer(const mlff_yaml *node, int64_t *value)
{
  return node->kind == MLFF_YAML_SCALAR && !node->quoted && mlff_integer_parse(node->text, value);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static int no_memory(const reader *r)
{
  return mlff_fault_set(r->fault, MLFF_FAULT_NOMEM, "%s: out of memory", r->path);
}

static int line_of(const yaml_event_t *event)
{
  return (int) event->start_mark.line + 1;
}

static int next_event(reader *r, yaml_event_t *event)
{
  if (yaml_parser_parse(&r->parser, event)) return 0;
  if (r->parser.error == YAML_MEMORY_ERROR || r->parser.error == YAML_NO_ERROR) return no_memory(r);
  const unsigned long line = (unsigned long) r->parser.problem_mark.line + 1;
  return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%lu: not valid YAML or JSON: %s%s%s", r->path, line,
                        r->parser.problem ? r->parser.problem : "syntax error", r->parser.context ? ", " : "",
                        r->parser.context ? r->parser.context : "");
}

/* Refuses anchors, aliases and tags, which hide the meaning of a file. */
static int check_event(reader *r, const yaml_event_t *event)
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
    return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT,
                          "%s:%d: anchors and aliases (&, *) are not allowed: write the value out", r->path,
                          line_of(event));
  if (tag)
    return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%d: tags (!) are not allowed", r->path, line_of(event));
  return 0;
}

/* The text of a scalar, copied. */
static int read_text(reader *r, const yaml_event_t *event, const char **text)
{
  const size_t length = event->data.scalar.length;
  *text = mlff_arena_text(r->arena, (const char *) event->data.scalar.value, length);
  if (!*text) return no_memory(r);
  if (strlen(*text) == length) return 0;
  return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%d: text with a zero byte", r->path, line_of(event));
}

static int new_node(reader *r, const yaml_event_t *event, mlff_yaml *parent, const char *key, mlff_yaml **node)
{
  if (r->n_nodes >= MLFF_YAML_MAX_NODES)
    return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%d: more than %d values", r->path, line_of(event),
                          MLFF_YAML_MAX_NODES);
  mlff_yaml *n = mlff_arena_alloc(r->arena, 1, sizeof *n);
  if (!n) return no_memory(r);
  n->line = line_of(event);
  n->id = r->n_nodes++;
  n->key = key;
  n->parent = parent;
  if (event->type == YAML_SCALAR_EVENT) {
    n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    TRY(read_text(r, event, &n->text));
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
  return 0;
}

/* A key of the mapping `node` from a scalar event. */
static int read_key(reader *r, const yaml_event_t *event, const mlff_yaml *node, const char **key)
{
  if (event->type != YAML_SCALAR_EVENT)
    return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%d: keys must be plain text", r->path, line_of(event));
  TRY(read_text(r, event, key));
  if (node->n_children >= MLFF_YAML_MAX_KEYS)
    return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%d: more than %d keys", r->path, line_of(event),
                          MLFF_YAML_MAX_KEYS);
  const mlff_yaml *twin = mlff_yaml_find(node, *key);
  if (twin)
    return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%d: key '%.60s' is a duplicate of line %d", r->path,
                          line_of(event), *key, twin->line);
  return 0;
}

/* Reads events until the document is complete, without recursion; parent_node is the container being filled. */
static int read_nodes(reader *r, mlff_yaml **root)
{
  mlff_yaml *parent_node = NULL;
  const char *key = NULL;
  int depth = 0, key_line = 0;
  int status = 0;
  do {
    yaml_event_t event;
    TRY(next_event(r, &event));
    status = check_event(r, &event);
    const int starts = event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
    if (status) {
      yaml_event_delete(&event);
      return status;
    }
    if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT) {
      parent_node = parent_node->parent;
      depth--;
    } else if (parent_node && parent_node->kind == MLFF_YAML_MAPPING && !key) {
      status = read_key(r, &event, parent_node, &key);
      key_line = line_of(&event);
    } else if (starts || event.type == YAML_SCALAR_EVENT) {
      mlff_yaml *node = NULL;
      status = new_node(r, &event, parent_node, key, &node);
      if (key && node) node->line = key_line; /* line of the key in messages */
      key = NULL;
      if (!status && !parent_node) *root = node;
      if (!status && starts) {
        parent_node = node;
        if (++depth > MLFF_YAML_MAX_DEPTH)
          status = mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%d: nested more than %d levels", r->path, node->line,
                                  MLFF_YAML_MAX_DEPTH);
      }
    }
    yaml_event_delete(&event);
  } while (!status && parent_node);
  return status;
}

/* stream start, document start, nodes, document end, stream end */
static int read_document(reader *r, mlff_yaml **root)
{
  static const yaml_event_type_t before[] = {YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT};
  static const yaml_event_type_t after[] = {YAML_DOCUMENT_END_EVENT, YAML_STREAM_END_EVENT};
  for (int k = 0; k < 4; k++) {
    yaml_event_t event;
    if (k == 2) TRY(read_nodes(r, root));
    TRY(next_event(r, &event));
    const int expected = event.type == (k < 2 ? before[k] : after[k - 2]), line = line_of(&event);
    const int is_end = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    if (!expected && is_end) return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s: the file is empty", r->path);
    if (!expected)
      return mlff_fault_set(r->fault, MLFF_FAULT_FORMAT, "%s:%d: a second document; expected one", r->path, line);
  }
  return 0;
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

static int hex4(const char *s, const char *end, unsigned *value)
{
  *value = 0;
  if (end - s < 6 || s[0] != '\\' || s[1] != 'u') return 0;
  for (int k = 2; k < 6; k++) {
    const int c = s[k];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return 0;
    *value = *value << 4 | (unsigned) digit;
  }
  return 1;
}

/* Converts JSON surrogate pairs, which YAML does not have: \uD83D\uDE00 becomes \U0001f600, two bytes shorter, a lone
 * surrogate U+FFFD. Returns the new size. In JSON a backslash is always an escape. */
static size_t join_surrogates(char *text, size_t size)
{
  const char *end = text + size, *in = text;
  char *out = text;
  while (in < end) {
    unsigned high = 0, low = 0;
    if (*in != '\\') {
      *out++ = *in++;
    } else if (!hex4(in, end, &high) || high < 0xd800 || high > 0xdfff) {
      *out++ = *in++;
      if (in < end) *out++ = *in++;
    } else {
      char escape[16];
      const int pair = high < 0xdc00 && hex4(in + 6, end, &low) && low >= 0xdc00 && low <= 0xdfff;
      const unsigned code = pair ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
      const int n = snprintf(escape, sizeof escape, code > 0xffff ? "\\U%08x" : "\\u%04x", code);
      memcpy(out, escape, (size_t) n);
      out += n;
      in += pair ? 12 : 6;
    }
  }
  return (size_t) (out - text);
}

int mlff_yaml_parse(const char *path, const char *text, size_t size, mlff_arena *arena, mlff_yaml **root, int *n_nodes,
                    mlff_fault *fault)
{
  reader r = {.path = path, .arena = arena, .fault = fault};
  *root = NULL;
  if (size > MLFF_YAML_MAX_BYTES)
    return mlff_fault_set(fault, MLFF_FAULT_FORMAT, "%s: %zu bytes, at most %d are allowed", path, size,
                          MLFF_YAML_MAX_BYTES);
  char *copy = malloc(size + 1);
  if (!copy || !yaml_parser_initialize(&r.parser)) {
    free(copy);
    return no_memory(&r);
  }
  if (size) memcpy(copy, text, size);
  yaml_parser_set_input_string(&r.parser, (const unsigned char *) copy, join_surrogates(copy, size));
  yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
  const int status = read_document(&r, root);
  yaml_parser_delete(&r.parser);
  free(copy);
  if (n_nodes) *n_nodes = r.n_nodes;
  return status;
}
