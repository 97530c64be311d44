#include "compiler/ops/meta/meta_binding.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/bounds.h"
#include "compiler/ir/builders.h"
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

}  // namespace

struct MetaScope::Typed {
  Expr e;
  bool literal = false;  // has no dtype of its own yet
};

struct MetaScope::Context {
  std::string_view source;
  const Shape& domain;
  Bounds bounds;
  bool is_body = false;
  std::vector<Expr>* conditions = nullptr;

  [[noreturn]] void refuse(const MetaExpression& at, const std::string& message) const {
    throw MetaExpressionError(source, at.column, message);
  }

  // The literal as that dtype.
  Expr adapt(const Typed& value, DType dtype, const MetaExpression& at) const {
    if (!value.literal || value.e->dtype == dtype) return value.e;
    if (value.e->kind == ExprKind::call)  // "c ? 0 : 1" is a literal as its branches are
      return select(value.e->args[0], adapt({value.e->args[1], true}, dtype, at),
                    adapt({value.e->args[2], true}, dtype, at));
    bool is_real = value.e->kind == ExprKind::float_constant;
    if (is_float(dtype)) return constant_of(dtype, is_real ? value.e->float_value : static_cast<double>(value.e.as_int()));
    if (is_real) refuse(at, concat("a real number meets ", name_of(dtype), "; convert one of them"));
    if (!is_integer(dtype)) refuse(at, concat("a number meets ", name_of(dtype)));
    if (value.e.as_int() < min_value(dtype) || value.e.as_int() > max_value(dtype))
      refuse(at, concat(value.e.as_int(), " is no ", name_of(dtype)));
    return int_constant(value.e.as_int(), dtype);
  }

  // Makes both one dtype; true if both are literals still.
  bool unify(Typed& a, Typed& b, const MetaExpression& at) const {
    if (a.literal && b.literal) {
      DType dtype = is_float(a.e->dtype) || is_float(b.e->dtype) ? DType::f64 : DType::i64;
      a.e = adapt(a, dtype, at);
      b.e = adapt(b, dtype, at);
      return true;
    }
    if (a.literal) a.e = adapt(a, b.e->dtype, at);
    if (b.literal) b.e = adapt(b, a.e->dtype, at);
    if (a.e->dtype != b.e->dtype)
      refuse(at, concat(name_of(a.e->dtype), " meets ", name_of(b.e->dtype), "; convert one, as in ", name_of(a.e->dtype),
                        "(x)"));
    return false;
  }

  // Index arithmetic that could wrap around is refused before it is folded.
  void check_magnitude(Fn fn, Expr a, Expr b, const MetaExpression& at) const {
    if (a->dtype != DType::i64) return;
    std::optional<int64_t> most =
        fn == Fn::mul ? checked_mul(magnitude(a), magnitude(b)) : checked_add(magnitude(a), magnitude(b));
    if (!most) refuse(at, "constants overflow an int64");
    if (!is_body && *most > magnitude_limit) refuse(at, "a constant of index arithmetic exceeds 2^40");
  }
};

MetaScope::MetaScope(Graph& graph, std::vector<Var*> operands, std::vector<std::string> names)
    : graph_(graph), operands_(std::move(operands)), names_(std::move(names)) {
  names_.resize(operands_.size());
}

void MetaScope::define(const std::string& source) {
  MetaDefinition d = parse_meta_definition(source);
  Shape none;
  Context context{source, none, Bounds(graph_.symbols), false, nullptr};
  Shape values;
  if (d.value.kind == TermKind::shape)
    values = operand_of(d.value, context)->shape();
  else
    values = {bind_index(d.value, context)};
  if (values.size() != d.names.size())
    context.refuse(d.value,
                   concat(d.names.size(), " names for a shape of rank ", values.size(), " (", to_string(values), ")"));
  for (size_t i = 0; i < values.size(); ++i)
    if (!definitions_.emplace(d.names[i], values[i]).second)
      context.refuse(d.value, concat(quoted(d.names[i]), " is defined twice"));
}

