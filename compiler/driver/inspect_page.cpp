#include "compiler/driver/inspect_page.h"

#include <algorithm>
#include <cstdio>

#include "compiler/codegen/fill_template.h"
#include "compiler/driver/quantities.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (unsigned char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if (c < 0x20 && c != '\n')
      out += ' ';
    else
      out += static_cast<char>(c);
  }
  return out;
}

std::string fact(const std::string& value, const std::string& what) {
  return "<div><b>" + value + "</b><span>" + what + "</span></div>";
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string ports(const CompiledProgram& program) {
  std::string out;
  for (const auto* list : {&program.inputs, &program.outputs})
    for (const CompiledPort& port : *list) {
      std::string shape;
      for (const std::string& dim : port.dims) shape += (shape.empty() ? "" : " x ") + dim;
      out += concat("<tr><td>", list == &program.inputs ? "input" : "output", "</td><td>", escaped(port.name), "</td><td>",
                    name_of(port.dtype), "</td><td>", escaped(shape.empty() ? "scalar" : shape), "</td></tr>\n");
    }
  return out;
}

// One row a kernel, with its text behind a fold. The bar compares floating-point operations where any kernel has them.
std::string kernels(const CompiledProgram& program, const Model& model) {
  double most = 0;
  bool flops =
      std::any_of(program.kernels.begin(), program.kernels.end(), [](const KernelSource& k) { return k.flops > 0; });
  auto weight = [&](const KernelSource& k) { return flops ? k.flops : k.bytes; };
  double total = 0;
  for (const KernelSource& k : program.kernels) most = std::max(most, weight(k)), total += weight(k);
  std::string out;
  for (const KernelSource& k : program.kernels) {
    std::string nodes;
    for (int node : k.nodes)
      if (node >= 0 && node < static_cast<int>(model.graph.nodes.size()))
        nodes += "<li>" + escaped(describe(model.graph.nodes[static_cast<size_t>(node)], node)) + "</li>";
    std::string width = fixed(most > 0 ? 100 * weight(k) / most : 0, 1),
                share = total > 0 ? fixed(100 * weight(k) / total, 1) + " %" : "";
    out += "<tr><td><details><summary>" + escaped(k.name) + "</summary><pre>" + escaped(k.text) +
           "</pre></details></td><td class=\"share\"><div class=\"bar\" style=\"width:" + width + "%\"></div>" + share +
           "</td><td class=\"number\">" + (k.flops > 0 ? fixed(k.flops * 1e-6, 2) : "") + "</td><td><ul>" + nodes +
           "</ul></td></tr>\n";
  }
  return out;
}

// Arena buffers as blocks: steps to the right, addresses upwards.
std::string memory(const CompiledProgram& program) {
  constexpr double width = 1000, height = 320;
  static constexpr const char* colours[] = {"#2a7ae2", "#5aa9e6", "#7fc8a9", "#f4a259", "#c98bdb", "#e07a5f"};
  double steps = std::max<double>(1, static_cast<double>(program.steps.size())),
         bytes = std::max<double>(1, static_cast<double>(program.arena_bytes));
  std::string out = concat("<svg viewBox=\"0 0 ", width, " ", height, "\" role=\"img\" aria-label=\"memory over time\">\n");
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const rt::Buffer& b = program.buffers[k];
    if (b.kind != rt::BufferKind::arena || b.offset < 0 || b.bytes.length != 0 || b.first_step < 0) continue;
    double x = width * b.first_step / steps, w = width * (b.last_step - b.first_step + 1) / steps;
    double h = height * static_cast<double>(b.bytes.value) / bytes,
           y = height - height * static_cast<double>(b.offset) / bytes - h;
    out += "<rect x=\"" + fixed(x, 2) + "\" y=\"" + fixed(y, 2) + "\" width=\"" + fixed(std::max(w, 0.5), 2) +
           "\" height=\"" + fixed(std::max(h, 0.5), 2) + "\" fill=\"" + colours[k % std::size(colours)] +
           "\" stroke=\"#fff\" stroke-width=\"0.5\"><title>" +
           escaped(concat(show_bytes(b.bytes.value), " at ", b.offset, ", steps ", b.first_step, " to ", b.last_step)) +
           "</title></rect>\n";
  }
  return out + "</svg>\n";
}

}  // namespace

std::string inspect_page(const std::string& title, const CompiledModel& compiled, const Model& model) {
  const CompiledProgram& run = compiled.run;
  double flops = 0;
  for (const KernelSource& k : run.kernels) flops += k.flops;
  std::string facts = fact(std::to_string(model.graph.nodes.size()), "nodes in the model") +
                      fact(std::to_string(run.kernels.size()), "kernels") + fact(std::to_string(run.steps.size()), "steps") +
                      fact(show_bytes(run.weight_bytes), "weights") + fact(show_bytes(run.arena_bytes), "arena") +
                      fact(show_bytes(compiled.fusion_cost_bytes), "between kernels") +
                      fact(show_bytes(compiled.unfused_cost_bytes), "between single operators");
  if (flops > 0) facts += fact(fixed(flops * 1e-9, 3), "GFLOP in contractions");
  bool open = std::any_of(run.buffers.begin(), run.buffers.end(),
                          [](const rt::Buffer& b) { return b.kind == rt::BufferKind::arena && b.offset < 0; });
  std::string note = std::to_string(run.results_in_place) + " results take the place of an operand.";
  if (run.arena_bytes > 0) note = "This order of steps needs at least " + show_bytes(run.live_set_bytes) + "; " + note;
  if (open) note += " Values whose size the run decides are placed then and are not shown: --shape and --dim fix sizes.";
  return fill_template("templates/pages/inspect.html", {{"title", escaped(title)},
                                                        {"facts", facts},
                                                        {"ports", ports(run)},
                                                        {"memory_note", note},
                                                        {"memory", run.arena_bytes > 0 ? memory(run) : ""},
                                                        {"kernels", kernels(run, model)},
                                                        {"prepare", kernels(compiled.prepare, model)}});
}

}  // namespace metac
