#include "compiler/codegen/text/program_text.h"

#include <functional>
#include <map>

#include "compiler/codegen/text/fill_template.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

const char* name_of(rt::Code code) {
  static const char* const names[] = {"constant",   "symbol",      "add",    "sub",  "mul", "floor_div", "floor_mod",
                                      "min",        "max",         "lt",     "le",   "eq",  "ne",        "logical_and",
                                      "logical_or", "logical_not", "select", "keep", "kept"};
  return names[static_cast<size_t>(code)];
}

const char* name_of(rt::ScalarType type) {
  static const char* const names[] = {"f32", "f64", "f16", "bf16", "i8",  "i16",     "i32",
                                      "i64", "u8",  "u16", "u32",  "u64", "boolean", "string"};
  return names[static_cast<size_t>(type)];
}

const char* name_of(rt::BufferKind kind) {
  static const char* const names[] = {"input", "output", "weight", "arena", "view"};
  return names[static_cast<size_t>(kind)];
}

const char* name_of(rt::StepKind kind) {
  static const char* const names[] = {"launch", "bind", "external", "check",  "branch",
                                      "loop",   "copy", "assign",   "repeat", "beside"};
  return names[static_cast<size_t>(kind)];
}

const char* name_of(rt::StateMemory kept) {
  static const char* const names[] = {"two_places", "written_over", "grows", "stays"};
  return names[static_cast<size_t>(kept)];
}

std::string extent_row(const rt::Extent& e) { return concat("{", e.value, ", ", e.length, "}"); }

// INT64_MIN has no literal.
std::string number(int64_t value) { return value == INT64_MIN ? "INT64_MIN" : std::to_string(value); }

class Tables {
 public:
  Tables(const CompiledProgram& program, const std::string& name, const std::string& label)
      : p_(program), name_(name), label_(label) {}

  std::string run() {
    text_ += "namespace {\n\n";
    table(
        "Instruction", "code", p_.code.size(),
        [&](size_t i) { return concat("{Code::", name_of(p_.code[i].code), ", ", number(p_.code[i].value), "}"); }, 8);
    table(
        "Extent", "extents", p_.extents.size(), [&](size_t i) { return extent_row(p_.extents[i]); }, 12);
    comment("kind, dtype, size known only while running, rank, index, offset, first dim, bytes, first and last step");
    table(
        "Buffer", "buffers", p_.buffers.size(), [&](size_t i) { return buffer_row(i); }, 1,
        [&](size_t i) { return buffer_comment(i); });
    table(
        "int32_t", "operands", p_.operands.size(), [&](size_t i) { return std::to_string(p_.operands[i]); }, 24);
    comment(
        "kind, inputs among the operands, operands from, how many, kernel or routine, iterations, scratch per worker, ns an "
        "iteration,");
    comment("symbol, symbols, element; then and else steps; carried and stacked values");
    table(
        "Step", "steps", p_.steps.size(), [&](size_t i) { return step_row(p_.steps[i]); }, 1,
        [&](size_t i) {
          return i < p_.step_comments.size() ? concat(i, ": ", comment_text(p_.step_comments[i])) : std::to_string(i);
        });
    table(
        "SymbolInfo", "symbols", p_.symbols.size(),
        [&](size_t i) {
          const auto& s = p_.symbols[i];
          return concat("{", c_string(s.name), ", ", number(s.min), ", ", number(s.max), ", ", number(s.divisor), "}");
        },
        1, [](size_t i) { return concat("n", i); });
    table(
        "SymbolSource", "sources", p_.sources.size(),
        [&](size_t i) {
          return concat("{", p_.sources[i].symbol, ", ", p_.sources[i].input, ", ", p_.sources[i].axis, "}");
        },
        8);
    table(
        "int32_t", "symbol_ids", p_.symbol_ids.size(), [&](size_t i) { return std::to_string(p_.symbol_ids[i]); }, 24);
    names();
    for (const auto& [which, ports] : {std::pair{"inputs", &p_.inputs}, std::pair{"outputs", &p_.outputs}})
      table(
          "Port", which, ports->size(),
          [&, ports = ports](size_t i) {
            return concat("{", place_of_name((*ports)[i].name), ", ", (*ports)[i].buffer, "}");
          },
          8);
    table(
        "KernelFunction", "kernels", p_.kernels.size(), [&](size_t i) { return "&" + p_.kernels[i].name; }, 1,
        [](size_t i) { return std::to_string(i); });
    table(
        "int32_t", "kernel_names", p_.kernels.size(),
        [&](size_t i) { return std::to_string(place_of_name(label_ + p_.kernels[i].name)); }, 16);
    table(
        "char*", "routines", p_.routines.size(), [&](size_t i) { return c_string(p_.routines[i]); }, 1);
    attributes();
    table(
        "char*", "messages", p_.messages.size(), [&](size_t i) { return c_string(p_.messages[i]); }, 1);
    if (!p_.exchanges.empty()) comment("number, buffer, there behind step, needed before step");
    table(
        "Exchange", "exchanges", p_.exchanges.size(),
        [&](size_t i) {
          const rt::Exchange& e = p_.exchanges[i];
          return concat("{", e.index, ", ", e.buffer, ", ", e.ready, ", ", e.needed, "}");
        },
        6);
    if (!p_.loads.empty()) comment("before step (-1: stays), weight, at this offset in the window");
    table(
        "Load", "loads", p_.loads.size(),
        [&](size_t i) { return concat("{", p_.loads[i].step, ", ", p_.loads[i].buffer, ", ", p_.loads[i].offset, "}"); }, 6);
    if (!p_.states.empty()) comment("input, output, axis that grows, symbol of its storage");
    table(
        "StateInfo", "states", p_.states.size(),
        [&](size_t i) {
          const rt::StateInfo& s = p_.states[i];
          return concat("{", s.input, ", ", s.output, ", ", s.axis, ", ", s.capacity, ", StateMemory::", name_of(s.kept),
                        "}");
        },
        1);
    comment("operations of sums of products, bytes read and written; -1: not known");
    table(
        "StepWork", "work", p_.work_extents.size(),
        [&](size_t i) {
          return concat("{", extent_row(p_.work_extents[i].operations), ", ", extent_row(p_.work_extents[i].bytes), "}");
        },
        6);
    if (!p_.needs.empty()) comment("which outputs a step is for: bit k is output k, 128 what is always done");
    table(
        "uint8_t", "needs", p_.needs.size(), [&](size_t i) { return std::to_string(p_.needs[i]); }, 32);
    text_ += "}  // namespace\n\n";
    program();
    return text_;
  }

