#include "compiler/library/train_run.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "compiler/support/diagnostic.h"
#include "runtime/train/interruption.h"
#include "runtime/train/record/curves.h"

using namespace metac;
using namespace metac::library;

namespace {

int64_t or_usual(const char* name, int64_t given, int64_t usual) {
  if (given < 0) refuse(name, " is ", given, "; it must be 0 or more");
  return given == 0 ? usual : given;
}

bool skips(const char* non_finite) {
  const std::string policy = non_finite ? non_finite : "stop";
  if (policy != "stop" && policy != "skip") refuse("non_finite is ", quoted(policy), "; it is \"stop\" or \"skip\"");
  return policy == "skip";
}

FILE* stream_of(bool tells) {
  static FILE* const nowhere = std::fopen("/dev/null", "w");
  return tells || !nowhere ? stderr : nowhere;
}

std::vector<std::string> names_of(const metac_run_options& o) {
  if (o.metric_count < 0 || o.metric_count > 1000) refuse("metric_count is ", o.metric_count);
  if (o.metric_count > 0) need(o.metrics, "metrics");
  std::vector<std::string> names;
  for (int32_t m = 0; m < o.metric_count; ++m)
    need(o.metrics[m].name, "a metric's name"), names.emplace_back(o.metrics[m].name);
  return names;
}

std::vector<train::Metric> metrics_of(const metac_run_options& o, const std::vector<std::string>& names) {
  std::vector<train::Metric> metrics;
  for (size_t m = 0; m < names.size(); ++m)
    metrics.push_back({names[m].c_str(), train::Aggregate::mean, o.metrics[m].greater_is_better != 0});
  return metrics;
}

constexpr int signals[] = {SIGINT, SIGTERM};

}  // namespace

metac_run::metac_run(const metac_run_options& o)
    : name_(o.name ? o.name : "run"),
      about_(o.about ? o.about : ""),
      batches_(or_usual("batches", o.batches, 0)),
      batch_(or_usual("batch", o.batch, 1)),
      accumulate_(or_usual("accumulate", o.accumulate, 1)),
      checkpoint_every_(or_usual("checkpoint_every", o.checkpoint_every, 0)),
      patience_(or_usual("patience", o.patience, 0)),
      kept_files_(static_cast<int32_t>(std::min<int64_t>(or_usual("checkpoints_kept", o.checkpoints_kept, 2), 1000))),
      resume_(o.resume != 0),
      restart_(o.restart != 0),
      strict_(o.strict != 0),
      skips_non_finite_(skips(o.non_finite)),
      metric_names_(names_of(o)),
      metrics_(metrics_of(o, metric_names_)),
      tables_(tables_of()),
      all_(o.processes ? o.processes->all.get() : nullptr),
      files_((need(o.folder, "folder"), o.folder)),
      progress_(o.quiet != 0, stream_of(writes())),
      log_(files_.log(), writes()),
      report_(tables_, p_, progress_, log_, {or_usual("log_every", o.log_every, 1), patience_}) {
  if (o.watched < 0 || o.watched > o.metric_count)
    refuse("watched is ", o.watched, "; there are ", o.metric_count, " metrics");
  if (batches_ < 1) refuse("batches is 0: an epoch has steps");
  if (resume_ && restart_) refuse("resume and restart exclude each other");
  tables_.settings.watched = o.watched - 1;
  p_.seed = o.seed;
  p_.epochs = or_usual("epochs", o.epochs, 10);
  if (writes()) folder_.emplace(files_.path());
  if (!o.catch_signals) return;
  train::received_signal = 0;
  for (int k = 0; k < 2; ++k) sigaction(signals[k], nullptr, &before_[k]);
  train::catch_signals();
  catches_ = true;
}

// What a report and a checkpoint look at.
train::TrainTables metac_run::tables_of() const {
  train::TrainTables tables{};
  tables.name = name_.c_str(), tables.version = "metac " METAC_VERSION, tables.program = "code";
  tables.loss = "mean over the batch", tables.optimiser = about_.c_str();
  tables.metrics = metrics_.data(), tables.metric_count = static_cast<int32_t>(metrics_.size());
  return tables;
}

metac_run::~metac_run() {
  for (int k = 0; catches_ && k < 2; ++k) sigaction(signals[k], &before_[k], nullptr);
  for (metac_optimiser* optimiser : optimisers_) optimiser->processes = nullptr;
  const InGraph in_graph;
  forget();
  for (const Kept& kept : kept_) release_var(kept.var);
}

void metac_run::expect_begun(bool begun) const {
  if (begun_ != begun) refuse(begun ? "the run has not begun" : "the run has begun; what it keeps is said before");
}

