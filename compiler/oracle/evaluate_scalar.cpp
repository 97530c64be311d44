#include "compiler/oracle/evaluate_scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "compiler/ir/element.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

template <typename F>
void for_real(DType dtype, Scalar* out, int n, const F& value_at) {
  switch (dtype) {
    case DType::f64:
      for (int i = 0; i < n; ++i) out[i].real = value_at(i);
      return;
    case DType::f32:
      for (int i = 0; i < n; ++i) out[i].real = static_cast<float>(value_at(i));
      return;
    default:
      for (int i = 0; i < n; ++i) out[i].real = round_to(dtype, value_at(i));
  }
}

template <typename F>
void for_integer(DType dtype, Scalar* out, int n, const F& value_at) {
  if (size_of(dtype) == 8) {
    for (int i = 0; i < n; ++i) out[i].integer = value_at(i);
  } else {
    for (int i = 0; i < n; ++i) out[i].integer = wrap_to(dtype, value_at(i));
  }
}

template <typename F>
void for_bool(Scalar* out, int n, const F& value_at) {
  for (int i = 0; i < n; ++i) out[i].integer = value_at(i) ? 1 : 0;
}

double floored_remainder(double a, double b) {
  double r = std::fmod(a, b);
  if (r == 0) return b < 0 ? -0.0 : 0.0;
  return (r < 0) != (b < 0) ? r + b : r;
}

double larger(double a, double b) { return std::isnan(a) ? a : a > b ? a : b; }
double smaller(double a, double b) { return std::isnan(a) ? a : a < b ? a : b; }

// A function of numbers, whatever these are: x and y are real or whole.
#define UNARY(name, value) \
  case Fn::name:           \
    return unary([&](auto x) { return value; })
#define BINARY(name, value) \
  case Fn::name:            \
    return binary([&](auto x, auto y) { return value; })
#define TEST(name, value) \
  case Fn::name:          \
    return test([&]([[maybe_unused]] auto x, [[maybe_unused]] auto y) { return value; })

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// As vcvtne2ps2bf16: denormals are zeros.
int64_t bf16_word_of(double low, double high) {
  const auto half = [](double x) -> uint32_t { return float_to_bfloat16(flushed(static_cast<float>(x))); };
  return static_cast<int32_t>(half(high) << 16 | half(low));
}

bool apply_real(Fn fn, DType t, Lanes a, Lanes b, Scalar* out, int n) {
  const auto unary = [&](auto value) {
    for_real(t, out, n, [&](int i) { return value(a[i].real); });
    return true;
  };
  const auto binary = [&](auto value) {
    for_real(t, out, n, [&](int i) { return value(a[i].real, b[i].real); });
    return true;
  };
  const auto test = [&](auto value) {
    for_bool(out, n, [&](int i) { return value(a[i].real, b.values ? b[i].real : 0); });
    return true;
  };
  switch (fn) {
    UNARY(neg, -x);
    UNARY(abs, std::fabs(x));
    UNARY(sign, x > 0 ? 1.0 : x < 0 ? -1.0 : x);
    UNARY(sqrt, std::sqrt(x));
    UNARY(exp, std::exp(x));
    UNARY(log, std::log(x));
    UNARY(sin, std::sin(x));
    UNARY(cos, std::cos(x));
    UNARY(tan, std::tan(x));
    UNARY(asin, std::asin(x));
    UNARY(acos, std::acos(x));
    UNARY(atan, std::atan(x));
    UNARY(sinh, std::sinh(x));
    UNARY(cosh, std::cosh(x));
    UNARY(tanh, std::tanh(x));
    UNARY(asinh, std::asinh(x));
    UNARY(acosh, std::acosh(x));
    UNARY(atanh, std::atanh(x));
    UNARY(erf, std::erf(x));
    UNARY(sigmoid, 1 / (1 + std::exp(-x)));
    UNARY(expm1, std::expm1(x));
    UNARY(log1p, std::log1p(x));
    UNARY(floor, std::floor(x));
    UNARY(ceil, std::ceil(x));
    UNARY(trunc, std::trunc(x));
    UNARY(rint, std::nearbyint(x));
    case Fn::bf16_word:
      for (int i = 0; i < n; ++i) out[i] = integer_scalar(bf16_word_of(a[i].real, b[i].real));
      return true;
    BINARY(add, x + y);
    BINARY(sub, x - y);
    BINARY(mul, x * y);
    BINARY(div, x / y);
    BINARY(floor_div, std::floor(round_to(t, x / y)));
    BINARY(floor_mod, floored_remainder(x, y));
    BINARY(trunc_mod, std::fmod(x, y));
    BINARY(pow, std::pow(x, y));
    BINARY(atan2, std::atan2(x, y));
    BINARY(min, smaller(x, y));
    BINARY(max, larger(x, y));
    TEST(is_nan, std::isnan(x));
    TEST(is_inf, std::isinf(x));
    TEST(lt, x < y);
    TEST(le, x <= y);
    TEST(eq, x == y);
    TEST(ne, x != y);
    TEST(logical_not, x == 0);
    TEST(logical_and, x != 0 && y != 0);
    TEST(logical_or, x != 0 || y != 0);
    TEST(logical_xor, (x != 0) != (y != 0));
    default:
      return false;
  }
}

