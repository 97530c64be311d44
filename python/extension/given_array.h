// What a caller gives for an input or a weight, as a metac_tensor over its own memory.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "metac/metac.h"
#include "python/extension/dlpack.h"

namespace metac_python {

namespace py = pybind11;

// Holds an array by its buffer or its DLPack capsule until destroyed, with the interpreter's lock held.
class GivenArray {
 public:
  // what: "input" or "weight"; wanted: the metac_dtype that the model has for it, -1 if that is not known. Raises
  // DTypeError.
  GivenArray(const char* what, std::string name, py::handle value, int32_t wanted);
  ~GivenArray();
  GivenArray(const GivenArray&) = delete;
  GivenArray& operator=(const GivenArray&) = delete;

  // Copies what is not row-major, contiguous and aligned. Needs no lock of the interpreter.
  void gather();
  // Valid while this lives, after gather().
  metac_tensor tensor() const;

 private:
  bool take_buffer(py::handle value);
  bool take_dlpack(py::handle value);
  void describe(const DlpackTensor& tensor);
  [[noreturn]] void refuse_dtype(const std::string& given) const;
  [[noreturn]] void refuse_dlpack(py::handle value, const py::error_already_set& error) const;

  std::string what_, name_;
  int32_t wanted_, dtype_ = -1;
  bool bfloat16_bits_ = false;  // uint16, made of an array of bfloat16
  Py_buffer buffer_{};          // .obj is NULL if there is none
  py::object capsule_;
  const char* data_ = nullptr;
  std::vector<int64_t> dims_, strides_;  // strides in bytes
  std::unique_ptr<char[]> copy_;
};

}  // namespace metac_python
