#include "compiler/quantize/accuracy/sensitivity.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

double decibels_with(const SensitivitySearch& s, ObservedModel& exact, const std::set<int>& kept) {
  const QuantizationPlan plan = plan_quantization(s.model.graph, s.types, s.options.per_tensor, s.keep, kept);
  const QdqModel changed = write_qdq(s.model, plan, s.found, s.options);
  return least_decibels(value_errors(exact, changed.model, {}, s.outputs, s.data, s.session), s.outputs);
}

}  // namespace

std::set<int> least_kept(const SensitivitySearch& s, ObservedModel& exact, double decibels) {
  if (decibels_with(s, exact, {}) >= decibels) return {};
  const QuantizationPlan plan = plan_quantization(s.model.graph, s.types, s.options.per_tensor, s.keep);
  std::set<int> all;
  for (size_t i = 0; i < s.model.graph.nodes.size(); ++i) {
    const std::string& op = s.model.graph.nodes[i].op_type;
    if (!plan.kept.count(static_cast<int>(i)) && (op == "Conv" || op == "ConvTranspose" || op == "Gemm" || op == "MatMul"))
      all.insert(static_cast<int>(i));
  }
  std::vector<std::pair<double, int>> worst;
  for (int i : all) {
    std::set<int> others = all;
    others.erase(i);
    worst.emplace_back(decibels_with(s, exact, others), i);
  }
  std::sort(worst.begin(), worst.end());
  const auto first = [&](size_t count) {
    std::set<int> kept;
    for (size_t k = 0; k < count; ++k) kept.insert(worst[k].second);
    return kept;
  };
  // More in float is closer, but for chance: halve what is unknown.
  size_t too_few = 0, enough = worst.size();
  while (too_few + 1 < enough) {
    const size_t middle = (too_few + enough) / 2;
    (decibels_with(s, exact, first(middle)) >= decibels ? enough : too_few) = middle;
  }
  if (enough == worst.size())
    throw CompileError({s.model.path, "", concat("the outputs reach ", decibels, " dB only with every layer in float32")});
  return first(enough);
}

}  // namespace metac
