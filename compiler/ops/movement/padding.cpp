// Pad in all its modes, and CenterCropPad.
#include "compiler/ir/bounds.h"
#include "compiler/ops/axis_set.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// What pads that are negative leave of an axis.
struct Kept {
  Expr first, count;
};

Kept kept_of(Expr before, Expr after, Dim extent) {
  const Expr first = max(-before, Expr(0));
  return {first, extent - first - max(-after, Expr(0))};
}

// The element of the input that position `at` (which may lie outside) shows. What is cut off does not come round again;
// an edge or a reflection inside of what is kept does not reach it anyway. Of an open extent the remainder is one by a
// number that only a run knows: what lies inside, most of it as a rule, says that it needs none.
Expr source_index(const std::string& mode, Expr at, Dim extent, const Kept& kept) {
  const Expr last = extent - Expr(1);
  if (mode == "edge") return max(min(at, last), 0);
  const bool wraps = mode == "wrap";
  const Expr first = wraps ? kept.first : Expr(0), count = wraps ? kept.count : extent;
  // reflect: a wave of period 2 * (extent - 1); an extent of 1 shows its only element (x mod 0 is 0).
  const Expr phase = floor_mod(at - first, wraps ? count : last * Expr(2));
  const Expr around = wraps ? first + phase : min(phase, last * Expr(2) - phase);
  return count.if_int() ? around : select(logical_and(first <= at, at < first + count), at, around);
}

struct Pads {
  std::vector<Expr> before, after;
};

Pads read_pads(Lowering& n, int rank) {
  constexpr int64_t most = int64_t{1} << 40;
  Graph& g = n.graph();
  std::vector<Expr> pads;
  std::vector<int> all = all_axes(rank);
  AxisSet axes({all.begin(), all.end()}, rank);
  if (n.opset() < 11) {
    for (int64_t p : n.integers(n.opset() < 2 ? "paddings" : "pads")) {
      if (p < -most || p > most) fail("a pad is ", p, ", expected at least ", -most, " and at most ", most);
      pads.push_back(p);
    }
  } else {
    pads = index_elements(g, n.input(1), "a pad", -most, most);
    if (Var* given = n.optional_input(3)) axes = AxisSet(g, given, rank);
  }
  if (pads.size() != 2 * axes.size())
    fail("pads has ", pads.size(), " entries, ", axes.size(), " axes need ", 2 * axes.size());
  const std::vector<Expr> before(pads.begin(), pads.begin() + static_cast<int64_t>(axes.size())),
      after(pads.begin() + static_cast<int64_t>(axes.size()), pads.end());
  Pads out;
  for (int k = 0; k < rank; ++k) {
    out.before.push_back(axes.entry(before, k, 0));
    out.after.push_back(axes.entry(after, k, 0));
  }
  return out;
}

// The value that constant padding shows: a constant, or null where only data knows it.
std::optional<Expr> known_fill(Lowering& n, DType dtype) {
  if (n.opset() < 11) return constant_of(dtype, n.real("value", 0));
  Var* value = n.optional_input(2);
  if (!value) return constant_of(dtype, 0);
  if (value->dtype() != dtype) fail("constant_value is ", name_of(value->dtype()), ", the data is ", name_of(dtype));
  if (!element_count(value->shape()).is_int(1))
    fail("constant_value must be one value, its shape is ", to_string(value->shape()));
  if (const auto& known = value->known_elements(); known && (*known)[0] && (*known)[0].is_constant()) return (*known)[0];
  return std::nullopt;
}

void lower_pad(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  std::string mode = n.string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && !(mode == "wrap" && n.opset() >= 19))
    fail("mode ", quoted(mode), " is not known");
  Pads pads = read_pads(n, x->rank());
  Shape shape;
  bool same = true;
  for (int k = 0; k < x->rank(); ++k) {
    shape.push_back(pads.before[k] + x->shape()[k] + pads.after[k]);
    if (shape[k].if_int() && shape[k].as_int() < 0)
      fail("pads ", to_string(pads.before[k]), " and ", to_string(pads.after[k]), " leave axis ", k, " of ",
           to_string(x->shape()), " with ", shape[k].as_int(), " elements");
    same &= pads.before[k].is_int(0) && pads.after[k].is_int(0);
    if (mode != "constant")
      g.require(logical_or(Expr(1) <= x->shape()[k], equal(shape[k], 0)),
                concat("mode ", mode, " cannot pad axis ", k, ", which has no elements"));
    if (mode == "wrap")
      g.require(logical_or(Expr(1) <= kept_of(pads.before[k], pads.after[k], x->shape()[k]).count, equal(shape[k], 0)),
                concat("mode wrap cannot pad axis ", k, ", of which the pads leave nothing"));
  }
  if (same) return n.set_output(0, x);
  if (mode == "constant") {
    if (auto fill = known_fill(n, x->dtype())) return n.set_output(0, pad(g, x, pads.before, pads.after, *fill));
    Var* padded = pad(g, x, pads.before, pads.after, constant_of(x->dtype(), 0));
    Expr inside = bool_constant(true);
    for (int k = 0; k < x->rank(); ++k)
      inside = logical_and(inside, logical_and(pads.before[k] <= axis(k), axis(k) < pads.before[k] + x->shape()[k]));
    Var* value = to_scalar(g, n.input(2), "constant_value");
    return n.set_output(
        0, g.elementwise({padded, value}, shape,
                         select(inside, load(0, x->dtype(), identity_indices(x->rank())), load(1, x->dtype(), {}))));
  }
  std::vector<Expr> indices;
  for (int k = 0; k < x->rank(); ++k) {
    bool whole = pads.before[k].is_int(0) && pads.after[k].is_int(0);
    const Kept kept = kept_of(pads.before[k], pads.after[k], x->shape()[k]);
    indices.push_back(whole ? axis(k) : source_index(mode, axis(k) - pads.before[k], x->shape()[k], kept));
  }
  n.set_output(0, g.reindex({x}, shape, indices));
}
METAC_OPERATOR("Pad")
    .since({1, 2, 11, 13, 18, 19, 21, 23, 24, 25})
    .inputs(1, 4)
    .outputs(1)
    .attribute("mode", Kind::string)
    .attribute("value", Kind::real, 1, 11)
    .required("paddings", Kind::integers, 1, 2)
    .required("pads", Kind::integers, 2, 11)
    .lower(lower_pad);

// Crops or pads with zeros around the middle, axis by axis.
METAC_OPERATOR("CenterCropPad").since({18}).inputs(2).outputs(1).attribute("axes", Kind::integers).lower([](Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  std::vector<int> axes = n.has("axes") ? check_axes(n.integers("axes"), x->rank()) : all_axes(x->rank());
  std::vector<Expr> target = dim_elements(g, n.input(1), "an entry of shape");
  if (target.size() != axes.size()) fail("shape has ", target.size(), " entries for ", axes.size(), " axes");
  Shape shape = x->shape();
  std::vector<Expr> indices = identity_indices(x->rank()), conditions;
  for (size_t i = 0; i < axes.size(); ++i) {
    int k = axes[i];
    Dim from = x->shape()[k], to = target[i];
    // The smaller half stands first, in cropping as in padding.
    Expr shift = select(from < to, -floor_div(to - from, 2), floor_div(from - to, 2));
    shape[k] = to;
    indices[k] = axis(k) + shift;
    conditions.push_back(Expr(0) <= indices[k]);
    conditions.push_back(indices[k] < from);
  }
  n.set_output(0, g.reindex({x}, shape, indices, conditions));
});

}  // namespace
}  // namespace metac
