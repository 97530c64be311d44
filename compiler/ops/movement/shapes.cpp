// Shapes as values, and operators that change a shape without moving an element: Shape, Size, Reshape, Flatten, Squeeze,
// Unsqueeze, Expand.
#include <algorithm>

#include "compiler/ir/bounds.h"
#include "compiler/ops/axis_set.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

METAC_OPERATOR("Shape")
    .since({1, 13, 15, 19, 21, 23, 24, 25})
    .inputs(1)
    .outputs(1)
    .attribute("start", Kind::integer, 15)
    .attribute("end", Kind::integer, 15)
    .lower([](Lowering& n) {
      const Shape& shape = n.input(0)->shape();
      int64_t rank = static_cast<int64_t>(shape.size());
      auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank); };
      int64_t start = clamp(n.integer("start", 0)), end = clamp(n.integer("end", rank));
      n.set_output(0, vector_of(n.graph(), start < end ? Shape(shape.begin() + start, shape.begin() + end) : Shape{}));
    });

METAC_OPERATOR("Size").since({1, 13, 19, 21, 23, 24, 25}).inputs(1).outputs(1).lower([](Lowering& n) {
  n.set_output(0, scalar_of(n.graph(), element_count(n.input(0)->shape())));
});

// The dim that -1 stands for: all elements over the other dims. Dims that occur on both sides are taken out first, so that
// (h + 1) * w over (h + 1) is w.
Dim inferred_dim(Graph& g, const Shape& from, const Shape& others, const std::string& context) {
  std::vector<Dim> left(from.begin(), from.end()), right;
  for (Dim d : others) {
    auto same = std::find(left.begin(), left.end(), d);
    if (!d.if_int() && same != left.end())
      left.erase(same);
    else
      right.push_back(d);
  }
  Expr total = element_count(left), known = element_count(right);
  if (known.is_int(0)) {
    if (total.if_int() && !total.is_int(0)) fail("cannot infer -1 ", context, ": the other dims multiply to 0");
    return 0;
  }
  if (total.if_int() && known.if_int() && total.as_int() % known.as_int() != 0)
    fail("cannot infer -1 ", context, ": ", to_string(element_count(from)), " elements are not divisible by ",
         to_string(element_count(others)));
  return simplified(g, floor_div(total, known));
}

// Dims worked out from others (n - 4) may come to 0 or -1 in a run: what these stand for is then worked out too. Not so a dim
// of x itself, which is never negative.
std::vector<Expr> resolved_dims(Graph& g, Var* x, const std::vector<Expr>& stated, bool zero_is_zero,
                                const std::string& context) {
  const Bounds bounds(g.symbols);
  const auto is_open = [&](Dim d) {
    return !d.if_int() && bounds.interval(d).low.clamped() < 0 &&
           std::find(x->shape().begin(), x->shape().end(), d) == x->shape().end();
  };
  std::vector<Expr> copied = stated;
  for (size_t k = 0; k < std::min(stated.size(), x->shape().size()) && !zero_is_zero; ++k)
    if (is_open(stated[k])) copied[k] = select(equal(stated[k], 0), x->shape()[k], stated[k]);
  std::vector<Expr> resolved = copied;
  for (size_t k = 0; k < stated.size(); ++k) {
    if (!is_open(stated[k])) continue;
    Expr others = 1;
    for (size_t j = 0; j < stated.size(); ++j)
      if (j != k) others = others * copied[j];
    resolved[k] = select(equal(stated[k], -1), floor_div(element_count(x->shape()), max(others, 1)), copied[k]);
    g.require(Expr(0) <= resolved[k], concat("dim ", k, " is negative ", context));
  }
  return resolved;
}

