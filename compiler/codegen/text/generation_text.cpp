#include "compiler/codegen/text/generation_text.h"

#include "compiler/support/diagnostic.h"

namespace metac {

void fill_states(const ProjectOptions& options, const CompiledProgram& run, TemplateValues& values) {
  const bool any = !run.states.empty();
  values["state_count"] = std::to_string(run.states.size());
  values["has_states"] = any ? "true" : "false";
  values["state_ports"] = any ? "extern const " + options.name + "_port state_ports[];\n" : "";
  // The text of a context goes with its states.
  const auto if_generating = [&](const char* text) { return options.decoder ? text : ""; };
  values["generation_reset"] =
      if_generating("    held.generation.joined.clear();\n    held.generation.sequence.truncate(0);\n");
  values["generation_alone"] = if_generating("    if (!has_one_text(held, held.failure)) return false;\n");
  values["generation_from_alone"] = if_generating("    if (!has_one_text(*from, held.failure)) return false;\n");
  values["python_joined"] = if_generating("        self._joined = {}  # texts, by their numbers\n");
  values["python_leave_all"] = if_generating("        self._joined.clear()\n");
  values["joined_bytes"] = if_generating(" + context.generation.joined.prompt.held_bytes()");
  values["generation_truncate"] = if_generating("    held.generation.sequence.truncate(length);\n");
  values["generation_fork"] = if_generating(
      "    if (!held.generation.sequence.copy(from->generation.sequence))\n"
      "      return held.failure.set(Status::out_of_memory, \"no memory for the tokens\");\n");
  fill_pieces(values, any,
              {"state_declarations=states/api.h", "state_functions=states/api.cpp", "state_members=states/api.hpp",
               "state_members_of_table=states/model_table.cpp", "state_methods=states/python.py",
               "state_signatures=states/python_signatures.py"});
}

// What --generate adds to the interface.
void fill_generation(const ProjectOptions& options, const CompiledProgram& run, TemplateValues& values, Project& project) {
  const auto if_generating = [&](const std::string& text) { return options.decoder ? text : std::string(); };
  values["adapter_names"] = "";
  if (options.decoder) {
    for (const DecoderPort& port : options.decoder->inputs)
      values["input_roles"] +=
          concat(values["input_roles"].empty() ? "" : ", ", "InputRole(", static_cast<int>(port.role), ")");
    const std::vector<CompiledPort> inputs = run.given_inputs(), outputs = run.given_outputs();
    METAC_ASSERT(inputs.size() == options.decoder->inputs.size(), "the inputs of a decoder");
    for (size_t k = 0; k < inputs.size(); ++k)
      METAC_ASSERT(inputs[k].name == options.decoder->inputs[k].name, "their order");
    for (size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k].name == options.decoder->logits) values["logits_output"] = std::to_string(k);
    for (const std::string& name : options.decoder->adapters) values["adapter_names"] += concat(", ", c_string(name));
  }
  const bool speaks = !options.tokenizer.empty();
  if (speaks) {
    project.files[options.name + ".tokenizer"] = options.tokenizer;
    project.files["src/tokenizer.cpp"] = fill_template("templates/project/generate/tokenizer.cpp", values);
  }
  values["generate_include"] = if_generating("#include <algorithm>\n#include <functional>\n#include <string_view>\n");
  values["generate_installed"] = if_generating(" " + options.name + "_generate");
  values["generate_sources"] = if_generating(" src/generate.cpp src/generate_program.cpp");
  fill_pieces(
      values, options.decoder,
      {speaks ? "tokenizer_functions=generate/api_tokenizer.cpp" : "tokenizer_functions=generate/api_no_tokenizer.cpp"});
  fill_pieces(values, speaks,
              {"tokenizer_member=generate/tokenizer_member.h", "tokenizer_include=generate/tokenizer_include.h",
               "tokenizer_options=generate/tokenizer_options.txt"});
  for (const char* header : {"prompt_lookup", "sequences", "tokenizer/text_buffer"})
    values["generation_include"] += if_generating(concat("#include \"runtime/generate/", header, ".h\"\n"));
  values["generation_include"] += values["tokenizer_include"];
  fill_pieces(values, options.decoder,
              {"generation_member=generate/member.h", "generate_declarations=generate/api.h",
               "generate_functions=generate/api.cpp", "sequence_functions=generate/sequences.cpp",
               "joined_texts=generate/joined_texts.cpp", "generate_members=generate/api.hpp",
               "generate_structures=generate/python_structures.py", "generate_methods=generate/python.py",
               "generate_signatures=generate/python_signatures.py", "generate_target=generate/target.txt"});
  values["speaks"] = speaks ? "true" : "false";
  if (!options.decoder) return;
  project.programs.push_back({"generate", {"src/generate.cpp", "src/generate_program.cpp"}});
  for (const char* file : {"generate.cpp", "generate_program.cpp"})
    project.files[concat("src/", file)] = fill_template(concat("templates/project/generate/", file), values);
}

}  // namespace metac
