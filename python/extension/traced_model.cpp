#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "python/extension/call_site.h"
#include "python/extension/failure.h"
#include "python/extension/operators.h"
#include "python/extension/result_array.h"
#include "python/extension/var_type.h"

namespace metac_python {
namespace {

namespace py = pybind11;

struct Freed {
  void operator()(metac_traced* model) const { metac_traced_free(model); }
};
using TracedModel = std::unique_ptr<metac_traced, Freed>;

py::object placeholder(const std::vector<int64_t>& shape, int32_t dtype) {
  metac_tensor type{};
  type.dims = shape.data();
  type.rank = static_cast<int32_t>(shape.size());
  type.dtype = dtype;
  const metac_site site = call_site();
  metac_var* made = nullptr;
  check(metac_var_placeholder(&type, &made, &site));
  return py::reinterpret_steal<py::object>(python_var(made));
}

struct Named {
  std::vector<metac_var*> vars;
  std::vector<const char*> names;
  explicit Named(const std::vector<std::pair<std::string, py::object>>& given) {
    for (const auto& [name, object] : given) {
      vars.push_back(var_of(object.ptr()));
      names.push_back(name.c_str());
    }
  }
  int32_t count() const { return static_cast<int32_t>(vars.size()); }
};

using Pairs = std::vector<std::pair<std::string, py::object>>;
using Dims = std::vector<std::tuple<int32_t, int32_t, std::string>>;  // input, axis, name

std::vector<metac_open_dim> open_dims(const Dims& given) {
  std::vector<metac_open_dim> dims;
  for (const auto& [input, axis, name] : given) dims.push_back({input, axis, name.c_str()});
  return dims;
}

std::vector<int64_t> open_sizes(const Dims& given, const std::vector<int64_t>& sizes, int32_t call) {
  const std::vector<metac_open_dim> dims = open_dims(given);
  std::vector<int64_t> made(dims.size());
  check(metac_traced_sizes(dims.data(), static_cast<int32_t>(dims.size()), sizes.data(), call, made.data()));
  return made;
}

// Inputs and outputs have those of all calls, one call behind the other.
TracedModel trace_model(const Pairs& inputs, const Pairs& outputs, const Pairs& weights, const Dims& given, int32_t calls) {
  const Named in(inputs), out(outputs), own(weights);
  const std::vector<metac_open_dim> dims = open_dims(given);
  metac_traced* model = nullptr;
  check(metac_traced_make_open(dims.data(), static_cast<int32_t>(dims.size()), calls, in.vars.data(), in.names.data(),
                               in.count() / calls, out.vars.data(), out.names.data(), out.count() / calls, own.vars.data(),
                               own.names.data(), own.count(), &model));
  return TracedModel(model);
}

void compile(const metac_traced& model, const std::string& folder, const std::vector<std::string>& arguments) {
  std::vector<const char*> words;
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  const py::gil_scoped_release unlocked;
  check(metac_traced_compile(&model, folder.c_str(), words.data(), static_cast<int32_t>(words.size())));
}

// [(name, array), ...] of a model file's initialisers.
py::list read_weights(const std::string& path) {
  metac_result* weights = nullptr;
  {
    const py::gil_scoped_release unlocked;
    check(metac_var_weights(path.c_str(), &weights));
  }
  const Result result = owned(weights);
  py::list named;
  for (int32_t k = 0; const metac_tensor* each = metac_result_output(weights, k); ++k)
    named.append(py::make_tuple(each->name, ResultArray(result, each)));
  return named;
}

// Behind a class of its own: pybind11 wants complete types.
struct HeldModel {
  TracedModel model;
};

}  // namespace

void define_traced_model(py::module_& module) {
  module.def("placeholder", &placeholder);
  module.def("open_sizes", &open_sizes);
  module.def("read_weights", &read_weights);
  py::class_<HeldModel>(module, "TracedModel")
      .def(py::init([](const Pairs& inputs, const Pairs& outputs, const Pairs& weights, const Dims& dims, int32_t calls) {
        return std::make_unique<HeldModel>(HeldModel{trace_model(inputs, outputs, weights, dims, calls)});
      }))
      .def("save",
           [](const HeldModel& self, const std::string& path) { check(metac_traced_save(self.model.get(), path.c_str())); })
      .def("compile", [](const HeldModel& self, const std::string& folder, const std::vector<std::string>& arguments) {
        compile(*self.model, folder, arguments);
      });
}

}  // namespace metac_python
