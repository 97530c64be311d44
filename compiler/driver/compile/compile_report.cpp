#include "compiler/driver/compile/compile_report.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/driver/options/quantities.h"
#include "compiler/driver/options/work_text.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

void report_budget(const CompileArguments& o, const LibraryReport& r) {
  std::printf("memory budget: %s%s of %s; %lld values are made a second time, %s of work by the model\n",
              show_bytes(r.run_bytes).c_str(), r.planned_ahead ? "" : " and what the shapes of a run ask for",
              show_bytes(parse_bytes("--memory-budget", o.memory_budget)).c_str(),
              static_cast<long long>(r.recomputed_values), show_seconds(r.recomputed_seconds).c_str());
  if (r.copied_bytes > 0)
    std::printf("memory budget: a run copies %s of weights from the host\n", show_bytes(r.copied_bytes).c_str());
}

std::string working_memory(const LibraryReport& r) {
  return r.planned_ahead ? concat(show_bytes(r.arena_bytes), " (live-set bound ", show_bytes(r.live_set_bytes), ")")
                         : open_memory_text(r.typical_arena_bytes, r.assumed, r.arena_depends_on);
}

}  // namespace

void report(const CompileArguments& o, const LibraryReport& r, const TrainingReport* training) {
  const auto if_planned = [&](int64_t bytes) {
    return r.planned_ahead ? nlohmann::ordered_json(bytes) : nlohmann::ordered_json(nullptr);
  };
  if (o.json) {
    nlohmann::ordered_json rows = {{"name", r.name},
                                   {"folder", o.output},
                                   {"cpus", r.cpus},
                                   {"programs", r.programs},
                                   {"kernels", r.kernels},
                                   {"rounding_kernels", r.rounding_kernels},
                                   {"steps", r.steps},
                                   {"arena_bytes", if_planned(r.arena_bytes)},
                                   {"live_set_bytes", if_planned(r.live_set_bytes)},
                                   {"weight_bytes", r.weight_bytes},
                                   {"packages", r.packages},
                                   {"run_bytes", if_planned(r.run_bytes)},
                                   {"assumed", r.assumed},
                                   {"depends_on", r.arena_depends_on},
                                   {"typical_arena_bytes", r.typical_arena_bytes},
                                   {"seconds",
                                    {{"lower", r.lower_seconds},
                                     {"compile", r.compile_seconds},
                                     {"prepare", r.prepare_seconds},
                                     {"build", r.build_seconds}}}};
    if (training)
      rows["train"] = {{"step_kernels", training->step.kernels}, {"step_arena_bytes", training->step.arena_bytes},
                       {"step_bytes", training->step.run_bytes}, {"recomputed_values", training->step.recomputed_values},
                       {"state_bytes", training->state_bytes},   {"notes", training->notes}};
    std::cout << rows.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return;
  }
  for (const std::string& cpu : r.cpus)
    if (r.cpus.size() > 1)
      std::printf("%s%s%s", &cpu == &r.cpus.front() ? "code for " : ", ", cpu.c_str(),
                  &cpu == &r.cpus.back() ? ": what a machine can run best is chosen there\n" : "");
  if (r.programs > r.cpus.size()) std::printf("%s: %zu programs; of the first:\n", r.name.c_str(), r.programs);
  std::printf("%s: %zu kernels, weights %s, working memory %s\n", r.name.c_str(), r.kernels,
              show_bytes(r.weight_bytes).c_str(), working_memory(r).c_str());
  if (o.precision != "float32")
    std::printf("precision %s: %zu of %zu kernels multiply %s%s\n", o.precision.c_str(), r.rounding_kernels, r.kernels,
                o.precision == "int8" ? "int8" : "bfloat16",
                r.rounding_kernels > 0 ? ""
                : o.precision == "int8"
                    ? "; weights of 2, 4 or 8 bits have such products (metac quantize --weights)"
                    : ": the processor has no such products, or none here gains from them (docs/quantization.md)");
  if (!r.specialised.empty())
    std::printf("open dims: %s %s; schedules for all other sizes are made for %s\n", r.specialised.c_str(),
                r.programs == 2 * r.cpus.size() ? "has a program of its own" : "have programs of their own",
                r.assumed.c_str());
  else if (!r.assumed.empty() && !training)
    std::printf("open dims: schedules are made for %s and serve every size; --dim NAME=VALUES narrows one\n",
                r.assumed.c_str());
  if (!o.memory_budget.empty()) report_budget(o, training ? training->step : r);
  if (training) {
    std::printf("training: a step is %zu kernels, working memory %s, states %s\n", training->step.kernels,
                working_memory(training->step).c_str(), show_bytes(training->state_bytes).c_str());
    if (o.precision != "float32") std::printf("training: %zu of them multiply bfloat16\n", training->step.rounding_kernels);
    for (const LibraryReport& step : training->further)
      std::printf("training: a further step is %zu kernels, working memory %s\n", step.kernels,
                  working_memory(step).c_str());
    for (const std::string& note : training->notes) std::printf("training: %s\n", note.c_str());
    if (!o.no_build) std::printf("training program: %s/bin/%s_train\n", o.output.c_str(), r.name.c_str());
  }
  if (o.generate && !o.no_build) std::printf("generation program: %s/bin/%s_generate\n", o.output.c_str(), r.name.c_str());
  std::printf("written%s: %s in %s\n", o.no_build ? "" : " and built", o.output.c_str(),
              show_seconds(r.lower_seconds + r.compile_seconds + r.prepare_seconds + r.build_seconds).c_str());
  for (const std::string& package : r.packages) std::printf("package: %s/%s\n", o.output.c_str(), package.c_str());
  if (o.times)
    std::printf("lowered in %s, compiled in %s, parameters prepared in %s, written%s in %s\n",
                show_seconds(r.lower_seconds).c_str(), show_seconds(r.compile_seconds).c_str(),
                show_seconds(r.prepare_seconds).c_str(), o.no_build ? "" : " and built",
                show_seconds(r.build_seconds).c_str());
}

}  // namespace metac