// Wrapping arithmetic through uint64; bits above the dtype's width are cut by the caller.
int64_t wrapping(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

int64_t integer_power(int64_t base, int64_t exponent, bool is_unsigned) {
  if (exponent < 0 && !is_unsigned) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = bits(base);
  for (uint64_t e = bits(exponent); e; e >>= 1, factor *= factor)
    if (e & 1) result *= factor;
  return wrapping(result);
}

template <typename A, typename B>
int64_t dot_words(int64_t a, int64_t b) {
  int64_t sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 8 * sizeof(A))
    sum += int64_t{static_cast<A>(bits(a) >> shift)} * static_cast<B>(bits(b) >> shift);
  return sum;
}

// The int16 `at` of a word; a word of two, which wrap.
int64_t half_of(int64_t word, int at) { return static_cast<int16_t>(bits(word) >> (16 * at)); }
int64_t word_of(int64_t low, int64_t high) {
  return static_cast<int32_t>(static_cast<uint32_t>(bits(high) << 16) | static_cast<uint16_t>(low));
}

// As pmaddubsw: each half is the sum of two products, saturated; of signed bytes as psignb and it.
template <typename B>
int64_t pairs_of_products(int64_t a, int64_t b) {
  const auto product = [&](int at) {
    const int8_t x = static_cast<int8_t>(bits(a) >> (8 * at));
    const int y = static_cast<B>(bits(b) >> (8 * at));
    return int64_t{y < 0 ? static_cast<int8_t>(-x) : x} * std::abs(y);
  };
  const auto half = [&](int at) { return std::clamp<int64_t>(product(2 * at) + product(2 * at + 1), INT16_MIN, INT16_MAX); };
  return word_of(half(0), half(1));
}

// As vdpbf16ps: denormal operands and results are zeros, each product is added by itself.
float dot_bf16_words(int64_t a, int64_t b) {
  const auto element = [&](int64_t word, int at) {
    return flushed(std::bit_cast<float>(static_cast<uint32_t>(bits(word) >> (16 * at)) << 16));
  };
  const float high = flushed(element(a, 1) * element(b, 1));
  return flushed(std::fma(element(a, 0), element(b, 0), high));
}

