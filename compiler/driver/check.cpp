// metac check: before any work, everything that stops a model from being compiled, all at once.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/driver/model_options.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

struct Options : ModelOptions {
  bool json = false;
};

int run(const Options& o) {
  Model model = read_model(o.model);
  std::vector<Diagnostic> findings = check_model(model);
  if (findings.empty()) {
    // Lowering is shape inference: it finds the shapes, attributes and values that do not fit together.
    try {
      LowerOptions options = o.lower();
      options.allow_code = true;  // nothing is compiled or run here
      lower_model(model, options);
    } catch (const CompileError& error) {
      findings.push_back(error.diagnostic);
    }
  }
  if (o.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Diagnostic& d : findings) rows.push_back({{"file", d.file}, {"node", d.node}, {"message", d.message}});
    nlohmann::ordered_json report = {{"model", o.model}, {"nodes", model.graph.nodes.size()}, {"findings", rows}};
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else if (findings.empty()) {
    std::printf("%s: %zu nodes, all can be compiled\n", o.model.c_str(), model.graph.nodes.size());
  } else {
    for (Diagnostic d : findings) {
      if (d.file.empty()) d.file = o.model;
      std::fprintf(stderr, "%s\n", d.text().c_str());
    }
    std::fprintf(stderr, "metac: %s cannot be compiled: %zu finding%s\n", o.model.c_str(), findings.size(), findings.size() == 1 ? "" : "s");
  }
  return findings.empty() ? exit_good : exit_fault;
}

}  // namespace

void add_check_command(CLI::App& app, int* status) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("check", "name every node that cannot be compiled, and why, before any work");
  add_model_argument(*command, *o);
  add_shape_options(*command, *o);
  command->add_option("--max-tensor-bytes", o->max_tensor_bytes, "refuse models with a larger tensor (default 64G)")->type_name("BYTES");
  command->add_flag("--json", o->json, "the findings as JSON");
  command->callback([=] { *status = run(*o); });
}

}  // namespace metac
