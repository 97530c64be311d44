#include "python/extension/result_array.h"

#include "python/extension/dlpack.h"
#include "python/extension/element_types.h"
#include "python/extension/process.h"

namespace metac_python {
namespace {

char no_elements[1];  // an address for arrays without elements, which consumers want

// What a DLPack consumer holds: the description and the result. It is freed without the interpreter.
template <class Managed>
struct Exported {
  Managed managed{};
  Result result;
  std::vector<int64_t> dims, strides;
};

template <class Managed>
py::object capsule_of(std::unique_ptr<Exported<Managed>> exported) {
  exported->managed.manager = exported.get();
  exported->managed.deleter = [](Managed* managed) { delete static_cast<Exported<Managed>*>(managed->manager); };
  // A consumer renames the capsule; one that nobody took still has its name.
  PyObject* capsule = PyCapsule_New(&exported->managed, Managed::capsule, [](PyObject* unused) {
    if (!PyCapsule_IsValid(unused, Managed::capsule)) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(unused, Managed::capsule));
    managed->deleter(managed);
  });
  if (!capsule) throw py::error_already_set();
  exported.release();
  return py::reinterpret_steal<py::object>(capsule);
}

void free_result(metac_result* result, unsigned generation) {
  if (generation == process_generation()) metac_result_free(result);
}

}  // namespace

Result owned(metac_result* result) {
  return {result, [generation = process_generation()](metac_result* freed) { free_result(freed, generation); }};
}

ResultArray::ResultArray(Result result, const metac_tensor* tensor) : result_(std::move(result)), tensor_(tensor) {
  data_ = tensor->data ? const_cast<void*>(tensor->data) : no_elements;
  dims_.assign(tensor->dims, tensor->dims + tensor->rank);
  strides_.resize(dims_.size());
  Py_ssize_t step = element_type(tensor->dtype).bytes;
  for (size_t i = dims_.size(); i-- > 0; step *= dims_[i]) strides_[i] = step;
}

py::str ResultArray::dtype() const { return std::string(element_type(tensor_->dtype).name); }

py::tuple ResultArray::shape() const {
  py::tuple shape(dims_.size());
  for (size_t i = 0; i < dims_.size(); ++i) shape[i] = dims_[i];
  return shape;
}

int64_t ResultArray::size() const {
  int64_t count = 1;
  for (const Py_ssize_t dim : dims_) count *= dim;
  return count;
}

int64_t ResultArray::bytes() const { return size() * element_type(tensor_->dtype).bytes; }

int ResultArray::describe(Py_buffer* view, int flags) const {
  const bool fortran = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
  const int64_t rows = rank();
  int long_axes = 0;
  for (const Py_ssize_t dim : dims_) long_axes += dim != 1;
  if (fortran && rows > 1 && long_axes > 1 && size() > 0) {
    PyErr_SetString(PyExc_BufferError, "a metac.Array is row-major");
    return -1;
  }
  const ElementType& type = element_type(tensor_->dtype);
  view->buf = data_;
  view->len = bytes();
  view->itemsize = type.bytes;
  view->readonly = 0;
  view->ndim = static_cast<int>(rows);
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(type.format()) : nullptr;
  view->shape = flags & PyBUF_ND ? const_cast<Py_ssize_t*>(dims_.data()) : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? const_cast<Py_ssize_t*>(strides_.data()) : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

py::object ResultArray::dlpack(py::handle stream, py::handle max_version, py::handle dl_device, py::handle copy) const {
  const auto refuse = [](const char* message) {
    PyErr_SetString(PyExc_BufferError, message);
    throw py::error_already_set();
  };
  if (!stream.is_none()) refuse("a metac.Array is on the CPU, which has no streams: stream must be None");
  if (!dl_device.is_none() && dl_device.cast<py::tuple>()[0].cast<int>() != dlpack_cpu)
    refuse("a metac.Array is on the CPU");
  if (!copy.is_none() && copy.cast<bool>()) refuse("a metac.Array is handed out in place: copy it behind, or use copy=None");
  const auto describe = [&](auto& exported) {
    const ElementType& type = element_type(tensor_->dtype);
    exported->result = result_;
    exported->dims.assign(dims_.begin(), dims_.end());
    for (const Py_ssize_t stride : strides_) exported->strides.push_back(stride / type.bytes);
    exported->managed.tensor = {data_,
                                dlpack_cpu,
                                0,
                                static_cast<int32_t>(rank()),
                                type.dlpack_code(),
                                static_cast<uint8_t>(type.bytes * 8),
                                1,
                                exported->dims.data(),
                                exported->strides.data(),
                                0};
  };
  if (!max_version.is_none() && max_version.cast<py::tuple>()[0].cast<int>() >= 1) {
    auto exported = std::make_unique<Exported<DlpackVersioned>>();
    describe(exported);
    exported->managed.major = 1;
    return capsule_of(std::move(exported));
  }
  auto exported = std::make_unique<Exported<DlpackManaged>>();
  describe(exported);
  return capsule_of(std::move(exported));
}

void define_result_array(py::module_& module) {
  // pybind11's own buffers allocate at each call and have no letters for half types.
  const auto setup = py::custom_type_setup([](PyHeapTypeObject* type) {
    type->ht_type.tp_new = [](PyTypeObject*, PyObject*, PyObject*) -> PyObject* {  // one without a result
      PyErr_SetString(PyExc_TypeError, "a metac.Array is made by Session.run() alone");
      return nullptr;
    };
    type->ht_type.tp_as_buffer = &type->as_buffer;
    type->as_buffer.bf_getbuffer = [](PyObject* self, Py_buffer* view, int flags) {
      view->obj = nullptr;
      const int status = py::cast<const ResultArray&>(py::handle(self)).describe(view, flags);
      if (status == 0) {
        Py_INCREF(self);
        view->obj = self;
      }
      return status;
    };
  });
  py::class_<ResultArray> array(
      module, "Array", setup,
      "An output: row-major elements in the memory of its run's result, which lives as long as any array "
      "over it.\n\nIt has the buffer protocol (memoryview, numpy.asarray; bfloat16 comes as its bits in "
      "uint16) and DLPack (torch.from_dlpack, numpy.from_dlpack), neither of which copies.");
  array.def_property_readonly("dtype", &ResultArray::dtype, "\"float32\", \"bfloat16\", ...")
      .def_property_readonly("shape", &ResultArray::shape, "The dims, a tuple of numbers.")
      .def_property_readonly("ndim", &ResultArray::rank, "How many dims there are.")
      .def_property_readonly("size", &ResultArray::size, "How many elements there are.")
      .def_property_readonly("nbytes", &ResultArray::bytes, "Bytes of the elements.")
      .def("__dlpack__", &ResultArray::dlpack, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const ResultArray&) { return py::make_tuple(int{dlpack_cpu}, 0); })
      .def("__repr__",
           [](const ResultArray& array) { return py::str("<metac.Array {} {}>").format(array.dtype(), array.shape()); });
  array.attr("__module__") = "metac";
}

}  // namespace metac_python
