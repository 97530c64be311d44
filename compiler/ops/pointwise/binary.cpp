// Operators of two or more operands, element by element, with NumPy's broadcasting; before opset 7 with ONNX's first one
// (attributes `broadcast` and `axis`).
#include <cmath>

#include "compiler/ops/pointwise/activations.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;
using Body = std::function<Expr(Expr, Expr)>;

// Opsets 1 to 6: B's axes stand at A's axes [axis, axis + rank of B); without `axis` at the last ones.
Var* second_operand(Lowering& n) {
  Var *a = n.input(0), *b = n.input(1);
  if (n.opset() >= 7 || !n.has("axis") || n.integer("broadcast", 0) == 0 || b->rank() == 0) return b;
  int axis = check_axis(n.integer("axis", 0), a->rank());
  int trailing = a->rank() - axis - b->rank();
  if (trailing < 0)
    fail("B of shape ", to_string(b->shape()), " does not fit into A of shape ", to_string(a->shape()), " at axis ", axis);
  std::vector<int> axes;
  for (int i = 0; i < trailing; ++i) axes.push_back(b->rank() + i);
  return unsqueeze(n.graph(), b, axes);
}

void lower_binary(Lowering& n, const Body& body) {
  Var *a = n.input(0), *b = second_operand(n);
  require_same_dtype(a, b);
  n.set_output(0, compute(n.graph(), {a, b}, [&](const std::vector<Expr>& v) { return body(v[0], v[1]); }));
}

LowerFunction numeric(Body body) {
  return [body](Lowering& n) {
    require_numeric(n.input(0), "A");
    lower_binary(n, body);
  };
}
LowerFunction logical(Fn fn) {
  return [fn](Lowering& n) {
    require_bool(n.input(0), "A");
    lower_binary(n, [fn](Expr a, Expr b) { return call(fn, {a, b}); });
  };
}
LowerFunction bitwise(Fn fn) {
  return [fn](Lowering& n) {
    require_integer(n.input(0), "A");
    lower_binary(n, [fn](Expr a, Expr b) { return call(fn, {a, b}); });
  };
}

OperatorBuilder& legacy(OperatorBuilder& builder) {
  return builder.attribute("axis", Kind::integer, 1, 7).attribute("broadcast", Kind::integer, 1, 7);
}

struct Arithmetic : OperatorBuilder {
  Arithmetic(const char* name, Body body) : OperatorBuilder(name) {
    legacy(since({1, 6, 7, 13, 14}).inputs(2).outputs(1))
        .attribute("consumed_inputs", Kind::integers, 1, 6)
        .lower(numeric(body));
  }
};
const Arithmetic operator_add("Add", [](Expr a, Expr b) { return a + b; });
const Arithmetic operator_sub("Sub", [](Expr a, Expr b) { return a - b; });
const Arithmetic operator_mul("Mul", [](Expr a, Expr b) { return a * b; });

// Division by an integer 0 is an error where the divisor is known; while running it gives 0.
void require_no_zero(const Var* divisor) {
  if (!is_integer(divisor->dtype())) return;
  std::optional<std::vector<double>> values = known_numbers(divisor);
  if (!values) return;
  for (size_t i = 0; i < values->size(); ++i)
    if ((*values)[i] == 0) fail("division by 0: element ", i, " of B, of shape ", to_string(divisor->shape()));
}

METAC_OPERATOR("Div")
    .since({1, 6, 7, 13, 14})
    .inputs(2)
    .outputs(1)
    .attribute("axis", Kind::integer, 1, 7)
    .attribute("broadcast", Kind::integer, 1, 7)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower([](Lowering& n) {
      require_no_zero(n.input(1));
      numeric([](Expr a, Expr b) { return a / b; })(n);
    });

