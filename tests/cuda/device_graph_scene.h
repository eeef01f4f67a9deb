/* device_graph_scene.h: a graph on the host and a copy on the GPU, for tests of graphs on the device. */
#ifndef MLFF_TEST_DEVICE_GRAPH_SCENE_H
#define MLFF_TEST_DEVICE_GRAPH_SCENE_H

#include "other_rank.h"
#include "testmodel.h"

/* Small models of the architectures with conservative forces, modulo their number. Others have no forces on the
 * device. */
int n_models(void);
test_model make_model(int which);
mlff_model *open_model(const test_model *file, const char *device, const char *precision, const char *replay);
void close_models(mlff_model *a, mlff_model *b, test_model *file);

/* A model opened twice on the GPU, for two graphs that must give the same results. */
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
/* Copies the positions from the host to the GPU. */
void write_positions(twins *t);
/* Moves every atom and its images by a small step. */
void move(twins *t);

typedef struct answer {
  mlff_result result;
  double *numbers; /* forces [n_nodes][3], atom_energy [n_local], atom_virial [n_nodes][9], two of members */
  size_t n;
} answer;

answer make_answer(const mlff_graph *g, int with_stress);
void same_bits(const answer *a, const answer *b);
/* One step of both; `wanted`: bit 0 per-atom stress, bit 1 also forces on the host, bit 2 exchange from GPU to GPU. */
void step(mlff_model *on_host, mlff_model *on_device, twins *t, int wanted);

/* Fixture of most tests: a model on the GPU, and a box of water on the host and on the GPU. */
typedef struct scene {
  test_model file;
  mlff_model *model;
  twins t;
} scene;

scene open_scene(int which, int with_ranks);
void close_scene(scene *s);

#endif
