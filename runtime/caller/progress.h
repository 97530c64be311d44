// Who hears how far a context's runs are (metac_model_options.progress).
#pragma once
#include "../executor/executor.h"
#include "../metac_model.h"
#include "guarded_call.h"

namespace METAC_RUNTIME_NAMESPACE {

class CallerProgress {
 public:
  CallerProgress() = default;
  CallerProgress(const CallerProgress&) = delete;
  CallerProgress& operator=(const CallerProgress&) = delete;

  // Before the context's first run.
  void begin(metac_model_progress function, void* user) {
    function_ = function;
    user_ = user;
  }
  // For executors; null: nobody hears.
  const ProgressListener* listener() const { return function_ == nullptr ? nullptr : &listener_; }
  // Whether the function threw since this was asked last. The rest of that run it is not called.
  bool take_thrown() { return std::exchange(threw_, false); }

 private:
  static void tell(void* state, int64_t done, int64_t total) {
    CallerProgress& self = *static_cast<CallerProgress*>(state);
    if (!self.threw_) self.threw_ = !guarded([&] { self.function_(self.user_, done, total); });
  }

  metac_model_progress function_ = nullptr;
  void* user_ = nullptr;
  bool threw_ = false;
  const ProgressListener listener_{&tell, this};
};

}  // namespace METAC_RUNTIME_NAMESPACE
