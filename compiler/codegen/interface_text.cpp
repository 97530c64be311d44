#include "compiler/codegen/interface_text.h"

#include <utility>
#include <vector>

#include "compiler/codegen/fill_template.h"
#include "compiler/support/diagnostic.h"
#include "runtime/metac_model.h"

namespace metac {

void check_ports(const CompiledProgram& run) {
  for (const auto& [what, ports] : {std::pair{"input ", &run.inputs}, std::pair{"output ", &run.outputs}})
    for (const CompiledPort& port : *ports) {
      if (!is_numeric(port.dtype)) fail(what, quoted(port.name), " holds strings, which the C interface does not carry");
      if (port.dims.size() > METAC_MODEL_MAX_RANK)
        fail(what, quoted(port.name), " has ", port.dims.size(), " dims; the C interface carries ", METAC_MODEL_MAX_RANK);
    }
}

std::string port_comment(const CompiledProgram& run) {
  std::string text;
  const std::pair<const char*, std::vector<CompiledPort>> lists[] = {
      {"input", run.given_inputs()}, {"output", run.given_outputs()}, {"state", run.state_ports()}};
  for (const auto& [what, ports] : lists) {
    for (size_t i = 0; i < ports.size(); ++i) {
      const CompiledPort& port = ports[i];
      std::string dims;
      for (const std::string& d : port.dims) dims += (dims.empty() ? "" : " x ") + comment_name(d, "?");
      text += concat(" * ", what, " ", i, ": ", comment_name(port.name, "(see its name)"), ", ", metac::name_of(port.dtype),
                     " ", dims.empty() ? "scalar" : dims, "\n");
    }
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace metac
