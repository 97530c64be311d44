// ONNX's random operators. Each draw has a number of its own (draw_number), so that every run and every iteration of a loop
// gets other values; a new context starts from the beginning. A node's `seed` chooses the sequence.
#include <cmath>
#include <cstring>

#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/pointwise/random_bits.h"
#include "compiler/ops/shape_operands.h"
#include "compiler/ops/sums/reductions.h"
#include "compiler/ops/sums/running_reduction.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// The words of the element at each index of `shape`, when the draw number is operand `operand`.
std::pair<Expr, Expr> words_at(const Lowering& n, const Shape& shape, int operand) {
  const float seed = static_cast<float>(n.real("seed", 0));
  uint32_t bits = 0;
  std::memcpy(&bits, &seed, sizeof bits);
  Expr element = linear_index(shape, identity_indices(static_cast<int>(shape.size())));
  return random_words(int64_t{bits}, load(operand, DType::i64, {}), 0, element);
}

DType dtype_or(const Lowering& n, DType otherwise) {
  return n.has("dtype") ? require_onnx_dtype(n.integer("dtype", 1), "dtype") : otherwise;
}

void draw_uniform(Lowering& n, const Shape& shape, DType dtype) {
  if (!is_float(dtype)) fail("dtype ", name_of(dtype), " is no floating-point type");
  std::pair<Expr, Expr> words = words_at(n, shape, 0);
  Expr unit = dtype == DType::f64 ? unit_interval(words) : unit_interval(words.first);
  double low = n.real("low", 0), high = n.real("high", 1);
  Expr value = constant_like(unit, low) + unit * constant_like(unit, high - low);
  n.set_output(0, n.graph().elementwise({draw_number(n.graph())}, shape, cast(value, dtype)));
}

void draw_normal(Lowering& n, const Shape& shape, DType dtype) {
  if (!is_float(dtype)) fail("dtype ", name_of(dtype), " is no floating-point type");
  Expr deviate = normal_deviate(words_at(n, shape, 0));
  if (dtype == DType::f64) deviate = cast(deviate, DType::f64);
  Expr value = constant_like(deviate, n.real("mean", 0)) + deviate * constant_like(deviate, n.real("scale", 1));
  n.set_output(0, n.graph().elementwise({draw_number(n.graph())}, shape, cast(value, dtype)));
}

Shape stated_shape(const Lowering& n) {
  for (int64_t d : n.integers("shape"))
    if (d < 0) fail("shape has the negative dim ", d);
  return shape_of(n.integers("shape"));
}

METAC_OPERATOR("RandomUniform")
    .since({1, 22})
    .inputs(0)
    .outputs(1)
    .attribute("dtype", Kind::integer)
    .attribute("seed", Kind::real)
    .attribute("low", Kind::real)
    .attribute("high", Kind::real)
    .required("shape", Kind::integers)
    .lower([](Lowering& n) { draw_uniform(n, stated_shape(n), dtype_or(n, DType::f32)); });
METAC_OPERATOR("RandomUniformLike")
    .since({1, 22})
    .inputs(1)
    .outputs(1)
    .attribute("dtype", Kind::integer)
    .attribute("seed", Kind::real)
    .attribute("low", Kind::real)
    .attribute("high", Kind::real)
    .lower([](Lowering& n) { draw_uniform(n, n.input(0)->shape(), dtype_or(n, n.input(0)->dtype())); });
METAC_OPERATOR("RandomNormal")
    .since({1, 22})
    .inputs(0)
    .outputs(1)
    .attribute("dtype", Kind::integer)
    .attribute("seed", Kind::real)
    .attribute("mean", Kind::real)
    .attribute("scale", Kind::real)
    .required("shape", Kind::integers)
    .lower([](Lowering& n) { draw_normal(n, stated_shape(n), dtype_or(n, DType::f32)); });
METAC_OPERATOR("RandomNormalLike")
    .since({1, 22})
    .inputs(1)
    .outputs(1)
    .attribute("dtype", Kind::integer)
    .attribute("seed", Kind::real)
    .attribute("mean", Kind::real)
    .attribute("scale", Kind::real)
    .lower([](Lowering& n) { draw_normal(n, n.input(0)->shape(), dtype_or(n, n.input(0)->dtype())); });

METAC_OPERATOR("Bernoulli")
    .since({15, 22})
    .inputs(1)
    .outputs(1)
    .attribute("dtype", Kind::integer)
    .attribute("seed", Kind::real)
    .lower([](Lowering& n) {
      Var* probability = n.input(0);
      require_float(probability, "input");
      DType to = dtype_or(n, probability->dtype());
      Expr p = load(0, probability->dtype(), identity_indices(probability->rank()));
      std::pair<Expr, Expr> words = words_at(n, probability->shape(), 1);
      Expr holds = p->dtype == DType::f64 ? unit_interval(words) < p : unit_interval(words.first) < cast(p, DType::f32);
      Expr value = is_bool(to) ? holds : select(holds, constant_of(to, 1), constant_of(to, 0));
      n.set_output(0, n.graph().elementwise({probability, draw_number(n.graph())}, probability->shape(), value));
    });

