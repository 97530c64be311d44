// Nodes of the lazy graph: an operation, applied to values. A value is one of three things: data that exists, pending (its
// node has not been run yet), or let go (it was made inside a program, and nobody who holds it asked for it to stay).
//
// Nodes live as long as a value of theirs is held from outside or read by another node. That includes nodes which have been
// run: through them gradients are found that are asked for after a value was looked at (compiler/lazy/history.cpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "compiler/lazy/operation.h"
#include "compiler/lazy/tensor_type.h"

namespace metac::lazy {

struct Node;

// Where in the user's program something was written. `file` must stay for the life of the process; null: not known.
struct Site {
  const char* file = nullptr;
  int line = 0;
};

std::string text_of(const Site& site);  // "train.py:12"; "" where it is not known

enum class ValueState : uint8_t {
  pending,
  exists,       // `bytes` are its elements
  let_go,       // was computed and not kept; its node tells how
  overwritten,  // existed; its memory is that of its next value now
  placeholder,  // an argument of a function that is traced: it never exists
};

struct Value {
  const TensorType* type;
  Node* node;                              // that has it
  std::shared_ptr<const std::byte> bytes;  // where it exists; aligned to 64 bytes; null for no elements
  uint64_t segment = 0;                    // in which `place` holds
  uint64_t content = 0;                    // of a literal: the number of its content; 0: it is none
  uint32_t place = 0;                      // among the pending values of the segment, or among its inputs
  uint32_t handles = 0;                    // held from outside
  uint32_t readers = 0;                    // operands that it is
  ValueState state = ValueState::pending;
};

// One block of memory with its values and operands.
struct Node {
  const Operation* operation;  // null: data
  uint32_t output_count, input_count;
  uint32_t references = 0;  // all handles and readers of its values
  uint32_t index = 0;       // of pending ones: in the segment
  uint64_t serial = 0;      // later nodes have greater ones, and only they can depend on it
  bool pending = false;
  bool no_grad = false;                       // no derivative passes it
  bool by_value = false;                      // its shapes followed from elements, so it was run when it was appended
  Node *before = nullptr, *behind = nullptr;  // among those that have been run and know their operands
  bool in_history = false;
  Site site;

  Value* outputs() { return reinterpret_cast<Value*>(this + 1); }
  Value** inputs() { return reinterpret_cast<Value**>(outputs() + output_count); }  // null: an operand left out
  const Value* outputs() const { return const_cast<Node*>(this)->outputs(); }
  Value* const* inputs() const { return const_cast<Node*>(this)->inputs(); }
  int output_of(const Value* value) const { return static_cast<int>(value - outputs()); }

  static Node* make(const Operation* operation, uint32_t outputs, uint32_t inputs);
  static void destroy(Node* node);
};
static_assert(sizeof(Node) % alignof(Value) == 0, "values lie behind their node");

// Memory for elements: aligned to 64 bytes, with 64 more behind it that can be read. Blocks come back for later ones of
// their size. Throws RunError where there is none.
std::shared_ptr<std::byte> memory_for(int64_t bytes);

}  // namespace metac::lazy