struct Logical : OperatorBuilder {
  Logical(const char* name, Fn fn) : OperatorBuilder(name) { legacy(since({1, 7}).inputs(2).outputs(1)).lower(logical(fn)); }
};
const Logical operator_and("And", Fn::logical_and);
const Logical operator_or("Or", Fn::logical_or);
const Logical operator_xor("Xor", Fn::logical_xor);

METAC_OPERATOR("BitwiseAnd").since({18}).inputs(2).outputs(1).lower(bitwise(Fn::bit_and));
METAC_OPERATOR("BitwiseOr").since({18}).inputs(2).outputs(1).lower(bitwise(Fn::bit_or));
METAC_OPERATOR("BitwiseXor").since({18}).inputs(2).outputs(1).lower(bitwise(Fn::bit_xor));

METAC_OPERATOR("Greater")
    .since({1, 7, 9, 13})
    .inputs(2)
    .outputs(1)
    .attribute("axis", Kind::integer, 1, 7)
    .attribute("broadcast", Kind::integer, 1, 7)
    .lower(numeric([](Expr a, Expr b) { return b < a; }));
METAC_OPERATOR("Less")
    .since({1, 7, 9, 13})
    .inputs(2)
    .outputs(1)
    .attribute("axis", Kind::integer, 1, 7)
    .attribute("broadcast", Kind::integer, 1, 7)
    .lower(numeric([](Expr a, Expr b) { return a < b; }));
METAC_OPERATOR("GreaterOrEqual").since({12, 16}).inputs(2).outputs(1).lower(numeric([](Expr a, Expr b) { return b <= a; }));
METAC_OPERATOR("LessOrEqual").since({12, 16}).inputs(2).outputs(1).lower(numeric([](Expr a, Expr b) { return a <= b; }));
METAC_OPERATOR("Equal")
    .since({1, 7, 11, 13, 19})
    .inputs(2)
    .outputs(1)
    .attribute("axis", Kind::integer, 1, 7)
    .attribute("broadcast", Kind::integer, 1, 7)
    .lower([](Lowering& n) {
      if (!is_numeric(n.input(0)->dtype())) fail("comparing strings is not supported");
      lower_binary(n, [](Expr a, Expr b) { return equal(a, b); });
    });

// x^c for the exponents that exporters write (squares of normalisations, the cube of gelu, roots, reciprocals), as what is
// exact to half a ULP or two roundings; empty for others. pow(-inf, 0.5) is +inf and pow(-0, 0.5) is +0, unlike sqrt's.
using PowerForm = std::function<Expr(Expr)>;
PowerForm power_form(double exponent, DType dtype) {
  if (exponent == 2) return [](Expr x) { return x * x; };
  if (!is_float(dtype)) return {};
  if (exponent == 1) return [](Expr x) { return x; };
  if (exponent == 3) return [](Expr x) { return x * x * x; };
  if (exponent == -1) return [](Expr x) { return constant_like(x, 1) / x; };
  auto root = [](Expr x) {
    Expr infinity = constant_like(x, INFINITY);
    return select(equal(x, -infinity), infinity, call(Fn::sqrt, {x + constant_like(x, 0)}));
  };
  if (exponent == 0.5) return root;
  if (exponent == -0.5) return [root](Expr x) { return constant_like(x, 1) / root(x); };
  return {};
}

// Result and computation in the base's dtype; an integer base with a fractional exponent goes through float64.
void lower_pow(Lowering& n) {
  Var *base = n.input(0), *exponent = second_operand(n);
  require_numeric(base, "the base");
  require_numeric(exponent, "the exponent");
  std::optional<double> known = known_scalar(exponent);
  if (known && exponent->rank() <= base->rank())
    if (PowerForm form = power_form(*known, base->dtype())) {
      n.set_output(0, compute(n.graph(), {base}, [&](const std::vector<Expr>& v) { return form(v[0]); }));
      return;
    }
  DType result = base->dtype();
  n.set_output(0, elementwise(n.graph(), {base, exponent}, [&](const std::vector<Expr>& v) {
                 DType dtype = !is_float(result) && is_float(v[1]->dtype) ? DType::f64 : arithmetic_dtype(result);
                 return cast(call(Fn::pow, {cast(v[0], dtype), cast(v[1], dtype)}), result);
               }));
}
METAC_OPERATOR("Pow")
    .since({1, 7, 12, 13, 15})
    .inputs(2)
    .outputs(1)
    .attribute("axis", Kind::integer, 1, 7)
    .attribute("broadcast", Kind::integer, 1, 7)
    .lower(lower_pow);

