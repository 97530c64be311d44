#include "compiler/lazy/open_dims.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>

#include "compiler/support/diagnostic.h"

namespace metac::lazy {
namespace {

constexpr int64_t most_open_elements = 64;  // of a constant
using Numbers = std::vector<int64_t>;       // one for each call

std::string at(const Node& node) {
  const std::string place = text_of(node.site);
  return concat(place.empty() ? "" : place + ": ", node.operation ? node.operation->name : "data");
}

bool all_equal(const Numbers& numbers) {
  return std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end();
}

// The product of dims of a value, in each call.
struct Extent {
  const Value* value;
  std::vector<int> axes;
  Numbers sizes;
};

// numbers = factor * sizes + offset, in all calls.
std::optional<OpenElement> affine(const Extent& extent, const Numbers& numbers) {
  for (size_t k = 1; k < numbers.size(); ++k) {
    const int64_t step = extent.sizes[k] - extent.sizes[0];
    if (step == 0) continue;
    const int64_t factor = (numbers[k] - numbers[0]) / step, offset = numbers[0] - factor * extent.sizes[0];
    for (size_t j = 0; j < numbers.size(); ++j)
      if (factor * extent.sizes[j] + offset != numbers[j]) return std::nullopt;
    return OpenElement{extent.value, extent.axes, factor, offset, 1, 0, 1};
  }
  return std::nullopt;
}

// numbers = sizes / divisor, rounded down or up, in all calls.
std::optional<OpenElement> divided(const Extent& extent, const Numbers& numbers) {
  for (int64_t divisor = 2; divisor <= 64; ++divisor)
    for (const int64_t offset : {int64_t{0}, divisor - 1}) {
      bool all = true;
      for (size_t j = 0; j < numbers.size(); ++j) all &= (extent.sizes[j] + offset) / divisor == numbers[j];
      if (all) return OpenElement{extent.value, extent.axes, 1, offset, divisor, 0, 1};
    }
  return std::nullopt;
}

// numbers = real * sizes ^ power, in all calls.
std::optional<OpenElement> real_power(const Extent& extent, const std::vector<double>& numbers, double tolerance) {
  for (const double power : {1.0, -1.0, 0.5, -0.5}) {
    const double real = numbers[0] / std::pow(static_cast<double>(extent.sizes[0]), power);
    bool all = std::isfinite(real) && real != 0;
    for (size_t j = 0; j < numbers.size() && all; ++j) {
      const double told = real * std::pow(static_cast<double>(extent.sizes[j]), power);
      all = std::abs(told - numbers[j]) <= tolerance * std::abs(numbers[j]);
    }
    if (all) return OpenElement{extent.value, extent.axes, 1, 0, 1, real, power};
  }
  return std::nullopt;
}

class Comparison {
 public:
  Comparison(std::vector<TracedCall>& calls, const std::vector<OpenDim>& dims, ModelNames& names)
      : calls_(calls), dims_(dims), names_(names) {}

  void compare() {
    for (size_t k = 0; k < calls_[0].arguments.size(); ++k) {
      std::vector<const Value*> same;
      for (const TracedCall& call : calls_) same.push_back(call.arguments[k]);
      know(same);
    }
    const size_t count = calls_[0].cut.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      for (const TracedCall& call : calls_) {
        const Node* const other = n < call.cut.nodes.size() ? call.cut.nodes[n] : nullptr;
        if (!other || !is_same(*calls_[0].cut.nodes[n], *other)) refuse(*calls_[0].cut.nodes[n], other, call);
      }
      compare_node(n);
    }
    for (const TracedCall& call : calls_)
      if (call.cut.nodes.size() != count) refuse(*call.cut.nodes[count], nullptr, call);
    for (size_t k = 0; k < calls_[0].cut.outputs.size(); ++k)
      for (const TracedCall& call : calls_)
        if (const Value* own = calls_[0].cut.outputs[k]; counterpart(own, call) != call.cut.outputs[k] && known_.count(own))
          fail("output ", k, " is another value where open dims have other sizes");
    declare();
    drop_unread();
  }

 private:
  static bool is_same(const Node& a, const Node& b) {
    return a.operation == b.operation && a.no_grad == b.no_grad && a.input_count == b.input_count &&
           a.output_count == b.output_count;
  }

  // What a call was tried with: "batch=2, length=6".
  std::string sizes_of(const TracedCall& call) const {
    std::string text;
    std::set<std::string> told;
    for (const OpenDim& dim : dims_)
      if (told.insert(dim.name).second)
        text += concat(text.empty() ? "" : ", ", dim.name, "=",
                       call.arguments[dim.input]->type->shape[static_cast<size_t>(dim.axis)]);
    return text;
  }

