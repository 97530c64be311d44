#include "compiler/codegen/text/library_text.h"

#include "compiler/codegen/text/fill_template.h"
#include "compiler/codegen/text/program_text.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

bool is_run(const LibraryProgram& program) { return program.function == "run"; }

// How many programs each CPU has.
size_t programs_of_a_cpu(const std::vector<LibraryProgram>& programs) {
  size_t count = 0;
  while (count < programs.size() && programs[count].cpu.name == programs[0].cpu.name) ++count;
  return count;
}

// Where the dims that a program is for stand among the inputs: a row per input dim of that name.
std::string conditions_text(const LibraryProgram& program, const CompiledProgram& open, int* rows) {
  std::string text;
  for (const auto& [name, value] : program.dims)
    for (size_t input = 0; input < open.given_inputs().size(); ++input)
      for (size_t axis = 0; axis < open.inputs[input].dims.size(); ++axis)
        if (open.inputs[input].dims[axis] == name) text += concat("    {", input, ", ", axis, ", ", value, "},\n"), ++*rows;
  return text;
}

// "input_ports", "vjp_input_ports".
std::string port_table(const LibraryProgram& program, const char* which) {
  return (is_run(program) ? "" : program.function + "_") + which;
}

// What this machine lacks.
std::string lacking_text(const CpuTarget& cpu) {
  std::string features;
  for (std::string_view feature : cpu.instructions().features)
    features += concat(features.empty() ? "" : ", ", '"', feature, '"');
  const std::string search =
      "  static const char* const features[] = {" + features +
      "};\n  for (const char* feature : features)\n    if (!has_cpu_feature(feature)) return feature;\n";
  return concat("const char* lacking_", cpu.tag(), "() {\n#if defined(__x86_64__)\n", features.empty() ? "" : search,
                "#endif\n  return nullptr;\n}\n");
}

std::string function_row(const ProgramPlace& place, const LibraryWeights& weights, size_t p) {
  const ProgramWeights& own = weights.programs[p];
  return concat("    {&", place.scope, "run_program, &", place.scope, "prepare_program, ",
                has_all_parameters(weights, p) ? "nullptr" : place.scope + "parameter_numbers", ", ", place.scope,
                "weight_sources, ", own.sources.size(), ", ", own.from, ", ", own.bytes, "},\n");
}

}  // namespace

bool has_all_parameters(const LibraryWeights& weights, size_t program) {
  const std::vector<int>& numbers = weights.programs[program].parameters;
  bool all = numbers.size() == weights.parameters.size() + weights.constants.size();
  for (size_t k = 0; k < numbers.size(); ++k) all &= numbers[k] == static_cast<int>(k);
  return all;
}

std::vector<ProgramPlace> places_of(const std::vector<LibraryProgram>& programs, const std::string& name_space) {
  bool several = false;
  for (const LibraryProgram& p : programs) several |= p.cpu.name != programs[0].cpu.name;
  std::vector<ProgramPlace> places;
  for (const LibraryProgram& p : programs) {
    const std::string tag = p.cpu.tag();
    ProgramPlace place;
    place.folder = several ? "src/" + tag + "/" : "src/";
    place.device = several ? name_space + "_" + tag : name_space;
    place.scope = several ? tag + "::" : "";
    place.kernels = place.device;
    auto enter = [&place](const std::string& name) {
      place.stem += name + "_";
      place.scope += name + "::";
      place.kernels += "::" + name;
    };
    if (p.specialisation > 0) enter(concat("s", p.specialisation));
    if (!is_run(p)) enter(p.function);
    place.tables = name_space + (place.scope.empty() ? "" : "::" + place.scope.substr(0, place.scope.size() - 2));
    places.push_back(std::move(place));
  }
  return places;
}

std::string program_declarations(const std::vector<LibraryProgram>& programs, const std::vector<ProgramPlace>& places,
                                 const LibraryWeights& weights) {
  std::string text;
  for (size_t p = 0; p < programs.size(); ++p) {
    const std::string& scope = places[p].scope;
    if (!scope.empty()) text += "namespace " + scope.substr(0, scope.size() - 2) + " {\n";
    text += "extern const Program run_program, prepare_program;\nextern const WeightSource weight_sources[];\n";
    if (!has_all_parameters(weights, p)) text += "extern const int32_t parameter_numbers[];\n";
    if (!scope.empty()) text += "}\n";
  }
  text.pop_back();
  return text;
}

