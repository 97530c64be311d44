// The training loop. A run is a function of the tables, the data and the seed: where it is interrupted and how many threads
// work changes no bit of the states and no number of the log but the times.
#pragma once
#include "evaluate.h"
#include "interruption.h"
#include "options.h"
#include "processes/together.h"
#include "record/curves.h"
#include "record/profile.h"
#include "record/progress.h"
#include "record/run_folder.h"
#include "record/run_report.h"
#include "schedule.h"

namespace metac::train {

class Trainer {
 public:
  // `processes` null: this one trains alone. Else all call the same functions in the same order, and the first one alone
  // writes files.
  Trainer(const TrainTables& tables, const Options& options, const OpenedData& data, const RunFiles& folder,
          StateSet& states, Position position, Progress& progress, Processes* processes)
      : t_(tables),
        o_(options),
        data_(data),
        folder_(folder),
        states_(states),
        p_(std::move(position)),
        progress_(progress),
        together_(tables, processes),
        log_(folder.log(), together_.writes()),
        report_(
            tables, p_, progress, log_,
            {options.log_every.value_or(tables.settings.log_every), options.patience.value_or(tables.settings.patience)}),
        loader_(tables, data.train,
                {tables.data.shuffle, tables.data.drop_last, true, p_.seed, options.loaders, together_.process(),
                 together_.processes()}),
        validation_loader_(tables, data.validation,
                           {false, tables.settings.evaluates_batches, false, p_.seed, options.loaders, together_.process(),
                            together_.processes()}) {
    stages_.push_back({&tables.step, 1, std::make_unique<LibrarySession>(tables.step, options.threads), {}});
    for (int32_t k = 0; k < tables.further_count; ++k)
      stages_.push_back({&tables.further[k].library,
                         tables.further[k].every,
                         std::make_unique<LibrarySession>(tables.further[k].library, options.threads),
                         {}});
    for (const Stage& stage : stages_) together_.exchange(*stage.session);
    if (validates()) {
      expect_batches(t_, validation_loader_);
      evaluation_ = std::make_unique<LibrarySession>(tables.evaluate, options.threads);
    }
    schedule_ = t_.schedule;
    const double scale = p_.rate / t_.schedule.rate;  // --rate moves the whole curve
    for (double* rate : {&schedule_.rate, &schedule_.final_rate, &schedule_.initial_rate})
      *rate *= t_.schedule.rate > 0 ? scale : 1;
    batches_ = loader_.batches_per_epoch();
    if (batches_ == 0)
      fail(data.train.samples.size(), " samples for training do not fill a batch of ", tables.settings.batch,
           " for each of ", together_.processes(), " processes");
    total_ = p_.epochs * batches_ / t_.settings.accumulate;
    if (p_.updates > 0) total_ = std::min(total_, p_.updates);
  }

  const Position& position() const { return p_; }
  bool validates() const { return !data_.validation.samples.empty() && t_.evaluate.run != nullptr; }
  int64_t total_updates() const { return total_; }
  int64_t batches_per_epoch() const { return batches_; }

  // With --profile: kernels of a step by their time, on stdout.
  void print_profile() const {
    std::vector<ProfiledKernel> rows;
    for (const Stage& stage : stages_)
      for (const LibrarySession::KernelTime& time : stage.session->kernel_times())
        rows.push_back(profiled_kernel(*stage.library, time, stages_.size() > 1));
    std::optional<MachinePeak> peak;
    if (!t_.memory) peak = measure_machine_peak(o_.threads);
    std::printf("%s\n%s", memory_text(t_.settings).c_str(), profile_text(std::move(rows), calls_, peak).c_str());
    std::fflush(stdout);  // before progress goes on, elsewhere
  }

