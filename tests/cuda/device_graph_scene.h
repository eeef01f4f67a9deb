/* device_graph_scene.h: one graph twice, on the host and on the GPU, for tests of graphs whose arrays are on the
 * device. */
#ifndef MLFF_TEST_DEVICE_GRAPH_SCENE_H
#define MLFF_TEST_DEVICE_GRAPH_SCENE_H

#include "other_rank.h"
#include "testmodel.h"

/* Small models of the architectures whose forces are derivatives; `which` beyond their number begins again. Others give
 * no forces on the device. */
int n_models(void);
test_model make_model(int which);
mlff_model *open_model(const test_model *file, const char *device, const char *precision, const char *replay);
void close_models(mlff_model *a, mlff_model *b, test_model *file);

/* A model twice on the GPU, for two graphs that are to give the same. */
typedef struct models {
  test_model file;
  mlff_model *a, *b;
} models;

/* The file is closed with the models. */
models open_models(test_model file, const char *precision, const char *replay);

typedef struct twins {
  mlff_system *system;
  mlff_graph host, device;
  int32_t *node; /* [n_all] */
  double (*pos)[3];
  uint64_t rng;
  other_rank other;
} twins;

/* Water; with_ranks: its images become atoms of another rank. */
twins make_twins(double reach, int n_side, int with_ranks);
void free_twins(twins *t);
/* Brings positions of the host to the GPU. */
void write_positions(twins *t);
/* Every atom goes a little on, its images with it. */
void move(twins *t);

typedef struct answer {
  mlff_result result;
  double *numbers; /* forces [n_nodes][3], atom_energy [n_local], atom_virial [n_nodes][9], two of members */
  size_t n;
} answer;

answer make_answer(const mlff_graph *g, int with_stress);
void same_bits(const answer *a, const answer *b);
/* One step of both; `wanted`: bit 0 stress of atoms, bit 1 forces on the host, too, bit 2 features from GPU to GPU. */
void step(mlff_model *on_host, mlff_model *on_device, twins *t, int wanted);

/* What most tests work with: one model on the GPU, and a box of water on both sides. */
typedef struct scene {
  test_model file;
  mlff_model *model;
  twins t;
} scene;

scene open_scene(int which, int with_ranks);
void close_scene(scene *s);

#endif