Shape MetaScope::shape(const std::vector<std::string>& sources) {
  Shape out, none;
  for (const std::string& source : sources) {
    MetaExpression e = parse_meta_expression(source);
    Context context{source, none, Bounds(graph_.symbols), false, nullptr};
    if (e.kind == TermKind::shape) {
      const Shape& whole = operand_of(e, context)->shape();
      out.insert(out.end(), whole.begin(), whole.end());
      continue;
    }
    Expr dim = bind_index(e, context);
    if (dim.if_int() && dim.as_int() < 0) context.refuse(e, concat("a dim of ", dim.as_int()));
    if (!dim.if_int()) graph_.require(dim >= Expr(0), concat("the dim ", source, " must not be negative"));
    out.push_back(dim);
  }
  return out;
}

Expr MetaScope::index(const std::string& source, const Shape& domain, std::vector<Expr>& conditions) {
  MetaExpression e = parse_meta_expression(source);
  Context context{source, domain, Bounds(graph_.symbols, domain), false, &conditions};
  return bind_index(e, context);
}

Expr MetaScope::condition(const std::string& source, const Shape& domain, std::vector<Expr>& conditions) {
  MetaExpression e = parse_meta_expression(source);
  Context context{source, domain, Bounds(graph_.symbols, domain), false, &conditions};
  Expr value = bind(e, context).e;
  if (!is_bool(value->dtype)) context.refuse(e, concat("a condition must be bool, this is ", name_of(value->dtype)));
  return value;
}

Expr MetaScope::body(const std::string& source, const Shape& domain, std::optional<DType> dtype) {
  MetaExpression e = parse_meta_expression(source);
  Context context{source, domain, Bounds(graph_.symbols, domain), true, nullptr};
  Typed value = bind(e, context);
  if (value.literal) return context.adapt(value, dtype ? *dtype : is_float(value.e->dtype) ? DType::f32 : DType::i64, e);
  return dtype && *dtype != value.e->dtype ? cast(value.e, *dtype) : value.e;
}

std::vector<Var*> MetaScope::bare_operands(const std::string& source) const {
  std::vector<Var*> out;
  std::function<void(const MetaExpression&)> walk = [&](const MetaExpression& e) {
    if (e.kind == TermKind::name && axis_of_name(e.text) < 0 && !definitions_.count(e.text))
      if (int k = find_operand(e.text, true); k >= 0) out.push_back(operands_[k]);
    for (const MetaExpression& argument : e.arguments) walk(argument);
  };
  walk(parse_meta_expression(source));
  return out;
}

int MetaScope::slot_of(Var* var) {
  auto found = std::find(used_.begin(), used_.end(), var);
  if (found == used_.end()) found = used_.insert(used_.end(), var);
  return static_cast<int>(found - used_.begin());
}

// "@1", the model's name of an operand, and in bodies also x0, x1, ... and a, b, ... by position.
int MetaScope::find_operand(std::string_view text, bool with_letters) const {
  int count = static_cast<int>(operands_.size()), k = -1;
  for (int i = 0; i < count; ++i)
    if (names_[i] == text && !text.empty()) return i;
  bool counted = text.size() > 1 && (text[0] == '@' || (with_letters && text[0] == 'x')) &&
                 text.find_first_not_of("0123456789", 1) == std::string_view::npos && text.size() < 6;
  if (counted)
    k = std::stoi(std::string(text.substr(1)));
  else if (with_letters && text.size() == 1 && text[0] >= 'a' && text[0] <= 'z')
    k = text[0] - 'a';
  return k < count ? k : -1;
}

Var* MetaScope::operand_of(const MetaExpression& e, const Context& context) const {
  int k = find_operand(e.text, context.is_body);
  if (k < 0) context.refuse(e, concat(quoted(e.text), " is neither an operand of this node nor a function"));
  if (!operands_[k]) context.refuse(e, concat("operand ", quoted(e.text), " is absent"));
  return operands_[k];
}

Expr MetaScope::bind_index(const MetaExpression& e, Context& context) {
  Expr value = bind(e, context).e;
  if (value->dtype != DType::i64) context.refuse(e, concat("an index must be an integer, this is ", name_of(value->dtype)));
  return value;
}

