// metac check: before any work, everything that stops a model from being compiled, all at once.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/driver/command.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/ops/decoder_ports.h"
#include "compiler/support/diagnostic.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

// The ports of a decoder, or why it is none: for models that have states.
std::optional<DecoderPorts> decoder_of(const Model& model, const std::vector<StateNames>& states, std::string* why) {
  if (states.empty()) return {};
  try {
    return decoder_ports(model, states);
  } catch (const CompileError& error) {
    *why = error.diagnostic.message;
    return {};
  }
}

void print_states(const Model& model) {
  const std::vector<StateNames> states = known_states(model);
  if (states.empty()) return;
  std::printf("%zu state%s, which --state auto keeps in the context:\n", states.size(), states.size() == 1 ? "" : "s");
  for (const StateNames& s : states) std::printf("  --state %s=%s\n", shown(s.input).c_str(), shown(s.output).c_str());
  std::string why;
  const std::optional<DecoderPorts> decoder = decoder_of(model, states, &why);
  if (!decoder) return (void)std::printf("no texts can be continued (%s)\n", why.c_str());
  std::printf("--generate makes a program that continues texts:\n");
  for (const DecoderPort& port : decoder->inputs)
    std::printf("  input %s: %s\n", shown(port.name).c_str(), metac_runtime::name_of(port.role));
  std::printf("  output %s: logits\n", shown(decoder->logits).c_str());
}

struct CheckArguments : ModelOptions {
  bool json = false;
};

int check_command(const CheckArguments& o) {
  Model model = read_model(o.model);
  // Lowering is shape inference: it finds the shapes, attributes and values that do not fit together.
  LowerOptions options = o.lower();
  options.allow_code = true;  // nothing is compiled or run here
  const std::vector<Finding> findings = find_problems(model, options);
  if (o.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Finding& f : findings) {
      nlohmann::ordered_json row = {{"file", f.file}, {"node", f.node}};
      if (!f.op_type.empty())
        row.update({{"operator", f.op_type},
                    {"domain", f.domain.empty() ? "ai.onnx" : f.domain},
                    {"opset", f.opset},
                    {"inputs", f.inputs}});
      row.update({{"message", f.message}, {"advice", f.advice}});
      rows.push_back(row);
    }
    nlohmann::ordered_json report = {{"model", o.model}, {"nodes", model.graph.nodes.size()}, {"findings", rows}};
    report["states"] = nlohmann::ordered_json::array();
    for (const StateNames& s : known_states(model)) report["states"].push_back({{"input", s.input}, {"output", s.output}});
    std::string why;
    if (const std::optional<DecoderPorts> decoder = decoder_of(model, known_states(model), &why)) {
      report["decoder"] = {{"logits", decoder->logits}};
      for (const DecoderPort& port : decoder->inputs)
        report["decoder"]["inputs"].push_back({{"name", port.name}, {"is", metac_runtime::name_of(port.role)}});
    }
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else if (findings.empty()) {
    std::printf("%s: %zu nodes, all can be compiled\n", o.model.c_str(), model.graph.nodes.size());
    print_states(model);
  } else {
    for (Finding f : findings) {
      if (f.file.empty()) f.file = o.model;
      std::string types;
      for (size_t i = 0; i < f.inputs.size(); ++i)
        types += (i ? ", " : "") + (f.inputs[i].empty() ? "nothing" : f.inputs[i]);
      std::fprintf(stderr, "%s\n", f.text().c_str());
      if (!types.empty())
        std::fprintf(stderr, "    it has (%s), at opset %lld\n", types.c_str(), static_cast<long long>(f.opset));
      if (!f.advice.empty()) std::fprintf(stderr, "    what can be done: %s\n", f.advice.c_str());
    }
    std::fprintf(stderr, "metac: %s cannot be compiled: %zu finding%s\n", o.model.c_str(), findings.size(),
                 findings.size() == 1 ? "" : "s");
  }
  return findings.empty() ? exit_good : exit_fault;
}

}  // namespace

void add_check_command(CLI::App& app, int* status) {
  auto o = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand("check", "name every node that cannot be compiled, and why, before any work");
  add_model_argument(*command, *o);
  add_shape_options(*command, *o);
  add_ops_option(*command, *o);
  command->add_option("--max-tensor-bytes", o->max_tensor_bytes, "refuse models with a larger tensor (default 64G)")
      ->type_name("BYTES");
  command->add_flag("--json", o->json, "the findings as JSON");
  command->callback([=] { *status = check_command(*o); });
}

}  // namespace metac
