/* rules.h: bars for a report and for the change between two. */
#ifndef MLFFPROF_RULES_H
#define MLFFPROF_RULES_H

#include "document.h"

typedef enum mlffprof_rule_kind {
  MLFFPROF_BELOW = 0,   /* value < bound                    */
  MLFFPROF_ABOVE,       /* value > bound                    */
  MLFFPROF_RATIO_BELOW, /* value of B / value of A < bound  */
  MLFFPROF_RATIO_ABOVE, /* value of B / value of A > bound  */
  MLFFPROF_CHANGE_BELOW /* value of B - value of A < bound  */
} mlffprof_rule_kind;
enum { MLFFPROF_N_RULE_KINDS = 5 };

typedef struct mlffprof_rule {
  const char *metric, *model; /* model NULL = any */
  mlffprof_rule_kind kind;
  double bound;
  int significant; /* a latency ratio breaks the rule only when its 95 % interval does */
} mlffprof_rule;

struct mlffprof_rules {
  mlff_arena arena;
  int n;
  mlffprof_rule *list;
};

/* Name of a kind as rules files have it: "below", ... */
const char *mlffprof_rule_kind_name(mlffprof_rule_kind kind);

/* 1 when the rule is about this report's model. */
int mlffprof_rule_applies(const mlffprof_rule *rule, const mlffprof_report *report);

#endif
