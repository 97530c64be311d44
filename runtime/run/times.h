// --bench and --profile: how long runs and their steps take.
#pragma once
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "../process/thread_pool.h"
#include "ports.h"

namespace METAC_RUNTIME_NAMESPACE {

struct Times {
  std::vector<double> runs;     // ms, ascending
  double ready = 0, first = 0;  // ms from the start to the first run, and of it
};

inline double percentile(const std::vector<double>& runs, size_t percent) {
  return runs[std::min(runs.size() - 1, runs.size() * percent / 100)];
}

// At least `least` runs, and for so long.
inline bool time_runs(size_t least, double seconds, std::vector<double>* runs) {
  const int64_t begin = now_ns();
  const bool terminal = isatty(2) != 0;
  int64_t told = begin;
  while (runs->size() < least || (static_cast<double>(now_ns() - begin) < seconds * 1e9 && runs->size() < 1000000)) {
    const int64_t start = now_ns();
    if (!library.run()) return false;
    const int64_t end = now_ns();
    runs->push_back(static_cast<double>(end - start) * 1e-6);
    if (terminal && end - told > 500000000) {
      told = end;
      std::fprintf(stderr, "\r%zu runs, %.0f of %.0f s", runs->size(), static_cast<double>(end - begin) * 1e-9, seconds);
    }
  }
  if (terminal) std::fprintf(stderr, "\r%*s\r", 40, "");
  std::sort(runs->begin(), runs->end());
  return true;
}

struct ProfileRow {
  std::string name;
  int64_t runs, ns;
  double operations, bytes;
};

// The steps that ran, those of one name together, the longest first.
inline std::vector<ProfileRow> profile_rows() {
  std::map<std::string, ProfileRow> by_name;
  int64_t runs = 0, ns = 0;
  for (int i = 0; const char* name = library.profile_row(i, &runs, &ns); ++i) {
    if (runs == 0) continue;
    double operations = -1, bytes = -1;
    library.profile_work(i, &operations, &bytes);
    ProfileRow& row = by_name.emplace(name, ProfileRow{name, 0, 0, 0, 0}).first->second;
    row.runs += runs;
    row.ns += ns;
    row.operations = row.operations < 0 || operations < 0 ? -1 : row.operations + operations;
    row.bytes = row.bytes < 0 || bytes < 0 ? -1 : row.bytes + bytes;
  }
  std::vector<ProfileRow> rows;
  for (const auto& entry : by_name) rows.push_back(entry.second);
  std::sort(rows.begin(), rows.end(),
            [](const ProfileRow& a, const ProfileRow& b) { return a.ns != b.ns ? a.ns > b.ns : a.name < b.name; });
  return rows;
}

// Of runs that are profiled, which are other runs than those timed: what the first did, and all of them.
struct Profile {
  std::vector<ProfileRow> first, all;
  std::vector<double> runs;  // ms, ascending
};

inline bool profile_runs(double seconds, Profile* profile) {
  if (!library.profile(true) || !time_runs(1, 0, &profile->runs)) return false;
  profile->first = profile->all = profile_rows();
  if (seconds > 0 && !time_runs(10, seconds, &profile->runs)) return false;
  profile->all = profile_rows();
  return library.profile(false);
}

inline void print_times(const Times& times) {
  std::printf("min %.3f ms  median %.3f ms  p90 %.3f ms  p99 %.3f ms  (%zu runs; ready in %.1f ms, first run %.3f ms)\n",
              times.runs.front(), percentile(times.runs, 50), percentile(times.runs, 90), percentile(times.runs, 99),
              times.runs.size(), times.ready, times.first);
}

// "-" for what is not known or nothing.
inline std::string rate_text(double amount, int64_t ns) {
  char text[32] = "-";
  const double rate = ns > 0 ? amount / static_cast<double>(ns) : 0;
  if (rate > 0) std::snprintf(text, sizeof text, rate < 0.1 ? "%.1g" : "%.1f", rate);
  return text;
}

inline void print_profile(const Profile& profile) {
  const double runs = static_cast<double>(profile.runs.size());
  int64_t total = 0;
  for (const ProfileRow& row : profile.all) total += row.ns;
  std::printf("profile of %zu runs: median %.3f ms, steps %.3f ms in the mean\n%10s %6s %8s %8s %8s  step\n",
              profile.runs.size(), percentile(profile.runs, 50), static_cast<double>(total) * 1e-6 / runs, "us/run", "share",
              "launches", "GFLOP/s", "GB/s");
  for (const ProfileRow& row : profile.all)
    std::printf("%10.1f %5.1f%% %8.4g %8s %8s  %s\n", static_cast<double>(row.ns) * 1e-3 / runs,
                100.0 * static_cast<double>(row.ns) / static_cast<double>(std::max<int64_t>(1, total)),
                static_cast<double>(row.runs) / runs, rate_text(row.operations, row.ns).c_str(),
                rate_text(row.bytes, row.ns).c_str(), row.name.c_str());
}

// Names of steps are the compiler's words: letters, digits and underscores.
inline void print_rows(const char* key, const std::vector<ProfileRow>& rows) {
  std::printf("\"%s\": [", key);
  const char* comma = "";
  for (const ProfileRow& row : rows) {
    std::printf("%s{\"name\": \"%s\", \"runs\": %lld, \"ns\": %lld, \"operations\": %.17g, \"bytes\": %.17g}", comma,
                row.name.c_str(), static_cast<long long>(row.runs), static_cast<long long>(row.ns), row.operations,
                row.bytes);
    comma = ", ";
  }
  std::printf("]");
}

inline void print_json(const Times& times, const Profile& profile, bool with_profile) {
  rusage usage = rusage();
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"cpu\": \"%s\", \"runs\": %zu, \"min_ms\": %.6f, \"median_ms\": %.6f, \"p90_ms\": %.6f, \"p99_ms\": %.6f, "
      "\"ready_ms\": %.6f, \"first_ms\": %.6f, "
      "\"peak_resident_bytes\": %lld, \"arena_bytes\": %lld, \"held_bytes\": %lld, ",
      library.cpu_of_context(), times.runs.size(), times.runs.front(), percentile(times.runs, 50),
      percentile(times.runs, 90), percentile(times.runs, 99), times.ready, times.first,
      static_cast<long long>(usage.ru_maxrss) * 1024, static_cast<long long>(library.arena_bytes()),
      static_cast<long long>(library.held_bytes()));
  print_rows("steps", profile.first);
  std::printf(", \"profiled_runs\": %zu, \"profiled_median_ms\": %.6f, ", profile.runs.size(), percentile(profile.runs, 50));
  print_rows("profile", with_profile ? profile.all : std::vector<ProfileRow>());
  std::printf("}\n");
}

}  // namespace METAC_RUNTIME_NAMESPACE
