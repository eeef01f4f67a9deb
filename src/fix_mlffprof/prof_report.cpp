/* prof_report.cpp: see prof_report.h. */
#include "prof_report.h"

#include "prof_context.h"

#include "../pair_mlff/errors.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "lammps.h"
#include "universe.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace LAMMPS_NS;

// Shortest interval between reports; writing takes at most 1/WRITE_SHARE of the time.
static constexpr double WRITE_SECONDS = 2.0, WRITE_SHARE = 50.0;

enum { ROW_STEPS, ROW_ENGINE, ROW_PROFILER };

std::string LAMMPS_NS::prof_partition_file(LAMMPS *lmp, const std::string &path)
{
  if (lmp->universe->nworlds < 2 || path.empty()) return path;
  const size_t slash = path.find_last_of('/'), dot = path.find_last_of('.');
  const bool extension = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const std::string number = "." + std::to_string(lmp->universe->iworld + 1);
  return extension ? path.substr(0, dot) + number + path.substr(dot) : path + number;
}

ProfReport::ProfReport(LAMMPS *lammps, const ProfSettings &all) :
    Pointers(lammps), settings(all), opened(false), complained(false), file_is_new(false), last_write(0.0),
    write_cost(0.0), trace(nullptr), trace_origin(0.0), file(prof_partition_file(lammps, all.file)),
    trace_file(prof_partition_file(lammps, all.trace))
{
}

ProfReport::~ProfReport()
{
  mlffprof_error problem = {};
  if (mlffprof_trace_close(trace, &problem)) complain(problem.text);
}

/* ----------------------------------------------------------------------
   opening
------------------------------------------------------------------------- */

std::string ProfReport::create(const Subject &subject)
{
  std::vector<const char *> elements;
  for (const std::string &name : *subject.elements) elements.push_back(name.c_str());
  model_name = prof_model_name(lmp, subject.info);
  mlffprof_options options = {};
  options.name = settings.name.empty() ? model_name.c_str() : settings.name.c_str();
  options.model_name = model_name.c_str();
  options.device = subject.info ? subject.info->device : "cpu";
  options.ensemble = subject.ensemble;
  options.notes = settings.notes.empty() ? nullptr : settings.notes.c_str();
  options.n_atoms = atom->natoms;
  options.n_warmup = settings.warmup;
  options.n_ranks = comm->nprocs;
  options.lj_units = subject.reduced_units;
  options.n_exact = settings.exact;
  options.components = subject.components->empty() ? nullptr : subject.components->data();
  options.n_components = static_cast<int>(subject.components->size());
  options.reference = subject.reference;
  options.elements = elements.empty() ? nullptr : elements.data();
  options.n_elements = static_cast<int>(elements.size());
  mlffprof_recorder *made = nullptr;
  mlffprof_error problem = {};
  if (mlffprof_recorder_create(&options, &made, &problem)) return std::string("fix mlffprof: ") + problem.text;
  rec.reset(made);
  return "";
}

std::string ProfReport::open_files()
{
  mlffprof_error problem = {};
  mlffprof_rules *read = nullptr;
  if (settings.targets != "default") {
    if (mlffprof_rules_read(settings.targets.c_str(), &read, &problem))
      return std::string("fix mlffprof targets: ") + problem.text;
    rules.reset(read);
  }
  if (!trace_file.empty()) {
    if (mlffprof_trace_open(trace_file.c_str(), 0, &trace, &problem))
      return std::string("fix mlffprof trace: ") + problem.text;
    trace_origin = mlffprof_seconds();
    static const char *const names[] = {"steps", "engine", "fix mlffprof"};
    for (int row = 0; row < 3; row++)
      mlffprof_trace_row(trace, 0, row, ("LAMMPS rank 0, " + model_name).c_str(), names[row], nullptr);
  }
  // an empty report: a file that cannot be written is an error now and not after a long run
  const std::string trouble = write_file();
  return trouble.empty() ? "" : "fix mlffprof file: " + trouble;
}

void ProfReport::open(const Subject &subject)
{
  std::string problem;
  opened = true;
  if (comm->me == 0) {
    problem = create(subject);
    if (problem.empty()) describe(subject.info);
    if (problem.empty()) problem = open_files();
  }
  mlff_stop_together(lmp, problem);
  const double message = prof_message_us(lmp);
  if (std::isfinite(message)) set_number("message_us", message);
}

void ProfReport::describe(const mlff_info *info)
{
  if (!rec) return;
  prof_describe(lmp, info, rec.get());
  model_name = prof_model_name(lmp, info);
  mlffprof_recorder_names(rec.get(), settings.name.empty() ? model_name.c_str() : nullptr, model_name.c_str(),
                          info ? info->device : "cpu", nullptr, nullptr);
}

void ProfReport::set_number(const char *key, double value)
{
  if (rec) mlffprof_recorder_context_number(rec.get(), key, value, nullptr);
}

void ProfReport::warm_up(long n)
{
  if (rec && n > 0) mlffprof_recorder_warmup(rec.get(), n, nullptr);
}

