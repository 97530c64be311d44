#include "compiler/target/target.h"

#include "compiler/loops/verify_kernel.h"
#include "compiler/support/diagnostic.h"

namespace metac {

LoweringContext Target::lowering_context(const Graph& graph, const Layouts& layouts, const CompileOptions& options) const {
  LoweringContext context;
  context.symbols = &graph.symbols;
  context.layouts = &layouts;
  context.vector_bytes = options.cpu.vector_bytes;
  context.vector_registers = options.cpu.vector_registers;
  context.l2_bytes = options.cpu.l2_bytes;
  context.var = [&graph](int id) { return graph.vars().at(static_cast<size_t>(id)).get(); };
  return context;
}

ProjectParts Target::project_parts(const std::string& architectures) const {
  if (!architectures.empty()) fail("--arch ", architectures, ": --target ", name(), " is for no GPU");
  return {};
}

ExternalLibraries Target::external_libraries(const std::string& asked, bool tf32) const {
  if (!asked.empty() && asked != "none" && asked != "auto")
    fail("--external ", asked, ": --target ", name(), " has no vendor libraries");
  if (tf32) fail("--tf32 on: --target ", name(), " computes in float32");
  return {};
}

// In a file of its own, as target_cpu().
const Target& target_gpu();

const std::vector<const Target*>& targets() {
  static const std::vector<const Target*> all = {&target_cpu(), &target_gpu()};
  return all;
}

const Target& target_named(std::string_view name) {
  std::string names;
  for (const Target* target : targets()) {
    if (target->name() == name) return *target;
    names += concat(names.empty() ? "" : ", ", target->name());
  }
  fail("there is no target ", quoted(name), "; the targets are: ", names);
}

Kernel lower(const Target& target, const Group& group, const LoweringContext& context) {
  Kernel kernel = group.strategy ? group.strategy->lower(group, context) : target.lower_plainly(group, context);
  verify_kernel(kernel, group.strategy ? group.strategy->to_string() : "a plain kernel");
  return kernel;
}

}  // namespace metac
