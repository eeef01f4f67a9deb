/* find_model.h: model files by path or by name. */
#ifndef MLFF_FIND_MODEL_H
#define MLFF_FIND_MODEL_H

#include <string>

namespace LAMMPS_NS {

/* Path of the model file `name`: a path with or without .yaml, in the current folder or in one of LAMMPS_POTENTIALS;
 * without a slash also in one of MLFF_MODELS, then among the models of this package. Empty if there is none. */
std::string mlff_find_model(const std::string &name);

/* Names of the models that mlff_find_model finds without a path, for error texts. */
std::string mlff_model_names();

}    // namespace LAMMPS_NS

#endif
