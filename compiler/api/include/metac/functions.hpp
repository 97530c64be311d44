// Functions of Vars by NumPy's names, over metac/op.hpp, which brings them along: sum(x, 1), reshape(x, {2, -1}), where(c,
// a, 0).
//
// What takes axes counts from the end below 0; Axes() are all. Truths are counted by sum and prod, and the mean of integers
// is float32.
#pragma once
#include <cmath>
#include <metac/op.hpp>
#include <optional>

#include "indexing.hpp"
#include "printing.hpp"

namespace metac {

namespace detail {
// An axis from 0 on.
inline int64_t axis_of(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    throw Error(METAC_INVALID_ARGUMENT, "axis " + std::to_string(axis) + " of a value of rank " + std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}
}  // namespace detail

// The axes of a reduction: one, several ({0, 2}), or all of them.
class Axes {
 public:
  Axes() = default;
  Axes(int64_t axis) : axes_{{axis}} {}
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}
  bool all() const { return !axes_; }
  // From 0 on, of a value of this rank.
  std::vector<int64_t> of(int64_t rank) const {
    std::vector<int64_t> own;
    if (axes_)
      for (const int64_t axis : *axes_) own.push_back(detail::axis_of(axis, rank));
    else
      for (int64_t axis = 0; axis < rank; ++axis) own.push_back(axis);
    return own;
  }

