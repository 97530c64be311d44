#include "python/extension/given_array.h"

#include <cstring>
#include <optional>

#include "python/extension/element_types.h"
#include "python/extension/failure.h"

namespace metac_python {
namespace {

int64_t count_of(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

template <int bytes>
void copy_row(char* to, const char* from, int64_t count, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + i * stride, bytes);
}

// Writes the elements from axis `axis` on one behind the other; where the next one goes.
char* copy_strided(char* to, const char* from, const int64_t* dims, const int64_t* strides, size_t rank, int bytes) {
  if (rank > 1) {
    for (int64_t i = 0; i < dims[0]; ++i)
      to = copy_strided(to, from + i * strides[0], dims + 1, strides + 1, rank - 1, bytes);
    return to;
  }
  const int64_t count = rank == 0 ? 1 : dims[0], stride = rank == 0 ? 0 : strides[0];
  if (bytes == 1)
    copy_row<1>(to, from, count, stride);
  else if (bytes == 2)
    copy_row<2>(to, from, count, stride);
  else if (bytes == 4)
    copy_row<4>(to, from, count, stride);
  else
    copy_row<8>(to, from, count, stride);
  return to + count * bytes;
}

bool is_row_major(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t bytes) {
  for (size_t i = dims.size(); i-- > 0; bytes *= dims[i])
    if (dims[i] != 1 && strides[i] != bytes) return false;
  return true;
}

}  // namespace

GivenArray::GivenArray(const char* what, std::string name, py::handle given, int32_t wanted)
    : what_(what), name_(std::move(name)), wanted_(wanted) {
  if (take_buffer(given)) return;
  // ml_dtypes' bfloat16, of which NumPy makes neither a buffer nor a DLPack capsule: its bits are taken.
  py::object value = py::reinterpret_borrow<py::object>(given);
  if (py::hasattr(value, "dtype") && py::hasattr(value, "view") && std::string(py::str(value.attr("dtype"))) == "bfloat16") {
    value = value.attr("view")("uint16");
    bfloat16_bits_ = true;
  }
  if ((bfloat16_bits_ && take_buffer(value)) || take_dlpack(value)) return;
  const py::object model_dtype = wanted_ < 0 ? py::object(py::none()) : py::str(std::string(element_type(wanted_).name));
  value = py::module_::import("metac.exact").attr("array_of")(value, model_dtype, what_ + " \"" + name_ + "\"");
  if (!take_buffer(value)) refuse_dtype(py::str(value.attr("dtype")));
}

GivenArray::~GivenArray() { PyBuffer_Release(&buffer_); }

bool GivenArray::take_buffer(py::handle value) {
  if (!PyObject_CheckBuffer(value.ptr())) return false;
  if (PyObject_GetBuffer(value.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();  // the type has buffers, this object does not: elements that Python has no letter for, a device's memory
    return false;
  }
  const char* format = buffer_.format ? buffer_.format : "B";
  const std::optional<int32_t> dtype = dtype_of_format(format, buffer_.itemsize);
  if (!dtype) {
    const py::object named = py::getattr(value, "dtype", py::none());
    const std::string text = named.is_none() ? "elements of format " + std::string(format) : std::string(py::str(named));
    PyBuffer_Release(&buffer_);
    refuse_dtype(text);
  }
  dtype_ = *dtype;
  if (dtype_ == METAC_UINT16 && (wanted_ == METAC_BFLOAT16 || bfloat16_bits_)) dtype_ = METAC_BFLOAT16;
  data_ = static_cast<const char*>(buffer_.buf);
  dims_.assign(buffer_.shape, buffer_.shape + buffer_.ndim);
  strides_.assign(buffer_.strides, buffer_.strides + buffer_.ndim);
  if (wanted_ >= 0 && dtype_ != wanted_) {
    PyBuffer_Release(&buffer_);
    refuse_dtype(std::string(element_type(dtype_).name));
  }
  return true;
}

bool GivenArray::take_dlpack(py::handle value) {
  if (!py::hasattr(value, "__dlpack__") || !py::hasattr(value, "__dlpack_device__")) return false;
  const int device = value.attr("__dlpack_device__")().cast<py::tuple>()[0].cast<int>();
  if (device != dlpack_cpu && device != dlpack_cuda_host && device != dlpack_rocm_host)
    throw Failure{METAC_INVALID_ARGUMENT, what_ + " \"" + name_ + "\" is on a device (DLPack's device type " +
                                              std::to_string(device) + "): copy it to the CPU first"};
  try {
    capsule_ = value.attr("__dlpack__")(py::arg("max_version") = py::make_tuple(1, 0));
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) refuse_dlpack(value, error);
    try {
      capsule_ = value.attr("__dlpack__")();  // of before DLPack 1
    } catch (const py::error_already_set& second) {
      refuse_dlpack(value, second);
    }
  }
  // The capsule is kept and not marked as used, so that its own destructor gives the memory back.
  if (PyCapsule_IsValid(capsule_.ptr(), DlpackVersioned::capsule)) {
    const auto* managed = static_cast<DlpackVersioned*>(PyCapsule_GetPointer(capsule_.ptr(), DlpackVersioned::capsule));
    if (managed->major != 1)
      raise_dtype_error(what_ + " \"" + name_ + "\" comes as DLPack " + std::to_string(managed->major) +
                        ", metac reads DLPack 1");
    describe(managed->tensor);
  } else if (PyCapsule_IsValid(capsule_.ptr(), DlpackManaged::capsule)) {
    describe(static_cast<DlpackManaged*>(PyCapsule_GetPointer(capsule_.ptr(), DlpackManaged::capsule))->tensor);
  } else {
    raise_dtype_error(what_ + " \"" + name_ + "\": __dlpack__ answers with no capsule of DLPack");
  }
  return true;
}

void GivenArray::describe(const DlpackTensor& tensor) {
  const std::optional<int32_t> dtype = dtype_of_dlpack(tensor.code, tensor.bits, tensor.lanes);
  if (!dtype)
    refuse_dtype("elements of " + std::to_string(tensor.bits) + " bits that DLPack numbers " + std::to_string(tensor.code));
  dtype_ = *dtype;
  if (dtype_ == METAC_UINT16 && (wanted_ == METAC_BFLOAT16 || bfloat16_bits_)) dtype_ = METAC_BFLOAT16;
  if (wanted_ >= 0 && dtype_ != wanted_) refuse_dtype(std::string(element_type(dtype_).name));
  const int64_t bytes = element_type(dtype_).bytes;
  data_ = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  dims_.assign(tensor.dims, tensor.dims + tensor.rank);
  strides_.resize(dims_.size());
  int64_t step = bytes;
  for (size_t i = dims_.size(); i-- > 0; step *= dims_[i]) strides_[i] = tensor.strides ? tensor.strides[i] * bytes : step;
}

void GivenArray::refuse_dtype(const std::string& given) const {
  const std::string wanted = wanted_ < 0                 ? "numbers or truth values"
                             : wanted_ == METAC_BFLOAT16 ? "bfloat16 (by DLPack, of ml_dtypes, or its bits as uint16)"
                                                         : std::string(element_type(wanted_).name);
  raise_dtype_error(what_ + " \"" + name_ + "\": the model wants " + wanted + ", given is " + given);
}

// BufferError is how an array says that DLPack does not have its elements, or that it may not be read as it is.
void GivenArray::refuse_dlpack(py::handle value, const py::error_already_set& error) const {
  if (!error.matches(PyExc_BufferError)) throw error;
  const std::string dtype = py::str(py::getattr(value, "dtype", py::str("an unknown dtype")));
  raise_dtype_error(what_ + " \"" + name_ + "\" is of " + dtype + ": " + std::string(py::str(error.value())));
}

void GivenArray::gather() {
  const int bytes = element_type(dtype_).bytes;
  const int64_t count = count_of(dims_);
  const bool aligned = reinterpret_cast<uintptr_t>(data_) % bytes == 0;
  if (count == 0 || (aligned && is_row_major(dims_, strides_, bytes))) return;
  copy_.reset(new char[static_cast<size_t>(count * bytes)]);
  copy_strided(copy_.get(), data_, dims_.data(), strides_.data(), dims_.size(), bytes);
  data_ = copy_.get();
}

metac_tensor GivenArray::tensor() const {
  metac_tensor tensor{};
  tensor.name = name_.c_str();
  tensor.data = data_;
  tensor.dims = dims_.data();
  tensor.rank = static_cast<int32_t>(dims_.size());
  tensor.dtype = dtype_;
  return tensor;
}

}  // namespace metac_python
