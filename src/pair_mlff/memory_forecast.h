/* memory_forecast.h: memory of a run, printed and checked before its first step. */
#ifndef LMP_MLFF_MEMORY_FORECAST_H
#define LMP_MLFF_MEMORY_FORECAST_H

#include "mlff/mlff.h"
#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFMemoryForecast : protected Pointers {
 public:
  explicit MLFFMemoryForecast(class LAMMPS *lammps) : Pointers(lammps) {}

  /* A model, its graph in host memory, and the requested results. */
  struct Part {
    mlff_model *model;
    const mlff_graph *graph;
    mlff_result *wanted;
  };
  /* Prints the forecast of the sum, and stops the run if it does not fit. parts: the main model first. bytes: current
   * size of the arrays of the style. Collective. */
  void check(const std::vector<Part> &parts, double bytes);

 private:
  struct Share;
  mlff_forecast add(const std::vector<Part> &parts) const;
  std::string judge(const Share *shares, int n, double &fit) const;
  std::string judge_gpu(const Share *shares, int n, double &fit) const;
  void print(const Share &mine, const char *device, double fit) const;
};

}    // namespace LAMMPS_NS

#endif