METAC_OPERATOR("Mod").since({10, 13, 28}).inputs(2).outputs(1).attribute("fmod", Kind::integer).lower([](Lowering& n) {
  int64_t fmod = n.integer("fmod", 0);
  if (fmod != 0 && fmod != 1) fail("fmod must be 0 or 1, found ", fmod);
  if (n.opset() < 28 && fmod == 0 && is_float(n.input(0)->dtype())) fail("floating-point operands need fmod = 1");
  require_no_zero(n.input(1));
  numeric([fmod](Expr a, Expr b) { return call(fmod ? Fn::trunc_mod : Fn::floor_mod, {a, b}); })(n);
});

// A shift by a negative count, or by the width or more, leaves nothing but copies of the sign bit.
METAC_OPERATOR("BitShift").since({11, 28}).inputs(2).outputs(1).required("direction", Kind::string).lower([](Lowering& n) {
  std::string direction = n.string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") fail("direction must be LEFT or RIGHT, found ", quoted(direction));
  require_integer(n.input(0), "X");
  lower_binary(n, [&](Expr x, Expr count) {
    if (direction == "LEFT" && !is_signed(x->dtype)) return call(Fn::shift_left, {x, count});
    if (direction == "RIGHT" && !is_signed(x->dtype)) return call(Fn::shift_right, {x, count});
    Expr zero = constant_like(x, 0);
    Expr outside = logical_or(count < zero, constant_like(x, 8 * static_cast<double>(size_of(x->dtype))) <= count);
    if (direction == "LEFT") return select(outside, zero, call(Fn::shift_left, {x, count}));
    return select(outside, select(x < zero, constant_like(x, -1), zero), call(Fn::shift_right, {x, count}));
  });
});

