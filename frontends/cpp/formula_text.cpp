#include "frontends/cpp/formula_text.h"

#include <charconv>
#include <cmath>
#include <unordered_map>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr size_t longest_part = 400;  // of what stands within another term, which a formula may nest 100 deep

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  METAC_ASSERT(error == std::errc());
  std::string out(text, end);
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;  // "2.0": "2" would be a whole number
}

// Every dtype's constants as its literals, those beyond an int64 as one that wraps around to them. The least int64 has no
// literal: it is the complement of the greatest.
std::string whole_text(int64_t value, DType dtype) {
  if (is_bool(dtype)) return value ? "true" : "false";
  const std::string name(name_of(dtype));
  const std::string whole = value == INT64_MIN ? concat("bit_not(int64(", INT64_MAX, "))") : concat("int64(", value, ")");
  const bool is_literal = value >= min_value(dtype) && value != INT64_MIN;
  return is_literal ? concat(name, "(", value, ")") : dtype == DType::i64 ? whole : concat(name, "(", whole, ")");
}

}  // namespace

std::string formula_text(Expr value, const std::vector<std::string>& names, const std::vector<bool>& numbers) {
  std::unordered_map<Expr, int> uses;
  visit(value, [&](Expr e) {
    for (Expr argument : e->args) ++uses[argument];
  });
  std::unordered_map<Expr, std::string> written;
  std::string steps;
  int count = 0;
  visit(value, [&](Expr e) {  // arguments first
    std::string text;
    switch (e->kind) {
      case ExprKind::int_constant:
        text = whole_text(e->int_value, e->dtype);
        break;
      case ExprKind::float_constant:
        text = concat(name_of(e->dtype), "(", real_text(e->float_value), ")");
        break;
      case ExprKind::load:
        text = names[static_cast<size_t>(e->id)];
        if (numbers[static_cast<size_t>(e->id)]) text = concat(name_of(e->dtype), "(", text, ")");
        break;
      case ExprKind::cast:
      case ExprKind::call:
        text = std::string(e->kind == ExprKind::cast ? name_of(e->dtype) : name_of(e->fn)) + "(";
        for (size_t k = 0; k < e->args.size(); ++k) text += (k ? ", " : "") + written.at(e->args[k]);
        text += ")";
        break;
      case ExprKind::axis:
      case ExprKind::symbol:
        METAC_ASSERT(false, "a function knows no axes");
    }
    if (!e->args.empty() && e != value && (uses[e] > 1 || text.size() > longest_part)) {
      const std::string name = concat("_t", count++);
      steps += concat(name, " = ", text, "; ");
      text = name;
    }
    written[e] = text;
  });
  return steps + written.at(value);
}

}  // namespace metac
