#include "python/extension/optimiser.h"

#include "python/extension/call_site.h"
#include "python/extension/failure.h"
#include "python/extension/operators.h"

namespace metac_python {

py::object held_var(metac_var* var) {
  PyObject* const object = python_var(var);
  if (!object) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

metac_var* var_handle(py::handle var) {
  metac_var* const handle = var_of(var.ptr());
  if (!handle) raise_dtype_error(std::string(Py_TYPE(var.ptr())->tp_name) + " is no metac.Var");
  return handle;
}

std::vector<metac_var*> handles_of(const py::list& vars) {
  std::vector<metac_var*> handles;
  for (const py::handle var : vars) handles.push_back(var_handle(var));
  return handles;
}

Optimiser::Optimiser(const std::string& text, const std::vector<std::string>& names, const py::list& parameters) {
  const std::vector<metac_var*> handles = handles_of(parameters);
  std::vector<const char*> given;
  for (const std::string& name : names) given.push_back(name.c_str());
  metac_optimiser* made = nullptr;
  check(metac_optimiser_make_named(text.c_str(), handles.data(), given.data(), static_cast<int32_t>(handles.size()), &made));
  optimiser_.reset(made);
}

void Optimiser::step(const py::list& gradients, double rate) {
  const std::vector<metac_var*> handles = handles_of(gradients);
  const metac_site site = call_site();
  metac_status status;
  std::string message;
  {
    const py::gil_scoped_release unlocked;  // several processes wait for each other here
    status = metac_optimiser_step(optimiser_.get(), handles.data(), static_cast<int32_t>(handles.size()), rate, &site);
    if (status != METAC_OK) message = metac_last_error();
  }
  if (status != METAC_OK) throw Failure{status, message};
}

bool Optimiser::trains(int32_t parameter) const {
  int32_t trains = 0;
  check(metac_optimiser_trains(optimiser_.get(), parameter, &trains));
  return trains != 0;
}

py::list Optimiser::slots(int32_t parameter) const {
  py::list all;
  metac_var* var = nullptr;
  const char* name = nullptr;
  for (int32_t k = 0; metac_optimiser_slot(optimiser_.get(), parameter, k, &var, &name) == METAC_OK; ++k)
    all.append(py::make_tuple(name, held_var(var)));
  return all;
}

int64_t Optimiser::steps() const {
  int64_t steps = 0;
  check(metac_optimiser_steps(optimiser_.get(), &steps, 0));
  return steps;
}

void Optimiser::set_steps(int64_t steps) { check(metac_optimiser_steps(optimiser_.get(), &steps, 1)); }

namespace {

py::object loss(const std::string& text, py::handle output, py::handle target) {
  const metac_site site = call_site();
  metac_var* made = nullptr;
  check(metac_var_loss(text.c_str(), var_handle(output), var_handle(target), &made, &site));
  return held_var(made);
}

py::object losses(const std::string& text, py::handle output, py::handle target) {
  const metac_site site = call_site();
  metac_var* made = nullptr;
  check(metac_var_losses(text.c_str(), var_handle(output), var_handle(target), &made, &site));
  return held_var(made);
}

}  // namespace

void define_optimiser(py::module_& module) {
  module.def("loss", &loss);
  module.def("losses", &losses);
  py::class_<Optimiser>(module, "Optimiser")
      .def(py::init<const std::string&, const std::vector<std::string>&, const py::list&>())
      .def("step", &Optimiser::step)
      .def("trains", &Optimiser::trains)
      .def("slots", &Optimiser::slots)
      .def_property("steps", &Optimiser::steps, &Optimiser::set_steps);
}

}  // namespace metac_python
