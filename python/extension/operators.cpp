#include "python/extension/operators.h"

#include <vector>

#include "python/extension/call_site.h"
#include "python/extension/element_types.h"
#include "python/extension/failure.h"
#include "python/extension/given_array.h"
#include "python/extension/result_array.h"
#include "python/extension/var_type.h"

namespace metac_python {
namespace {

py::object owned_var(metac_var* var) {
  PyObject* const object = python_var(var);
  if (!object) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

metac_var* required_var(py::handle object, const char* what) {
  metac_var* const var = var_of(object.ptr());
  if (!var)
    raise_dtype_error(std::string(what) + " is of type " + Py_TYPE(object.ptr())->tp_name + "; it must be a metac.Var");
  return var;
}

std::vector<metac_var*> required_vars(const py::sequence& objects, const char* what) {
  std::vector<metac_var*> vars;
  for (const py::handle object : objects) vars.push_back(required_var(object, what));
  return vars;
}

py::list schemas() {
  py::list all;
  metac_schema schema{};
  schema.size = sizeof schema;
  for (int32_t index = 0; metac_operator_schema(index, &schema) == METAC_OK; ++index) {
    py::dict attributes;
    for (int32_t k = 0; k < schema.attribute_count; ++k)
      attributes[schema.attribute_names[k]] = py::make_tuple(schema.attribute_kinds[k], schema.attribute_required[k] != 0);
    all.append(py::make_tuple(schema.domain, schema.name, schema.min_inputs, schema.max_inputs, schema.min_outputs,
                              schema.max_outputs, attributes, schema.no_function));
  }
  return all;
}

// The values of attributes with the memory that a metac_attribute points to.
struct GivenAttribute {
  std::string name, text;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;
  std::vector<const char*> strings;
  std::unique_ptr<GivenArray> array;
  metac_tensor tensor{};
  metac_attribute attribute{};

  void take(py::handle value) {
    if (PyBool_Check(value.ptr()) || PyLong_Check(value.ptr())) {
      attribute.kind = METAC_INTEGER;
      attribute.integer = value.cast<int64_t>();
    } else if (PyFloat_Check(value.ptr())) {
      attribute.kind = METAC_REAL;
      attribute.real = value.cast<double>();
    } else if (PyUnicode_Check(value.ptr())) {
      attribute.kind = METAC_STRING;
      text = value.cast<std::string>();
      attribute.string = text.c_str();
    } else if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
      take_list(value.cast<py::sequence>());
    } else {
      attribute.kind = METAC_TENSOR;
      array = std::make_unique<GivenArray>("attribute", name, value, -1);
      array->gather();
      tensor = array->tensor();
      attribute.tensor = &tensor;
    }
    attribute.name = name.c_str();
  }

 private:
  void take_list(const py::sequence& values) {
    bool real = false, string = false;
    for (const py::handle value : values) {
      real |= PyFloat_Check(value.ptr()) != 0;
      string |= PyUnicode_Check(value.ptr()) != 0;
    }
    attribute.count = static_cast<int32_t>(values.size());
    if (string) {
      attribute.kind = METAC_STRINGS;
      for (const py::handle value : values) texts.push_back(value.cast<std::string>());
      for (const std::string& each : texts) strings.push_back(each.c_str());
      attribute.strings = strings.data();
    } else if (real) {
      attribute.kind = METAC_REALS;
      for (const py::handle value : values) reals.push_back(value.cast<double>());
      attribute.reals = reals.data();
    } else {
      attribute.kind = METAC_INTEGERS;
      for (const py::handle value : values)
        integers.push_back(py::int_(py::reinterpret_borrow<py::object>(value)).cast<int64_t>());
      attribute.integers = integers.data();
    }
  }
};

// The operator as a number, which apply() takes.
uintptr_t find_operator(const std::string& domain, const std::string& name, const py::dict& attributes) {
  std::vector<std::unique_ptr<GivenAttribute>> given;
  std::vector<metac_attribute> told;
  for (const auto& [key, value] : attributes) {
    if (value.is_none()) continue;
    given.push_back(std::make_unique<GivenAttribute>());
    given.back()->name = key.cast<std::string>();
    try {
      given.back()->take(value);
    } catch (const py::cast_error&) {
      raise_dtype_error(name + ": attribute " + given.back()->name + " is " + std::string(py::repr(value)));
    }
    told.push_back(given.back()->attribute);
  }
  const metac_operator* found = nullptr;
  check(metac_operator_find(domain.c_str(), name.c_str(), told.data(), static_cast<int32_t>(told.size()), &found));
  return reinterpret_cast<uintptr_t>(found);
}

// What an operand is that is no Var: lists of integers are constants, numbers what they stand beside.
metac_var* made_operand(py::handle value, metac_var* beside) {
  metac_var* made = nullptr;
  if (beside && (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()))) {
    check(metac_var_number(beside, PyFloat_AsDouble(value.ptr()), PyFloat_Check(value.ptr()), &made));
    return made;
  }
  bool constant = PyLong_Check(value.ptr()), numbers = constant || PyFloat_Check(value.ptr());
  if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
    const auto list = py::reinterpret_borrow<py::sequence>(value);
    constant = numbers = list.size() <= 64;
    for (const py::handle each : list) {
      constant &= PyLong_Check(each.ptr()) != 0;
      numbers &= PyLong_Check(each.ptr()) || PyFloat_Check(each.ptr());
    }
  }
  GivenArray array("operand", "", value, constant ? METAC_INT64 : -1);
  array.gather();
  const metac_tensor tensor = array.tensor();
  if (numbers && !constant && tensor.dtype == METAC_FLOAT64) {  // numbers of Python have no dtype: they are float32
    const double* const wide = static_cast<const double*>(tensor.data);
    const std::vector<float> elements(wide, wide + (tensor.rank > 0 ? tensor.dims[0] : 1));
    metac_tensor narrow = tensor;
    narrow.data = elements.data(), narrow.dtype = METAC_FLOAT32;
    check(metac_var_constant(&narrow, &made));
    return made;
  }
  check(constant ? metac_var_constant(&tensor, &made) : metac_var_from(&tensor, &made));
  return made;
}

