// A stream of a session as Python's threads share it.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "metac/metac.h"
#include "python/extension/call.h"

namespace metac_python {

// A caller of a session with states of its own; it holds the session.
class Stream {
 public:
  // `session`: whatever keeps the session open.
  Stream(std::shared_ptr<void> session, metac_stream* stream, const Ports& ports);

  py::list run(py::handle inputs);
  void reset();
  ResultArray get(py::handle state) const;
  void set(py::handle states);
  void truncate(int64_t length);
  Stream fork() const;
  void close() { stream_.reset(); }
  bool closed() const { return !stream_; }

 private:
  using Shared = std::shared_ptr<metac_stream>;
  Shared usable() const;

  Shared stream_;
  Ports ports_;
  unsigned generation_;
};

void define_stream(py::module_& module);

}  // namespace metac_python
