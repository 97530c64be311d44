#include "python/extension/definitions.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "metac/metac.h"
#include "python/extension/failure.h"

namespace metac_python {
namespace {

void define(const std::string& signature, const std::string& formula,
            const std::vector<std::pair<std::string, std::string>>& gradient, bool fusible) {
  std::vector<const char*> operands, formulas;
  for (const auto& [operand, by] : gradient) operands.push_back(operand.c_str()), formulas.push_back(by.c_str());
  metac_definition definition{};
  definition.size = sizeof definition;
  definition.signature = signature.c_str();
  definition.body = formula.c_str();
  definition.operands = operands.data();
  definition.gradients = formulas.data();
  definition.gradient_count = static_cast<int32_t>(operands.size());
  definition.is_stored = fusible ? 0 : 1;
  check(metac_define(&definition));
}

void define_file(const std::string& path) { check(metac_define_file(path.c_str())); }

}  // namespace

void define_definitions(py::module_& module) {
  module.def("define", &define);
  module.def("define_file", &define_file);
}

}  // namespace metac_python
