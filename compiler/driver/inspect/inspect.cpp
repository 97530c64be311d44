// metac inspect: what the compiler makes of a model: kernels, what was fused into them, their cost, memory.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/driver/inspect/inspect_page.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/driver/options/work_text.h"
#include "compiler/program/memory/run_memory.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/tensor/counts.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

struct InspectArguments : ModelOptions {
  bool json = false;
  std::string html;
};

struct KernelRows {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::string text;
  Expr operations = 0;  // of a run; empty: not known
};

KernelRows kernels_of(const CompiledModel& compiled, const CompiledProgram& program, const Model& model) {
  KernelRows rows;
  const std::vector<KernelWork> works = kernel_works(compiled, program);
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const KernelSource& kernel = program.kernels[k];
    const KernelWork& work = works[k];
    std::vector<std::string> nodes;
    for (int node : kernel.nodes)
      if (node >= 0 && node < static_cast<int>(model.graph.nodes.size()))
        nodes.push_back(describe(model.graph.nodes[node], node));
    const nlohmann::ordered_json launches =
        work.launches ? nlohmann::ordered_json(*work.launches) : nlohmann::ordered_json(nullptr);
    rows.json.push_back({{"name", kernel.name},
                         {"launches", launches},
                         {"flops", work_json(work.work.operations, program)},
                         {"bytes", work_json(work.work.bytes, program)},
                         {"nodes", nodes},
                         {"schedule", kernel.schedule}});
    rows.text += "  " + kernel.name;
    if (!work.launches)
      rows.text += "  as often as dims or data say";
    else if (*work.launches != 1)
      rows.text += concat("  ", *work.launches, " times");
    if (!work.work.operations || !work.work.operations.is_int(0))
      rows.text += "  " + work_text(work.work.operations, program, show_operations);
    rows.text += "  " +
                 work_text(work.work.bytes, program, [](double bytes) { return show_bytes(static_cast<int64_t>(bytes)); }) +
                 "\n";
    for (const std::string& node : nodes) rows.text += "      " + node + "\n";
    rows.operations = plus(rows.operations, work.work.operations);
  }
  return rows;
}

int inspect_command(const InspectArguments& o) {
  Model model = read_model(o.model);
  require_compilable(model);
  std::unique_ptr<Graph> graph = lower_model(model, o.lower());
  CompiledModel compiled = compile_graph(*graph, o.compile());
  const KernelRows kernels = kernels_of(compiled, compiled.run, model),
                   prepare = kernels_of(compiled, compiled.prepare, model);
  const bool planned = is_planned_ahead(compiled.run);
  const auto if_planned = [&](int64_t bytes) {
    return planned ? nlohmann::ordered_json(bytes) : nlohmann::ordered_json(nullptr);
  };
  nlohmann::ordered_json report = {
      {"model", o.model},
      {"nodes", model.graph.nodes.size()},
      {"kernels", kernels.json},
      {"prepare_kernels", prepare.json},
      {"steps", compiled.run.steps.size()},
      {"flops", work_json(kernels.operations, compiled.run)},
      {"arena_bytes", if_planned(compiled.run.arena_bytes)},
      {"live_set_bytes", if_planned(compiled.run.live_set_bytes)},
      {"results_in_place", compiled.run.results_in_place},
      {"scratch_bytes_per_worker", has_known_scratch(compiled.run) ? nlohmann::ordered_json(most_scratch_bytes(compiled.run))
                                                                   : nlohmann::ordered_json(nullptr)},
      {"weight_bytes", compiled.run.weight_bytes},
      {"fusion_cost_bytes", compiled.fusion_cost_bytes},
      {"unfused_cost_bytes", compiled.unfused_cost_bytes},
      {"assumed", compiled.assumed},
      {"depends_on", arena_depends_on(compiled.run)},
      {"typical_arena_bytes", typical_arena_bytes(compiled.run)},
      {"report", compiled.report}};
  if (!o.html.empty()) {
    make_parents(o.html);
    write_file(o.html, inspect_page(o.model, compiled, model));
    std::fprintf(stderr, "written: %s\n", o.html.c_str());
  }
  if (o.json) {
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return exit_good;
  }
  std::printf("%s: %zu nodes become %zu kernels in %zu steps\n", o.model.c_str(), model.graph.nodes.size(),
              compiled.run.kernels.size(), compiled.run.steps.size());
  for (const auto* ports : {&compiled.run.inputs, &compiled.run.outputs})
    for (const CompiledPort& port : *ports) {
      std::printf("  %s %s: %s [", ports == &compiled.run.inputs ? "input" : "output", metac::quoted(port.name).c_str(),
                  std::string(name_of(port.dtype)).c_str());
      for (size_t i = 0; i < port.dims.size(); ++i) std::printf("%s%s", i ? ", " : "", port.dims[i].c_str());
      std::printf("]\n");
    }
  for (const StateNames& s : known_states(model))
    std::printf("  state, with --state auto: %s is the next run's %s\n", metac::quoted(s.output).c_str(),
                metac::quoted(s.input).c_str());
  std::printf("memory: arena %s (%s%lld results take the place of an operand), scratch %s a worker, weights %s\n",
              arena_text(compiled.run, compiled.assumed).c_str(),
              planned ? concat("live-set bound ", show_bytes(compiled.run.live_set_bytes), "; ").c_str()
                      : "--shape and --dim fix sizes; ",
              static_cast<long long>(compiled.run.results_in_place), scratch_text(compiled.run).c_str(),
              show_bytes(compiled.run.weight_bytes).c_str());
  std::printf("fusion: %s on edges between kernels; every operator on its own: %s%s\n",
              show_bytes(compiled.fusion_cost_bytes).c_str(), show_bytes(compiled.unfused_cost_bytes).c_str(),
              compiled.assumed.empty() ? "" : concat(" (for ", compiled.assumed, ")").c_str());
  std::printf("contractions: %s\n", work_text(kernels.operations, compiled.run, show_operations).c_str());
  std::printf("kernels of a run:\n%skernels that prepare the parameters, once:\n%s", kernels.text.c_str(),
              prepare.text.c_str());
  for (const std::string& line : compiled.report) std::printf("%s\n", line.c_str());
  return exit_good;
}

}  // namespace

void add_inspect_command(CLI::App& app, int* status) {
  auto o = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand("inspect", "what the compiler makes of a model: kernels, fusion, memory, cost");
  add_model_argument(*command, *o);
  add_shape_options(*command, *o);
  add_ops_option(*command, *o);
  add_compile_options(*command, *o);
  command->add_option("--html", o->html, "write the report as a page too: memory over time, every kernel with its text")
      ->type_name("FILE");
  command->add_flag("--json", o->json, "the report as JSON");
  command->callback([=] { *status = inspect_command(*o); });
}

}  // namespace metac
