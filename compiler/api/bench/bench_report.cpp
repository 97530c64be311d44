#include "compiler/api/bench/bench_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace metac {
namespace {

using Json = nlohmann::ordered_json;

template <typename... Args>
std::string format(const char* text, Args... args) {
  char line[400];
  std::snprintf(line, sizeof line, text, args...);
  return line;
}

// ms for so many operations, for so many bytes.
double arithmetic_ms(double operations, const MachinePeak& peak) { return operations / peak.gflops * 1e-6; }
double traffic_ms(double bytes, const MachinePeak& peak) { return bytes / peak.gbytes_per_second * 1e-6; }
double bound_ms(double operations, double bytes, const MachinePeak& peak) {
  return std::max(arithmetic_ms(operations, peak), traffic_ms(bytes, peak));
}

// Steps of one name together.
std::map<std::string, StepProfile> by_name(const std::vector<StepProfile>& steps) {
  std::map<std::string, StepProfile> sums;
  for (const StepProfile& step : steps) {
    if (step.runs == 0) continue;
    StepProfile& sum = sums[step.what];
    sum.what = step.what;
    sum.runs += step.runs;
    sum.ns += step.ns;
    sum.operations = sum.operations < 0 || step.operations < 0 ? -1 : sum.operations + step.operations;
    sum.bytes = sum.bytes < 0 || step.bytes < 0 ? -1 : sum.bytes + step.bytes;
  }
  return sums;
}

Json known(double amount) { return amount < 0 ? Json(nullptr) : Json(amount); }

Json profile_rows(const BenchResult& result, const MachinePeak* peak) {
  std::vector<StepProfile> rows;
  double total = 0;
  for (const auto& [unused, row] : by_name(result.profile)) rows.push_back(row), total += static_cast<double>(row.ns);
  std::stable_sort(rows.begin(), rows.end(), [](const StepProfile& a, const StepProfile& b) { return a.ns > b.ns; });
  Json list = Json::array();
  for (const StepProfile& row : rows) {
    const double ns = static_cast<double>(row.ns);
    const auto rate = [&](double amount) { return known(amount < 0 ? -1 : ns > 0 ? amount / ns : 0.0); };
    Json entry = {{"kernel", row.what},
                  {"launches", row.runs},
                  {"ns", row.ns},
                  {"share", total > 0 ? ns / total : 0.0},
                  {"operations", known(row.operations)},
                  {"bytes", known(row.bytes)},
                  {"gflops", rate(row.operations)},
                  {"gbytes_per_second", rate(row.bytes)}};
    const bool all = row.operations >= 0 && row.bytes >= 0;
    if (peak) entry["bound_share"] = known(!all ? -1 : ns > 0 ? bound_ms(row.operations, row.bytes, *peak) * 1e6 / ns : 0.0);
    list.push_back(std::move(entry));
  }
  return list;
}

std::string show_ms(double ms) {
  return ms >= 1000 ? format("%.2f s", ms / 1e3) : ms >= 1 ? format("%.2f ms", ms) : format("%.1f us", ms * 1e3);
}

std::string show_mib(const Json& bytes) { return format("%.1f MiB", bytes.get<double>() / (1 << 20)); }

}  // namespace

BenchTimes summarise_times(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  size_t n = milliseconds.size();
  auto at = [&](size_t percent) { return milliseconds[std::min(n - 1, n * percent / 100)]; };
  return {static_cast<int64_t>(n), milliseconds.front(), at(50), at(90), at(99), 0, 0};
}

Json bench_report(const BenchResult& result, const MachinePeak* peak) {
  const BenchTimes& t = result.times;
  const BenchMemory& m = result.memory;
  double operations = 0, arithmetic = 0, bound = 0;
  for (const auto& [unused, step] : by_name(result.steps)) {
    operations = operations < 0 || step.operations < 0 ? -1 : operations + step.operations;
    if (!peak || step.operations <= 0) continue;
    arithmetic += arithmetic_ms(step.operations, *peak);
    bound += bound_ms(step.operations, std::max(step.bytes, 0.0), *peak);
  }
  Json report = {{"runs", t.runs},
                 {"min_ms", t.min_ms},
                 {"median_ms", t.median_ms},
                 {"p90_ms", t.p90_ms},
                 {"p99_ms", t.p99_ms},
                 {"runs_per_second", 1e3 / t.median_ms},
                 {"ready_ms", t.ready_ms},
                 {"first_ms", t.first_ms},
                 {"operations", known(operations)},
                 {"gflops", known(operations < 0 ? -1 : operations / t.median_ms * 1e-6)},
                 {"memory",
                  {{"arena_bytes", m.arena},
                   {"live_set_bytes", m.least ? Json(*m.least) : Json(nullptr)},
                   {"held_bytes", m.held},
                   {"weight_bytes", m.weights}}}};
  if (m.peak_resident > 0) report["memory"]["peak_resident_bytes"] = m.peak_resident;
  if (peak) {
    report["peak"] = {{"threads", peak->threads}, {"gflops", peak->gflops}, {"gbytes_per_second", peak->gbytes_per_second}};
    report["bound_ms"] = known(operations < 0 ? -1 : bound);
    report["bound_share"] = known(operations < 0 ? -1 : bound / t.median_ms);
    report["arithmetic_ms"] = known(operations < 0 ? -1 : arithmetic);
  }
  if (result.profile.empty()) return report;
  report["profiled_runs"] = result.profiled_runs;
  report["profiled_ms"] = result.profiled_ms;
  report["profile"] = profile_rows(result, peak);
  return report;
}

