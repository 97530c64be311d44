#include "compiler/ops/shape_operands.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ir/bounds.h"
#include "compiler/ir/walks.h"

namespace metac {

// What programs compute dims with (runtime/program.h, Code); division of integers truncates in ONNX. Empty: not with these.
static Expr index_call(Fn fn, const std::vector<Expr>& args) {
  Expr a = args[0], b = args.size() > 1 ? args[1] : Expr();
  switch (fn) {
    case Fn::div: {
      Expr down = floor_div(a, b);
      return select(logical_and(down < Expr(0), not_equal(down * b, a)), down + Expr(1), down);
    }
    case Fn::trunc_mod:
      return a - index_call(Fn::div, args) * b;
    case Fn::neg:
      return Expr(0) - a;
    case Fn::abs:
      return max(a, Expr(0) - a);
    case Fn::sign:
      return select(a < Expr(0), Expr(-1), min(a, 1));
    case Fn::floor:
    case Fn::ceil:
    case Fn::trunc:
    case Fn::rint:
      return a;
    case Fn::add:
    case Fn::sub:
    case Fn::mul:
    case Fn::floor_div:
    case Fn::floor_mod:
    case Fn::min:
    case Fn::max:
    case Fn::lt:
    case Fn::le:
    case Fn::eq:
    case Fn::ne:
    case Fn::logical_and:
    case Fn::logical_or:
    case Fn::logical_not:
    case Fn::select:
      return call(fn, args);
    default:
      return {};
  }
}

Expr as_index(Expr whole) {
  return answer_once<Expr>(whole, [](Expr e, const auto& of) -> Expr {
    switch (e->kind) {
      case ExprKind::int_constant:
        return is_bool(e->dtype) ? e : int_constant(e->int_value);
      case ExprKind::axis:
      case ExprKind::symbol:
        return e;
      case ExprKind::cast: {
        DType from = e->args[0]->dtype;
        if (is_bool(from)) return select(of(e->args[0]), 1, 0);
        const Expr value = is_integer(from) && is_integer(e->dtype) ? of(e->args[0]) : Expr();
        if (!value || size_of(e->dtype) >= 4) return value;  // no dim passes 32 bits in a model that counts in them
        const int64_t least = min_value(e->dtype), values = max_value(e->dtype) - least + 1;
        return floor_mod(value - Expr(least), values) + Expr(least);
      }
      case ExprKind::call: {
        std::vector<Expr> args;
        for (Expr a : e->args) {
          args.push_back(of(a));
          if (!args.back()) return {};
        }
        return index_call(e->fn, args);
      }
      default:
        return {};
    }
  });
}

Expr index_element(Graph& g, Var* x, int64_t index, std::string_view what, int64_t min, int64_t max) {
  if (!is_integer(x->dtype()) && !is_bool(x->dtype())) fail(what, " must be integers, not ", name_of(x->dtype()));
  Expr e = g.element(x, index, std::string(what), min, max);
  if (Expr plain = as_index(e)) e = simplified(g, is_bool(plain->dtype) ? select(plain, 1, 0) : plain);
  if (const int64_t* value = e.if_int(); value && (*value < min || *value > max))
    fail(what, " is ", *value, ", expected ",
         min == INT64_MIN ? std::string("at most ") : concat("at least ", min, max == INT64_MAX ? "" : " and at most "),
         max == INT64_MAX ? std::string() : std::to_string(max));
  return e;
}

std::vector<Expr> index_elements(Graph& g, Var* x, std::string_view what, int64_t min, int64_t max) {
  if (x->rank() > 1) fail(what, " must have rank 0 or 1, its shape is ", to_string(x->shape()));
  Expr count = element_count(x->shape());
  if (!count.if_int())
    fail(what, " has an unknown number of elements (shape ", to_string(x->shape()),
         "), which decides a rank; give the model static shapes");
  if (count.as_int() > 1024) fail(what, " has ", count.as_int(), " elements");
  std::vector<Expr> out;
  for (int64_t k = 0; k < count.as_int(); ++k) out.push_back(index_element(g, x, k, what, min, max));
  return out;
}

std::vector<Expr> dim_elements(Graph& g, Var* x, std::string_view what) { return index_elements(g, x, what, 0); }

Expr index_scalar(Graph& g, Var* x, std::string_view what, int64_t min, int64_t max) {
  Expr count = element_count(x->shape());
  if (!count.is_int(1)) fail(what, " must have one element, its shape is ", to_string(x->shape()));
  return index_element(g, x, 0, what, min, max);
}

std::vector<int64_t> known_integers(Graph& g, Var* x, std::string_view what) {
  std::vector<int64_t> out;
  for (Expr e : index_elements(g, x, what)) {
    if (!e.if_int()) fail(what, " is known only at run time; it must be a constant");
    out.push_back(e.as_int());
  }
  return out;
}

std::optional<std::vector<double>> known_numbers(const Var* x) {
  std::vector<double> out;
  if (x->constant && is_numeric(x->dtype())) {
    for (int64_t k = 0; k < x->constant->element_count(); ++k) out.push_back(number_at(x->known_constant(), k));
    return out;
  }
  if (!x->known_elements()) return std::nullopt;
  for (Expr e : *x->known_elements()) {
    if (!e || !e.is_constant()) return std::nullopt;
    out.push_back(e->kind == ExprKind::float_constant ? e->float_value : static_cast<double>(e->int_value));
  }
  return out;
}

Expr whole_number(Graph& g, Var* x) {
  if (element_count(x->shape()).is_int(1) && is_integer(x->dtype())) return index_element(g, x, 0, "a number");
  if (auto known = known_numbers(x)) {
    if (known->size() != 1 || std::fabs((*known)[0]) > 1e9 || (*known)[0] != std::floor((*known)[0])) return {};
    return static_cast<int64_t>((*known)[0]);
  }
  const Op* op = x->producer;
  if (!op || op->kind != OpKind::elementwise || op->inputs.size() != 1 || op->bodies.size() != 1 || x->rank() != 0)
    return {};
  Expr body = op->bodies[0];
  bool converts = body->kind == ExprKind::cast && body->args[0]->kind == ExprKind::load && is_integer(body->args[0]->dtype);
  return converts ? whole_number(g, op->inputs[0]) : Expr();
}

std::vector<int> check_axes(const std::vector<int64_t>& axes, int rank, std::string_view what) {
  std::vector<int> out;
  for (int64_t a : axes) {
    int k = check_axis(a, rank, what);
    if (std::count(out.begin(), out.end(), k)) fail(what, " ", a, " is named twice");
    out.push_back(k);
  }
  return out;
}

std::vector<int> all_axes(int rank) {
  std::vector<int> out(rank);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

Var* scalar_of(Graph& g, Expr value, DType dtype) { return g.elementwise({}, Shape{}, cast(value, dtype)); }

Var* to_scalar(Graph& g, Var* x, std::string_view what) {
  if (x->rank() == 0) return x;
  for (Dim d : x->shape())
    if (d.if_int() && !d.is_int(1)) fail(what, " must have one element, its shape is ", to_string(x->shape()));
  return reshape(g, x, {});
}

Expr safe_index(Expr index, Dim extent) {
  index = select(index < Expr(0), index + extent, index);
  return max(min(index, extent - Expr(1)), 0);
}

void require_index_dtype(const Var* indices) {
  if (indices->dtype() != DType::i32 && indices->dtype() != DType::i64)
    fail("indices must be int32 or int64, not ", name_of(indices->dtype()));
}

void check_index_range(Graph& g, const Var* indices, Dim extent, std::string_view what, int64_t first, int64_t every) {
  const int64_t* size = extent.if_int();
  int64_t least = INT64_MAX, most = INT64_MIN;
  auto check = [&](int64_t value) {
    if (size && (value < -*size || value >= *size))
      fail(what, " holds the index ", value, ", which is out of range for an extent of ", *size);
    least = std::min(least, value);
    most = std::max(most, value);
  };
  if (indices->constant && is_integer(indices->dtype())) {
    for (int64_t k = first; k < indices->constant->element_count(); k += every)
      check(integer_at(indices->known_constant(), k));
  } else if (indices->known_elements()) {
    for (size_t k = static_cast<size_t>(first); k < indices->known_elements()->size(); k += static_cast<size_t>(every))
      if (Expr e = (*indices->known_elements())[k]; bool(e) && e.if_int() != nullptr) check(e.as_int());
  }
  // A branch that is not taken may hold what its condition rules out.
  if (size || g.in_region() || least > most) return;
  for (const int64_t index : {least, most})
    g.require(Expr(index < 0 ? -index : index + 1) <= extent,
              concat(what, " holds the index ", index, ", which is out of range for the extent ", to_string(extent)));
}

Expr simplified(const Graph& g, Expr e) { return simplify(e, Bounds(g.symbols)); }

}  // namespace metac