MetaScope::Typed MetaScope::bind(const MetaExpression& e, Context& context) {
  switch (e.kind) {
    case TermKind::integer:
      if (!context.is_body && e.integer > magnitude_limit) context.refuse(e, "a constant of index arithmetic exceeds 2^40");
      return {int_constant(e.integer), context.is_body};
    case TermKind::real:
      if (!context.is_body) context.refuse(e, "a real number in index arithmetic");
      return {float_constant(e.real, DType::f64), true};
    case TermKind::name:
      return bind_name(e, context);
    case TermKind::shape:
      context.refuse(e, concat("a whole shape is no number; write ", e.text, ".shape[0]"));
    case TermKind::dim: {
      const Shape& shape = operand_of(e, context)->shape();
      int64_t rank = static_cast<int64_t>(shape.size()), axis = e.integer < 0 ? e.integer + rank : e.integer;
      if (axis < 0 || axis >= rank) context.refuse(e, concat("axis ", e.integer, " of a shape of rank ", rank));
      return {shape[axis]};
    }
    case TermKind::call:
      return bind_call(e, context);
    case TermKind::unary:
      return bind_unary(e, context);
    case TermKind::binary:
      return bind_binary(e, context);
    case TermKind::conditional:
      return apply(Fn::select, {bind(e.arguments[0], context), bind(e.arguments[1], context), bind(e.arguments[2], context)},
                   e, context);
  }
  METAC_ASSERT(false);
  return {};
}

MetaScope::Typed MetaScope::bind_name(const MetaExpression& e, Context& context) {
  if (int k = axis_of_name(e.text); k >= 0) {
    if (k >= static_cast<int>(context.domain.size()))
      context.refuse(e, concat("there is no axis ", e.text, "; the shape has rank ", context.domain.size()));
    return {axis(k)};
  }
  if (auto found = definitions_.find(e.text); found != definitions_.end()) return {found->second};
  if (e.text == "true" || e.text == "false") return {bool_constant(e.text == "true")};
  if (int k = find_operand(e.text, context.is_body); k >= 0 && context.is_body) {
    Var* whole = broadcast_to(graph_, operand_of(e, context), context.domain);
    return {load(slot_of(whole), whole->dtype(), identity_indices(whole->rank()))};
  } else if (k >= 0) {
    context.refuse(e, concat("operand ", quoted(e.text), " needs indices here, as in ", e.text, "(i0)"));
  }
  if (context.is_body && e.text == "inf") return {float_constant(INFINITY, DType::f64), true};
  if (context.is_body && e.text == "nan") return {float_constant(NAN, DType::f64), true};
  for (size_t s = 0; s < graph_.symbols.size(); ++s)
    if (graph_.symbols[s].name == e.text && graph_.symbols[s].from_input) return {symbol(static_cast<int>(s))};
  context.refuse(e, concat(quoted(e.text), " is no axis, dim or operand of this node"));
}

MetaScope::Typed MetaScope::bind_load(const MetaExpression& e, Context& context) {
  Var* var = operand_of(e, context);
  if (static_cast<int>(e.arguments.size()) != var->rank())
    context.refuse(e, concat(e.text, " has rank ", var->rank(), " (", to_string(var->shape()), ") but is given ",
                             e.arguments.size(), " indices"));
  std::vector<Expr> indices;
  for (size_t k = 0; k < e.arguments.size(); ++k) {
    Expr i = bind_index(e.arguments[k], context), extent = var->shape()[k];
    bool inside = context.bounds.proves(Expr(0) <= i) && context.bounds.proves_less(i, extent);
    if (!inside) {
      if (!context.conditions)
        context.refuse(e.arguments[k], concat("index ", to_string(i), " is not known to stay inside 0..",
                                              to_string(extent - Expr(1)), "; a reindex with a fill value can do that"));
      context.conditions->push_back(Expr(0) <= i);
      context.conditions->push_back(i < extent);
      graph_.require(extent > Expr(0), concat(e.text, ", an index operand, must not be empty"));
      i = min(max(i, Expr(0)), extent - Expr(1));
    }
    indices.push_back(i);
  }
  Expr value = load(slot_of(var), var->dtype(), std::move(indices));
  if (context.is_body || is_bool(var->dtype())) return {value};
  if (!is_integer(var->dtype()))
    context.refuse(e, concat("index operand ", e.text, " is ", name_of(var->dtype()), ", not an integer"));
  return {cast(value, DType::i64)};
}

