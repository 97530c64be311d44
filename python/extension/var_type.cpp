#include "python/extension/var_type.h"

#include "python/extension/call_site.h"
#include "python/extension/element_types.h"
#include "python/extension/failure.h"
#include "python/extension/given_array.h"
#include "python/extension/result_array.h"

namespace metac_python {
namespace {

struct VarObject {
  PyObject_HEAD metac_var* var;
};

PyTypeObject* base_type = nullptr;  // VarBase
PyTypeObject* user_type = nullptr;  // metac.Var

// What a call of the C interface gave, or its error.
PyObject* result_of(metac_status status, metac_var* const& made) {
  if (status == METAC_OK) return python_var(made);
  set_error(status, metac_last_error());
  return nullptr;
}

metac_tensor type_of(PyObject* self) {
  metac_tensor type{};
  if (metac_var* var = var_of(self)) metac_var_type(var, &type);
  return type;
}

// Of lists, arrays and numbers that stand beside a Var: a new Var of its elements. NULL with an exception set.
PyObject* var_of_array(PyObject* value, int32_t dtype) noexcept {
  try {
    GivenArray array("operand", "", value, dtype);
    array.gather();
    const metac_tensor tensor = array.tensor();
    metac_var* made = nullptr;
    check(metac_var_from(&tensor, &made));
    return python_var(made);
  } catch (const Failure& failure) {
    set_error(failure.status, failure.message);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    set_error(METAC_INTERNAL, error.what());
  }
  return nullptr;
}

// A number of Python's own; 0: it is none, -1: an exception is set.
int number_of(PyObject* object, double* value, int32_t* is_real) {
  if (PyFloat_Check(object)) {
    *value = PyFloat_AS_DOUBLE(object);
    *is_real = 1;
    return 1;
  }
  if (!PyLong_Check(object)) return 0;
  *value = PyLong_AsDouble(object);
  *is_real = 0;
  return *value == -1.0 && PyErr_Occurred() ? -1 : 1;
}

bool is_array(PyObject* object) {
  return PyObject_CheckBuffer(object) || PyObject_HasAttrString(object, "__dlpack__") ||
         PyObject_HasAttrString(object, "__array__");
}

PyObject* arithmetic(int32_t what, PyObject* left, PyObject* right) {
  metac_var *a = var_of(left), *b = var_of(right), *made = nullptr;
  const metac_site site = call_site();
  if (a && b) return result_of(metac_var_arithmetic(what, a, b, &made, &site), made);
  PyObject* const other = a ? right : left;
  double value = 0;
  int32_t is_real = 0;
  const int number = number_of(other, &value, &is_real);
  if (number < 0) return nullptr;
  if (number > 0)
    return result_of(metac_var_arithmetic_number(what, a ? a : b, value, is_real, a == nullptr, &made, &site), made);
  if (!is_array(other)) Py_RETURN_NOTIMPLEMENTED;
  PyObject* const array = var_of_array(other, -1);
  if (!array) return nullptr;
  PyObject* const result = arithmetic(what, a ? left : array, a ? array : right);
  Py_DECREF(array);
  return result;
}

template <int32_t what>
PyObject* binary(PyObject* left, PyObject* right) {
  return arithmetic(what, left, right);
}

PyObject* power(PyObject* left, PyObject* right, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return arithmetic(METAC_POWER, left, right);
}

PyObject* compare(PyObject* left, PyObject* right, int how) {
  static constexpr int32_t whats[] = {METAC_LESS,      METAC_LESS_EQUAL, METAC_EQUAL,
                                      METAC_NOT_EQUAL, METAC_GREATER,    METAC_GREATER_EQUAL};
  return arithmetic(whats[how], left, right);
}

PyObject* unary(PyObject* self, const metac_operator** kept, const char* name) {
  metac_var *operand = var_of(self), *made = nullptr;
  if (!*kept)
    if (const metac_status status = metac_operator_find("", name, nullptr, 0, kept)) return result_of(status, made);
  const metac_site site = call_site();
  return result_of(metac_var_apply(*kept, &operand, 1, &made, 1, &site), made);
}
PyObject* negative(PyObject* self) {
  static const metac_operator* kept = nullptr;
  return unary(self, &kept, "Neg");
}
PyObject* absolute(PyObject* self) {
  static const metac_operator* kept = nullptr;
  return unary(self, &kept, "Abs");
}
PyObject* invert(PyObject* self) {
  static const metac_operator *truths = nullptr, *whole = nullptr;
  return type_of(self).dtype == METAC_BOOL ? unary(self, &truths, "Not") : unary(self, &whole, "BitwiseNot");
}
PyObject* positive(PyObject* self) {
  Py_INCREF(self);
  return self;
}

Py_hash_t hash(PyObject* self) { return _Py_HashPointer(self); }

void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  metac_var_free(reinterpret_cast<VarObject*>(self)->var);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* get_shape(PyObject* self, void*) {
  const metac_tensor type = type_of(self);
  PyObject* const shape = PyTuple_New(type.rank);
  for (int32_t k = 0; shape && k < type.rank; ++k) PyTuple_SET_ITEM(shape, k, PyLong_FromLongLong(type.dims[k]));
  return shape;
}
PyObject* get_dtype(PyObject* self, void*) {
  const std::string_view name = element_type(type_of(self).dtype).name;
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}
PyObject* get_rank(PyObject* self, void*) { return PyLong_FromLong(type_of(self).rank); }

PyGetSetDef attributes[] = {{"shape", get_shape, nullptr, "The dims, a tuple of int.", nullptr},
                            {"dtype", get_dtype, nullptr, "The name of the element type: \"float32\".", nullptr},
                            {"ndim", get_rank, nullptr, "The number of dims.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

metac_var* var_of(PyObject* object) {
  return Py_TYPE(object) == user_type || PyObject_TypeCheck(object, base_type) ? reinterpret_cast<VarObject*>(object)->var
                                                                               : nullptr;
}

PyObject* python_var(metac_var* var) {
  PyTypeObject* const type = user_type ? user_type : base_type;
  PyObject* const object = type->tp_alloc(type, 0);
  if (!object) {
    metac_var_free(var);
    return nullptr;
  }
  reinterpret_cast<VarObject*>(object)->var = var;
  return object;
}

void define_var(py::module_& module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, slot(dealloc)},
      {Py_tp_hash, slot(hash)},
      {Py_tp_richcompare, slot(compare)},
      {Py_tp_getset, attributes},
      {Py_nb_add, slot(binary<METAC_ADD>)},
      {Py_nb_subtract, slot(binary<METAC_SUBTRACT>)},
      {Py_nb_multiply, slot(binary<METAC_MULTIPLY>)},
      {Py_nb_true_divide, slot(binary<METAC_DIVIDE>)},
      {Py_nb_floor_divide, slot(binary<METAC_FLOOR_DIVIDE>)},
      {Py_nb_remainder, slot(binary<METAC_MODULO>)},
      {Py_nb_matrix_multiply, slot(binary<METAC_MATMUL>)},
      {Py_nb_and, slot(binary<METAC_AND>)},
      {Py_nb_or, slot(binary<METAC_OR>)},
      {Py_nb_xor, slot(binary<METAC_XOR>)},
      {Py_nb_power, slot(power)},
      {Py_nb_negative, slot(negative)},
      {Py_nb_positive, slot(positive)},
      {Py_nb_absolute, slot(absolute)},
      {Py_nb_invert, slot(invert)},
      {0, nullptr},
  };
  static PyType_Spec spec = {"metac._metac.VarBase", sizeof(VarObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  base_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!base_type) throw py::error_already_set();
  module.add_object("VarBase", py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(base_type)));
  module.def("use_var_type", [](py::type type, const std::string& package_folder) {
    user_type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
    set_package_folder(package_folder.c_str());
  });
  // `dtype` is a metac_dtype that lists and numbers become, -1: what they are; constants become part of the structure.
  module.def("array", [](py::handle value, int32_t dtype, bool constant) {
    GivenArray array("array", "", value, dtype);
    array.gather();
    const metac_tensor tensor = array.tensor();
    metac_var* made = nullptr;
    check(constant ? metac_var_constant(&tensor, &made) : metac_var_from(&tensor, &made));
    return py::reinterpret_steal<py::object>(python_var(made));
  });
}

}  // namespace metac_python
