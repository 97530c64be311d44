#include "compiler/api/bench/bench_baseline.h"

#include <nlohmann/json.hpp>

#include "compiler/support/diagnostic.h"

namespace metac {

BaselineComparison compare_with_baseline(const nlohmann::ordered_json& report, const std::string& baseline,
                                         const std::string& path, double threshold) {
  BaselineComparison result;
  try {
    const nlohmann::json before = nlohmann::json::parse(baseline);
    const auto change = [&](const char* key) {
      const double was = before.at(key).get<double>();
      if (!(was > 0)) fail(quoted(std::string(key)), " is ", was);
      return report.at(key).get<double>() / was - 1;
    };
    result.median_change = change("median_ms");
    result.least_change = change("min_ms");
    const double was = before.at("memory").value("arena_bytes", 0.0), is = report.at("memory").value("arena_bytes", 0.0);
    if (was > 0) result.memory_change = is / was - 1;
  } catch (const nlohmann::json::exception& error) {
    throw CompileError({path, "", concat("is no report of `metac bench MODEL --json`: ", error.what())});
  }
  result.slower = result.median_change > threshold && result.least_change > threshold;
  result.larger = result.memory_change > threshold;
  return result;
}

}  // namespace metac