MetaScope::Typed MetaScope::bind_call(const MetaExpression& e, Context& context) {
  std::optional<DType> dtype = dtype_from_name(e.text);
  std::optional<Fn> fn = scalar_function(e.text);
  bool is_ceil_div = e.text == "ceil_div";
  if (!dtype && !fn && !is_ceil_div) return bind_load(e, context);  // an operand called "exp" is reached as @1(...)
  size_t expected = dtype ? 1 : is_ceil_div ? 2 : static_cast<size_t>(arity(*fn));
  if (e.arguments.size() != expected)
    context.refuse(e, concat(e.text, " takes ", expected, expected == 1 ? " argument, " : " arguments, ", e.arguments.size(),
                             " are given"));
  std::vector<Typed> values;
  for (const MetaExpression& argument : e.arguments) values.push_back(bind(argument, context));
  if (fn) return apply(*fn, std::move(values), e, context);
  if (dtype) {
    if (!is_numeric(*dtype)) context.refuse(e, "cannot convert to string");
    if (!context.is_body && *dtype != DType::i64) context.refuse(e, "index arithmetic is in int64 throughout");
    return {values[0].literal && !is_bool(*dtype) ? context.adapt(values[0], *dtype, e) : cast(values[0].e, *dtype)};
  }
  if (context.is_body) context.refuse(e, "ceil_div is for index arithmetic");
  if (values[1].e.is_int(0)) context.refuse(e, "division by zero");
  return {ceil_div(values[0].e, values[1].e)};
}

// fn(values...), all of one dtype that fn takes. `e` is where it stands: its text names fn in messages.
MetaScope::Typed MetaScope::apply(Fn fn, std::vector<Typed> values, const MetaExpression& e, Context& context) {
  if (fn == Fn::select) {
    if (!is_bool(values[0].e->dtype))
      context.refuse(e, "the first argument of select, or what stands before '?', must be bool");
    bool literal = context.unify(values[1], values[2], e);
    return {select(values[0].e, values[1].e, values[2].e), literal};
  }
  bool literal = values.size() == 2 ? context.unify(values[0], values[1], e) : values[0].literal;
  if (literal && needs_float(fn)) {
    for (Typed& value : values) value.e = context.adapt(value, DType::f32, e);
    literal = false;
  }
  DType of = values[0].e->dtype;
  if (needs_float(fn) && !is_float(of)) context.refuse(e, concat(e.text, " needs a float, this is ", name_of(of)));
  if (needs_integer(fn) && !is_integer(of)) context.refuse(e, concat(e.text, " needs an integer, this is ", name_of(of)));
  bool compares = fn == Fn::eq || fn == Fn::ne;
  if (needs_bool(fn) && !is_bool(of)) context.refuse(e, concat(e.text, " needs bool, this is ", name_of(of)));
  if (!needs_bool(fn) && !compares && is_bool(of)) context.refuse(e, concat(e.text, " cannot be applied to bool"));
  bool divides = fn == Fn::div || fn == Fn::floor_div || fn == Fn::floor_mod || fn == Fn::trunc_mod;
  if (!context.is_body && divides && values[1].e.is_int(0)) context.refuse(e, "division by zero");
  if (fn == Fn::add || fn == Fn::sub || fn == Fn::mul) context.check_magnitude(fn, values[0].e, values[1].e, e);
  std::vector<Expr> arguments;
  for (const Typed& value : values) arguments.push_back(value.e);
  Expr result = call(fn, std::move(arguments));
  return {result, literal && !yields_bool(fn) && result.is_constant()};
}

MetaScope::Typed MetaScope::bind_unary(const MetaExpression& e, Context& context) {
  Typed value = bind(e.arguments[0], context);
  if (e.text == "!") return apply(Fn::logical_not, {value}, e, context);
  return e.text == "-" ? apply(Fn::neg, {value}, e, context) : value;
}

// The operators are functions with other spellings; in index arithmetic '/' rounds down like '//'.
MetaScope::Typed MetaScope::bind_binary(const MetaExpression& e, Context& context) {
  static const std::map<std::string, Fn> functions = {
      {"+", Fn::add},       {"-", Fn::sub}, {"*", Fn::mul},          {"/", Fn::div},        {"//", Fn::floor_div},
      {"%", Fn::floor_mod}, {"<", Fn::lt},  {"<=", Fn::le},          {">", Fn::lt},         {">=", Fn::le},
      {"==", Fn::eq},       {"!=", Fn::ne}, {"&&", Fn::logical_and}, {"||", Fn::logical_or}};
  Fn fn = functions.at(e.text);
  if (fn == Fn::div && !context.is_body) fn = Fn::floor_div;
  std::vector<Typed> values = {bind(e.arguments[0], context), bind(e.arguments[1], context)};
  if (e.text[0] == '>') std::swap(values[0], values[1]);
  return apply(fn, std::move(values), e, context);
}

}  // namespace metac
