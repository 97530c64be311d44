// A session as Python's threads share it.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "metac/metac.h"
#include "python/extension/call.h"
#include "python/extension/stream.h"

namespace metac_python {

namespace py = pybind11;

class Session {
 public:
  // path and contents: bytes and a buffer, one of them None. dims: a list of (name, min, max, divisor). states: "auto", or a
  // list of (input, output).
  Session(py::object path, py::object contents, const std::string& specialise, int64_t threads, int64_t max_contexts,
          int64_t max_specialisations, int64_t max_memory, const py::list& dims, const std::string& cpu,
          const std::string& target, py::handle states, const std::vector<std::string>& ops,
          const std::string& precision);
  ~Session() { close(); }

  // (name, dtype or None, dims or None) of each.
  py::list inputs() const;
  py::list outputs() const;
  py::list states() const;
  Stream stream() const;
  // A list of (name, ResultArray).
  py::list run(py::handle inputs);
  void set_weights(py::handle weights);
  void wait();
  py::dict report() const;
  void close();
  bool closed() const { return !session_; }

 private:
  using Shared = std::shared_ptr<metac_session>;
  Shared usable() const;  // a call's own hold: close() beside it does not take the session away

  Shared session_;
  Ports ports_;
  unsigned generation_ = 0;
};

void define_session(py::module_& module);

}  // namespace metac_python
