// Lazy Vars in C++20: models written as code, over the C interface of var.h. Nothing runs until a value is looked at.
//
//   metac::Var x = metac::array(pixels, {1, 1, 8, 8}), w = metac::array(weights, {16, 1, 3, 3});
//   metac::Var y = metac::op::Conv(x, w, {.pads = {1, 1, 1, 1}});       // metac/op.hpp: every operator
//   metac::Var loss = metac::mean(y * y);
//   w.assign(w - 0.1 * metac::grad(loss, w));
//   std::cout << loss.item<float>();
//
// Errors are exceptions, metac::Error of metac.hpp; those of a run name the lines where the operators were written.
#pragma once
#include <concepts>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "metac.hpp"
#include "var.h"

namespace metac {

namespace detail {
inline void check(metac_status status) {
  if (status != METAC_OK) throw Error(status, metac_last_error());
}
inline metac_site site_of(const std::source_location& where) {
  return {where.file_name(), static_cast<int32_t>(where.line())};
}
}  // namespace detail

using Place = std::source_location;
class Var;
// Names and Vars in an order of their own: weights by their paths, what an optimiser keeps.
using NamedVars = std::vector<std::pair<std::string, Var>>;

// A value that is there or is yet to be computed. Copies are the same Var: what one is assigned, all are.
class Var {
 public:
  Var() = default;  // none: an operand that is left out
  explicit Var(metac_var* made) : handle_(made, metac_var_free) {}

  metac_var* handle() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }

  // These are known at once.
  std::vector<int64_t> shape() const {
    const metac_tensor type = this->type();
    return {type.dims, type.dims + type.rank};
  }
  metac_dtype dtype() const { return static_cast<metac_dtype>(type().dtype); }
  int64_t size() const {
    int64_t count = 1;
    for (const int64_t dim : shape()) count *= dim;
    return count;
  }

  // Looking: computes what is not there.
  const Var& evaluate(Place where = Place::current()) const {
    const metac_site site = detail::site_of(where);
    metac_var* const own = handle();
    detail::check(metac_var_evaluate(&own, 1, &site));
    return *this;
  }
  Result read(Place where = Place::current()) const {
    const metac_site site = detail::site_of(where);
    metac_result* result = nullptr;
    detail::check(metac_var_read(handle(), &result, &site));
    return Result(result);
  }
  // The elements; T must be their type.
  template <class T>
  std::vector<T> to_vector(Place where = Place::current()) const {
    const Result result = read(where);
    const T* first = result[0].template data<T>();
    return std::vector<T>(first, first + result[0].count());
  }
  // The only element.
  template <class T>
  T item(Place where = Place::current()) const {
    if (size() != 1) throw Error(METAC_INVALID_ARGUMENT, "item() of a Var of " + std::to_string(size()) + " elements");
    return to_vector<T>(where)[0];
  }

  // The Var becomes its next version, through which no derivative passes.
  void assign(const Var& value, Place where = Place::current()) {
    const metac_site site = detail::site_of(where);
    detail::check(metac_var_assign(handle(), value.handle(), &site));
  }
  Var cast(metac_dtype dtype, Place where = Place::current()) const {
    const metac_site site = detail::site_of(where);
    metac_var* made = nullptr;
    detail::check(metac_var_cast(handle(), dtype, &made, &site));
    return Var(made);
  }

 private:
  metac_tensor type() const {
    metac_tensor type{};
    detail::check(metac_var_type(handle(), &type));
    return type;
  }
  std::shared_ptr<metac_var> handle_;
};

// A Var of elements, which are copied.
template <class T>
Var array(const T* elements, std::vector<int64_t> dims) {
  const Tensor tensor("array", elements, std::move(dims));
  const metac_tensor given = tensor.c_tensor();
  metac_var* made = nullptr;
  detail::check(metac_var_from(&given, &made));
  return Var(made);
}
template <class T>
Var array(const std::vector<T>& elements, std::vector<int64_t> dims) {
  const Tensor tensor("array", elements.data(), std::move(dims));
  if (tensor.count() != static_cast<int64_t>(elements.size()))
    throw Error(METAC_INVALID_ARGUMENT, "the dims have " + std::to_string(tensor.count()) + " elements, " +
                                            std::to_string(elements.size()) + " are given");
  const metac_tensor given = tensor.c_tensor();
  metac_var* made = nullptr;
  detail::check(metac_var_from(&given, &made));
  return Var(made);
}
template <class T>
Var array(const std::vector<T>& elements) {
  return array(elements, {static_cast<int64_t>(elements.size())});
}
// At most 64 numbers that are part of the structure: shapes, axes, pads. Another content is another program.
template <class T>
Var constant(const std::vector<T>& elements) {
  const Tensor tensor("constant", elements.data(), {static_cast<int64_t>(elements.size())});
  const metac_tensor given = tensor.c_tensor();
  metac_var* made = nullptr;
  detail::check(metac_var_constant(&given, &made));
  return Var(made);
}

