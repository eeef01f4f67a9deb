/* fix_mlffprof.cpp: see fix_mlffprof.h.
 *
 * The fix calls its parts in order: prof_steps times the steps, prof_samples reads energies and memory, shadow
 * evaluates a second model, prof_report has the recorder of rank 0 and writes. The profiler library makes the report.
 */
#include "fix_mlffprof.h"

#include "../pair_mlff/errors.h"

#include "prof_report.h"
#include "prof_samples.h"
#include "prof_settings.h"
#include "prof_steps.h"
#include "shadow.h"

#include "atom.h"
#include "comm.h"
#include "compute.h"
#include "error.h"
#include "force.h"
#include "modify.h"
#include "pair.h"
#include "timer.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

using namespace LAMMPS_NS;

/* f_ID[1], f_ID[2], ... */
#define VALUE(member, unit) [](const mlffprof_summary &s) { return static_cast<double>(s.member); },
static double (*const VALUES[])(const mlffprof_summary &) = {MLFFPROF_SUMMARY_VALUES(VALUE)};
#undef VALUE

/* Later runs shorter than this many warm-ups have no warm-up. */
static constexpr long SHORT_RUN = 10;

struct FixMLFFProf::Impl : protected Pointers {
  Impl(LAMMPS *lammps, FixMLFFProf *fix) : Pointers(lammps), steps(lammps), samples(lammps), owner(fix) {}

  ProfSettings settings;
  ProfSteps steps;
  ProfSamples samples;
  std::unique_ptr<ProfReport> report;
  std::unique_ptr<ProfShadow> shadow;
  FixMLFFProf *owner;

  mlff_model *engine = nullptr;    // of the pair style, in a run
  double init_time = 0.0, setup_seconds = 0.0;
  bool begun = false;    // a run has started since init()
  bool set_up = false, first_step = false, timers_reported = false, unprinted = false, explosion_reported = false;
  int n_runs = 0;
  bigint summary_step = -1;
  mlffprof_summary summary = {};

  void init();
  void announce();
  void start_spans();
  void begin_run(bool dynamics);
  void boundary(bigint step);
  void close(double now, bool last);
  void flush();
  void sample();
  void sample_minimum(bool last);
  void compare();
  void check_bounds();
  void stop(const std::string &why);
  void finish();
  void update_summary();
  bool is_sampled(bigint step) const { return step % settings.every == 0 || step == update->laststep; }
};

/* ----------------------------------------------------------------------
   fix ID all mlffprof N keyword value ...
------------------------------------------------------------------------- */

FixMLFFProf::FixMLFFProf(LAMMPS *lammps, int narg, char **arg) : Fix(lammps, narg, arg), impl(new Impl(lammps, this))
{
  const std::string problem = impl->settings.parse(narg - 3, arg + 3, atom->ntypes);
  if (!problem.empty()) error->all(FLERR, "fix mlffprof: " + problem);
  if (strcmp(arg[1], "all") != 0)
    error->all(
        FLERR,
        std::string("fix mlffprof: group '") + arg[1] +
            "' is not supported, because steps, memory and energy belong to all atoms; use `fix ID all mlffprof ...`");
  if (!force->pair)
    error->all(FLERR, "fix mlffprof needs a pair style: give pair_style and pair_coeff before this fix");
  for (int k = 0; k < modify->nfix; k++)
    if (modify->fix[k] && strcmp(modify->fix[k]->style, style) == 0)
      error->all(FLERR, std::string("fix mlffprof: fix ") + modify->fix[k]->id +
                            " exists already, and only one fix mlffprof is allowed; remove it with unfix");

  nevery = 1;
  global_freq = 1;
  scalar_flag = vector_flag = 1;
  extscalar = extvector = 0;
  size_vector = static_cast<int>(std::size(VALUES));
  dynamic_group_allow = 1;
  impl->settings.frames = prof_partition_file(lmp, impl->settings.frames);
  impl->report.reset(new ProfReport(lmp, impl->settings));
  if (impl->settings.model.empty()) {
    datamask_read = datamask_modify = 0;    // the fix does not use atom data
    return;
  }
  impl->shadow.reset(new ProfShadow(lmp, this, impl->settings));
  peratom_flag = 1;
  size_peratom_cols = 4;
  peratom_freq = static_cast<int>(impl->settings.compare_every);
  array_atom = impl->shadow->errors(atom->nmax);
}

