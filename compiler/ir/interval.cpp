#include "compiler/ir/interval.h"

#include "compiler/support/diagnostic.h"

namespace metac {

End operator*(End a, End b) {
  if (a.value_ == 0 || b.value_ == 0) return 0;
  // Bits enough for the exact product, or a product that is past the ends anyway; double knows its size to a bit.
  const double size = static_cast<double>(a.value_) * static_cast<double>(b.value_);
  if (size > 0x1p122) return End::infinity();
  if (size < -0x1p122) return -End::infinity();
  return End(End::Wide{a.value_ * b.value_});
}

End floor_div(End a, End b) {
  METAC_ASSERT(b.value_ != 0);
  if (a.is_infinite()) return b.value_ < 0 ? -a : a;
  const __int128 quotient = a.value_ / b.value_, rest = a.value_ % b.value_;
  return End(End::Wide{quotient - (rest != 0 && (rest < 0) != (b.value_ < 0) ? 1 : 0)});
}

std::ostream& operator<<(std::ostream& out, End end) {
  if (end.is_infinite()) return out << (end < 0 ? "-infinity" : "infinity");
  const int64_t near = end.clamped();
  return end == near ? out << near : out << near << " and beyond";
}

Interval range_of(DType dtype) {
  if (dtype == DType::u64) return {0, End::of(UINT64_MAX)};
  return {min_value(dtype), max_value(dtype)};
}

// A lower end is never the infinity above: whatever is taken from it must count.
static Interval made(End low, End high) {
  const End far = End::infinity().before();
  return {std::min(low, far), std::max(high, -far)};
}

Interval operator-(Interval a) { return {-a.high, -a.low}; }
Interval operator+(Interval a, Interval b) { return made(a.low + b.low, a.high + b.high); }
Interval operator-(Interval a, Interval b) { return a + -b; }

Interval operator*(Interval a, Interval b) {
  const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return made(low, high);
}

Interval abs(Interval a) {
  if (a.low >= 0) return a;
  return a.high <= 0 ? -a : Interval{0, std::max(-a.low, a.high)};
}

Interval min(Interval a, Interval b) { return {std::min(a.low, b.low), std::min(a.high, b.high)}; }
Interval max(Interval a, Interval b) { return {std::max(a.low, b.low), std::max(a.high, b.high)}; }
Interval either(Interval a, Interval b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

Interval floor_div(Interval a, Interval b) {
  if (b.low <= 0) {
    const End most = abs(a).high;  // no quotient is larger than the dividend
    if (b.low < 0) return {-most, most};
    return {std::min(a.low, End(0)), std::max(a.high, End(0))};
  }
  return {floor_div(a.low, a.low >= 0 ? b.high : b.low), floor_div(a.high, a.high >= 0 ? b.low : b.high)};
}

Interval floor_mod(Interval a, Interval b) {
  Interval out = {std::min(b.low + End(1), End(0)), std::max(b.high - End(1), End(0))};
  if (a.low >= 0 && b.low >= 0) out.high = std::min(out.high, a.high);
  return out;
}

Interval trunc_div(Interval a, Interval b) {
  if (a.low >= 0) return floor_div(a, b);
  const End most = abs(a).high;
  return {-most, most};
}

Interval trunc_mod(Interval a, Interval b) {
  const End most = std::min(std::max(abs(b).high - End(1), End(0)), abs(a).high);
  return {a.low < 0 ? -most : End(0), a.high > 0 ? most : End(0)};
}

}  // namespace metac
