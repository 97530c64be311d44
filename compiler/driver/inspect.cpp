// metac inspect: what the compiler makes of a model: kernels, what was fused into them, their cost, memory.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/driver/command.h"
#include "compiler/driver/inspect_page.h"
#include "compiler/driver/model_options.h"
#include "compiler/driver/quantities.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

struct Options : ModelOptions {
  bool json = false;
  std::string html;
};

nlohmann::ordered_json kernels_of(const CompiledProgram& program, const Model& model) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const KernelSource& kernel : program.kernels) {
    std::vector<std::string> nodes;
    for (int node : kernel.nodes)
      if (node >= 0 && node < static_cast<int>(model.graph.nodes.size())) nodes.push_back(describe(model.graph.nodes[node], node));
    rows.push_back({{"name", kernel.name}, {"flops", kernel.flops}, {"bytes", kernel.bytes}, {"nodes", nodes}, {"schedule", kernel.schedule}});
  }
  return rows;
}

void print_kernels(const nlohmann::ordered_json& rows) {
  for (const auto& row : rows) {
    std::printf("  %s", row["name"].get<std::string>().c_str());
    if (row["flops"].get<double>() > 0) std::printf("  %.3g MFLOP", row["flops"].get<double>() * 1e-6);
    if (row["bytes"].get<double>() > 0) std::printf("  %s", show_bytes(row["bytes"].get<int64_t>()).c_str());
    std::printf("\n");
    for (const auto& node : row["nodes"]) std::printf("      %s\n", node.get<std::string>().c_str());
  }
}

int run(const Options& o) {
  Model model = read_model(o.model);
  require_compilable(model);
  std::unique_ptr<Graph> graph = lower_model(model, o.lower());
  CompiledModel compiled = compile_graph(*graph, o.compile());
  nlohmann::ordered_json report = {{"model", o.model},
                                   {"nodes", model.graph.nodes.size()},
                                   {"kernels", kernels_of(compiled.run, model)},
                                   {"prepare_kernels", kernels_of(compiled.prepare, model)},
                                   {"steps", compiled.run.steps.size()},
                                   {"arena_bytes", compiled.run.arena_bytes},
                                   {"live_set_bytes", compiled.run.live_set_bytes},
                                   {"results_in_place", compiled.run.results_in_place},
                                   {"scratch_bytes_per_worker", most_scratch_bytes(compiled.run)},
                                   {"weight_bytes", compiled.run.weight_bytes},
                                   {"fusion_cost_bytes", compiled.fusion_cost_bytes},
                                   {"unfused_cost_bytes", compiled.unfused_cost_bytes},
                                   {"report", compiled.report}};
  if (!o.html.empty()) {
    write_file(o.html, inspect_page(o.model, compiled, model));
    std::fprintf(stderr, "written: %s\n", o.html.c_str());
  }
  if (o.json) {
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return exit_good;
  }
  std::printf("%s: %zu nodes become %zu kernels in %zu steps\n", o.model.c_str(), model.graph.nodes.size(), compiled.run.kernels.size(),
              compiled.run.steps.size());
  for (const auto* ports : {&compiled.run.inputs, &compiled.run.outputs})
    for (const CompiledPort& port : *ports) {
      std::printf("  %s %s: %s [", ports == &compiled.run.inputs ? "input" : "output", metac::quoted(port.name).c_str(), std::string(name_of(port.dtype)).c_str());
      for (size_t i = 0; i < port.dims.size(); ++i) std::printf("%s%s", i ? ", " : "", port.dims[i].c_str());
      std::printf("]\n");
    }
  std::printf("memory: arena %s (live-set bound %s; %lld results take the place of an operand), scratch %s a worker, weights %s\n",
              show_bytes(compiled.run.arena_bytes).c_str(), show_bytes(compiled.run.live_set_bytes).c_str(),
              static_cast<long long>(compiled.run.results_in_place), show_bytes(most_scratch_bytes(compiled.run)).c_str(),
              show_bytes(compiled.run.weight_bytes).c_str());
  std::printf("fusion: %s on edges between kernels; every operator on its own: %s\n", show_bytes(compiled.fusion_cost_bytes).c_str(),
              show_bytes(compiled.unfused_cost_bytes).c_str());
  std::printf("kernels of a run:\n");
  print_kernels(report["kernels"]);
  std::printf("kernels that prepare the parameters, once:\n");
  print_kernels(report["prepare_kernels"]);
  for (const std::string& line : compiled.report) std::printf("%s\n", line.c_str());
  return exit_good;
}

}  // namespace

void add_inspect_command(CLI::App& app, int* status) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "what the compiler makes of a model: kernels, fusion, memory, cost");
  add_model_argument(*command, *o);
  add_shape_options(*command, *o);
  add_compile_options(*command, *o);
  command->add_option("--html", o->html, "write the report as a page too: memory over time, every kernel with its text")->type_name("FILE");
  command->add_flag("--json", o->json, "the report as JSON");
  command->callback([=] { *status = run(*o); });
}

}  // namespace metac
