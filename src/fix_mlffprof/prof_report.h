/* prof_report.h: the recorder of rank 0 and what it becomes: JSON, table, trace. */
#ifndef LMP_MLFF_PROF_REPORT_H
#define LMP_MLFF_PROF_REPORT_H

#include "prof_settings.h"
#include "prof_steps.h"

#include "mlff/mlff_watch.h"
#include "mlff/mlffprof.h"
#include "pointers.h"

#include <memory>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class ProfReport : protected Pointers {
 public:
  ProfReport(class LAMMPS *lammps, const ProfSettings &all);
  ~ProfReport() override;

  /* What a recorder is told when it is made. */
  struct Subject {
    const mlff_info *info;
    const char *ensemble, *reference;
    const std::vector<mlffprof_component> *components;
    const std::vector<std::string> *elements;
    bool reduced_units;
  };
  bool is_open() const { return opened; }
  /* Rules, recorder and files; a file that cannot be written stops here. Collective. */
  void open(const Subject &subject);
  /* Machine, versions, model and deck of this run. */
  void describe(const mlff_info *info);
  /* A run whose pair style counts what is outside of its model's training; nullptr: it does not. */
  void begin_watch(const mlff_watch *of_pair);
  void end_watch();
  void set_number(const char *key, double value);
  /* The next run begins with that many warm-up steps. */
  void warm_up(long n);

  /* nullptr on other ranks. */
  mlffprof_recorder *recorder() const { return rec.get(); }
  /* Writes the JSON if the last time is long enough ago; so a run that is killed leaves one. */
  void write_if_due(double now);
  void write();
  /* The table on screen and in the log. */
  void print();
  /* Says once what went wrong while recording; the run goes on. */
  void complain(const std::string &problem);

  /* Trace of this rank's steps and of the engine's spans. */
  bool traces() const { return trace != nullptr; }
  void trace_step(const ProfSteps &steps, double end, mlff_model *model);
  void trace_own(const char *what, double begin, double seconds);

 private:
  const ProfSettings &settings;
  bool opened, complained, file_is_new;
  std::string model_name;
  double last_write, write_cost;
  struct Closer {
    void operator()(mlffprof_recorder *r) const { mlffprof_recorder_free(r); }
    void operator()(mlffprof_report *r) const { mlffprof_report_free(r); }
    void operator()(mlffprof_rules *r) const { mlffprof_rules_free(r); }
  };
  std::unique_ptr<mlffprof_recorder, Closer> rec;
  std::unique_ptr<mlffprof_rules, Closer> rules;
  mlffprof_trace *trace;    // of rank 0
  double trace_origin;
  std::string file, trace_file;
  const mlff_watch *watch = nullptr;    // of the pair style, during a run
  mlff_watch_counts taken = {};         // of it

  std::string create(const Subject &subject);
  std::string open_files();
  std::string make(std::unique_ptr<mlffprof_report, Closer> &report) const;
  void take_outside();
  std::string write_file();
};

/* `name.json` -> `name.2.json` in partition 2 of several, so that they do not write the same file. */
std::string prof_partition_file(class LAMMPS *lammps, const std::string &path);

}    // namespace LAMMPS_NS

#endif
