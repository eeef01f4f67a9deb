/* gpu_scene.h: opens small models of all architectures on a GPU and evaluates water; both may fail. */
#ifndef MLFF_TEST_GPU_SCENE_H
#define MLFF_TEST_GPU_SCENE_H

#include "device.h"
#include "testmodel.h"

mlff_status try_open_with(const test_model *file, const char *fuse, mlff_model **model, mlff_error *error);
mlff_status try_open(const test_model *file, mlff_model **model, mlff_error *error);
/* Water with a list for this model. */
mlff_system *water_for(const mlff_model *model, int n_side, int *n_atoms);
/* One evaluation of a box of water; forces in a new array on success. */
mlff_status try_evaluate(mlff_model *model, int n_side, double **forces, int *n_atoms, mlff_error *error);

#endif
