#include "compiler/ops/meta/meta_expression.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "compiler/ir/dtype.h"

namespace metac {
namespace {

using TermKind = MetaExpression::Kind;

constexpr int nesting_limit = 100;
constexpr size_t length_limit = 10'000;

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source) {
    if (source.size() > length_limit)
      throw MetaExpressionError(source, length_limit, concat("is longer than ", length_limit, " characters"));
  }

  MetaExpression whole() {
    MetaExpression e = expression();
    expect_end();
    return e;
  }

  MetaDefinition definition() {
    MetaDefinition d;
    do {
      skip_blanks();
      size_t start = at_;
      std::string name = identifier();
      if (axis_of_name(name) >= 0) refuse(start, "is the name of an axis and cannot be defined");
      d.names.push_back(std::move(name));
    } while (take(","));
    if (!take("=")) refuse(at_, "expected '='");
    d.value = expression();
    expect_end();
    if (d.names.size() > 1 && d.value.kind != TermKind::shape)
      refuse(d.value.column, "several names need a shape such as x.shape");
    return d;
  }

 private:
  [[noreturn]] void refuse(size_t column, const std::string& message) {
    throw MetaExpressionError(source_, column, message);
  }

  std::string found() { return at_ < source_.size() ? quoted(source_.substr(at_, 1)) : "the end"; }

  void skip_blanks() {
    while (at_ < source_.size() && (source_[at_] == ' ' || source_[at_] == '\t')) ++at_;
  }

  bool take(std::string_view token) {
    skip_blanks();
    if (source_.substr(at_, token.size()) != token) return false;
    // "<" must not eat the start of "<=", nor "/" that of "//".
    char next = at_ + token.size() < source_.size() ? source_[at_ + token.size()] : '\0';
    if ((token == "<" || token == ">" || token == "!" || token == "=") && next == '=') return false;
    if (token == "/" && next == '/') return false;
    at_ += token.size();
    return true;
  }

  void expect(const char* token) {
    if (!take(token)) refuse(at_, concat("expected '", token, "', found ", found()));
  }

  void expect_end() {
    skip_blanks();
    if (at_ < source_.size()) refuse(at_, concat("unexpected ", found()));
  }

  std::string identifier() {
    skip_blanks();
    if (at_ >= source_.size() || !is_name_start(source_[at_])) refuse(at_, concat("expected a name, found ", found()));
    size_t start = at_;
    while (at_ < source_.size() && is_name_part(source_[at_])) ++at_;
    return std::string(source_.substr(start, at_ - start));
  }

  static MetaExpression make(TermKind kind, std::string text, size_t column, std::vector<MetaExpression> arguments) {
    MetaExpression e;
    e.kind = kind;
    e.text = std::move(text);
    e.column = column;
    e.arguments = std::move(arguments);
    return e;
  }

  MetaExpression expression() {
    if (++depth_ > nesting_limit) refuse(at_, concat("nesting deeper than ", nesting_limit));
    MetaExpression e = binary(0);
    size_t column = at_;
    if (take("?")) {
      MetaExpression then = expression();
      expect(":");
      MetaExpression otherwise = expression();
      e = make(TermKind::conditional, "?", column, {std::move(e), std::move(then), std::move(otherwise)});
    }
    --depth_;
    return e;
  }

  // Binary operators by precedence, loosest first; within a level longer tokens first. All associate to the left, but
  // comparisons do not chain.
  MetaExpression binary(int level) {
    static const std::vector<std::vector<const char*>> levels = {
        {"||"}, {"&&"}, {"<=", ">=", "==", "!=", "<", ">"}, {"+", "-"}, {"*", "//", "/", "%"}};
    constexpr int comparisons = 2;
    if (level == static_cast<int>(levels.size())) return unary();
    MetaExpression left = binary(level + 1);
    for (bool more = true; more;) {
      more = false;
      skip_blanks();
      size_t column = at_;
      for (const char* token : levels[level]) {
        if (!take(token)) continue;
        MetaExpression right = binary(level + 1);
        left = make(TermKind::binary, token, column, {std::move(left), std::move(right)});
        // A sum of thousands of terms is a left-deep tree: bound it like any nesting, recursion walks it.
        if (++terms_ > 1000) refuse(column, "more than 1000 operators");
        more = level != comparisons;  // a < b < c is no expression
        break;
      }
    }
    return left;
  }

  MetaExpression unary() {
    skip_blanks();
    size_t column = at_;
    for (const char* token : {"-", "!", "+"})
      if (take(token)) {
        if (++depth_ > nesting_limit) refuse(column, concat("nesting deeper than ", nesting_limit));
        MetaExpression e = unary();
        --depth_;
        return make(TermKind::unary, token, column, {std::move(e)});
      }
    return primary();
  }

