#include "compiler/ops/meta/meta_binding.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/bounds.h"
#include "compiler/ir/builders.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

using TermKind = MetaExpression::Kind;

}  // namespace

struct MetaScope::Context : MetaTyping {
  Context(std::string_view source, const Shape& domain, Bounds bounds, bool is_body, std::vector<Expr>* conditions)
      : MetaTyping(source, is_body), domain(domain), bounds(std::move(bounds)), conditions(conditions) {}
  const Shape& domain;
  Bounds bounds;
  std::vector<Expr>* conditions;
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
  MetaValue value = bind(e, context);
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
  int k = find_operand(e.text, context.is_body());
  if (k < 0) context.refuse(e, concat(quoted(e.text), " is neither an operand of this node nor a function"));
  if (!operands_[k]) context.refuse(e, concat("operand ", quoted(e.text), " is absent"));
  return operands_[k];
}

Expr MetaScope::bind_index(const MetaExpression& e, Context& context) {
  Expr value = bind(e, context).e;
  if (value->dtype != DType::i64) context.refuse(e, concat("an index must be an integer, this is ", name_of(value->dtype)));
  return value;
}

MetaValue MetaScope::bind(const MetaExpression& e, Context& context) {
  return bind_expression(e, context, [&](const MetaExpression& leaf) -> MetaValue {
    if (leaf.kind == TermKind::name) return bind_name(leaf, context);
    if (leaf.kind == TermKind::call) return bind_load(leaf, context);
    if (leaf.kind == TermKind::shape)
      context.refuse(leaf, concat("a whole shape is no number; write ", leaf.text, ".shape[0]"));
    const Shape& shape = operand_of(leaf, context)->shape();
    int64_t rank = static_cast<int64_t>(shape.size()), axis = leaf.integer < 0 ? leaf.integer + rank : leaf.integer;
    if (axis < 0 || axis >= rank) context.refuse(leaf, concat("axis ", leaf.integer, " of a shape of rank ", rank));
    return {shape[axis]};
  });
}

MetaValue MetaScope::bind_name(const MetaExpression& e, Context& context) {
  if (int k = axis_of_name(e.text); k >= 0) {
    if (k >= static_cast<int>(context.domain.size()))
      context.refuse(e, concat("there is no axis ", e.text, "; the shape has rank ", context.domain.size()));
    return {axis(k)};
  }
  if (auto found = definitions_.find(e.text); found != definitions_.end()) return {found->second};
  if (e.text == "true" || e.text == "false") return {bool_constant(e.text == "true")};
  if (int k = find_operand(e.text, context.is_body()); k >= 0 && context.is_body()) {
    Var* whole = broadcast_to(graph_, operand_of(e, context), context.domain);
    return {load(slot_of(whole), whole->dtype(), identity_indices(whole->rank()))};
  } else if (k >= 0) {
    context.refuse(e, concat("operand ", quoted(e.text), " needs indices here, as in ", e.text, "(i0)"));
  }
  if (context.is_body() && e.text == "inf") return {float_constant(INFINITY, DType::f64), true};
  if (context.is_body() && e.text == "nan") return {float_constant(NAN, DType::f64), true};
  for (size_t s = 0; s < graph_.symbols.size(); ++s)
    if (graph_.symbols[s].name == e.text && graph_.symbols[s].from_input) return {symbol(static_cast<int>(s))};
  context.refuse(e, concat(quoted(e.text), " is no axis, dim or operand of this node"));
}

MetaValue MetaScope::bind_load(const MetaExpression& e, Context& context) {
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
  if (context.is_body() || is_bool(var->dtype())) return {value};
  if (!is_integer(var->dtype()))
    context.refuse(e, concat("index operand ", e.text, " is ", name_of(var->dtype()), ", not an integer"));
  return {cast(value, DType::i64)};
}

}  // namespace metac
