#include "compiler/codegen/text/interface_text.h"

#include <utility>
#include <vector>

#include "compiler/codegen/text/program_text.h"
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

namespace {

// As has_open_batch() of runtime/queue/rows.h sees it when the library runs.
bool has_open_batch(const CompiledProgram& run) {
  std::vector<PortRow> rows = port_rows(run, run.given_inputs());
  if (!run.states.empty() || rows.empty()) return false;
  for (PortRow& row : port_rows(run, run.given_outputs())) rows.push_back(std::move(row));
  for (const PortRow& row : rows)
    if (row.dims.empty() || row.dims[0] >= 0 || row.dim_names[0] != rows[0].dim_names[0]) return false;
  return true;
}

}  // namespace

void fill_queue(const CompiledProgram& run, TemplateValues& values) {
  const bool batches = has_open_batch(run);
  values["queue_file"] = batches ? "batch_queue" : "refused_queue";
  values["queue_type"] = batches ? "BatchQueue" : "RefusedQueue";
  fill_pieces(values, true,
              {"queue_declarations=queue/api.h", "queue_class=queue/api.hpp", "queue_method=queue/python_method.py",
               "queue_structures=queue/python_structures.py", "queue_signatures=queue/python_signatures.py",
               "queue_classes=queue/python.py"});
}

}  // namespace metac