 private:
  void comment(const std::string& words) { text_ += "// " + words + "\n"; }

  std::string table_name(const std::string& table) const { return name_ + "_" + table + "_table"; }

  void table(const std::string& type, const std::string& table, size_t count, const std::function<std::string(size_t)>& row,
             size_t per_line, const std::function<std::string(size_t)>& remark = {}) {
    if (count == 0) return;
    bool strings = type == "char*";
    text_ += strings ? concat("const char* const ", table_name(table), "[] = {")
                     : concat("const ", type, " ", table_name(table), "[] = {");
    for (size_t i = 0; i < count; ++i) {
      text_ += i % per_line == 0 ? "\n    " : " ";
      text_ += row(i) + ",";
      if (remark) text_ += "  // " + remark(i);
    }
    text_ += "\n};\n\n";
  }

  std::string buffer_row(size_t i) const {
    const rt::Buffer& b = p_.buffers[i];
    return concat("{BufferKind::", name_of(b.kind), ", ScalarType::", name_of(b.dtype), ", ", b.late ? "true" : "false",
                  ", ", int{b.rank}, ", ", b.index, ", ", b.offset, ", ", b.first_dim, ", ", extent_row(b.bytes), ", ",
                  b.first_step, ", ", b.last_step, "}");
  }

  std::string buffer_comment(size_t i) const {
    const rt::Buffer& b = p_.buffers[i];
    std::string dims;
    for (int32_t d = 0; d < b.rank; ++d)
      dims += (d ? ", " : "") + extent_text(p_, p_.extents[static_cast<size_t>(b.first_dim + d)]);
    return concat(i, ": [", dims, "]");
  }

  std::string step_row(const rt::Step& s) const {
    return concat("{StepKind::", name_of(s.kind), ", ", int{s.inputs}, ", ", s.first, ", ", s.count, ", ", s.kernel, ", ",
                  extent_row(s.parallel), ", ", extent_row(s.scratch_bytes), ", ", s.cost, ", ", s.symbol, ", ",
                  s.symbol_count, ", ", s.element, ", ", s.then_begin, ", ", s.then_end, ", ", s.else_begin, ", ",
                  s.else_end, ", ", s.carried, ", ", s.stacked, "}");
  }