// ---- any number of operands ----
LowerFunction variadic(std::function<Expr(const std::vector<Expr>&)> body) {
  return [body](Lowering& n) {
    std::vector<Var*> operands;
    for (size_t i = 0; i < n.input_count(); ++i) {
      require_numeric(n.input(i), concat("operand ", i));
      require_same_dtype(n.input(0), n.input(i), "operand 0", concat("operand ", i));
      operands.push_back(n.input(i));
    }
    n.set_output(0, compute(n.graph(), operands, body));
  };
}
Expr fold(const std::vector<Expr>& v, const Body& body) {
  Expr result = v[0];
  for (size_t i = 1; i < v.size(); ++i) result = body(result, v[i]);
  return result;
}
Expr sum_of(const std::vector<Expr>& v) {
  return fold(v, [](Expr a, Expr b) { return a + b; });
}
METAC_OPERATOR("Sum")
    .since({1, 6, 8, 13})
    .inputs(1, -1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(variadic(sum_of));
METAC_OPERATOR("Mean")
    .since({1, 6, 8, 13})
    .inputs(1, -1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(variadic([](const std::vector<Expr>& v) {
      return sum_of(v) / constant_like(v[0], static_cast<double>(v.size()));
    }));
METAC_OPERATOR("Max")
    .since({1, 6, 8, 12, 13})
    .inputs(1, -1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(variadic([](const std::vector<Expr>& v) { return fold(v, [](Expr a, Expr b) { return max(a, b); }); }));
METAC_OPERATOR("Min")
    .since({1, 6, 8, 12, 13})
    .inputs(1, -1)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(variadic([](const std::vector<Expr>& v) { return fold(v, [](Expr a, Expr b) { return min(a, b); }); }));

// min(max(x, low), high): where low > high everything becomes high.
void lower_clip(Lowering& n) {
  Var* x = n.input(0);
  require_numeric(x);
  std::vector<Var*> operands{x};
  std::optional<double> bound[2];
  size_t operand[2] = {0, 0};  // 0: none
  if (n.opset() < 11) {
    if (n.has("min")) bound[0] = n.real("min", 0);
    if (n.has("max")) bound[1] = n.real("max", 0);
  } else {
    for (int i = 0; i < 2; ++i) {
      Var* input = n.optional_input(1 + i);
      if (!input) continue;
      std::string_view name = i == 0 ? "min" : "max";
      require_same_dtype(x, input, "input", name);
      // A parameter may be refitted, and doubles hold no 64-bit integers.
      if (!input->is_parameter && (size_of(x->dtype()) < 8 || is_float(x->dtype()))) bound[i] = known_scalar(input);
      if (bound[i]) continue;
      operand[i] = operands.size();
      operands.push_back(to_scalar(n.graph(), input, name));
    }
  }
  n.set_output(0, compute(n.graph(), operands, [&](const std::vector<Expr>& v) {
                 Expr value = v[0];
                 if (bound[0] || operand[0]) value = max(value, bound[0] ? constant_like(value, *bound[0]) : v[operand[0]]);
                 if (bound[1] || operand[1]) value = min(value, bound[1] ? constant_like(value, *bound[1]) : v[operand[1]]);
                 return value;
               }));
}
METAC_OPERATOR("Clip")
    .since({1, 6, 11, 12, 13})
    .inputs(1, 3)
    .outputs(1)
    .attribute("min", Kind::real, 1, 11)
    .attribute("max", Kind::real, 1, 11)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower(lower_clip);

// The slope broadcasts to x alone; before opset 7 a slope per channel stands at axis 1.
METAC_OPERATOR("PRelu")
    .since({1, 6, 7, 9, 16})
    .inputs(2)
    .outputs(1)
    .attribute("consumed_inputs", Kind::integers, 1, 6)
    .lower([](Lowering& n) {
      Var *x = n.input(0), *slope = n.input(1);
      require_numeric(x, "X");
      require_same_dtype(x, slope, "X", "slope");
      if (n.opset() < 7 && slope->rank() == 1 && x->rank() > 2 && !element_count(slope->shape()).is_int(1)) {
        std::vector<int> trailing;
        for (int i = 2; i < x->rank(); ++i) trailing.push_back(i - 1);
        slope = unsqueeze(n.graph(), slope, trailing);
      }
      slope = broadcast_to(n.graph(), slope, x->shape());
      n.set_output(0, compute(n.graph(), {x, slope}, [](const std::vector<Expr>& v) {
                     return select(v[0] < constant_like(v[0], 0), v[0] * v[1], v[0]);
                   }));
    });

// Swish of the gate A times B; no broadcasting.
METAC_OPERATOR("SwiGLU").since({28}).inputs(2).outputs(1).attribute("alpha", Kind::real).lower([](Lowering& n) {
  Var *a = n.input(0), *b = n.input(1);
  require_float(a, "A");
  require_same_dtype(a, b);
  require_rank(b, a->rank(), concat("B (for A of shape ", to_string(a->shape()), ")"));
  for (int k = 0; k < a->rank(); ++k)
    require_equal(n.graph(), a->shape()[k], b->shape()[k],
                  concat("A ", to_string(a->shape()), " against B ", to_string(b->shape())));
  double alpha = n.real("alpha", 1);
  n.set_output(0, compute(n.graph(), {a, b}, [&](const std::vector<Expr>& v) { return swish(v[0], alpha) * v[1]; }));
});

}  // namespace
}  // namespace metac
