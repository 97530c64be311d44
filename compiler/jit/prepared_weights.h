// The weights of a program as it reads them: what its prepare program made of the model's parameters.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "compiler/jit/kernel_library.h"
#include "compiler/program/program.h"

namespace metac {

// A block of memory, 64-byte aligned.
using WeightsBlock = std::shared_ptr<const std::byte>;

// Zeros: a block of that many bytes and a line of 64 bytes behind it. Throws CompileError where there is no memory.
std::shared_ptr<std::byte> make_weights_block(int64_t bytes);

// Where prepared weights are to lie: `bytes` from there on are written. Two sources may be given the same place.
using PlaceOfWeights = std::function<std::byte*(const WeightSource&)>;

// Runs the prepare program of `model` on `parameters` (model.parameters, or others of the same types in their order).
void run_prepare_into(const CompiledModel& model, const std::vector<RawParameter>& parameters, const CpuTarget& cpu,
                      const JitOptions& options, const PlaceOfWeights& place);

// The same into one block, laid out as the program has it: what libraries are shipped with.
WeightsBlock run_prepare(const CompiledModel& model, const std::vector<RawParameter>& parameters, const CpuTarget& cpu,
                         const JitOptions& options = {});
inline WeightsBlock run_prepare(const CompiledModel& model, const CpuTarget& cpu, const JitOptions& options = {}) {
  return run_prepare(model, model.parameters, cpu, options);
}

// What a program's executor is given: one block, or a block for each source, which programs can share.
class PreparedWeights {
 public:
  PreparedWeights(WeightsBlock block = nullptr) : blocks_{std::move(block)} {}
  // blocks[k] is of model.weights[k].
  PreparedWeights(const CompiledModel& model, std::vector<WeightsBlock> blocks);

  const std::byte* base() const { return blocks_.empty() ? nullptr : blocks_[0].get(); }
  // The program's buffers with weights' offsets counted from base(); empty where they are as compiled.
  const std::vector<rt::Buffer>& buffers() const { return buffers_; }

 private:
  std::vector<WeightsBlock> blocks_;
  std::vector<rt::Buffer> buffers_;
};

}  // namespace metac