  // All names, each with a zero behind it.
  void names() {
    std::vector<std::string> all;
    for (const KernelSource& kernel : p_.kernels) all.push_back(label_ + kernel.name);
    for (const auto* ports : {&p_.inputs, &p_.outputs})
      for (const CompiledPort& port : *ports) all.push_back(port.name);
    std::string lines;
    size_t place = 0;
    for (const std::string& name : all) {
      if (!places_.emplace(name, place).second) continue;
      lines += "\n    " + c_string(name) + " \"\\0\"";
      place += name.size() + 1;
    }
    if (!all.empty()) text_ += "const char " + table_name("names") + "[] =" + lines + ";\n\n";
  }
  size_t place_of_name(const std::string& name) const { return places_.at(name); }

  void attributes() {
    for (size_t k = 0; k < p_.attributes.size(); ++k) {
      const auto& rows = p_.attributes[k];
      for (size_t a = 0; a < rows.size(); ++a)
        table(
            "int64_t", concat("integers_", k, "_", a), rows[a].integers.size(),
            [&](size_t i) { return number(rows[a].integers[i]); }, 16);
      table(
          "RoutineAttribute", concat("attribute_", k), rows.size(),
          [&](size_t a) {
            char real[40];
            std::snprintf(real, sizeof real, "%a", rows[a].real);
            return concat("{", c_string(rows[a].name), ", ", number(rows[a].integer), ", ", real, ", ",
                          c_string(rows[a].string), ", ",
                          rows[a].integers.empty() ? "nullptr" : table_name(concat("integers_", k, "_", a)), ", ",
                          rows[a].integers.size(), "}");
          },
          1);
    }
    table(
        "RoutineAttributes", "attributes", p_.attributes.size(),
        [&](size_t k) {
          return concat("{", p_.attributes[k].empty() ? "nullptr" : table_name(concat("attribute_", k)), ", ",
                        p_.attributes[k].size(), "}");
        },
        4);
  }

  void program() {
    auto pair = [&](const std::string& table, size_t count) {
      return concat("    ", count ? table_name(table) : "nullptr", ", ", count, ",\n");
    };
    text_ += "const Program " + name_ + " = {\n";
    text_ += pair("buffers", p_.buffers.size()) + pair("extents", p_.extents.size()) + pair("code", p_.code.size());
    text_ += pair("operands", p_.operands.size()) + pair("steps", p_.steps.size());
    text_ += concat("    ", p_.top_level_steps, ",  // of the steps stand at the top level\n");
    text_ +=
        pair("symbols", p_.symbols.size()) + pair("sources", p_.sources.size()) + pair("symbol_ids", p_.symbol_ids.size());
    text_ += pair("inputs", p_.inputs.size()) + pair("outputs", p_.outputs.size()) + pair("kernels", p_.kernels.size());
    text_ += concat("    ", places_.empty() ? "\"\"" : table_name("names"), ",\n    ",
                    p_.kernels.empty() ? "nullptr" : table_name("kernel_names"), ",\n");
    text_ += pair("routines", p_.routines.size()) + pair("attributes", p_.attributes.size()) +
             pair("messages", p_.messages.size());
    text_ += concat("    ", p_.arena_bytes, ",  // bytes of the arena that are planned ahead\n    ", p_.weight_bytes,
                    ",  // bytes of weights\n") +
             pair("exchanges", p_.exchanges.size()) + pair("loads", p_.loads.size());
    text_ += concat("    ", p_.window_bytes, ",  // bytes of weights on the device, where not all are\n    ",
                    p_.work_extents.empty() ? "nullptr" : table_name("work"), ",\n") +
             pair("states", p_.states.size()) +
             concat("    ", p_.own_outputs, ",\n    ", p_.needs.empty() ? "nullptr" : table_name("needs"), "};\n");
  }

  const CompiledProgram& p_;
  std::string name_, label_, text_;
  std::map<std::string, size_t> places_;  // of names in their text
};

}  // namespace

std::string program_text(const CompiledProgram& program, const std::string& name, const std::string& label) {
  return Tables(program, name, label).run();
}

