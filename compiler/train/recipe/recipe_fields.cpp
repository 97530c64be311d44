#include "compiler/train/recipe/recipe_fields.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"

namespace metac {
namespace {

using Json = JsonValue::Kind;

std::string range_text(double least, double most, bool open) {
  if (most == std::numeric_limits<double>::infinity()) return concat("at least ", least);
  return concat("in [", least, ", ", most, open ? ")" : "]");
}

}  // namespace

const std::string& expect_choice(const JsonDocument& document, const JsonValue& value, const std::string& what,
                                 const std::vector<std::string>& known) {
  const std::string& text = expect_string(document, value, what);
  if (std::find(known.begin(), known.end(), text) != known.end()) return text;
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  document.refuse(value.offset, concat(what, " ", quoted(text), " is not known; known are ", list, suggestion(text, known)));
}

double RecipeFields::number(std::string_view key, double otherwise, double least, double most, bool open) {
  const JsonValue* value = find(key);
  if (!value) return otherwise;
  double x = expect_real(document(), *value, quoted(key));
  if (!(x >= least && (open ? x < most : x <= most)))
    document().refuse(value->offset,
                      concat(quoted(key), " must be ", range_text(least, most, open), ", this is ", value->text));
  return x;
}

int64_t RecipeFields::count(std::string_view key, int64_t otherwise, int64_t least, int64_t most) {
  const JsonValue* value = find(key);
  if (!value) return otherwise;
  int64_t x = expect_integer(document(), *value, quoted(key));
  if (x < least || x > most)
    document().refuse(value->offset, concat(quoted(key), " must be in ", least, "..", most, ", this is ", x));
  return x;
}

std::vector<double> RecipeFields::numbers(std::string_view key) {
  const JsonValue* value = find(key);
  if (!value) return {};
  if (value->is(Json::number)) return {expect_real(document(), *value, quoted(key))};
  expect(document(), *value, Json::array, quoted(key));
  std::vector<double> out;
  for (const JsonValue& item : value->items)
    out.push_back(expect_real(document(), item, concat("an item of ", quoted(key))));
  return out;
}

std::string RecipeFields::choice(std::string_view key, const std::string& otherwise, const std::vector<std::string>& known) {
  const JsonValue* value = find(key);
  return value ? expect_choice(document(), *value, quoted(key), known) : otherwise;
}

std::vector<Pattern> RecipeFields::patterns(std::string_view key) {
  const JsonValue* value = find(key);
  std::vector<Pattern> out;
  if (!value) return out;
  auto add = [&](const JsonValue& item) {
    out.push_back({expect_string(document(), item, concat("an item of ", quoted(key))), document().place(item.offset)});
  };
  if (value->is(Json::string)) {
    add(*value);
  } else {
    expect(document(), *value, Json::array, quoted(key));
    for (const JsonValue& item : value->items) add(item);
  }
  return out;
}

Place RecipeFields::place(std::string_view key) {
  const JsonValue* value = find(key);
  return document().place(value ? value->offset : object().offset);
}

// Greedy with one point to come back to: linear for patterns of one star, never exponential.
bool matches(std::string_view glob, std::string_view name) {
  size_t g = 0, n = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n]) && glob[g] != '*') {
      ++g, ++n;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      from = n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

}  // namespace metac
