// Prepared weights of a session's programs, shared by content: what two programs prepare alike is in memory once.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/jit/prepared_weights.h"

namespace metac {

class WeightStore {
 public:
  // Blocks of somebody else's, which stay as they are for as long as there are programs: what is prepared alike is read
  // there and not counted in bytes(). They are looked at when first something is prepared. Called before that.
  void lend(std::vector<std::string_view> blocks) { lent_ = std::move(blocks); }

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
    bool lent = false;
  };
  WeightsBlock share(std::shared_ptr<std::byte> fresh, int64_t bytes);

  void find_lent();

  std::vector<std::string_view> lent_;
  std::once_flag lent_are_found_;
  std::vector<WeightsBlock> lent_blocks_;  // keeps them in `blocks_`
  mutable std::mutex mutex_;
  mutable std::multimap<size_t, Block> blocks_;  // by the hash of their content
};

}  // namespace metac
