/* prof_steps.cpp: see prof_steps.h. */
#include "prof_steps.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "force.h"
#include "neighbor.h"
#include "output.h"
#include "timer.h"
#include "update.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <sys/resource.h>

using namespace LAMMPS_NS;

static constexpr double NONE = std::numeric_limits<double>::quiet_NaN();
static constexpr size_t MAX_BATCH = 256;
static constexpr double BATCH_SECONDS = 0.5;

/* Smallest share of a step for the tags other_rank and preempted. */
static constexpr double TAG_SHARE = 0.2;

static constexpr int MOST_UNSEEN = 16;
static constexpr double LONG = 200e-6, TIME_SLICE = 50e-6;    // s; no process runs for less than TIME_SLICE

ProfSteps::ProfSteps(LAMMPS *lammps) :
    Pointers(lammps), engine(nullptr), opened(false), timed(false), compares(false), open_step(-1), start(0.0),
    dt_ps(0.0), busy_before(0.0), fix_seconds(0.0), fix_modify(0.0), fix_output(0.0), batch_seconds(0.0),
    mean_seconds(0.0), fastest(0.0), cpu_before(0.0), own_seconds(0.0), growths(0), builds(0), seen{},
    n_unseen(0), box{}, open_tags(0), batch(1)
{
}

void ProfSteps::choose_components(bool wanted, const mlff_model *model)
{
  static const struct {
    const char *name;
    int timer;
  } known[] = {{"pair", Timer::PAIR}, {"bond", Timer::BOND},     {"kspace", Timer::KSPACE}, {"neigh", Timer::NEIGH},
               {"comm", Timer::COMM}, {"modify", Timer::MODIFY}, {"output", Timer::OUTPUT}};
  parts.clear();
  timers.clear();
  spans.clear();
  if (!wanted) return;
  for (const auto &part : known) {
    if (part.timer == Timer::BOND && atom->molecular == Atom::ATOMIC) continue;
    if (part.timer == Timer::KSPACE && !force->kspace) continue;
    parts.push_back({part.name, nullptr, MLFFPROF_ROLE_NONE});
    timers.push_back(part.timer);
    spans.push_back(-1);
  }
  const mlff_span *engine_spans = mlff_spans_read(model);
  for (int k = 0; model && k < MLFF_N_SPANS; k++) {
    if (k == MLFF_SPAN_EVALUATE) continue;
    const char *role = engine_spans[k].part ? engine_spans[k].part : "";
    parts.push_back({engine_spans[k].name, "pair",
                     strcmp(role, "energy") == 0   ? MLFFPROF_ROLE_ENERGY
                     : strcmp(role, "forces") == 0 ? MLFFPROF_ROLE_FORCES
                     : strcmp(role, "stress") == 0 ? MLFFPROF_ROLE_STRESS
                                                   : MLFFPROF_ROLE_NONE});
    timers.push_back(-1);
    spans.push_back(k);
  }
}

bool ProfSteps::start_run(mlff_model *model, double step_ps)
{
  engine = model;
  dt_ps = step_ps;
  opened = false;
  fix_seconds = fix_modify = fix_output = 0.0;
  n_unseen = -1;
  fastest = 0.0;
  timed = timer->has_normal();
  compares = timed && comm->nprocs > 1;
  builds = neighbor->ncalls;
  growths = engine ? mlff_model_memory(engine).n_growths : 0;
  read_box(box);
  start_values.assign(3 * parts.size(), 0.0);
  now_values.assign(3 * parts.size(), 0.0);
  // reserve now, so that memory does not appear to grow
  for (auto *list : {&latency, &busy, &most_latency, &most_busy}) list->reserve(MAX_BATCH);
  for (auto *list : {&sums, &all_sums}) list->reserve(MAX_BATCH * width());
  for (auto *list : {&tags, &all_tags, &atoms, &all_atoms}) list->reserve(MAX_BATCH);
  numbers.reserve(MAX_BATCH);
  return timed;
}

void ProfSteps::end_run()
{
  opened = false;
  engine = nullptr;
}

/* ----------------------------------------------------------------------
   one step on this rank
------------------------------------------------------------------------- */

/* Seconds of the timers of LAMMPS and of the spans of the engine; then operations and bytes of the spans. */
void ProfSteps::read(std::vector<double> &values) const
{
  const mlff_span *engine_spans = engine ? mlff_spans_read(engine) : nullptr;
  const size_t n = parts.size();
  for (size_t k = 0; k < n; k++) {
    if (timers[k] >= 0) values[k] = timed ? timer->get_wall(static_cast<Timer::ttype>(timers[k])) : NONE;
    if (spans[k] < 0) continue;
    values[k] = engine_spans ? engine_spans[spans[k]].seconds : NONE;
    values[n + k] = engine_spans ? engine_spans[spans[k]].flop : 0.0;
    values[2 * n + k] = engine_spans ? engine_spans[spans[k]].bytes : 0.0;
  }
}

