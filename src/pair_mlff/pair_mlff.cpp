/* pair_mlff.cpp: see pair_mlff.h. */
#include "pair_mlff.h"

#include "errors.h"
#include "memory_forecast.h"
#include "model_loader.h"
#include "pair_mlff_impl.h"

#include "atom.h"
#include "citeme.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "modify.h"
#include "neighbor.h"
#include "update.h"

#include <algorithm>
#include <cstring>

using namespace LAMMPS_NS;

/* ---------------------------------------------------------------------- */

PairMLFF::PairMLFF(LAMMPS *lammps) : Pair(lammps), impl(new Impl(lammps, this))
{
  single_enable = 0;
  restartinfo = 1;
  one_coeff = 1;
  manybody_flag = 1;
  respa_enable = 1;    // read by LAMMPS before a model is open; see check_levels
  // forces on periodic images are added to their owners, so F dot r is wrong
  no_virial_fdotr_compute = 1;
  // hybrid reads it before the model is open; init_style corrects both
  centroidstressflag = CENTROID_AVAIL;
  comm_reverse_off = impl->main.halo.reverse_width();
  pvector = new double[3]{0.0, 0.0, 0.0};
}

PairMLFF::~PairMLFF()
{
  if (allocated) {
    memory->destroy(setflag);
    memory->destroy(cutsq);
  }
  delete[] pvector;
  delete impl;
}

void PairMLFF::allocate()
{
  const int n = atom->ntypes;
  memory->create(setflag, n + 1, n + 1, "pair:setflag");
  memory->create(cutsq, n + 1, n + 1, "pair:cutsq");
  for (int i = 0; i <= n; i++)
    for (int j = 0; j <= n; j++) {
      setflag[i][j] = 0;
      cutsq[i][j] = 0.0;
    }
  allocated = 1;
}

void PairMLFF::close_model()
{
  impl->is_initialized = false;
  impl->main.close();
  impl->active_halo = &impl->main.halo;
  impl->committee.close();
  impl->inner.reset();
  impl->types_reported = false;
  impl->forecast_atoms = -1;
  impl->warm_up_reported = false;
  nextra = 0;
  if (!allocated) return;
  for (int i = 0; i <= atom->ntypes; i++)
    for (int j = 0; j <= atom->ntypes; j++) setflag[i][j] = 0;
}

/* ---------------------------------------------------------------------- */

void PairMLFF::compute(int eflag, int vflag)
{
  check_initialized();
  if (impl->phase == RunPhase::FIRST_CALL) check_levels(false);
  evaluate(eflag, vflag);
}

void PairMLFF::evaluate(int eflag, int vflag)
{
  impl->active_halo = &impl->main.halo;
  impl->deviation.settle();
  impl->n_evaluations++;
  ev_init(eflag, vflag);
  MLFFResults &results = impl->main.results;
  const bool ensemble = impl->ensemble();
  check_requests();
  check_overlap();
  const bool is_first = impl->evaluated_step != update->ntimestep;
  impl->evaluated_step = update->ntimestep;
  // not a Monte Carlo trial: first evaluation of this step
  if ((neighbor->nex_group || neighbor->nex_mol) && impl->groups_checked_step != update->ntimestep)
    check_excluded_groups();
  const bool deviation = impl->wants_deviation(), uncertainty = impl->wants_uncertainty();
  impl->overlap_error = impl->main.evaluate(list,
                                            {eflag_atom != 0, vflag_atom != 0, cvflag_atom != 0, ensemble,
                                             impl->wants_members(), uncertainty},
                                            "pair_style mlff");
  if (!impl->overlap_error.empty()) {
    reject_trial(is_first);
    return;
  }
  results.add_forces();
  if (eflag_global) eng_vdwl += results.energy();
  if (vflag_global) results.add_virial(virial);
  if (eflag_atom) results.add_atom_energies(eatom);
  if (vflag_atom) results.add_atom_virials(vatom);
  if (cvflag_atom) results.add_centroid_virials(cvatom);
  if (ensemble) results.scale_spread();
  if (ensemble && eflag_global) results.reduce_spread(pvector);
  if (uncertainty) results.sort_uncertainties();
  if (deviation) impl->deviation.measure(impl->predictions(list));
  if (impl->watch.is_due()) {
    sync_velocities();
    impl->watch.check();
  }
  if (impl->phase == RunPhase::STEPS) return;
  impl->phase = RunPhase::STEPS;
  if (update->nsteps > 0) warm_up(impl->main.seconds());
}

