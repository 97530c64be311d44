// Prepared weights of a session's programs, shared by content: what two programs prepare alike is in memory once.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compiler/jit/prepared_weights.h"

namespace metac {

class WeightStore {
 public:
  // Prepares the weights of `model` from `parameters`, a block for each source, and takes blocks that are there already.
  // Thread-safe. Throws CompileError, KernelCompileError.
  PreparedWeights prepare(const CompiledModel& model, const std::vector<RawParameter>& parameters, const CpuTarget& cpu,
                          const JitOptions& options);
  // Of all blocks that somebody has, each counted once.
  int64_t bytes() const;

 private:
  struct Block {
    std::weak_ptr<const std::byte> data;
    int64_t bytes = 0;
  };
  WeightsBlock share(std::shared_ptr<std::byte> fresh, int64_t bytes);

  mutable std::mutex mutex_;
  mutable std::multimap<size_t, Block> blocks_;  // by the hash of their content
};

}  // namespace metac
