// What this machine can do at best, measured with kernels of our own compiler.
#pragma once
#include "compiler/program/compile.h"

namespace metac {

struct MachinePeak {
  int threads = 1;
  double gflops = 0;             // float32 multiply-adds, two operations each, over all threads
  double gbytes_per_second = 0;  // reading memory well beyond the caches
};

// Takes about a second. `threads` 0: one per usable CPU.
MachinePeak measure_machine_peak(const CpuTarget& cpu, int threads);

}  // namespace metac