/* Captures a step on a GPU before the first step of a run, with the results that most steps request. The evaluation of
 * the set-up has copied the list and checked an existing capture. Collective. */
void PairMLFF::warm_up(double first_seconds)
{
  if (!update->setupflag) return;    // `pair_modify compute no` left the evaluation out
  impl->main.graph.wait();
  mlff_result *result = impl->main.results.request({false, false, false, impl->ensemble()});
  mlff_error problem = {};
  double mine[2] = {first_seconds, 0.0}, longest[2];
  const mlff_status status = mlff_model_record(impl->main.model.get(), &impl->main.graph.view(),
                                               impl->main.halo.calls(), result, &mine[1], &problem);
  mlff_stop_together(lmp, status ? std::string("pair_style mlff, capturing a step on the GPU: ") + problem.text : "");
  if (impl->ensemble() && mine[1] > 0.0) impl->main.results.scale_spread();
  MPI_Allreduce(mine, longest, 2, MPI_DOUBLE, MPI_MAX, world);
  if (!impl->warm_up_reported || longest[1] > 0.0)
    MLFFLoader(lmp, "pair_style mlff").report_warm_up(impl->main.model.get(), longest[0], longest[1]);
  impl->warm_up_reported = true;
}

void PairMLFF::set_arrays(MLFFArrays *arrays)
{
  impl->main.graph.set_arrays(arrays);
}

int PairMLFF::gpu_of_model() const
{
  return (impl->main.info->traits & MLFF_CONSERVATIVE) ? impl->main.info->device_number : -1;
}

/* ----------------------------------------------------------------------
   pair_style mlff [keyword value ...]
------------------------------------------------------------------------- */

void PairMLFF::settings(int narg, char **arg)
{
  apply_keywords(std::vector<std::string>(arg, arg + narg));
  impl->restart_problem.clear();
}

void PairMLFF::apply_keywords(const std::vector<std::string> &keywords)
{
  // new settings need a newly opened model: pair_coeff must be given again
  close_model();
  impl->settings = MLFFSettings();
  impl->keywords = keywords;
  std::vector<const char *> words;
  for (const std::string &word : keywords) words.push_back(word.c_str());
  const std::string problem = impl->settings.parse(static_cast<int>(words.size()), words.data());
  if (!problem.empty()) error->all(FLERR, "pair_style mlff: " + problem);
  if (kokkosable && !impl->settings.inner.empty())
    error->all(FLERR, "pair_style mlff/kk does not support keyword `inner`: for run_style respa use pair_style mlff, "
                      "without suffix kk");
}

/* ----------------------------------------------------------------------
   pair_coeff * * MODEL.yaml ... ELEMENT ...
------------------------------------------------------------------------- */

void PairMLFF::coeff(int narg, char **arg)
{
  const int ntypes = atom->ntypes;
  if (!allocated) allocate();
  close_model();

  if (!impl->restart_problem.empty())
    error->all(FLERR, "pair_coeff of mlff: repeat `pair_style mlff` with its keywords after read_restart, because " +
                          impl->restart_problem);
  std::vector<std::string> files, names;
  std::string problem = mlff_read_coeff(narg, arg, ntypes, force->pair == this, files, names);
  if (problem.empty() && kokkosable && files.size() > 1)
    problem = "pair_style mlff/kk supports one model, not a committee of " + std::to_string(files.size()) +
              ": use pair_style mlff, without suffix kk";
  if (!problem.empty()) error->all(FLERR, "pair_coeff of mlff: " + problem);
  if (MLFFResults::find_units(update->unit_style) == nullptr)
    error->all(FLERR, std::string("pair_style mlff does not support units ") + update->unit_style +
                          "; use one of: " + MLFFResults::supported_units());

  MLFFLoader loader(lmp);
  impl->main.open(loader, files[0], names, impl->settings, gpu_of_atoms());
  const std::string other = impl->other_model(files[0]);
  if (!other.empty()) {
    close_model();
    error->all(FLERR, "pair_coeff of mlff: " + other);
  }
  if (impl->settings.wants_deviation() && files.size() == 1 && !impl->ensemble() && !impl->has_uncertainty())
    error->all(FLERR, "pair_coeff of mlff: out_file, devi_warn, devi_dump and devi_stop need an ensemble, a committee "
                      "or an uncertainty, but model " +
                          std::string(impl->main.info->name) + " uses only one network and has no uncertainty: " +
                          impl->main.info->uncertainty_why + " [mlff-44]");
  impl->watch.set_model(impl->main.info, impl->main.species_of_type, impl->settings.domain);
  set_type_flags();

  centroidstressflag = has_centroid_virials() ? CENTROID_AVAIL : CENTROID_NOTAVAIL;
  comm_forward = impl->main.halo.forward_width();
  nextra = impl->ensemble() ? 3 : 0;
  loader.report(files[0], impl->main.model.get(), impl->settings);
  if (lmp->citeme) lmp->citeme->add(loader.citation(impl->main.info));
  impl->committee.open(files, names, impl->settings, impl->main);
  impl->deviation.start(impl->settings);
  comm_reverse_off = std::max(impl->main.halo.reverse_width(), impl->committee.reverse_width());
  if (!impl->settings.inner.empty()) open_inner(names);
}

