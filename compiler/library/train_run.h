// The course of a run that is written as code: its folder, what checkpoints have, its report.
#pragma once
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/library/optimiser.h"
#include "compiler/library/train_processes.h"
#include "metac/train.h"
#include "runtime/train/record/introduce.h"
#include "runtime/train/record/run_folder.h"
#include "runtime/train/record/run_report.h"

// A Var, the steps of an optimiser, or a number, by the name that checkpoints have for it.
struct metac_run {
  explicit metac_run(const metac_run_options& options);
  ~metac_run();
  metac_run(const metac_run&) = delete;
  metac_run& operator=(const metac_run&) = delete;

  void keep(const std::string& name, metac_var* var, bool statistic);
  void keep_optimiser(metac_optimiser* optimiser, const char* const* names, int32_t count);
  int64_t& number(const std::string& name);
  bool begin();
  int step(metac_var* loss, metac_var* const* metrics, int32_t count, double rate, metac::lazy::Site site);
  bool end_epoch(const double* scores, int32_t count);
  void save();
  void load_best();
  void place(metac_run_place* place) const;
  void before_step();

 private:
  struct Kept {
    std::string name;
    metac_var* var;
    bool statistic;
  };
  // Values of what is kept, which they keep alive.
  struct States {
    std::vector<metac::Tensor> elements;
    std::vector<metac::train::NamedTensor> tensors;
  };

  metac::train::TrainTables tables_of() const;
  void expect_begun(bool begun) const;
  void free_name(const std::string& name) const;
  States states();
  std::vector<metac::train::ExpectedState> expected() const;
  void take(const metac::train::SafeTensors& file);
  void share();
  void note_steps();
  void forget();
  void leave_out(const std::string& wrong, metac::lazy::Site site);
  void count_step(const std::vector<double>& values, double rate);
  void expect_same(const States& states);
  void average_statistics(metac::lazy::Site site);
  std::vector<double> agreed(std::vector<double> values, int* signal);
  std::string non_finite_text(const std::vector<double>& values, double rate) const;
  static std::string steps_name(size_t optimiser) { return "optimiser/steps" + std::to_string(optimiser); }
  bool writes() const { return !all_ || all_->first(); }
  bool done() const { return p_.finished || p_.epoch >= p_.epochs; }

  const std::string name_, about_;
  const int64_t batches_, batch_, accumulate_, checkpoint_every_, patience_;
  const int32_t kept_files_;
  const bool resume_, restart_, strict_, skips_non_finite_;
  const std::vector<std::string> metric_names_;
  const std::vector<metac::train::Metric> metrics_;
  metac::train::TrainTables tables_;
  metac::train::Processes* const all_;
  metac::train::Position p_;
  const metac::train::RunFiles files_;
  std::optional<metac::train::RunFolder> folder_;  // of the process that writes
  metac::train::Progress progress_;
  metac::train::RunLog log_;
  metac::train::RunReport report_;
  std::vector<Kept> kept_;
  std::vector<metac_optimiser*> optimisers_;
  std::map<std::string, int64_t> numbers_;
  std::vector<metac::lazy::Value*> kept_before_;  // where non-finite steps are left out: what is kept, before the step
  bool begun_ = false, catches_ = false;
  struct sigaction before_[2] = {};
  int64_t saved_ = -1;
};
