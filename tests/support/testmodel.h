/* testmodel.h: small models with random weights, made in memory or as files, for tests that need any model.
 *
 * The numbers depend on the seed only. The weights are scaled so that energies, forces and their derivatives are of the
 * order of 1 eV and eV/A, and every element, member and layer differs.
 */
#ifndef MLFF_TEST_TESTMODEL_H
#define MLFF_TEST_TESTMODEL_H

#include "support.h"

#include "model/modelfile.h"

/* Tensors to be written into a safetensors file. */
typedef struct test_tensor {
  char name[80];
  int rank;
  int64_t shape[4], n;
  double *values;
} test_tensor;

typedef struct test_weights {
  int n, capacity;
  test_tensor *tensors;
  test_rng rng;
} test_weights;

/* Adds a tensor filled with values (NULL: normal random numbers times scale) and returns its values. */
double *test_weights_add(test_weights *weights, double scale, const double *values, int rank, const int64_t *shape,
                         const char *name, ...) __attribute__((format(printf, 6, 7)));
/* Serialises as F32 or F64; *data is the caller's to free. */
void test_weights_pack(const test_weights *weights, int is_double, void **data, size_t *size);
void test_weights_free(test_weights *weights);

/* Both parts of a model in memory; test_model_free releases them. */
typedef struct test_model {
  char *yaml;
  size_t yaml_size;
  void *weights;
  size_t weights_size;
} test_model;

void test_model_free(test_model *model);

/* Zero-initialised members take the defaults in brackets. */
typedef struct test_model_options {
  const char *name;            /* [test]: also the stem of the weights file                     */
  const char *const *elements; /* [H O]                                                         */
  int n_elements;
  double cutoff;           /* [4.0 A]                                                       */
  const char *energy_unit; /* [eV]; hartree, kcal/mol                                       */
  double min_distance;     /* [0.3 A]                                                       */
  uint64_t seed;
  int is_double;         /* store the weights as F64                                      */
  const char *self_test; /* YAML of self_test.structures, e.g. "[{...}]" [none]           */
  /* painn */
  const char *basis;  /* [bspline]; gaussian, bessel                                   */
  int n_features;     /* [16]                                                          */
  int n_interactions; /* [2]                                                           */
  int n_readout;      /* [8]                                                           */
  int n_basis;        /* [12]                                                          */
  /* ani */
  int n_members;             /* [3]                                                           */
  int n_radial;              /* [5] radial shifts                                             */
  int n_angular, n_sections; /* [3, 2]                                                        */
  double angular_cutoff;     /* [0.75 of the cutoff]                                          */
  int n_hidden;              /* [2] hidden layers                                             */
  double radial_eta;         /* [16]                                                          */
  /* orb; n_features, n_interactions, n_readout as painn, cutoff [6.0 A] */
  int width;        /* [24] of hidden layers; of the first one of ANI [20]           */
  int n_neighbours; /* [20]                                                          */
  /* nequip; n_features of order 0, n_interactions, n_basis as painn, width [20] of the radial networks */
  int lmax;        /* of features and harmonics: 0 to 3                              */
  int is_sevennet; /* all that is not as in Nequix                                   */
  int is_package;  /* all that is not as in Nequix in models of the package nequip   */
  /* mace; n_features channels of each order, lmax of harmonics, n_readout < 0: linear, the others as nequip */
  int n_orders;                /* [1] of features                                                */
  int selects;                 /* layers 0, 2, ... have matrices of the element on messages      */
  int densities;               /* bit t: messages of layer t are divided by a density            */
  int transform;               /* of distances: 1 Agnesi; 2 Soft, Gaussian functions, tanh       */
  int is_nonlinear;            /* blocks; then no selects, and all layers have densities         */
  int is_common;               /* weights of products do not depend on the element               */
  int reads_last, reads_twice; /* no readout but that of the last layer; two hidden layers     */
  /* tensornet; basis gaussian, otherwise smooth Bessel functions; n_features, n_interactions, n_basis as painn */
  const char *activation;  /* [silu]; tanh, sigmoid, softplus                               */
  int is_so3, from_center; /* not invariant under inversion; strictly local                */
} test_model_options;

/* H, C, O; weights stored as F64. */
test_model_options test_three_elements(void);

