/* prof_report.h: recorder of rank 0, and its JSON, table and trace. */
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

  /* Properties of the measured run. */
  struct Subject {
    const mlff_info *info;
    const char *ensemble, *reference;
    const std::vector<mlffprof_component> *components;
    const std::vector<std::string> *elements;
    bool reduced_units;
  };
  bool is_open() const { return opened; }
  /* Opens rules, recorder and files; stops if a file cannot be written. Collective. */
  void open(const Subject &subject);
  /* Machine, versions, model and deck of this run. */
  void describe(const mlff_info *info);
  /* counts: those of the training domain of the pair style, or nullptr. */
  void begin_watch(const mlff_watch *counts);
  void end_watch();
  void set_number(const char *key, double value);
  /* The next run begins with that many warm-up steps. */
  void warm_up(long n);

  /* nullptr on other ranks. */
  mlffprof_recorder *recorder() const { return rec.get(); }
  /* Writes the JSON at intervals, so that a killed run leaves a report. */
  void write_if_due(double now);
  void write();
  /* Prints the table. */
  void print();
  /* Prints the first problem as a warning. */
  void complain(const std::string &problem);

  /* Trace of steps and engine spans of rank 0. */
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
  const mlff_watch *watch = nullptr;     // of the pair style, during a run
  mlff_watch_counts last_counts = {};    // counts at the last report

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
