#include "compiler/target/gpu/strategies/lower_gpu_move.h"

#include <algorithm>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/gpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

constexpr int64_t tile = gpu_costs.move_tile;

class MoveTiling {
 public:
  MoveTiling(Kernel& kernel, const Stage& stage, const std::vector<Symbol>& symbols)
      : kernel_(kernel), s_(stage), bounds_(symbols) {}

  bool run() {
    if (s_.kept.size() < 2 || s_.target >= first_local || !s_.offset || !find_operands()) return false;
    const Loop &down = s_.kept[down_], &along = s_.kept.back();
    kernel_.block = gpu_costs.move_threads;
    for (const Loop& l : s_.kept)
      if (l.axis != down.axis && l.axis != along.axis) add_root(l);
    const Expr first_down = blocks_of(down), first_along = blocks_of(along);
    LoopNode in, out;
    const Loop read = fresh(tile * tile, LoopKind::thread), written = fresh(tile * tile, LoopKind::thread);
    in.loops = {read};
    out.loops = {written};
    // What is read lies along `down`, what is written along `along`.
    Expr a = floor_mod(axis(read.axis), tile), b = floor_div(axis(read.axis), tile);
    for (Expr operand : operands_) {
      const int local = kernel_.next_local++;
      kernel_.root.locals.push_back(
          {local, operand->dtype, Expr(tile * (tile + 1)), 0, true});  // an odd stride: other banks
      Expr value = placed(operand, first_down + a, first_along + b);
      const Expr inside = within(first_down + a, first_along + b);
      if (!inside.is_int(1)) value = select(inside, value, constant_of(operand->dtype, 0));
      in.assigns.push_back({first_local + local, simplify(b * Expr(tile + 1) + a, bounds_), value, {}});
      locals_.push_back(local);
    }
    in.barrier = true;
    a = floor_div(axis(written.axis), tile);
    b = floor_mod(axis(written.axis), tile);
    const Expr body = rewrite(s_.body, [&](Expr n) -> Expr {
      auto found = std::find(operands_.begin(), operands_.end(), n);
      return found == operands_.end() ? Expr()
                                      : load(first_local + locals_[static_cast<size_t>(found - operands_.begin())], n->dtype,
                                             {b * Expr(tile + 1) + a});
    });
    LoopNode store;
    const Expr guard = within(first_down + a, first_along + b);
    if (!guard.is_int(1)) store.guard = guard;
    store.assigns.push_back(
        {s_.target, placed(s_.offset, first_down + a, first_along + b), placed(body, first_down + a, first_along + b), {}});
    out.children.push_back(std::move(store));
    kernel_.root.children.push_back(std::move(in));
    kernel_.root.children.push_back(std::move(out));
    kernel_.schedule.push_back(concat("tiles of ", tile, " by ", tile, " elements through shared memory"));
    return true;
  }

 private:
  static bool is_short(const Loop& l) { return l.extent.if_int() && l.extent.as_int() < tile; }

  // Loads that step by one along another loop than the last one, all along the same.
  bool find_operands() {
    const int last = s_.kept.back().axis;
    const Expr stored = stride_of(s_.offset, last);
    if (!stored || !stored.is_int(1) || is_short(s_.kept.back())) return false;
    bool good = true;
    visit(s_.body, [&](Expr n) {
      if (n->kind == ExprKind::call && n->fn == Fn::select) good = good && !n->args[1]->has_load && !n->args[2]->has_load;
      if (n->kind != ExprKind::load) return;
      good = good && n->id < first_local && n->args.size() == 1 && !n->args[0]->has_load;
      if (!good) return;
      const Expr step = stride_of(n->args[0], last);
      if (bool(step) && (step.is_int(0) || step.is_int(1))) return;
      for (size_t k = 0; k + 1 < s_.kept.size(); ++k) {
        const Expr across = stride_of(n->args[0], s_.kept[k].axis);
        if (!across || !across.is_int(1) || is_short(s_.kept[k])) continue;
        good = good && (operands_.empty() || down_ == k);
        down_ = k;
        operands_.push_back(n);
        return;
      }
      good = false;
    });
    return good && !operands_.empty() && static_cast<int64_t>(operands_.size()) <= gpu_costs.move_operands;
  }

  Loop fresh(Expr extent, LoopKind kind) {
    Loop loop{kernel_.next_axis++, extent, kind, {}};
    bounds_.set_axis(loop.axis, extent);
    return loop;
  }
  void add_root(Loop l) {
    l.kind = LoopKind::parallel;
    bounds_.set_axis(l.axis, l.extent);
    kernel_.root.loops.push_back(l);
  }
  // The first index of a block's tile along a loop.
  Expr blocks_of(const Loop& l) {
    const Loop block = fresh(ceil_div(l.extent, tile), LoopKind::parallel);
    kernel_.root.loops.push_back(block);
    return axis(block.axis) * Expr(tile);
  }
  Expr placed(Expr e, Expr down, Expr along) const {
    return simplify(rewrite(e,
                            [&](Expr n) -> Expr {
                              if (n->kind != ExprKind::axis) return {};
                              return n->id == s_.kept[down_].axis ? down : n->id == s_.kept.back().axis ? along : Expr();
                            }),
                    bounds_);
  }
  Expr within(Expr down, Expr along) const {
    auto below = [](Expr index, Expr size) { return floor_mod(size, tile).is_int(0) ? bool_constant(true) : index < size; };
    return logical_and(below(down, s_.kept[down_].extent), below(along, s_.kept.back().extent));
  }

  Kernel& kernel_;
  const Stage& s_;
  Bounds bounds_;
  size_t down_ = 0;  // of the kept loops
  std::vector<Expr> operands_;
  std::vector<int> locals_;
};

}  // namespace

bool lower_gpu_move(Kernel& kernel, const Stage& stage, const std::vector<Symbol>& symbols) {
  return MoveTiling(kernel, stage, symbols).run();
}

}  // namespace metac
