// Where expressions live.
//
// A table belongs to a compilation: all that is made of a model, from its graph to its kernels' loops, is in one, and goes
// with it. Of what a compilation leaves behind only the work of its steps (CompiledProgram::work) is made of expressions:
// who keeps a program drops that, so that a process that compiles for years is no larger than what it keeps. A table of its
// own also makes a compilation independent of those before: canonical sums are ordered by the numbers of their nodes, and
// these begin anew.
//
//   const ExprScope scope;                              // what this thread makes from here on is in a table of its own
//   std::unique_ptr<Graph> graph = lower_model(model);
//   return compile_graph(*graph, options);              // CompiledModel::expressions is that table
//
// Outside of every scope stands one table for the process, which stays: commands that compile once, and tests.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// Open addressing with the hashes beside the pointers: a lookup touches one line of the table and the node that it finds.
// Safe from several threads, which is what the process's own table is for; a scope's belongs to one.
class ExprTable {
 public:
  ExprTable();
  ExprTable(const ExprTable&) = delete;
  ExprTable& operator=(const ExprTable&) = delete;

  static ExprTable& current();                        // of this thread: the innermost scope's
  static std::shared_ptr<ExprTable> share_current();  // null: the process's

  // The node that equals this one; it becomes one where there is none. What the node says of itself (hash, serial, table,
  // has_load) is filled in here.
  const ExprNode* intern(ExprNode&& node);

  // What somebody remembers of expressions, one T a table, made when it is first asked for: it goes when they do.
  template <class T>
  T& memory() {
    const std::lock_guard lock(memory_mutex_);
    std::shared_ptr<void>& kept = memories_[std::type_index(typeid(T))];
    if (!kept) kept = std::make_shared<T>();
    return *static_cast<T*>(kept.get());
  }

  uint32_t id() const { return id_; }
  size_t size() const { return nodes_.size(); }

 private:
  struct Slot {
    uint64_t hash = 0;
    const ExprNode* node = nullptr;
  };

  template <class Found>
  size_t place_of(uint64_t hash, const Found& found) const;
  void grow();

  const uint32_t id_;
  std::mutex mutex_, memory_mutex_;
  std::deque<ExprNode> nodes_;
  std::vector<Slot> slots_ = std::vector<Slot>(1 << 12);  // a power of two, at most half of them taken
  std::unordered_map<std::type_index, std::shared_ptr<void>> memories_;
};

// The table for what this thread makes until the end of the scope. Nests: what stands outside is not to be used inside.
class ExprScope {
 public:
  ExprScope() : ExprScope(std::make_shared<ExprTable>()) {}
  explicit ExprScope(std::shared_ptr<ExprTable> table);  // null: the one that is current anyway
  ~ExprScope();
  ExprScope(const ExprScope&) = delete;
  ExprScope& operator=(const ExprScope&) = delete;

 private:
  std::shared_ptr<ExprTable> outer_;
};

}  // namespace metac
