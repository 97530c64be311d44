#include "compiler/codegen/prepare_recipes.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"

namespace metac {
namespace {

// The kernel without what does not compute: its name, which counts through a program, and its comments.
std::string what_it_computes(const KernelSource& kernel) {
  std::string text;
  for (size_t at = 0; at < kernel.text.size();) {
    size_t end = kernel.text.find('\n', at);
    if (end == std::string::npos) end = kernel.text.size();
    const size_t first = kernel.text.find_first_not_of(' ', at);
    if (first >= end || kernel.text.compare(first, 2, "//") != 0) text.append(kernel.text, at, end - at) += '\n';
    at = end + 1;
  }
  for (size_t at = text.find(kernel.name); at != std::string::npos; at = text.find(kernel.name, at))
    text.erase(at, kernel.name.size());
  return text;
}

}  // namespace

std::vector<std::string> prepare_recipes(const CompiledModel& model, const std::vector<int>& parameters) {
  const CompiledProgram& p = model.prepare;
  std::vector<std::string> none(p.outputs.size());
  auto memory = [&](int buffer) {  // whose memory it is
    while (p.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::view)
      buffer = p.buffers[static_cast<size_t>(buffer)].index;
    return buffer;
  };
  std::vector<std::string> made(p.buffers.size());  // what stands in a buffer now
  for (size_t k = 0; k < p.inputs.size(); ++k)
    made[static_cast<size_t>(p.inputs[k].buffer)] = concat("parameter ", parameters.at(k));
  for (const rt::Step& step : p.steps) {
    if (step.kind != rt::StepKind::launch || step.parallel.length != 0) return none;
    std::string launch = concat(what_it_computes(p.kernels[static_cast<size_t>(step.kernel)]), "\n", step.parallel.value);
    for (int32_t k = 0; k < step.count; ++k) {
      const int buffer = memory(p.operands[static_cast<size_t>(step.first + k)]);
      launch += "\n" + made[static_cast<size_t>(buffer)];
    }
    // Which operands it writes is not said: any that is not a parameter.
    for (int32_t k = 0; k < step.count; ++k) {
      const int buffer = memory(p.operands[static_cast<size_t>(step.first + k)]);
      if (p.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::weight) return none;
      if (p.buffers[static_cast<size_t>(buffer)].kind != rt::BufferKind::input)
        made[static_cast<size_t>(buffer)] = sha256_hex(concat(launch, "\noperand ", k));
    }
  }
  std::vector<std::string> recipes;
  for (const CompiledPort& output : p.outputs) recipes.push_back(made[static_cast<size_t>(memory(output.buffer))]);
  return recipes;
}

}  // namespace metac