Var* reshape_to(Graph& g, Var* x, std::vector<Expr> target, bool zero_is_zero) {
  std::string context = concat("in the reshape of ", to_string(x->shape()), " to ", to_string(target));
  target = resolved_dims(g, x, target, zero_is_zero, context);
  int inferred = -1;
  Shape shape, others;
  for (size_t k = 0; k < target.size(); ++k) {
    Dim d = target[k];
    if (d.is_int(0) && !zero_is_zero) {
      if (k >= x->shape().size()) fail("dim 0 at position ", k, " copies a dim that the input does not have, ", context);
      d = x->shape()[k];
    } else if (d.is_int(-1)) {
      if (inferred >= 0) fail("more than one -1 ", context);
      inferred = static_cast<int>(k);
    } else if (d.if_int() && d.as_int() < 0) {
      fail("dim ", d.as_int(), " ", context);
    }
    shape.push_back(d);
    if (!d.is_int(-1)) others.push_back(d);
  }
  if (inferred >= 0 && zero_is_zero && std::any_of(target.begin(), target.end(), [](Dim d) { return d.is_int(0); }))
    fail("allowzero with both 0 and -1 ", context);
  if (inferred >= 0) shape[inferred] = inferred_dim(g, x->shape(), others, context);
  return reshape(g, x, shape);
}

// The new shape where its tensor is known, or its dims where only the run knows them: what 0 and -1 stand for is then
// computed there too, and each dim becomes a symbol bound to the result.
std::vector<Expr> target_dims(Graph& g, Var* x, Var* shape, bool zero_is_zero) {
  if (shape->rank() != 1) fail("the shape must have rank 1, its shape is ", to_string(shape->shape()));
  const int64_t* count = shape->shape()[0].if_int();
  if (!count) fail("the number of dims of the new shape is not known; give the model static shapes");
  std::vector<Expr> out;
  bool known = true;
  for (int64_t k = 0; k < *count; ++k) {
    out.push_back(shape->constant || (shape->known_elements() && bool((*shape->known_elements())[k]))
                      ? index_element(g, shape, k, "a dim")
                      : Expr());
    known = known && bool(out.back());
  }
  if (known) return out;
  Expr wanted = cast(load(0, shape->dtype(), {axis(0)}), DType::i64), copied = 0, total = element_count(x->shape());
  for (size_t k = std::min(static_cast<size_t>(*count), x->shape().size()); k-- > 0;)
    copied = select(equal(axis(0), static_cast<int64_t>(k)), x->shape()[k], copied);
  Var* dims = g.elementwise({shape}, zero_is_zero ? wanted : select(equal(wanted, 0), copied, wanted));
  Var* product = reduce(g, dims, {0}, Reduce::mul, true);  // of the others, negated, where one dim is -1
  Expr dim = load(0, DType::i64, {axis(0)}), others = max(Expr(0) - load(1, DType::i64, {0}), 1);
  Var* resolved = g.elementwise({dims, product}, dims->shape(), select(equal(dim, -1), floor_div(total, others), dim));
  for (size_t k = 0; k < out.size(); ++k) {
    bool copies = bool(out[k]) && out[k].is_int(0) && !zero_is_zero;
    if (!out[k] || out[k].is_int(-1))
      out[k] = index_element(g, resolved, static_cast<int64_t>(k), "a dim", 0, int64_t{1} << 40);
    else if (copies && k < x->shape().size())
      out[k] = x->shape()[k];
  }
  return out;
}

METAC_OPERATOR("Reshape")
    .since({1, 5, 13, 14, 19, 21, 23, 24, 25})
    .inputs(1, 2)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 5)
    .attribute("shape", Kind::integers, 1, 5)
    .attribute("allowzero", Kind::integer, 14)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      std::vector<Expr> target;
      if (n.opset() < 5) {
        for (int64_t d : n.integers("shape")) target.push_back(d);
      } else {
        target = target_dims(g, n.input(0), n.input(1), n.integer("allowzero", 0) != 0);
      }
      n.set_output(0, reshape_to(g, n.input(0), target, n.integer("allowzero", 0) != 0));
    });

