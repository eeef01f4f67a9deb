/* modelfile_impl.h: internals of modelfile.h. */
#ifndef MLFF_MODELFILE_IMPL_H
#define MLFF_MODELFILE_IMPL_H

#include "../../base/yaml.h"
#include "modelfile.h"
#include "safetensors.h"

/* Descriptive parts of a file; NaN or NULL without the key. */
typedef struct mlff_about {
  const char *description;
  const char *labels, *data, *data_sha256, *code, *license, *citation; /* provenance */
  const char *domain, *accuracy;                                       /* their descriptions */
  const char *caution;                                                 /* known failures    */
  double force_rmse, energy_rmse;                                      /* meV/A, meV/atom */
  const char *weights_file;
} mlff_about;

struct mlff_modelfile {
  const char *path, *weights_path;
  mlff_arena memory, *arena; /* arena = &memory, for getters that take a const file */
  mlff_yaml *root;
  int n_nodes;
  unsigned char *used;          /* [n_nodes]   a getter has read the node   */
  const unsigned char *weights; /* borrowed                                 */
  size_t weights_size;
  int n_tensors;
  mlff_tensor *tensors; /* [n_tensors] sorted by name               */
  unsigned char *tensor_used;
  mlff_modelfile_head head;
  mlff_about about;
};

/* Checks yaml and returns the name of the weights file; free *name with free(). */
mlff_status mlff_modelfile_weights_name(const char *path, const char *yaml, size_t yaml_size, char **name,
                                        mlff_error *error);

/* A required sequence of any kind. */
mlff_status mlff_yaml_sequence(const mlff_modelfile *, const mlff_yaml *parent, const char *key,
                               const mlff_yaml **child, mlff_error *);
/* Sequence of n_rows (any number when negative; then *n_rows is set) sequences of n_columns numbers. */
mlff_status mlff_yaml_table(const mlff_modelfile *, const mlff_yaml *parent, const char *key, int n_columns,
                            int *n_rows, const double **values, mlff_error *);

/* Atomic number of a chemical symbol; 0 for other texts. */
int mlff_atomic_number(const char *text);

/* pairs.c: reads a mapping of pairs of elements to distances, A, above 0 and up to the cutoff. *table is
 * [n_elements][n_elements], symmetric, 0 for absent pairs, and lives as long as the file. */
mlff_status mlff_pairs_read(mlff_modelfile *file, const mlff_yaml *pairs, const double **table, mlff_error *error);

/* header_hash.c: hash of all YAML keys that affect results, weights.sha256 included, independent of layout and order.
 * mlff_header_check stores it in the head of a file; an error if the file states another one. */
mlff_status mlff_header_hash(const mlff_modelfile *file, char hex[65], mlff_error *error);
mlff_status mlff_header_check(mlff_modelfile *file, mlff_error *error);

/* domain.c: reads the block `domain`, after elements and cutoff. */
mlff_status mlff_domain_read(mlff_modelfile *file, mlff_error *error);

/* repulsion.c: reads the optional block `repulsion`, after elements and cutoff. */
mlff_status mlff_repulsion_read(mlff_modelfile *file, mlff_error *error);

#endif
