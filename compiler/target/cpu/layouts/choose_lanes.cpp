#include "compiler/target/cpu/layouts/choose_lanes.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/layout_rules.h"

namespace metac {
namespace {

std::vector<int> kept_axes_of(Expr load, const Definition& d) { return axes_used(load, 0, d.kept()); }

// Depthwise: the other operand has the axis as one of its own, so that channels last makes it contiguous there too.
bool a_follows(const LaneChoice& w, int axis_id) {
  int own = 0;
  for (Expr e : w.c.a.load->args) {
    if (e == axis(axis_id))
      ++own;
    else if (uses_axis(e, axis_id))
      return false;
  }
  return own == 1;
}

// Does the axis move the result along another of its axes too (a value that is stored in another shape)?
bool moves_elsewhere(const Definition& d, size_t out_axis, int axis_id) {
  for (size_t k = 0; k < d.out_index.size(); ++k)
    if (k != out_axis && uses_axis(d.out_index[k], axis_id)) return true;
  return false;
}

double fullness(const Definition& d, int lanes_axis, int lanes, const std::vector<Symbol>& symbols) {
  const int64_t extent = hinted_value(d.domain[static_cast<size_t>(lanes_axis)], symbols);
  return static_cast<double>(extent) / static_cast<double>((extent + lanes - 1) / lanes * lanes);
}

// The kept axis of the lanes' operand that is one axis of the result, preferring the result's last axis unless another fills
// the lanes much better. One that both operands have (depthwise channels) comes second: every product loads two vectors
// then. But it is better than lanes that are mostly empty (the taps of a depthwise filter's gradient).
bool choose_axis(const Definition& d, LaneChoice& w, int lanes, bool narrow, const std::vector<Symbol>& symbols) {
  std::vector<int> in_a = kept_axes_of(w.c.a.load, d), in_b = kept_axes_of(w.c.b.load, d);
  double fullest = 0;
  for (int pass = 0; pass < 2 && fullest < 0.5; ++pass)
    for (int k = static_cast<int>(d.out_index.size()); k-- > 0;) {
      Expr e = d.out_index[static_cast<size_t>(k)];
      for (int axis_id : in_b) {
        Expr step = stride_of(e, axis_id);  // the axis that steps this result axis by one
        if (!step || !step.is_int(1) || moves_elsewhere(d, static_cast<size_t>(k), axis_id)) continue;
        bool both = std::count(in_a.begin(), in_a.end(), axis_id) > 0;
        if (both != (pass == 1)) continue;
        const Expr domain = d.domain[static_cast<size_t>(axis_id)];
        const int64_t extent = hinted_value(domain, symbols);
        if ((both || !domain.if_int()) && extent == 1) continue;  // an open batch is one sample as a rule
        if (both && !a_follows(w, axis_id) && !narrow) continue;
        if (e->kind != ExprKind::axis && extent < lanes) continue;
        double filled = fullness(d, axis_id, lanes, symbols);
        if (filled <= cpu_costs.fuller_lanes * fullest) continue;
        fullest = filled;
        w.lanes_axis = axis_id;
        w.out_axis = k;
        w.lanes_in_both = both;
      }
    }
  return fullest > 0;
}

// Do neighbouring lanes read neighbours of one row-major row, so that it needs no packing?
bool reads_rows(const LaneChoice& w, const Shape& shape) {
  bool found = false;
  for (size_t k = shape.size(); k-- > 0;) {
    Expr index = w.c.b.load->args[k];
    if (!uses_axis(index, w.lanes_axis)) {
      if (!found && !shape[k].is_int(1)) return false;  // something else lies between neighbours
      continue;
    }
    Expr step = stride_of(index, w.lanes_axis);
    if (found || !step || !step.is_int(1)) return false;
    found = true;
  }
  return found;
}

// Does packing the operand repeat its elements: windows that overlap?
bool repeats_when_packed(const Definition& d, const LaneChoice& w) {
  const auto overlap = [&](Expr index) {
    bool kept = false, reduced = false;
    for (int k = 0; k < static_cast<int>(d.domain.size()); ++k)
      if (!d.domain[static_cast<size_t>(k)].is_int(1) && uses_axis(index, k)) (k < d.kept() ? kept : reduced) = true;
    return kept && reduced;
  };
  return std::any_of(w.c.b.load->args.begin(), w.c.b.load->args.end(), overlap);
}

// Elements of the packed operand per product: 1 where each is used once (all windows of an image, for the gradient of a
// depthwise filter), one in as many as there are filters where images are packed for a convolution.
double packed_per_product(const Definition& d, const LaneChoice& w) {
  double products = 1;
  for (int k = 0; k < static_cast<int>(d.domain.size()); ++k)
    if (const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int(); extent && !uses_axis(w.c.b.load, k))
      products *= static_cast<double>(*extent);
  return 1 / products;
}

// How full the lanes are; an operand that `prepare` can pack is worth nearly all of them (packing while running takes longer
// than what a sum does in lanes that are mostly empty), and so are rows that need no packing where the other operand would
// leave half of the lanes empty (a convolution with few filters). What is packed while running costs as much per element as
// several vectors of products. An axis that may be shorter than the lanes (an open batch) is no reason for packing windows
// at run time: that takes many times the memory of what is packed. Images as lanes make the result lie image beside image,
// where all around has its channels together: that takes more to be worth it. Beside them, and beside an axis that may be of
// length one, rows that need no packing cost nothing: a linear layer's derivative by what it reads takes the rows of its
// weights. Where images fill several vectors, the elements of one vector lie apart in both operands, and each tile brings
// lines anew of which it needs a part.
double merit(const Definition& d, const LaneChoice& w, const LaneChoice& other, int lanes,
             const std::vector<Symbol>& symbols, const Var* b, bool constant) {
  const int64_t* extent = d.domain[static_cast<size_t>(w.lanes_axis)].if_int();
  const double full = fullness(d, w.lanes_axis, lanes, symbols);
  const bool rows = reads_rows(w, b->shape());
  if (!extent && !constant && !rows && repeats_when_packed(d, w)) return 0;
  if (constant || (fullness(d, other.lanes_axis, lanes, symbols) <= 0.5 && rows)) return full + cpu_costs.ready;
  if (rows && other.out_axis == 0) return full;
  const bool images = w.out_axis == 0 && d.out->rank() > 2 && uses_axis(w.c.b.load->args[0], w.lanes_axis);
  const bool uncounted = !d.domain[static_cast<size_t>(other.lanes_axis)].if_int();
  const double packing = rows && uncounted ? 0 : std::min(1.0, cpu_costs.element_packed * packed_per_product(d, w));
  return full - packing - (images ? cpu_costs.images_in_lanes : 0) -
         (w.lanes_in_both && extent && *extent > lanes ? cpu_costs.lanes_apart : 0);
}

}  // namespace

std::optional<LaneChoice> choose_lanes(const Definition& d, int lanes, bool narrow, const std::vector<Symbol>& symbols,
                                       const std::function<const Var*(int)>& var,
                                       const std::function<bool(const Var*)>& is_constant) {
  auto matched = tiled_contraction_of(d);
  if (!matched) return std::nullopt;
  std::vector<LaneChoice> choices;
  for (bool swap : {false, true}) {
    LaneChoice w;
    w.c = *matched;
    if (swap) {
      if (matched->product != Fn::mul) break;  // words: b's are packed for lanes
      std::swap(w.c.a, w.c.b);
    }
    w.kept = d.kept();
    bool packable = true;  // what `prepare` or a packing kernel can test
    for (Expr c : w.c.b.conditions) packable = packable && covers(w.c.b.load, c);
    if (packable && choose_axis(d, w, lanes, narrow, symbols)) choices.push_back(w);
  }
  if (choices.empty()) return std::nullopt;
  if (choices.size() == 1) return choices[0];
  auto merit_of = [&](size_t k) {
    const Var* b = var(choices[k].c.b.load->id);
    return merit(d, choices[k], choices[1 - k], lanes, symbols, b, is_constant(b));
  };
  // Of two that are as good the one whose result is stored in rows: others read it so (the update of a matrix).
  auto in_rows = [&](size_t k) { return choices[k].out_axis == d.out->rank() - 1 ? cpu_costs.rows : 0; };
  return choices[merit_of(1) + in_rows(1) > merit_of(0) + in_rows(0) ? 1 : 0];
}

// The channel itself or, of narrow groups, that of a channel's group.
static bool follows_lanes(Expr e, int lanes_axis) {
  return e == axis(lanes_axis) || any_of(e, [&](Expr n) {
           return n->kind == ExprKind::call && n->fn == Fn::floor_div && n->args[0] == axis(lanes_axis);
         });
}

int wanted_last(const LaneChoice& w, const Shape& data, int lanes) {
  int inner = word_position(w.c.a.load, w.c.word_axis);
  if (inner >= 0) return inner;
  int64_t longest = lanes - 1;
  for (size_t k = 0; k < data.size(); ++k) {
    Expr e = w.c.a.load->args[k];
    if (!(w.lanes_in_both ? follows_lanes(e, w.lanes_axis) : runs_along_sum(e, w.kept))) continue;
    const int64_t* extent = data[k].if_int();
    if (!extent || *extent <= longest) continue;
    longest = *extent;
    inner = static_cast<int>(k);
  }
  return inner;
}

}  // namespace metac
