// ONNX's training operators Adagrad, Adam and Momentum (ai.onnx.preview.training 1). Each updates any number of tensors:
// inputs are R (the learning rate), T (how many updates came before), then all X, all their gradients, and all of each kind
// of state; outputs are the new X and the new states in the same order. Gradient is in compiler/autodiff.
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

constexpr const char* training_domain = "ai.onnx.preview.training";

// The operand with X's own dims, which check_same_kind found equal.
Var* in_shape_of(Graph& g, Var* v, const Var* x) {
  return v->shape() == x->shape() ? v : g.reindex({v}, x->shape(), identity_indices(x->rank()));
}

// One tensor's share of the operands: its value, gradient and states.
struct Update {
  Lowering& n;
  size_t tensors, states;  // of one kind

  Graph& graph() const { return n.graph(); }
  Var* value(size_t k) const { return n.input(2 + k); }
  Var* gradient(size_t k) const { return in_shape_of(graph(), n.input(2 + tensors + k), value(k)); }
  Var* state(size_t which, size_t k) const { return in_shape_of(graph(), n.input(2 + (2 + which) * tensors + k), value(k)); }
  void set(size_t which, size_t k, Var* var) const { n.set_output(which * tensors + k, var); }  // 0: the value
};

// Throws where input `i` is of another dtype or shape than `value`; open dims are checked when they are known.
void check_same_kind(Lowering& n, Var* value, size_t i) {
  Var* v = n.input(i);
  std::string difference =
      concat("input ", i, " is ", name_of(v->dtype()), " of shape ", to_string(v->shape()), "; the tensor it belongs to is ",
             name_of(value->dtype()), " of shape ", to_string(value->shape()));
  if (v->dtype() != value->dtype() || v->rank() != value->rank()) fail(difference);
  for (int k = 0; k < v->rank(); ++k) n.graph().require(equal(v->shape()[k], value->shape()[k]), difference);
}

Update split_operands(Lowering& n, size_t states) {
  if (n.input_count() < 4 || (n.input_count() - 2) % (2 + states) != 0)
    fail("takes R, T and then ", 2 + states, " tensors for each one that it updates; there are ", n.input_count(),
         " inputs");
  Update u{n, (n.input_count() - 2) / (2 + states), states};
  if (n.output_count() != u.tensors * (1 + states))
    fail("has ", u.tensors * (1 + states), " outputs, found ", n.output_count());
  for (size_t i = 0; i < 2; ++i)
    if (element_count(n.input(i)->shape()) != Expr(1))
      fail(i == 0 ? "R" : "T", " must be one number, its shape is ", to_string(n.input(i)->shape()));
  for (size_t k = 0; k < u.tensors; ++k) {
    require_float(u.value(k), "X");
    for (size_t other = 1; other < 2 + states; ++other) check_same_kind(n, u.value(k), 2 + other * u.tensors + k);
  }
  return u;
}

// R and T as scalars of the dtype that the tensor computes in.
Var* number(Lowering& n, size_t input, DType dtype) {
  return cast(n.graph(), reshape(n.graph(), n.input(input), {}), dtype);
}

Var* regularised(Update& u, size_t k) {
  double norm = u.n.real("norm_coefficient", 0);
  return compute(u.graph(), {u.gradient(k), u.value(k)},
                 [&](const std::vector<Expr>& v) { return v[0] + v[1] * constant_like(v[1], norm); });
}

void lower_adagrad(Lowering& n) {
  Update u = split_operands(n, 1);
  double decay = n.real("decay_factor", 0), epsilon = n.real("epsilon", 0);
  for (size_t k = 0; k < u.tensors; ++k) {
    DType dtype = arithmetic_dtype(u.value(k)->dtype());
    Var* rate = elementwise(u.graph(), {number(n, 0, dtype), number(n, 1, dtype)}, [&](const std::vector<Expr>& v) {
      return v[0] / (constant_like(v[0], 1) + v[1] * constant_like(v[1], decay));
    });
    Var* g = regularised(u, k);
    Var* h = compute(u.graph(), {u.state(0, k), g}, [](const std::vector<Expr>& v) { return v[0] + v[1] * v[1]; });
    u.set(0, k, compute(u.graph(), {u.value(k), g, h, rate}, [&](const std::vector<Expr>& v) {
            return v[0] - v[3] * v[1] / (call(Fn::sqrt, {v[2]}) + constant_like(v[2], epsilon));
          }));
    u.set(1, k, h);
  }
}
METAC_OPERATOR("Adagrad", training_domain)
    .since({1})
    .inputs(3, -1)
    .outputs(1, -1)
    .attribute("decay_factor", Kind::real)
    .attribute("epsilon", Kind::real)
    .attribute("norm_coefficient", Kind::real)
    .lower(lower_adagrad);

