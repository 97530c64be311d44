#include "compiler/quantize/measure/value_range.h"

#include <algorithm>
#include <cmath>

namespace metac {
namespace {

ValueRange holding_zero(ValueRange range) { return {std::min(range.low, 0.0), std::max(range.high, 0.0)}; }

}  // namespace

std::optional<Calibration> calibration_named(const std::string& name) {
  if (name == "minmax") return Calibration::minmax;
  if (name == "percentile") return Calibration::percentile;
  if (name == "entropy") return Calibration::entropy;
  if (name == "mse") return Calibration::mse;
  return std::nullopt;
}

bool ValueStatistics::note_ends(const Tensor& tensor) {
  const float* data = tensor.data<float>();
  float low = INFINITY, high = -INFINITY;
  bool finite = true;
  for (int64_t i = 0, count = tensor.element_count(); i < count; ++i) {
    finite &= std::isfinite(data[i]);
    low = std::min(low, data[i]), high = std::max(high, data[i]);
  }
  if (tensor.element_count() > 0 && finite) low_ = std::min<double>(low_, low), high_ = std::max<double>(high_, high);
  return finite;
}

void ValueStatistics::note_spread(const Tensor& tensor) {
  if (counts_.empty()) counts_.resize(bins);
  const float* data = tensor.data<float>();
  const double each = width() > 0 ? 1 / width() : 0;
  for (int64_t i = 0, count = tensor.element_count(); i < count; ++i) {
    if (data[i] == 0)
      ++zeros_;
    else
      ++counts_[static_cast<size_t>(std::clamp((data[i] - low_) * each, 0.0, bins - 1.0))];
  }
}

ValueRange ValueStatistics::range(Calibration method, double percentile, int levels) const {
  const ValueRange all = holding_zero({low_, high_});
  if (method == Calibration::minmax || counts_.empty() || !(width() > 0)) return all;
  const ValueRange found = method == Calibration::percentile ? by_percentile(percentile)
                           : method == Calibration::entropy  ? by_entropy(levels)
                                                             : by_square_error(levels);
  return found.high > found.low ? holding_zero(found) : all;
}

ValueRange ValueStatistics::by_percentile(double percentile) const {
  double total = zeros_;
  for (double count : counts_) total += count;
  const double cut = total * (1 - percentile / 100);
  ValueRange range{low_, high_};
  double below = 0, above = 0;
  for (int i = 0; i < bins && (below += counts_[static_cast<size_t>(i)]) <= cut; ++i) range.low = low_ + (i + 1) * width();
  for (int i = bins - 1; i >= 0 && (above += counts_[static_cast<size_t>(i)]) <= cut; --i) range.high = low_ + i * width();
  return {std::min(range.low, 0.0), std::max(range.high, 0.0)};
}

// The mean square error: of what is cut off its distance, of the rest the variance of rounding to the step.
double ValueStatistics::error_of(ValueRange range, int levels) const {
  const double step = (range.high - range.low) / levels, rounding = step * step / 12;
  double error = 0;
  for (int i = 0; i < bins; ++i) {
    const double at = middle(i), count = counts_[static_cast<size_t>(i)];
    const double beyond = at < range.low ? range.low - at : at > range.high ? at - range.high : 0;
    error += count * (beyond > 0 ? beyond * beyond : rounding);
  }
  return error;
}

ValueRange ValueStatistics::by_square_error(int levels) const {
  const ValueRange all = holding_zero({low_, high_});
  ValueRange best = all;
  double least = error_of(all, levels);
  const auto consider = [&](ValueRange range) {
    if (!(range.high > range.low)) return;
    if (const double error = error_of(range, levels); error < least) least = error, best = range;
  };
  constexpr int parts = 100;
  for (int k = 1; k < parts; ++k) consider({all.low * k / parts, all.high * k / parts});
  const ValueRange both = best;  // then each end on its own
  for (int k = 1; k <= parts; ++k) consider({both.low, all.high * k / parts});
  const double high = best.high;
  for (int k = 1; k <= parts; ++k) consider({all.low * k / parts, high});
  return best;
}

// TensorRT's calibration (S. Migacz, "8-bit inference with TensorRT", 2017) with both ends shrinking alike: P has what is
// cut off in its outermost bins, Q is P without that, averaged over the bins of each step.
ValueRange ValueStatistics::by_entropy(int levels) const {
  const ValueRange all = holding_zero({low_, high_});
  ValueRange best = all;
  double least = INFINITY;
  constexpr int parts = 64;
  for (int k = parts / 8; k <= parts; ++k) {
    const ValueRange range{all.low * k / parts, all.high * k / parts};
    const auto bin_of = [&](double value) {
      return static_cast<int>(std::clamp(std::floor((value - low_) / width()), 0.0, bins - 1.0));
    };
    const int first = bin_of(range.low), last = bin_of(std::nexttoward(range.high, range.low));
    if (last - first + 1 < levels) continue;
    const auto own = counts_.begin() + first, end = counts_.begin() + last + 1;
    std::vector<double> p(own, end), q(p.size());
    for (int i = 0; i < first; ++i) p.front() += counts_[static_cast<size_t>(i)];
    for (int i = last + 1; i < bins; ++i) p.back() += counts_[static_cast<size_t>(i)];
    const double step = static_cast<double>(p.size()) / levels;
    for (int level = 0; level < levels; ++level) {
      const auto from = static_cast<size_t>(level * step);
      const auto to = level + 1 == levels ? p.size() : static_cast<size_t>((level + 1) * step);
      double sum = 0, used = 0;
      for (size_t i = from; i < to; ++i) sum += own[static_cast<int64_t>(i)], used += p[i] > 0;
      for (size_t i = from; i < to; ++i)
        if (p[i] > 0) q[i] = sum / used;
    }
    double p_sum = 0, q_sum = 0, divergence = 0;
    for (size_t i = 0; i < p.size(); ++i) p_sum += p[i], q_sum += q[i];
    for (size_t i = 0; i < p.size() && q_sum > 0; ++i)
      if (p[i] > 0) divergence += p[i] / p_sum * std::log((p[i] / p_sum) / std::max(q[i] / q_sum, 1e-12));
    if (q_sum > 0 && divergence < least) least = divergence, best = range;
  }
  return best;
}

Affine affine_of(ValueRange range, DType type) {
  range = holding_zero(range);
  const auto least = static_cast<double>(min_value(type)), most = static_cast<double>(max_value(type));
  Affine affine;
  affine.scale = static_cast<float>((range.high - range.low) / (most - least));
  // Quotients by a denormal number are not the engines' strong side, and 0 has no quotient.
  if (!(affine.scale >= 1e-30f)) affine.scale = 1;
  affine.zero_point = static_cast<int64_t>(std::clamp(std::nearbyint(least - range.low / affine.scale), least, most));
  return affine;
}

}  // namespace metac
