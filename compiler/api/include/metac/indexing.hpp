// NumPy's basic indices for Vars: at(x, 3) is x[3], at(x, {Slice{}, Slice{0, 4}}) is x[:, 0:4], at(x, {ellipsis, -1,
// newaxis}) is x[..., -1, None], and one index may be a Var or a list of integers, whose places are taken.
//
// Of a value that is yet to be computed, slices are part of the structure, so that they fuse. Of one that exists, such as
// the images of a data set, what is taken is data: a loop over batches at(x, Slice{i, i + 32}) repeats one program.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <metac/op.hpp>
#include <optional>
#include <variant>

namespace metac {

// Python's start:stop:step; what is left out is as far as it goes.
struct Slice {
  std::optional<int64_t> start = {}, stop = {};
  int64_t step = 1;
};
struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis newaxis{};    // an axis of length 1
inline constexpr Ellipsis ellipsis{};  // all axes that no other index is for

class Index {
 public:
  Index(std::integral auto number) : own_(static_cast<int64_t>(number)) {}
  Index(Slice slice) : own_(slice) {}
  Index(NewAxis axis) : own_(axis) {}
  Index(Ellipsis dots) : own_(dots) {}
  Index(Var places) : own_(std::move(places)) {}
  Index(const std::vector<int64_t>& places) : own_(array(places)) {}
  template <class T>
  const T* as() const {
    return std::get_if<T>(&own_);
  }

 private:
  std::variant<int64_t, Slice, NewAxis, Ellipsis, Var> own_;
};

// One index or several.
class Indices {
 public:
  template <std::convertible_to<Index> One>
  Indices(One&& one) : own_{Index(std::forward<One>(one))} {}
  Indices(std::initializer_list<Index> several) : own_(several) {}
  Indices(std::vector<Index> several) : own_(std::move(several)) {}
  const std::vector<Index>& list() const { return own_; }

 private:
  std::vector<Index> own_;
};

namespace detail {

// What is taken along one axis.
struct Range {
  int64_t axis, start, step, count;
};

inline Range range_of(const Slice& slice, int64_t axis, int64_t dim) {
  if (slice.step == 0) throw Error(METAC_INVALID_ARGUMENT, "the step of a slice is 0");
  const int64_t least = slice.step < 0 ? -1 : 0, most = slice.step < 0 ? dim - 1 : dim;
  const auto placed = [&](int64_t place) {
    return std::clamp(place < 0 ? std::max(place + dim, least) : place, least, most);
  };
  const int64_t start = slice.start ? placed(*slice.start) : slice.step < 0 ? most : least;
  const int64_t stop = slice.stop ? placed(*slice.stop) : slice.step < 0 ? least : most;
  const int64_t length = slice.step < 0 ? start - stop : stop - start;
  const int64_t step = std::clamp(slice.step, -dim - 2, dim + 2);  // longer ones reach as little, and may overflow
  const int64_t stride = step < 0 ? -step : step;
  return {axis, start, step, length <= 0 ? 0 : 1 + (length - 1) / stride};
}

// One index for each axis, and new axes.
inline std::vector<Index> expanded(const std::vector<Index>& key, int64_t rank) {
  int64_t used = 0, dots = 0;
  for (const Index& each : key) {
    dots += each.as<Ellipsis>() != nullptr;
    used += !each.as<Ellipsis>() && !each.as<NewAxis>();
  }
  if (dots > 1) throw Error(METAC_INVALID_ARGUMENT, "an index has more than one ellipsis");
  if (used > rank)
    throw Error(METAC_INVALID_ARGUMENT,
                "an index of " + std::to_string(used) + " axes; the value has " + std::to_string(rank));
  const std::vector<Index> rest(static_cast<size_t>(rank - used), Slice{});
  std::vector<Index> keys;
  for (const Index& each : key) {
    if (each.as<Ellipsis>())
      keys.insert(keys.end(), rest.begin(), rest.end());
    else
      keys.push_back(each);
  }
  if (!dots) keys.insert(keys.end(), rest.begin(), rest.end());
  return keys;
}

// Slices as part of the structure.
inline Var cut(const Var& x, const std::vector<Range>& ranges, Place where) {
  std::vector<int64_t> starts, ends, axes, steps;
  for (const Range& range : ranges) {
    const int64_t end = range.start + range.step * range.count;
    starts.push_back(range.start), axes.push_back(range.axis), steps.push_back(range.step);
    ends.push_back(end >= 0 ? end : -(int64_t{1} << 62));  // below 0 means from the end: a place that nothing reaches
  }
  return op::Slice(x, constant(starts), constant(ends), constant(axes), constant(steps), {}, where);
}
// Places as data, so that other ones are the same program.
inline Var take(const Var& x, const Range& range, Place where) {
  std::vector<int64_t> places;
  for (int64_t k = 0; k < range.count; ++k) places.push_back(range.start + k * range.step);
  return op::Gather(x, array(places), {.axis = range.axis}, where);
}

}  // namespace detail

// x[key]. Throws where a number is outside of its axis, or where there are more indices than axes.
inline Var at(Var x, const Indices& key, Place where = Place::current()) {
  const std::vector<int64_t> shape = x.shape();
  const bool exists = metac_var_exists(x.handle());
  std::vector<detail::Range> cut, taken;
  std::vector<int64_t> numbers, new_axes;  // axes that go; those that come, in the result
  std::optional<std::pair<int64_t, Var>> listed;
  int64_t axis = 0, place = 0;
  for (const Index& each : detail::expanded(key.list(), static_cast<int64_t>(shape.size()))) {
    if (each.as<NewAxis>()) {
      new_axes.push_back(place++);
      continue;
    }
    const int64_t dim = shape[static_cast<size_t>(axis)];
    if (const Slice* slice = each.as<Slice>()) {
      const detail::Range range = detail::range_of(*slice, axis, dim);
      if (range.count != dim || range.step != 1) (exists && range.count ? taken : cut).push_back(range);
      ++place;
    } else if (const Var* places = each.as<Var>()) {
      if (listed) throw Error(METAC_INVALID_ARGUMENT, "an index has more than one list or Var");
      listed.emplace(axis - static_cast<int64_t>(numbers.size()), *places);
      place += static_cast<int64_t>(places->shape().size());
    } else {
      const int64_t number = *each.as<int64_t>();
      if (number < -dim || number >= dim)
        throw Error(METAC_INVALID_ARGUMENT, "index " + std::to_string(number) + " along axis " + std::to_string(axis) +
                                                ", which has " + std::to_string(dim));
      (exists ? taken : cut).push_back({axis, number < 0 ? number + dim : number, 1, 1});
      numbers.push_back(axis);
    }
    ++axis;
  }
  if (!cut.empty()) x = detail::cut(x, cut, where);
  for (const detail::Range& range : taken) x = detail::take(x, range, where);
  if (!numbers.empty()) x = op::Squeeze(x, constant(numbers), {}, where);
  if (listed) x = op::Gather(x, listed->second, {.axis = listed->first}, where);
  return new_axes.empty() ? x : op::Unsqueeze(x, constant(new_axes), {}, where);
}

}  // namespace metac
