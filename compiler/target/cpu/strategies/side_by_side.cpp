#include "compiler/target/cpu/strategies/side_by_side.h"

#include <set>
#include <utility>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class Spread {
 public:
  Spread(std::vector<Loop> tile, Expr element, int64_t elements, int64_t lanes)
      : tile_(std::move(tile)), element_(element), elements_(elements), lanes_(lanes) {}

  // Scalars become arrays of registers, and what a step does is done for all of them.
  void operator()(LoopNode& node) {
    for (Local& local : node.locals) {
      METAC_ASSERT(!local.count, "a local of a sum that is no scalar");
      local.count = Expr(elements_);
      local.lanes = static_cast<int>(lanes_);
      sums_.insert(first_local + local.id);
    }
    for (LoopNode& child : node.children) (*this)(child);
    std::vector<LoopNode> steps;
    for (Assign& assign : node.assigns) {
      if (sums_.count(assign.target)) assign.offset = element_;
      assign.value = rewrite(assign.value, [&](Expr n) {
        return n->kind == ExprKind::load && sums_.count(n->id) ? load(n->id, n->dtype, {element_}) : Expr();
      });
      steps.emplace_back();
      steps.back().loops = tile_;
      steps.back().assigns = {std::move(assign)};
    }
    node.assigns.clear();
    node.children.insert(node.children.begin(), std::make_move_iterator(steps.begin()),
                         std::make_move_iterator(steps.end()));
  }

 private:
  const std::vector<Loop> tile_;
  const Expr element_;
  const int64_t elements_, lanes_;
  std::set<int> sums_;
};

}  // namespace

int64_t vectors_together(const Loop& along, Expr term, int64_t lanes) {
  constexpr int most_nodes = 24;  // of a term: registers are for sums
  int nodes = 0;
  visit(term, [&](Expr) { ++nodes; });
  const int64_t* extent = along.extent.if_int();
  if (extent == nullptr || nodes > most_nodes) return 1;
  int64_t vectors = cpu_costs.sums_side_by_side;
  while (vectors > 1 && *extent % (vectors * lanes) != 0) --vectors;
  return vectors;
}

LoopNode side_by_side(Kernel& kernel, LoopNode nest, int64_t vectors, int64_t lanes) {
  const Loop along = nest.loops.back();
  const int64_t elements = vectors * lanes, blocks = along.extent.as_int() / elements;
  nest.loops.pop_back();
  const Loop lane{kernel.next_axis++, Expr(lanes), LoopKind::vector, {}},
      vector{kernel.next_axis++, Expr(vectors), LoopKind::unrolled, {}};
  const Expr element = axis(vector.axis) * Expr(lanes) + axis(lane.axis);
  Expr place = element;
  if (blocks > 1) {
    nest.loops.push_back({kernel.next_axis++, Expr(blocks), LoopKind::serial, {}});
    place = axis(nest.loops.back().axis) * Expr(elements) + element;
  }
  Spread({lane, vector}, element, elements, lanes)(nest);
  substitute_axis(nest, along.axis, place);
  return nest;
}

}  // namespace metac
