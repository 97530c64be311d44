#include "compiler/ops/defined/formula.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace metac {
namespace {

constexpr size_t longest_text = 1'000'000, most_steps = 10'000;

// What a name of the language itself is; empty where it is none.
std::optional<MetaValue> named_constant(const std::string& name) {
  if (name == "true" || name == "false") return MetaValue{bool_constant(name == "true")};
  if (name == "inf") return MetaValue{float_constant(INFINITY, DType::f64), true};
  if (name == "nan") return MetaValue{float_constant(NAN, DType::f64), true};
  return std::nullopt;
}

// The error of a part of `text` that begins at `start` and was read with blanks in its place before.
[[noreturn]] void raise_in(const std::string& text, const std::string& part, const MetaExpressionError& error,
                           size_t start) {
  const std::string before = MetaExpressionError(part, error.column, "").diagnostic.message;
  throw MetaExpressionError(text, start + error.column, error.diagnostic.message.substr(before.size()));
}

}  // namespace

void Formula::refuse(size_t column, const std::string& message) const { throw MetaExpressionError(text_, column, message); }

static void move_columns(MetaExpression& e, size_t by) {
  e.column += by;
  for (MetaExpression& argument : e.arguments) move_columns(argument, by);
}

Formula::Formula(std::string text) : text_(std::move(text)) {
  if (text_.size() > longest_text) refuse(longest_text, concat("is longer than ", longest_text, " characters"));
  for (char& c : text_)
    if (c == '\n' || c == '\r') c = ' ';
  std::set<std::string> defined;
  for (size_t start = 0; start <= text_.size();) {
    const size_t end = std::min(text_.find(';', start), text_.size());
    const std::string part = text_.substr(start, end - start);
    const bool last = end == text_.size();
    if (steps_.size() == most_steps) refuse(start, concat("more than ", most_steps, " steps"));
    try {
      if (last) {
        steps_.emplace_back("", parse_meta_expression(part));
      } else {
        MetaDefinition step = parse_meta_definition(part);
        if (step.names.size() != 1) refuse(start, "a step has one name");
        steps_.emplace_back(step.names[0], std::move(step.value));
      }
    } catch (const MetaExpressionError& error) {
      raise_in(text_, part, error, start);
    }
    auto& [name, value] = steps_.back();
    move_columns(value, start);
    const std::function<void(const MetaExpression&)> look = [&](const MetaExpression& e) {
      using Kind = MetaExpression::Kind;
      if (e.kind == Kind::shape || e.kind == Kind::dim) refuse(e.column, "a formula knows no shapes");
      if (e.text.starts_with('@')) refuse(e.column, "a formula names its parameters; it has no " + e.text);
      if (e.kind == Kind::call && !dtype_from_name(e.text) && !scalar_function(e.text))
        refuse(e.column, concat(quoted(e.text), " is no function"));
      if (e.kind == Kind::name && !defined.count(e.text) && !named_constant(e.text) &&
          std::find(free_names_.begin(), free_names_.end(), e.text) == free_names_.end())
        free_names_.push_back(e.text);
      for (const MetaExpression& argument : e.arguments) look(argument);
    };
    look(value);
    if (!last &&
        (named_constant(name) || std::count(free_names_.begin(), free_names_.end(), name) || !defined.insert(name).second))
      refuse(start, concat(quoted(name), " has a meaning already"));
    start = end + 1;
  }
}

Expr Formula::value(const std::map<std::string, MetaValue>& names, DType literals) const {
  const MetaTyping typing(text_, true);
  std::map<std::string, MetaValue> steps;
  const BindLeaf leaf = [&](const MetaExpression& e) -> MetaValue {
    if (const auto step = steps.find(e.text); step != steps.end()) return step->second;
    if (const auto given = names.find(e.text); given != names.end()) return given->second;
    if (const auto constant = named_constant(e.text)) return *constant;
    std::string known;
    for (const auto& [name, value] : names) known += (known.empty() ? "" : ", ") + name;
    refuse(e.column, concat(quoted(e.text), " is no parameter; there are ", known));
  };
  MetaValue value;
  for (const auto& [name, expression] : steps_) {
    if (names.count(name)) refuse(expression.column, concat(quoted(name), " is a parameter: a step has a name of its own"));
    value = bind_expression(expression, typing, leaf);
    if (!name.empty()) steps[name] = value;
  }
  return typing.adapt(value, literals, steps_.back().second);
}

}  // namespace metac