namespace detail {

// An operand with the line that it stands in: operators have no place for a default argument of their own.
struct Operand {
  metac_var* var;
  Place where;
  Operand(const Var& given, Place where = Place::current()) : var(given.handle()), where(where) {}
};
template <class N>
concept Number = std::is_arithmetic_v<N>;

inline Var arithmetic(int32_t what, const Operand& a, const Operand& b) {
  const metac_site site = site_of(a.where);
  metac_var* made = nullptr;
  check(metac_var_arithmetic(what, a.var, b.var, &made, &site));
  return Var(made);
}
template <Number N>
Var arithmetic(int32_t what, const Operand& a, N number, bool swapped) {
  const metac_site site = site_of(a.where);
  metac_var* made = nullptr;
  check(metac_var_arithmetic_number(what, a.var, static_cast<double>(number), std::is_floating_point_v<N>, swapped, &made,
                                    &site));
  return Var(made);
}

}  // namespace detail

#define METAC_VAR_OPERATOR(symbol, what)                                                                                  \
  inline Var operator symbol(const detail::Operand& a, const detail::Operand& b) { return detail::arithmetic(what, a, b); } \
  template <detail::Number N>                                                                                             \
  Var operator symbol(const detail::Operand& a, N b) {                                                                    \
    return detail::arithmetic(what, a, b, false);                                                                         \
  }                                                                                                                       \
  template <detail::Number N>                                                                                             \
  Var operator symbol(N a, const detail::Operand& b) {                                                                    \
    return detail::arithmetic(what, b, a, true);                                                                          \
  }
METAC_VAR_OPERATOR(+, METAC_ADD)
METAC_VAR_OPERATOR(-, METAC_SUBTRACT)
METAC_VAR_OPERATOR(*, METAC_MULTIPLY)
METAC_VAR_OPERATOR(/, METAC_DIVIDE)
METAC_VAR_OPERATOR(<, METAC_LESS)
METAC_VAR_OPERATOR(<=, METAC_LESS_EQUAL)
METAC_VAR_OPERATOR(>, METAC_GREATER)
METAC_VAR_OPERATOR(>=, METAC_GREATER_EQUAL)
METAC_VAR_OPERATOR(==, METAC_EQUAL)
METAC_VAR_OPERATOR(!=, METAC_NOT_EQUAL)
METAC_VAR_OPERATOR(%, METAC_MODULO)
METAC_VAR_OPERATOR(&, METAC_AND)
METAC_VAR_OPERATOR(|, METAC_OR)
METAC_VAR_OPERATOR(^, METAC_XOR)
#undef METAC_VAR_OPERATOR

inline Var operator-(const detail::Operand& a) { return detail::arithmetic(METAC_MULTIPLY, a, -1, false); }
inline Var matmul(const detail::Operand& a, const detail::Operand& b) { return detail::arithmetic(METAC_MATMUL, a, b); }
inline Var pow(const detail::Operand& a, const detail::Operand& b) { return detail::arithmetic(METAC_POWER, a, b); }
template <detail::Number N>
Var pow(const detail::Operand& a, N b) {
  return detail::arithmetic(METAC_POWER, a, b, false);
}
template <detail::Number N>
Var pow(N a, const detail::Operand& b) {
  return detail::arithmetic(METAC_POWER, b, a, true);
}
// The quotient rounded down, as Python's // has it.
inline Var floor_divide(const detail::Operand& a, const detail::Operand& b) {
  return detail::arithmetic(METAC_FLOOR_DIVIDE, a, b);
}
template <detail::Number N>
Var floor_divide(const detail::Operand& a, N b) {
  return detail::arithmetic(METAC_FLOOR_DIVIDE, a, b, false);
}

