#include "compiler/lazy/node.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "compiler/jit/run_error.h"
#include "compiler/support/diagnostic.h"

namespace metac::lazy {
namespace {

// A step of training asks for the same blocks in every turn: the system would hand out large ones page by page, zeroed.
class BlockPool {
 public:
  std::byte* take(size_t size) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = free_.find(size);
      if (found != free_.end() && !found->second.empty()) {
        std::byte* const block = found->second.back();
        found->second.pop_back();
        held_ -= size;
        return block;
      }
    }
    return static_cast<std::byte*>(std::aligned_alloc(64, size));
  }
  void give(std::byte* block, size_t size) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      if (held_ + size <= most_held) {
        free_[size].push_back(block);
        held_ += size;
        return;
      }
    } catch (...) {  // no memory for the list
    }
    std::free(block);
  }

 private:
  static constexpr size_t most_held = size_t{256} << 20;
  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<std::byte*>> free_;
  size_t held_ = 0;
};

BlockPool& pool() {  // never destroyed: blocks come back from threads that end later
  static BlockPool& blocks = *new BlockPool();
  return blocks;
}

}  // namespace

std::string text_of(const Site& site) { return site.file ? concat(site.file, ":", site.line) : ""; }

std::shared_ptr<std::byte> memory_for(int64_t bytes) {
  if (bytes == 0) return nullptr;
  const size_t size = (static_cast<size_t>(bytes) + 127) / 64 * 64;
  std::byte* const block = pool().take(size);
  if (!block) throw no_memory(bytes, "bytes of a value");
  return {block, [size](std::byte* p) { pool().give(p, size); }};
}

Node* Node::make(const Operation* operation, uint32_t outputs, uint32_t inputs) {
  void* const memory = ::operator new(sizeof(Node) + outputs * sizeof(Value) + inputs * sizeof(Value*));
  Node* const node = new (memory) Node{operation, outputs, inputs};
  for (uint32_t k = 0; k < outputs; ++k) new (node->outputs() + k) Value{nullptr, node, nullptr};
  for (uint32_t k = 0; k < inputs; ++k) node->inputs()[k] = nullptr;
  return node;
}

void Node::destroy(Node* node) {
  for (uint32_t k = 0; k < node->output_count; ++k) node->outputs()[k].~Value();
  node->~Node();
  ::operator delete(node);
}

}  // namespace metac::lazy
