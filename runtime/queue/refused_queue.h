// The queue of a model whose rows of several requests cannot be one run's (has_open_batch): every call says why. A library
// of such a model has this instead of BatchQueue and all that it needs.
#pragma once
#include "../caller/log.h"
#include "options.h"
#include "rows.h"

namespace METAC_RUNTIME_NAMESPACE {

class RefusedQueue {
 public:
  explicit RefusedQueue(const metac_model& model) : model_(model) {}

  Status create(const metac_model_queue_options* options) {
    QueueOptions taken;
    const bool good = taken.take(options, failure_);
    log_.begin(taken.context().log, taken.context().log_user);
    if (good && has_open_batch(model_, failure_)) failure_.set(Status::internal, "the library was made for no queue");
    return refuse();
  }

  Status stop(bool) { return Status::ok; }  // nothing waits or runs
  Status submit(const metac_model_tensor*, int32_t, metac_model_tensor*, int32_t, int64_t*) { return refuse(); }
  Status run(const metac_model_tensor*, int32_t, metac_model_tensor*, int32_t) { return refuse(); }
  Status wait(int64_t) { return refuse(); }
  Status poll(int64_t) { return refuse(); }
  Status cancel(int64_t) { return refuse(); }
  Status release(int64_t) { return refuse(); }
  Status count(metac_model_queue_counters*) { return refuse(); }
  const char* message() const { return failure_.message; }

 private:
  Status refuse() {
    log_.say(METAC_MODEL_LOG_ERROR, failure_.message);
    return failure_.status;
  }

  const metac_model& model_;
  Failure failure_;
  CallerLog log_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
