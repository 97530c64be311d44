// Initial weights, drawn as metac.nn and PyTorch draw them, and numbers and lengths that modules take.
#pragma once
#include <cmath>
#include <numbers>
#include <random>

#include "../functions.hpp"

namespace metac::nn {

namespace detail {

using namespace metac::detail;

inline std::mt19937_64& generator() {
  static thread_local std::mt19937_64 own(0);
  return own;
}
// In [0, 1). The distributions of <random> are other ones in other standard libraries; this one is the same everywhere.
inline double drawn() { return static_cast<double>(generator()() >> 11) * 0x1p-53; }

inline int64_t positive(int64_t number, const char* what) {
  if (number < 1) throw Error(METAC_INVALID_ARGUMENT, std::string(what) + ": " + std::to_string(number) + " is less than 1");
  return number;
}
inline int64_t product(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}
template <class Draw>
Var made_of(const std::vector<int64_t>& shape, Draw&& draw) {
  for (const int64_t dim : shape) positive(dim, "a dim of a parameter");
  std::vector<float> values(static_cast<size_t>(product(shape)));
  for (float& value : values) value = static_cast<float>(draw());
  return array(values, shape);
}

}  // namespace detail

// Initial weights of this thread are drawn from here on as `number` says; without it, as 0 says.
inline void seed(uint64_t number) { detail::generator().seed(number); }

// Parameters: numbers in [-bound, bound), of the normal distribution, all the same.
inline Var uniform(const std::vector<int64_t>& shape, double bound) {
  return detail::made_of(shape, [&] { return bound * (2 * detail::drawn() - 1); });
}
inline Var normal(const std::vector<int64_t>& shape) {
  return detail::made_of(shape, [] {
    const double radius = std::sqrt(-2 * std::log(1 - detail::drawn()));
    return radius * std::cos(2 * std::numbers::pi * detail::drawn());
  });
}
inline Var filled(const std::vector<int64_t>& shape, double value) {
  return detail::made_of(shape, [&] { return value; });
}

// One length for every axis, or one for each: 3, {3, 5}, {3}.
class Lengths {
 public:
  Lengths(int64_t each) : own_{each}, one_(true) {}
  Lengths(std::initializer_list<int64_t> several) : own_(several) {}
  Lengths(std::vector<int64_t> several) : own_(std::move(several)) {}
  // Of this many axes, each at least `least`.
  std::vector<int64_t> of(size_t rank, int64_t least, const char* what) const {
    if (!one_ && own_.size() != rank)
      throw Error(METAC_INVALID_ARGUMENT, std::string(what) + " has " + std::to_string(own_.size()) +
                                              " lengths, the kernel has " + std::to_string(rank));
    for (const int64_t length : own_)
      if (length < least)
        throw Error(METAC_INVALID_ARGUMENT,
                    std::string(what) + ": " + std::to_string(length) + " is less than " + std::to_string(least));
    return one_ ? std::vector<int64_t>(rank, own_[0]) : own_;
  }
  size_t rank(size_t of_one) const { return one_ ? of_one : own_.size(); }

 private:
  std::vector<int64_t> own_;
  bool one_ = false;
};

}  // namespace metac::nn
