#include "compiler/api/bench/machine_peak.h"

#include <vector>

#include "compiler/api/bench/best_time.h"
#include "compiler/jit/kernel_library.h"
#include "compiler/support/diagnostic.h"
#include "runtime/process/usable_cpus.h"

namespace metac {
namespace {

constexpr int chains = 12;  // independent accumulators: latency times throughput of every FMA unit there is, and some
constexpr int64_t block_bytes = 256 << 20;

KernelSource fma_kernel(int lanes) {
  std::string v = concat("f32x", lanes), text;
  text += "// multiply-adds on registers alone: " + std::to_string(chains) + " independent chains\n";
  text += "extern \"C\" void peak_fma(void* const* b, const int64_t*, void*, int64_t begin, int64_t end) {\n";
  text += concat("  ", v, " m = broadcast<", v, ">(0.999f), a[", chains, "];\n");
  text += concat("  for (int k = 0; k < ", chains, "; ++k) a[k] = broadcast<", v, ">(1.0f + k);\n");
  text += concat("  for (int64_t i = begin; i < end; ++i)\n    for (int k = 0; k < ", chains,
                 "; ++k) a[k] = fma(a[k], m, m);\n");
  text += concat("  for (int k = 1; k < ", chains, "; ++k) a[0] = a[0] + a[k];\n");
  text += "  store(static_cast<float*>(b[0]), a[0]);\n}\n";
  return {"peak_fma", text, {}, {}};
}

KernelSource read_kernel(int lanes) {
  std::string v = concat("f32x", lanes), text;
  text += "// the sum of a block far larger than the caches\n";
  text += "extern \"C\" void peak_read(void* const* b, const int64_t*, void*, int64_t begin, int64_t end) {\n";
  text += "  const float* x = static_cast<const float*>(b[1]);\n";
  text += concat("  ", v, " s0 = zero<", v, ">(), s1 = s0, s2 = s0, s3 = s0;\n");
  text += concat("  for (int64_t i = begin; i < end; i += ", 4 * lanes, ") {\n");
  for (int k = 0; k < 4; ++k) text += concat("    s", k, " = s", k, " + load<", v, ">(x + i + ", k * lanes, ");\n");
  text += "  }\n  store(static_cast<float*>(b[0]), s0 + s1 + s2 + s3);\n}\n";
  return {"peak_read", text, {}, {}};
}

}  // namespace

MachinePeak measure_machine_peak(const CpuTarget& cpu, int threads) {
  int lanes = cpu.vector_bytes / 4;
  KernelLibrary library({fma_kernel(lanes), read_kernel(lanes)}, cpu);
  MachinePeak peak;
  peak.threads = threads > 0 ? threads : metac_runtime::usable_cpus();
  std::vector<std::vector<float>> sinks(peak.threads, std::vector<float>(64));
  std::vector<float> block(block_bytes / sizeof(float), 1.0f);

  const int64_t steps = 4'000'000;
  double fma_time = best_time(peak.threads, 5, [&](int t) {
    void* buffers[2] = {sinks[t].data(), nullptr};
    library.functions()[0](buffers, nullptr, nullptr, 0, steps);
  });
  peak.gflops = 2.0 * lanes * chains * steps * peak.threads / fma_time * 1e-9;

  int64_t share = static_cast<int64_t>(block.size()) / peak.threads / (4 * lanes) * (4 * lanes);
  double read_time = best_time(peak.threads, 5, [&](int t) {
    void* buffers[2] = {sinks[t].data(), block.data()};
    library.functions()[1](buffers, nullptr, nullptr, share * t, share * (t + 1));
  });
  peak.gbytes_per_second = static_cast<double>(share) * peak.threads * sizeof(float) / read_time * 1e-9;
  return peak;
}

}  // namespace metac
