#include "compiler/target/cpu/strategies/transposed_nest.h"

#include <algorithm>
#include <functional>

#include "compiler/ir/walks.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

class Transposition {
 public:
  Transposition(Kernel& kernel, const TransposedNest& nest, const Bounds& bounds)
      : kernel_(kernel), n_(nest), bounds_(bounds) {}

  std::optional<LoopNode> run() {
    constexpr int64_t least = 8;  // of a side: smaller ones are as fast element by element
    for (Expr extent : {n_.lane.extent, n_.across.extent})
      if (extent.if_int() && extent.as_int() < least) return std::nullopt;
    if (!find_operands() && !take_whole_value()) return std::nullopt;
    lane_block_ = kernel_.next_axis++;
    across_block_ = kernel_.next_axis++;
    LoopNode node;
    node.loops = n_.outer;
    node.loops.push_back({lane_block_, ceil_div(n_.lane.extent, n_.lanes), LoopKind::serial, {}});
    node.loops.push_back({across_block_, ceil_div(n_.across.extent, n_.lanes), LoopKind::serial, {}});
    const Side sides[] = {side(n_.lane.extent, lane_block_), side(n_.across.extent, across_block_)};
    for (bool last_lanes : {false, true}) {
      for (bool last_across : {false, true}) {
        if ((last_lanes ? !sides[0].has_rest : !sides[0].has_full) ||
            (last_across ? !sides[1].has_rest : !sides[1].has_full))
          continue;
        LoopNode one = block(last_lanes ? sides[0].left : Expr(), last_across ? sides[1].left : Expr());
        Expr guard = logical_and(sides[0].guard(last_lanes), sides[1].guard(last_across));
        if (!guard.is_int(1)) one.guard = guard;
        node.children.push_back(std::move(one));
      }
    }
    fill_lines(node);
    return node;
  }

 private:
  // Blocks that are narrower than a cache line: those of one line of the result follow each other, before it is evicted by
  // lines of other rows, which may all be at places that map to the same ways.
  void fill_lines(LoopNode& node) {
    constexpr int64_t line = cpu_costs.line_bytes / 4, way_bytes = cpu_costs.way_bytes;
    const int64_t blocks = line / n_.lanes;
    if (blocks < 2 || !n_.lane.extent.if_int() || n_.lane.extent.as_int() % line != 0) return;
    for (Expr operand : operands_)
      if (operand->kind == ExprKind::load)
        if (Expr step = stride_of(operand->args[0], n_.lane.axis);
            bool(step) && step.if_int() && step.as_int() * 4 % way_bytes == 0)
          return;  // nor would its lines stay
    Loop& outer = node.loops[node.loops.size() - 2];
    outer = {kernel_.next_axis++, Expr(n_.lane.extent.as_int() / line), LoopKind::serial, {}};
    const Loop inner{kernel_.next_axis++, Expr(blocks), LoopKind::serial, {}};
    const Expr block = axis(outer.axis) * Expr(blocks) + axis(inner.axis);
    node.loops.push_back(inner);
    substitute_axis(node, lane_block_, block);
  }

  struct Side {
    bool has_full, has_rest;
    Expr is_full, left;  // this block has all its lanes; how many the last one has

    Expr guard(bool last) const {
      return !has_full || !has_rest ? bool_constant(true) : last ? logical_not(is_full) : is_full;
    }
  };
  Side side(Expr extent, int block_axis) const {
    const int64_t* known = extent.if_int();
    Expr left = floor_mod(extent, n_.lanes);
    return {!known || *known >= n_.lanes, !left.is_int(0), axis(block_axis) * Expr(n_.lanes) + Expr(n_.lanes) <= extent,
            left};
  }

  // What does not step by zero or one along the lanes, each of which must step by one across: loads of four bytes, and what
  // narrower ones are widened to.
  bool find_operands() {
    bool all = take_operands();
    // A condition may guard a load that does not exist where it is false; blocks are loaded without asking.
    for (Expr operand : operands_) all = all && is_read_anyway(operand);
    constexpr size_t most = 2;  // blocks of registers at once
    if (!all || operands_.empty() || operands_.size() > most) return false;
    Expr turned = replaced([&](size_t k) { return load(first_local, operands_[k]->dtype, {axis(n_.lane.axis)}); });
    return !uses_axis_outside_of_loads(turned) && can_vectorise(n_.lane, {turned}, n_.offset);
  }

  bool take_operands() {
    return answer_once<bool>(n_.value, [this](Expr e, const auto& of) {
      if (!e->has_load || !uses_axis(e, n_.lane.axis)) return true;
      const bool widened = e->kind == ExprKind::cast && size_of(e->dtype) == 4 && e->args[0]->kind == ExprKind::load &&
                           size_of(e->args[0]->dtype) < 4;
      if ((e->kind != ExprKind::load || e->args.empty()) && !widened)
        return std::all_of(e->args.begin(), e->args.end(), [&](Expr a) { return of(a); });
      if (can_vectorise(n_.lane, {e}, Expr())) return true;
      if (size_of(e->dtype) != 4 || !uses_axis(e, n_.across.axis) || !can_vectorise(n_.across, {e}, Expr())) return false;
      operands_.push_back(e);
      return true;
    });
  }

  bool is_read_anyway(Expr operand) const {
    return answer_once<bool>(n_.value, [operand](Expr e, const auto& of) {
      if (e == operand) return true;
      const auto chosen = e->kind == ExprKind::call && e->fn == Fn::select ? e->args.begin() + 1 : e->args.end();
      return std::any_of(e->args.begin(), chosen, [&](Expr a) { return of(a); });
    });
  }

