// What a run tells of itself: lines of the log, lines for people, and which of its epochs was the best.
#pragma once
#include <functional>

#include "checkpoint.h"
#include "progress.h"
#include "run_log.h"

namespace metac::train {

// Loss and metrics over all samples of a dataset.
struct Scores {
  double loss = 0;
  std::vector<double> metrics;
  int64_t samples = 0;
};

inline double aggregated(Aggregate how, double mean) {
  return how == Aggregate::root_of_mean ? std::sqrt(mean) : how == Aggregate::exp_of_mean ? std::exp(mean) : mean;
}

constexpr int64_t most_skipped_in_a_row = 10;

class RunReport {
 public:
  struct Options {
    int64_t log_every = 1;  // updates
    int64_t patience = 0;   // epochs; 0: never stop early
  };
  // All that is given must outlive it. Of the tables it looks at name, metrics, and what is watched.
  RunReport(const TrainTables& tables, Position& position, Progress& progress, RunLog& log, const Options& options)
      : t_(tables), p_(position), progress_(progress), log_(log), o_(options) {
    for (RunningSums* sums : {&p_.interval, &p_.whole_epoch}) sums->resize(static_cast<size_t>(t_.metric_count));
  }

  // batches of an epoch, updates in all, samples of an update.
  void start(int64_t batches, int64_t total, int64_t samples) {
    batches_ = batches, total_ = total, samples_ = samples;
    begun_ = now_seconds() - p_.seconds;
    first_update_ = p_.update;
    progress_.start(started_ = now_seconds());
  }
  double seconds() const { return now_seconds() - begun_; }
  void evaluated_for(double seconds) { evaluating_ += seconds; }

  // Behind an update, whose results are in the sums.
  void update_done(double rate) {
    if (p_.update % o_.log_every == 0) log_interval(rate);
  }

  void show_where_due() {
    const double time = now_seconds();
    if (progress_.due(time)) show(time);
  }

  // A batch whose numbers are not finite; the place is behind it. True: it is left out and the run goes on, as `skip` asks.
  bool left_out(const std::string& message, bool skip) {
    ++p_.skipped;
    ++p_.skipped_in_a_row;
    log_.write(LogLine("non-finite")
                   .add("update", p_.update)
                   .add("epoch", p_.epoch + 1)
                   .add("batch", p_.batch)
                   .add("what", message));
    if (!skip || p_.skipped_in_a_row > most_skipped_in_a_row) return false;
    progress_.warn(message + "; this batch is left out");
    return true;
  }
  // Why a run that skips ends all the same, in its last message.
  std::string left_out_in_a_row(bool skip) const {
    return skip ? text_of("; that was the ", p_.skipped_in_a_row, "th batch in a row") : "";
  }

  // Behind an epoch's last batch; the next one begins. scores null: it was not evaluated. last: none follows. True: it was
  // the best epoch so far.
  bool end_of_epoch(const Scores* scores, bool last) {
    const auto in_training = [&](int32_t m) { return train_metric(p_.whole_epoch, m); };
    LogLine line("epoch");
    line.add("update", p_.update).add("epoch", p_.epoch + 1).add("loss", mean_loss(p_.whole_epoch));
    for (int32_t m = 0; m < t_.metric_count; ++m) line.add(t_.metrics[m].name, in_training(m));
    std::string text =
        text_of("epoch ", p_.epoch + 1, "/", p_.epochs, "  ", scores_text(mean_loss(p_.whole_epoch), in_training));
    bool best = false;
    if (scores != nullptr) {
      const auto in_validation = [&](int32_t m) { return scores->metrics[static_cast<size_t>(m)]; };
      line.add("validation loss", scores->loss);
      for (int32_t m = 0; m < t_.metric_count; ++m)
        line.add(std::string("validation ") + t_.metrics[m].name, in_validation(m));
      text += "  | validation " + scores_text(scores->loss, in_validation);
      best = note_result(*scores);
      if (best && p_.epoch > 0) text += o_.patience > 0 ? "  best, kept" : "  best so far";  // kept: as a file of its own
    }
    line.add("seconds", std::round(seconds() * 1000) / 1000);
    log_.write(line);
    progress_.say(text + "  " + duration_text(seconds()));
    p_.whole_epoch.clear();
    ++p_.epoch;
    p_.batch = 0;
    if (o_.patience > 0 && p_.worse >= o_.patience && !last) {
      progress_.say(text_of("stopped early: no better ", watched_name(), " for ", p_.worse, " epochs; the best was epoch ",
                            p_.best_epoch));
      p_.finished = true;
    }
    return best;
  }

 private:
  double train_metric(const RunningSums& sums, int32_t m) const {
    return aggregated(t_.metrics[m].aggregate,
                      sums.metrics[static_cast<size_t>(m)] /
                          static_cast<double>(std::max<int64_t>(1, sums.metric_calls[static_cast<size_t>(m)])));
  }
  static double mean_loss(const RunningSums& sums) {
    return sums.loss / static_cast<double>(std::max<int64_t>(1, sums.calls));
  }

  void log_interval(double rate) {
    LogLine line("train");
    line.add("update", p_.update).add("epoch", p_.epoch + 1).add("loss", mean_loss(p_.interval));
    for (int32_t m = 0; m < t_.metric_count; ++m)
      if (p_.interval.metric_calls[static_cast<size_t>(m)] > 0) line.add(t_.metrics[m].name, train_metric(p_.interval, m));
    line.add("rate", rate).add("seconds", std::round(seconds() * 1000) / 1000);
    log_.write(line);
    p_.interval.clear();
  }

  std::string scores_text(double loss, const std::function<double(int32_t)>& metric) const {
    std::string text = text_of("loss ", short_number(loss));
    for (int32_t m = 0; m < t_.metric_count; ++m) text += text_of("  ", t_.metrics[m].name, " ", short_number(metric(m)));
    return text;
  }

  void show(double time) {
    const RunningSums& sums = p_.interval.calls > 0 ? p_.interval : p_.whole_epoch;
    const double speed = static_cast<double>(p_.update - first_update_) / std::max(1e-9, time - started_ - evaluating_);
    const double left = speed > 0 ? static_cast<double>(total_ - p_.update) / speed : -1;
    const double samples = speed * static_cast<double>(samples_);
    progress_.show(time, text_of("epoch ", p_.epoch + 1, "/", p_.epochs),
                   static_cast<double>(p_.batch) / static_cast<double>(batches_), text_of(duration_text(left), " left"),
                   text_of(scores_text(mean_loss(sums), [&](int32_t m) { return train_metric(sums, m); }), "  ",
                           short_number(samples), " samples/s"));
  }

  std::string watched_name() const { return t_.settings.watched >= 0 ? t_.metrics[t_.settings.watched].name : "loss"; }

  bool note_result(const Scores& scores) {
    const int32_t watched = t_.settings.watched;
    const double value = watched >= 0 ? scores.metrics[static_cast<size_t>(watched)] : scores.loss;
    const bool greater = watched >= 0 && t_.metrics[watched].greater_is_better;
    const bool better = p_.best_epoch < 0 || (greater ? value > p_.best : value < p_.best);
    if (better)
      p_.best = value, p_.best_epoch = p_.epoch + 1, p_.worse = 0;
    else
      ++p_.worse;
    return better;
  }

  const TrainTables& t_;
  Position& p_;
  Progress& progress_;
  RunLog& log_;
  const Options o_;
  int64_t batches_ = 1, total_ = 0, samples_ = 0, first_update_ = 0;
  double begun_ = 0, started_ = 0, evaluating_ = 0;
};

}  // namespace metac::train
