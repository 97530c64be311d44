// Values out of nothing or out of a shape alone: Constant, ConstantOfShape, EyeLike, Range, OneHot, Trilu; and the operators
// that passes a value through: Identity.
#include <cmath>

#include "compiler/ir/bounds.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

Tensor constant_value(const Lowering& n) {
  if (n.node().attributes.size() != 1)
    fail("a Constant has exactly one value, found ", n.node().attributes.size(), " attributes");
  if (const Tensor* value = n.tensor("value")) return *value;
  if (n.has("value_int")) return make_tensor<int64_t>(DType::i64, {}, {n.integer("value_int", 0)});
  if (n.has("value_float")) return make_tensor<float>(DType::f32, {}, {static_cast<float>(n.real("value_float", 0))});
  if (n.has("value_ints")) {
    std::vector<int64_t> values = n.integers("value_ints");
    return make_tensor(DType::i64, {static_cast<int64_t>(values.size())}, values);
  }
  if (n.has("value_floats")) {
    std::vector<double> values = n.reals("value_floats");
    return make_tensor(DType::f32, {static_cast<int64_t>(values.size())}, std::vector<float>(values.begin(), values.end()));
  }
  fail("string constants are not supported");
}

METAC_OPERATOR("Constant")
    .since({1, 9, 11, 12, 13, 19, 21, 23, 24, 25})
    .inputs(0)
    .outputs(1)
    .attribute("value", Kind::tensor)
    .attribute("sparse_value", Kind::tensor, 11)
    .attribute("value_int", Kind::integer, 12)
    .attribute("value_ints", Kind::integers, 12)
    .attribute("value_float", Kind::real, 12)
    .attribute("value_floats", Kind::reals, 12)
    .attribute("value_string", Kind::string, 12)
    .attribute("value_strings", Kind::strings, 12)
    .lower([](Lowering& n) {
      if (const Tensor* sparse = n.tensor("sparse_value")) return n.set_output(0, n.graph().add_constant(*sparse));
      n.set_output(0, n.graph().add_constant(constant_value(n)));
    });

Expr element_of_tensor(const Tensor& t, int64_t index) {
  return is_float(t.dtype) ? float_constant(number_at(t, index), t.dtype) : int_constant(integer_at(t, index), t.dtype);
}

METAC_OPERATOR("ConstantOfShape")
    .since({9, 20, 21, 23, 24, 25})
    .inputs(1)
    .outputs(1)
    .attribute("value", Kind::tensor)
    .lower([](Lowering& n) {
      Expr value = float_constant(0, DType::f32);
      if (const Tensor* t = n.tensor("value")) {
        if (!is_numeric(t->dtype) || t->element_count() != 1)
          fail("value must be one number, its shape is ", to_string(t->shape));
        value = element_of_tensor(*t, 0);
      }
      n.set_output(0, fill(n.graph(), dim_elements(n.graph(), n.input(0), "the shape"), value));
    });

METAC_OPERATOR("EyeLike")
    .since({9, 22})
    .inputs(1)
    .outputs(1)
    .attribute("dtype", Kind::integer)
    .attribute("k", Kind::integer)
    .lower([](Lowering& n) {
      Var* x = n.input(0);
      if (x->rank() != 2) fail("the input must have rank 2, its shape is ", to_string(x->shape()));
      DType dtype = n.has("dtype") ? require_onnx_dtype(n.integer("dtype", 1), "dtype") : x->dtype();
      int64_t k = n.integer("k", 0);
      Expr on = equal(axis(1) - axis(0), Expr(k));
      n.set_output(
          0, fill(n.graph(), x->shape(), is_bool(dtype) ? on : select(on, constant_of(dtype, 1), constant_of(dtype, 0))));
    });

// A range of int64 that may begin anywhere.
Var* far_range(Graph& g, Var* start, Var* limit, Var* delta) {
  DType dtype = start->dtype();
  Var* length = elementwise(g, {start, limit, delta}, [](const std::vector<Expr>& v) {
    auto wide = [](Expr e) { return cast(e, DType::u64); };
    Expr zero = int_constant(0, v[0]->dtype), one = int_constant(1, DType::u64);
    auto steps = [&](Expr from, Expr to, Expr by) { return (wide(to) - wide(from) - one) / wide(by) + one; };
    Expr up = select(v[0] < v[1], steps(v[0], v[1], v[2]), wide(zero)),
         down = select(v[1] < v[0], steps(v[1], v[0], -v[2]), wide(zero));
    return cast(select(zero < v[2], up, down), DType::i64);
  });
  Dim count = index_scalar(g, length, "the length of the range", 0, int64_t{1} << 40);
  return g.elementwise({start, delta}, {count}, load(0, dtype, {}) + cast(axis(0), dtype) * load(1, dtype, {}));
}

