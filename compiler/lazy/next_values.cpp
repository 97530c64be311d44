#include "compiler/lazy/next_values.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/train/train_tables.h"

namespace metac::lazy {
namespace {

// Of the operands of an output, nearest first: an optimiser's formula is a few nodes long.
constexpr size_t most_walked = 64;

using Places = std::unordered_map<const Value*, size_t>;

Places places_of_inputs(const Cut& cut) {
  Places places;
  for (const Value* input : cut.inputs) places.emplace(input, places.size());
  return places;
}

// The nearest value of `free` that `output` is computed from by values of its own type; null: there is none.
const Value* nearest_of(const Value* output, const Places& free) {
  std::vector<const Value*> way{output};
  for (size_t at = 0; at < way.size() && way.size() < most_walked; ++at) {
    const Node& node = *way[at]->node;
    for (uint32_t k = 0; k < node.input_count; ++k) {
      const Value* const operand = node.inputs()[k];
      if (!operand || operand->type != output->type || node.operation->is_gradient()) continue;
      if (free.count(operand)) return operand;
      if (operand->node->pending && std::find(way.begin(), way.end(), operand) == way.end()) way.push_back(operand);
    }
  }
  return nullptr;
}

bool may_fail(const rt::Step& step) {
  switch (step.kind) {
    case rt::StepKind::launch:
    case rt::StepKind::copy:
    case rt::StepKind::assign:
    case rt::StepKind::beside:
      return false;
    case rt::StepKind::repeat:
      return step.carried != 0;
    default:
      return true;
  }
}

}  // namespace

std::vector<uint32_t> reads_of_inputs(const Cut& cut) {
  const Places places = places_of_inputs(cut);
  std::vector<uint32_t> reads(cut.inputs.size(), 0);
  for (const Node* node : cut.nodes)
    for (uint32_t k = 0; k < node->input_count; ++k)
      if (const auto found = places.find(node->inputs()[k]); found != places.end()) ++reads[found->second];
  return reads;
}

NextValues next_values(const Cut& cut) {
  const Places places = places_of_inputs(cut);
  const std::vector<uint32_t> reads = reads_of_inputs(cut);
  Places free;
  for (size_t k = 0; k < cut.inputs.size(); ++k)
    if (cut.inputs[k]->handles == 0 && cut.inputs[k]->readers == reads[k]) free.emplace(cut.inputs[k], k);
  NextValues pairs;
  int64_t bytes = 0;
  for (size_t k = 0; k < cut.outputs.size(); ++k) {
    const Value* const last = nearest_of(cut.outputs[k], free);
    if (!last) continue;
    pairs.emplace_back(k, free.at(last));
    bytes += last->type->bytes;
    free.erase(last);
  }
  if (bytes <= train::most_bytes_kept_twice) pairs.clear();
  return pairs;
}

NextValues may_overwrite(const CompiledProgram& program, const NextValues& pairs) {
  NextValues may;
  if (pairs.empty()) return may;
  const auto last_risk = std::find_if(program.steps.rbegin(), program.steps.rend(), may_fail).base();
  for (const auto& [output, input] : pairs) {
    const CompiledPort& port = program.outputs[output];
    const auto writes = [&](const rt::Step& step) {
      const auto first = program.operands.begin() + step.first;
      return step.kind == rt::StepKind::launch && std::find(first, first + step.count, port.buffer) != first + step.count;
    };
    if (port.overwrites == static_cast<int>(input) && std::none_of(program.steps.begin(), last_risk, writes))
      may.emplace_back(output, input);
  }
  return may;
}

}  // namespace metac::lazy
