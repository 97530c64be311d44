#include "compiler/driver/options/quantities.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>

#include "compiler/driver/command.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::pair<std::string, std::string> split_at_equals(const std::string& option, const std::string& text,
                                                    const char* example) {
  size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) throw UsageError(concat(option, " ", quoted(text), ": expected ", example));
  return {text.substr(0, at), text.substr(at + 1)};
}

int64_t parse_count(const std::string& option, const std::string& whole, std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0)
    throw UsageError(concat(option, " ", quoted(whole), ": ", quoted(text), " is no number from 0 to 2^63"));
  return value;
}

}  // namespace

int64_t parse_bytes(const std::string& option, const std::string& text) {
  std::string_view digits = text;
  int shift = 0;
  if (!digits.empty()) {
    size_t unit = std::string_view("KMGT").find(digits.back());
    if (unit != std::string_view::npos) shift = 10 * (static_cast<int>(unit) + 1), digits.remove_suffix(1);
  }
  std::optional<int64_t> bytes = checked_mul(parse_count(option, text, digits), int64_t{1} << shift);
  if (!bytes) throw UsageError(concat(option, " ", quoted(text), " is more than 2^63 bytes"));
  return *bytes;
}

std::string show_bytes(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::string show_decibels(double decibels) {
  char text[32] = "exact";
  if (std::isfinite(decibels)) std::snprintf(text, sizeof text, "%.1f dB", decibels);
  return text;
}

std::string show_seconds(double seconds) {
  char text[32];
  if (seconds < 1e-3)
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  else if (seconds < 1)
    std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  else
    std::snprintf(text, sizeof text, "%.2f s", seconds);
  return text;
}

double parse_age(const std::string& option, const std::string& text) {
  const size_t unit = text.empty() ? std::string_view::npos : std::string_view("smhd").find(text.back());
  if (unit == std::string_view::npos) throw UsageError(concat(option, " ", quoted(text), ": expected 90s, 45m, 12h or 30d"));
  constexpr double seconds[] = {1, 60, 3600, 86400};
  return static_cast<double>(parse_count(option, text, std::string_view(text).substr(0, text.size() - 1))) * seconds[unit];
}

std::string show_age(double seconds) {
  if (seconds < 1) return "now";
  if (seconds < 120) return concat(static_cast<int64_t>(seconds), " s");
  if (seconds < 7200) return concat(static_cast<int64_t>(seconds / 60), " min");
  if (seconds < 2 * 86400) return concat(static_cast<int64_t>(seconds / 3600), " h");
  return concat(static_cast<int64_t>(seconds / 86400), " d");
}

std::map<std::string, std::vector<int64_t>> parse_shapes(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const std::string& text : texts) {
    auto [name, dims] = split_at_equals("--shape", text, "NAME=1x3x224x224");
    std::vector<int64_t> shape;
    for (size_t begin = 0; begin < dims.size();) {
      size_t end = std::min(dims.find('x', begin), dims.size());
      std::string_view dim = std::string_view(dims).substr(begin, end - begin);
      shape.push_back(dim == "?" ? -1 : parse_count("--shape", text, dim));
      begin = end + 1;
    }
    if (!dims.empty() && dims.back() == 'x') throw UsageError(concat("--shape ", quoted(text), ": ends with 'x'"));
    if (!shapes.emplace(name, shape).second) throw UsageError(concat("--shape names ", quoted(name), " twice"));
  }
  return shapes;
}

static std::vector<int64_t> parse_list(const std::string& text, const std::string& values) {
  std::vector<int64_t> list;
  for (size_t begin = 0; begin <= values.size();) {
    const size_t end = std::min(values.find(',', begin), values.size());
    list.push_back(parse_count("--dim", text, std::string_view(values).substr(begin, end - begin)));
    if (std::count(list.begin(), list.end(), list.back()) > 1)
      throw UsageError(concat("--dim ", quoted(text), ": ", list.back(), " is there twice"));
    begin = end + 1;
  }
  return list;
}

std::map<std::string, Symbol> parse_dims(const std::vector<std::string>& texts, DimLists* lists) {
  std::map<std::string, Symbol> dims;
  std::set<std::string> named;
  for (const std::string& text : texts) {
    auto [name, value] = split_at_equals("--dim", text, "NAME=8, NAME=1,8,32, NAME=1..64 or NAME=8..64@8");
    if (!named.insert(name).second) throw UsageError(concat("--dim names ", quoted(name), " twice"));
    if (value.find(',') != std::string::npos) {
      if (!lists)
        throw UsageError(concat("--dim ", quoted(text),
                                ": several specialisations are for `metac compile` of inference libraries; give one value "
                                "or a range (NAME=1..64)"));
      (*lists)[name] = parse_list(text, value);
      continue;
    }
    Symbol symbol;
    symbol.name = name;
    size_t at = value.find('@');
    if (at != std::string::npos) {
      symbol.divisor = parse_count("--dim", text, std::string_view(value).substr(at + 1));
      if (symbol.divisor == 0) throw UsageError(concat("--dim ", quoted(text), ": the divisor is 0"));
      value.resize(at);
    }
    size_t dots = value.find("..");
    if (dots == std::string::npos) {
      symbol.min = symbol.max = parse_count("--dim", text, value);
    } else {
      symbol.min = parse_count("--dim", text, value.substr(0, dots));
      if (dots + 2 < value.size()) symbol.max = parse_count("--dim", text, value.substr(dots + 2));
    }
    if (symbol.min > symbol.max) throw UsageError(concat("--dim ", quoted(text), ": the range is empty"));
    dims.emplace(name, symbol);
  }
  return dims;
}

}  // namespace metac
