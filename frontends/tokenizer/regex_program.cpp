// Regular expressions of tokenizers as programs. What they use: alternatives, groups, (?i:...), classes with properties of
// Unicode, greedy and possessive repetition of single characters, optional groups, looking ahead. The rest is refused.
#include <algorithm>
#include <optional>

#include "compiler/support/diagnostic.h"
#include "frontends/tokenizer/table_writer.h"
#include "frontends/tokenizer/unicode.h"
#include "runtime/generate/tokenizer/text_buffer.h"

namespace metac {
namespace {

using Code = tok::TableRegexCode;
using Kind = tok::RegexCode;
using Fragment = std::vector<Code>;  // addresses count from the instruction that has them

constexpr uint32_t unlimited = UINT32_MAX;

class RegexParser {
 public:
  RegexParser(TokenizerWriter& writer, const std::string& pattern) : writer_(writer), pattern_(pattern) {}

  Fragment run() {
    Fragment all = alternatives(false);
    if (at_ < pattern_.size()) refuse("a closing bracket without its opening one");
    all.push_back({Kind::match, 0, 0, 0});
    return all;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail("the regular expression ", quoted(pattern_), " has ", what, " at byte ", at_, ", which metac does not know");
  }
  bool ends() const { return at_ >= pattern_.size(); }
  bool takes(std::string_view text) {
    if (pattern_.compare(at_, text.size(), text) != 0) return false;
    at_ += text.size();
    return true;
  }
  uint32_t code_point() {
    uint32_t code = 0;
    const int bytes = tok::code_point_at(pattern_.data() + at_, pattern_.data() + pattern_.size(), &code);
    if (bytes == 0) refuse("no UTF-8");
    at_ += static_cast<size_t>(bytes);
    return code;
  }

  Fragment alternatives(bool any_case) {
    if (++depth_ > 100) refuse("more than 100 alternatives and groups");
    Fragment all = sequence(any_case);
    if (takes("|")) {
      const Fragment rest = alternatives(any_case);
      const uint32_t first = static_cast<uint32_t>(all.size()), second = static_cast<uint32_t>(rest.size());
      all.insert(all.begin(), {Kind::either, 1, first + 2, 0});
      all.push_back({Kind::jump, second + 1, 0, 0});
      all.insert(all.end(), rest.begin(), rest.end());
    }
    --depth_;
    return all;
  }

  Fragment sequence(bool any_case) {
    Fragment all;
    while (!ends() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      const Fragment next = repeated(any_case);
      all.insert(all.end(), next.begin(), next.end());
    }
    return all;
  }

  Fragment repeated(bool any_case) {
    Fragment atom = this->atom(any_case);
    uint32_t least = 1, most = 1;
    if (takes("?"))
      least = 0;
    else if (takes("*"))
      least = 0, most = unlimited;
    else if (takes("+"))
      most = unlimited;
    else if (!ends() && pattern_[at_] == '{')
      bounds(&least, &most);
    else
      return atom;
    if (takes("?")) refuse("a lazy repetition");
    const bool possessive = takes("+");
    if (atom.size() == 1 && atom[0].code == Kind::one)
      return {{possessive ? Kind::hold : Kind::repeat, atom[0].a, least, most}};
    if (least != 0 || most != 1 || possessive) refuse("a repeated group");
    atom.insert(atom.begin(), {Kind::either, 1, static_cast<uint32_t>(atom.size()) + 1, 0});
    return atom;
  }
  void bounds(uint32_t* least, uint32_t* most) {
    const size_t close = pattern_.find('}', at_);
    const std::string text = close == std::string::npos ? "" : pattern_.substr(at_ + 1, close - at_ - 1);
    const size_t comma = text.find(',');
    const std::string low = text.substr(0, comma), high = comma == std::string::npos ? low : text.substr(comma + 1);
    const auto number = [](const std::string& digits) {
      return !digits.empty() && digits.size() < 6 && digits.find_first_not_of("0123456789") == std::string::npos;
    };
    if (!number(low) || (!number(high) && !high.empty())) refuse("bounds");
    *least = static_cast<uint32_t>(std::stoul(low));
    *most = high.empty() ? unlimited : static_cast<uint32_t>(std::stoul(high));
    at_ = close + 1;
  }

