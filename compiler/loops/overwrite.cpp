#include "compiler/loops/overwrite.h"

#include <algorithm>

#include "compiler/loops/loop_transforms.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

class OverwriteCheck {
 public:
  OverwriteCheck(const Kernel& kernel, int result, int operand, const std::vector<Symbol>& symbols)
      : result_(result), operand_(operand), in_blocks_(kernel.block > 0), bounds_(bounds_of(kernel, symbols)) {
    walk(kernel.root, {}, false);
  }

  bool good() const { return good_ && stores_ > 0 && (stores_ == 1 || all_guarded_); }

 private:
  bool reads_operand(Expr e) const {
    return bool(e) && any_of(e, [&](Expr n) { return n->kind == ExprKind::load && n->id == operand_; });
  }

  void walk(const LoopNode& node, std::vector<Loop> loops, bool guarded) {
    guarded = guarded || bool(node.guard);
    good_ = good_ && !reads_operand(node.guard);
    for (const Loop& l : node.loops) {
      good_ = good_ && !reads_operand(l.extent) && !reads_operand(l.active);
      loops.push_back(l);
    }
    for (const Assign& a : node.assigns) {
      good_ = good_ && a.target != operand_ && !reads_operand(a.offset);
      if (a.target != result_) {
        good_ = good_ && !reads_operand(a.value);
        continue;
      }
      ++stores_;
      all_guarded_ = all_guarded_ && guarded;
      good_ = good_ && !a.update && bool(a.offset) && reads_only_at(a.value, a.offset) && stores_once(a.offset, loops);
    }
    for (const LoopNode& child : node.children) walk(child, loops, guarded);
  }

  bool reads_only_at(Expr value, Expr offset) const {
    return !any_of(value, [&](Expr n) {
      return n->kind == ExprKind::load && n->id == operand_ && (n->args.size() != 1 || n->args[0] != offset);
    });
  }

  // Is the offset different in every iteration of the loops?
  bool stores_once(Expr offset, const std::vector<Loop>& loops) const {
    auto dealt = [](const Loop& l) { return l.kind == LoopKind::grid || l.kind == LoopKind::thread; };
    if (in_blocks_ && std::none_of(loops.begin(), loops.end(), dealt)) return false;
    std::vector<std::pair<int64_t, int64_t>> steps;  // stride, iterations
    for (const Loop& l : loops) {
      int64_t iterations = bounds_.interval(l.extent).high.clamped();
      if (iterations <= 1) continue;
      Expr stride = stride_of(offset, l.axis);
      if (!stride || !stride.if_int()) return false;
      steps.push_back({std::abs(stride.as_int()), iterations});
    }
    std::sort(steps.begin(), steps.end());
    int64_t span = 0;  // the greatest difference that the loops so far make
    for (auto [stride, iterations] : steps) {
      int64_t reach = 0;
      if (stride <= span || __builtin_mul_overflow(stride, iterations - 1, &reach) ||
          __builtin_add_overflow(span, reach, &span))
        return false;
    }
    return true;
  }

  int result_, operand_;
  bool in_blocks_;  // of threads, which all run the same loops
  Bounds bounds_;
  bool good_ = true, all_guarded_ = true;
  int stores_ = 0;
};

}  // namespace

bool may_overwrite(const Kernel& kernel, int result, int operand, const std::vector<Symbol>& symbols) {
  const KernelArgument &r = kernel.arguments[static_cast<size_t>(result)],
                       &o = kernel.arguments[static_cast<size_t>(operand)];
  if (result == operand || !r.written || o.written || r.var->dtype() != o.var->dtype()) return false;
  if (r.var->shape() != o.var->shape() || r.layout.behind > o.layout.behind) return false;
  Layout of_result = r.layout;
  of_result.behind = o.layout.behind;
  if (!(of_result == o.layout)) return false;
  return OverwriteCheck(kernel, result, operand, symbols).good();
}

}  // namespace metac