FixMLFFProf::~FixMLFFProf()
{
  array_atom = nullptr;    // belongs to impl
  if (copymode) return;
  if (impl->unprinted) impl->report->print();
  delete impl;
}

int FixMLFFProf::setmask()
{
  using namespace FixConst;
  int mask = INITIAL_INTEGRATE | INITIAL_INTEGRATE_RESPA | END_OF_STEP | POST_RUN | MIN_PRE_FORCE;
  if (impl->shadow) mask |= PRE_REVERSE | MIN_PRE_REVERSE;
  return mask;
}

/* ----------------------------------------------------------------------
   before a run
------------------------------------------------------------------------- */

void FixMLFFProf::init()
{
  impl->init();
}

void FixMLFFProf::init_list(int /*id*/, NeighList *list)
{
  if (impl->shadow) impl->shadow->set_list(list);
}

void FixMLFFProf::Impl::init()
{
  init_time = mlffprof_seconds();
  set_up = begun = false;
  if (!force->pair) error->all(FLERR, "fix mlffprof needs a pair style, but none is defined");
  int dim = 0;
  engine = static_cast<mlff_model *>(force->pair->extract("mlff_model", dim));
  const mlff_info *info = engine ? mlff_model_info(engine) : nullptr;
  report->begin_watch(static_cast<mlff_watch *>(force->pair->extract("mlff_watch", dim)));
  if (shadow) shadow->init();
  samples.init_run(settings.energy);
  if (!report->is_open()) {
    static const std::vector<std::string> nothing;
    steps.choose_components(settings.components, engine);
    const ProfUnits *units = prof_find_units(update->unit_style);
    report->open({info, samples.find_ensemble(), shadow ? shadow->model_name() : nullptr, &steps.components(),
                  shadow ? &shadow->elements() : &nothing, units->reduced});
  } else {
    report->describe(info);
  }
  start_spans();
  announce();
}

/* Before the evaluations of the set-up, so that a step captured on a GPU contains the timers. */
void FixMLFFProf::Impl::start_spans()
{
  mlff_error problem = {};
  const size_t n_stamps = report->traces() ? 65536 : 0;
  if (!engine || !(settings.components || report->traces())) return;
  if (mlff_spans_start(engine, n_stamps, &problem)) report->complain(problem.text);
}

/* Announces the next steps that need energies and virial; LAMMPS computes them in announced steps only. */
void FixMLFFProf::Impl::announce()
{
  const bigint now = update->ntimestep, every = settings.every;
  const bigint next = set_up ? (now / every + 1) * every : now;
  samples.announce(set_up ? std::min(next, update->laststep) : next);
  if (!shadow) return;
  for (const char *id : {"thermo_pe", "thermo_press"}) {
    Compute *compute = modify->get_compute_by_id(id);
    if (compute) compute->addstep(shadow->next_due(set_up ? now : now - 1));
  }
}

void FixMLFFProf::setup_pre_reverse(int /*eflag*/, int /*vflag*/)
{
  if (impl->shadow->is_due(update->ntimestep)) impl->compare();
}

void FixMLFFProf::setup(int /*vflag*/)
{
  impl->begin_run(true);
}

void FixMLFFProf::min_setup(int /*vflag*/)
{
  impl->begin_run(false);
}

void FixMLFFProf::Impl::begin_run(bool dynamics)
{
  size_t n_before = 0;
  if (engine) mlff_spans_take(engine, &n_before, nullptr);    // discard stamps of the set-up
  const bool timed = steps.start_run(engine, dynamics ? update->dt * prof_find_units(update->unit_style)->time : 0.0);
  if (settings.components && !timed && !timers_reported && comm->me == 0)
    error->warning(FLERR,
                   "fix mlffprof: components are not measured with `timer off` or `timer loop`; use `timer normal`");
  timers_reported = timers_reported || !timed;
  if (n_runs > 0 && update->laststep - update->firststep > SHORT_RUN * settings.warmup)
    report->warm_up(settings.warmup);
  n_runs++;
  first_step = true;
  std::string trouble = dynamics ? samples.take_energy(report->recorder())
                                 : samples.take_potential(report->recorder(), update->ntimestep, true);
  report->complain(trouble);
  if (settings.memory) report->complain(samples.take_memory(report->recorder(), engine, shadow.get()));
  set_up = begun = true;
  announce();
}

