#include "compiler/ops/meta/meta_typing.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/ir/walks.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

using TermKind = MetaExpression::Kind;

// Index arithmetic stays far inside 64 bits: a coefficient or constant beyond this is refused.
constexpr int64_t magnitude_limit = int64_t{1} << 40;

int64_t magnitude(Expr e) {
  if (e->dtype != DType::i64) return 1;
  Linear form = linear_form(e);
  int64_t most = std::abs(std::max(form.constant, -INT64_MAX));
  for (const auto& [atom, coefficient] : form.terms) most = std::max(most, std::abs(std::max(coefficient, -INT64_MAX)));
  return std::max<int64_t>(most, 1);
}

bool needs_float(Fn fn) {
  switch (fn) {
    case Fn::neg:
    case Fn::abs:
    case Fn::sign:
    case Fn::logical_not:
    case Fn::bit_not:
      return false;
    default:
      return arity(fn) == 1 || fn == Fn::atan2;
  }
}

bool needs_bool(Fn fn) {
  return fn == Fn::logical_not || fn == Fn::logical_and || fn == Fn::logical_or || fn == Fn::logical_xor;
}

bool needs_integer(Fn fn) {
  return fn == Fn::bit_not || fn == Fn::bit_and || fn == Fn::bit_or || fn == Fn::bit_xor || fn == Fn::shift_left ||
         fn == Fn::shift_right;
}

// The operators are functions with other spellings; in index arithmetic '/' rounds down like '//'.
Fn function_of(const std::string& spelling, bool is_body) {
  static const std::map<std::string, Fn> functions = {
      {"+", Fn::add},       {"-", Fn::sub}, {"*", Fn::mul},          {"/", Fn::div},        {"//", Fn::floor_div},
      {"%", Fn::floor_mod}, {"<", Fn::lt},  {"<=", Fn::le},          {">", Fn::lt},         {">=", Fn::le},
      {"==", Fn::eq},       {"!=", Fn::ne}, {"&&", Fn::logical_and}, {"||", Fn::logical_or}};
  const Fn fn = functions.at(spelling);
  return fn == Fn::div && !is_body ? Fn::floor_div : fn;
}

}  // namespace

void MetaTyping::refuse(const MetaExpression& at, const std::string& message) const {
  throw MetaExpressionError(source_, at.column, message);
}

Expr MetaTyping::adapt(const MetaValue& value, DType dtype, const MetaExpression& at) const {
  if (!value.literal || value.e->dtype == dtype) return value.e;
  const auto integer = [&](int64_t number) {
    if (is_float(dtype)) return constant_of(dtype, static_cast<double>(number));
    if (!is_integer(dtype)) refuse(at, concat("a number meets ", name_of(dtype)));
    if (number < min_value(dtype) || number > max_value(dtype)) refuse(at, concat(number, " is no ", name_of(dtype)));
    return int_constant(number, dtype);
  };
  return answer_once<Expr>(value.e, [&](Expr e, const auto& of) -> Expr {
    if (e->dtype == dtype) return e;
    if (e->kind == ExprKind::call)  // "c ? 0 : 1" is a literal as its branches are
      return select(e->args[0], of(e->args[1]), of(e->args[2]));
    if (e->kind != ExprKind::float_constant) return integer(e.as_int());
    if (is_float(dtype)) return constant_of(dtype, e->float_value);
    if (is_integer(dtype) && std::trunc(e->float_value) == e->float_value && std::abs(e->float_value) <= 1e15)
      return integer(static_cast<int64_t>(e->float_value));  // 2.0 is as good a 2 as any
    refuse(at, concat("a real number meets ", name_of(dtype), "; convert one of them"));
  });
}

bool MetaTyping::unify(MetaValue& a, MetaValue& b, const MetaExpression& at) const {
  if (a.literal && b.literal) {
    DType dtype = is_float(a.e->dtype) || is_float(b.e->dtype) ? DType::f64 : DType::i64;
    a.e = adapt(a, dtype, at);
    b.e = adapt(b, dtype, at);
    return true;
  }
  if (a.literal) a.e = adapt(a, b.e->dtype, at);
  if (b.literal) b.e = adapt(b, a.e->dtype, at);
  if (a.e->dtype != b.e->dtype)
    refuse(at,
           concat(name_of(a.e->dtype), " meets ", name_of(b.e->dtype), "; convert one, as in ", name_of(a.e->dtype), "(x)"));
  return false;
}

// Index arithmetic that could wrap around is refused before it is folded.
void MetaTyping::check_magnitude(Fn fn, Expr a, Expr b, const MetaExpression& at) const {
  if (a->dtype != DType::i64) return;
  std::optional<int64_t> most =
      fn == Fn::mul ? checked_mul(magnitude(a), magnitude(b)) : checked_add(magnitude(a), magnitude(b));
  if (!most) refuse(at, "constants overflow an int64");
  if (!is_body_ && *most > magnitude_limit) refuse(at, "a constant of index arithmetic exceeds 2^40");
}

