// Ranges of integers. The values are numbers, of whatever integer dtype: an end is exact far beyond 64 bits, so that no sum,
// product or negation of ends can wrap, and what lies further away is an infinity of its own.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <ostream>

#include "compiler/ir/dtype.h"

namespace metac {

class End {
 public:
  constexpr End(int64_t value = 0) : value_(value) {}
  static constexpr End of(uint64_t value) { return End(Wide{static_cast<__int128>(value)}); }
  static constexpr End infinity() { return End(Wide{most}); }
  End before() const { return End(Wide{value_ - 1}); }

  auto operator<=>(const End&) const = default;
  bool is_infinite() const { return value_ >= most || value_ <= -most; }

  End operator-() const { return End(Wide{-value_}); }
  // Infinity stays infinity; the two never meet, as lower ends are added to lower ones.
  friend End operator+(End a, End b) { return a.is_infinite() ? a : b.is_infinite() ? b : End(Wide{a.value_ + b.value_}); }
  friend End operator-(End a, End b) { return a + -b; }
  friend End operator*(End a, End b);
  friend End floor_div(End a, End b);  // b is not 0; an infinity divided is infinite
  friend End magnitude(End a) { return a.value_ < 0 ? -a : a; }

  // The nearest number in [-most, most]; it can be negated.
  int64_t clamped(int64_t most = INT64_MAX) const { return static_cast<int64_t>(std::clamp<__int128>(value_, -most, most)); }

 private:
  static constexpr __int128 most = static_cast<__int128>(1) << 120;
  struct Wide {
    __int128 value;
  };
  explicit constexpr End(Wide w) : value_(std::clamp(w.value, -most, most)) {}
  __int128 value_;
};
std::ostream& operator<<(std::ostream& out, End end);

struct Interval {
  End low, high;  // inclusive
  bool contains(Interval other) const { return low <= other.low && other.high <= high; }
};

// All values of an integer dtype or bool, uint64 included.
Interval range_of(DType dtype);

// What the functions of these names yield for arguments in the ranges, as numbers: before anything wraps around. Quotients
// by 0 are 0.
Interval operator-(Interval a);
Interval operator+(Interval a, Interval b);
Interval operator-(Interval a, Interval b);
Interval operator*(Interval a, Interval b);
Interval abs(Interval a);
Interval min(Interval a, Interval b);
Interval max(Interval a, Interval b);
Interval either(Interval a, Interval b);
Interval floor_div(Interval a, Interval b);
Interval floor_mod(Interval a, Interval b);
Interval trunc_div(Interval a, Interval b);
Interval trunc_mod(Interval a, Interval b);

}  // namespace metac
