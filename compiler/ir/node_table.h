// A table of the nodes of an expression, for walks (expr.cpp, tensor/definition.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// What a walk over an expression keeps for each node it has met: an open-addressing table that begins on the stack. Most
// expressions have a dozen nodes and are walked many times, so that a table which allocates would cost more than the walk.
template <class Value>
class NodeTable {
 public:
  NodeTable() = default;
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;

  // The value of a node, or null. Valid until the next insert.
  const Value* find(const ExprNode* node) const {
    const Slot& slot = slots_[place_of(node, slots_, capacity_)];
    return slot.node ? &slot.value : nullptr;
  }

  // False when the node has a value already, which then stays.
  bool insert(const ExprNode* node, Value value) {
    if (2 * (size_ + 1) > capacity_) grow();
    Slot& slot = slots_[place_of(node, slots_, capacity_)];
    if (slot.node) return false;
    slot = {node, std::move(value)};
    ++size_;
    return true;
  }

 private:
  struct Slot {
    const ExprNode* node = nullptr;
    Value value{};
  };

  // The slot that holds a node, or the empty one where it belongs. The capacity is a power of two.
  static size_t place_of(const ExprNode* node, const Slot* slots, size_t capacity) {
    size_t place = node->hash & (capacity - 1);
    while (slots[place].node && slots[place].node != node) place = (place + 1) & (capacity - 1);
    return place;
  }

  void grow() {
    std::vector<Slot> larger(4 * capacity_);
    for (size_t i = 0; i < capacity_; ++i)
      if (slots_[i].node) larger[place_of(slots_[i].node, larger.data(), larger.size())] = std::move(slots_[i]);
    heap_ = std::move(larger);
    slots_ = heap_.data();
    capacity_ = heap_.size();
  }

  std::array<Slot, 32> inline_;
  std::vector<Slot> heap_;
  Slot* slots_ = inline_.data();
  size_t capacity_ = inline_.size(), size_ = 0;
};

// The nodes met so far: insert(node, {}) is false for the second time.
using NodeSet = NodeTable<std::monostate>;

}  // namespace metac