namespace {

// "-" for what is not known or nothing.
std::string show_rate(const Json& from, const char* key) {
  const double rate = from.at(key).is_null() ? 0 : from.at(key).get<double>();
  return rate > 0 ? format(rate < 0.1 ? "%.1g" : "%.1f", rate) : "-";
}
std::string show_share(const Json& from, const char* key) {
  const double share = !from.contains(key) || from.at(key).is_null() ? 0 : from.at(key).get<double>();
  return share > 0 ? format("%.0f%%", 100 * share) : "-";
}

std::string profile_text(const Json& r) {
  const double runs = r.at("profiled_runs").get<double>(), plain = r.at("median_ms").get<double>(),
               profiled = r.at("profiled_ms").get<double>();
  double ns = 0;
  for (const Json& row : r.at("profile")) ns += row.at("ns").get<double>();
  std::string text =
      format("\nprofile of %.0f runs: median %s a run, %+.1f%% of the runs above; its steps take %s in the mean\n", runs,
             show_ms(profiled).c_str(), 100 * (profiled / plain - 1), show_ms(ns / runs * 1e-6).c_str());
  text += format("%7s %10s %9s %9s %8s %8s  %s\n", "share", "a run", "launches", "GFLOP/s", "GB/s", "of bound", "kernel");
  for (const Json& row : r.at("profile"))
    text += format("%6.1f%% %10s %9.4g %9s %8s %8s  %s\n", 100 * row.at("share").get<double>(),
                   show_ms(row.at("ns").get<double>() / runs * 1e-6).c_str(), row.at("launches").get<double>() / runs,
                   show_rate(row, "gflops").c_str(), show_rate(row, "gbytes_per_second").c_str(),
                   show_share(row, "bound_share").c_str(), row.at("kernel").get<std::string>().substr(0, 200).c_str());
  return text;
}

}  // namespace

std::string bench_text(const Json& r) {
  auto number = [](const Json& from, const char* key) { return from.at(key).get<double>(); };
  std::string text;
  auto ms = [&](const char* key) { return show_ms(number(r, key)); };
  text += "min " + ms("min_ms") + ", median " + ms("median_ms") + ", p90 " + ms("p90_ms") + ", p99 " + ms("p99_ms") +
          format(" over %lld runs: %.1f a second (ready in ", r.at("runs").get<long long>(), number(r, "runs_per_second")) +
          ms("ready_ms") + ", first run " + ms("first_ms") + ")\n";
  const Json& memory = r.at("memory");
  text += "memory: " + show_mib(memory.at("weight_bytes")) + " of weights, arena " + show_mib(memory.at("arena_bytes"));
  if (!memory.at("live_set_bytes").is_null())
    text += " (at least " + show_mib(memory.at("live_set_bytes")) + " live at once)";
  text += "; with scratch and results " + show_mib(memory.at("held_bytes"));
  if (memory.contains("peak_resident_bytes"))
    text += "; " + show_mib(memory.at("peak_resident_bytes")) + " resident at most";
  text += "\n";
  const bool known = !r.at("operations").is_null(), any = known && number(r, "operations") > 0;
  if (any)
    text +=
        format("contractions: %.3f billion operations, %.1f GFLOP/s\n", number(r, "operations") * 1e-9, number(r, "gflops"));
  if (!known) text += "contractions: how many operations is not known (the model has code of its own)\n";
  if (r.contains("peak")) {
    const Json& peak = r.at("peak");
    int threads = peak.at("threads").get<int>();
    text += format("machine: %.1f GFLOP/s of float32 FMA, %.1f GB/s read from memory on %d thread%s", number(peak, "gflops"),
                   number(peak, "gbytes_per_second"), threads, threads == 1 ? "" : "s");
    if (any)
      text += "; at that the contractions take " + ms("bound_ms") +
              format(" (%.0f%% of it reached), their arithmetic alone ", 100 * number(r, "bound_share")) +
              ms("arithmetic_ms");
    text += "\n";
  }
  return r.contains("profile") ? text + profile_text(r) : text;
}

}  // namespace metac