// apply(operator, inputs, outputs, beside): a Var, or a tuple of them where outputs > 0.
PyObject* apply(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 4 || !PyTuple_Check(arguments[1])) {
    PyErr_SetString(PyExc_TypeError, "apply(operator, inputs, outputs, beside)");
    return nullptr;
  }
  const auto* applied = static_cast<const metac_operator*>(PyLong_AsVoidPtr(arguments[0]));
  PyObject* const inputs = arguments[1];
  const long outputs = PyLong_AsLong(arguments[2]);
  const bool beside = arguments[3] == Py_True;
  if (PyErr_Occurred()) return nullptr;
  const Py_ssize_t given = PyTuple_GET_SIZE(inputs);
  std::vector<metac_var*> own;  // made here
  PyObject* result = nullptr;
  try {
    metac_var* few[8];
    std::vector<metac_var*> many(given > 8 ? static_cast<size_t>(given) : 0);
    metac_var** const operands = many.empty() ? few : many.data();
    metac_var* first = nullptr;
    for (Py_ssize_t k = 0; k < given && !first; ++k) first = var_of(PyTuple_GET_ITEM(inputs, k));
    for (Py_ssize_t k = 0; k < given; ++k) {
      PyObject* const value = PyTuple_GET_ITEM(inputs, k);
      operands[k] = value == Py_None ? nullptr : var_of(value);
      if (operands[k] || value == Py_None) continue;
      operands[k] = made_operand(value, beside ? first : nullptr);
      own.push_back(operands[k]);
    }
    const int32_t wanted = outputs > 0 ? static_cast<int32_t>(outputs) : 1;
    metac_var* single = nullptr;
    std::vector<metac_var*> several(wanted > 1 ? static_cast<size_t>(wanted) : 0);
    metac_var** const made = wanted > 1 ? several.data() : &single;
    const metac_site site = call_site();
    check(metac_var_apply(applied, operands, static_cast<int32_t>(given), made, wanted, &site));
    if (outputs == 0) {
      result = python_var(single);
    } else {
      py::tuple all(wanted);
      for (int32_t k = 0; k < wanted; ++k) all[k] = owned_var(made[k]);
      result = all.release().ptr();
    }
  } catch (const Failure& failure) {
    set_error(failure.status, failure.message);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    set_error(METAC_INTERNAL, error.what());
  }
  for (metac_var* var : own) metac_var_free(var);
  return result;
}

