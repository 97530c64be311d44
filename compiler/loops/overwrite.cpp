#include "compiler/loops/overwrite.h"

#include <algorithm>
#include <optional>

#include "compiler/loops/loop_transforms.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

class OverwriteCheck {
 public:
  OverwriteCheck(const Kernel& kernel, int result, int operand, const std::vector<Symbol>& symbols)
      : result_(result), operand_(operand), in_blocks_(kernel.block > 0), bounds_(bounds_of(kernel, symbols)) {
    walk(kernel.root, {}, {});
  }

  bool good() const { return good_ && stores_ > 0 && (stores_ == 1 || all_guarded_); }

 private:
  bool reads_operand(Expr e) const {
    return bool(e) && any_of(e, [&](Expr n) { return n->kind == ExprKind::load && n->id == operand_; });
  }

  static void add_conditions(Expr guard, std::vector<Expr>& all) {
    std::vector<Expr> open{guard};
    while (!open.empty()) {
      const Expr e = open.back();
      open.pop_back();
      if (e->kind == ExprKind::call && e->fn == Fn::logical_and)
        open.insert(open.end(), e->args.begin(), e->args.end());
      else
        all.push_back(e);
    }
  }

  void walk(const LoopNode& node, std::vector<Loop> loops, std::vector<Expr> guards) {
    if (node.guard) add_conditions(node.guard, guards);
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
      all_guarded_ = all_guarded_ && !guards.empty();
      good_ =
          good_ && !a.update && bool(a.offset) && reads_only_at(a.value, a.offset) && stores_once(a.offset, loops, guards);
    }
    for (const LoopNode& child : node.children) walk(child, loops, guards);
  }

  bool reads_only_at(Expr value, Expr offset) const {
    return !any_of(value, [&](Expr n) {
      return n->kind == ExprKind::load && n->id == operand_ && (n->args.size() != 1 || n->args[0] != offset);
    });
  }

  // How many of a loop's iterations the guards let through that compare its axis with a number: a run at its beginning or
  // its end. A tile that is not full is none of the full ones.
  static int64_t allowed(const Loop& loop, int64_t iterations, const std::vector<Expr>& guards) {
    int64_t most = iterations;
    for (const Expr guard : guards) {
      const Expr compared = guard->kind == ExprKind::call && guard->fn == Fn::logical_not ? guard->args[0] : guard;
      if (compared->kind != ExprKind::call || (compared->fn != Fn::le && compared->fn != Fn::lt)) continue;
      const Expr left = compared->args[0], right = compared->args[1];
      if (left->has_load || right->has_load || left->dtype != DType::i64) continue;
      if (const Expr stride = stride_of(left - right, loop.axis); !stride || !stride.if_int()) continue;
      const auto passes = [&](int64_t k) {
        const Expr at = rewrite(guard, [&](Expr e) { return e == axis(loop.axis) ? Expr(k) : Expr(); });
        return at.if_int() ? std::optional<bool>(*at.if_int() != 0) : std::nullopt;
      };
      const std::optional<bool> first = passes(0), last = passes(iterations - 1);
      if (!first || !last || *first == *last) continue;
      int64_t like_first = 0, like_last = iterations - 1;
      while (like_last - like_first > 1) {
        const int64_t middle = like_first + (like_last - like_first) / 2;
        (*passes(middle) == *first ? like_first : like_last) = middle;
      }
      most = std::min(most, *first ? like_last : iterations - like_last);
    }
    return most;
  }

  // Is the offset different in every iteration of the loops?
  bool stores_once(Expr offset, const std::vector<Loop>& loops, const std::vector<Expr>& guards) const {
    auto dealt = [](const Loop& l) { return l.kind == LoopKind::grid || l.kind == LoopKind::thread; };
    if (in_blocks_ && std::none_of(loops.begin(), loops.end(), dealt)) return false;
    std::vector<std::pair<int64_t, int64_t>> steps;  // stride, iterations
    for (const Loop& l : loops) {
      const int64_t iterations = allowed(l, bounds_.interval(l.extent).high.clamped(), guards);
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