void metac_run::free_name(const std::string& name) const {
  for (const Kept& kept : kept_)
    if (kept.name == name) refuse(quoted(name), " is kept already");
  if (name.empty() || numbers_.count(name)) refuse(name.empty() ? "an empty name" : quoted(name) + " is kept already");
}

void metac_run::keep(const std::string& name, metac_var* var, bool statistic) {
  expect_begun(false);
  free_name(name);
  const InGraph in_graph;
  ++var->holders;
  kept_.push_back({name, var, statistic});
}

void metac_run::keep_optimiser(metac_optimiser* optimiser, const char* const* names, int32_t count) {
  expect_begun(false);
  if (static_cast<size_t>(count) != optimiser->parameters.size())
    refuse(count, " names for ", optimiser->parameters.size(), " parameters");
  if (skips_non_finite_ && !optimiser->taken)
    refuse("the run's non_finite is \"skip\" and the optimiser's is \"stop\": steps that change weights are not left out");
  for (size_t k = 0; k < optimiser->parameters.size(); ++k)
    for (size_t s = 0; need(names[k], "a name"), s < optimiser->parameters[k].slots.size(); ++s)
      keep(concat(names[k], "/", optimiser->about_slots[s].name), optimiser->parameters[k].slots[s], false);
  // The same number in a checkpoint, whoever counts.
  if (optimiser->taken) keep(steps_name(optimisers_.size()), optimiser->taken, false);
  optimisers_.push_back(optimiser);
  optimiser->processes = all_;
}

int64_t& metac_run::number(const std::string& name) {
  if (begun_ && !numbers_.count(name)) refuse("the run keeps no number ", quoted(name));
  if (!numbers_.count(name)) free_name(name);
  return numbers_[name];
}

bool metac_run::begin() {
  expect_begun(false);
  note_steps();
  if (all_) {
    train::Facts facts = {{"seed", std::to_string(p_.seed)},
                          {"number of epochs", std::to_string(p_.epochs)},
                          {"number of batches", std::to_string(batches_)},
                          {"accumulate", std::to_string(accumulate_)}};
    for (const train::ExpectedState& state : expected())
      facts.push_back({"kept value", concat(state.name, " ", train::shape_text(state.dims.data(), state.dims.size()))});
    train::expect_same_facts(*all_, name_, facts);
  }
  bool resumed = false;
  const int64_t seed = p_.seed, epochs = p_.epochs;
  if (folder_) {
    if (restart_) folder_->clear();
    folder_->checkpoints().list(true);
    const auto read = [&](const std::string& path) {
      train::Position position = p_;
      const train::SafeTensors file = train::read_checkpoint(path, train::owner_of(tables_), expected(), &position);
      if (position.seed != seed) train::fail(path, ": a run with the seed ", position.seed, ", not ", seed);
      take(file);
      p_ = position;
    };
    if (resume_)
      resumed = folder_->checkpoints().load_newest(read, strict_, [&](const std::string& line) { progress_.warn(line); });
    else if (!folder_->checkpoints().list().empty())
      train::fail(files_.path(), " holds the checkpoints of an earlier run: resume goes on with it, restart removes them");
  }
  if (all_) {
    double told = resumed;
    all_->broadcast(&told, sizeof told);
    resumed = told != 0;
  }
  share();
  p_.epochs = epochs;
  begun_ = true;
  before_step();
  saved_ = resumed ? p_.call : -1;
  log_.open(p_.log_bytes);
  report_.start(batches_, p_.epochs * batches_ / accumulate_, batch_ * accumulate_ * (all_ ? all_->size() : 1));
  if (resumed) progress_.say(concat("resuming in epoch ", p_.epoch + 1, ", after update ", p_.update));
  return resumed;
}

// values: the loss, the metrics, and of each optimiser that leaves steps out how many it did.
std::string metac_run::non_finite_text(const std::vector<double>& values, double rate) const {
  for (size_t k = 0; k < values.size(); ++k) {
    const bool of_gradients = k > metrics_.size();
    if (of_gradients ? values[k] == 0 : std::isfinite(values[k])) continue;
    return train::text_of(of_gradients ? "a gradient"
                          : k == 0     ? "the loss"
                                       : quoted(metric_names_[k - 1]),
                          " is ",
                          of_gradients            ? "NaN or infinite"
                          : std::isnan(values[k]) ? "NaN"
                                                  : "infinite",
                          " at update ", p_.update, " (epoch ", p_.epoch + 1, ", batch ", p_.batch + 1, ", learning rate ",
                          rate, ")");
  }
  return "";
}

