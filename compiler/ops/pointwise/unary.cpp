// Operators of one operand, element by element.
#include "compiler/ops/pointwise/activations.h"
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;
using UnaryBody = std::function<Expr(Expr)>;

void lower_map(Lowering& n, const UnaryBody& body) {
  n.set_output(0, compute(n.graph(), {n.input(0)}, [&](const std::vector<Expr>& v) { return body(v[0]); }));
}

// A function of real numbers.
LowerFunction real_function(UnaryBody body) {
  return [body](Lowering& n) {
    require_float(n.input(0));
    lower_map(n, body);
  };
}
LowerFunction real_function(Fn fn) {
  return real_function([fn](Expr x) { return call(fn, {x}); });
}

// A function of all numeric dtypes.
LowerFunction numeric_function(UnaryBody body) {
  return [body](Lowering& n) {
    require_numeric(n.input(0));
    lower_map(n, body);
  };
}

METAC_OPERATOR("Sin").since({7, 22}).inputs(1).outputs(1).lower(real_function(Fn::sin));
METAC_OPERATOR("Cos").since({7, 22}).inputs(1).outputs(1).lower(real_function(Fn::cos));
METAC_OPERATOR("Tan").since({7, 22}).inputs(1).outputs(1).lower(real_function(Fn::tan));
METAC_OPERATOR("Asin").since({7, 22}).inputs(1).outputs(1).lower(real_function(Fn::asin));
METAC_OPERATOR("Acos").since({7, 22}).inputs(1).outputs(1).lower(real_function(Fn::acos));
METAC_OPERATOR("Atan").since({7, 22}).inputs(1).outputs(1).lower(real_function(Fn::atan));
METAC_OPERATOR("Sinh").since({9, 22}).inputs(1).outputs(1).lower(real_function(Fn::sinh));
METAC_OPERATOR("Cosh").since({9, 22}).inputs(1).outputs(1).lower(real_function(Fn::cosh));
METAC_OPERATOR("Asinh").since({9, 22}).inputs(1).outputs(1).lower(real_function(Fn::asinh));
METAC_OPERATOR("Acosh").since({9, 22}).inputs(1).outputs(1).lower(real_function(Fn::acosh));
METAC_OPERATOR("Atanh").since({9, 22}).inputs(1).outputs(1).lower(real_function(Fn::atanh));
METAC_OPERATOR("Round").since({11, 22}).inputs(1).outputs(1).lower(real_function(Fn::rint));
METAC_OPERATOR("Softplus").since({1, 22}).inputs(1).outputs(1).lower(real_function(softplus));
METAC_OPERATOR("Softsign").since({1, 22}).inputs(1).outputs(1).lower(real_function(softsign));
METAC_OPERATOR("Mish").since({18, 22}).inputs(1).outputs(1).lower(real_function(mish));
METAC_OPERATOR("HardSwish").since({14, 22}).inputs(1).outputs(1).lower(real_function(hard_swish));
METAC_OPERATOR("Tanh")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(real_function(Fn::tanh));
METAC_OPERATOR("Sigmoid")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(real_function(Fn::sigmoid));
METAC_OPERATOR("Ceil")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(real_function(Fn::ceil));
METAC_OPERATOR("Floor")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(real_function(Fn::floor));
METAC_OPERATOR("Sqrt")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(real_function(Fn::sqrt));
METAC_OPERATOR("Exp")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(real_function(Fn::exp));
METAC_OPERATOR("Log")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(real_function(Fn::log));
METAC_OPERATOR("Reciprocal")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(real_function([](Expr x) { return constant_like(x, 1) / x; }));
// x, and 1 / c, where `quotient` is x / c with a number c of the model; empty where it is something else.
struct Quotient {
  Var *x = nullptr, *factor = nullptr;
};
std::optional<Quotient> quotient_by_number(Graph& g, const Var* quotient) {
  const Op* op = quotient->producer;
  if (!op || op->kind != OpKind::elementwise || op->outputs.size() != 1 || !is_float(quotient->dtype())) return std::nullopt;
  const Expr value = op->bodies[0];
  if (value->kind != ExprKind::call || value->fn != Fn::div || value->args[0]->kind != ExprKind::load ||
      value->args[1]->kind != ExprKind::load)
    return std::nullopt;
  const auto operand = [&](size_t k) { return op->inputs[static_cast<size_t>(value->args[k]->id)]; };
  Var* c = operand(1);
  if (!c->constant && c->producer && c->producer->kind == OpKind::reindex) c = c->producer->inputs[0];  // it is broadcast
  if (!c->constant || c->constant->element_count() != 1 || c->rank() > operand(0)->rank()) return std::nullopt;
  return Quotient{operand(0), elementwise(g, {c}, [](const std::vector<Expr>& v) { return constant_like(v[0], 1) / v[0]; })};
}

// erf(x / sqrt(2)) is how exporters write gelu: x * (1 / sqrt(2)) takes a tenth of a division's time, `prepare` divides,
// and erf makes the error of what it reads, of one ULP more, no larger.
void lower_erf(Lowering& n) {
  require_numeric(n.input(0));
  if (const auto of = quotient_by_number(n.graph(), n.input(0)))
    return n.set_output(0, compute(n.graph(), {of->x, of->factor},
                                   [](const std::vector<Expr>& v) { return call(Fn::erf, {v[0] * v[1]}); }));
  lower_map(n, [](Expr x) {
    return is_float(x->dtype) ? call(Fn::erf, {x}) : cast(call(Fn::erf, {cast(x, DType::f64)}), x->dtype);
  });
}
METAC_OPERATOR("Erf").since({9, 13}).inputs(1).outputs(1).lower(lower_erf);
METAC_OPERATOR("Abs")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(numeric_function([](Expr x) { return is_float(x->dtype) || is_signed(x->dtype) ? call(Fn::abs, {x}) : x; }));
METAC_OPERATOR("Neg")
    .since({1, 6, 13})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(numeric_function([](Expr x) { return -x; }));