std::string extent_text(const CompiledProgram& program, const rt::Extent& extent) {
  if (extent.length == 0) return std::to_string(extent.value);
  std::vector<std::string> stack;
  for (int32_t i = 0; i < extent.length; ++i) {
    const rt::Instruction& instruction = program.code[static_cast<size_t>(extent.value + i)];
    if (instruction.code == rt::Code::keep || instruction.code == rt::Code::kept) return "...";
    size_t arity = instruction.code == rt::Code::constant || instruction.code == rt::Code::symbol ? 0
                   : instruction.code == rt::Code::logical_not                                    ? 1
                   : instruction.code == rt::Code::select                                         ? 3
                                                                                                  : 2;
    METAC_ASSERT(stack.size() >= arity, "extent code");
    std::vector<std::string> args(stack.end() - static_cast<std::ptrdiff_t>(arity), stack.end());
    stack.resize(stack.size() - arity);
    switch (instruction.code) {
      case rt::Code::constant:
        stack.push_back(std::to_string(instruction.value));
        break;
      case rt::Code::symbol:
        stack.push_back(concat("n", instruction.value));
        break;
      case rt::Code::add:
        stack.push_back("(" + args[0] + " + " + args[1] + ")");
        break;
      case rt::Code::sub:
        stack.push_back("(" + args[0] + " - " + args[1] + ")");
        break;
      case rt::Code::mul:
        stack.push_back(args[0] + "*" + args[1]);
        break;
      default: {
        std::string call = std::string(name_of(instruction.code)) + "(";
        for (size_t k = 0; k < args.size(); ++k) call += (k ? ", " : "") + args[k];
        stack.push_back(call + ")");
      }
    }
  }
  METAC_ASSERT(stack.size() == 1, "extent code");
  return stack[0].size() > 60 ? "..." : stack[0];
}

std::vector<int64_t> constant_dims(const CompiledProgram& program, const CompiledPort& port) {
  const rt::Buffer& b = program.buffers[static_cast<size_t>(port.buffer)];
  std::vector<int64_t> dims;
  for (int32_t d = 0; d < b.rank; ++d) {
    const rt::Extent& extent = program.extents[static_cast<size_t>(b.first_dim + d)];
    dims.push_back(extent.length == 0 ? extent.value : -1);
  }
  return dims;
}

std::vector<PortRow> port_rows(const CompiledProgram& program, const std::vector<CompiledPort>& ports) {
  std::vector<PortRow> rows;
  for (const CompiledPort& port : ports) {
    PortRow row{port.name, port.dtype, constant_dims(program, port), port.dims};
    for (size_t d = row.dim_names.size(); d < row.dims.size(); ++d) row.dim_names.push_back(std::to_string(row.dims[d]));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string ports_text(const std::vector<PortRow>& ports, const std::string& table, const std::string& prefix) {
  std::string arrays, rows;
  std::map<std::string, std::string> names;  // of arrays, by what they hold: many parameters have the same dims
  auto array = [&](const char* type, const char* suffix, const std::string& elements) {
    if (elements.empty()) return std::string("no_") + suffix;
    auto [found, is_new] = names.emplace(type + elements, concat(table, "_", suffix, "_", names.size()));
    if (is_new) arrays += concat("const ", type, " ", found->second, "[] = {", elements, "};\n");
    return found->second;
  };
  for (const PortRow& port : ports) {
    const std::vector<int64_t>& dims = port.dims;
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = dims[d] < 0 || strides[d] < 0 ? -1 : strides[d] * dims[d];
    std::string dim_list, stride_list, name_list;
    for (size_t d = 0; d < dims.size(); ++d) {
      dim_list += (d ? ", " : "") + std::to_string(dims[d]);
      stride_list += (d ? ", " : "") + std::to_string(strides[d]);
      name_list += (d ? ", " : "") + c_string(port.dim_names[d]);
    }
    rows += concat("    {", c_string(port.name), ", static_cast<", prefix, "_dtype>(", static_cast<int>(port.dtype), "), ",
                   dims.size(), ", ", array("int64_t", "dims", dim_list), ", ", array("int64_t", "strides", stride_list),
                   ", ", array("char* const", "dim_names", name_list), "},\n");
  }
  if (ports.empty())
    rows = concat("    {\"\", static_cast<", prefix, "_dtype>(0), 0, no_dims, no_strides, no_dim_names},  // none\n");
  return (arrays.empty() ? "" : "namespace {\n" + arrays + "}  // namespace\n") +
         concat("const ", prefix, "_port ", table, "[] = {\n", rows, "};\n");
}

}  // namespace metac
