/* memory_forecast.h: what a run will take, said and checked before its first step. */
#ifndef LMP_MLFF_MEMORY_FORECAST_H
#define LMP_MLFF_MEMORY_FORECAST_H

#include "mlff/mlff.h"
#include "pointers.h"

#include <string>

namespace LAMMPS_NS {

class MLFFMemoryForecast : protected Pointers {
 public:
  explicit MLFFMemoryForecast(class LAMMPS *lammps) : Pointers(lammps) {}

  /* Prints the forecast for this graph on the host, and stops the run when it does not fit. bytes: of the style's
   * arrays now. Collective. */
  void check(mlff_model *model, const mlff_graph *graph, mlff_result *wanted, double bytes);

 private:
  struct Share;
  std::string judge(const Share *shares, int n, double &fit) const;
  std::string judge_gpu(const Share *shares, int n, double &fit) const;
  void print(const Share &mine, const char *device, double fit) const;
};

}    // namespace LAMMPS_NS

#endif