/* ----------------------------------------------------------------------
   steps
------------------------------------------------------------------------- */

void FixMLFFProf::initial_integrate(int /*vflag*/)
{
  impl->boundary(update->ntimestep);
}

void FixMLFFProf::initial_integrate_respa(int /*vflag*/, int /*level*/, int /*loop*/)
{
  if (!impl->steps.is_open() || impl->steps.step() != update->ntimestep) impl->boundary(update->ntimestep);
}

/* An iteration of a minimizer has several evaluations; the first one is the boundary. */
void FixMLFFProf::min_pre_force(int /*vflag*/)
{
  if (!impl->set_up || (impl->steps.is_open() && impl->steps.step() == update->ntimestep)) return;
  impl->boundary(update->ntimestep);
}

void FixMLFFProf::Impl::boundary(bigint step)
{
  if (!begun)
    error->all(FLERR,
               "fix mlffprof: LAMMPS was re-initialized since the last run; remove `pre no` from the run command");
  const double now = mlffprof_seconds();
  if (first_step) {
    setup_seconds += now - init_time;
    report->set_number("setup_s", setup_seconds);
    first_step = false;
  }
  double begin = now;
  if (steps.is_open()) {
    const bool works = report->traces() || steps.almost_full() || update->whichflag == 2;
    close(now, false);
    if (works) {
      begin = mlffprof_seconds();
      steps.add_between(begin - now);
    }
  }
  steps.open(step, begin);
}

/* Ends the open step, and does periodic work between two steps. */
void FixMLFFProf::Impl::close(double now, bool last)
{
  steps.close(now);
  unprinted = true;
  report->trace_step(steps, now, engine);
  if (update->whichflag == 2) sample_minimum(last);
  if (steps.full()) flush();
}

/* Sends the batch to rank 0. Other ranks wait here, outside of a step, while rank 0 writes the report. */
void FixMLFFProf::Impl::flush()
{
  report->complain(steps.flush(report->recorder()));
  int batch = 1;
  if (comm->me == 0) {
    report->write_if_due(mlffprof_seconds());
    batch = steps.next_batch();
  }
  if (comm->nprocs > 1) MPI_Bcast(&batch, 1, MPI_INT, 0, world);
  steps.set_batch(batch);
}

/* ----------------------------------------------------------------------
   samples
------------------------------------------------------------------------- */

void FixMLFFProf::end_of_step()
{
  if (impl->is_sampled(update->ntimestep)) impl->sample();
}

void FixMLFFProf::Impl::sample()
{
  const double begin = mlffprof_seconds();
  report->complain(samples.take_energy(report->recorder()));
  if (settings.memory) report->complain(samples.take_memory(report->recorder(), engine, shadow.get()));
  announce();
  check_bounds();
  const double seconds = mlffprof_seconds() - begin;
  steps.add_own(seconds);
  report->trace_own("sample", begin, seconds);
}

/* Sample of the closed iteration, with the energy of the last evaluation. */
void FixMLFFProf::Impl::sample_minimum(bool last)
{
  if (!last && !is_sampled(steps.step())) return;
  report->complain(samples.take_potential(report->recorder(), steps.step(), false));
  if (settings.memory) report->complain(samples.take_memory(report->recorder(), engine, shadow.get()));
  check_bounds();
}

void FixMLFFProf::pre_reverse(int /*eflag*/, int /*vflag*/)
{
  if (impl->shadow->is_due(update->ntimestep)) impl->compare();
}

void FixMLFFProf::min_pre_reverse(int eflag, int vflag)
{
  pre_reverse(eflag, vflag);
}

void FixMLFFProf::Impl::compare()
{
  const double begin = mlffprof_seconds();
  report->complain(shadow->compare(report->recorder()));
  unprinted = true;
  if (set_up) announce();
  const double largest = shadow->largest(), limit = settings.compare_stop;
  if (limit > 0.0 && !(largest <= limit))
    stop(mlff_format("the largest force error against %s is %g eV/A, above %g", shadow->model_name(), largest, limit));
  const double seconds = mlffprof_seconds() - begin;
  if (set_up) steps.add_own(seconds);
  report->trace_own("compare", begin, seconds);
}

/* ----------------------------------------------------------------------
   bounds
------------------------------------------------------------------------- */

