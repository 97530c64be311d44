#include "compiler/api/bench/machine_costs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>

#include "compiler/api/bench/best_time.h"
#include "compiler/jit/kernel_library.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "runtime/process/thread_pool.h"

namespace metac {
namespace {

// Kernels of one thread. b[0]: 64 floats that make results count; b[1]: the block; s: numbers of each.
enum Which { clock, one_chain, all_chains, in_order, pieces };

KernelSource kernel(const char* name, const std::string& body) {
  return {name,
          concat("extern \"C\" void ", name, "(void* const* b, const int64_t* s, void*, int64_t begin, int64_t end) {\n",
                 body, "}\n"),
          {},
          {}};
}

// An exclusive or and an addition, each of a cycle and each waiting for the one before.
KernelSource clock_kernel() {
  return kernel("costs_clock",
                "  uint64_t x = static_cast<uint64_t>(end);\n"
                "  for (int64_t i = begin; i < end; ++i) x = (x ^ static_cast<uint64_t>(i)) + 0x9e3779b97f4a7c15ull;\n"
                "  (void)s, *static_cast<uint64_t*>(b[0]) = x;\n");
}

KernelSource chains_kernel(const char* name, int lanes, int count) {
  const std::string v = concat("f32x", lanes);
  return kernel(name, concat("  ", v, " m = broadcast<", v, ">(0.999f), a[", count, "];\n  for (int k = 0; k < ", count,
                             "; ++k) a[k] = broadcast<", v, ">(1.0f + k);\n  for (int64_t i = begin; i < end; ++i)\n",
                             "    for (int k = 0; k < ", count, "; ++k) a[k] = fma(a[k], m, m);\n  for (int k = 1; k < ",
                             count, "; ++k) a[0] = a[0] + a[k];\n  (void)s, store(static_cast<float*>(b[0]), a[0]);\n"));
}

// s[0] elements in order, end - begin times. Bits are joined, in a cycle, so that nothing waits but for loads.
KernelSource in_order_kernel(int lanes) {
  const std::string v = concat("i32x", lanes);
  std::string text = concat("  const int32_t* x = static_cast<const int32_t*>(b[1]);\n  ", v, " r0 = zero<", v,
                            ">(), r1 = r0, r2 = r0, r3 = r0;\n  for (int64_t i = begin; i < end; ++i)\n",
                            "    for (int64_t k = 0; k < s[0]; k += ", 4 * lanes, ") {\n");
  for (int k = 0; k < 4; ++k) text += concat("      r", k, " = bit_or(r", k, ", load<", v, ">(x + k + ", k * lanes, "));\n");
  return kernel("costs_in_order",
                text + "    }\n  store(static_cast<int32_t*>(b[0]), bit_or(bit_or(r0, r1), bit_or(r2, r3)));\n");
}

// s[0] pieces of s[1] elements, s[2] from one to the next, end - begin times.
KernelSource pieces_kernel(int lanes) {
  const std::string v = concat("i32x", lanes);
  return kernel("costs_pieces",
                concat("  const int32_t* x = static_cast<const int32_t*>(b[1]);\n  ", v, " r = zero<", v,
                       ">();\n  for (int64_t i = begin; i < end; ++i)\n    for (int64_t p = 0; p < s[0]; ++p)\n",
                       "      for (int64_t k = 0; k < s[1]; k += ", lanes, ") r = bit_or(r, load<", v,
                       ">(x + p * s[2] + k));\n  store(static_cast<int32_t*>(b[0]), r);\n"));
}

class CostMeasurement {
 public:
  CostMeasurement(const CpuTarget& cpu, const MachinePeak& peak)
      : cpu_(cpu),
        peak_(peak),
        lanes_(cpu.vector_bytes / 4),
        library_({clock_kernel(), chains_kernel("costs_one_chain", lanes_, 1),
                  chains_kernel("costs_all_chains", lanes_, chains), in_order_kernel(lanes_), pieces_kernel(lanes_)},
                 cpu),
        memory_(block_bytes / sizeof(float) + 16, 1.0f),
        block_(memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64 / sizeof(float)) {}

  // Twice, as the first time is when the best clock is found.
  std::vector<MeasuredCost> run() {
    for (int pass = 0; pass < 2; ++pass) {
      costs_.clear();
      measure_first_level();
      measure_arithmetic();
      measure_levels();
      measure_pieces();
      measure_threads();
    }
    return std::move(costs_);
  }

 private:
  // A round is short and there are many, so that some are not disturbed where others use the machine.
  static constexpr int64_t steps = 400'000;
  static constexpr int rounds = 25;
  static constexpr int chains = 12;  // independent sums: more than the latency times the throughput of multiply-adds
  static constexpr int64_t block_bytes = 256 << 20;  // beyond all caches

  void add(const char* name, std::optional<double> value, double in_table, bool is_count = false) {
    costs_.push_back({name, value, in_table, is_count});
  }

