#include "compiler/ir/constant_calls.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/checked.h"

namespace metac {

Expr fold_float(Fn fn, const std::vector<Expr>& args) {
  DType dtype = args.back()->dtype;
  auto v = [&](size_t i) { return args[i]->float_value; };
  auto real = [&](double x) { return float_constant(x, dtype); };
  double a = v(0), b = args.size() > 1 ? v(1) : 0;
  switch (fn) {
    case Fn::neg:
      return real(-a);
    case Fn::abs:
      return real(std::fabs(a));
    case Fn::sqrt:
      return real(std::sqrt(a));
    case Fn::exp:
      return real(std::exp(a));
    case Fn::log:
      return real(std::log(a));
    case Fn::floor:
      return real(std::floor(a));
    case Fn::ceil:
      return real(std::ceil(a));
    case Fn::trunc:
      return real(std::trunc(a));
    case Fn::rint:
      return real(std::nearbyint(a));
    case Fn::add:
      return real(a + b);
    case Fn::sub:
      return real(a - b);
    case Fn::mul:
      return real(a * b);
    case Fn::div:
      return real(a / b);
    case Fn::min:
      return real(a != a || b != b ? NAN : std::fmin(a, b));
    case Fn::max:
      return real(a != a || b != b ? NAN : std::fmax(a, b));
    case Fn::lt:
      return bool_constant(a < b);
    case Fn::le:
      return bool_constant(a <= b);
    case Fn::eq:
      return bool_constant(a == b);
    case Fn::ne:
      return bool_constant(a != b);
    case Fn::is_nan:
      return bool_constant(a != a);
    case Fn::is_inf:
      return bool_constant(std::isinf(a));
    default:
      return {};
  }
}

Expr fold_int(Fn fn, const std::vector<Expr>& args) {
  DType dtype = args.back()->dtype;
  int64_t a = args[0]->int_value, b = args.size() > 1 ? args[1]->int_value : 0;
  auto u = [](int64_t x) { return static_cast<uint64_t>(x); };
  auto whole = [&](uint64_t x) { return int_constant(static_cast<int64_t>(x), dtype); };
  bool is_u64 = dtype == DType::u64;
  switch (fn) {
    case Fn::neg:
      return whole(0 - u(a));
    case Fn::abs:
      return whole(is_u64 || a >= 0 ? u(a) : 0 - u(a));
    case Fn::sign:
      return whole(is_u64 ? a != 0 : u((a > 0) - (a < 0)));
    case Fn::add:
      return whole(u(a) + u(b));
    case Fn::sub:
      return whole(u(a) - u(b));
    case Fn::mul:
      return whole(u(a) * u(b));
    case Fn::div:
      if (b == 0) return whole(0);
      if (is_u64) return whole(u(a) / u(b));
      return b == -1 ? whole(0 - u(a)) : whole(u(a / b));
    case Fn::floor_div:
      return b == 0 ? whole(0) : is_u64 ? whole(u(a) / u(b)) : whole(u(floor_div(a, b)));
    case Fn::floor_mod:
      return b == 0 ? whole(0) : is_u64 ? whole(u(a) % u(b)) : whole(u(floor_mod(a, b)));
    case Fn::min:
      return whole(is_u64 ? std::min(u(a), u(b)) : u(std::min(a, b)));
    case Fn::max:
      return whole(is_u64 ? std::max(u(a), u(b)) : u(std::max(a, b)));
    case Fn::lt:
      return bool_constant(is_u64 ? u(a) < u(b) : a < b);
    case Fn::le:
      return bool_constant(is_u64 ? u(a) <= u(b) : a <= b);
    case Fn::eq:
      return bool_constant(a == b);
    case Fn::ne:
      return bool_constant(a != b);
    case Fn::logical_not:
      return bool_constant(!a);
    case Fn::logical_and:
      return bool_constant(a && b);
    case Fn::logical_or:
      return bool_constant(a || b);
    case Fn::logical_xor:
      return bool_constant(!a != !b);
    default:
      return {};
  }
}

}  // namespace metac
