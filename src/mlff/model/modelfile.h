/* modelfile.h: name.yaml + name.safetensors, read with typed getters. docs/model_file.md describes every key.
 *
 * The YAML is read with libyaml into a tree that remembers lines. Every getter marks its key as used; at the end
 * mlff_modelfile_finish reports the first unknown key with its line. Errors name file, line, key and what is expected.
 */
#ifndef MLFF_MODELFILE_H
#define MLFF_MODELFILE_H

#include "../errors.h"

typedef struct mlff_modelfile mlff_modelfile;
typedef struct mlff_yaml mlff_yaml; /* a node of the tree; borrowed from the file */

/* Parses both parts from memory, checks `format`, the weights' sha256 and the safetensors header. */
mlff_status mlff_modelfile_parse(const char *path, const char *yaml, size_t yaml_size, const void *weights,
                                 size_t weights_size, mlff_modelfile **file, mlff_error *error);
void mlff_modelfile_free(mlff_modelfile *file);
/* Error if no getter has read some key of the YAML or some tensor of the weights. */
mlff_status mlff_modelfile_finish(mlff_modelfile *file, mlff_error *error);

/* Common part, read by mlff_modelfile_parse. */
typedef struct mlff_modelfile_head {
  const char *name, *architecture, *sha256;
  const char *header_sha256; /* mlff_header_hash of the header */
  int header_is_hashed;      /* the file has a correct key header_sha256 */
  int n_elements;
  const char *const *elements;
  const int *trained; /* [n_elements] from domain.elements */
  double cutoff;      /* A */
  /* units.energy_in_eV: the energy unit of the weights in eV. */
  double energy_in_ev;
  /* [n_elements] energy_offsets in the file's energy unit. */
  const double *offsets;

  /* Block domain. Pointers are NULL without their key. */
  double min_distance;       /* A: closer atoms are an error */
  const double *temperature; /* [2] K */
  const double *density;     /* [2] g/cm3 */
  const double *pressure;    /* [2] GPa, without the kinetic part */
  const double *distances;   /* [n_elements][n_elements] shortest distances in A, 0 for pairs that were not trained */
  const double *triples;     /* [n_elements][n_elements][n_elements] A, center first, 0 likewise */
  double max_force;          /* eV/A, 0 without the key */

  /* [n_elements][n_elements] cutoffs of the repulsion in A, 0 for none. NULL without the block repulsion. */
  const double *repulsion;
  int repulsion_is_clamped; /* kind clamped */
  /* repulsion.p (0: kind zbl); exponent, prefactor and scale of kind mace (exponent 0: another kind). */
  double repulsion_power, repulsion_exponent, repulsion_prefactor, repulsion_scale;
} mlff_modelfile_head;
const mlff_modelfile_head *mlff_modelfile_get_head(const mlff_modelfile *file);

/* The root mapping, and children by key. A missing or mistyped key is an error with the line of its parent; `optional`
 * getters return NULL instead. Strings live as long as the file. */
const mlff_yaml *mlff_modelfile_root(const mlff_modelfile *file);
/* Whether the file has the key; does not mark it as used. */
int mlff_yaml_has(const mlff_yaml *parent, const char *key);
mlff_status mlff_yaml_map(const mlff_modelfile *, const mlff_yaml *parent, const char *key, const mlff_yaml **child,
                          mlff_error *);
mlff_status mlff_yaml_optional(const mlff_modelfile *, const mlff_yaml *parent, const char *key,
                               const mlff_yaml **child_or_null);
mlff_status mlff_yaml_int(const mlff_modelfile *, const mlff_yaml *parent, const char *key, int low, int high,
                          int *value, mlff_error *);
/* low <= value <= high, finite */
mlff_status mlff_yaml_double(const mlff_modelfile *, const mlff_yaml *parent, const char *key, double low, double high,
                             double *value, mlff_error *);
mlff_status mlff_yaml_string(const mlff_modelfile *, const mlff_yaml *parent, const char *key, const char **value,
                             mlff_error *);
/* One of `choices` (ended by NULL); *value is its index. */
mlff_status mlff_yaml_choice(const mlff_modelfile *, const mlff_yaml *parent, const char *key,
                             const char *const *choices, int *value, mlff_error *);
/* Sequence of numbers; *values is borrowed [n]. n_expected < 0 = any length. */
mlff_status mlff_yaml_doubles(const mlff_modelfile *, const mlff_yaml *parent, const char *key, int n_expected,
                              const double **values, int *n, mlff_error *);
/* Sequence of strings; *values is borrowed [n]. */
mlff_status mlff_yaml_strings(const mlff_modelfile *, const mlff_yaml *parent, const char *key,
                              const char *const **values, int *n, mlff_error *);
/* Error with file and line of `node`: for checks that only the architecture can make. */
mlff_status mlff_yaml_fail(const mlff_modelfile *, const mlff_yaml *node, mlff_error *, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Reads a tensor as doubles, row-major; free with free(). shape: the expected one (rank <= 4). F32 and F64 are
 * accepted; NaN or infinity is an error. Marks it as used. */
mlff_status mlff_modelfile_tensor(const mlff_modelfile *, const char *name, int rank, const int64_t *shape,
                                  double **values, mlff_error *);
/* Reads a matrix [n_rows][n_cols], or with n_cols = 0 a vector; the name is a printf-style format. */
mlff_status mlff_modelfile_matrix(const mlff_modelfile *, mlff_error *, int n_rows, int n_cols, double **values,
                                  const char *format, ...) __attribute__((format(printf, 6, 7)));
/* 1 if the weights contain such a tensor. Does not mark it. */
int mlff_modelfile_has_tensor(const mlff_modelfile *, const char *name);
/* Number of parameters in all tensors but those of the block uncertainty. */
int64_t mlff_modelfile_n_parameters(const mlff_modelfile *);

#endif