std::string variants_text(const std::vector<LibraryProgram>& programs, const std::vector<ProgramPlace>& places,
                          const LibraryWeights& weights, const std::string& name) {
  std::string ports, functions, conditions, choices, text, variants;
  const size_t count = programs_of_a_cpu(programs);
  int condition_rows = 0;
  for (size_t k = 0, general = 0; k < count; ++k) {
    const LibraryProgram& p = programs[k];
    if (p.specialisation > 0) {
      const size_t function = k % general;  // each specialisation has all functions, in the same order
      const int first = condition_rows;
      conditions += conditions_text(p, programs[function].model->run, &condition_rows);
      METAC_ASSERT(condition_rows > first, "a specialisation without dims");
      choices += concat("    {", function, ", ", k, ", ", first, ", ", condition_rows - first, "},\n");
      continue;
    }
    ++general;
    const CompiledProgram& run = p.model->run;
    const std::vector<CompiledPort> inputs = run.given_inputs(), outputs = run.given_outputs();
    ports += ports_text(port_rows(run, inputs), port_table(p, "input_ports"), name) + "\n" +
             ports_text(port_rows(run, outputs), port_table(p, "output_ports"), name) + "\n";
    if (!run.states.empty()) ports += ports_text(port_rows(run, run.state_ports()), "state_ports", name) + "\n";
    functions += concat("    {\"", p.function, "\", ", port_table(p, "input_ports"), ", ", inputs.size(), ", ",
                        port_table(p, "output_ports"), ", ", outputs.size(), "},\n");
  }
  if (choices.empty()) choices = "    {0, 0, 0, 0},  // none\n", conditions = "    {0, 0, 0},  // none\n";
  METAC_ASSERT(count > 0 && programs.size() % count == 0 && is_run(programs[0]), "the programs of a library");
  for (size_t p = 0; p < programs.size(); p += count) {
    const std::string tag = programs[p].cpu.tag();
    text += lacking_text(programs[p].cpu) + concat("const FunctionProgram functions_", tag, "[] = {\n");
    for (size_t k = p; k < p + count; ++k) {
      METAC_ASSERT(programs[k].function == programs[k - p].function && programs[k].cpu.name == programs[p].cpu.name,
                   "the programs of a library");
      text += function_row(places[k], weights, k);
    }
    text += "};\n";
    variants += concat("    {\"", programs[p].cpu.name, "\", &lacking_", tag, ", functions_", tag, "},\n");
  }
  return ports + "const FunctionPorts function_ports[] = {\n" + functions + "};\nconst DimCondition dim_conditions[] = {\n" +
         conditions + "};\nconst Specialisation specialisations[] = {\n" + choices + "};\n\nnamespace {\n" + text +
         "}  // namespace\nconst Variant variants[] = {\n" + variants + "};\n";
}

std::string parameters_text(const std::vector<LibraryProgram>& programs, const LibraryWeights& weights,
                            const std::string& name) {
  std::vector<PortRow> rows;
  std::string constants, parameters;
  auto add = [&](const std::pair<size_t, size_t>& place) {
    const CompiledProgram& prepare = programs[place.first].model->prepare;
    rows.push_back(port_rows(prepare, {prepare.inputs[place.second]})[0]);
  };
  auto bytes = [&](const std::pair<size_t, size_t>& place) {
    const Tensor& tensor = programs[place.first].model->parameters[place.second].tensor;
    return tensor.bytes ? tensor.byte_count() : 0;
  };
  for (size_t k = 0; k < weights.parameters.size(); ++k) {
    add(weights.parameters[k]);
    if (!weights.is_prepared)
      parameters += concat("    {", weights.parameter_offsets[k], ", ", bytes(weights.parameters[k]), "},\n");
  }
  for (size_t k = 0; k < weights.constants.size(); ++k) {
    add(weights.constants[k]);
    constants += concat("    {", weights.constant_offsets[k], ", ", bytes(weights.constants[k]), "},\n");
  }
  const auto table = [](const char* table_name, const std::string& places) {
    return concat("const FilePlace ", table_name, "[] = {\n", places.empty() ? "    {0, 0},  // none\n" : places, "};\n");
  };
  return ports_text(rows, "parameter_ports", name) + table("constants", constants) + table("parameters_in_file", parameters);
}

}  // namespace metac