void PairMLFF::set_type_flags()
{
  const std::vector<int> &species = impl->main.species_of_type;
  for (int i = 1; i <= atom->ntypes; i++)
    for (int j = i; j <= atom->ntypes; j++) setflag[i][j] = species[i] >= 0 && species[j] >= 0;
}

/* ---------------------------------------------------------------------- */

void PairMLFF::init_style()
{
  if (!impl->main.model) error->all(FLERR, "pair_style mlff needs `pair_coeff * * MODEL.yaml ELEMENT ...`");
  if (domain->dimension != 3)
    error->all(FLERR, "pair_style mlff does not support `dimension 2`: all models are three-dimensional. For a layer "
                      "of atoms use `boundary p p f` or vacuum, and `fix setforce NULL NULL 0.0`");
  impl->overlap_error.clear();
  impl->asks_committee =
      !impl->committee.empty() && (impl->settings.wants_deviation() || !modify->get_fix_by_style("^pair$").empty());
  check_models();
  check_lists();
  check_masses();
  check_heat_flux();
  impl->is_initialized = true;
  impl->main.graph.begin_run();
  for (const auto &model : impl->committee.models()) model->graph.begin_run();
  if (impl->inner) impl->inner->begin_run();
  impl->watch.begin_run();    // here, because rerun has no setup()
  // LAMMPS builds lists that two models or other styles use
  const bool is_only_user = !impl->inner && !impl->asks_committee && !kokkosable && force->pair == this;
  const bool builds_on_gpu = impl->main.graph.can_build_list_on_gpu() && is_only_user;
  neighbor->add_request(this, NeighConst::REQ_FULL | (builds_on_gpu ? NeighConst::REQ_OCCASIONAL : 0));

  // hybrid took these from its sub-styles before they had a model
  if (centroidstressflag == CENTROID_NOTAVAIL) force->pair->centroidstressflag = CENTROID_NOTAVAIL;
  force->pair->comm_forward = std::max(force->pair->comm_forward, comm_forward);
  force->pair->comm_reverse_off = std::max(force->pair->comm_reverse_off, comm_reverse_off);
}

double PairMLFF::init_one(int i, int j)
{
  if (setflag[i][j] == 0) error->all(FLERR, "pair_style mlff: all pair coeffs are not set");
  const double of_committee = impl->asks_committee ? impl->committee.cutoff() : 0.0;
  return std::max({impl->main.info->cutoff, of_committee, impl->has_levels() ? impl->inner->info()->cutoff : 0.0});
}

