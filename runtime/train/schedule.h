// The learning rate of an update. The formulas are those of PyTorch's schedulers of the same names (StepLR, MultiStepLR,
// CosineAnnealingLR, OneCycleLR, LinearLR for the warm-up), evaluated at every update.
#pragma once
#include <algorithm>
#include <cmath>

#include "train_tables.h"

namespace metac::train {

inline double half_cosine(double from, double to, double share) {
  return to + (from - to) * 0.5 * (1 + std::cos(3.14159265358979323846 * share));
}

// `update`: how many were done before; `total`: of the whole run; `per_epoch`: updates of an epoch, which lengths in epochs
// are measured by.
inline double rate_at(const Schedule& s, int64_t update, int64_t total, double per_epoch) {
  const double done = static_cast<double>(update), all = std::max(1.0, static_cast<double>(total));
  if (s.kind == ScheduleKind::one_cycle) {  // two cosines: initial -> rate -> final
    const double top = std::max(1.0, s.warmup * all - 1), end = std::max(top + 1, all - 1);
    if (done <= top) return half_cosine(s.initial_rate, s.rate, done / top);
    return half_cosine(s.rate, s.final_rate, std::min(1.0, (done - top) / (end - top)));
  }
  const double unit = s.in_epochs ? std::max(1.0, per_epoch) : 1.0;
  const double warmup = s.warmup * unit;
  if (done < warmup) return s.initial_rate + (s.rate - s.initial_rate) * done / warmup;
  switch (s.kind) {
    case ScheduleKind::step: {
      double times = 0;
      if (s.period > 0) times = std::floor(done / (s.period * unit) + 1e-9);
      for (int32_t k = 0; s.period <= 0 && k < s.milestone_count; ++k)
        times += done + 1e-9 >= s.milestones[k] * unit ? 1 : 0;
      return s.rate * std::pow(s.gamma, times);
    }
    case ScheduleKind::cosine:
      return half_cosine(s.rate, s.final_rate, std::min(1.0, (done - warmup) / std::max(1.0, all - warmup)));
    default:
      return s.rate;
  }
}

}  // namespace metac::train