// start, start + delta, ... below limit (above it where delta is negative): ceil((limit - start) / delta) elements.
void lower_range(Lowering& n) {
  Graph& g = n.graph();
  Var *start = to_scalar(g, n.input(0), "start"), *limit = to_scalar(g, n.input(1), "limit"),
      *delta = to_scalar(g, n.input(2), "delta");
  DType dtype = start->dtype();
  if (limit->dtype() != dtype || delta->dtype() != dtype)
    fail("start, limit and delta must have one dtype, found ", name_of(dtype), ", ", name_of(limit->dtype()), " and ",
         name_of(delta->dtype()));
  if (is_integer(dtype)) {
    Expr from = index_scalar(g, start, "start"), to = index_scalar(g, limit, "limit"),
         step = index_scalar(g, delta, "delta");
    if (step.is_int(0)) fail("delta is 0");
    g.require(not_equal(step, Expr(0)), "Range: delta is 0");
    // Kernels compute counts in 64 bits: a limit far off is moved to where its difference from the start fits, and there
    // still are more elements than any memory holds. Where the start is far off or steps are long the count is data,
    // computed in uint64.
    const Bounds bounds(g.symbols);
    constexpr int64_t far = int64_t{1} << 60;
    auto is_near = [&](Expr e, int64_t reach) {
      return size_of(dtype) < 8 || Interval{-reach, reach}.contains(bounds.interval(e));
    };
    if (!is_near(from, far) || !is_near(step, 1 << 16)) return n.set_output(0, far_range(g, start, limit, delta));
    const bool takes_limit_as_it_is = from.is_int(0) && step.is_int(1);
    if (!is_near(to, far) && !takes_limit_as_it_is) to = simplified(g, max(min(to, far * 2), -far * 2));
    Dim count = simplified(g, max(-floor_div(from - to, step), 0));
    return n.set_output(0, fill(g, {count}, cast(from + axis(0) * step, dtype)));
  }
  if (!is_float(dtype)) fail("start, limit and delta must be numbers, not ", name_of(dtype));
  Dim count;
  auto a = known_numbers(start), b = known_numbers(limit), d = known_numbers(delta);
  Expr from = whole_number(g, start), to = whole_number(g, limit), step = whole_number(g, delta);
  if (d && (*d)[0] == 0) fail("delta is 0");
  if (bool(from) && bool(to) && bool(step) && step.if_int() != nullptr) {
    count = simplified(g, max(-floor_div(from - to, step), 0));
  } else if (a && b && d) {
    double exact = std::ceil(((*b)[0] - (*a)[0]) / (*d)[0]);
    if (!(exact < 1e15))
      fail("a range from ", (*a)[0], " to ", (*b)[0], " by ", (*d)[0], " has no countable number of elements");
    count = static_cast<int64_t>(std::max(exact, 0.0));
  } else {
    Var* length = elementwise(g, {start, limit, delta}, [](const std::vector<Expr>& v) {
      Expr steps = (cast(v[1], DType::f64) - cast(v[0], DType::f64)) / cast(v[2], DType::f64);
      return max(cast(call(Fn::ceil, {steps}), DType::i64), 0);
    });
    count = index_scalar(g, length, "the length of the range", 0, int64_t{1} << 40);
  }
  // In float64 and rounded once, so that the last elements of a long range are not off by many steps.
  Expr value = cast(load(0, dtype, {}), DType::f64) + cast(axis(0), DType::f64) * cast(load(1, dtype, {}), DType::f64);
  n.set_output(0, g.elementwise({start, delta}, {count}, cast(value, dtype)));
}
METAC_OPERATOR("Range").since({11, 27}).inputs(3).outputs(1).attribute("stash_type", Kind::integer, 27).lower(lower_range);

METAC_OPERATOR("OneHot").since({9, 11, 28}).inputs(3).outputs(1).attribute("axis", Kind::integer).lower([](Lowering& n) {
  Graph& g = n.graph();
  Var *indices = n.input(0), *depth = n.input(1), *values = n.input(2);
  if (is_float(depth->dtype())) depth = cast(g, depth, DType::i64);
  Expr extent = index_scalar(g, depth, "depth", 1, int64_t{1} << 40);
  if (values->rank() != 1 || (values->shape()[0].if_int() && !values->shape()[0].is_int(2)))
    fail("values must be [off, on], its shape is ", to_string(values->shape()));
  int at = check_axis(n.integer("axis", -1), indices->rank() + 1);
  Shape shape = indices->shape();
  shape.insert(shape.begin() + at, extent);
  Var* spread = broadcast_axes(g, indices, shape, {at});
  Expr index = cast(load(0, spread->dtype(), identity_indices(spread->rank())), DType::i64);
  if (is_signed(indices->dtype()))
    index = select(index < Expr(0), index + extent, index);  // a uint64 that is negative now is far out
  Expr off = load(1, values->dtype(), {0}), on = load(1, values->dtype(), {1});
  n.set_output(0, g.elementwise({spread, values}, shape, select(equal(index, axis(at)), on, off)));
});

METAC_OPERATOR("Trilu").since({14}).inputs(1, 2).outputs(1).attribute("upper", Kind::integer).lower([](Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  int rank = x->rank();
  if (rank < 2) fail("the input must have rank 2 or more, its shape is ", to_string(x->shape()));
  constexpr int64_t far = int64_t{1} << 40;  // beyond all dims, and sums with them do not overflow
  Expr k = n.optional_input(1) ? simplified(g, max(min(index_scalar(g, n.input(1), "k"), far), -far)) : Expr(0);
  Expr diagonal = axis(rank - 1) - axis(rank - 2);
  Expr kept = n.integer("upper", 1) ? k <= diagonal : diagonal <= k;
  Expr zero = constant_of(x->dtype(), 0);
  n.set_output(0, g.elementwise({x}, select(kept, load(0, x->dtype(), identity_indices(rank)), zero)));
});

METAC_OPERATOR("Identity")
    .since({1, 13, 14, 16, 19, 21, 23, 24, 25})
    .inputs(1)
    .outputs(1)
    .takes_sequences()
    .lower([](Lowering& n) { n.set_output(0, n.input(0)); });

}  // namespace
}  // namespace metac