void ProfReport::begin_watch(const mlff_watch *counts)
{
  watch = counts;
  last_counts = watch ? mlff_watch_count(watch) : mlff_watch_counts();
}

void ProfReport::end_watch()
{
  take_outside();
  watch = nullptr;
}

/* Adds the new counts to the recorder. */
void ProfReport::take_outside()
{
  if (!watch || !rec) return;
  const mlff_watch_counts now = mlff_watch_count(watch);
  const auto more = [this, &now](mlff_watched kind) { return now.n_outside[kind] - last_counts.n_outside[kind]; };
  mlffprof_outside outside = {};
  outside.n = now.n_checks - last_counts.n_checks;
  outside.temperature = more(MLFF_WATCHED_TEMPERATURE);
  outside.density = more(MLFF_WATCHED_DENSITY);
  outside.pressure = more(MLFF_WATCHED_PRESSURE);
  outside.force = more(MLFF_WATCHED_FORCE);
  outside.distance = more(MLFF_WATCHED_DISTANCE);
  outside.pair = more(MLFF_WATCHED_PAIR);
  outside.triple = more(MLFF_WATCHED_TRIPLE);
  outside.uncertainty = more(MLFF_WATCHED_UNCERTAINTY);
  mlffprof_recorder_outside(rec.get(), &outside);
  last_counts = now;
}

/* ----------------------------------------------------------------------
   writing
------------------------------------------------------------------------- */

std::string ProfReport::make(std::unique_ptr<mlffprof_report, Closer> &report) const
{
  mlffprof_report *made = nullptr;
  mlffprof_error problem = {};
  if (mlffprof_recorder_report(rec.get(), &made, &problem)) return problem.text;
  report.reset(made);
  if (mlffprof_report_targets(made, rules.get(), &problem)) return problem.text;
  return "";
}

std::string ProfReport::write_file()
{
  if (!rec || file.empty()) return "";
  const double begin = mlffprof_seconds();
  std::unique_ptr<mlffprof_report, Closer> report;
  take_outside();
  std::string problem = make(report);
  mlffprof_error trouble = {};
  if (problem.empty() && mlffprof_report_write(report.get(), file.c_str(), &trouble)) problem = trouble.text;
  last_write = mlffprof_seconds();
  write_cost = last_write - begin;
  file_is_new = problem.empty();
  if (!problem.empty() && problem.find(file) == std::string::npos) problem = file + ": " + problem;
  return problem;
}

void ProfReport::write()
{
  complain(write_file());
}

void ProfReport::write_if_due(double now)
{
  if (now - last_write > std::max(WRITE_SECONDS, WRITE_SHARE * write_cost)) write();
}

void ProfReport::print()
{
  if (!rec || !settings.table) return;
  std::unique_ptr<mlffprof_report, Closer> report;
  std::string problem = make(report);
  char *text = nullptr;
  size_t size = 0;
  FILE *out = problem.empty() ? open_memstream(&text, &size) : nullptr;
  mlffprof_error trouble = {};
  if (out && mlffprof_report_print(report.get(), 0, out, &trouble)) problem = trouble.text;
  if (out) fclose(out);
  complain(problem);
  if (text && problem.empty()) {
    utils::logmesg(lmp, "\n" + std::string(text));
    if (!file.empty())
      utils::logmesg(lmp, "fix mlffprof: " +
                              std::string(file_is_new ? "this report was written to " : "an older report is in ") +
                              file + "\n");
  }
  free(text);
}

void ProfReport::complain(const std::string &problem)
{
  if (problem.empty() || complained || comm->me != 0) return;
  complained = true;
  error->warning(FLERR, "fix mlffprof: " + problem + " (reported once; the run continues)");
}

/* ----------------------------------------------------------------------
   trace
------------------------------------------------------------------------- */

void ProfReport::trace_step(const ProfSteps &steps, double end, mlff_model *model)
{
  if (!trace) return;
  mlffprof_error problem = {};
  mlffprof_trace_span(trace, 0, ROW_STEPS, "step", steps.started() - trace_origin, end - steps.started(), steps.step(),
                      steps.last_tags(), &problem);
  size_t n = 0;
  const mlff_stamp *stamps = model ? mlff_spans_take(model, &n, nullptr) : nullptr;
  const mlff_span *names = mlff_spans_read(model);
  for (size_t k = 0; k < n; k++)
    mlffprof_trace_span(trace, 0, ROW_ENGINE, names[stamps[k].span].name, stamps[k].begin - trace_origin,
                        stamps[k].end - stamps[k].begin, MLFFPROF_UNKNOWN, 0, &problem);
  if (problem.code) complain(problem.text);
}

void ProfReport::trace_own(const char *what, double begin, double seconds)
{
  if (trace)
    mlffprof_trace_span(trace, 0, ROW_PROFILER, what, begin - trace_origin, seconds, MLFFPROF_UNKNOWN, 0, nullptr);
}
