/* fuse_scene.h: a model with and without fused ops, for real and simulated GPUs. */
#ifndef MLFF_TEST_FUSE_SCENE_H
#define MLFF_TEST_FUSE_SCENE_H

#include "device.h"
#include "testmodel.h"

/* All results of an evaluation. */
typedef struct answer {
  mlff_result result;
  double *numbers; /* forces [n][3], atom_energy [n], atom_spread [n], member_energy [m], member_forces [m][n][3] */
  int64_t n, n_forces, n_energies;
} answer;

/* The caller frees numbers. */
answer evaluate(mlff_model *model, const mlff_graph *graph, int with_member_forces);
/* See same_of_kernels. */
void same_answers(const answer *a, const answer *b, const char *precision);

/* PaiNN (even) or an ensemble of ANI. */
test_model make_model(int which);
mlff_model *open_model(const test_model *file, mlff_options options);
/* Sets the batch size: rows of ANI, atoms of PaiNN. */
void set_block(mlff_model *model, int64_t block);

enum { N_CASES = 8 }; /* two models, two precisions, one batch and several */

/* A model with and without fused ops, and atoms. */
typedef struct scene {
  test_model file;
  mlff_model *replayed, *plain;
  test_atoms atoms;
  mlff_system *system;
} scene;

/* Eight atoms; replay: of `on`. */
scene make_scene(int which, const char *precision, const char *replay);
void free_scene(scene *s);
/* Replaces the eight atoms by 24 atoms of water. */
void put_in_water(scene *s);

#endif
