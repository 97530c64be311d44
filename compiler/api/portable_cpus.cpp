#include "compiler/api/portable_cpus.h"

#include <algorithm>
#include <string>

namespace metac {
namespace {

// Operators that make numbers of 8 bits, or multiply them: QuantizeLinear, DynamicQuantizeLinear, QLinearConv,
// MatMulInteger, MatMulNBits that lets its data be int8. What this is wrong about costs time, of the compiler or of a run,
// and no answer.
bool computes_with_bytes(const ModelGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    const std::string& op = node.op_type;
    const auto accuracy = node.attributes.find("accuracy_level");
    const bool int8_data = op == "MatMulNBits" && accuracy != node.attributes.end() && accuracy->second.integer == 4;
    return int8_data || op == "QuantizeLinear" || op == "DynamicQuantizeLinear" || op.rfind("QLinear", 0) == 0 ||
           op == "QGemm" || op.find("Integer") != std::string::npos;
  });
}

}  // namespace

std::vector<CpuTarget> portable_cpus(const Model& model, DType precision) {
  const bool bytes = precision == DType::i8 || computes_with_bytes(model.graph);
  std::vector<CpuTarget> cpus;
  for (const InstructionSet& set : instruction_sets()) {
    const bool halves = precision == DType::bf16;
    const bool special = set.matrix_products ? halves || bytes : set.bf16_products ? halves : set.byte_products && bytes;
    const bool level = !set.byte_products && !set.bf16_products && set.name != "x86-64";
    if (special || level) cpus.push_back(cpu_target(std::string(set.name)));
  }
  return cpus;
}

}  // namespace metac
