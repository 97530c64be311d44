// The weights block of a library whose file has the model's parameters: what its prepare programs make of them for the CPU
// that it runs on, once for all contexts of the process.
#pragma once
#include <new>

#include "../process/shared_by_contexts.h"
#include "weights_file.h"

namespace METAC_RUNTIME_NAMESPACE {

// What a block is made from. Equal ones are shared.
struct PreparedFrom {
  const WeightsHeader* header = nullptr;  // of the file
  int32_t variant = 0;
  bool unchecked = false;  // damage was not looked for
};

class PreparedWeights : public SharedByContexts<PreparedWeights> {
 public:
  // A block of `bytes`, all zero as far as none of `programs` has written there. alone: for one context. Null: no memory.
  static PreparedWeights* join(const PreparedFrom& from, int64_t bytes, int32_t programs, bool alone) {
    return find_or_make([&](const PreparedWeights& other) { return !alone && !other.alone_ && other.is_of(from); },
                        [&] { return make(from, bytes, programs, alone); });
  }

  char* data() const { return memory_.data(); }
  // Has program `index` written what it reads of the block? Under the lock.
  bool& has(int32_t index) { return made_[index]; }

 private:
  friend SharedByContexts;

  PreparedWeights(const PreparedFrom& from, bool alone)
      : header_(*from.header), variant_(from.variant), unchecked_(from.unchecked), alone_(alone) {}

  bool is_of(const PreparedFrom& from) const {
    return variant_ == from.variant && unchecked_ == from.unchecked &&
           std::memcmp(&header_, from.header, sizeof header_) == 0;
  }
  static PreparedWeights* make(const PreparedFrom& from, int64_t bytes, int32_t programs, bool alone) {
    void* const memory = std::malloc(sizeof(PreparedWeights));
    if (memory == nullptr) return nullptr;
    PreparedWeights* const made = new (memory) PreparedWeights(from, alone);
    if (made->memory_.take(bytes) && made->made_.allocate(programs)) return made;
    end(made);
    return nullptr;
  }

  const WeightsHeader header_;
  const int32_t variant_;
  const bool unchecked_, alone_;
  AddressSpace memory_;
  Array<bool> made_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
