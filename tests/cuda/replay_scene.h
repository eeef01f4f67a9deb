/* replay_scene.h: water whose atoms move while its list stays, and one model that records its steps beside one that
 * does not. For tests of recorded steps, on any GPU and on the simulated one. */
#ifndef MLFF_TEST_REPLAY_SCENE_H
#define MLFF_TEST_REPLAY_SCENE_H

#include "other_rank.h"
#include "testmodel.h"

/* Cases are small models of all architectures, first in single precision, then in double; then in single precision with
 * images as atoms of another rank, whose features travel through the host, and then from GPU to GPU. */
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
  mlff_model *on, *off;
  mlff_system *system;
  mlff_graph graph;
  double (*pos)[3], (*start)[3];
  uint64_t rng;
  int which;
  int32_t *node; /* [n_all], and so tag */
  int64_t *tag;
  other_rank other;
} scene;

/* The model of case `which` again. */
mlff_model *open_model(const test_model *file, int which, const char *replay);
scene make_scene(int which);
/* With a repulsion: none of the pairs of the water feels it, although bonds are shorter than the longest cutoff. */
scene make_repelling_scene(int which);
void free_scene(scene *s);
/* A new list with this skin. */
void set_list(scene *s, double skin);
/* Every atom, with its images, goes a little from where it started; all distances are scaled. */
void move(scene *s, double size, double scale);
/* Whether atoms have energies and stress of their own. */
int has_atoms(const scene *s);

/* What a step gives, all of it. */
typedef struct answer {
  mlff_result result;
  double *numbers;
  size_t n;
} answer;

answer make_answer(const scene *s, int with_stress);

/* One of the models on the graph as it is. */
mlff_status evaluate(scene *s, mlff_model *model, mlff_result *result, mlff_error *error);
mlff_status record(scene *s, mlff_model *model, mlff_result *result, double *seconds, mlff_error *error);
/* One step with both models: the same bits, after the same exchanges. */
void step(scene *s, int with_stress);
/* The same when `on` is timed, and so takes other kernels. */
void timed_step(scene *s);
/* Records a step now; 0 when there is nothing to record, else the seconds, and the results are those of an
 * evaluation. */
double record_now(scene *s, mlff_model *model, int with_stress);
void check_counts(const scene *s, int64_t n_steps, int64_t n_replayed, int64_t n_recorded, int64_t n_overflows);

#endif