/* Seconds of work without waiting for other ranks. Comm, Modify, Output and untimed parts include waiting. */
double ProfSteps::read_busy() const
{
  const mlff_span *engine_spans = engine ? mlff_spans_read(engine) : nullptr;
  return timer->get_wall(Timer::PAIR) + timer->get_wall(Timer::BOND) + timer->get_wall(Timer::NEIGH) -
         (engine_spans ? engine_spans[MLFF_SPAN_EXCHANGE].seconds : 0.0);
}

void ProfSteps::read_box(double *lengths) const
{
  for (int d = 0; d < 3; d++) {
    lengths[d] = domain->boxlo[d];
    lengths[3 + d] = domain->boxhi[d];
  }
  lengths[6] = domain->xy;
  lengths[7] = domain->xz;
  lengths[8] = domain->yz;
}

ProfSteps::Processor ProfSteps::read_processor(double now)
{
  timespec t = {};
  rusage usage = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
#ifdef RUSAGE_THREAD
  getrusage(RUSAGE_THREAD, &usage);
#endif
  return {now - static_cast<double>(t.tv_sec) - 1e-9 * static_cast<double>(t.tv_nsec), usage.ru_nivcsw, usage.ru_nvcsw};
}

void ProfSteps::open(bigint number, double now)
{
  if (n_unseen < 0) seen = read_processor(now);
  if (latency.empty()) {
    cpu_before = mlffprof_cpu_seconds();
    own_seconds = 0.0;
  }
  n_unseen = std::max(0, n_unseen);
  opened = true;
  open_step = number;
  start = now;
  fix_seconds = 0.0;
  open_tags = output->next == number ? static_cast<unsigned>(MLFFPROF_TAG_OUTPUT) : 0u;
  if (!parts.empty()) read(start_values);
  if (compares) busy_before = read_busy();
}

void ProfSteps::add_own(double seconds, bool in_modify)
{
  if (opened) fix_seconds += seconds;
  own_seconds += seconds;
  if (in_modify)
    fix_modify += seconds;
  else
    fix_output += seconds;
}

/* Tags of events since the last call. */
unsigned ProfSteps::tags_now()
{
  unsigned found = open_tags;
  if (neighbor->ncalls != builds) found |= MLFFPROF_TAG_NEIGHBOR_REBUILD;
  builds = neighbor->ncalls;
  if (domain->box_change) {
    double lengths[9];
    read_box(lengths);
    if (memcmp(lengths, box, sizeof(box)) != 0) found |= MLFFPROF_TAG_BOX_CHANGE;
    memcpy(box, lengths, sizeof(box));
  }
  if (engine) {
    const int64_t grown = mlff_model_memory(engine).n_growths;
    if (grown != growths) found |= MLFFPROF_TAG_BUFFER_GROWTH;
    growths = grown;
  }
  return found;
}

/* Whether another process used the processor for a large part of the open step. Waiting for a file or a GPU is a
 * voluntary context switch and does not count. A check takes 2 us, so only long or slow steps are checked; the steps
 * since the last check count as undisturbed. */
bool ProfSteps::was_preempted(double now)
{
  const double seconds = now - start;
  const bool is_checked = seconds >= LONG || seconds - fastest >= TIME_SLICE;
  if (!is_checked && ++n_unseen < MOST_UNSEEN) return false;
  const Processor last = seen;
  seen = read_processor(now);
  n_unseen = 0;
  const bool taken =
      seen.taken != last.taken || seen.given == last.given;    // not all systems count involuntary switches
  return is_checked && taken && seen.without - last.without > TAG_SHARE * seconds;
}

void ProfSteps::close(double now)
{
  const double seconds = std::max(0.0, now - start - fix_seconds);
  numbers.push_back(open_step);
  tags.push_back(static_cast<int>(tags_now()));
  atoms.push_back(atom->nlocal);
  sums.push_back(0.0);
  const size_t busy_index = sums.size() - 1;
  sums.push_back(was_preempted(now) ? 1.0 : 0.0);
  if (!parts.empty()) read(now_values);
  for (size_t k = 0; k < parts.size(); k++) {
    double value = now_values[k] - start_values[k];
    if (timers[k] == Timer::MODIFY) value -= fix_modify;
    if (timers[k] == Timer::OUTPUT) value -= fix_output;
    if (value < 0.0) value = 0.0;    // NaN stays
    sums.push_back(value);
  }
  for (size_t k = parts.size(); k < 3 * parts.size(); k++)
    sums.push_back(std::max(0.0, now_values[k] - start_values[k]));
  latency.push_back({seconds, comm->me});
  busy.push_back({compares ? std::max(0.0, read_busy() - busy_before) : seconds, comm->me});
  sums[busy_index] = busy.back().value;
  batch_seconds += seconds;
  fix_modify = fix_output = 0.0;
  opened = false;
}