PyMethodDef apply_method = {"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(apply)), METH_FASTCALL, nullptr};

py::tuple gradient(py::handle y, const py::sequence& xs) {
  std::vector<metac_var*> by = required_vars(xs, "what a gradient is taken by");
  std::vector<metac_var*> made(by.size());
  const metac_site site = call_site();
  metac_var* const of = required_var(y, "what is differentiated");
  check(metac_var_gradient(of, by.data(), static_cast<int32_t>(by.size()), made.data(), &site));
  py::tuple all(made.size());
  for (size_t k = 0; k < made.size(); ++k) all[k] = owned_var(made[k]);
  return all;
}

void evaluate(const py::sequence& vars) {
  const std::vector<metac_var*> all = required_vars(vars, "what is evaluated");
  const metac_site site = call_site();
  const py::gil_scoped_release unlocked;
  check(metac_var_evaluate(all.data(), static_cast<int32_t>(all.size()), &site));
}

// On the thread that looked, which may have given the interpreter's lock away. What the function raises is told and goes
// no further: the look that it stands in has nothing to do with it.
void fetched(void* user, metac_result* values) {
  const py::gil_scoped_acquire locked;
  const auto done = py::reinterpret_steal<py::object>(static_cast<PyObject*>(user));
  const Result result = owned(values);
  try {
    py::list arrays;
    for (int32_t k = 0; const metac_tensor* output = metac_result_output(values, k); ++k)
      arrays.append(py::cast(ResultArray(result, output)));
    done(arrays);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable(done);
  }
}

void fetch(const py::sequence& vars, py::object done) {
  const std::vector<metac_var*> all = required_vars(vars, "what is fetched");
  check(metac_var_fetch(all.data(), static_cast<int32_t>(all.size()), &fetched, done.ptr()));
  done.release();
}

void sync() {
  const metac_site site = call_site();
  const py::gil_scoped_release unlocked;
  check(metac_graph_sync(&site));
}

ResultArray read(py::handle var) {
  metac_var* const own = required_var(var, "what is read");
  const metac_site site = call_site();
  metac_result* result = nullptr;
  {
    const py::gil_scoped_release unlocked;
    check(metac_var_read(own, &result, &site));
  }
  return {owned(result), metac_result_output(result, 0)};
}

py::object cast(py::handle var, int32_t dtype) {
  const metac_site site = call_site();
  metac_var* made = nullptr;
  check(metac_var_cast(required_var(var, "what is cast"), dtype, &made, &site));
  return owned_var(made);
}

void assign(py::handle var, py::handle value) {
  const metac_site site = call_site();
  check(metac_var_assign(required_var(var, "what is assigned"), required_var(value, "the value"), &site));
}

py::dict report() {
  metac_graph_report now{};
  now.size = sizeof now;
  check(metac_graph_get_report(&now));
  py::dict told;
#define METAC_TELL(field) told[#field] = now.field
  METAC_TELL(nodes);
  METAC_TELL(looks);
  METAC_TELL(walks);
  METAC_TELL(compiled);
  METAC_TELL(pending);
  METAC_TELL(history);
  METAC_TELL(live);
#undef METAC_TELL
  return told;
}

}  // namespace

void define_operators(py::module_& module) {
  module.def("schemas", &schemas);
  module.def("find_operator", &find_operator);
  module.add_object("apply", py::reinterpret_steal<py::object>(PyCFunction_New(&apply_method, nullptr)));
  module.def("gradient", &gradient);
  module.def("evaluate", &evaluate);
  module.def("read", &read);
  module.def("exists", [](py::handle var) { return metac_var_exists(required_var(var, "what is asked for")) != 0; });
  module.def("cast", &cast);
  module.def("assign", &assign);
  module.def("fetch", &fetch);
  module.def("sync", &sync);
  module.def("no_grad", [](bool on) { return metac_no_grad(on) != 0; });
  module.def("graph_report", &report);
  py::dict dtypes;
  for (int32_t k = 0; k < element_type_count; ++k) dtypes[py::str(std::string(element_type(k).name))] = k;
  module.attr("dtypes") = dtypes;
}

}  // namespace metac_python
