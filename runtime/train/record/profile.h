// The table of --profile: each kernel of a step with its time, what it computed and moved in it, and how much of what the
// machine can do that is.
#pragma once
#include <optional>

#include "../library_session.h"
#include "machine_peak.h"

namespace metac::train {

struct ProfiledKernel {
  std::string name;
  int64_t runs, nanoseconds;
  double operations, bytes;  // of all runs; -1: not known
};

inline ProfiledKernel profiled_kernel(const Library& library, const LibrarySession::KernelTime& time, bool with_library) {
  return {with_library ? text_of(library.name, " ", time.name) : time.name, time.runs, time.nanoseconds, time.operations,
          time.bytes};
}

// "of bound": the time that its operations or its bytes take at the least, whichever is longer, as a part of the time it
// took. Over 100 %: what it reads was in a cache, or its algorithm needs fewer operations (minimal filtering). Without a
// peak (kernels of a GPU) that column is empty. "-": it sums no products, moves nothing, or that is not known.
inline std::string profile_text(std::vector<ProfiledKernel> rows, int64_t steps, const std::optional<MachinePeak>& peak) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfiledKernel& a, const ProfiledKernel& b) { return a.nanoseconds > b.nanoseconds; });
  double total = 1;
  for (const ProfiledKernel& row : rows) total += static_cast<double>(row.nanoseconds);
  char line[256];
  std::string text;
  if (peak) {
    std::snprintf(line, sizeof line, "machine: %.1f GFLOP/s of float32 multiply-adds, %.1f GB/s read from memory\n",
                  peak->operations * 1e-9, peak->bytes * 1e-9);
    text += line;
  }
  std::snprintf(line, sizeof line, "%10s %6s %9s %9s %8s %8s  kernel of a step\n", "ms/step", "share", "runs", "GFLOP/s",
                "GB/s", peak ? "of bound" : "");
  text += line;
  for (const ProfiledKernel& row : rows) {
    const double seconds = 1e-9 * static_cast<double>(std::max<int64_t>(1, row.nanoseconds));
    const auto rate = [&](double amount) {
      char number[24] = "-";
      const double giga = amount / seconds * 1e-9;
      if (amount > 0) std::snprintf(number, sizeof number, giga < 0.1 ? "%.1g" : "%.1f", giga);
      return std::string(number);
    };
    const double bound = peak ? std::max(row.operations / peak->operations, row.bytes / peak->bytes) / seconds : 0;
    char share[16] = "";
    if (bound > 0)
      std::snprintf(share, sizeof share, "%.0f%%", 100 * bound);
    else if (peak)
      std::snprintf(share, sizeof share, "-");
    std::snprintf(line, sizeof line, "%10.3f %5.1f%% %9lld %9s %8s %8s  ",
                  1e3 * seconds / static_cast<double>(std::max<int64_t>(1, steps)),
                  100.0 * static_cast<double>(row.nanoseconds) / total, static_cast<long long>(row.runs),
                  rate(row.operations).c_str(), rate(row.bytes).c_str(), share);
    text += line + row.name + "\n";
  }
  return text;
}

}  // namespace metac::train
