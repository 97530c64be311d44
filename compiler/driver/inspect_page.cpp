#include "compiler/driver/inspect_page.h"

#include <algorithm>
#include <cstdio>

#include "compiler/codegen/fill_template.h"
#include "compiler/driver/quantities.h"
#include "compiler/driver/work_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tensor/counts.h"

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

struct Section {
  std::string rows;
  Expr operations = 0;  // of all kernels; empty: not known
};

// One row a kernel, with its text behind a fold: what its launches in a run do together. The bar compares operations of
// contractions where any kernel has them, else bytes.
Section kernels(const CompiledModel& compiled, const CompiledProgram& program, const Model& model) {
  const std::vector<KernelWork> works = kernel_works(compiled, program);
  Section section;
  Expr bytes = 0;
  for (const KernelWork& k : works) {
    section.operations = plus(section.operations, k.work.operations);
    bytes = plus(bytes, k.work.bytes);
  }
  const bool by_operations = !section.operations || !section.operations.is_int(0);
  std::vector<std::optional<double>> shares;
  double most = 0;
  for (const KernelWork& k : works) {
    shares.push_back(by_operations ? share_of(k.work.operations, section.operations) : share_of(k.work.bytes, bytes));
    most = std::max(most, shares.back().value_or(0));
  }
  for (size_t k = 0; k < works.size(); ++k) {
    const KernelSource& kernel = program.kernels[k];
    std::string nodes;
    for (int node : kernel.nodes)
      if (node >= 0 && node < static_cast<int>(model.graph.nodes.size()))
        nodes += "<li>" + escaped(describe(model.graph.nodes[static_cast<size_t>(node)], node)) + "</li>";
    const std::string width = fixed(most > 0 ? 100 * shares[k].value_or(0) / most : 0, 1),
                      share = shares[k] ? fixed(100 * *shares[k], 1) + " %" : "-";
    const Work& work = works[k].work;
    const bool none = bool(work.operations) && work.operations.is_int(0);
    section.rows +=
        "<tr><td><details><summary>" + escaped(kernel.name) + "</summary><pre>" + escaped(kernel.text) +
        "</pre></details></td><td class=\"number\">" + (works[k].launches ? std::to_string(*works[k].launches) : "-") +
        "</td><td class=\"share\"><div class=\"bar\" style=\"width:" + width + "%\"></div>" + share +
        "</td><td class=\"number\">" + (none ? "" : escaped(work_text(work.operations, program, show_operations))) +
        "</td><td class=\"number\">" +
        escaped(work_text(work.bytes, program, [](double amount) { return show_bytes(static_cast<int64_t>(amount)); })) +
        "</td><td><ul>" + nodes + "</ul></td></tr>\n";
  }
  return section;
}

// Arena buffers as blocks: steps to the right, addresses upwards.
std::string memory(const CompiledProgram& program) {
  constexpr double width = 1000, height = 320;
  static constexpr const char* colours[] = {"#2a7ae2", "#5aa9e6", "#7fc8a9", "#f4a259", "#c98bdb", "#e07a5f"};
  int32_t last = 0;
  for (const rt::Buffer& b : program.buffers) last = std::max(last, b.last_step);
  double steps = last + 1.0, bytes = std::max<double>(1, static_cast<double>(program.arena_bytes));
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
  const Section of_run = kernels(compiled, run, model);
  const std::string assumed = compiled.assumed.empty() ? "" : escaped(" for " + compiled.assumed);
  std::string facts = fact(std::to_string(model.graph.nodes.size()), "nodes in the model") +
                      fact(std::to_string(run.kernels.size()), "kernels") + fact(std::to_string(run.steps.size()), "steps") +
                      fact(show_bytes(run.weight_bytes), "weights") +
                      fact(escaped(arena_text(run, compiled.assumed)), "arena") +
                      fact(show_bytes(compiled.fusion_cost_bytes), "between kernels" + assumed) +
                      fact(show_bytes(compiled.unfused_cost_bytes), "between single operators" + assumed);
  if (!of_run.operations || !of_run.operations.is_int(0))
    facts += fact(escaped(work_text(of_run.operations, run, show_operations)), "in contractions");
  const bool open = !is_planned_ahead(run);
  std::string note = std::to_string(run.results_in_place) + " results take the place of an operand.";
  if (!open) note = "This order of steps needs at least " + show_bytes(run.live_set_bytes) + "; " + note;
  if (open) note += " Values whose size the run decides are placed then and are not shown: --shape and --dim fix sizes.";
  return fill_template("templates/pages/inspect.html", {{"title", escaped(title)},
                                                        {"facts", facts},
                                                        {"ports", ports(run)},
                                                        {"memory_note", note},
                                                        {"memory", run.arena_bytes > 0 ? memory(run) : ""},
                                                        {"kernels", of_run.rows},
                                                        {"prepare", kernels(compiled, compiled.prepare, model).rows}});
}

}  // namespace metac
