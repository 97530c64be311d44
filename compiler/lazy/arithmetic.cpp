#include "compiler/lazy/arithmetic.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/ops/attributes.h"
#include "compiler/support/diagnostic.h"

namespace metac::lazy {
namespace {

// A handle that is given back at the end of its scope.
class Held {
 public:
  Held(LazyGraph& graph, Value* value) : graph_(graph), value_(value) {}
  ~Held() { graph_.release(value_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  operator Value*() const { return value_; }

 private:
  LazyGraph& graph_;
  Value* value_;
};

struct Appender {
  LazyGraph& graph;
  Site site;
  bool no_grad;

  Value* operator()(const Operation* operation, std::initializer_list<Value*> operands) const {
    Value* result = nullptr;
    graph.apply(operation, operands.begin(), static_cast<uint32_t>(operands.size()), &result, 1, site, no_grad);
    return result;
  }
  Value* operator()(const char* name, std::initializer_list<Value*> operands) const {
    return (*this)(operation("", name, {}), operands);
  }
};

int category(DType dtype) { return is_float(dtype) ? 2 : is_integer(dtype) ? 1 : 0; }

// Rounded down, for real numbers and for integers, whose Div cuts off.
Value* floor_divide(const Appender& append, Value* a, Value* b) {
  if (is_float(a->type->dtype)) {
    const Held quotient(append.graph, append("Div", {a, b}));
    return append("Floor", {quotient});
  }
  const Held rest(append.graph, append("Mod", {a, b}));
  const Held whole(append.graph, append("Sub", {a, rest}));
  return append("Div", {whole, b});
}

Value* modulo(const Appender& append, Value* a, Value* b) {
  if (is_integer(a->type->dtype)) return append("Mod", {a, b});
  const Held quotient(append.graph, floor_divide(append, a, b));
  const Held whole(append.graph, append("Mul", {quotient, b}));
  return append("Sub", {a, whole});
}

const Operation* operation_of(Arithmetic what) {
  static const auto& operations = *new std::array<const Operation*, arithmetic_count>([] {
    constexpr const char* names[arithmetic_count] = {"Add",     "Sub",
                                                     "Mul",     "Div",
                                                     "",        "",
                                                     "Pow",     "MatMul",
                                                     "Equal",   "Equal",
                                                     "Less",    "LessOrEqual",
                                                     "Greater", "GreaterOrEqual",
                                                     "And",     "Or",
                                                     "Xor"};
    std::array<const Operation*, arithmetic_count> made{};
    for (int k = 0; k < arithmetic_count; ++k)
      if (*names[k]) made[static_cast<size_t>(k)] = operation("", names[k], {});
    return made;
  }());
  return operations[static_cast<size_t>(what)];
}

DType meeting(Arithmetic what, DType a, DType b) {
  if (what >= Arithmetic::logical_and) return DType::boolean;
  DType both = common_dtype(a, b);
  if (what == Arithmetic::divide && !is_float(both)) both = DType::f32;
  if (is_bool(both) && what < Arithmetic::equal) both = DType::i32;
  if (is_bool(both) && what > Arithmetic::not_equal) both = DType::i32;
  return both;
}

// Of numbers that formulas have as they are; so few that a value which runs through them compiles a few programs at most.
bool is_of_structure(double value) {
  for (const double each : {0.0, 1.0, 2.0, 3.0, 4.0, 0.5, 0.25, -1.0, -2.0, -0.5})
    if (value == each) return true;
  return false;
}

}  // namespace

DType common_dtype(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (is_float(a)) {
    if (size_of(a) == size_of(b)) return DType::f32;
    return size_of(a) > size_of(b) ? a : b;
  }
  if (is_signed(a) == is_signed(b)) return size_of(a) > size_of(b) ? a : b;
  const DType whole = is_signed(a) ? a : b, natural = is_signed(a) ? b : a;
  if (size_of(whole) > size_of(natural)) return whole;
  return size_of(natural) == 1 ? DType::i16 : size_of(natural) == 2 ? DType::i32 : DType::i64;
}

Value* cast(LazyGraph& graph, Value* value, DType dtype, Site site, bool no_grad) {
  if (value->type->dtype == dtype) {
    graph.hold(value);
    return value;
  }
  const Attribute to = integer_attribute(info(dtype).onnx_number);
  return Appender{graph, site, no_grad}(operation("", "Cast", {{"to", to}}), {value});
}

Value* arithmetic(LazyGraph& graph, Arithmetic what, Value* a, Value* b, Site site, bool no_grad) {
  const Appender append{graph, site, no_grad};
  const DType both = meeting(what, a->type->dtype, b->type->dtype);
  const Held left(graph, cast(graph, a, both, site, no_grad)), right(graph, cast(graph, b, both, site, no_grad));
  switch (what) {
    case Arithmetic::floor_divide:
      return floor_divide(append, left, right);
    case Arithmetic::modulo:
      return modulo(append, left, right);
    case Arithmetic::not_equal: {
      const Held equal(graph, append("Equal", {left, right}));
      return append("Not", {equal});
    }
    default:
      return append(operation_of(what), {left, right});
  }
}

Value* number(LazyGraph& graph, double value, bool is_real, DType beside) {
  const DType dtype = is_real && !is_float(beside) ? DType::f32 : beside;
  const Tensor tensor = filled_tensor(dtype, {}, value);
  const TensorType* type = tensor_type(dtype, {});
  return is_of_structure(value) ? graph.literal(type, tensor.bytes) : graph.data(type, tensor.bytes);
}

}  // namespace metac::lazy