void metac_run::leave_out(const std::string& wrong, lazy::Site site) {
  ++p_.call, ++p_.batch;
  const bool goes_on = report_.left_out(wrong, skips_non_finite_);
  if (skips_non_finite_) {
    const InGraph in_graph;
    for (size_t k = 0; k < kept_.size(); ++k)
      if (kept_[k].var->value != kept_before_[k]) assign_value(kept_[k].var, kept_before_[k], site);
    for (metac_optimiser* optimiser : optimisers_) optimiser->steps = steps_taken(*optimiser);
  }
  if (goes_on) return;
  const std::vector<int64_t> checkpoints = files_.checkpoints().list();
  train::fail(wrong, report_.left_out_in_a_row(skips_non_finite_),
              checkpoints.empty() ? std::string("; there is no checkpoint yet")
                                  : "; the last good checkpoint is " + files_.checkpoints().path(checkpoints[0]));
}

void metac_run::count_step(const std::vector<double>& values, double rate) {
  for (train::RunningSums* sums : {&p_.interval, &p_.whole_epoch}) {
    sums->loss += values[0];
    ++sums->calls;
    for (size_t m = 0; m < metrics_.size(); ++m) sums->add(m, values[m + 1]);
  }
  p_.skipped_in_a_row = 0;
  ++p_.call, ++p_.batch;
  if (++p_.micro < accumulate_) return;
  p_.micro = 0;
  ++p_.update;
  report_.update_done(rate);
}

int metac_run::step(metac_var* loss, metac_var* const* metrics, int32_t count, double rate, lazy::Site site) {
  expect_begun(true);
  if (static_cast<size_t>(count) != metrics_.size()) refuse(count, " metrics are given; the run has ", metrics_.size());
  if (done() || p_.batch >= batches_) refuse("the epoch has all of its ", batches_, " steps");
  std::vector<double> values;
  {
    std::vector<lazy::Value*> given = {loss->value};
    for (int32_t m = 0; m < count; ++m) need(metrics[m], "a metric"), given.push_back(metrics[m]->value);
    for (const lazy::Value* value : given)
      if (value->type->elements != 1) refuse("loss and metrics are scalars, and one is ", lazy::text_of(*value->type));
    const InGraph in_graph;
    for (const metac_optimiser* optimiser : optimisers_)
      if (optimiser->taken) given.push_back(optimiser->taken->value);
    lazy::LazyGraph::of_process().evaluate(given.data(), given.size(), site);
    for (size_t k = 0; k <= metrics_.size(); ++k) values.push_back(number_at(lazy::tensor_of(*given[k]), 0));
    for (metac_optimiser* optimiser : optimisers_)
      if (optimiser->taken) {
        const int64_t made = std::exchange(optimiser->steps, steps_taken(*optimiser));
        values.push_back(static_cast<double>(made - optimiser->steps));
      }
  }
  int signal = 0;
  values = agreed(std::move(values), &signal);
  const std::string wrong = non_finite_text(values, rate);
  if (wrong.empty()) {
    average_statistics(site);
    count_step(values, rate);
    before_step();
  } else {
    leave_out(wrong, site);
  }
  report_.show_where_due();
  const bool due = wrong.empty() && checkpoint_every_ > 0 && p_.micro == 0 && p_.update % checkpoint_every_ == 0;
  if (signal != 0 || due) save();
  if (signal != 0)
    progress_.warn(
        concat("interrupted in epoch ", p_.epoch + 1, ", after update ", p_.update, "; resume goes on in ", files_.path()));
  return signal;
}

bool metac_run::end_epoch(const double* given, int32_t count) {
  expect_begun(true);
  if (p_.batch < batches_) refuse("the epoch has ", batches_, " steps, and ", p_.batch, " were made");
  std::optional<train::Scores> scores;
  if (given) {
    if (static_cast<size_t>(count) != metrics_.size() + 1)
      refuse(count, " scores are given; there are the loss and ", metrics_.size(), " metrics");
    scores = train::Scores{given[0], {given + 1, given + count}, 1};
  }
  const bool best = report_.end_of_epoch(scores ? &*scores : nullptr, p_.epoch + 1 >= p_.epochs);
  if (best && patience_ > 0) {
    const States now = states();
    if (writes()) train::write_checkpoint(files_.best(), train::owner_of(tables_), now.tensors, p_);
  }
  if (checkpoint_every_ == 0 || (done() && saved_ != p_.call)) save();
  if (writes()) train::draw_curves(tables_, log_.path(), files_.curves());
  return best;
}

void metac_run::place(metac_run_place* place) const {
  const metac_run_place now{place->size, p_.update,     p_.epoch, p_.batch, p_.epochs,
                            batches_,    p_.best_epoch, p_.best,  done(),   p_.skipped};
  std::memcpy(place, &now, sizeof now);
}