METAC_OPERATOR("Flatten")
    .since({1, 9, 11, 13, 21, 23, 24, 25})
    .inputs(1)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .lower([](Lowering& n) {
      Var* x = n.input(0);
      int64_t at = n.integer("axis", 1), rank = x->rank();
      if (at < -rank || at > rank) fail("axis ", at, " is out of range for rank ", rank);
      if (at < 0) at += rank;
      Shape outer(x->shape().begin(), x->shape().begin() + at), inner(x->shape().begin() + at, x->shape().end());
      n.set_output(0, reshape(n.graph(), x, {element_count(outer), element_count(inner)}));
    });

// Axes are an attribute before opset 13, an input from then on; `grows`: they count in a rank that has them already.
std::optional<AxisSet> axes_operand(Lowering& n, int rank, bool grows) {
  if (n.has("axes")) return AxisSet(n.integers("axes"), rank + (grows ? static_cast<int>(n.integers("axes").size()) : 0));
  Var* axes = n.optional_input(1);
  if (!axes) return std::nullopt;
  if (axes->rank() > 1) fail("axes must have rank 0 or 1, its shape is ", to_string(axes->shape()));
  Expr count = element_count(axes->shape());
  if (!count.if_int())
    fail("axes has an unknown number of elements (shape ", to_string(axes->shape()),
         "), which decides a rank; give the model static shapes");
  return AxisSet(n.graph(), axes, rank + (grows ? static_cast<int>(count.as_int()) : 0));
}

METAC_OPERATOR("Squeeze")
    .since({1, 11, 13, 21, 23, 24, 25})
    .inputs(1, 2)
    .outputs(1)
    .attribute("axes", Kind::integers, 1, 13)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = n.input(0);
      if (auto axes = axes_operand(n, x->rank(), false)) {
        for (int k = 0; k < x->rank(); ++k) {
          Dim d = x->shape()[k];
          Expr named = axes->contains(k);
          if (named.is_int(1) && d.if_int() && !d.is_int(1)) fail("axis ", k, " of ", to_string(x->shape()), " is not 1");
          g.require(logical_or(logical_not(named), equal(d, Expr(1))),
                    concat("Squeeze: axis ", k, " of ", to_string(x->shape()), " is not 1"));
        }
        return n.set_output(0, without_axes(g, x, *axes));
      }
      // All dims of extent 1. An open dim decides the rank: it is taken to be larger, which is checked.
      std::vector<int> ones;
      for (int k = 0; k < x->rank(); ++k) {
        Dim d = x->shape()[k];
        if (d.is_int(1))
          ones.push_back(k);
        else
          g.require(not_equal(d, Expr(1)), concat("Squeeze without axes: axis ", k, " of ", to_string(x->shape()),
                                                  " must not be 1; compile for the static shape"));
      }
      n.set_output(0, ones.empty() ? x : squeeze(g, x, ones));
    });

METAC_OPERATOR("Unsqueeze")
    .since({1, 11, 13, 21, 23, 24, 25})
    .inputs(1, 2)
    .outputs(1)
    .required("axes", Kind::integers, 1, 13)
    .lower([](Lowering& n) {
      Var* x = n.input(0);
      auto axes = axes_operand(n, x->rank(), true);
      if (!axes) fail("axes are missing");
      n.set_output(0, with_axes(n.graph(), x, *axes));
    });

METAC_OPERATOR("Expand").since({8, 13}).inputs(2).outputs(1).lower([](Lowering& n) {
  Graph& g = n.graph();
  if (n.input(1)->rank() != 1) fail("the shape must have rank 1, its shape is ", to_string(n.input(1)->shape()));
  Shape shape = broadcast_shapes(g, {n.input(0)->shape(), dim_elements(g, n.input(1), "a dim of the shape")});
  n.set_output(0, broadcast_to(g, n.input(0), shape));
});

}  // namespace
}  // namespace metac
