// What fusion makes kernels of, and what a target decided about them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "compiler/tensor/definition.h"
#include "compiler/tensor/layout.h"
#include "compiler/tensor/schedule.h"

namespace metac {

struct Kernel;
struct LoweringContext;
struct Group;

// How a target computes a group, where that is not its plain way: a value that a pass of the target chose once
// (target/cpu/strategies/cpu_strategies.h, target/gpu/strategies/gpu_strategies.h) and that lowering consumes. It does not
// change; who wants another one puts another one in its place. Whoever asks of what kind it is belongs to the same target.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // The group as a loop tree.
  virtual Kernel lower(const Group& group, const LoweringContext& context) const = 0;
  // What was decided, in one line: "contraction: lanes along i1, tiles of 14 points x 2 vectors".
  virtual std::string to_string() const = 0;
  // What the head of the kernel says of it, a line each.
  virtual std::vector<std::string> describe(const Group& group) const;
  // Has this axis of the group's definitions a part of its own in the schedule, so that no pass may cut it?
  virtual bool holds_axis(int /*axis*/) const { return false; }
  // What decisions about the group are about (target/choices.h); empty: there are none.
  virtual std::string subject() const { return ""; }
  // What was decided about the loops, as data: compiling again with it decides the same.
  virtual Schedule schedule() const { return {}; }
  // What of it does not go with the group; empty: all does. Asked behind every pass (region/verify_region.h).
  virtual std::string misfit(const Group& group) const = 0;
};

struct Group {
  std::vector<Definition> stages;            // in execution order
  int shared = 0;                            // the first axes of every stage are the same loops
  std::set<int> internal;                    // Vars (by id) that live only inside: scoped locals
  std::shared_ptr<const Strategy> strategy;  // null: the target's plain way
};

// What was fused into the group, as the head of its kernel says it.
std::vector<std::string> describe_stages(const Group& group);

// The group's strategy if it is of this kind, else nullptr.
template <typename T>
const T* strategy_as(const Group& group) {
  return dynamic_cast<const T*>(group.strategy.get());
}

using Layouts = std::map<int, Layout>;  // by Var id; absent: plain

struct LoweringContext {
  const std::vector<Symbol>* symbols = nullptr;
  const Layouts* layouts = nullptr;
  std::function<Var*(int)> var;  // by id
  int vector_bytes = 64, vector_registers = 32;
  int64_t l2_bytes = 1 << 20;
  bool library_products = false;      // GPU kernels that are matrix products say so (Kernel::product)
  bool tf32 = false;                  // GPU kernels may round float32 operands of products for tensor cores
  bool library_convolutions = false;  // and those that are convolutions (Kernel::convolution)
};

}  // namespace metac
