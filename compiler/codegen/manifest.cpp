#include "compiler/codegen/manifest.h"

#include <nlohmann/json.hpp>
#include <set>

#include "compiler/codegen/carried_model.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/program_work.h"
#include "compiler/support/hashing.h"

namespace metac {
namespace {

using Json = nlohmann::ordered_json;

Json ports(const std::vector<CompiledPort>& ports) {
  Json list = Json::array();
  for (const CompiledPort& port : ports)
    list.push_back({{"name", port.name}, {"dtype", name_of(port.dtype)}, {"dims", port.dims}});
  return list;
}

Json states_of(const CompiledProgram& program) {
  static const char* const kept[] = {"two places", "written over", "grows in its place", "stays as it is"};
  Json list = Json::array();
  for (const rt::StateInfo& s : program.states) {
    const CompiledPort& input = program.inputs[static_cast<size_t>(s.input)];
    list.push_back({{"input", input.name},
                    {"output", program.outputs[static_cast<size_t>(s.output)].name},
                    {"dtype", name_of(input.dtype)},
                    {"dims", input.dims},
                    {"kept", kept[static_cast<size_t>(s.kept)]}});
    if (s.axis >= 0) list.back()["axis"] = s.axis;
  }
  return list;
}

Json node(const ProjectOptions& options, int index) {
  Json row = {{"index", index}};
  if (index >= 0 && static_cast<size_t>(index) < options.nodes.size()) {
    row["name"] = options.nodes[static_cast<size_t>(index)].name;
    row["operator"] = options.nodes[static_cast<size_t>(index)].op_type;
  }
  return row;
}

// A number, null where only a run knows it; an expression where open dims decide it (dims as symbols[k] is n<k>).
Json amount(Expr e) {
  if (!e) return nullptr;
  return e.if_int() ? Json(e.as_int()) : Json(to_string(e));
}

Json kernel(const KernelSource& source, const KernelWork& work, const ProjectOptions& options, const std::string& file) {
  Json nodes = Json::array();
  for (int index : source.nodes) nodes.push_back(node(options, index));
  Json row = {{"name", source.name}, {"file", file}, {"nodes", nodes}, {"schedule", source.schedule}};
  row["reads"] = source.reads;
  row["writes"] = source.writes;
  row["multiplies"] = source.multiplies;
  row["launches"] = work.launches ? Json(*work.launches) : Json(nullptr);
  row["flops"] = amount(work.work.operations);
  row["bytes"] = amount(work.work.bytes);
  if (!source.libraries.empty()) row["libraries"] = source.libraries;
  return row;
}

// What is said of every program.
Json about(const LibraryProgram& program, const ProjectOptions& options, const std::vector<std::string>& kernel_files,
           int64_t weight_bytes) {
  const CompiledModel& model = *program.model;
  Json kernels = Json::array();
  const std::vector<KernelWork> works = kernel_works(model, model.run);
  for (size_t k = 0; k < model.run.kernels.size(); ++k)
    kernels.push_back(kernel(model.run.kernels[k], works[k], options, kernel_files[k]));
  const bool planned = is_planned_ahead(model.run);
  const auto if_planned = [&](int64_t bytes) { return planned ? Json(bytes) : Json(nullptr); };
  return {{"inputs", ports(model.run.given_inputs())},
          {"outputs", ports(model.run.given_outputs())},
          {"memory",
           {{"arena_bytes", if_planned(model.run.arena_bytes)},
            {"live_set_bytes", if_planned(model.run.live_set_bytes)},
            {"results_in_place", model.run.results_in_place},
            {"scratch_bytes_per_worker", has_known_scratch(model.run) ? Json(most_scratch_bytes(model.run)) : Json(nullptr)},
            {"weight_bytes", weight_bytes},
            {"run_bytes", if_planned(run_bytes(model.run))},
            {"budget_bytes", model.memory_budget},
            {"copied_bytes", copied_bytes(model.run)},
            {"recomputed_values", model.recomputed_values},
            {"recomputed_seconds", model.recomputed_seconds}}},
          {"fusion",
           {{"cost_bytes", model.fusion_cost_bytes},
            {"unfused_cost_bytes", model.unfused_cost_bytes},
            {"assumed", model.assumed}}},
          {"kernels", kernels},
          {"routines", model.run.routines},
          {"steps", model.run.steps.size()},
          {"report", model.report}};
}

}  // namespace

std::string manifest_text(const std::vector<LibraryProgram>& programs, const ProjectOptions& options,
                          const std::vector<std::vector<std::string>>& kernel_files, const LibraryWeights& weights,
                          const std::string& weights_hash) {
  const CompiledProgram& run = programs[0].model->run;
  Json symbols = Json::array(), parameters = Json::array();
  for (const auto& symbol : run.symbols) {
    Json row = {{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}};
    if (symbol.divisor != 1) row["divisor"] = symbol.divisor;
    symbols.push_back(row);
  }
  for (const auto& [program, index] : weights.parameters) {
    const RawParameter& parameter = programs[program].model->parameters[index];
    Json row = {{"name", parameter.name}, {"dtype", name_of(parameter.tensor.dtype)}, {"dims", parameter.tensor.shape}};
    if (is_numeric(parameter.tensor.dtype) && parameter.tensor.bytes)
      row["sha256"] = sha256_hex({parameter.tensor.data<char>(), parameter.tensor.byte_count()});
    parameters.push_back(std::move(row));
  }
  Json first = about(programs[0], options, kernel_files[0], run.weight_bytes);
  Json manifest = {
      {"metac", METAC_VERSION},
      {"format", manifest_format},
      {"name", options.name},
      {"model_sha256", options.model_hash},
      {"cpu", programs[0].cpu.name},
      {"options", options.recorded},
      {"inputs", first["inputs"]},
      {"outputs", first["outputs"]},
      {"symbols", symbols},
      {"memory", first["memory"]},
      {"fusion", first["fusion"]},
      {"weights_sha256", weights_hash},
      {"weights_embedded", options.embed_weights},
      {"kernels", first["kernels"]},
      {"routines", first["routines"]},
      {"steps", first["steps"]},
      {"parameters", parameters},
      {"report", first["report"]},
  };
  if (!run.states.empty()) manifest["states"] = states_of(run);
  if (programs.size() > 1) {
    Json others = Json::array();
    for (size_t p = 1; p < programs.size(); ++p) {
      Json row = {{"cpu", programs[p].cpu.name}, {"function", programs[p].function}};
      if (programs[p].specialisation > 0) row["dims"] = programs[p].dims;
      row.update(about(programs[p], options, kernel_files[p], programs[p].model->run.weight_bytes));
      others.push_back(row);
    }
    manifest["programs"] = others;
    manifest["weights_bytes"] = weights.file_bytes;
  }
  if (options.carried)
    manifest["jit"] = {{"carried_bytes", weights.carried_bytes}, {"graph_bytes", options.carried->graph.size()}};
  if (!options.parts.architectures.empty()) {
    std::set<std::string> libraries;
    for (const LibraryProgram& p : programs)
      for (const KernelSource& k : p.model->run.kernels) libraries.insert(k.libraries.begin(), k.libraries.end());
    manifest[options.parts.architectures_key] = options.parts.architectures;
    manifest["libraries"] = libraries;
  }
  // Model text that is not UTF-8 is replaced where it is wrong; control characters are escaped.
  return manifest.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace metac
