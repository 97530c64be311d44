// Programs made by hand, for tests of the executor.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"

namespace tables {

using namespace metac_runtime;

// Owns the rows; program() points into them.
class Tables {
 public:
  int symbol(const char* name, int64_t min = 0, int64_t max = INT64_MAX, int64_t divisor = 1) {
    symbols.push_back({name, min, max, divisor});
    return static_cast<int>(symbols.size()) - 1;
  }
  static Extent fixed(int64_t value) { return {value, 0}; }
  Extent of(std::vector<Instruction> instructions) {
    const Extent extent = {static_cast<int64_t>(code.size()), static_cast<int32_t>(instructions.size())};
    code.insert(code.end(), instructions.begin(), instructions.end());
    return extent;
  }
  Extent times(int symbol, int64_t factor) { return of({{Code::symbol, symbol}, {Code::constant, factor}, {Code::mul, 0}}); }
  Extent just(int symbol) { return of({{Code::symbol, symbol}}); }

  // A buffer of f32 unless told; its bytes are `bytes`, its lifetime all steps unless told.
  int buffer(BufferKind kind, int index, std::vector<Extent> dims, Extent bytes, ScalarType dtype = ScalarType::f32,
             bool late = false, int first = 0, int last = 1 << 20) {
    const auto rank = static_cast<int16_t>(dims.size());
    Buffer b{kind, dtype, late, rank, index, -1, static_cast<int32_t>(extents.size()), bytes, first, last};
    extents.insert(extents.end(), dims.begin(), dims.end());
    buffers.push_back(b);
    return static_cast<int>(buffers.size()) - 1;
  }
  int input(const char* name, std::vector<Extent> dims, Extent bytes, ScalarType dtype = ScalarType::f32) {
    const int id = buffer(BufferKind::input, static_cast<int>(inputs.size()), std::move(dims), bytes, dtype);
    inputs.push_back({name, id});
    return id;
  }
  int output(const char* name, std::vector<Extent> dims, Extent bytes, ScalarType dtype = ScalarType::f32,
             bool late = false) {
    const int id = buffer(BufferKind::output, static_cast<int>(outputs.size()), std::move(dims), bytes, dtype, late);
    outputs.push_back({name, id});
    return id;
  }
  Step& step(StepKind kind, std::vector<int> ids) {
    Step s{};
    s.kind = kind;
    s.first = static_cast<int32_t>(operands.size());
    s.count = static_cast<int32_t>(ids.size());
    s.else_begin = s.symbol = s.kernel = -1;
    operands.insert(operands.end(), ids.begin(), ids.end());
    steps.push_back(s);
    return steps.back();
  }
  Step& launch(KernelFunction kernel, std::vector<int> ids, Extent parallel, int64_t cost = 1) {
    kernels.push_back(kernel);
    names.push_back("kernel");
    Step& s = step(StepKind::launch, std::move(ids));
    s.kernel = static_cast<int32_t>(kernels.size()) - 1;
    s.parallel = parallel;
    s.cost = cost;
    return s;
  }

  const Program& program(int top_level = -1) {
    auto count = [](const auto& rows) { return static_cast<int32_t>(rows.size()); };
    p = Program{};
    p.buffers = buffers.data(), p.buffer_count = count(buffers);
    p.extents = extents.data(), p.extent_count = count(extents);
    p.code = code.data(), p.code_count = count(code);
    p.operands = operands.data(), p.operand_count = count(operands);
    p.steps = steps.data(), p.step_count = count(steps);
    p.top_level_steps = top_level < 0 ? p.step_count : top_level;
    p.symbols = symbols.data(), p.symbol_count = count(symbols);
    p.sources = sources.data(), p.source_count = count(sources);
    p.symbol_ids = symbol_ids.data(), p.symbol_id_count = count(symbol_ids);
    all_names.clear();
    const auto place = [this](const char* name) {
      all_names += std::string(name) + '\0';
      return static_cast<int32_t>(all_names.size() - std::strlen(name) - 1);
    };
    input_rows.clear(), output_rows.clear(), name_places.clear();
    for (const NamedPort& port : inputs) input_rows.push_back({place(port.name), port.buffer});
    for (const NamedPort& port : outputs) output_rows.push_back({place(port.name), port.buffer});
    for (const char* name : names) name_places.push_back(place(name));
    p.inputs = input_rows.data(), p.input_count = count(inputs);
    p.outputs = output_rows.data(), p.output_count = count(outputs);
    p.kernels = kernels.data(), p.kernel_count = count(kernels);
    p.names = all_names.c_str(), p.kernel_names = name_places.data();
    p.routines = routines.data(), p.routine_count = count(routines);
    p.attributes = attributes.data(), p.attributes_count = count(attributes);
    p.messages = messages.data(), p.message_count = count(messages);
    return p;
  }

  std::vector<Buffer> buffers;
  std::vector<Extent> extents;
  std::vector<Instruction> code;
  std::vector<int32_t> operands, symbol_ids;
  std::vector<Step> steps;
  std::vector<SymbolInfo> symbols;
  std::vector<SymbolSource> sources;
  struct NamedPort {
    const char* name;
    int32_t buffer;
  };
  std::vector<NamedPort> inputs, outputs;
  std::vector<KernelFunction> kernels;
  std::vector<const char*> names, routines, messages;
  std::vector<RoutineAttributes> attributes;
  std::vector<Port> input_rows, output_rows;
  std::vector<int32_t> name_places;
  std::string all_names;
  Program p{};
};

}  // namespace tables