void FixMLFFProf::Impl::stop(const std::string &why)
{
  if (comm->me == 0)
    utils::logmesg(lmp, "fix mlffprof stops the run in step " + std::to_string(update->ntimestep) + ": " + why + "\n");
  timer->force_timeout();
}

/* Rank 0 decides; all ranks stop together. */
void FixMLFFProf::Impl::check_bounds()
{
  const bool watches = !settings.bounds.empty() || settings.explosion != "ignore";
  if (!watches) return;
  char why[512] = "";
  if (report->recorder()) {
    mlffprof_summary now = {};
    if (!settings.bounds.empty()) mlffprof_recorder_summary(report->recorder(), &now);
    for (ProfBound &bound : settings.bounds) {
      const double value = prof_bound_value(bound, now);
      if (bound.reported || !(value > bound.limit)) continue;
      bound.reported = true;
      const std::string text =
          mlff_format("%s is %.6g %s, above %g", bound.metric.c_str(), value, prof_bound_unit(bound), bound.limit);
      if (bound.stops)
        snprintf(why, sizeof(why), "%s", text.c_str());
      else
        error->warning(FLERR, "fix mlffprof: step " + std::to_string(update->ntimestep) + ": " + text);
    }
    int finite = 1;
    const bool exploded = mlffprof_recorder_exploded(report->recorder(), &finite) != 0;
    if (exploded && settings.explosion != "ignore" && !explosion_reported) {
      explosion_reported = true;
      const std::string text =
          finite ? "temperature or energy have exploded" : "an energy or temperature is not a number";
      if (settings.explosion == "stop")
        snprintf(why, sizeof(why), "%s", text.c_str());
      else
        error->warning(FLERR, "fix mlffprof: step " + std::to_string(update->ntimestep) + ": " + text);
    }
  }
  int stops = why[0] != '\0';
  if (comm->nprocs > 1) MPI_Bcast(&stops, 1, MPI_INT, 0, world);
  if (stops) stop(why);
}

/* ----------------------------------------------------------------------
   end of a run
------------------------------------------------------------------------- */

void FixMLFFProf::post_run()
{
  impl->finish();
}

void FixMLFFProf::Impl::finish()
{
  if (steps.is_open()) close(mlffprof_seconds(), true);
  flush();
  report->complain(samples.finish(report->recorder()));
  mlff_spans_stop(engine);
  steps.end_run();
  if (shadow) shadow->end_run();
  report->end_watch();
  engine = nullptr;
  set_up = false;
  summary_step = -1;
  if (comm->me == 0) report->write();
  if (unprinted) report->print();
  unprinted = false;
}

/* ----------------------------------------------------------------------
   values for thermo output; collective
------------------------------------------------------------------------- */

void FixMLFFProf::Impl::update_summary()
{
  if (summary_step == update->ntimestep) return;
  const double begin = mlffprof_seconds();
  report->complain(steps.flush(report->recorder()));
  if (report->recorder()) mlffprof_recorder_summary(report->recorder(), &summary);
  if (comm->nprocs > 1) MPI_Bcast(&summary, sizeof(summary), MPI_BYTE, 0, world);
  summary_step = update->ntimestep;
  steps.add_own(mlffprof_seconds() - begin, false);
}

/* Mean time of a step, ms. */
double FixMLFFProf::compute_scalar()
{
  return compute_vector(1);
}

double FixMLFFProf::compute_vector(int k)
{
  if (!impl->report->is_open()) return NAN;
  impl->update_summary();
  return VALUES[k](impl->summary);
}

double FixMLFFProf::memory_usage()
{
  return impl->steps.memory_usage() + (impl->shadow ? impl->shadow->memory_usage() : 0.0);
}

/* ---------------------------------------------------------------------- */

int FixMLFFProf::pack_forward_comm(int n, int *atoms, double *buf, int /*pbc_flag*/, int * /*pbc*/)
{
  return impl->shadow->halo().pack_forward(n, atoms, buf);
}

void FixMLFFProf::unpack_forward_comm(int n, int first, double *buf)
{
  impl->shadow->halo().unpack_forward(n, first, buf);
}

int FixMLFFProf::pack_reverse_comm(int n, int first, double *buf)
{
  return impl->shadow->halo().pack_reverse(n, first, buf);
}

void FixMLFFProf::unpack_reverse_comm(int n, int *atoms, double *buf)
{
  impl->shadow->halo().unpack_reverse(n, atoms, buf);
}
