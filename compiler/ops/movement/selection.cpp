// Choosing among elements: Where, ArgMax, ArgMin, TopK, Unique, NonMaxSuppression. Sorting is no tensor algebra: those are
// routines of the runtime (runtime/routines_contract.h).
#include <limits>

#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

METAC_OPERATOR("Where").since({9, 16}).inputs(3).outputs(1).lower([](Lowering& n) {
  Var *condition = n.input(0), *a = n.input(1), *b = n.input(2);
  if (!is_bool(condition->dtype())) fail("the condition must be bool, not ", name_of(condition->dtype()));
  if (a->dtype() != b->dtype()) fail("X is ", name_of(a->dtype()), ", Y is ", name_of(b->dtype()));
  n.set_output(
      0, elementwise(n.graph(), {condition, a, b}, [](const std::vector<Expr>& v) { return select(v[0], v[1], v[2]); }));
});

// Two reductions: the extreme value, then the first (or last) position that holds it. A NaN is extreme, as in NumPy.
LowerFunction lower_arg(Reduce extreme) {
  return [extreme](Lowering& n) {
    Graph& g = n.graph();
    Var* x = n.input(0);
    if (x->rank() == 0) fail("the input is a scalar");
    if (is_bool(x->dtype())) fail("the input must be numeric, not bool");
    int along = check_axis(n.integer("axis", 0), x->rank());
    Expr results = 1;
    for (int k = 0; k < x->rank(); ++k)
      if (k != along) results = results * x->shape()[k];
    g.require(logical_or(Expr(1) <= x->shape()[along], equal(results, 0)),
              concat("axis ", along, " of ", to_string(x->shape()), " has no elements"));
    bool last = n.integer("select_last_index", 0) != 0, keepdims = n.integer("keepdims", 1) != 0;
    Var* best = reduce(g, x, {along}, extreme, true);
    Expr none = last ? Expr(-1) : x->shape()[along];
    Var* positions = elementwise(g, {x, best}, [&](const std::vector<Expr>& v) {
      Expr holds = equal(v[0], v[1]);
      if (is_float(x->dtype())) holds = logical_or(holds, call(Fn::is_nan, {v[0]}));
      return select(holds, axis(along), none);
    });
    n.set_output(0, reduce(g, positions, {along}, last ? Reduce::max : Reduce::min, keepdims));
  };
}
METAC_OPERATOR("ArgMax")
    .since({1, 11, 12, 13})
    .inputs(1)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .attribute("keepdims", Kind::integer)
    .attribute("select_last_index", Kind::integer, 12)
    .lower(lower_arg(Reduce::max));
METAC_OPERATOR("ArgMin")
    .since({1, 11, 12, 13})
    .inputs(1)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .attribute("keepdims", Kind::integer)
    .attribute("select_last_index", Kind::integer, 12)
    .lower(lower_arg(Reduce::min));

METAC_OPERATOR("TopK")
    .since({1, 10, 11, 24})
    .inputs(1, 2)
    .outputs(2)
    .attribute("axis", Kind::integer)
    .required("k", Kind::integer, 1, 10)
    .attribute("largest", Kind::integer, 11)
    .attribute("sorted", Kind::integer, 11)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = n.input(0);
      if (x->rank() == 0) fail("the input is a scalar");
      int along = check_axis(n.integer("axis", -1), x->rank());
      Expr k = n.opset() < 10 ? Expr(n.integer("k", 0)) : index_scalar(g, n.input(1), "K", 0, int64_t{1} << 40);
      if (k.if_int() && k.as_int() < 0) fail("K is ", k.as_int());
      g.require(k <= x->shape()[along],
                concat("K is ", to_string(k), ", axis ", along, " of ", to_string(x->shape()), " has fewer elements"));
      Shape shape = x->shape();
      shape[along] = k;
      std::vector<Var*> out =
          g.external("top_k", {x}, {Type{TypeKind::tensor, x->dtype(), shape}, Type{TypeKind::tensor, DType::i64, shape}},
                     {{"axis", int64_t{along}}, {"largest", n.integer("largest", 1)}, {"sorted", n.integer("sorted", 1)}});
      n.set_output(0, out[0]);
      n.set_output(1, out[1]);
    });

METAC_OPERATOR("Unique")
    .since({11, 28})
    .inputs(1)
    .outputs(1, 4)
    .attribute("axis", Kind::integer)
    .attribute("sorted", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = n.input(0);
      bool flat = !n.has("axis");
      int along = flat ? 0 : check_axis(n.integer("axis", 0), x->rank());
      if (flat) x = reshape(g, x, {element_count(x->shape())});
      Symbol count;
      count.name = "unique";
      if (x->shape()[along].if_int()) count.max = x->shape()[along].as_int();
      int id = g.add_symbol(count);
      Shape shape = x->shape();
      shape[along] = symbol(id);
      Type found{TypeKind::tensor, DType::i64, {symbol(id)}}, each{TypeKind::tensor, DType::i64, {x->shape()[along]}};
      std::vector<Var*> out = g.external("unique", {x}, {Type{TypeKind::tensor, x->dtype(), shape}, found, each, found},
                                         {{"axis", int64_t{along}}, {"sorted", n.integer("sorted", 1)}}, {id});
      for (size_t k = 0; k < out.size(); ++k) n.set_output(k, out[k]);
    });

METAC_OPERATOR("NonMaxSuppression")
    .since({10, 11})
    .inputs(2, 5)
    .outputs(1)
    .attribute("center_point_box", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *boxes = n.input(0), *scores = n.input(1);
      if (boxes->rank() != 3 || scores->rank() != 3)
        fail("boxes and scores must have rank 3, the shapes are ", to_string(boxes->shape()), " and ",
             to_string(scores->shape()));
      if (boxes->dtype() != DType::f32 || scores->dtype() != DType::f32)
        fail("boxes and scores must be float32, found ", name_of(boxes->dtype()), " and ", name_of(scores->dtype()));
      g.require(equal(boxes->shape()[2], Expr(4)),
                concat("boxes must have 4 coordinates, the shape is ", to_string(boxes->shape())));
      g.require(equal(boxes->shape()[0], scores->shape()[0]), concat("boxes ", to_string(boxes->shape()), " and scores ",
                                                                     to_string(scores->shape()), " differ in the batch"));
      g.require(equal(boxes->shape()[1], scores->shape()[2]),
                concat("boxes ", to_string(boxes->shape()), " and scores ", to_string(scores->shape()),
                       " differ in the number of boxes"));
      auto scalar_input = [&](size_t i, DType dtype, double otherwise, std::string_view what) {
        Var* given = n.optional_input(i);
        if (!given) return scalar(g, dtype, otherwise);
        if (given->dtype() != dtype) fail(what, " must be ", name_of(dtype), ", not ", name_of(given->dtype()));
        return to_scalar(g, given, what);
      };
      Var* most = scalar_input(2, DType::i64, 0, "max_output_boxes_per_class");
      Var* overlap = scalar_input(3, DType::f32, 0, "iou_threshold");
      Var* least = scalar_input(4, DType::f32, -std::numeric_limits<double>::infinity(), "score_threshold");
      Symbol count;
      count.name = "selected";
      int id = g.add_symbol(count);
      n.set_output(0, g.external("non_max_suppression", {boxes, scores, most, overlap, least},
                                 {Type{TypeKind::tensor, DType::i64, {symbol(id), 3}}},
                                 {{"center_point_box", n.integer("center_point_box", 0)}}, {id})[0]);
    });

}  // namespace
}  // namespace metac
