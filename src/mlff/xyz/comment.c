/* comment.c: the second line of a frame; see xyz_impl.h.
 *
 * The rules are those of ASE's reader (ase.io.extxyz.key_val_str_to_dict), except for lines that it silently misreads:
 * quotes and brackets that are not closed or begin within a word, a value that would include the next key. These are
 * errors, unless the line contains none of the words Lattice, pbc and Properties: then it is free text.
 */
#include "xyz_impl.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A name, a value or a word without value, as in the line. */
typedef struct item {
  const char *first, *end;
  char opening; /* quote or bracket; 0: none */
} item;

typedef struct parser {
  xyz_comment *c;
  char *texts;    /* next free byte */
  double *values; /* next free value */
  const char *place;
  const char *reason; /* why the line cannot be read at `place`; NULL without an error */
  int is_final;       /* an error even if the line could be free text */
} parser;

static int fail_at(parser *p, const char *place, const char *reason)
{
  p->place = place;
  p->reason = reason;
  return 0;
}

static int fail_final(parser *p, const char *place, const char *reason)
{
  p->is_final = 1;
  return fail_at(p, place, reason);
}

static int is_blank(char c)
{
  return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

static const char *skip_blanks(const char *s)
{
  while (is_blank(*s)) s++;
  return s;
}

/* Position after the quote that closes the one at s; NULL if there is none. */
static const char *close_quote(const char *s)
{
  const char quote = *s;
  for (s++; *s && *s != quote; s++)
    if (*s == '\\' && s[1]) s++;
  return *s ? s + 1 : NULL;
}

/* The same for a bracket. ASE ends at the first closing one; nested brackets that it would misread count as open. */
static const char *close_bracket(const char *s)
{
  const char opening = *s, closing = opening == '(' ? ')' : opening == '[' ? ']' : '}';
  int depth = 0, n_closed = 0;
  for (; *s; s++) {
    if (n_closed && (*s == '"' || *s == '\'')) return NULL;
    if (*s == '\\' && s[1]) {
      s++;
      continue;
    }
    depth += (*s == opening) - (*s == closing);
    n_closed += *s == closing;
    if (!depth) return s + 1;
  }
  return NULL;
}

static int has(const char *first, const char *end, char c)
{
  return memchr(first, c, (size_t) (end - first)) != NULL;
}

/* Reads a word, which ends at a blank, a name also at an equals sign. */
static int scan_word(parser *p, const char *s, int is_value, item *found)
{
  *found = (item){.first = s};
  for (; *s && !is_blank(*s) && (is_value || *s != '='); s++) {
    if (*s == '\\' && s[1]) {
      s++;
    } else if (*s == '"' || *s == '\'') {
      return fail_at(p, s, "a quote within a word: quote the whole word, inner quotes as \\\"");
    } else if (*s == '[' || *s == '{') {
      const char *end = close_bracket(s);
      if (!end || has(s, end, ' ') || has(s, end, '\t')) return fail_at(p, s, "a bracket within a word is not closed");
      s = end - 1;
    }
  }
  found->end = s;
  return 1;
}

static int scan(parser *p, const char *s, int is_value, item *found)
{
  const int is_quote = *s == '"' || *s == '\'', is_bracket = *s == '[' || *s == '{';
  const char *end = is_quote ? close_quote(s) : is_bracket || *s == '(' ? close_bracket(s) : NULL;
  const int ends = end && (!*end || is_blank(*end) || (!is_value && *end == '='));
  if (*s == '(' && (!ends || has(s, end, '='))) end = NULL; /* round brackets are letters in ASE */
  if (!end && !is_quote && !is_bracket) return scan_word(p, s, is_value, found);
  if (!end) return fail_at(p, s, is_quote ? "the quote is not closed" : "the bracket is not closed");
  if (!ends) return fail_at(p, s, "expected a blank after the closing quote or bracket");
  *found = (item){s, end, *s};
  return 1;
}

/* ---- words that must be keys ------------------------------------------------------------------------------------- */

static int is_letter(char c)
{
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Returns Lattice, pbc or Properties if it is the word, in any case; else NULL. */
static const char *special_word(const char *first, size_t length)
{
  static const char *const words[] = {"Lattice", "pbc", "Properties"};
  for (int k = 0; k < 3; k++)
    if (strlen(words[k]) == length && !strncasecmp(words[k], first, length)) return words[k];
  return NULL;
}

/* Finds one of these words in a text, optionally followed by an equals sign; NULL if there is none. */
static const char *find_special(const char *s, const char *end, int with_equals)
{
  while (s < end) {
    const char *first = s;
    while (s < end && is_letter(*s)) s++;
    if (special_word(first, (size_t) (s - first)) && (!with_equals || *skip_blanks(s) == '=')) return first;
    while (s < end && !is_letter(*s)) s++;
  }
  return NULL;
}

static int check_special(parser *p, const item *name, const item *value)
{
  const size_t length = (size_t) (name->end - name->first) - (name->opening ? 2 : 0);
  const char *first = name->first + (name->opening ? 1 : 0), *word = special_word(first, length);
  if (word && !value)
    return fail_final(p, name->first, "Lattice, pbc and Properties must be keys with a value, as in pbc=\"T T T\"");
  if (word && strncmp(word, first, length))
    return fail_final(p, name->first, "the keys Lattice, pbc and Properties must have this spelling, as in ASE");
  const char *hidden = word ? NULL : find_special(name->first, name->end, name->opening != 0);
  if (!hidden && value) hidden = find_special(value->first, value->end, value->opening != 0);
  if (hidden) return fail_final(p, hidden, "Lattice, pbc and Properties must be keys, but are part of a text");
  return 1;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static const char *keep(parser *p, const char *first, const char *end, int with_escapes)
{
  char *out = p->texts, *next = out;
  for (const char *s = first; s < end; s++) {
    if (!with_escapes && *s == '\\' && ++s == end) break;
    *next++ = *s;
  }
  *next++ = 0;
  p->texts = next;
  return out;
}

/* Copies the text without quotes and brackets, except round ones, which are letters in ASE. */
static const char *keep_inside(parser *p, const item *i)
{
  const int cut = i->opening && i->opening != '(';
  return keep(p, i->first + cut, i->end - cut, 0);
}

/* Reads all words of a text as one kind; -1 if they are not of it. */
static int read_words(const char *text, const char *between, char kind, double *values)
{
  int n = 0;
  for (text += strspn(text, between); *text; text += strspn(text, between)) {
    char word[512];
    const size_t length = strcspn(text, between);
    if (length >= sizeof word) return -1;
    memcpy(word, text, length);
    word[length] = 0;
    if (!mlff_xyz_value(word, kind, &values[n])) return -1;
    n++;
    text += length;
  }
  return n;
}

static int is_balanced(const char *text)
{
  int open[3] = {0, 0, 0};
  for (const char *s = text; *s; s++)
    for (int k = 0; k < 3; k++) {
      open[k] += (*s == "([{"[k]) - (*s == ")]}"[k]);
      if (open[k] < 0) return 0;
    }
  return !open[0] && !open[1] && !open[2];
}

static void find_kind(parser *p, mlff_xyz_key *key, const item *value)
{
  const char first = *key->text;
  const int has_brackets = value->opening && (strchr("[({", value->opening) || (first && strchr("[({", first)));
  const int in_brackets = has_brackets && is_balanced(key->text);
  const char *between = in_brackets ? " \t\v\f,[](){}" : " \t\v\f,";
  key->kind = 'S';
  for (const char *kind = "IRL"; *kind && key->kind == 'S'; kind++) {
    key->n_values = read_words(key->text, between, *kind, p->values);
    if (key->n_values > 0) key->kind = *kind;
  }
  if (key->kind == 'S') {
    key->n_values = 0;
    for (const char *s = key->text + strspn(key->text, between); *s; s += strspn(s, between)) {
      key->n_values++;
      s += strcspn(s, between);
    }
    return;
  }
  key->values = p->values;
  p->values += key->n_values;
}

static int add_key(parser *p, const item *name, const item *value)
{
  xyz_comment *c = p->c;
  if (!check_special(p, name, value)) return 0;
  if (c->n_keys == XYZ_MOST_KEYS) return fail_final(p, name->first, "the line has more than 4096 keys");
  mlff_xyz_key *key = &c->keys[c->n_keys];
  *key = (mlff_xyz_key){.name = keep_inside(p, name), .kind = 'S'};
  for (int k = 0; k < c->n_keys; k++)
    if (!strcmp(c->keys[k].name, key->name) && (value || c->keys[k].raw))
      return fail_final(p, name->first, "this key occurs twice");
  if (value) {
    key->raw = keep(p, value->first, value->end, 1);
    key->text = keep_inside(p, value);
    find_kind(p, key, value);
  }
  c->n_keys++;
  return 1;
}

/* Reads name=value, or a word without value. */
static int read_entry(parser *p)
{
  item name, value;
  if (!scan(p, p->place, 0, &name)) return 0;
  const char *equals = skip_blanks(name.end);
  if (*equals != '=') {
    if (!add_key(p, &name, NULL)) return 0;
    p->place = name.end;
    return 1;
  }
  if (name.end - name.first == (name.opening ? 2 : 0)) return fail_at(p, p->place, "expected a key before =");
  const char *first = skip_blanks(equals + 1);
  if (!scan(p, first, 1, &value)) {
    /* name= other="...": the missing value is the error, not the quote */
    const char *inner = strpbrk(first, "= \t");
    if (first > equals + 1 && inner && *inner == '=') fail_at(p, name.first, "this key has no value: write =\"\"");
    return 0;
  }
  const char *rest = skip_blanks(value.end);
  if (!value.opening && value.end > first) {
    if (*first == '=' || (first > equals + 1 && has(first, value.end, '=')))
      return fail_at(p, name.first, "this key has no value: write =\"\"");
    if (value.end[-1] == '=' && *rest) return fail_at(p, first, "the value ends with =: put it in quotes");
  }
  if (*rest == '=') return fail_at(p, first, "a second = for one key: put the value in quotes");
  if (!add_key(p, &name, &value)) return 0;
  p->place = value.end;
  return 1;
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

static mlff_status reserve(xyz_comment *c, size_t length, mlff_error *error)
{
  const size_t texts = 6 * length + 16, values = length / 2 + 2;
  if (!c->keys) c->keys = malloc(XYZ_MOST_KEYS * sizeof *c->keys);
  if (texts > c->texts_capacity) {
    free(c->texts);
    c->texts = malloc(texts);
    c->texts_capacity = c->texts ? texts : 0;
  }
  if (values > c->values_capacity) {
    free(c->values);
    c->values = malloc(values * sizeof *c->values);
    c->values_capacity = c->values ? values : 0;
  }
  if (!c->keys || !c->texts || !c->values) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for keys of XYZ files");
  return MLFF_OK;
}

mlff_status mlff_xyz_comment_read(xyz_comment *c, const xyz_lines *l, const char **why, mlff_error *error)
{
  MLFF_TRY(reserve(c, l->length, error));
  parser p = {.c = c, .texts = c->texts, .values = c->values, .place = l->line};
  c->n_keys = 0;
  *why = NULL;
  for (p.place = skip_blanks(p.place); *p.place && !p.reason; p.place = p.reason ? p.place : skip_blanks(p.place))
    read_entry(&p);
  if (!p.reason) return MLFF_OK;
  p.texts = c->texts;
  const char *plain = keep(&p, l->line, l->line + l->length, 0);
  if (p.is_final || find_special(plain, p.texts - 1, 0))
    return mlff_xyz_fail(l, error, "the comment line cannot be read at '%.40s': %s", p.place, p.reason);
  c->n_keys = 0;
  *why = p.reason;
  return MLFF_OK;
}

const mlff_xyz_key *mlff_xyz_comment_find(const xyz_comment *c, const char *name)
{
  for (int k = 0; k < c->n_keys; k++)
    if (c->keys[k].raw && !strcmp(c->keys[k].name, name)) return &c->keys[k];
  return NULL;
}

void mlff_xyz_comment_free(xyz_comment *c)
{
  free(c->keys);
  free(c->texts);
  free(c->values);
}
