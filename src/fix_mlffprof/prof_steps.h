/* prof_steps.h: the steps of a run, timed on every rank and gathered to rank 0 in batches.
 *
 * A step is measured from one fixed point to the same point of the next step: where fixes begin the integration (run),
 * or at the first force evaluation of an iteration (minimize). So nothing between two steps is left out, output
 * included, and set-up is no step. What the fix itself does for samples, reports and comparisons is taken off again.
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

  /* Before the recorder is made: what there is to time, now and for all later runs. `model`: engine of the pair style
   * or nullptr. */
  void choose_components(bool wanted, const mlff_model *model);
  const std::vector<mlffprof_component> &components() const { return parts; }

  /* A run begins: no step is open. LAMMPS' timers tell components unless they are off; returns whether they do. */
  bool start_run(mlff_model *model, double step_ps);
  void end_run();

  bool is_open() const { return opened; }
  bigint step() const { return open_step; }
  double started() const { return start; }
  /* Step `number` begins at `now`. */
  void open(bigint number, double now);
  /* It ends at `now`: into the batch. */
  void close(double now);
  /* Time that the fix took for itself: within the open step (where LAMMPS counts it as Modify or as Output), or between
   * two steps, after which `start` counts. */
  void add_own(double seconds, bool in_modify = true);
  void add_between(double seconds)
  {
    own_modify += seconds;
    n_unseen = -1;
  }
  /* Of the step that was closed last and not yet flushed. */
  unsigned last_tags() const { return static_cast<unsigned>(tags.back()); }
  double last_seconds() const { return latency.back().value; }

  bool full() const { return latency.size() >= batch; }
  /* Full when the open step is closed. */
  bool almost_full() const { return latency.size() + 1 >= batch; }
  /* Batch to the recorder of rank 0; the next batch is about half a second long. Returns a problem of rank 0.
   * Collective. After it `set_batch` must be called with what rank 0 returned by next_batch. */
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
  std::vector<int> timers, spans;    // of the parts: index into Timer, into the engine's spans

  mlff_model *engine;
  bool opened, timed, compares;    // LAMMPS' timers run; and tell which of several ranks works longest
  bigint open_step;
  double start, dt_ps, busy_before, own, own_modify, own_output, batch_seconds;
  double mean_seconds, fastest;              // of the last batch: mean, and fastest step
  std::vector<double> before, now_values;    // [3 parts] readings when the step began, and at its end
  int64_t growths;
  bigint builds;
  struct Processor {
    double without;       // seconds of the clock less those that a processor has worked for this thread
    long taken, given;    // how often another thread got it, and how often this one waited for something
  } seen;                 // when was_preempted last looked
  int n_unseen;           // steps since then; -1: look when the next one begins
  double box[9];
  unsigned open_tags;

  size_t batch;
  // of the steps in the batch
  std::vector<Ranked> latency, busy, most_latency, most_busy;
  std::vector<int> tags, all_tags, atoms, all_atoms;    // atoms: of this rank, and of the rank with most
  std::vector<double> sums, all_sums;    // busy, preempted, then seconds, operations, bytes of parts, each step
  std::vector<bigint> numbers;

  size_t width() const { return 2 + 3 * parts.size(); }    // of a step in sums
  void read(std::vector<double> &values) const;
  double read_busy() const;
  void read_box(double *lengths) const;
  unsigned tags_now();
  static Processor look(double now);
  bool was_preempted(double now);
  void gather();
  mlffprof_step step_of(size_t k, std::vector<double> &values) const;
};

}    // namespace LAMMPS_NS

#endif
