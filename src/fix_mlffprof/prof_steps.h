/* prof_steps.h: times the steps of a run on every rank and gathers them to rank 0 in batches.
 *
 * A step lasts from one point to the same point of the next step: initial_integrate (run) or the first force evaluation
 * of an iteration (minimize). It includes output and excludes the set-up. The time of the fix itself for samples,
 * reports and comparisons is subtracted.
 */
#ifndef LMP_MLFF_PROF_STEPS_H
#define LMP_MLFF_PROF_STEPS_H

#include "mlff/mlff.h"
#include "mlff/mlffprof.h"
#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class ProfSteps : protected Pointers {
 public:
  explicit ProfSteps(class LAMMPS *lammps);

  /* Selects the parts to time for all runs, before the recorder is created. model: engine of the pair style or
   * nullptr. */
  void choose_components(bool wanted, const mlff_model *model);
  const std::vector<mlffprof_component> &components() const { return parts; }

  /* Start of a run. Returns whether the timers of LAMMPS are on. */
  bool start_run(mlff_model *model, double step_ps);
  void end_run();

  bool is_open() const { return opened; }
  bigint step() const { return open_step; }
  double started() const { return start; }
  /* Starts step `number`. */
  void open(bigint number, double now);
  /* Ends the step and adds it to the batch. */
  void close(double now);
  /* Subtracts time of the fix itself: within the open step (counted by LAMMPS as Modify or Output), or between two
   * steps. */
  void add_own(double seconds, bool in_modify = true);
  void add_between(double seconds)
  {
    fix_modify += seconds;
    n_unseen = -1;
  }
  /* Values of the last closed step, before a flush. */
  unsigned last_tags() const { return static_cast<unsigned>(tags.back()); }
  double last_seconds() const { return latency.back().value; }

  bool full() const { return latency.size() >= batch; }
  /* Closing the open step fills the batch. */
  bool almost_full() const { return latency.size() + 1 >= batch; }
  /* Sends the batch to the recorder of rank 0. Returns an error of rank 0 or "". `set_batch` must follow with the
   * next_batch of rank 0, about half a second. Collective. */
  std::string flush(mlffprof_recorder *recorder);
  int next_batch() const;
  void set_batch(int n) { batch = static_cast<size_t>(n); }

  double memory_usage() const;

 private:
  struct Ranked {
    double value;
    int rank;
  };
  std::vector<mlffprof_component> parts;
  std::vector<int> timers, spans;    // index into Timer and into the spans of the engine

  mlff_model *engine;
  bool opened, timed, compares;    // the timers of LAMMPS are on; the busiest rank is known
  bigint open_step;
  double start, dt_ps, busy_before, fix_seconds, fix_modify, fix_output, batch_seconds;
  double mean_seconds, fastest;      // of the last batch
  double cpu_before, own_seconds;    // of the batch: processor time at its start, wall time of this fix in it
  std::vector<double> start_values, now_values;    // [3 parts] readings at start and end of the step
  int64_t growths;
  bigint builds;
  struct Processor {
    double without;       // wall time minus processor time of this thread
    long taken, given;    // involuntary and voluntary context switches
  } seen;                 // at the last check of was_preempted
  int n_unseen;           // steps since then; -1: check at the start of the next step
  double box[9];
  unsigned open_tags;

  size_t batch;
  // of the steps in the batch
  std::vector<Ranked> latency, busy, most_latency, most_busy;
  std::vector<int> tags, all_tags, atoms, all_atoms;    // atoms: of this rank, and of the rank with the most
  std::vector<double> sums, all_sums;    // per step: busy, preempted, seconds, operations and bytes of parts
  std::vector<bigint> numbers;

  size_t width() const { return 2 + 3 * parts.size(); }    // values of a step in sums
  void read(std::vector<double> &values) const;
  double read_busy() const;
  void read_box(double *lengths) const;
  unsigned tags_now();
  static Processor read_processor(double now);
  bool was_preempted(double now);
  void gather();
  double cpu_share(double wall) const;
  mlffprof_step step_of(size_t k, double share, std::vector<double> &values) const;
};

}    // namespace LAMMPS_NS

#endif
