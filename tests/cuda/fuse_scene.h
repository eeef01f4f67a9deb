/* fuse_scene.h: a model with and without fused operations, for tests on any GPU and on the simulated one. */
#ifndef MLFF_TEST_FUSE_SCENE_H
#define MLFF_TEST_FUSE_SCENE_H

#include "device.h"
#include "testmodel.h"

/* What one evaluation gives, all of it. */
typedef struct answer {
  mlff_result result;
  double *numbers; /* forces [n][3], atom_energy [n], atom_spread [n], member_energy [m], member_forces [m][n][3] */
  int64_t n, n_forces, n_energies;
} answer;

/* numbers are the caller's to free. */
answer evaluate(mlff_model *model, const mlff_graph *graph, int with_member_forces);
/* See same_of_kernels. */
void same_answers(const answer *a, const answer *b, const char *precision);

/* A PaiNN (which is even) or an ensemble of ANI. */
test_model make_model(int which);
mlff_model *open_model(const test_model *file, mlff_options options);
/* Rows that ANI and atoms that PaiNN takes at a time, so that few atoms are many batches. */
void set_block(mlff_model *model, int64_t block);

enum { N_CASES = 8 }; /* two kinds of models, two precisions, all atoms at once and in batches */

/* One model with and without fused operations, and atoms for it. */
typedef struct scene {
  test_model file;
  mlff_model *on, *off;
  test_atoms atoms;
  mlff_system *system;
} scene;

/* Eight atoms; replay: of `on`. */
scene make_scene(int which, const char *precision, const char *replay);
void free_scene(scene *s);
/* 24 atoms of water take the place of the eight. */
void put_in_water(scene *s);

#endif
