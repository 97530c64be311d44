#include "compiler/jit/prepared_weights.h"

#include <cstring>
#include <map>

#include "compiler/jit/jit_program.h"
#include "compiler/jit/run_error.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/large_block.h"
#include "runtime/memory.h"

namespace metac {

std::shared_ptr<std::byte> make_weights_block(int64_t bytes) {
  // Kernels may read the rest of a vector behind the last element.
  std::shared_ptr<std::byte> block = large_block(static_cast<size_t>(bytes + rt::alignment));
  if (!block) throw no_memory(bytes, "bytes of weights");
  return block;
}

void run_prepare_into(const CompiledModel& model, const std::vector<RawParameter>& parameters, const CpuTarget& cpu,
                      const JitOptions& options, const PlaceOfWeights& place) {
  std::vector<rt::OutputView> outputs(model.prepare.outputs.size(), rt::OutputView{nullptr, 0});
  for (const WeightSource& source : model.weights) {
    if (source.parameter >= 0) {
      const Tensor& tensor = parameters.at(static_cast<size_t>(source.parameter)).tensor;
      METAC_ASSERT(static_cast<int64_t>(tensor.byte_count()) <= source.bytes, "a parameter is larger than its place");
      if (tensor.byte_count()) std::memcpy(place(source), tensor.bytes.get(), tensor.byte_count());
    } else if (rt::OutputView& output = outputs.at(static_cast<size_t>(source.prepare_output)); !output.data) {
      output = {place(source), source.bytes};
    }
  }
  if (!model.prepare.outputs.empty()) {
    auto code = std::make_shared<const JitCode>(std::shared_ptr<const CompiledProgram>(&model.prepare, [](auto*) {}),
                                                PreparedWeights(), cpu, JitOptions{options.threads, options.store});
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < model.prepare.inputs.size(); ++i) inputs.push_back(parameters.at(i).tensor);
    JitProgram(code, options.threads).run_into(inputs, outputs);
  }
  for (const WeightSource& source : model.weights) {
    if (source.parameter >= 0) continue;
    const void* made = outputs.at(static_cast<size_t>(source.prepare_output)).data;
    if (std::byte* copy = place(source); copy != made) std::memcpy(copy, made, static_cast<size_t>(source.bytes));
  }
}

WeightsBlock run_prepare(const CompiledModel& model, const std::vector<RawParameter>& parameters, const CpuTarget& cpu,
                         const JitOptions& options) {
  const int64_t size = model.run.weight_bytes;
  for (const WeightSource& source : model.weights)
    METAC_ASSERT(source.offset >= 0 && source.offset + source.bytes <= size, "weights table");
  if (size == 0) return nullptr;
  // Gaps between blocks are zero, so that the shipped file has the same bytes from run to run.
  std::shared_ptr<std::byte> block = make_weights_block(size);
  run_prepare_into(model, parameters, cpu, options, [&](const WeightSource& source) { return block.get() + source.offset; });
  return block;
}

PreparedWeights::PreparedWeights(const CompiledModel& model, std::vector<WeightsBlock> blocks) : blocks_(std::move(blocks)) {
  METAC_ASSERT(blocks_.size() == model.weights.size(), "a block for each source of weights");
  if (blocks_.empty()) return;
  std::map<int64_t, size_t> by_offset;
  for (size_t k = 0; k < blocks_.size(); ++k) by_offset[model.weights[k].offset] = k;
  buffers_ = model.run.buffers;
  for (rt::Buffer& buffer : buffers_) {
    if (buffer.kind != rt::BufferKind::weight) continue;
    const auto after = by_offset.upper_bound(buffer.offset);
    METAC_ASSERT(after != by_offset.begin(), "a weight that comes from nowhere");
    const size_t k = std::prev(after)->second;
    // Blocks lie anywhere in memory: an offset from the first may be negative.
    buffer.offset +=
        reinterpret_cast<intptr_t>(blocks_[k].get()) - reinterpret_cast<intptr_t>(base()) - model.weights[k].offset;
  }
}

}  // namespace metac
