#include "frontends/cpp/mathematics.h"

#include <functional>
#include <map>
#include <numbers>

namespace metac {
namespace {

using Arguments = std::vector<Expr>;

struct Entry {
  int arity;
  bool of_whole;  // for integers as well
  bool asks;      // gives bool
  std::function<Expr(const Arguments&)> make;
};

Expr real(double value, Expr like) { return float_constant(value, like->dtype); }
Expr is_nan(Expr a) { return call(Fn::is_nan, {a}); }

// Of fmin and fmax: a NaN loses.
Expr unless_nan(Fn fn, const Arguments& v) {
  return select(is_nan(v[0]), v[1], select(is_nan(v[1]), v[0], call(fn, {v[0], v[1]})));
}

const std::map<std::string_view, Entry>& table() {
  static const auto plain = [](Fn fn, bool of_whole = false, bool asks = false) {
    return Entry{arity(fn), of_whole, asks, [fn](const Arguments& v) { return call(fn, v); }};
  };
  static const std::map<std::string_view, Entry> functions = {
      {"sqrt", plain(Fn::sqrt)},
      {"exp", plain(Fn::exp)},
      {"log", plain(Fn::log)},
      {"sin", plain(Fn::sin)},
      {"cos", plain(Fn::cos)},
      {"tan", plain(Fn::tan)},
      {"asin", plain(Fn::asin)},
      {"acos", plain(Fn::acos)},
      {"atan", plain(Fn::atan)},
      {"sinh", plain(Fn::sinh)},
      {"cosh", plain(Fn::cosh)},
      {"tanh", plain(Fn::tanh)},
      {"asinh", plain(Fn::asinh)},
      {"acosh", plain(Fn::acosh)},
      {"atanh", plain(Fn::atanh)},
      {"erf", plain(Fn::erf)},
      {"expm1", plain(Fn::expm1)},
      {"log1p", plain(Fn::log1p)},
      {"floor", plain(Fn::floor)},
      {"ceil", plain(Fn::ceil)},
      {"trunc", plain(Fn::trunc)},
      {"rint", plain(Fn::rint)},
      {"nearbyint", plain(Fn::rint)},
      {"abs", plain(Fn::abs, true)},
      {"fabs", plain(Fn::abs)},
      {"isnan", plain(Fn::is_nan, false, true)},
      {"isinf", plain(Fn::is_inf, false, true)},
      {"isfinite",
       {1, false, true, [](const Arguments& v) { return logical_not(logical_or(is_nan(v[0]), call(Fn::is_inf, v))); }}},
      {"pow", plain(Fn::pow)},
      {"atan2", plain(Fn::atan2)},
      {"fmod", plain(Fn::trunc_mod)},
      {"min", plain(Fn::min, true)},
      {"max", plain(Fn::max, true)},
      {"fmin", {2, false, false, [](const Arguments& v) { return unless_nan(Fn::min, v); }}},
      {"fmax", {2, false, false, [](const Arguments& v) { return unless_nan(Fn::max, v); }}},
      {"fma", {3, false, false, [](const Arguments& v) { return v[0] * v[1] + v[2]; }}},
      {"clamp", {3, true, false, [](const Arguments& v) { return min(max(v[0], v[1]), v[2]); }}},
      {"exp2",
       {1, false, false,
        [](const Arguments& v) {
          return call(Fn::pow, {real(2, v[0]), v[0]});
        }}},
      {"log2", {1, false, false, [](const Arguments& v) { return call(Fn::log, v) * real(std::numbers::log2e, v[0]); }}},
      {"log10", {1, false, false, [](const Arguments& v) { return call(Fn::log, v) * real(std::numbers::log10e, v[0]); }}},
  };
  return functions;
}

std::string declarations() {
  std::string out = "#pragma once\nnamespace std {\n";
  for (const auto& [name, entry] : table()) {
    std::vector<std::string> types = {"float", "double"};
    if (entry.of_whole)
      for (const char* type : {"signed char", "short", "int", "long", "long long", "unsigned char", "unsigned short",
                               "unsigned", "unsigned long", "unsigned long long"})
        types.emplace_back(type);
    for (const std::string& type : types) {
      out += (entry.asks ? "bool" : type) + " " + std::string(name) + "(";
      for (int k = 0; k < entry.arity; ++k) out += (k ? ", " : "") + type;
      out += ");\n";
    }
  }
  // A whole exponent is a real one of the base's type.
  out +=
      "inline float pow(float a, int b) { return pow(a, (float)b); }\n"
      "inline double pow(double a, int b) { return pow(a, (double)b); }\n}\n";
  for (const auto& [name, entry] : table())
    if (name != "min" && name != "max" && name != "clamp") out += "using std::" + std::string(name) + ";\n";
  return out;
}

constexpr const char* whole_types = R"(#pragma once
using int8_t = signed char; using int16_t = short; using int32_t = int; using int64_t = long;
using uint8_t = unsigned char; using uint16_t = unsigned short; using uint32_t = unsigned; using uint64_t = unsigned long;
using size_t = unsigned long;
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::size_t;
}
)";

constexpr const char* limits = R"(#pragma once
namespace std {
template <class T> struct numeric_limits;
#define METAC_LIMITS(type, lo, least, hi, eps, inf, nan) \
  template <> struct numeric_limits<type> { \
    static constexpr type min() { return lo; } static constexpr type lowest() { return least; } \
    static constexpr type max() { return hi; } static constexpr type epsilon() { return eps; } \
    static constexpr type infinity() { return inf; } static constexpr type quiet_NaN() { return nan; } };
METAC_LIMITS(float, __FLT_MIN__, -__FLT_MAX__, __FLT_MAX__, __FLT_EPSILON__, __builtin_inff(), __builtin_nanf(""))
METAC_LIMITS(double, __DBL_MIN__, -__DBL_MAX__, __DBL_MAX__, __DBL_EPSILON__, __builtin_inf(), __builtin_nan(""))
METAC_LIMITS(int, -__INT_MAX__ - 1, -__INT_MAX__ - 1, __INT_MAX__, 0, 0, 0)
METAC_LIMITS(long, -__LONG_MAX__ - 1, -__LONG_MAX__ - 1, __LONG_MAX__, 0, 0, 0)
#undef METAC_LIMITS
}
)";

}  // namespace

const std::vector<std::pair<std::string, std::string>>& mathematics_headers() {
  static const std::vector<std::pair<std::string, std::string>> headers = {
      {"cmath", declarations()}, {"math.h", "#include <cmath>\n"},     {"algorithm", "#include <cmath>\n"},
      {"cstdint", whole_types},  {"stdint.h", "#include <cstdint>\n"}, {"limits", limits},
  };
  return headers;
}

Expr call_mathematics(std::string_view name, const std::vector<Expr>& arguments) {
  const auto found = table().find(name);
  if (found == table().end() || static_cast<int>(arguments.size()) != found->second.arity) return {};
  return found->second.make(arguments);
}

}  // namespace metac