// Rows of unnormalised logarithms of probabilities. A sample is the class in whose piece of [0, total) a number falls.
METAC_OPERATOR("Multinomial")
    .since({7, 22})
    .inputs(1)
    .outputs(1)
    .attribute("dtype", Kind::integer)
    .attribute("sample_size", Kind::integer)
    .attribute("seed", Kind::real)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = n.input(0);
      require_float(x, "input");
      require_rank(x, 2, "input");
      DType to = dtype_or(n, DType::i32);
      if (to != DType::i32 && to != DType::i64) fail("dtype must be int32 or int64, not ", name_of(to));
      int64_t samples = n.integer("sample_size", 1);
      if (samples < 1) fail("sample_size must be at least 1, found ", samples);
      Dim batch = x->shape()[0], classes = x->shape()[1];
      g.require(Expr(1) <= classes, concat("input of shape ", to_string(x->shape()), " has no classes"));
      x = cast(g, x, DType::f64);
      Var* weights = elementwise(g, {x, reduce(g, x, {1}, Reduce::max, true)},
                                 [](const std::vector<Expr>& v) { return call(Fn::exp, {v[0] - v[1]}); });
      Var* ends = running_reduction(g, weights, weights->rank() - 1, Reduce::add, false, false);
      Shape shape{batch, samples};
      Expr total = load(0, DType::f64, {axis(0), max(classes - Expr(1), 0)});
      Var* aims = g.elementwise({ends, draw_number(g)}, shape, unit_interval(words_at(n, shape, 1)) * total);
      Shape domain{batch, samples, classes};
      Expr beyond = load(0, DType::f64, {axis(0), axis(2)}) <= load(1, DType::f64, {axis(0), axis(1)});
      Var* before = g.elementwise({ends, aims}, domain, select(beyond, Expr(1), Expr(0)));
      Var* chosen = reduce(g, before, {2}, Reduce::add, false);
      n.set_output(
          0, elementwise(g, {chosen}, [&](const std::vector<Expr>& v) { return cast(min(v[0], classes - Expr(1)), to); }));
    });

// ratio of the elements become 0, the others grow by 1 / (1 - ratio); or, for inference, the input itself.
Var* draw_mask(Lowering& n, const Shape& shape, Var* ratio) {
  const uint64_t seed = static_cast<uint64_t>(n.integer("seed", 0));
  Expr element = linear_index(shape, identity_indices(static_cast<int>(shape.size())));
  Expr unit = unit_interval(random_words(static_cast<int64_t>(seed), load(1, DType::i64, {}), 0, element).first);
  return n.graph().elementwise({ratio, draw_number(n.graph())}, shape, load(0, DType::f32, {}) <= unit);
}

void lower_dropout(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *given = n.optional_input(1), *training = n.optional_input(2);
  if (training) require_bool(training, "training_mode");
  auto mode = training ? known_scalar(training) : std::optional<double>(0);
  auto known_ratio = given ? known_scalar(given) : std::optional<double>(0.5);
  if ((mode && *mode == 0) || (known_ratio && *known_ratio == 0)) {
    n.set_output(0, x);
    DType dtype = n.opset() >= 10 ? DType::boolean : x->dtype();
    if (n.wants_output(1)) n.set_output(1, fill(g, x->shape(), constant_of(dtype, 1)));
    return;
  }
  require_float(x, "data");
  if (known_ratio && (*known_ratio < 0 || *known_ratio >= 1)) fail("ratio must be in [0, 1), found ", *known_ratio);
  Var* ratio = given ? cast(g, to_scalar(g, given, "ratio"), DType::f32) : scalar(g, DType::f32, 0.5);
  Var* mask = draw_mask(n, x->shape(), ratio);
  if (!mode) mask = map(g, Fn::logical_or, mask, map(g, Fn::logical_not, to_scalar(g, training, "training_mode")));
  std::vector<Var*> operands{x, mask, ratio};
  if (!mode) operands.push_back(to_scalar(g, training, "training_mode"));
  n.set_output(0, compute(g, operands, [&](const std::vector<Expr>& v) {
                 Expr grown = v[0] / (constant_like(v[0], 1) - cast(v[2], v[0]->dtype));
                 Expr kept = mode ? grown : select(v[3], grown, v[0]);
                 return select(v[1], kept, constant_like(v[0], 0));
               }));
  if (n.wants_output(1)) n.set_output(1, mask);
}
METAC_OPERATOR("Dropout")
    .since({1, 6, 7, 10, 12, 13, 22})
    .inputs(1, 3)
    .outputs(1, 2)
    .attribute("is_test", Kind::integer, 1, 7)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .attribute("ratio", Kind::real, 1, 12)
    .attribute("seed", Kind::integer, 12)
    .lower(lower_dropout);

}  // namespace
}  // namespace metac