  // False: interrupted; a checkpoint was written.
  bool run() {
    if (o_.profile)
      for (const Stage& stage : stages_) stage.session->profile();
    log_.open(p_.log_bytes);
    report_.start(batches_, total_, t_.settings.batch * t_.settings.accumulate * together_.processes());
    loader_.start(p_.epoch, p_.batch);
    while (!over()) {
      while (p_.batch < batches_ && !reached()) {
        one_call(loader_.next());
        if (together_.signal() != 0) return save("interrupted"), false;
        const int64_t every = o_.checkpoint_every.value_or(t_.settings.checkpoint_every);
        if (every > 0 && p_.micro == 0 && p_.update % every == 0 && p_.update > saved_) save("");
      }
      if (p_.batch < batches_) break;  // --updates ends it within an epoch
      if (!end_of_epoch()) return save("interrupted"), false;
    }
    if (p_.update != saved_ || p_.micro != 0) save("");
    return true;
  }

 private:
  bool reached() const { return p_.updates > 0 && p_.update >= p_.updates; }
  bool over() const { return p_.finished || p_.epoch >= p_.epochs || reached(); }

  // A step of an update: the library, and in which updates it runs.
  struct Stage {
    const Library* library;
    int64_t every;
    std::unique_ptr<LibrarySession> session;
    CallResults results;  // of its last run
  };

  CallScalars scalars(int64_t stage = 0) const {
    const int64_t stages = static_cast<int64_t>(stages_.size());
    CallScalars s;
    s.learning_rate =
        rate_at(schedule_, p_.update, total_, static_cast<double>(batches_) / static_cast<double>(t_.settings.accumulate));
    s.step = p_.update / stages_[static_cast<size_t>(stage)].every;  // how often it ran
    s.call = (p_.call * together_.processes() + together_.process()) * stages + stage;
    s.seed = p_.seed;
    s.apply = p_.micro + 1 >= t_.settings.accumulate;
    return s;
  }

  void one_call(const Batch& batch) {
    const CallScalars now = scalars();
    std::string wrong;
    LibrarySession* at_fault = nullptr;
    for (size_t k = 0; k < stages_.size() && wrong.empty(); ++k) {
      if (p_.update % stages_[k].every != 0) continue;
      at_fault = stages_[k].session.get();
      at_fault->run(batch, states_, scalars(static_cast<int64_t>(k)));
      wrong = at_fault->non_finite(t_);
      stages_[k].results = CallResults(t_, *at_fault);
      const bool good = together_.agree(wrong.empty(), &stages_[k].results);
      if (good)
        states_.swap(*stages_[k].library);
      else
        wrong = together_.first_said(wrong.empty() ? wrong : wrong + place(now) + reason(batch, *at_fault));
    }
    ++calls_;
    if (!wrong.empty()) {
      ++p_.call;
      ++p_.batch;
      return leave_out(wrong);
    }
    p_.skipped_in_a_row = 0;
    add_results();
    ++p_.call;
    ++p_.batch;
    if (now.apply) {
      p_.micro = 0;
      ++p_.update;
      report_.update_done(now.learning_rate);
    } else {
      ++p_.micro;
    }
    report_.show_where_due();
  }

  // What the steps of this call gave, before the position moves on.
  void add_results() {
    for (RunningSums* sums : {&p_.interval, &p_.whole_epoch}) {
      sums->loss += stages_[0].results.loss;
      ++sums->calls;
      for (const Stage& stage : stages_)
        if (p_.update % stage.every == 0)
          for (const auto& [metric, value] : stage.results.metrics) sums->add(static_cast<size_t>(metric), value);
    }
  }

  std::string place(const CallScalars& now) const {
    return text_of(" at update ", p_.update, " (epoch ", p_.epoch + 1, ", batch ", p_.batch + 1, ", learning rate ",
                   now.learning_rate, ")");
  }
  std::string reason(const Batch& batch, LibrarySession& at_fault) const {
    const std::string data = in_data(batch);
    // The search runs the step again, from the states before it.
    if (data.empty() && states_.overwritten())
      return "; with --non-finite skip, which keeps states twice, the kernel would be named";
    const std::string reason = data.empty() ? at_fault.first_non_finite_kernel() : data;
    return reason.empty() ? "" : ": " + reason;
  }

