// metac.Array: an output, over the memory of its result.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "metac/metac.h"

namespace metac_python {

namespace py = pybind11;

using Result = std::shared_ptr<const metac_result>;
// Takes the result. In a child of fork it is not freed: its session's locks may be held by threads that are not there.
Result owned(metac_result* result);

class ResultArray {
 public:
  ResultArray(Result result, const metac_tensor* tensor);

  py::str dtype() const;
  py::tuple shape() const;
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  int64_t size() const;
  int64_t bytes() const;
  py::object dlpack(py::handle stream, py::handle max_version, py::handle dl_device, py::handle copy) const;

  // Fills a buffer's description; what it may point to lives as long as this. Raises BufferError.
  int describe(Py_buffer* view, int flags) const;

 private:
  Result result_;
  const metac_tensor* tensor_;
  void* data_;
  std::vector<Py_ssize_t> dims_, strides_;  // strides in bytes
};

void define_result_array(py::module_& module);

}  // namespace metac_python