/* LAMMPS calls this after the lists are built and before the first evaluation. */
void PairMLFF::setup()
{
  impl->begin_run();
  const int n_models =
      1 + impl->has_levels() + (impl->asks_committee ? static_cast<int>(impl->committee.models().size()) : 0);
  if (impl->forecast_atoms == atom->natoms && impl->forecast_models == n_models) return;
  impl->forecast_atoms = atom->natoms;
  impl->forecast_models = n_models;
  impl->active_halo = &impl->main.halo;
  impl->main.graph.update(list);
  const mlff_graph graph = impl->main.graph.on_host();
  mlff_result *wanted = impl->main.results.request(
      {false, false, false, impl->ensemble(), impl->wants_members(), impl->wants_uncertainty()});
  std::vector<MLFFMemoryForecast::Part> parts;
  if (impl->asks_committee) parts = impl->committee.forecast(list);
  parts.insert(parts.begin(), {impl->main.model.get(), &graph, wanted});
  if (impl->has_levels()) {
    impl->active_halo = &impl->inner->halo();
    parts.push_back(impl->inner->forecast(list));
  }
  const double bytes = impl->memory_usage() - impl->deviation.memory_usage();
  MLFFMemoryForecast(lmp).check(parts, bytes);
}

/* ---------------------------------------------------------------------- */

int PairMLFF::pack_forward_comm(int n, int *atoms, double *buf, int /*pbc_flag*/, int * /*pbc*/)
{
  return impl->active_halo->pack_forward(n, atoms, buf);
}

void PairMLFF::unpack_forward_comm(int n, int first, double *buf)
{
  impl->active_halo->unpack_forward(n, first, buf);
}

int PairMLFF::pack_reverse_comm(int n, int first, double *buf)
{
  return impl->active_halo->pack_reverse(n, first, buf);
}

void PairMLFF::unpack_reverse_comm(int n, int *atoms, double *buf)
{
  impl->active_halo->unpack_reverse(n, atoms, buf);
}

/* ---------------------------------------------------------------------- */

/* LAMMPS calls this at the end of a run. */
void PairMLFF::finish()
{
  if (impl->main.model && !impl->overlap_error.empty()) stop_overlap();
  if (impl->main.model && (neighbor->nex_group || neighbor->nex_mol)) check_excluded_groups();
  if (impl->main.model && impl->overlap_error.empty()) impl->deviation.end_run();
  if (impl->main.model && impl->overlap_error.empty()) impl->watch.end_run();
  impl->main.graph.end_run();
  for (const auto &model : impl->committee.models()) model->graph.end_run();
  if (impl->inner) impl->inner->end_run();
  if (impl->main.model) MLFFLoader(lmp, "pair_style mlff").report_replays(impl->main.model.get(), impl->settings);
  if (impl->has_levels()) report_levels();
}

double PairMLFF::memory_usage()
{
  double engine = impl->main.engine_memory() + impl->committee.engine_memory();
  if (impl->inner) engine += impl->inner->engine_memory();
  return Pair::memory_usage() + engine + impl->memory_usage();
}

/* "mlff_model", "mlff_info", "mlff_settings" and "mlff_watch" are for fix mlffprof; "mlff_watch" is NULL if the domain
 * is not checked. */
void *PairMLFF::extract(const char *name, int &dim)
{
  dim = 0;
  if (!impl->main.model) return nullptr;
  if (strcmp(name, "mlff_model") == 0) return impl->main.model.get();
  if (strcmp(name, "mlff_info") == 0) return const_cast<mlff_info *>(impl->main.info);
  if (strcmp(name, "mlff_settings") == 0) return &impl->settings;
  if (strcmp(name, "mlff_watch") == 0) return impl->watch.counts();
  if (strcmp(name, "deviation_flag") == 0 && impl->has_deviation()) return &impl->deviation_flag;
  if (strcmp(name, "uncertainty_flag") == 0 && impl->has_uncertainty()) return &impl->uncertainty_flag;
  if (strcmp(name, "spread_flag") == 0 && impl->ensemble()) return &impl->spread_flag;
  return nullptr;
}

void *PairMLFF::extract_peratom(const char *name, int &ncol)
{
  ncol = 0;
  if (!impl->main.model) return nullptr;
  if (strcmp(name, "uncertainty") == 0 && impl->has_uncertainty()) return impl->main.results.atom_uncertainties();
  if (strcmp(name, "deviation") == 0 && impl->has_deviation()) return impl->deviation.atom_deviations();
  return strcmp(name, "spread") == 0 && impl->ensemble() ? impl->main.results.atom_spread() : nullptr;
}

void PairMLFF::add_tally_callback(Compute * /*compute*/)
{
  error->all(FLERR, "pair_style mlff does not support compute */tally, because a many-body potential has no pairwise "
                    "forces. Use compute stress/atom instead, or, for the heat flux, compute heat/flux with compute "
                    "centroid/stress/atom");
}