bool apply_integer(Fn fn, DType t, Lanes a, Lanes b, Scalar* out, int n) {
  const bool u64 = t == DType::u64;
  const uint64_t width = 8 * size_of(t);
  const auto unary = [&](auto value) {
    for_integer(t, out, n, [&](int i) -> int64_t { return value(a[i].integer); });
    return true;
  };
  const auto binary = [&](auto value) {
    for_integer(t, out, n, [&](int i) -> int64_t { return value(a[i].integer, b[i].integer); });
    return true;
  };
  const auto test = [&](auto value) {
    for_bool(out, n, [&](int i) { return value(a[i].integer, b.values ? b[i].integer : int64_t{0}); });
    return true;
  };
  switch (fn) {
    UNARY(neg, wrapping(0 - bits(x)));
    UNARY(abs, x < 0 && is_signed(t) ? wrapping(0 - bits(x)) : x);
    UNARY(sign, u64 ? x != 0 : (x > 0) - (x < 0));
    UNARY(bit_not, ~x);
    UNARY(floor, x);
    UNARY(ceil, x);
    UNARY(trunc, x);
    UNARY(rint, x);
    UNARY(sum_i16, half_of(x, 0) + half_of(x, 1));
    BINARY(add, wrapping(bits(x) + bits(y)));
    BINARY(sub, wrapping(bits(x) - bits(y)));
    BINARY(mul, wrapping(bits(x) * bits(y)));
    BINARY(div, y == 0 ? 0 : u64 ? wrapping(bits(x) / bits(y)) : y == -1 ? wrapping(0 - bits(x)) : x / y);
    BINARY(floor_div, y == 0 ? 0 : u64 ? wrapping(bits(x) / bits(y)) : floor_div(x, y));
    BINARY(floor_mod, y == 0 ? 0 : u64 ? wrapping(bits(x) % bits(y)) : floor_mod(x, y));
    BINARY(trunc_mod, y == 0 ? 0 : u64 ? wrapping(bits(x) % bits(y)) : y == -1 ? 0 : x % y);
    BINARY(pow, integer_power(x, y, !is_signed(t)));
    BINARY(min, u64 ? wrapping(std::min(bits(x), bits(y))) : std::min(x, y));
    BINARY(max, u64 ? wrapping(std::max(bits(x), bits(y))) : std::max(x, y));
    BINARY(bit_and, x & y);
    BINARY(bit_or, x | y);
    BINARY(bit_xor, x ^ y);
    BINARY(shift_left, bits(y) >= width ? 0 : wrapping(bits(x) << y));
    BINARY(shift_right, bits(y) >= width ? 0 : is_signed(t) ? x >> y : wrapping(bits(x) >> y));
    BINARY(dot_u8s8, (dot_words<uint8_t, int8_t>(x, y)));
    BINARY(dot_s8u8, (dot_words<int8_t, uint8_t>(x, y)));
    BINARY(dot_i16, (dot_words<int16_t, int16_t>(x, y)));
    BINARY(pairs_s8u8, (pairs_of_products<uint8_t>(x, y)));
    BINARY(pairs_s8s8, (pairs_of_products<int8_t>(x, y)));
    BINARY(add_i16, word_of(half_of(x, 0) + half_of(y, 0), half_of(x, 1) + half_of(y, 1)));
    case Fn::dot_bf16:
      for (int i = 0; i < n; ++i) out[i].real = dot_bf16_words(a[i].integer, b[i].integer);
      return true;
    TEST(is_nan, false);
    TEST(is_inf, false);
    TEST(lt, u64 ? bits(x) < bits(y) : x < y);
    TEST(le, u64 ? bits(x) <= bits(y) : x <= y);
    TEST(eq, x == y);
    TEST(ne, x != y);
    TEST(logical_not, x == 0);
    TEST(logical_and, x != 0 && y != 0);
    TEST(logical_or, x != 0 || y != 0);
    TEST(logical_xor, (x != 0) != (y != 0));
    default:
      return false;
  }
#undef UNARY
#undef BINARY
#undef TEST
}

}  // namespace

int64_t wrap_to(DType dtype, int64_t value) {
  return with_element(dtype, [&](auto zero) { return static_cast<int64_t>(value_of(to_element<decltype(zero)>(value))); });
}

Scalar convert(Scalar value, DType from, DType to) {
  Scalar result;
  convert_lanes({&value, 0}, from, to, &result, 1);
  return result;
}