METAC_OPERATOR("Sign").since({9, 13}).inputs(1).outputs(1).lower(numeric_function([](Expr x) {
  return call(Fn::sign, {x});
}));
METAC_OPERATOR("Relu")
    .since({1, 6, 13, 14})
    .inputs(1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(numeric_function(relu));

METAC_OPERATOR("LeakyRelu")
    .since({1, 6, 16})
    .inputs(1)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower([](Lowering& n) {
      double alpha = n.real("alpha", 0.01);
      real_function([=](Expr x) { return leaky_relu(x, alpha); })(n);
    });
METAC_OPERATOR("Elu")
    .since({1, 6, 22})
    .inputs(1)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower([](Lowering& n) {
      double alpha = n.real("alpha", 1);
      real_function([=](Expr x) { return elu(x, alpha); })(n);
    });
METAC_OPERATOR("Selu")
    .since({1, 6, 22})
    .inputs(1)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .attribute("gamma", Kind::real)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower([](Lowering& n) {
      bool first = n.opset() < 6;
      double alpha = n.real("alpha", first ? 1.6732 : 1.67326319217681884765625);
      double gamma = n.real("gamma", first ? 1.0507 : 1.05070102214813232421875);
      real_function([=](Expr x) { return selu(x, alpha, gamma); })(n);
    });
METAC_OPERATOR("Celu").since({12, 28}).inputs(1).outputs(1).attribute("alpha", Kind::real).lower([](Lowering& n) {
  double alpha = n.real("alpha", 1);
  if (alpha == 0) fail("alpha must not be 0");
  real_function([=](Expr x) { return celu(x, alpha); })(n);
});
METAC_OPERATOR("ThresholdedRelu").since({10, 22}).inputs(1).outputs(1).attribute("alpha", Kind::real).lower([](Lowering& n) {
  double alpha = n.real("alpha", 1);
  real_function([=](Expr x) { return thresholded_relu(x, alpha); })(n);
});
METAC_OPERATOR("HardSigmoid")
    .since({1, 6, 22})
    .inputs(1)
    .outputs(1)
    .attribute("alpha", Kind::real)
    .attribute("beta", Kind::real)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower([](Lowering& n) {
      double alpha = n.real("alpha", 0.2), beta = n.real("beta", 0.5);
      real_function([=](Expr x) { return hard_sigmoid(x, alpha, beta); })(n);
    });
METAC_OPERATOR("Gelu").since({20}).inputs(1).outputs(1).attribute("approximate", Kind::string).lower([](Lowering& n) {
  std::string approximate = n.string("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    fail("approximate must be \"none\" or \"tanh\", found ", quoted(approximate));
  real_function(approximate == "tanh" ? gelu_tanh : gelu)(n);
});
METAC_OPERATOR("Swish").since({24}).inputs(1).outputs(1).attribute("alpha", Kind::real).lower([](Lowering& n) {
  double alpha = n.real("alpha", 1);
  real_function([=](Expr x) { return swish(x, alpha); })(n);
});
METAC_OPERATOR("Shrink")
    .since({9})
    .inputs(1)
    .outputs(1)
    .attribute("bias", Kind::real)
    .attribute("lambd", Kind::real)
    .lower([](Lowering& n) {
      double lambda = n.real("lambd", 0.5), bias = n.real("bias", 0);
      numeric_function([=](Expr x) {
        if (is_float(x->dtype)) return shrink(x, lambda, bias);
        return cast(shrink(cast(x, DType::f64), lambda, bias), x->dtype);
      })(n);
    });

METAC_OPERATOR("IsNaN").since({9, 13, 20}).inputs(1).outputs(1).lower(real_function(Fn::is_nan));
METAC_OPERATOR("IsInf")
    .since({10, 20})
    .inputs(1)
    .outputs(1)
    .attribute("detect_negative", Kind::integer)
    .attribute("detect_positive", Kind::integer)
    .lower([](Lowering& n) {
      bool negative = n.integer("detect_negative", 1) != 0, positive = n.integer("detect_positive", 1) != 0;
      real_function([=](Expr x) {
        if (!negative && !positive) return bool_constant(false);
        Expr infinite = call(Fn::is_inf, {x});
        if (negative && positive) return infinite;
        return logical_and(infinite, positive ? constant_like(x, 0) < x : x < constant_like(x, 0));
      })(n);
    });
METAC_OPERATOR("Not").since({1}).inputs(1).outputs(1).lower([](Lowering& n) {
  require_bool(n.input(0));
  lower_map(n, [](Expr x) { return logical_not(x); });
});
METAC_OPERATOR("BitwiseNot").since({18}).inputs(1).outputs(1).lower([](Lowering& n) {
  require_integer(n.input(0));
  lower_map(n, [](Expr x) { return call(Fn::bit_not, {x}); });
});

}  // namespace
}  // namespace metac
