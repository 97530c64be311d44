#include "compiler/target/cpu/strategies/words_of_halves.h"

#include "compiler/ir/walks.h"

namespace metac {
namespace {

Expr at_place(Expr e, const Loop& l, Expr place) {
  return rewrite(e, [&](Expr n) { return n == axis(l.axis) ? place : Expr(); });
}

}  // namespace

Halved halved(Kernel& kernel, const Loop& by, Expr most, const Bounds& bounds) {
  const Loop word{kernel.next_axis++, simplify(ceil_div(by.extent, 2), bounds), LoopKind::serial, {}};
  return {by, word, simplify(ceil_div(most, 2), bounds)};
}

Expr word_of(Expr value, const Halved& halves, const Bounds& bounds) {
  const Expr first = axis(halves.word.axis) * Expr(2), second = first + Expr(1), high = at_place(value, halves.by, second);
  const bool even = floor_mod(halves.by.extent, 2).is_int(0);
  return simplify(
      call(Fn::bf16_word, {at_place(value, halves.by, first),
                           even ? high : select(second < halves.by.extent, high, float_constant(0, DType::f32))}),
      bounds);
}

LoopNode words_beside_each(Kernel& kernel, Assign store, const Halved& halves, const Loop& beside, int lanes) {
  LoopNode node;
  node.loops = {halves.word, beside};
  if (lanes > 1) {
    const Loop part{kernel.next_axis++, ceil_div(beside.extent, lanes), LoopKind::serial, {}};
    Loop lane{kernel.next_axis++, Expr(lanes), LoopKind::vector, {}};
    const Expr first = axis(part.axis) * Expr(lanes);
    if (!floor_mod(beside.extent, lanes).is_int(0)) lane.active = min(Expr(lanes), beside.extent - first);
    for (Expr* e : {&store.offset, &store.value}) *e = at_place(*e, beside, first + axis(lane.axis));
    node.loops = {halves.word, part, lane};
  }
  node.assigns.push_back(std::move(store));
  return node;
}

}  // namespace metac
