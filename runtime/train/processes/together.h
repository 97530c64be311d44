// What a run does with the other processes that train with it: gradients, results and decisions are those of all. Alone it
// does nothing.
#pragma once
#include "../interruption.h"
#include "../library_session.h"
#include "card_exchange.h"
#include "processes.h"

namespace metac::train {

// Loss and metrics of one call of a step.
struct CallResults {
  double loss = 0;
  std::vector<std::pair<int32_t, double>> metrics;
  CallResults() = default;
  CallResults(const TrainTables& tables, const LibrarySession& session) {
    const std::vector<double> value = session.result(Source::loss, 0);
    if (!value.empty()) loss = value[0];
    for (int32_t m = 0; m < tables.metric_count; ++m) {
      const std::vector<double> metric = session.result(Source::metric, m);
      if (!metric.empty()) metrics.emplace_back(m, metric[0]);
    }
  }
};

class Together {
 public:
  Together(const TrainTables& tables, Processes* processes) : t_(tables), all_(processes) {
    exchanger_ = {this,
                  [](void* self, int32_t index, void* data, ScalarType dtype, int64_t bytes) {
                    return static_cast<Together*>(self)->begin(index, data, dtype, bytes);
                  },
                  [](void* self, int32_t index) { return static_cast<Together*>(self)->all_->wait(index), 0; },
                  [](void* self, const ExchangedValue* values, int32_t count, void* stream) {
                    return static_cast<Together*>(self)->cards_->average(values, count, stream);
                  }};
    if (all_ != nullptr && tables.memory != nullptr) cards_ = std::make_unique<CardExchange>(*all_, tables.exchanges_sums);
  }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  Processes* all() const { return all_; }
  int process() const { return all_ == nullptr ? 0 : all_->rank(); }
  int processes() const { return all_ == nullptr ? 1 : all_->size(); }
  bool writes() const { return process() == 0; }

  void exchange(LibrarySession& session) {
    if (all_ != nullptr) session.exchange(&exchanger_);
  }

  // Whether the call was good for all; then `results` are those of all, the loss and the metrics of the whole batch.
  bool agree(bool good, CallResults* results) {
    if (all_ == nullptr) return good;
    std::vector<double> own = {good ? 1.0 : 0.0, static_cast<double>(received_signal), results->loss};
    for (const auto& metric : results->metrics) own.push_back(metric.second);
    const std::vector<std::vector<double>> everyone = all_->gather(own);
    std::vector<double> sums(own.size());
    for (const std::vector<double>& one : everyone) {
      good = good && one[0] != 0;
      if (one[1] != 0) signal_ = static_cast<int>(one[1]);
      for (size_t k = 0; k < one.size(); ++k) sums[k] += one[k];
    }
    results->loss = sums[2] / (t_.exchanges_sums ? 1 : processes());
    for (size_t m = 0; m < results->metrics.size(); ++m) results->metrics[m].second = sums[3 + m] / processes();
    return good;
  }
  // The first that any process says, with who says it.
  std::string first_said(const std::string& own) const {
    if (all_ == nullptr) return own;
    const std::vector<std::string> said = all_->gather(own);
    for (int p = 0; p < processes(); ++p)
      if (!said[static_cast<size_t>(p)].empty()) return all_->name_of(p) + ": " + said[static_cast<size_t>(p)];
    return "a number that is not finite";
  }

  // The signal that asks for an end, in all processes at the same call.
  int signal() const {
    if (all_ != nullptr && signal_ != 0) received_signal = signal_;
    return all_ != nullptr ? signal_ : static_cast<int>(received_signal);
  }

  [[noreturn]] void fail(const std::string& message) const {
    if (all_ != nullptr) all_->fail_together(text_of(t_.name, "_train: ", message));
    throw Fault(message);
  }

  // All processes have computed the same states.
  void expect_same(const StateSet& states) const {
    if (all_ == nullptr) return;
    std::vector<double> own;
    for (int32_t s = 0; s < states.count(); ++s)
      own.push_back(crc32(states.value(s), static_cast<size_t>(byte_count(states.about(s)))));
    const std::vector<std::vector<double>> everyone = all_->gather(own);
    for (int p = 1; p < processes(); ++p)
      for (int32_t s = 0; s < states.count(); ++s)
        if (everyone[static_cast<size_t>(p)][static_cast<size_t>(s)] != everyone[0][static_cast<size_t>(s)])
          fail(text_of(all_->name_of(p), " has other bits in ", quoted(states.about(s).name), " than ", all_->name_of(0),
                       ": train on processors of one kind"));
  }

 private:
  int32_t begin(int32_t index, void* data, ScalarType dtype, int64_t bytes) {
    all_->begin(index, data, dtype, bytes);
    return 0;
  }

  const TrainTables& t_;
  Processes* all_;
  std::unique_ptr<CardExchange> cards_;  // where steps run on GPUs
  Exchanger exchanger_{};
  int signal_ = 0;
};

}  // namespace metac::train
