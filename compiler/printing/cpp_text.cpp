#include "compiler/printing/cpp_text.h"

#include <cmath>
#include <cstdio>

#include "compiler/support/diagnostic.h"

namespace metac {

static std::string integer_text(int64_t value) {
  if (value == INT64_MIN) return "(-9223372036854775807 - 1)";
  return std::to_string(value);
}

std::string constant_text(Expr e) {
  if (e->kind == ExprKind::int_constant) {
    if (is_bool(e->dtype)) return e->int_value ? "true" : "false";
    if (e->dtype == DType::i32 && e->int_value > INT32_MIN) return std::to_string(e->int_value);
    if (e->dtype == DType::u64) return concat("uint64_t(", std::to_string(static_cast<uint64_t>(e->int_value)), "u)");
    return concat(info(e->dtype).cpp_name, "(", integer_text(e->int_value), ")");
  }
  double v = e->float_value;
  bool narrow = e->dtype != DType::f64;
  std::string text;
  if (std::isnan(v))
    text = narrow ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  else if (std::isinf(v))
    text = concat(v < 0 ? "-" : "", narrow ? "__builtin_inff()" : "__builtin_inf()");
  else {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, narrow ? "%.9g" : "%.17g", v);
    double shorter;  // the shortest text that reads back
    for (int digits = 1; digits < 9 && narrow; ++digits) {
      char attempt[40];
      std::snprintf(attempt, sizeof attempt, "%.*g", digits, v);
      std::sscanf(attempt, "%lf", &shorter);
      if (static_cast<float>(shorter) == static_cast<float>(v)) {
        std::snprintf(buffer, sizeof buffer, "%s", attempt);
        break;
      }
    }
    text = buffer;
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (narrow) text += "f";
  }
  if (is_half(e->dtype)) return concat("cast_to<", info(e->dtype).cpp_name, ">(", text, ")");
  return text;
}

namespace {

class IndexText {
 public:
  IndexText(const Bounds& bounds, const NodeNames& named) : bounds_(bounds), named_(named) {}

  std::string print_call(Expr e, int outer) {
    auto wrap = [&](std::string text, int precedence) { return precedence < outer ? "(" + text + ")" : text; };
    Expr a = e->args[0], b = e->args.size() > 1 ? e->args[1] : Expr();
    switch (e->fn) {
      case Fn::add: {
        if (b.if_int() && b.as_int() < 0 && b.as_int() != INT64_MIN)
          return wrap(print(a, 1) + " - " + std::to_string(-b.as_int()), 1);
        if (b->kind == ExprKind::call && b->fn == Fn::mul && b->args[1].is_int(-1))
          return wrap(print(a, 1) + " - " + print(b->args[0], 2), 1);
        return wrap(print(a, 1) + " + " + print(b, 1), 1);
      }
      case Fn::sub:
        return wrap(print(a, 1) + " - " + print(b, 2), 1);
      case Fn::mul:
        if (b.is_int(-1)) return wrap("-" + print(a, 3), 2);
        return wrap(print(a, 2) + " * " + print(b, 3), 2);
      case Fn::floor_div:
      case Fn::floor_mod:
        if (bounds_.interval(a).low >= 0 && bounds_.interval(b).low > 0)
          return wrap(print(a, 2) + (e->fn == Fn::floor_div ? " / " : " % ") + print(b, 3), 2);
        break;
      case Fn::select: {
        // Of two literals the result would be an int.
        const bool literals = b.if_int() && e->args[2].if_int() && b->dtype == DType::i64;
        return "(" + print(a, 0) + " ? " + (literals ? concat("int64_t(", print(b, 0), ")") : print(b, 0)) + " : " +
               print(e->args[2], 0) + ")";
      }
      case Fn::lt:
        return wrap(print(a, 1) + " < " + print(b, 1), 0);
      case Fn::le:
        return wrap(print(a, 1) + " <= " + print(b, 1), 0);
      case Fn::eq:
        return wrap(print(a, 1) + " == " + print(b, 1), 0);
      case Fn::ne:
        return wrap(print(a, 1) + " != " + print(b, 1), 0);
      case Fn::logical_and:
        return "(" + print(a, 1) + " && " + print(b, 1) + ")";
      case Fn::logical_or:
        return "(" + print(a, 1) + " || " + print(b, 1) + ")";
      default:
        break;
    }
    std::string text = std::string(name_of(e->fn)) + "(";
    for (size_t k = 0; k < e->args.size(); ++k) {
      const int64_t* value = e->args[k].if_int();
      text += (k ? ", " : "") + (value && e->args[k]->dtype == DType::i64 ? concat("int64_t(", print(e->args[k], 0), ")")
                                                                          : print(e->args[k], 0));
    }
    return text + ")";
  }

  std::string print(Expr e, int outer) {
    if (named_ && !e->args.empty())
      if (const std::string* name = named_(e)) return *name;
    switch (e->kind) {
      case ExprKind::int_constant:
        return e->dtype == DType::i64
                   ? (e->int_value < 0 && outer > 0 ? "(" + integer_text(e->int_value) + ")" : integer_text(e->int_value))
                   : constant_text(e);
      case ExprKind::float_constant:
        return constant_text(e);
      case ExprKind::axis:
        return concat("i", e->id);
      case ExprKind::symbol:
        return concat("n", e->id);
      case ExprKind::cast:
        return concat("cast_to<", info(e->dtype).cpp_name, ">(", print(e->args[0], 0), ")");
      case ExprKind::call:
        return print_call(e, outer);
      case ExprKind::load:
        break;
    }
    METAC_ASSERT(false, to_string(e));
    return "";
  }

 private:
  const Bounds& bounds_;
  const NodeNames& named_;
};

}  // namespace

std::string index_expression_text(Expr e, const Bounds& bounds, const NodeNames& named) {
  return IndexText(bounds, named).print(e, 0);
}

std::string without_parentheses(const std::string& condition) {
  if (condition.empty() || condition.front() != '(') return condition;
  int open = 0;
  for (size_t k = 0; k < condition.size(); ++k) {
    open += condition[k] == '(' ? 1 : condition[k] == ')' ? -1 : 0;
    if (open == 0) return k + 1 == condition.size() ? condition.substr(1, k - 1) : condition;
  }
  return condition;
}

}  // namespace metac