void lower_adam(Lowering& n) {
  Update u = split_operands(n, 2);
  double alpha = n.real("alpha", 0.9), beta = n.real("beta", 0.999), epsilon = n.real("epsilon", 0),
         after = n.real("norm_coefficient_post", 0);
  for (size_t k = 0; k < u.tensors; ++k) {
    DType dtype = arithmetic_dtype(u.value(k)->dtype());
    // R sqrt(1 - beta^T) / (1 - alpha^T), and R itself where T is 0.
    Var* rate = elementwise(u.graph(), {number(n, 0, dtype), number(n, 1, dtype)}, [&](const std::vector<Expr>& v) {
      Expr one = constant_like(v[0], 1);
      auto missing = [&](double base) { return one - call(Fn::pow, {constant_like(v[0], base), v[1]}); };
      return select(v[1] > constant_like(v[1], 0), v[0] * call(Fn::sqrt, {missing(beta)}) / missing(alpha), v[0]);
    });
    Var* g = regularised(u, k);
    auto average = [&](double weight, bool squares) {
      return [=](const std::vector<Expr>& v) {
        return v[0] * constant_like(v[0], weight) + (squares ? v[1] * v[1] : v[1]) * constant_like(v[1], 1 - weight);
      };
    };
    Var* first = compute(u.graph(), {u.state(0, k), g}, average(alpha, false));
    Var* second = compute(u.graph(), {u.state(1, k), g}, average(beta, true));
    u.set(0, k, compute(u.graph(), {u.value(k), first, second, rate}, [&](const std::vector<Expr>& v) {
            Expr next = v[0] - v[3] * v[1] / (call(Fn::sqrt, {v[2]}) + constant_like(v[2], epsilon));
            return after == 0 ? next : next * constant_like(next, 1 - after);
          }));
    u.set(1, k, first);
    u.set(2, k, second);
  }
}
METAC_OPERATOR("Adam", training_domain)
    .since({1})
    .inputs(3, -1)
    .outputs(1, -1)
    .attribute("alpha", Kind::real)
    .attribute("beta", Kind::real)
    .attribute("epsilon", Kind::real)
    .attribute("norm_coefficient", Kind::real)
    .attribute("norm_coefficient_post", Kind::real)
    .lower(lower_adam);

void lower_momentum(Lowering& n) {
  Update u = split_operands(n, 1);
  double alpha = n.real("alpha", 0), beta = n.real("beta", 0);
  std::string mode = n.string("mode", "");
  if (mode != "standard" && mode != "nesterov") fail("mode must be standard or nesterov, found ", quoted(mode));
  for (size_t k = 0; k < u.tensors; ++k) {
    DType dtype = arithmetic_dtype(u.value(k)->dtype());
    Var* g = regularised(u, k);
    // The very first gradient counts whole.
    Var* share = elementwise(u.graph(), {number(n, 1, dtype)}, [&](const std::vector<Expr>& v) {
      return select(v[0] > constant_like(v[0], 0), constant_like(v[0], beta), constant_like(v[0], 1));
    });
    Var* next = compute(u.graph(), {u.state(0, k), g, share},
                        [&](const std::vector<Expr>& v) { return v[0] * constant_like(v[0], alpha) + v[1] * v[2]; });
    u.set(0, k, compute(u.graph(), {u.value(k), next, g, number(n, 0, dtype)}, [&](const std::vector<Expr>& v) {
            return v[0] - v[3] * (mode == "nesterov" ? v[2] + v[1] * constant_like(v[1], alpha) : v[1]);
          }));
    u.set(1, k, next);
  }
}
METAC_OPERATOR("Momentum", training_domain)
    .since({1})
    .inputs(3, -1)
    .outputs(1, -1)
    .required("alpha", Kind::real)
    .required("beta", Kind::real)
    .required("mode", Kind::string)
    .required("norm_coefficient", Kind::real)
    .lower(lower_momentum);

}  // namespace
}  // namespace metac