  [[noreturn]] void refuse(const Node& own, const Node* other, const TracedCall& call) const {
    const bool attributes = other && other->operation && own.operation && other->operation->name == own.operation->name &&
                            other->operation->domain == own.operation->domain;
    throw CompileError(
        {"", "",
         concat(at(own), attributes ? " has other attributes" : " is not what the function does", " where open dims are ",
                sizes_of(call), ", with ", sizes_of(calls_[0]),
                other ? concat("; it is ", at(*other), " then") : std::string(),
                ": what a function does may not depend on their sizes, and attributes have no place for them")});
  }

  void know(const std::vector<const Value*>& same) {
    known_[same[0]] = same;
    const int rank = same[0]->type->rank();
    if (std::any_of(same.begin(), same.end(), [&](const Value* v) { return v->type->rank() != rank; }))
      fail("a value has another rank where open dims have other sizes (", at(*same[0]->node), ")");
    values_.push_back(same[0]);
  }

  const Value* counterpart(const Value* own, const TracedCall& call) const {
    const auto found = known_.find(own);
    return found == known_.end() ? own : found->second[static_cast<size_t>(&call - calls_.data())];
  }

  void compare_node(size_t n) {
    const Node& own = *calls_[0].cut.nodes[n];
    for (uint32_t k = 0; k < own.input_count; ++k) compare_operand(n, k);
    for (uint32_t k = 0; k < own.output_count; ++k) {
      std::vector<const Value*> same;
      for (const TracedCall& call : calls_) same.push_back(call.cut.nodes[n]->outputs() + k);
      know(same);
    }
  }

  void compare_operand(size_t n, uint32_t k) {
    const Node& own = *calls_[0].cut.nodes[n];
    const Value* const operand = own.inputs()[k];
    std::vector<const Value*> same;
    bool one = true, is_data = true;
    for (const TracedCall& call : calls_) {
      const Value* const other = call.cut.nodes[n]->inputs()[k];
      same.push_back(other);
      one &= other == counterpart(operand, call);
      is_data &= other && other->state == ValueState::exists;
    }
    if (one) return;
    if (!is_data) fail(at(own), " reads another value where open dims have other sizes");
    for (const Value* other : same)
      if (other->type != operand->type)
        fail(at(own), " reads a constant of shape ", text_of(*operand->type), ", and ", text_of(*other->type),
             " where open dims have other sizes: make it of Vars (op.Range, op.Expand, ...)");
    if (std::all_of(same.begin(), same.end(), [&](const Value* v) { return has_same_bytes(*v, *operand); })) return;
    if (operand->type->elements > most_open_elements || operand->type->rank() > 1)
      fail(at(own), " reads a constant of shape ", text_of(*operand->type),
           " that has other elements where open dims have other sizes");
    OpenOperand open;
    for (int64_t e = 0; e < operand->type->elements; ++e) open.elements.push_back(solved(own, same, e));
    open.type = operand->type;
    names_.open.emplace(std::pair(&own, k), std::move(open));
  }

  static bool has_same_bytes(const Value& a, const Value& b) {
    return a.bytes == b.bytes || std::equal(a.bytes.get(), a.bytes.get() + a.type->bytes, b.bytes.get());
  }

  OpenElement solved(const Node& node, const std::vector<const Value*>& same, int64_t element) const {
    const DType dtype = same[0]->type->dtype;
    std::string told;
    if (is_integer(dtype)) {
      Numbers numbers;
      for (const Value* each : same) numbers.push_back(integer_at(tensor_of(*each), element));
      if (auto found = solved(node, numbers)) return *found;
      for (const int64_t number : numbers) told += concat(told.empty() ? "" : ", ", number);
    } else {
      std::vector<double> numbers;
      for (const Value* each : same) numbers.push_back(number_at(tensor_of(*each), element));
      if (is_float(dtype))
        if (auto found = solved(node, numbers, dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 1e-6 : 1e-2))
          return *found;
      for (const double number : numbers) told += concat(told.empty() ? "" : ", ", number);
    }
    std::string sizes;
    for (const TracedCall& call : calls_) sizes += concat(sizes.empty() ? "" : "; ", sizes_of(call));
    throw CompileError({"", "",
                        concat(at(node), " reads a number that depends on open dims: ", told, " where they are ", sizes,
                               ". It is no dim of a value, product of dims or simple formula of one: compute it of Vars "
                               "(op.Shape)")});
  }