  Fragment atom(bool any_case) {
    if (takes("(?!")) return ahead(true, any_case);
    if (takes("(?=")) return ahead(false, any_case);
    if (takes("(?i:")) return group(true);
    if (takes("(?:")) return group(any_case);
    if (pattern_.compare(at_, 2, "(?") == 0) refuse("a kind of group");
    if (takes("(")) return group(any_case);
    if (takes("$")) return {{Kind::at_end, 0, 0, 0}};
    if (takes(".")) return {one(complement_of({{'\n', '\n'}}))};
    if (takes("[")) return {one(set())};
    if (takes("\\")) return {one(cased(escaped(), any_case))};
    if (std::string("*+?{^").find(pattern_[at_]) != std::string::npos) refuse("something");
    const uint32_t code = code_point();
    return {one(cased({{code, code}}, any_case))};
  }
  Fragment group(bool any_case) {
    Fragment inside = alternatives(any_case);
    if (!takes(")")) refuse("a group without its end");
    return inside;
  }
  Fragment ahead(bool must_not, bool any_case) {
    Fragment inside = group(any_case);
    inside.insert(inside.begin(), {Kind::ahead, static_cast<uint32_t>(inside.size()) + 2, must_not ? 1u : 0u, 0});
    inside.push_back({Kind::match, 0, 0, 0});
    return inside;
  }
  Code one(const CodeSet& set) { return {Kind::one, writer_.character_class(set), 0, 0}; }

  // Letters of ASCII in both cases, and what folds to them.
  static CodeSet cased(const CodeSet& set, bool any_case) {
    CodeSet all = set;
    for (const tok::TableRange& r : any_case ? set : CodeSet())
      for (uint32_t code = r.first; code <= r.last && code < 128; ++code) {
        const uint32_t other = code ^ 32u;
        if ((code | 32u) >= 'a' && (code | 32u) <= 'z') all = union_of(all, {{other, other}});
        if ((code | 32u) == 's') all = union_of(all, {{0x17f, 0x17f}});
        if ((code | 32u) == 'k') all = union_of(all, {{0x212a, 0x212a}});
      }
    return all;
  }

  CodeSet escaped() {
    if (ends()) refuse("a backslash");
    const char c = pattern_[at_++];
    switch (c) {
      case 's':
        return white_space();
      case 'S':
        return complement_of(white_space());
      case 'd':
        return property_set("Nd");
      case 'D':
        return complement_of(property_set("Nd"));
      case 'w':
        return word();
      case 'W':
        return complement_of(word());
      case 'n':
        return {{'\n', '\n'}};
      case 'r':
        return {{'\r', '\r'}};
      case 't':
        return {{'\t', '\t'}};
      case 'p':
      case 'P':
        return property(c == 'P');
      default:
        if (std::isalnum(static_cast<unsigned char>(c))) refuse(std::string("\\") + c);
        return {{static_cast<unsigned char>(c), static_cast<unsigned char>(c)}};
    }
  }
  static CodeSet word() {
    return union_of(union_of(property_set("L"), property_set("M")), union_of(property_set("Nd"), property_set("Pc")));
  }
  CodeSet property(bool negated) {
    std::string name;
    if (takes("{")) {
      const size_t close = pattern_.find('}', at_);
      if (close == std::string::npos) refuse("a property");
      name = pattern_.substr(at_, close - at_);
      if (!name.empty() && name[0] == '^') negated = !negated, name.erase(0, 1);
      at_ = close + 1;
    } else if (!ends()) {
      name = pattern_[at_++];
    }
    const CodeSet set = property_set(name);
    if (set.empty()) refuse("the property " + quoted(name));
    return negated ? complement_of(set) : set;
  }

  CodeSet set() {
    const bool negated = takes("^");
    CodeSet all;
    for (bool first = true; !takes("]"); first = false) {
      if (ends() || takes("&&") || pattern_.compare(at_, 2, "[:") == 0) refuse("a class");
      if (!first && pattern_[at_] == '[') refuse("a class within a class");
      const CodeSet low = takes("\\") ? escaped() : single();
      const bool range = at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']';
      if (!range) {
        all = union_of(all, low);
        continue;
      }
      ++at_;
      const CodeSet high = takes("\\") ? escaped() : single();
      const auto is_one = [](const CodeSet& s) { return s.size() == 1 && s[0].first == s[0].last; };
      if (!is_one(low) || !is_one(high) || high[0].first < low[0].first) refuse("a range");
      all = union_of(all, {{low[0].first, high[0].first}});
    }
    return negated ? complement_of(all) : all;
  }
  CodeSet single() {
    const uint32_t code = code_point();
    return {{code, code}};
  }

  TokenizerWriter& writer_;
  const std::string& pattern_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

uint32_t TokenizerWriter::regex(const std::string& pattern) {
  const uint32_t first = static_cast<uint32_t>(codes.size());
  Fragment program = RegexParser(*this, pattern).run();
  for (uint32_t k = 0; k < program.size(); ++k) {
    Code& c = program[k];
    if (c.code == Kind::either || c.code == Kind::jump || c.code == Kind::ahead) c.a += first + k;
    if (c.code == Kind::either) c.b += first + k;
  }
  codes.insert(codes.end(), program.begin(), program.end());
  return first;
}

}  // namespace metac