test_model test_model_painn(test_model_options options);
test_model test_model_ani(test_model_options options);
test_model test_model_orb(test_model_options options);
test_model test_model_nequip(test_model_options options);
test_model test_model_mace(test_model_options options);
test_model test_model_tensornet(test_model_options options);
/* Adds a `repulsion` of kind mace for H, C and O. */
void test_model_repel_mace(test_model *model);
/* The same of kind clamped. Cutoffs: H-H 1.5, H-C 1.6, C-C 1.7, C-O 1.8, O-O 1.9, H-O 1.3 A. */
void test_model_repel_clamped(test_model *model);
/* A smaller one, which is fast on the simulated GPU too; atoms of water have more neighbors in its cutoff than it
 * keeps. */
test_model test_model_small_orb(test_model_options options);

/* One of TEST_N_MODELS conservative kinds that differ in what the engine has to do: painn with its three bases, ani. */
enum { TEST_N_MODELS = 4 };
test_model test_model_nth(int which, test_model_options options);

/* One of TEST_N_ANI shapes: constants, widths, depths, members, elements (the third has three), weights in double. */
enum { TEST_N_ANI = 5 };
test_model test_model_ani_nth(int which, test_model_options options);

/* Random models of an architecture of the registry, for model/test_properties.c, which finds there what they promise. A
 * property must be visible in them: forces of the order of 1 eV/A, in water and in a liquid of H, C and O. */
typedef struct test_arch {
  const char *name;                /* as in the registry */
  int n_variants;                  /* that differ in what the architecture promises or has to do         */
  test_model (*make)(int variant); /* elements H, C, O; weights in double                 */
  double step, derivative;         /* A; error of a difference of fourth order with it, eV/A. For conservative ones */
  int small; /* the variant where one model stands for all: cheap, and with all that larger ones do */
} test_arch;

/* All of them, ended by a row without a name. */
extern const test_arch test_archs[];
int test_n_archs(void);
/* The small model of row `which`. */
test_model test_model_of_arch(int which);

/* Replaces the first occurrence of `old` in the YAML; aborts the test when there is none. */
void test_model_edit(test_model *model, const char *old, const char *with);
/* Adds the block `repulsion` with these cutoffs, e.g. "H-O: 0.85, O-O: 2.2". */
void test_model_repel(test_model *model, const char *cutoffs);
/* Packs changed weights into the model and puts their hash into the YAML. */
void test_model_set_weights(test_model *model, const void *weights, size_t size);
/* Multiplies all tensors, which must be doubles (is_double). */
void test_model_scale_weights(test_model *model, double scale);

/* Replaces the weights by two tensors of random numbers, a.weight [2, 3] and b [4]. */
void test_model_set_two_tensors(test_model *model);

/* Parses the file "dir/test.yaml" and makes no network. test_model_must_parse aborts the test on failure. */
mlff_status test_model_parse(const test_model *model, mlff_modelfile **file, mlff_error *error);
mlff_modelfile *test_model_must_parse(const test_model *model);

/* Writes dir/name.yaml and dir/name.safetensors; path gets the first. `name` must be that of the options. */
void test_model_write(const test_model *model, const char *dir, const char *name, char *path, size_t path_size);

/* Opens it as mlff_model_open_memory does. */
mlff_status test_model_try(const test_model *model, const mlff_options *options, mlff_model **open, mlff_error *error);
/* Opens it with the given precision ("fp64", ...) and no self-test; aborts the test on failure. */
mlff_model *test_model_open(const test_model *model, const char *precision);
/* The same on a kernel path (NULL: the best), for the elements of the atoms only (NULL: for all of the model). */
mlff_model *test_model_open_for(const test_model *model, const char *precision, const char *kernels,
                                const test_atoms *atoms);

/* Evaluates atoms with a model (atom_energy and atom_virial are NULL for models without them); arrays are the caller's
 * to free by test_answer_free. Aborts the test on failure. */
typedef struct test_answer {
  mlff_result result;
  int n_nodes;
} test_answer;

test_answer test_evaluate(mlff_model *model, const test_atoms *atoms);
void test_answer_free(test_answer *answer);
/* The same with result.atom_centroid. */
test_answer test_evaluate_centroid(mlff_model *model, const test_atoms *atoms);
/* The energy alone, eV. */
double test_energy(mlff_model *model, const test_atoms *atoms);

/* Tests of a model for H, C and O. Elements that are not in use change nothing. */
void test_elements_in_use(const test_model *file);
/* Tables of the radial networks come close to the networks themselves: 4096 intervals, while 8 are off by more than
 * `coarse`, eV. */
void test_radial_tables(const test_model *file, double coarse);
/* With `changed` for `old` in its YAML, the model is refused as a file, by an error that contains `text`. */
void test_damage(test_model *file, const char *old, const char *changed, const char *text);

#endif
