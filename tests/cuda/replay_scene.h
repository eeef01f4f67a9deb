/* replay_scene.h: water with moving atoms and a constant list, and a model with and without replay. For tests of
 * captured steps on real and simulated GPUs. */
#ifndef MLFF_TEST_REPLAY_SCENE_H
#define MLFF_TEST_REPLAY_SCENE_H

#include "other_rank.h"
#include "testmodel.h"

/* Cases: small models of all architectures in single and in double precision, then in single precision with images as
 * atoms of another rank, with exchanges through the host and from GPU to GPU. */
static inline int n_cases(void)
{
  return 2 * test_n_archs();
}

static inline int n_cases_with_ranks(void)
{
  return 4 * test_n_archs();
}

typedef struct scene {
  test_model file;
  mlff_model *replayed, *plain;
  mlff_system *system;
  mlff_graph graph;
  double (*pos)[3], (*start)[3];
  uint64_t rng;
  int which;
  int32_t *node; /* [n_all], and so tag */
  int64_t *tag;
  other_rank other;
} scene;

/* Opens the model of case `which` once more. */
mlff_model *open_model(const test_model *file, int which, const char *replay);
scene make_scene(int which);
/* With a repulsion that is zero for all pairs of the water, although bonds are shorter than its longest cutoff. */
scene make_repelling_scene(int which);
/* The same of kind clamped; not for direct models. */
scene make_clamped_scene(int which);
/* With a repulsion of kind mace. */
scene make_repelled_scene(int which);
void free_scene(scene *s);
/* A new list with this skin. */
void set_list(scene *s, double skin);
/* Moves every atom and its images by a small step from its initial position; scales all distances. */
void move(scene *s, double size, double scale);
/* Whether the model has per-atom energies and stress. */
int has_atoms(const scene *s);

/* All results of a step. */
typedef struct answer {
  mlff_result result;
  double *numbers;
  size_t n;
} answer;

answer make_answer(const scene *s, int with_stress);

/* Evaluates one of the models. */
mlff_status evaluate(scene *s, mlff_model *model, mlff_result *result, mlff_error *error);
mlff_status record(scene *s, mlff_model *model, mlff_result *result, double *seconds, mlff_error *error);
/* One step with both models; checks equal bits and equal exchanges. */
void step(scene *s, int with_stress);
/* As step, when `on` is timed and therefore uses other kernels. */
void timed_step(scene *s);
/* Captures a step; returns the seconds, or 0 if there is nothing to capture. The results are those of an evaluation. */
double record_now(scene *s, mlff_model *model, int with_stress);
void check_counts(const scene *s, int64_t n_steps, int64_t n_replayed, int64_t n_recorded, int64_t n_overflows);

#endif