  void call(Which which, int64_t times, std::array<int64_t, 3> numbers = {}, int thread = 0, int64_t first = 0) {
    void* buffers[] = {results_[thread], block_ + first};
    library_.functions()[which](buffers, numbers.data(), nullptr, 0, times);
  }
  double time_of(Which which, int64_t times, std::array<int64_t, 3> numbers = {}) {
    call(which, 1, numbers);
    return best_of([&](int) { call(which, times, numbers); });
  }
  // The best of the rounds; the clock is looked at in each.
  template <typename F>
  double best_of(F part) {
    double best = 1e30;
    for (int round = 0; round < rounds; ++round) {
      const double ticks = best_time(1, 1, [&](int) { call(clock, steps); });
      cycles_a_second_ = std::max(cycles_a_second_, 2 * steps / ticks);
      best = std::min(best, best_time(1, 1, [&](int) { part(round); }));
    }
    return best;
  }

  static std::optional<double> told(int what) {
    const long value = sysconf(what);
    return value > 0 ? std::optional<double>(static_cast<double>(value)) : std::nullopt;
  }

  // What the system says of the first level; nothing where it says nothing.
  void measure_first_level() {
    const auto line = told(_SC_LEVEL1_DCACHE_LINESIZE), ways = told(_SC_LEVEL1_DCACHE_ASSOC),
               bytes = told(_SC_LEVEL1_DCACHE_SIZE);
    if (line) line_bytes_ = static_cast<int64_t>(*line);
    add("line_bytes", line, cpu_costs.line_bytes, true);
    add("cache_ways", ways, static_cast<double>(cpu_costs.cache_ways), true);
    add("way_bytes", ways && bytes ? std::optional(*bytes / *ways) : std::nullopt, cpu_costs.way_bytes, true);
  }

  // Bytes a cycle of reading `bytes` in order again and again.
  double rate(int64_t bytes) {
    const int64_t whole = 16 * lanes_, size = bytes / whole * whole, times = std::max<int64_t>(1, (16 << 20) / size);
    return static_cast<double>(size) * static_cast<double>(times) /
           (time_of(in_order, times, {size / 4}) * cycles_a_second_);
  }

  void measure_arithmetic() {
    const double one = time_of(one_chain, steps), all = time_of(all_chains, steps);
    const double near = rate(16 << 10), second = rate(cpu_.l2_bytes / 2);
    // Lines that lie apart, of half of the second level: nothing brings the next one ahead. An odd number of lines, so that
    // they are in all sets.
    const int64_t apart = 17 * line_bytes_ / 4, count = cpu_.l2_bytes / 2 / (17 * line_bytes_), times = 256;
    const double far_lines = time_of(pieces, times, {count, lanes_, apart}) * cycles_a_second_ /
                             (static_cast<double>(count) * static_cast<double>(times));
    const double line = static_cast<double>(line_bytes_);
    add("data_line", far_lines, cpu_costs.data_line);
    add("panel_line", std::max(0.0, line / second - line / near), cpu_costs.panel_line);
    add("multiply_adds", chains * static_cast<double>(steps) / (all * cycles_a_second_), cpu_costs.multiply_adds);
    add("multiply_latency", one * cycles_a_second_ / steps, cpu_costs.multiply_latency);
    add("loads_a_cycle", near / cpu_.vector_bytes, cpu_costs.loads_a_cycle);
    second_rate_ = second;
  }

  void measure_levels() {
    const int waiting = std::min(2, peak_.threads);
    // Each thread a part of its own, another one in each round, so that no cache has it.
    const int64_t share = block_bytes / 4 / waiting, part = share / 8 / (4 * lanes_) * (4 * lanes_);
    double time = 1e30;
    for (int round = 0; round < rounds; ++round)
      time =
          std::min(time, best_time(waiting, 1, [&](int t) { call(in_order, 1, {part}, t, share * t + round % 8 * part); }));
    memory_rate_ = static_cast<double>(part) * 4 / (time * cycles_a_second_);
    add("memory_bytes", memory_rate_, cpu_costs.memory_bytes);
    const auto third = told(_SC_LEVEL3_CACHE_SIZE);
    const int64_t beyond = 3 * cpu_.l2_bytes;
    add("stream_far", third && *third >= 2.0 * static_cast<double>(beyond) ? std::optional(rate(beyond)) : std::nullopt,
        cpu_costs.stream_far);
    add("stream_near", second_rate_, cpu_costs.stream_near);
  }