  // The states are as before the step that went wrong: only the batch is lost, and with accumulation the next one takes its
  // place.
  void leave_out(const std::string& message) {
    const bool skip = o_.non_finite.value_or(t_.settings.non_finite) == NonFinite::skip;
    if (report_.left_out(message, skip)) return;
    const std::vector<int64_t> kept = folder_.checkpoints().list();
    together_.fail(text_of(
        message, report_.left_out_in_a_row(skip), ".\n",
        kept.empty() ? std::string("There is no checkpoint yet")
                     : "The last good checkpoint is " + folder_.checkpoints().path(kept.front()),
        ".\nA lower learning rate (--rate) or gradient clipping in the recipe helps most often; --non-finite skip leaves "
        "single batches out."));
  }

  // "" or the input that brought NaN along.
  std::string in_data(const Batch& batch) const {
    for (int32_t f = 0; f < t_.field_count; ++f) {
      const Field& field = t_.fields[f];
      const int64_t at =
          first_non_finite(field.dtype, batch.fields[static_cast<size_t>(f)]->data(), elements(field) * t_.settings.batch);
      if (at < 0) continue;
      const int64_t sample = batch.samples[static_cast<size_t>(at / std::max<int64_t>(1, elements(field)))];
      return text_of("the data have NaN or infinity: ", data_.train.data->columns[static_cast<size_t>(f)].origin,
                     ", sample ", sample, ", field ", quoted(field.name));
    }
    return "";
  }

  // False: interrupted while evaluating; the evaluation is done again after a resume.
  bool end_of_epoch() {
    const bool last = p_.epoch + 1 >= p_.epochs || reached();
    std::optional<Scores> scores;
    if (validates() && (last || (p_.epoch + 1) % o_.evaluate_every.value_or(t_.settings.evaluate_every) == 0)) {
      const double begin = now_seconds();
      scores = evaluate(
          t_, *evaluation_, validation_loader_, states_, scalars(),
          [&](int64_t done) {
            if (progress_.terminal() && progress_.due(now_seconds()))
              progress_.show(now_seconds(), text_of("epoch ", p_.epoch + 1, "/", p_.epochs, " validation"),
                             static_cast<double>(done) / static_cast<double>(validation_loader_.samples()), "", "");
            return together_.processes() > 1 || received_signal == 0;
          },
          together_.all());
      if (scores->samples == 0) return false;
      report_.evaluated_for(now_seconds() - begin);
    }
    const bool best = report_.end_of_epoch(scores ? &*scores : nullptr, last);
    const int64_t patience = o_.patience.value_or(t_.settings.patience);
    if (best && patience > 0) {
      p_.seconds = report_.seconds();
      if (together_.writes()) write_checkpoint(folder_.best(), t_, states_, p_);
    }
    const int64_t every = o_.checkpoint_every.value_or(t_.settings.checkpoint_every);
    if (every == 0 || over()) save("");
    if (together_.writes()) draw_curves(t_, log_.path(), folder_.curves());
    return true;
  }

  void save(const std::string& why) {
    log_.synchronise();
    p_.log_bytes = log_.bytes();
    p_.seconds = report_.seconds();
    together_.expect_same(states_);
    if (together_.writes())
      folder_.checkpoints().save(t_, states_, p_, static_cast<int32_t>(o_.keep.value_or(t_.settings.checkpoints_kept)));
    saved_ = p_.update;
    if (!why.empty())
      progress_.warn(text_of(why, " in epoch ", p_.epoch + 1, ", after update ", p_.update, "; go on with --resume --out ",
                             folder_.path()));
  }

  const TrainTables& t_;
  const Options& o_;
  const OpenedData& data_;
  const RunFiles& folder_;
  StateSet& states_;
  Position p_;
  Progress& progress_;
  Together together_;
  RunLog log_;
  RunReport report_;
  BatchLoader loader_, validation_loader_;
  std::vector<Stage> stages_;
  std::unique_ptr<LibrarySession> evaluation_;
  Schedule schedule_{};
  int64_t batches_ = 0, total_ = 0, saved_ = -1, calls_ = 0;
};

}  // namespace metac::train
