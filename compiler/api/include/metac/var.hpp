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
#include <algorithm>
#include <concepts>
#include <functional>
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

#define METAC_VAR_OPERATOR(symbol, what)                                                                                    \
  inline Var operator symbol(const detail::Operand& a, const detail::Operand& b) { return detail::arithmetic(what, a, b); } \
  template <detail::Number N>                                                                                               \
  Var operator symbol(const detail::Operand& a, N b) {                                                                      \
    return detail::arithmetic(what, a, b, false);                                                                           \
  }                                                                                                                         \
  template <detail::Number N>                                                                                               \
  Var operator symbol(N a, const detail::Operand& b) {                                                                      \
    return detail::arithmetic(what, b, a, true);                                                                            \
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

// Calls `done` once, when a look has computed all of these, on the thread that looks; at once where they are there. Output k
// of the Result is vars[k]. It must not throw.
inline void fetch(const std::vector<Var>& vars, std::function<void(const Result&)> done) {
  std::vector<metac_var*> handles;
  for (const Var& var : vars) handles.push_back(var.handle());
  auto held = std::make_unique<std::function<void(const Result&)>>(std::move(done));
  const auto call = [](void* user, metac_result* values) {
    const std::unique_ptr<std::function<void(const Result&)>> own(static_cast<std::function<void(const Result&)>*>(user));
    (*own)(Result(values));
  };
  detail::check(metac_var_fetch(handles.data(), static_cast<int32_t>(handles.size()), call, held.get()));
  static_cast<void>(held.release());
}
// Has everything computed that somebody waits for so.
inline void sync(Place where = Place::current()) {
  const metac_site site = detail::site_of(where);
  detail::check(metac_graph_sync(&site));
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
    detail::check(metac_traced_compile(model_.get(), folder.c_str(), words.data(), static_cast<int32_t>(words.size())));
  }

 private:
  std::unique_ptr<metac_traced, void (*)(metac_traced*)> model_;
};

// A dim that is to be open: axis `axis` of input `input`. Dims of one name have one size.
struct OpenDim {
  int32_t input, axis;
  std::string name;
};

namespace detail {

struct TracedCalls {
  std::vector<Var> arguments, results;  // of one call behind the other
  int32_t count = 0;
};

template <class Function>
TracedCalls traced_calls(Function&& function, const std::vector<Var>& inputs, const std::vector<metac_open_dim>& dims,
                         const metac_site& site) {
  std::vector<std::vector<int64_t>> shapes;
  for (const Var& input : inputs) shapes.push_back(input.shape());
  std::vector<int64_t> given, sizes(dims.size());
  std::vector<std::string> names;
  for (const metac_open_dim& dim : dims) {
    if (dim.input < 0 || static_cast<size_t>(dim.input) >= inputs.size() || dim.axis < 0 ||
        static_cast<size_t>(dim.axis) >= shapes[static_cast<size_t>(dim.input)].size())
      throw Error(METAC_INVALID_ARGUMENT, std::string("the open dim ") + dim.name + ": the inputs have no such axis");
    given.push_back(shapes[static_cast<size_t>(dim.input)][static_cast<size_t>(dim.axis)]);
    if (std::find(names.begin(), names.end(), dim.name) == names.end()) names.emplace_back(dim.name);
  }
  // The last of the sizes stand for those before them, which are odd: where the function refuses these.
  const int32_t odd = static_cast<int32_t>(names.size()) + 1;
  TracedCalls calls;
  size_t results = 0;
  for (int32_t call = 0; call < (dims.empty() ? 1 : odd + 2) && calls.count <= odd; ++call) {
    if (!dims.empty())
      check(metac_traced_sizes(dims.data(), static_cast<int32_t>(dims.size()), given.data(), call, sizes.data()));
    for (size_t k = 0; k < dims.size(); ++k)
      shapes[static_cast<size_t>(dims[k].input)][static_cast<size_t>(dims[k].axis)] = sizes[k];
    std::vector<Var> arguments, made;
    for (size_t k = 0; k < inputs.size(); ++k) {
      metac_tensor type{};
      check(metac_var_type(inputs[k].handle(), &type));
      type.dims = shapes[k].data();
      metac_var* argument = nullptr;
      check(metac_var_placeholder(&type, &argument, &site));
      arguments.emplace_back(argument);
    }
    try {
      if constexpr (std::convertible_to<decltype(function(arguments)), Var>)
        made.push_back(function(arguments));
      else
        made = function(arguments);
    } catch (const Error&) {
      if (dims.empty() || call != odd) throw;
      continue;
    }
    if (calls.count > 0 && made.size() != results)
      throw Error(METAC_MODEL, "the traced function returns more or fewer Vars where open dims have other sizes");
    results = made.size();
    calls.arguments.insert(calls.arguments.end(), arguments.begin(), arguments.end());
    calls.results.insert(calls.results.end(), made.begin(), made.end());
    ++calls.count;
  }
  return calls;
}

}  // namespace detail

// The model that `function`, of a vector of Vars to a Var or a vector of Vars, is for arguments like `inputs`. Names may be
// left out; `weights` names Vars that the function reads. With `dims` the function is called several times, with other sizes
// of these, and what it does and reads must follow from them (docs/lazy.md).
template <class Function>
Model trace(Function&& function, const std::vector<Var>& inputs, const std::vector<std::string>& input_names = {},
            const std::vector<std::string>& output_names = {}, const NamedVars& weights = {},
            const std::vector<OpenDim>& dims = {}, Place where = Place::current()) {
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
  std::vector<metac_open_dim> open;
  for (const OpenDim& dim : dims) open.push_back({dim.input, dim.axis, dim.name.c_str()});
  const metac_site site = detail::site_of(where);
  // Before anything reads both weights and arguments.
  detail::check(metac_var_evaluate(owned.data(), static_cast<int32_t>(owned.size()), &site));
  const detail::TracedCalls calls = detail::traced_calls(function, inputs, open, site);
  const auto in = handles(calls.arguments), out = handles(calls.results);
  const size_t results = out.size() / static_cast<size_t>(calls.count);
  metac_traced* model = nullptr;
  detail::check(metac_traced_make_open(open.data(), static_cast<int32_t>(open.size()), calls.count, in.data(),
                                       texts(input_names, inputs.size()).data(), static_cast<int32_t>(inputs.size()),
                                       out.data(), texts(output_names, results).data(), static_cast<int32_t>(results),
                                       owned.data(), names.data(), static_cast<int32_t>(owned.size()), &model));
  return Model(model);
}

}  // namespace metac