 private:
  std::optional<std::vector<int64_t>> axes_;
};

#define METAC_VAR_FUNCTION(name, applied) \
  inline Var name(const Var& x, Place where = Place::current()) { return op::applied(x, {}, where); }
METAC_VAR_FUNCTION(exp, Exp)
METAC_VAR_FUNCTION(log, Log)
METAC_VAR_FUNCTION(sqrt, Sqrt)
METAC_VAR_FUNCTION(tanh, Tanh)
METAC_VAR_FUNCTION(sigmoid, Sigmoid)
METAC_VAR_FUNCTION(relu, Relu)
METAC_VAR_FUNCTION(sin, Sin)
METAC_VAR_FUNCTION(cos, Cos)
METAC_VAR_FUNCTION(abs, Abs)
METAC_VAR_FUNCTION(floor, Floor)
METAC_VAR_FUNCTION(ceil, Ceil)
METAC_VAR_FUNCTION(round, Round)
METAC_VAR_FUNCTION(sign, Sign)
METAC_VAR_FUNCTION(erf, Erf)
METAC_VAR_FUNCTION(softplus, Softplus)
METAC_VAR_FUNCTION(stop_grad, meta::stop_gradient)  // the same value, which no derivative passes
METAC_VAR_FUNCTION(stop_fuse, meta::stop_fuse)      // the same value, across which nothing is fused: it lies in memory
#undef METAC_VAR_FUNCTION

// Python's ~: not of truths, the bits' complement of integers.
inline Var operator~(const Var& x) { return x.dtype() == METAC_BOOL ? op::Not(x) : op::BitwiseNot(x); }

inline Var astype(const Var& x, metac_dtype dtype, Place where = Place::current()) { return x.cast(dtype, where); }

// ---- shape
// The same elements in another shape, one dim of which may be -1.
inline Var reshape(const Var& x, const std::vector<int64_t>& shape, Place where = Place::current()) {
  return op::Reshape(x, constant(shape), {.allowzero = 1}, where);
}
// The axes from `start` on as one.
inline Var flatten(const Var& x, int64_t start = 0, Place where = Place::current()) {
  std::vector<int64_t> shape = x.shape();
  const int64_t rank = static_cast<int64_t>(shape.size());
  shape.resize(static_cast<size_t>(start == rank ? rank : rank ? detail::axis_of(start, rank) : 0));
  shape.push_back(-1);
  return reshape(x, shape, where);
}
// The axes in this order, or in reverse order.
inline Var transpose(const Var& x, const std::vector<int64_t>& axes = {}, Place where = Place::current()) {
  std::vector<int64_t> order;
  for (const int64_t axis : axes) order.push_back(detail::axis_of(axis, static_cast<int64_t>(x.shape().size())));
  return op::Transpose(x, {.perm = order}, where);
}
// With an axis of length 1 there.
inline Var unsqueeze(const Var& x, int64_t axis, Place where = Place::current()) {
  return op::Unsqueeze(x, constant<int64_t>({axis}), {}, where);
}
// Without these axes of length 1, or without any.
inline Var squeeze(const Var& x, const Axes& axes = {}, Place where = Place::current()) {
  if (axes.all()) return op::Squeeze(x, {}, where);
  return op::Squeeze(x, constant(axes.of(static_cast<int64_t>(x.shape().size()))), {}, where);
}
// Repeated along axes of length 1.
inline Var broadcast_to(const Var& x, const std::vector<int64_t>& shape, Place where = Place::current()) {
  return op::Expand(x, constant(shape), {}, where);
}
inline Var concatenate(const std::vector<Var>& vars, int64_t axis = 0, Place where = Place::current()) {
  return op::Concat(std::span<const Var>(vars), {.axis = axis}, where);
}

// ---- meta-operators (docs/json_ir.md), in whose bodies i0, i1, ... are indices
namespace detail {
inline std::vector<std::string> texts_of(const std::vector<int64_t>& dims) {
  std::vector<std::string> texts;
  for (const int64_t dim : dims) texts.push_back(std::to_string(dim));
  return texts;
}
}  // namespace detail
// out[i] = x[indices(i)] for i over `shape`, 0 where an index is outside: reindex(x, {n, 3}, {"i0", "2-i1"}).
inline Var reindex(const Var& x, const std::vector<int64_t>& shape, const std::vector<std::string>& indices,
                   op::meta::reindexOptions more = {}, Place where = Place::current()) {
  more.shape = detail::texts_of(shape), more.indices = indices;
  return op::meta::reindex(x, more, where);
}
// out[indices(j)] += x[j] for j over the shape of x, or another `reduce`: mul, max, min.
inline Var reindex_reduce(const Var& x, const std::vector<int64_t>& shape, const std::vector<std::string>& indices,
                          const std::string& reduce = "add", op::meta::reindex_reduceOptions more = {},
                          Place where = Place::current()) {
  more.shape = detail::texts_of(shape), more.indices = indices, more.reduce = reduce;
  return op::meta::reindex_reduce(x, more, where);
}

// ---- reductions
namespace detail {
inline bool is_real(metac_dtype dtype) {
  return dtype == METAC_FLOAT32 || dtype == METAC_FLOAT64 || dtype == METAC_FLOAT16 || dtype == METAC_BFLOAT16;
}
template <class Options>
Var reduced(Var (*reduce)(std::span<const Var>, const Options&, Place), const Var& x, const Axes& axes, bool keepdims,
            Place where) {
  Options options;
  options.keepdims = keepdims;
  std::vector<Var> operands = {x};
  if (!axes.all()) {
    const std::vector<int64_t> own = axes.of(static_cast<int64_t>(x.shape().size()));
    if (own.empty()) return x;
    operands.push_back(constant(own));
  }
  return reduce(operands, options, where);
}
inline Var counted(const Var& x, Place where) { return x.dtype() == METAC_BOOL ? x.cast(METAC_INT64, where) : x; }
}  // namespace detail
inline Var sum(const Var& x, const Axes& axes = {}, bool keepdims = false, Place where = Place::current()) {
  return detail::reduced<op::ReduceSumOptions>(op::ReduceSum, detail::counted(x, where), axes, keepdims, where);
}
inline Var prod(const Var& x, const Axes& axes = {}, bool keepdims = false, Place where = Place::current()) {
  return detail::reduced<op::ReduceProdOptions>(op::ReduceProd, detail::counted(x, where), axes, keepdims, where);
}
inline Var mean(const Var& x, const Axes& axes = {}, bool keepdims = false, Place where = Place::current()) {
  const Var real = detail::is_real(x.dtype()) ? x : x.cast(METAC_FLOAT32, where);
  return detail::reduced<op::ReduceMeanOptions>(op::ReduceMean, real, axes, keepdims, where);
}
inline Var max(const Var& x, const Axes& axes = {}, bool keepdims = false, Place where = Place::current()) {
  return detail::reduced<op::ReduceMaxOptions>(op::ReduceMax, x, axes, keepdims, where);
}
inline Var min(const Var& x, const Axes& axes = {}, bool keepdims = false, Place where = Place::current()) {
  return detail::reduced<op::ReduceMinOptions>(op::ReduceMin, x, axes, keepdims, where);
}
// The variance; the sum of squares is divided by the number of elements less `correction`.
inline Var var(const Var& x, const Axes& axes = {}, bool keepdims = false, int64_t correction = 0,
               Place where = Place::current()) {
  const Var deviation = detail::Operand(x, where) - mean(x, axes, true, where);
  const Var squares = detail::Operand(deviation, where) * deviation;
  if (!correction) return mean(squares, axes, keepdims, where);
  int64_t count = 1;
  const std::vector<int64_t> shape = x.shape();
  for (const int64_t axis : axes.of(static_cast<int64_t>(shape.size()))) count *= shape[static_cast<size_t>(axis)];
  return detail::Operand(sum(squares, axes, keepdims, where), where) / static_cast<double>(count - correction);
}
// The index of the greatest or the least element along an axis, or of all.
inline Var argmax(const Var& x, std::optional<int64_t> axis = {}, bool keepdims = false, Place where = Place::current()) {
  return axis ? op::ArgMax(x, {.axis = axis, .keepdims = keepdims}, where) : argmax(flatten(x, 0, where), 0, false, where);
}
inline Var argmin(const Var& x, std::optional<int64_t> axis = {}, bool keepdims = false, Place where = Place::current()) {
  return axis ? op::ArgMin(x, {.axis = axis, .keepdims = keepdims}, where) : argmin(flatten(x, 0, where), 0, false, where);
}
inline Var softmax(const Var& x, int64_t axis = -1, Place where = Place::current()) {
  return op::Softmax(x, {.axis = axis}, where);
}
inline Var log_softmax(const Var& x, int64_t axis = -1, Place where = Place::current()) {
  return op::LogSoftmax(x, {.axis = axis}, where);
}

// ---- choices
namespace detail {
// A number of the dtype that it has beside a Var.
template <Number N>
Var number(const Var& beside, N value) {
  metac_var* made = nullptr;
  check(metac_var_number(beside.handle(), static_cast<double>(value), std::is_floating_point_v<N>, &made));
  return Var(made);
}
inline Var bound(const Var& beside, std::optional<double> value) {
  if (!value) return Var();
  return *value == std::trunc(*value) && std::abs(*value) < 0x1p53 ? number(beside, static_cast<int64_t>(*value))
                                                                   : number(beside, *value);
}
}  // namespace detail
// No less than `least` and no more than `most`, each of which may be left out: clip(x, 0), clip(x, {}, 1).
inline Var clip(const Var& x, std::optional<double> least, std::optional<double> most = {}, Place where = Place::current()) {
  return op::Clip(x, detail::bound(x, least), detail::bound(x, most), {}, where);
}
// a where the condition holds, elsewhere b; one of them may be a number.
inline Var where(const Var& condition, const Var& a, const Var& b, Place place = Place::current()) {
  return op::Where(condition, a, b, {}, place);
}
template <detail::Number N>
Var where(const Var& condition, const Var& a, N b, Place place = Place::current()) {
  return op::Where(condition, a, detail::number(a, b), {}, place);
}
template <detail::Number N>
Var where(const Var& condition, N a, const Var& b, Place place = Place::current()) {
  return op::Where(condition, detail::number(b, a), b, {}, place);
}

// ---- derivatives
// function(inputs), a Var or a vector of Vars, whose inner values derivatives compute again instead of keeping them: less
// memory for more time. Random operators and recurrent layers are kept: they run once.
template <class Function>
auto checkpoint(Function&& function, const std::vector<Var>& inputs, Place where = Place::current()) {
  auto results = function(inputs);
  constexpr bool one = std::convertible_to<decltype(results), Var>;
  std::vector<Var> operands;
  if constexpr (one)
    operands.push_back(results);
  else
    operands = results;
  const int32_t count = static_cast<int32_t>(operands.size());
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  std::vector<Var> same = op::meta::checkpoint(operands, {.results = count, .outputs = count}, where);
  if constexpr (one)
    return same[0];
  else
    return same;
}

// The products of `seed`, which has the shape of y, with the derivatives of y by each of xs.
inline std::vector<Var> vjp(const Var& y, const std::vector<Var>& xs, const Var& seed, Place where = Place::current()) {
  return grad(detail::Operand(y, where) * seed, xs, where);
}
// The derivative of y along `tangents`, which have the shapes of xs.
inline Var jvp(const Var& y, const std::vector<Var>& xs, const std::vector<Var>& tangents, Place where = Place::current()) {
  if (xs.empty() || xs.size() != tangents.size())
    throw Error(METAC_INVALID_ARGUMENT,
                "jvp() by " + std::to_string(xs.size()) + " Vars along " + std::to_string(tangents.size()) + " tangents");
  const Var seed = broadcast_to(detail::number(y, 0), y.shape(), where);
  const std::vector<Var> products =
      vjp(y, xs, seed, where);  // linear in the seed: the derivative by it is what is asked for
  Var along = sum(detail::Operand(products[0], where) * tangents[0], {}, false, where);
  for (size_t k = 1; k < xs.size(); ++k)
    along = detail::Operand(along, where) + sum(detail::Operand(products[k], where) * tangents[k], {}, false, where);
  return grad(along, seed, where);
}

}  // namespace metac
