#include "compiler/target/precision.h"

#include <algorithm>
#include <utility>

#include "compiler/support/node_patterns.h"
#include "compiler/target/compile_options.h"

namespace metac {
namespace {

void allow_int8_data(const std::vector<Op*>& ops, const NodePatterns& keep) {
  for (Op* op : ops) {
    op->origin.int8_data |= !keep.match(op->origin.name, op->origin.op_type);
    for (const Region& region : op->regions) allow_int8_data(region.ops, keep);
  }
}

constexpr std::pair<std::string_view, DType> named[] = {
    {"float32", DType::f32}, {"bfloat16", DType::bf16}, {"int8", DType::i8}, {"auto", DType::bf16}};

}  // namespace

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, unused] : named) all.emplace_back(name);
    return all;
  }();
  return names;
}

std::optional<DType> precision_named(std::string_view name) {
  for (const auto& [known, type] : named)
    if (known == name) return type;
  return std::nullopt;
}

void allow_int8_data(Graph& graph, const CompileOptions& options) {
  if (options.precision == DType::i8) allow_int8_data(graph.ops, NodePatterns(options.keep));
}

bool multiplies(const KernelSource& kernel, DType precision) {
  if (precision == DType::bf16) return std::ranges::find(kernel.multiplies, name_of(DType::bf16)) != kernel.multiplies.end();
  return precision == DType::i8 &&
         std::find(kernel.schedule.begin(), kernel.schedule.end(), multiplied_as_bytes) != kernel.schedule.end();
}

}  // namespace metac