  // The longest pieces that come at less than three eighths and at less than three quarters of the speed of what lies
  // together: those between take about twice, the shorter ones four times as long.
  void measure_pieces() {
    // At another place in each round, so that no cache has them.
    const auto speed = [&](int64_t bytes) {
      const int64_t apart = bytes + 4096 + line_bytes_, count = std::min(block_bytes / apart - 1, (8 << 20) / bytes);
      const double time = best_of([&](int round) {
        const int64_t first = bytes > 4096 ? round % 8 * (32 << 20) : 5 * round * bytes % 4096;
        call(pieces, 1, {count, bytes / 4, apart / 4}, 0, first / 4);
      });
      return static_cast<double>(count * bytes) / time;
    };
    const double together = speed(4 << 20);
    int64_t slow = 0, middle = 0;
    for (int64_t bytes = line_bytes_; bytes <= 4096; bytes *= 2) {
      const double share = speed(bytes) / together;
      if (share < 0.375) slow = bytes;
      if (share < 0.75) middle = bytes;
    }
    add("short_piece", static_cast<double>(slow), static_cast<double>(cpu_costs.short_piece), true);
    add("middle_piece", static_cast<double>(middle), static_cast<double>(cpu_costs.middle_piece), true);
  }

  // What one thread wrote, read by another; and a start of all threads, as bytes that come from memory meanwhile.
  void measure_threads() {
    add("slice_cached", memory_rate_ / second_rate_, cpu_costs.slice_cached);
    std::optional<double> shared, launch;
    if (peak_.threads > 1) {
      shared = memory_rate_ * cycles_a_second_ * time_of_shared_byte();
      launch = time_of_launch() * peak_.gbytes_per_second * 1e9;
    }
    add("slice_shared", shared, cpu_costs.slice_shared);
    add("slice_launch", launch, cpu_costs.slice_launch);
  }

  // Two threads by turns: one writes a quarter of its second level, the other reads it.
  double time_of_shared_byte() {
    const int64_t whole = 4 * lanes_, elements = cpu_.l2_bytes / 16 / whole * whole;
    constexpr int turns = 200;
    std::atomic<int> turn{0};
    const auto wait_for = [&](int mine) {
      while (turn.load(std::memory_order_acquire) < mine) std::this_thread::yield();
    };
    double best = 1e30;
    std::thread writer([&] {
      for (int k = 0; k < turns; ++k) {
        wait_for(2 * k);
        std::fill_n(block_, elements, static_cast<float>(k));
        turn.store(2 * k + 1, std::memory_order_release);
      }
    });
    for (int k = 0; k < turns; ++k) {
      wait_for(2 * k + 1);
      best = std::min(best, best_time(1, 1, [&](int) { call(in_order, 1, {elements}, 1); }));
      turn.store(2 * k + 2, std::memory_order_release);
    }
    writer.join();
    return best / static_cast<double>(4 * elements);
  }

  // A launch of tasks that all end a fixed time after they began, less that time.
  double time_of_launch() {
    constexpr int64_t task_ns = 20'000;
    metac_runtime::ThreadPool pool;
    if (!pool.start(peak_.threads)) return 0;
    pool.set_dynamic(false);
    const metac_runtime::Body task = [](void*, int32_t, int64_t, int64_t) {
      for (const int64_t end = metac_runtime::now_ns() + task_ns; metac_runtime::now_ns() < end;) metac_runtime::relax();
    };
    std::vector<double> times;
    for (int k = 0; k < 400; ++k)
      times.push_back(best_time(1, 1, [&](int) { pool.run(peak_.threads, 5 * task_ns, task, nullptr); }));
    std::sort(times.begin(), times.end());
    return std::max(0.0, times[times.size() / 10] - 1e-9 * static_cast<double>(task_ns));
  }

  const CpuTarget& cpu_;
  const MachinePeak& peak_;
  const int64_t lanes_;
  KernelLibrary library_;
  std::vector<float> memory_;
  float* const block_;  // in it, at the beginning of a line
  alignas(64) float results_[2][64] = {};
  std::vector<MeasuredCost> costs_;
  double cycles_a_second_ = 0, second_rate_ = 0, memory_rate_ = 0;  // rates: bytes a cycle of a thread
  int64_t line_bytes_ = cpu_costs.line_bytes;
};

}  // namespace

std::vector<MeasuredCost> measure_cpu_costs(const CpuTarget& cpu, const MachinePeak& peak) {
  return CostMeasurement(cpu, peak).run();
}

std::string row_text(const std::vector<MeasuredCost>& costs) {
  std::string text;
  for (const MeasuredCost& c : costs) {
    char value[64], known[64], line[200];
    const char* form = c.is_count ? "%.0f" : "%.3g";
    std::snprintf(value, sizeof value, form, c.value.value_or(0));
    std::snprintf(known, sizeof known, form, c.in_table);
    std::snprintf(line, sizeof line, "  .%s = %s,%*s// the table: %s\n", c.name.c_str(), c.value ? value : known,
                  std::max(1, 26 - static_cast<int>(c.name.size() + std::string(c.value ? value : known).size())), "",
                  known);
    text += line;
    if (!c.value) text.insert(text.size() - 1, "; not measured here");
  }
  return text;
}

}  // namespace metac