  MetaExpression primary() {
    skip_blanks();
    size_t column = at_;
    if (take("(")) {
      MetaExpression e = expression();
      expect(")");
      return e;
    }
    char c = at_ < source_.size() ? source_[at_] : '\0';
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') return number();
    std::string name;
    if (take("@")) {
      size_t digits = at_;
      while (at_ < source_.size() && std::isdigit(static_cast<unsigned char>(source_[at_]))) ++at_;
      if (digits == at_ || at_ - digits > 4) refuse(digits, "expected the number of an operand after '@'");
      name = "@" + std::string(source_.substr(digits, at_ - digits));
    } else if (is_name_start(c)) {
      name = identifier();
    } else {
      refuse(column, concat("expected a value, found ", found()));
    }
    if (take("(")) {
      std::vector<MetaExpression> arguments;
      if (!take(")")) {
        do arguments.push_back(expression());
        while (take(","));
        expect(")");
      }
      return make(TermKind::call, std::move(name), column, std::move(arguments));
    }
    if (take(".")) {
      size_t member = at_;
      if (identifier() != "shape") refuse(member, "the only member of an operand is .shape");
      MetaExpression e = make(TermKind::shape, std::move(name), column, {});
      if (take("[")) {
        bool negative = take("-");
        skip_blanks();
        size_t start = at_;
        MetaExpression index = number();
        if (index.kind != TermKind::integer || index.integer > 63) refuse(start, "expected the number of an axis");
        e.kind = TermKind::dim;
        e.integer = negative ? -index.integer : index.integer;
        expect("]");
      }
      return e;
    }
    return make(TermKind::name, std::move(name), column, {});
  }

  MetaExpression number() {
    size_t start = at_;
    const char* first = source_.data() + start;
    const char* last = source_.data() + source_.size();
    MetaExpression e;
    e.column = start;
    auto [integer_end, integer_error] = std::from_chars(first, last, e.integer);
    auto [real_end, real_error] = std::from_chars(first, last, e.real);
    if (real_error == std::errc::result_out_of_range || (real_error == std::errc() && !std::isfinite(e.real)))
      refuse(start, "the number does not fit in a float64");
    if (real_error != std::errc()) refuse(start, concat("expected a number, found ", found()));
    bool is_real = integer_error != std::errc() || real_end != integer_end;
    if (integer_error == std::errc::result_out_of_range && real_end == integer_end)
      refuse(start, "the number does not fit in an int64");
    e.kind = is_real ? TermKind::real : TermKind::integer;
    at_ = static_cast<size_t>((is_real ? real_end : integer_end) - source_.data());
    if (at_ < source_.size() && is_name_part(source_[at_])) refuse(at_, concat("unexpected ", found(), " after a number"));
    return e;
  }

  std::string_view source_;
  size_t at_ = 0;
  int depth_ = 0, terms_ = 0;
};

}  // namespace

MetaExpressionError::MetaExpressionError(std::string_view source, size_t column, const std::string& message)
    : CompileError(Diagnostic{"", "", concat("expression ", quoted(source), ", column ", column + 1, ": ", message)}),
      column(column) {}

MetaExpression parse_meta_expression(std::string_view source) { return Parser(source).whole(); }
MetaDefinition parse_meta_definition(std::string_view source) { return Parser(source).definition(); }

void visit_names(const MetaExpression& e, const std::function<void(const std::string&)>& f) {
  bool is_function =
      e.kind == TermKind::call && (dtype_from_name(e.text) || scalar_function(e.text) || e.text == "ceil_div");
  if (e.kind == TermKind::name || e.kind == TermKind::shape || e.kind == TermKind::dim ||
      (e.kind == TermKind::call && !is_function))
    f(e.text);
  for (const MetaExpression& argument : e.arguments) visit_names(argument, f);
}

std::optional<Fn> scalar_function(std::string_view name) {
  for (int fn = 0; fn <= static_cast<int>(Fn::select); ++fn)
    if (name_of(static_cast<Fn>(fn)) == name) return static_cast<Fn>(fn);
  return std::nullopt;
}

bool is_identifier(std::string_view text) {
  if (text.empty() || !is_name_start(text[0])) return false;
  for (char c : text)
    if (!is_name_part(c)) return false;
  return true;
}

int axis_of_name(std::string_view name) {
  if (name.size() < 2 || name.size() > 3 || name[0] != 'i') return -1;
  int number = 0;
  for (char c : name.substr(1)) {
    if (c < '0' || c > '9') return -1;
    number = number * 10 + (c - '0');
  }
  return (name.size() == 3 && name[1] == '0') || number > 63 ? -1 : number;
}

}  // namespace metac