void convert_lanes(Lanes values, DType from, DType to, Scalar* out, int n) {
  if (from == DType::f64 && is_half(to)) {
    for (int i = 0; i < n; ++i) out[i].real = round_to(to, odd_float(values[i].real));
  } else if (is_float(from) && is_float(to)) {
    for_real(to, out, n, [&](int i) { return values[i].real; });
  } else if (is_float(to)) {
    if (from == DType::u64)
      for (int i = 0; i < n; ++i) {
        uint64_t x = static_cast<uint64_t>(values[i].integer);
        out[i].real = round_to(to, to == DType::f64 ? static_cast<double>(x) : static_cast<float>(x));
      }
    else  // straight to float32: rounding through double would round twice
      for (int i = 0; i < n; ++i)
        out[i].real =
            round_to(to, to == DType::f64 ? static_cast<double>(values[i].integer) : static_cast<float>(values[i].integer));
  } else if (is_bool(to)) {
    if (is_float(from))
      for_bool(out, n, [&](int i) { return values[i].real != 0; });
    else
      for_bool(out, n, [&](int i) { return values[i].integer != 0; });
  } else if (is_float(from)) {
    for_integer(to, out, n, [&](int i) -> int64_t {
      const double x = std::trunc(values[i].real);
      if (size_of(to) < 8 && to != DType::u32)  // narrow integers go through int32
        return x >= -0x1p31 && x < 0x1p31 ? static_cast<int64_t>(x) : std::numeric_limits<int32_t>::min();
      if (x >= -0x1p63 && x < 0x1p63) return static_cast<int64_t>(x);
      if (to == DType::u64 && x >= 0x1p63 && x < 0x1p64) return wrapping(static_cast<uint64_t>(x));
      return std::numeric_limits<int64_t>::min();
    });
  } else {
    for_integer(to, out, n, [&](int i) { return values[i].integer; });
  }
}

void apply_lanes(Fn fn, DType dtype, Lanes a, Lanes b, Lanes c, Scalar* out, int n) {
  if (fn == Fn::select) {
    for (int i = 0; i < n; ++i) out[i] = a[i].integer != 0 ? b[i] : c[i];
    return;
  }
  const bool known = is_float(dtype) ? apply_real(fn, dtype, a, b, out, n) : apply_integer(fn, dtype, a, b, out, n);
  METAC_ASSERT(known, name_of(fn), " of ", name_of(dtype), " has no meaning");
}

Scalar apply(Fn fn, DType dtype, Scalar a, Scalar b, Scalar c) {
  Scalar result;
  apply_lanes(fn, dtype, {&a, 0}, {&b, 0}, {&c, 0}, &result, 1);
  return result;
}

DType operand_dtype(const ExprNode& call) { return call.args[call.fn == Fn::select ? 1 : 0]->dtype; }

Scalar evaluate_scalar(Expr e, const int64_t* axes, const int64_t* symbols, const LoadElement& load) {
  std::unordered_map<const ExprNode*, Scalar> known;
  visit(e, [&](Expr node) {
    Scalar value = integer_scalar(0);
    Scalar args[3] = {};
    if (node->kind == ExprKind::call || node->kind == ExprKind::cast)
      for (size_t i = 0; i < node->args.size(); ++i) args[i] = known.at(node->args[i].node());
    switch (node->kind) {
      case ExprKind::int_constant:
        value.integer = node->int_value;
        break;
      case ExprKind::float_constant:
        value.real = node->float_value;
        break;
      case ExprKind::axis:
        value.integer = axes[node->id];
        break;
      case ExprKind::symbol:
        value.integer = symbols[node->id];
        break;
      case ExprKind::call:
        value = apply(node->fn, operand_dtype(*node.node()), args[0], args[1], args[2]);
        break;
      case ExprKind::cast:
        value = convert(args[0], node->args[0]->dtype, node->dtype);
        break;
      case ExprKind::load: {
        METAC_ASSERT(load, "a load in an expression that is evaluated without operands");
        std::vector<int64_t> indices;
        for (Expr index : node->args) indices.push_back(known.at(index.node()).integer);
        value = load(*node.node(), indices.data());
        break;
      }
    }
    known[node.node()] = value;
  });
  return known.at(e.node());
}

int64_t evaluate_dim(Expr e, const int64_t* symbols) {
  if (const int64_t* constant = e.if_int()) return *constant;
  return evaluate_scalar(e, nullptr, symbols).integer;
}

}  // namespace metac
