/* write_profile_schema.c: docs/profile.schema.json from the table of a report's fields, to standard output. */
#include "mlffprof/report/json.h"

#include <stdio.h>

enum { MAX_BLOCKS = 64 };

static const mlffprof_kind *blocks[MAX_BLOCKS];
static int n_blocks;

/* A definition of its own for each block, in the order in which they are first named. */
static void add_block(const mlffprof_kind *block)
{
  for (int k = 0; k < n_blocks; k++)
    if (blocks[k] == block) return;
  blocks[n_blocks++] = block;
}

static void print_words(const mlffprof_kind *kind)
{
  fputs("\"enum\": [", stdout);
  for (int k = 0; k < kind->n_words; k++) {
    const char *quote = kind->words[k] ? "\"" : "";
    printf("%s%s%s%s", k ? ", " : "", quote, kind->words[k] ? kind->words[k] : "null", quote);
  }
  fputc(']', stdout);
}

static void print_scalar(const mlffprof_kind *kind, const char *type)
{
  if (kind->is_nullable)
    printf("\"type\": [\"%s\", \"null\"]", type);
  else
    printf("\"type\": \"%s\"", type);
}

static void print_items(const char *item)
{
  printf("\"type\": \"array\", \"items\": {%s}", item);
}

static void print_block(const mlffprof_field *f)
{
  add_block(f->kind);
  if (f->is_list) fputs("\"type\": \"array\", \"items\": {", stdout);
  if (!f->is_list && f->kind->key_shape)
    printf("\"anyOf\": [{\"type\": \"null\"}, {\"$ref\": \"#/$defs/%s\"}]", f->kind->name);
  else
    printf("\"$ref\": \"#/$defs/%s\"", f->kind->name);
  if (f->is_list) fputc('}', stdout);
}

static void print_type(const mlffprof_field *f)
{
  const mlffprof_kind *kind = f->kind;
  switch (kind->shape) {
  case MLFFPROF_NUMBER:
    print_scalar(kind, "number");
    if (kind->is_bound) fputs(", \"minimum\": 0", stdout);
    break;
  case MLFFPROF_INTEGER:
    print_scalar(kind, "integer");
    if (kind->low != INT64_MIN) printf(", \"minimum\": %lld", (long long) kind->low);
    if (kind->most) printf(", \"maximum\": %d", kind->most);
    break;
  case MLFFPROF_BOOL: print_scalar(kind, "boolean"); break;
  case MLFFPROF_TEXT:
  case MLFFPROF_WORD:
    if (kind->words)
      print_words(kind);
    else
      print_scalar(kind, "string");
    break;
  case MLFFPROF_TAGS:
    fputs("\"type\": \"array\", \"items\": {", stdout);
    print_words(kind);
    fputc('}', stdout);
    break;
  case MLFFPROF_NUMBERS:
  case MLFFPROF_COLUMN: print_items("\"type\": [\"number\", \"null\"]"); break;
  case MLFFPROF_STEPS: print_items("\"type\": \"integer\""); break;
  case MLFFPROF_BINS: print_items("\"type\": \"integer\", \"minimum\": 0"); break;
  case MLFFPROF_CONTEXT: fputs("\"$ref\": \"#/$defs/context\"", stdout); break;
  default: print_block(f);
  }
}

/* Properties of a block and those that every report has; indented by so many columns. */
static void print_fields(const mlffprof_kind *block, int indent)
{
  const mlffprof_field *end = block->fields + block->n_fields;
  printf("%*s\"type\": \"object\",\n%*s\"properties\": {\n", indent, "", indent, "");
  for (const mlffprof_field *f = block->fields; f < end; f++) {
    printf("%*s\"%s\": {", indent + 1, "", f->name);
    print_type(f);
    if (*f->unit) printf(", \"unit\": \"%s\"", f->unit);
    if (f->kind->is_metric) printf(", \"metric\": true");
    if (*f->meaning) printf(", \"description\": \"%s\"", f->meaning);
    fputs(f + 1 < end ? "},\n" : "}\n", stdout);
  }
  printf("%*s},\n%*s\"required\": [", indent, "", indent, "");
  const char *separator = "";
  for (const mlffprof_field *f = block->fields; f < end; f++) {
    if (f->is_later || f->kind->is_left_out) continue;
    printf("%s\"%s\"", separator, f->name);
    separator = ", ";
  }
  fputs("]", stdout);
}

int main(void)
{
  fputs("{\n"
        " \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
        " \"$id\": \"mlff/profile.schema.json\",\n"
        " \"title\": \"Report of mlffprof\",\n"
        " \"description\": \"Written by fix mlffprof, mlff time, mlff soak and the C API (include/mlff/mlffprof.h). "
        "null: not "
        "measured. Fields may be added within a schema version; readers ignore those that they do not know. Made from "
        "include/mlff/mlffprof_fields.h: CONTRIBUTING.md, A reported number.\",\n",
        stdout);
  print_fields(&mlffprof_report_kind, 1);
  fputs(",\n \"$defs\": {\n", stdout);
  for (int k = 0; k < n_blocks; k++) { /* printing one may add others */
    printf("  \"%s\": {\n", blocks[k]->name);
    print_fields(blocks[k], 3);
    fputs("\n  },\n", stdout);
  }
  fputs("  \"context\": {\n"
        "   \"type\": \"object\",\n"
        "   \"additionalProperties\": {\"anyOf\": [{\"type\": [\"string\", \"number\", \"null\"]}, {\"$ref\": "
        "\"#/$defs/context\"}]}\n"
        "  }\n }\n}\n",
        stdout);
  return fflush(stdout) || ferror(stdout);
}