MetaValue MetaTyping::apply(Fn fn, std::vector<MetaValue> values, const MetaExpression& at) const {
  if (fn == Fn::select) {
    if (!is_bool(values[0].e->dtype)) refuse(at, "the first argument of select, or what stands before '?', must be bool");
    bool literal = unify(values[1], values[2], at);
    return {select(values[0].e, values[1].e, values[2].e), literal};
  }
  bool literal = values.size() == 2 ? unify(values[0], values[1], at) : values[0].literal;
  if (literal && needs_float(fn)) {
    for (MetaValue& value : values) value.e = adapt(value, DType::f32, at);
    literal = false;
  }
  DType of = values[0].e->dtype;
  if (needs_float(fn) && !is_float(of)) refuse(at, concat(at.text, " needs a float, this is ", name_of(of)));
  if (needs_integer(fn) && !is_integer(of)) refuse(at, concat(at.text, " needs an integer, this is ", name_of(of)));
  bool compares = fn == Fn::eq || fn == Fn::ne;
  if (needs_bool(fn) && !is_bool(of)) refuse(at, concat(at.text, " needs bool, this is ", name_of(of)));
  if (!needs_bool(fn) && !compares && is_bool(of)) refuse(at, concat(at.text, " cannot be applied to bool"));
  bool divides = fn == Fn::div || fn == Fn::floor_div || fn == Fn::floor_mod || fn == Fn::trunc_mod;
  if (!is_body_ && divides && values[1].e.is_int(0)) refuse(at, "division by zero");
  if (fn == Fn::add || fn == Fn::sub || fn == Fn::mul) check_magnitude(fn, values[0].e, values[1].e, at);
  std::vector<Expr> arguments;
  for (const MetaValue& value : values) arguments.push_back(value.e);
  Expr result = call(fn, std::move(arguments));
  return {result, literal && !yields_bool(fn) && result.is_constant()};
}

namespace {

// float32(a), exp(a), ceil_div(a, b); an operand called "exp" is reached as @1(...).
MetaValue bind_call(const MetaExpression& e, const MetaTyping& typing, const BindLeaf& leaf) {
  std::optional<DType> dtype = dtype_from_name(e.text);
  std::optional<Fn> fn = scalar_function(e.text);
  bool is_ceil_div = e.text == "ceil_div";
  if (!dtype && !fn && !is_ceil_div) return leaf(e);
  size_t expected = dtype ? 1 : is_ceil_div ? 2 : static_cast<size_t>(arity(*fn));
  if (e.arguments.size() != expected)
    typing.refuse(e, concat(e.text, " takes ", expected, expected == 1 ? " argument, " : " arguments, ", e.arguments.size(),
                            " are given"));
  std::vector<MetaValue> values;
  for (const MetaExpression& argument : e.arguments) values.push_back(bind_expression(argument, typing, leaf));
  if (fn) return typing.apply(*fn, std::move(values), e);
  if (dtype) {
    if (!is_numeric(*dtype)) typing.refuse(e, "cannot convert to string");
    if (!typing.is_body() && *dtype != DType::i64) typing.refuse(e, "index arithmetic is in int64 throughout");
    return {values[0].literal && !is_bool(*dtype) ? typing.adapt(values[0], *dtype, e) : cast(values[0].e, *dtype)};
  }
  if (typing.is_body()) typing.refuse(e, "ceil_div is for index arithmetic");
  if (values[1].e.is_int(0)) typing.refuse(e, "division by zero");
  return {ceil_div(values[0].e, values[1].e)};
}

}  // namespace

MetaValue bind_expression(const MetaExpression& e, const MetaTyping& typing, const BindLeaf& leaf) {
  const auto argument = [&](size_t k) { return bind_expression(e.arguments[k], typing, leaf); };
  switch (e.kind) {
    case TermKind::integer:
      if (!typing.is_body() && e.integer > magnitude_limit) typing.refuse(e, "a constant of index arithmetic exceeds 2^40");
      return {int_constant(e.integer), typing.is_body()};
    case TermKind::real:
      if (!typing.is_body()) typing.refuse(e, "a real number in index arithmetic");
      return {float_constant(e.real, DType::f64), true};
    case TermKind::name:
    case TermKind::shape:
    case TermKind::dim:
      return leaf(e);
    case TermKind::call:
      return bind_call(e, typing, leaf);
    case TermKind::unary: {
      const MetaValue value = argument(0);
      if (e.text == "!") return typing.apply(Fn::logical_not, {value}, e);
      return e.text == "-" ? typing.apply(Fn::neg, {value}, e) : value;
    }
    case TermKind::binary: {
      std::vector<MetaValue> values = {argument(0), argument(1)};
      if (e.text[0] == '>') std::swap(values[0], values[1]);
      return typing.apply(function_of(e.text, typing.is_body()), std::move(values), e);
    }
    case TermKind::conditional: {
      MetaValue condition = argument(0), then = argument(1), otherwise = argument(2);
      return typing.apply(Fn::select, {condition, then, otherwise}, e);
    }
  }
  METAC_ASSERT(false);
  return {};
}

}  // namespace metac
