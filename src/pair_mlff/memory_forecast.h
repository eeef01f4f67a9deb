/* memory_forecast.h: what a run will take, said and checked before its first step. */
#ifndef LMP_MLFF_MEMORY_FORECAST_H
#define LMP_MLFF_MEMORY_FORECAST_H

#include "mlff/mlff.h"
#include "pointers.h"

#include <string>

namespace LAMMPS_NS {

class MLFFIO;

class MLFFMemoryForecast : protected Pointers {
 public:
  MLFFMemoryForecast(class LAMMPS *lammps, MLFFIO &lammps_io) : Pointers(lammps), io(lammps_io) {}

  /* Prints the forecast for this graph, and stops the run when it does not fit. Collective. */
  void check(mlff_model *model, const mlff_graph *graph, mlff_result *wanted);

 private:
  MLFFIO &io;

  struct Share;
  std::string judge(const Share *shares, int n, double &fit) const;
  std::string judge_gpu(const Share *shares, int n, double &fit) const;
  void print(const Share &mine, const char *device, double fit) const;
};

}    // namespace LAMMPS_NS

#endif