  // The nearest extents first: of what the node itself reads, of arguments, of what was written before it.
  std::vector<Extent> extents(const Node& node, bool products) const {
    std::vector<const Value*> order;
    for (uint32_t k = 0; k < node.input_count; ++k)
      if (node.inputs()[k] && known_.count(node.inputs()[k])) order.push_back(node.inputs()[k]);
    order.insert(order.end(), calls_[0].arguments.begin(), calls_[0].arguments.end());
    order.insert(order.end(), values_.rbegin(), values_.rend());
    std::vector<Extent> all;
    std::set<const Value*> seen;
    for (const Value* value : order) {
      if (!seen.insert(value).second) continue;
      const int rank = value->type->rank();
      for (int from = 0; from < rank; ++from)
        for (int to = products ? from + 2 : from + 1; to <= (products ? rank : from + 1); ++to) {
          Extent extent{value, {}, Numbers(calls_.size(), 1)};
          for (int axis = from; axis < to; ++axis) {
            extent.axes.push_back(axis);
            for (size_t c = 0; c < calls_.size(); ++c)
              extent.sizes[c] *= known_.at(value)[c]->type->shape[static_cast<size_t>(axis)];
          }
          if (!all_equal(extent.sizes)) all.push_back(std::move(extent));
        }
    }
    return all;
  }

  std::optional<OpenElement> solved(const Node& node, const Numbers& numbers) const {
    if (all_equal(numbers)) return OpenElement{nullptr, {}, 1, numbers[0], 1, 0, 1};
    for (const bool products : {false, true})
      for (const Extent& extent : extents(node, products))
        if (extent.sizes == numbers) return OpenElement{extent.value, extent.axes, 1, 0, 1, 0, 1};
    for (const bool products : {false, true})
      for (const auto& formula : {affine, divided})
        for (const Extent& extent : extents(node, products))
          if (auto found = formula(extent, numbers)) return found;
    return std::nullopt;
  }

  std::optional<OpenElement> solved(const Node& node, const std::vector<double>& numbers, double tolerance) const {
    if (std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end())
      return OpenElement{nullptr, {}, 1, 0, 1, numbers[0], 1};
    for (const bool products : {false, true})
      for (const Extent& extent : extents(node, products))
        if (auto found = real_power(extent, numbers, tolerance)) return found;
    return std::nullopt;
  }

  // The names of dims of arguments, and of those dims of results that are as long as these in all calls.
  void declare() {
    for (const OpenDim& dim : dims_) names_.dims[calls_[0].arguments[dim.input]][dim.axis] = dim.name;
    for (const Value* output : calls_[0].cut.outputs) {
      const auto same = known_.find(output);
      if (same == known_.end() || names_.dims.count(output)) continue;
      for (int axis = 0; axis < output->type->rank(); ++axis) {
        Numbers sizes;
        for (const Value* each : same->second) sizes.push_back(each->type->shape[static_cast<size_t>(axis)]);
        if (all_equal(sizes)) continue;
        names_.dims[output][axis] = "";
        for (const OpenDim& dim : dims_) {
          Numbers own;
          for (const TracedCall& call : calls_)
            own.push_back(call.arguments[dim.input]->type->shape[static_cast<size_t>(dim.axis)]);
          if (own == sizes) names_.dims[output][axis] = dim.name;
        }
      }
    }
  }

  // Data that are computed of dims now.
  void drop_unread() {
    Cut& cut = calls_[0].cut;
    std::set<const Value*> read(calls_[0].arguments.begin(), calls_[0].arguments.end());
    read.insert(cut.outputs.begin(), cut.outputs.end());
    for (const Node* node : cut.nodes)
      for (uint32_t k = 0; k < node->input_count; ++k)
        if (!names_.open.count({node, k})) read.insert(node->inputs()[k]);
    cut.inputs.erase(std::remove_if(cut.inputs.begin(), cut.inputs.end(), [&](const Value* v) { return !read.count(v); }),
                     cut.inputs.end());
  }

  std::vector<TracedCall>& calls_;
  const std::vector<OpenDim>& dims_;
  ModelNames& names_;
  std::unordered_map<const Value*, std::vector<const Value*>> known_;  // arguments and what nodes make: in each call
  std::vector<const Value*> values_;                                   // the same, in order
};

}  // namespace

std::vector<int64_t> sizes_to_try(const std::vector<int64_t>& given, size_t call) {
  std::vector<int64_t> sizes;
  if (call > given.size() + 2) return sizes;
  // 1 is no size to try: it repeats along other sizes.
  for (const int64_t size : given) sizes.push_back(std::max<int64_t>(size, 2));
  if (call > 0 && call <= given.size()) sizes[call - 1] *= 2;
  if (call > given.size())
    for (int64_t& size : sizes) size = call == given.size() + 1 ? 2 * size + 1 : 3 * size;
  return sizes;
}

void open_dims(std::vector<TracedCall>& calls, const std::vector<OpenDim>& dims, ModelNames& names) {
  Comparison(calls, dims, names).compare();
}

}  // namespace metac::lazy
