// metac._metac.Optimiser, and Vars on their way into calls and out of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "python/extension/var_type.h"

namespace metac_python {

// A new object; takes the handle.
py::object held_var(metac_var* var);
// Handles of objects, which stay their own. Raises DTypeError where one is no Var.
metac_var* var_handle(py::handle var);
std::vector<metac_var*> handles_of(const py::list& vars);

class Optimiser {
 public:
  Optimiser(const std::string& text, const std::vector<std::string>& names, const py::list& parameters);
  metac_optimiser* get() const { return optimiser_.get(); }
  void step(const py::list& gradients, double rate);
  bool trains(int32_t parameter) const;
  py::list slots(int32_t parameter) const;
  int64_t steps() const;
  void set_steps(int64_t steps);

 private:
  struct Freed {
    void operator()(metac_optimiser* optimiser) const { metac_optimiser_free(optimiser); }
  };
  std::unique_ptr<metac_optimiser, Freed> optimiser_;
};

}  // namespace metac_python
