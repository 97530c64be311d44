// A model with one result, compiled for a processor and held against the reference's answer.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"

namespace metac {

// What was done to the model's kernels for that processor, line by line, after its answer (where this machine can run it, by
// two threads) was found within 1e-5 of the result's largest magnitude, and `more`.
inline std::string schedule_that_answers(const Model& model, const char* cpu, const std::vector<Tensor>& inputs,
                                         const Tensor& expected, double more = 0) {
  CompileOptions options;
  options.cpu = cpu_target(cpu);
  const CompiledModel compiled = compile_graph(*lower_model(model, {}), options);
  std::string schedule;
  for (const KernelSource& kernel : compiled.run.kernels)
    for (const std::string& step : kernel.schedule) schedule += step + "\n";
  if (!runs_here(options.cpu)) return schedule;
  const Tensor found =
      JitProgram(std::make_shared<CompiledProgram>(compiled.run), run_prepare(compiled, options.cpu), options.cpu, 2)
          .run(inputs)[0];
  EXPECT_EQ(found.shape, expected.shape) << cpu;
  if (found.shape != expected.shape) return schedule;
  double largest = 0, apart = 0;
  for (int64_t k = 0; k < expected.element_count(); ++k) {
    largest = std::max(largest, std::fabs(number_at(expected, k)));
    apart = std::max(apart, std::fabs(number_at(found, k) - number_at(expected, k)));
  }
  EXPECT_LE(apart, 1e-5 * largest + more) << cpu;
  return schedule;
}

}  // namespace metac
