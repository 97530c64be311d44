// Loss and metrics over all samples of a dataset. The library gives a value for every sample, so that what fills up the last
// batch does not count; sums are taken in the order of the samples.
#pragma once
#include <functional>

#include "library_session.h"
#include "processes/processes.h"
#include "record/run_report.h"

namespace metac::train {

// An evaluation of whole batches needs one.
inline void expect_batches(const TrainTables& tables, const BatchLoader& loader) {
  if (loader.batches_per_epoch() == 0)
    fail("there are ", loader.samples(), " samples to evaluate, fewer than a batch of ", tables.settings.batch,
         ": the model's own algorithm has the loss of whole batches alone");
}

// `going(done)` is asked after every batch; false ends it, and the scores have no samples. Several processes have a share of
// the samples each.
inline Scores evaluate(const TrainTables& tables, LibrarySession& session, BatchLoader& loader, StateSet& states,
                       const CallScalars& scalars, const std::function<bool(int64_t done)>& going,
                       Processes* processes = nullptr) {
  Scores scores;
  scores.metrics.assign(static_cast<size_t>(tables.metric_count), 0.0);
  loader.start(0, 0);
  for (int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
    const Batch& batch = loader.next();
    session.run(batch, states, scalars);
    const std::vector<double> losses = session.result(Source::loss, 0);
    for (int64_t k = 0; k < batch.valid && k < static_cast<int64_t>(losses.size()); ++k)
      scores.loss += losses[static_cast<size_t>(k)];
    for (int32_t m = 0; m < tables.metric_count; ++m) {
      const std::vector<double> values = session.result(Source::metric, m);
      for (int64_t k = 0; k < batch.valid && k < static_cast<int64_t>(values.size()); ++k)
        scores.metrics[static_cast<size_t>(m)] += values[static_cast<size_t>(k)];
    }
    scores.samples += batch.valid;
    if (!going(scores.samples)) return Scores();
  }
  if (processes != nullptr) {
    std::vector<double> own = scores.metrics;
    own.insert(own.end(), {scores.loss, static_cast<double>(scores.samples)});
    const std::vector<std::vector<double>> all = processes->gather(own);
    scores.loss = 0, scores.samples = 0;
    scores.metrics.assign(scores.metrics.size(), 0.0);
    for (const std::vector<double>& one : all) {
      for (size_t m = 0; m < scores.metrics.size(); ++m) scores.metrics[m] += one[m];
      scores.loss += one[one.size() - 2];
      scores.samples += static_cast<int64_t>(one.back());
    }
  }
  const double count = static_cast<double>(scores.samples);
  scores.loss /= count;
  for (int32_t m = 0; m < tables.metric_count; ++m)
    scores.metrics[static_cast<size_t>(m)] =
        aggregated(tables.metrics[m].aggregate, scores.metrics[static_cast<size_t>(m)] / count);
  return scores;
}

}  // namespace metac::train
