// Executor, a run of one of several processes that train together: values are exchanged as soon as they are there, while steps go on, and
// waited for where they are needed.
#pragma once
#include "executor.h"

namespace METAC_RUNTIME_NAMESPACE {

template <class Device>
bool ExecutorOn<Device>::run_exchanging() {
  const Program& p = *program_;
  const auto failed = [&] { return failure_.ok() ? failure_.set(Status::internal, "what processes exchange did not arrive") : false; };
  int32_t begun = 0, border = 0;  // steps [border, ...) are to run
  const auto wait_for = [&](int32_t step) {
    for (int32_t e = 0; e < begun; ++e)
      if (p.exchanges[e].needed <= step && !exchanger_->wait(exchanger_->user, p.exchanges[e].index)) return false;
    return true;
  };
  while (border < p.top_level_steps) {
    // As many steps as may run before anything is there or needed.
    int32_t end = p.top_level_steps;
    if (begun < p.exchange_count && p.exchanges[begun].ready + 1 < end) end = p.exchanges[begun].ready + 1;
    for (int32_t e = 0; e < begun; ++e)
      if (p.exchanges[e].needed > border && p.exchanges[e].needed < end) end = p.exchanges[e].needed;
    if (!wait_for(border)) return failed();
    if (!run_steps(border, end)) return false;
    border = end;
    for (; begun < p.exchange_count && p.exchanges[begun].ready < border; ++begun) {
      const Exchange& e = p.exchanges[begun];
      int64_t bytes = 0;
      if (!bytes_of(e.buffer, &bytes)) return false;
      if (!exchanger_->begin(exchanger_->user, e.index, data_[root(e.buffer)], p.buffers[e.buffer].dtype, bytes)) return failed();
    }
  }
  return wait_for(p.top_level_steps) || failed();
}

}  // namespace METAC_RUNTIME_NAMESPACE
