#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {

DType arithmetic_dtype(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

Var* widen(Graph& g, Var* x) {
  DType wide = arithmetic_dtype(x->dtype());
  return wide == x->dtype() ? x : cast(g, x, wide);
}

Var* compute(Graph& g, const std::vector<Var*>& operands, const std::function<Expr(const std::vector<Expr>&)>& body) {
  DType result = operands[0]->dtype();
  return elementwise(g, operands, [&](const std::vector<Expr>& loads) {
    std::vector<Expr> wide;
    for (Expr e : loads) {
      DType dtype = arithmetic_dtype(e->dtype);
      wide.push_back(dtype == e->dtype ? e : cast(e, dtype));
    }
    Expr value = body(wide);
    return is_float(value->dtype) && is_float(result) && value->dtype != result ? cast(value, result) : value;
  });
}

std::optional<double> known_scalar(const Var* x) {
  if (x->constant && x->constant->element_count() == 1 && is_numeric(x->dtype())) return number_at(x->known_constant(), 0);
  if (!x->carried_elements() || x->carried_elements()->size() != 1) return {};
  Expr e = x->known_elements()->front();
  if (!e || !e.is_constant()) return {};
  return e->kind == ExprKind::float_constant ? e->float_value : static_cast<double>(e->int_value);
}

void require_same_dtype(const Var* a, const Var* b, std::string_view a_name, std::string_view b_name) {
  if (a->dtype() != b->dtype())
    fail(a_name, " and ", b_name, " must have the same dtype, found ", name_of(a->dtype()), " and ", name_of(b->dtype()));
}

void require_same_dtypes(const Var* a, std::initializer_list<const Var*> others, std::string_view what) {
  for (const Var* other : others)
    if (other && other->dtype() != a->dtype())
      fail(what, " must be of one dtype, found ", name_of(a->dtype()), " and ", name_of(other->dtype()));
}
void require_dtype(const Var* x, DType dtype, std::string_view what) {
  if (x->dtype() != dtype) fail(what, " must be ", name_of(dtype), ", found ", name_of(x->dtype()));
}
void require_float(const Var* x, std::string_view what) {
  if (!is_float(x->dtype())) fail(what, " must be floating point, found ", name_of(x->dtype()));
}

void require_numeric(const Var* x, std::string_view what) {
  if (!is_float(x->dtype()) && !is_integer(x->dtype())) fail(what, " must be numeric, found ", name_of(x->dtype()));
}

void require_integer(const Var* x, std::string_view what) {
  if (!is_integer(x->dtype())) fail(what, " must be an integer tensor, found ", name_of(x->dtype()));
}

void require_bool(const Var* x, std::string_view what) {
  if (!is_bool(x->dtype())) fail(what, " must be bool, found ", name_of(x->dtype()));
}

void require_rank(const Var* x, int rank, std::string_view what) {
  if (x->rank() != rank) fail(what, " must have rank ", rank, ", its shape is ", to_string(x->shape()));
}

void require_rank_at_least(const Var* x, int rank, std::string_view what) {
  if (x->rank() < rank) fail(what, " must have at least ", rank, " axes, its shape is ", to_string(x->shape()));
}

void require_equal(Graph& g, Expr a, Expr b, std::string_view what) {
  if (a == b) return;
  g.require(equal(a, b), concat(what, ": ", to_string(a), " and ", to_string(b), " must be equal"));
}

}  // namespace metac