/* ----------------------------------------------------------------------
   batches
------------------------------------------------------------------------- */

void ProfSteps::gather()
{
  const int n = static_cast<int>(latency.size()), n_sums = static_cast<int>(sums.size());
  most_latency = latency;
  most_busy = busy;
  all_tags = tags;
  all_atoms = atoms;
  all_sums = sums;
  if (comm->nprocs == 1) return;
  MPI_Reduce(latency.data(), most_latency.data(), n, MPI_DOUBLE_INT, MPI_MAXLOC, 0, world);
  MPI_Reduce(busy.data(), most_busy.data(), n, MPI_DOUBLE_INT, MPI_MAXLOC, 0, world);
  // equal on all ranks except for buffer_growth; MPI stubs have no MPI_BOR
  MPI_Reduce(tags.data(), all_tags.data(), n, MPI_INT, MPI_MAX, 0, world);
  MPI_Reduce(atoms.data(), all_atoms.data(), n, MPI_INT, MPI_MAX, 0, world);
  MPI_Reduce(sums.data(), all_sums.data(), n_sums, MPI_DOUBLE, MPI_SUM, 0, world);
}

/* Processor time of the batch over its wall time, that of its steps and of this fix, mean of the ranks: a reading in
 * every step would cost half a microsecond. */
double ProfSteps::cpu_share(double wall) const
{
  const double mine = mlffprof_cpu_seconds() - cpu_before;
  double all = mine;
  if (comm->nprocs > 1) MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, world);
  return wall > 0.0 ? all / comm->nprocs / (wall + own_seconds) : 0.0;
}

/* Step k of the batch over all ranks: longest time, mean components, busiest rank. */
mlffprof_step ProfSteps::step_of(size_t k, double share, std::vector<double> &values) const
{
  const int n_ranks = comm->nprocs;
  mlffprof_step step = {};
  step.step = numbers[k];
  step.seconds = most_latency[k].value;
  step.cpu_seconds = share * step.seconds;
  step.dt_ps = dt_ps;
  step.n_atoms = atom->natoms;
  step.tags = static_cast<unsigned>(all_tags[k]);
  if (all_sums[k * width() + 1] > 0.0) step.tags |= MLFFPROF_TAG_PREEMPTED;
  step.slowest_rank = n_ranks > 1 ? most_busy[k].rank : 0;
  if (n_ranks > 1) {
    const double others = (all_sums[k * width()] - most_busy[k].value) / (n_ranks - 1);
    if (most_busy[k].value - others > TAG_SHARE * step.seconds) step.tags |= MLFFPROF_TAG_OTHER_RANK;
    if (compares) {
      step.busy_most = most_busy[k].value;
      step.busy_mean = std::min(step.busy_most, all_sums[k * width()] / n_ranks);    // rounding
      step.atoms_most = all_atoms[k];
    }
  }
  if (parts.empty()) return step;
  const size_t n = parts.size();
  for (size_t c = 0; c < 3 * n; c++) values[c] = all_sums[k * width() + 2 + c] / n_ranks;
  for (size_t c = 0; c < n; c++)
    if (spans[c] >= 0 && values[c] == 0.0) values[c] = NONE;    // this model does not have the part
  step.components = values.data();
  step.flop = values.data() + n;
  step.bytes = values.data() + 2 * n;
  return step;
}

std::string ProfSteps::flush(mlffprof_recorder *recorder)
{
  std::string problem;
  if (latency.empty()) return problem;
  gather();
  double wall = 0.0;
  for (const Ranked &step : most_latency) wall += step.value;
  const double share = cpu_share(wall);
  mean_seconds = batch_seconds / static_cast<double>(latency.size());
  fastest = std::min_element(latency.begin(), latency.end(), [](const Ranked &a, const Ranked &b) {
              return a.value < b.value;
            })->value;
  batch_seconds = 0.0;
  std::vector<double> values(3 * parts.size());
  for (size_t k = 0; recorder && k < latency.size(); k++) {
    const mlffprof_step step = step_of(k, share, values);
    mlffprof_error trouble = {};
    if (mlffprof_recorder_step(recorder, &step, &trouble) && problem.empty()) problem = trouble.text;
  }
  latency.clear();
  busy.clear();
  tags.clear();
  atoms.clear();
  sums.clear();
  numbers.clear();
  return problem;
}

int ProfSteps::next_batch() const
{
  const double wanted = mean_seconds > 0.0 ? BATCH_SECONDS / mean_seconds : static_cast<double>(MAX_BATCH);
  // the first steps of a run are slow, so the length grows gradually
  const double most = std::min<double>(MAX_BATCH, 4.0 * static_cast<double>(batch));
  return static_cast<int>(std::max(1.0, std::min(wanted, most)));
}

double ProfSteps::memory_usage() const
{
  return static_cast<double>(MAX_BATCH * (4 * sizeof(Ranked) + 2 * width() * sizeof(double) + 4 * sizeof(int)));
}
