#include "compiler/ir/expr.h"

#include "compiler/ir/element.h"
#include "compiler/ir/expr_raw.h"
#include "compiler/ir/expr_table.h"
#include "compiler/ir/node_table.h"
#include "compiler/ir/tensor.h"
#include "compiler/ir/walks.h"
#include "compiler/support/diagnostic.h"

namespace metac {

int arity(Fn fn) {
  static constexpr int table[] = {
#define F(name, arity) arity,
#include "compiler/ir/scalar_functions.def"
#undef F
  };
  return table[static_cast<int>(fn)];
}

std::string_view name_of(Fn fn) {
  static constexpr std::string_view table[] = {
#define F(name, arity) #name,
#include "compiler/ir/scalar_functions.def"
#undef F
  };
  return table[static_cast<int>(fn)];
}

bool yields_bool(Fn fn) {
  switch (fn) {
    case Fn::lt:
    case Fn::le:
    case Fn::eq:
    case Fn::ne:
    case Fn::is_nan:
    case Fn::is_inf:
    case Fn::logical_not:
    case Fn::logical_and:
    case Fn::logical_or:
    case Fn::logical_xor:
      return true;
    default:
      return false;
  }
}

int products_in_a_point(Fn fn) {
  switch (fn) {
    case Fn::mul:
      return 1;
    case Fn::dot_i16:
    case Fn::dot_bf16:
      return 2;
    case Fn::dot_u8s8:
    case Fn::dot_s8u8:
      return 4;
    default:
      return 0;
  }
}

DType dtype_of(Fn fn, DType first) {
  if (yields_bool(fn)) return DType::boolean;
  if (fn == Fn::dot_bf16) return DType::f32;
  return fn == Fn::bf16_word ? DType::i32 : first;
}

static Expr intern(ExprNode node) { return Expr(ExprTable::current().intern(std::move(node))); }

static ExprNode make_node(ExprKind kind, DType dtype) {
  return ExprNode{kind, Fn::neg, dtype, false, 0, 0, 0, 0, 0.0, 0, {}};
}

// ---- leaves ----
Expr::Expr(int64_t value) { *this = int_constant(value); }

Expr int_constant(int64_t value, DType dtype) {
  METAC_ASSERT(!is_float(dtype));
  // Wrapped to the dtype, so that equal values are one node.
  value = with_element(
      dtype, [&](auto zero) -> int64_t { return static_cast<int64_t>(value_of(to_element<decltype(zero)>(value))); });
  ExprNode node = make_node(ExprKind::int_constant, dtype);
  node.int_value = value;
  return intern(std::move(node));
}

Expr float_constant(double value, DType dtype) {
  ExprNode node = make_node(ExprKind::float_constant, dtype);
  if (value != value) value = __builtin_nan("");
  node.float_value = round_to(dtype, value);
  return intern(std::move(node));
}

Expr bool_constant(bool value) { return int_constant(value, DType::boolean); }

Expr constant_of(DType dtype, double value) {
  return is_float(dtype) ? float_constant(value, dtype) : int_constant(static_cast<int64_t>(value), dtype);
}

Expr axis(int id) {
  ExprNode node = make_node(ExprKind::axis, DType::i64);
  node.id = id;
  return intern(std::move(node));
}

Expr symbol(int id) {
  ExprNode node = make_node(ExprKind::symbol, DType::i64);
  node.id = id;
  return intern(std::move(node));
}

Expr load(int operand, DType dtype, std::vector<Expr> indices) {
  ExprNode node = make_node(ExprKind::load, dtype);
  node.id = operand;
  node.args = std::move(indices);
  return intern(std::move(node));
}

bool Expr::is_constant() const { return node_->kind == ExprKind::int_constant || node_->kind == ExprKind::float_constant; }
const int64_t* Expr::if_int() const { return node_->kind == ExprKind::int_constant ? &node_->int_value : nullptr; }
bool Expr::is_int(int64_t value) const { return if_int() && *if_int() == value; }
int64_t Expr::as_int() const {
  METAC_ASSERT(if_int() != nullptr, to_string(*this));
  return *if_int();
}

// ---- raw nodes, for canonical forms only ----
Expr raw_call(Fn fn, std::vector<Expr> args, DType dtype) {
  ExprNode node = make_node(ExprKind::call, dtype);
  node.fn = fn;
  node.args = std::move(args);
  return intern(std::move(node));
}

Expr raw_cast(Expr value, DType dtype) {
  ExprNode node = make_node(ExprKind::cast, dtype);
  node.args = {value};
  return intern(std::move(node));
}

// ---- walks ----
static Expr rewrite_with(Expr e, const std::function<Expr(Expr)>& f, NodeTable<Expr>& done) {
  if (const Expr* found = done.find(e.node())) return *found;
  Expr result = f(e);
  if (!result) {
    std::vector<Expr> args;  // made at the first argument that changes
    for (size_t i = 0; i < e->args.size(); ++i) {
      Expr arg = rewrite_with(e->args[i], f, done);
      if (args.empty() && arg != e->args[i]) args = e->args;
      if (!args.empty()) args[i] = arg;
    }
    result = args.empty() ? e : with_arguments(e, std::move(args));
  }
  done.insert(e.node(), result);
  return result;
}

Expr rewrite(Expr e, const std::function<Expr(Expr)>& f) {
  NodeTable<Expr> done;
  return rewrite_with(e, f, done);
}

std::vector<Expr> rewrite(const std::vector<Expr>& es, const std::function<Expr(Expr)>& f) {
  NodeTable<Expr> done;
  std::vector<Expr> out;
  out.reserve(es.size());
  for (Expr e : es) out.push_back(rewrite_with(e, f, done));
  return out;
}

Expr substitute_axes(Expr e, const std::vector<Expr>& values) {
  return rewrite(e, [&](Expr n) -> Expr {
    if (n->kind != ExprKind::axis || n->id < 0 || n->id >= static_cast<int>(values.size())) return {};
    return values[n->id];
  });
}

static Expr rewrite_up_with(Expr e, const RewriteUp& f, bool loads_only, NodeTable<Expr>& done) {
  if (loads_only && !e->has_load) return e;
  if (const Expr* found = done.find(e.node())) return *found;
  std::vector<Expr> args = e->args;
  for (Expr& a : args) a = rewrite_up_with(a, f, loads_only, done);
  Expr result = loads_only && e->kind != ExprKind::load ? Expr() : f(e, args);
  if (!result) result = args == e->args ? e : with_arguments(e, std::move(args));
  done.insert(e.node(), result);
  return result;
}

Expr rewrite_up(Expr e, const RewriteUp& f) {
  NodeTable<Expr> done;
  return rewrite_up_with(e, f, false, done);
}

Expr rewrite_loads(Expr e, const RewriteUp& f) {
  if (!e->has_load) return e;
  NodeTable<Expr> done;
  return rewrite_up_with(e, f, true, done);
}

std::vector<Expr> rewrite_loads(const std::vector<Expr>& es, const RewriteUp& f) {
  NodeTable<Expr> done;
  std::vector<Expr> out;
  out.reserve(es.size());
  for (Expr e : es) out.push_back(rewrite_up_with(e, f, true, done));
  return out;
}

static void visit_with(Expr e, const std::function<void(Expr)>& f, NodeSet& seen) {
  if (!seen.insert(e.node(), {})) return;
  for (Expr a : e->args) visit_with(a, f, seen);
  f(e);
}

void visit(Expr e, const std::function<void(Expr)>& f) {
  NodeSet seen;
  visit_with(e, f, seen);
}

static bool any_with(Expr e, const std::function<bool(Expr)>& predicate, NodeSet& seen) {
  if (!seen.insert(e.node(), {})) return false;
  for (Expr a : e->args)
    if (any_with(a, predicate, seen)) return true;
  return predicate(e);
}

bool any_of(Expr e, const std::function<bool(Expr)>& predicate) {
  NodeSet seen;
  return any_with(e, predicate, seen);
}

bool is_elementary(Fn fn) {
  switch (fn) {
    case Fn::exp:
    case Fn::expm1:
    case Fn::log:
    case Fn::log1p:
    case Fn::pow:
    case Fn::erf:
    case Fn::sigmoid:
    case Fn::sin:
    case Fn::cos:
    case Fn::tan:
    case Fn::asin:
    case Fn::acos:
    case Fn::atan:
    case Fn::atan2:
    case Fn::sinh:
    case Fn::cosh:
    case Fn::tanh:
    case Fn::asinh:
    case Fn::acosh:
    case Fn::atanh:
      return true;
    default:
      return false;
  }
}

bool calls_elementary(Expr e) {
  return any_of(e, [](Expr n) { return n->kind == ExprKind::call && is_elementary(n->fn); });
}

static void conjuncts(Expr e, std::vector<Expr>& out, NodeSet& seen) {
  if (!seen.insert(e.node(), {})) return;
  if (e->kind != ExprKind::call || e->fn != Fn::logical_and) return out.push_back(e);
  for (Expr a : e->args) conjuncts(a, out, seen);
}

void conjuncts(Expr e, std::vector<Expr>& out) {
  NodeSet seen;
  conjuncts(e, out, seen);
}

int64_t written_nodes(Expr e) {
  return answer_once<int64_t>(e, [](Expr n, const auto& of) {
    int64_t nodes = 1;
    for (Expr a : n->args)
      if (__builtin_add_overflow(nodes, of(a), &nodes)) nodes = INT64_MAX;
    return nodes;
  });
}

bool uses_axis(Expr e, int id) {
  return any_of(e, [&](Expr n) { return n->kind == ExprKind::axis && n->id == id; });
}

// ---- text ----
static int precedence(Expr e) {
  if (e->kind != ExprKind::call) return 9;
  if (e->fn == Fn::add || e->fn == Fn::sub) return 1;
  if (e->fn == Fn::mul || e->fn == Fn::div) return 2;
  return 9;
}

using Names = std::unordered_map<const ExprNode*, std::string>;

static std::string to_string(Expr e, int outer, const Names& names) {
  if (auto named = names.find(e.node()); named != names.end()) return named->second;
  std::string out;
  auto list = [&](const std::vector<Expr>& args) {
    std::string text;
    for (size_t i = 0; i < args.size(); ++i) text += (i ? ", " : "") + to_string(args[i], 0, names);
    return text;
  };
  switch (e->kind) {
    case ExprKind::int_constant:
      out = is_bool(e->dtype) ? (e->int_value ? "true" : "false") : std::to_string(e->int_value);
      break;
    case ExprKind::float_constant:
      out = concat(e->float_value) + (e->dtype == DType::f32 ? "f" : "");
      break;
    case ExprKind::axis:
      out = "i" + std::to_string(e->id);
      break;
    case ExprKind::symbol:
      out = "n" + std::to_string(e->id);
      break;
    case ExprKind::load:
      out = "@" + std::to_string(e->id) + "(" + list(e->args) + ")";
      break;
    case ExprKind::cast:
      out = std::string(name_of(e->dtype)) + "(" + to_string(e->args[0], 0, names) + ")";
      break;
    case ExprKind::call: {
      int p = precedence(e);
      if (p == 9) {
        out = std::string(name_of(e->fn)) + "(" + list(e->args) + ")";
        break;
      }
      const char* sign = e->fn == Fn::add ? " + " : e->fn == Fn::sub ? " - " : e->fn == Fn::mul ? "*" : " / ";
      out = to_string(e->args[0], p, names) + sign + to_string(e->args[1], p + 1, names);
      if (p < outer) out = "(" + out + ")";
    }
  }
  return out;
}

std::string to_string(Expr e) {
  constexpr int64_t most = 4096;
  Names names;
  if (!e) return "-";
  if (written_nodes(e) <= most) return to_string(e, 0, names);
  std::unordered_map<const ExprNode*, int> uses;
  visit(e, [&](Expr n) {
    for (Expr a : n->args) ++uses[a.node()];
  });
  std::string where;
  visit(e, [&](Expr n) {
    if (n->args.empty() || uses[n.node()] < 2) return;
    const std::string text = to_string(n, 0, names), name = concat("$", names.size());
    where += concat(names.empty() ? " where " : ", ", name, " = ", text);
    names.emplace(n.node(), name);
  });
  return to_string(e, 0, names) + where;
}

}  // namespace metac