// Has all of these computed, in one program where they share something.
inline void evaluate(const std::vector<Var>& vars, Place where = Place::current()) {
  std::vector<metac_var*> handles;
  for (const Var& var : vars) handles.push_back(var.handle());
  const metac_site site = detail::site_of(where);
  detail::check(metac_var_evaluate(handles.data(), static_cast<int32_t>(handles.size()), &site));
}

// The derivatives of the sum of y by each of xs; of any order, as they are Vars like others.
inline std::vector<Var> grad(const Var& y, const std::vector<Var>& xs, Place where = Place::current()) {
  std::vector<metac_var*> by, made(xs.size());
  for (const Var& x : xs) by.push_back(x.handle());
  const metac_site site = detail::site_of(where);
  detail::check(metac_var_gradient(y.handle(), by.data(), static_cast<int32_t>(by.size()), made.data(), &site));
  std::vector<Var> slopes;
  for (metac_var* each : made) slopes.emplace_back(each);
  return slopes;
}
inline Var grad(const Var& y, const Var& x, Place where = Place::current()) {
  return grad(y, std::vector<Var>{x}, where)[0];
}

// While one lives, no derivative passes what its thread writes.
class NoGrad {
 public:
  NoGrad() : before_(metac_no_grad(1)) {}
  ~NoGrad() { metac_no_grad(before_); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  int32_t before_;
};

// A traced function.
class Model {
 public:
  explicit Model(metac_traced* model) : model_(model, metac_traced_free) {}
  // To a path that ends in ".onnx" or ".json".
  void save(const std::string& path) const { detail::check(metac_traced_save(model_.get(), path.c_str())); }
  // `metac compile` with these arguments: compile("out", {"--name", "net", "--cpu", "native"}).
  void compile(const std::string& folder, const std::vector<std::string>& arguments = {}) const {
    std::vector<const char*> words;
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    detail::check(
        metac_traced_compile(model_.get(), folder.c_str(), words.data(), static_cast<int32_t>(words.size())));
  }

 private:
  std::unique_ptr<metac_traced, void (*)(metac_traced*)> model_;
};

// The model that `function`, of a vector of Vars to a Var or a vector of Vars, is for arguments like `inputs`. Names may be
// left out; `weights` names Vars that the function reads.
template <class Function>
Model trace(Function&& function, const std::vector<Var>& inputs, const std::vector<std::string>& input_names = {},
            const std::vector<std::string>& output_names = {},
            const NamedVars& weights = {}, Place where = Place::current()) {
  std::vector<Var> arguments;
  const metac_site site = detail::site_of(where);
  for (const Var& input : inputs) {
    metac_tensor type{};
    detail::check(metac_var_type(input.handle(), &type));
    metac_var* made = nullptr;
    detail::check(metac_var_placeholder(&type, &made, &site));
    arguments.emplace_back(made);
  }
  std::vector<Var> results;
  if constexpr (std::convertible_to<decltype(function(arguments)), Var>)
    results.push_back(function(arguments));
  else
    results = function(arguments);
  const auto handles = [](const std::vector<Var>& vars) {
    std::vector<metac_var*> all;
    for (const Var& var : vars) all.push_back(var.handle());
    return all;
  };
  const auto texts = [](const std::vector<std::string>& names, size_t count) {
    std::vector<const char*> all(count, nullptr);
    for (size_t k = 0; k < count && k < names.size(); ++k) all[k] = names[k].c_str();
    return all;
  };
  std::vector<metac_var*> owned;
  std::vector<const char*> names;
  for (const auto& [name, var] : weights) owned.push_back(var.handle()), names.push_back(name.c_str());
  const auto in = handles(arguments), out = handles(results);
  metac_traced* model = nullptr;
  detail::check(metac_traced_make(in.data(), texts(input_names, in.size()).data(), static_cast<int32_t>(in.size()),
                                  out.data(), texts(output_names, out.size()).data(), static_cast<int32_t>(out.size()),
                                  owned.data(), names.data(), static_cast<int32_t>(owned.size()), &model));
  return Model(model);
}

}  // namespace metac