  // Where other operands step unevenly along the lanes (the tables of an interpolation), the value is computed across and
  // then transposed.
  bool take_whole_value() {
    operands_.clear();
    if (!n_.value->has_load || size_of(n_.value->dtype) != 4 || uses_axis_outside_of_loads(n_.value)) return false;
    bool across = true, gathers = false, steps = false;
    visit(n_.value, [&](Expr e) {
      if (e->kind == ExprKind::call && e->fn == Fn::select) across = false;  // blocks are loaded without asking
      if (e->kind != ExprKind::load || e->args.empty()) return;
      if (size_of(e->dtype) == 4 && uses_axis(e->args[0], n_.across.axis)) {
        Expr step = stride_of(e->args[0], n_.across.axis);
        if (!step || !step.is_int(1)) across = false;
        steps = true;
      } else if (uses_axis(e->args[0], n_.across.axis)) {
        across = false;
      }
      gathers = gathers || !stride_of(e->args[0], n_.lane.axis);
    });
    if (!across || !steps || !gathers) return false;
    operands_ = {n_.value};
    return can_vectorise(n_.across, {n_.value}, Expr()) && can_vectorise(n_.lane, {}, n_.offset);
  }

  Expr replaced(const std::function<Expr(size_t)>& by) const {
    return rewrite(n_.value, [&](Expr e) {
      auto found = std::find(operands_.begin(), operands_.end(), e);
      return found == operands_.end() ? Expr() : by(static_cast<size_t>(found - operands_.begin()));
    });
  }

  bool uses_axis_outside_of_loads(Expr e) const {
    Expr without = rewrite(e, [&](Expr n) { return n->kind == ExprKind::load ? constant_of(n->dtype, 0) : Expr(); });
    return uses_axis(without, n_.lane.axis) || uses_axis(without, n_.across.axis);
  }

  Expr placed(Expr e, Expr lane, Expr across, const std::vector<Loop>& inside) const {
    Bounds b = bounds_;
    b.set_axis(lane_block_, ceil_div(n_.lane.extent, n_.lanes));
    b.set_axis(across_block_, ceil_div(n_.across.extent, n_.lanes));
    for (const Loop& l : inside) b.set_axis(l.axis, l.extent);
    return simplify(rewrite(e,
                            [&](Expr n) -> Expr {
                              if (n->kind != ExprKind::axis) return {};
                              if (n->id == n_.lane.axis) return axis(lane_block_) * Expr(n_.lanes) + lane;
                              return n->id == n_.across.axis ? axis(across_block_) * Expr(n_.lanes) + across : Expr();
                            }),
                    b);
  }

  // A square block, of which `lanes_left` lanes and `across_left` steps across exist; empty: all.
  LoopNode block(Expr lanes_left, Expr across_left) {
    LoopNode node;
    Expr square = static_cast<int64_t>(n_.lanes) * n_.lanes;
    std::vector<int> locals;
    for (Expr operand : operands_) {
      int local = kernel_.next_local++;
      locals.push_back(local);
      node.locals.push_back({local, operand->dtype, square, n_.lanes});
      Loop across{kernel_.next_axis++, Expr(n_.lanes), LoopKind::vector, across_left},
          lane{kernel_.next_axis++, Expr(n_.lanes), LoopKind::unrolled, {}};
      Expr row = axis(lane.axis);
      if (lanes_left) row = min(row, lanes_left - Expr(1));  // the last one again
      LoopNode rows, turn;
      rows.loops = {across, lane};
      rows.assigns.push_back({first_local + local,
                              axis(across.axis) + axis(lane.axis) * Expr(n_.lanes),
                              placed(operand, row, axis(across.axis), {across, lane}),
                              {}});
      turn.transposed = local;
      node.children.push_back(std::move(rows));
      node.children.push_back(std::move(turn));
    }
    const int64_t* steps = across_left ? across_left.if_int() : nullptr;
    Loop lane{kernel_.next_axis++, Expr(n_.lanes), LoopKind::vector, lanes_left},
        across{kernel_.next_axis++, Expr(steps ? *steps : n_.lanes), LoopKind::unrolled, {}};
    Expr value = replaced([&](size_t k) {
      return load(first_local + locals[k], operands_[k]->dtype, {axis(lane.axis) + axis(across.axis) * Expr(n_.lanes)});
    });
    LoopNode store;
    store.loops = {lane, across};
    store.assigns.push_back({n_.target,
                             placed(n_.offset, axis(lane.axis), axis(across.axis), {lane, across}),
                             placed(value, axis(lane.axis), axis(across.axis), {lane, across}),
                             {}});
    if (!across_left || steps) {
      node.children.push_back(std::move(store));
      return node;
    }
    store.loops.pop_back();
    for (int k = 0; k < n_.lanes; ++k) {  // how many are left is known at run time
      LoopNode one = store;
      substitute_axis(one, across.axis, k);
      one.guard = Expr(k) < across_left;
      node.children.push_back(std::move(one));
    }
    return node;
  }

  Kernel& kernel_;
  const TransposedNest& n_;
  const Bounds& bounds_;
  std::vector<Expr> operands_;
  int lane_block_ = 0, across_block_ = 0;
};

}  // namespace

std::optional<LoopNode> transposed_nest(Kernel& kernel, const TransposedNest& nest, const Bounds& bounds) {
  return Transposition(kernel, nest, bounds).run();
}

}  // namespace metac
