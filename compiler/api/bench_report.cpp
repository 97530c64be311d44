#include "compiler/api/bench_report.h"

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

Json profile_rows(const BenchResult& result, const MachinePeak* peak) {
  std::map<std::string, KernelTime> by_name;
  int64_t total = 0;
  for (const KernelTime& row : result.profile) {
    KernelTime& sum = by_name[row.name];
    sum.name = row.name;
    sum.launches += row.launches;
    sum.ns += row.ns;
    total += row.ns;
  }
  std::vector<KernelTime> rows;
  for (const auto& [unused, row] : by_name) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [](const KernelTime& a, const KernelTime& b) { return a.ns > b.ns; });
  Json list = Json::array();
  for (const KernelTime& row : rows) {
    auto found = result.kernels.find(row.name);
    ContractionWork work = found == result.kernels.end() ? ContractionWork() : found->second;
    double ns = static_cast<double>(row.ns), launches = static_cast<double>(row.launches);
    Json entry = {{"kernel", row.name},
                  {"launches", row.launches},
                  {"ns", row.ns},
                  {"share", total > 0 ? ns / static_cast<double>(total) : 0.0},
                  {"gflops", ns > 0 ? work.operations * launches / ns : 0.0},
                  {"gbytes_per_second", ns > 0 ? work.bytes * launches / ns : 0.0}};
    if (peak) entry["bound_share"] = ns > 0 ? bound_ms(work.operations, work.bytes, *peak) * launches * 1e6 / ns : 0.0;
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
  for (const ContractionWork& work : result.contractions) {
    operations += work.operations;
    if (!peak) continue;
    arithmetic += arithmetic_ms(work.operations, *peak);
    bound += bound_ms(work.operations, work.bytes, *peak);
  }
  Json report = {{"runs", t.runs},
                 {"min_ms", t.min_ms},
                 {"median_ms", t.median_ms},
                 {"p90_ms", t.p90_ms},
                 {"p99_ms", t.p99_ms},
                 {"runs_per_second", 1e3 / t.median_ms},
                 {"ready_ms", t.ready_ms},
                 {"first_ms", t.first_ms},
                 {"operations", operations},
                 {"gflops", operations / t.median_ms * 1e-6},
                 {"memory", {{"arena_bytes", m.arena}, {"live_set_bytes", m.live_set}, {"weight_bytes", m.weights}}}};
  if (m.peak_resident > 0) report["memory"]["peak_resident_bytes"] = m.peak_resident;
  if (peak) {
    report["peak"] = {{"threads", peak->threads}, {"gflops", peak->gflops}, {"gbytes_per_second", peak->gbytes_per_second}};
    report["bound_ms"] = bound;
    report["bound_share"] = bound / t.median_ms;
    report["arithmetic_ms"] = arithmetic;
  }
  if (!result.profile.empty()) report["profile"] = profile_rows(result, peak);
  return report;
}

std::string bench_text(const Json& r) {
  auto number = [](const Json& from, const char* key) { return from.at(key).get<double>(); };
  std::string text;
  auto ms = [&](const char* key) { return show_ms(number(r, key)); };
  text += "min " + ms("min_ms") + ", median " + ms("median_ms") + ", p90 " + ms("p90_ms") + ", p99 " + ms("p99_ms") +
          format(" over %lld runs: %.1f a second (ready in ", r.at("runs").get<long long>(), number(r, "runs_per_second")) +
          ms("ready_ms") + ", first run " + ms("first_ms") + ")\n";
  const Json& memory = r.at("memory");
  text += "memory: " + show_mib(memory.at("weight_bytes")) + " of weights, arena " + show_mib(memory.at("arena_bytes")) +
          " (at least " + show_mib(memory.at("live_set_bytes")) + " live at once)";
  if (memory.contains("peak_resident_bytes"))
    text += ", " + show_mib(memory.at("peak_resident_bytes")) + " resident at most";
  text += "\n";
  if (number(r, "operations") > 0)
    text +=
        format("contractions: %.3f billion operations, %.1f GFLOP/s\n", number(r, "operations") * 1e-9, number(r, "gflops"));
  if (r.contains("peak")) {
    const Json& peak = r.at("peak");
    int threads = peak.at("threads").get<int>();
    text += format("machine: %.1f GFLOP/s of float32 FMA, %.1f GB/s read from memory on %d thread%s", number(peak, "gflops"),
                   number(peak, "gbytes_per_second"), threads, threads == 1 ? "" : "s");
    if (number(r, "operations") > 0)
      text += "; at that the contractions take " + ms("bound_ms") +
              format(" (%.0f%% of it reached), their arithmetic alone ", 100 * number(r, "bound_share")) +
              ms("arithmetic_ms");
    text += "\n";
  }
  if (!r.contains("profile")) return text;
  text += format("\n%7s %10s %9s %9s %8s %8s  %s\n", "share", "time", "launches", "GFLOP/s", "GB/s", "of bound", "kernel");
  for (const Json& row : r.at("profile"))
    text += format("%6.1f%% %10s %9lld %9.1f %8.1f %7.0f%%  %s\n", 100 * number(row, "share"),
                   show_ms(number(row, "ns") * 1e-6).c_str(), row.at("launches").get<long long>(), number(row, "gflops"),
                   number(row, "gbytes_per_second"), row.contains("bound_share") ? 100 * number(row, "bound_share") : 0.0,
                   row.at("kernel").get<std::string>().substr(0, 200).c_str());
  return text;
}

}  // namespace metac
