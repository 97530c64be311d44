#include "compiler/quantize/measure/value_errors.h"

#include <algorithm>
#include <cmath>

namespace metac {

double SignalToNoise::decibels() const {
  if (!(noise > 0)) return INFINITY;
  return 10 * std::log10(std::max(signal, 1e-300) / noise);
}

void SignalToNoise::add(const Tensor& exact, const Tensor& found) {
  if (exact.shape != found.shape || !is_float(exact.dtype) || !is_float(found.dtype)) return;
  for (int64_t i = 0, count = exact.element_count(); i < count; ++i) {
    const double x = number_at(exact, i), error = x - number_at(found, i);
    if (!std::isfinite(x)) continue;  // masks
    signal += x * x;
    noise += std::isfinite(error) ? error * error : x * x + 1;
  }
}

ValueErrors value_errors(ObservedModel& exact, const Model& changed, const std::map<std::string, std::string>& pairs,
                         const std::vector<std::string>& outputs, const CalibrationData& data, const SessionOptions& options,
                         int64_t* samples) {
  std::vector<std::string> watched;
  for (const auto& [unused, name] : pairs) watched.push_back(name);
  ObservedModel other(changed, watched, options);
  ValueErrors errors;
  const int64_t seen = data.for_each([&](const NamedTensors& inputs) {
    const NamedTensors expected = exact.run(inputs), found = other.run(inputs);
    const auto add = [&](const std::string& name, const std::string& there) {
      const auto a = expected.find(name), b = found.find(there);
      if (a != expected.end() && b != found.end()) errors[name].add(a->second, b->second);
    };
    for (const auto& [name, there] : pairs) add(name, there);
    for (const std::string& name : outputs)
      if (!pairs.count(name)) add(name, name);
  });
  if (samples) *samples = seen;
  return errors;
}

double least_decibels(const ValueErrors& errors, const std::vector<std::string>& outputs) {
  double least = INFINITY;
  for (const std::string& name : outputs)
    if (const auto found = errors.find(name); found != errors.end()) least = std::min(least, found->second.decibels());
  return least;
}

}  // namespace metac
