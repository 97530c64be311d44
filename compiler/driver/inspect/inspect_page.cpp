#include "compiler/driver/inspect/inspect_page.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>

#include "compiler/codegen/text/fill_template.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/driver/options/work_text.h"
#include "compiler/program/memory/run_memory.h"
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

// The place of each in the order from the greatest; what is not known comes last.
std::vector<size_t> ranks(const std::vector<std::optional<double>>& amounts) {
  std::vector<size_t> order(amounts.size()), ranks(amounts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return amounts[a].value_or(-1) > amounts[b].value_or(-1); });
  for (size_t k = 0; k < order.size(); ++k) ranks[order[k]] = k;
  return ranks;
}

// One row a kernel, with its text behind a fold: what its launches in a run do together. The bar compares operations of
// contractions where any kernel has them, else bytes. A row knows its place in each order that the page offers.
Section kernels(const CompiledModel& compiled, const CompiledProgram& program, const Model& model) {
  const std::vector<KernelWork> works = kernel_works(compiled, program);
  Section section;
  Expr all_bytes = 0;
  for (const KernelWork& k : works) {
    section.operations = plus(section.operations, k.work.operations);
    all_bytes = plus(all_bytes, k.work.bytes);
  }
  const bool by_operations = !section.operations || !section.operations.is_int(0);
  std::vector<std::optional<double>> shares, bytes, launches;
  double most = 0;
  for (const KernelWork& k : works) {
    bytes.push_back(share_of(k.work.bytes, all_bytes));
    shares.push_back(by_operations ? share_of(k.work.operations, section.operations) : bytes.back());
    launches.push_back(k.launches ? std::optional<double>(static_cast<double>(*k.launches)) : std::nullopt);
    most = std::max(most, shares.back().value_or(0));
  }
  const std::vector<size_t> by_share = ranks(shares), by_bytes = ranks(bytes), by_launches = ranks(launches);
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
    section.rows += concat("<tr style=\"--share:", by_share[k], ";--bytes:", by_bytes[k], ";--launches:", by_launches[k],
                           "\"><td class=\"name\">", escaped(kernel.name), "</td>");
    section.rows +=
        "<td class=\"number\" data-of=\"launches\">" +
        (works[k].launches ? std::to_string(*works[k].launches) : std::string("-")) +
        "</td><td class=\"share\" data-of=\"share\"><div class=\"bar\" style=\"width:" + width + "%\"></div>" + share +
        "</td><td class=\"number\" data-of=\"operations\">" +
        (none ? "" : escaped(work_text(work.operations, program, show_operations))) +
        "</td><td class=\"number\" data-of=\"bytes\">" +
        escaped(work_text(work.bytes, program, [](double amount) { return show_bytes(static_cast<int64_t>(amount)); })) +
        "</td><td class=\"nodes\"><ul>" + nodes + "</ul></td><td class=\"text\"><details><summary>text</summary><pre>" +
        escaped(kernel.text) + "</pre></details></td></tr>\n";
  }
  return section;
}

// The first and the last step that has each buffer for an operand; a slice's buffers live longer than that.
std::vector<std::pair<int, int>> uses(const CompiledProgram& program, const std::vector<int>& steps) {
  std::vector<std::pair<int, int>> used(program.buffers.size(), {-1, -1});
  for (const int step : steps) {
    const rt::Step& s = program.steps[static_cast<size_t>(step)];
    for (int o = 0; o < s.count; ++o)
      for (int b = program.operands[static_cast<size_t>(s.first + o)]; b >= 0;) {
        auto& [first, last] = used[static_cast<size_t>(b)];
        if (first < 0) first = step;
        last = step;
        const rt::Buffer& buffer = program.buffers[static_cast<size_t>(b)];
        b = buffer.kind == rt::BufferKind::view ? buffer.index : -1;
      }
  }
  return used;
}

// The arena as it is planned, or as a run of typical dims plans it: values as blocks, steps to the right, addresses upwards.
std::string memory(const CompiledProgram& program) {
  constexpr double left = 84, top = 10, width = 900, height = 300, bottom = top + height;
  static constexpr const char* colours[] = {"#8ab8f0", "#a9dcc4", "#f7c48f", "#dcb8e8", "#efa99a", "#c9d6e2"};
  const TypicalArena arena = typical_arena(program);
  if (arena.values.empty()) return "";
  const std::vector<int> steps_at = steps_by_time(program);
  const std::vector<std::pair<int, int>> used = uses(program, steps_at);
  const double times = std::max<double>(1, static_cast<double>(steps_at.size())),
               bytes = std::max<double>(1, static_cast<double>(arena.bytes));
  std::string out = concat("<div class=\"chart\"><svg viewBox=\"0 0 ", left + width + 8, " ", bottom + 42,
                           "\" role=\"img\" aria-label=\"memory over time\">\n");
  const auto text = [&](double x, double y, const char* anchor, const std::string& what) {
    out += "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor + "\">" + escaped(what) +
           "</text>\n";
  };
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const double y = bottom - height * quarter / 4;
    out += "<line x1=\"" + fixed(left, 1) + "\" y1=\"" + fixed(y, 1) + "\" x2=\"" + fixed(left + width, 1) + "\" y2=\"" +
           fixed(y, 1) + "\"/>\n";
    text(left - 6, y + 4, "end", show_bytes(arena.bytes * quarter / 4));
  }
  const size_t stride = (steps_at.size() + 15) / 16;
  for (size_t time = 0; stride > 0 && time < steps_at.size(); time += stride)
    text(left + width * (static_cast<double>(time) + 0.5) / times, bottom + 16, "middle", std::to_string(steps_at[time]));
  text(left + width, bottom + 34, "end", "step");
  for (const PlacedValue& value : arena.values) {
    const rt::Buffer& b = program.buffers[static_cast<size_t>(value.buffer)];
    if (b.first_step < 0) continue;
    const auto first = static_cast<size_t>(b.first_step), last = static_cast<size_t>(b.last_step);
    const double x = left + width * static_cast<double>(first) / times,
                 w = width * static_cast<double>(last - first + 1) / times,
                 h = height * static_cast<double>(value.bytes) / bytes,
                 y = bottom - height * static_cast<double>(value.offset) / bytes - h;
    const auto step_name = [&](int step) {
      return step < 0 ? std::string("no step") : program.step_comments[static_cast<size_t>(step)];
    };
    const auto [maker, reader] = used[static_cast<size_t>(value.buffer)];
    std::string name = step_name(maker);
    out += "<rect x=\"" + fixed(x, 2) + "\" y=\"" + fixed(y, 2) + "\" width=\"" + fixed(std::max(w, 0.5), 2) +
           "\" height=\"" + fixed(std::max(h, 0.5), 2) + "\" fill=\"" +
           colours[static_cast<size_t>(value.buffer) % std::size(colours)] + "\"><title>" +
           escaped(concat("made by ", name, ", last read by ", step_name(reader), ": ", show_bytes(value.bytes), " at ",
                          value.offset)) +
           "</title></rect>\n";
    const auto letters = static_cast<size_t>(std::max(0.0, (w - 6) / 6.2));  // that fit into the block
    if (h < 13 || letters < 6) continue;
    if (name.size() > letters) name.resize(letters);
    out += "<text class=\"of\" x=\"" + fixed(x + 4, 1) + "\" y=\"" + fixed(y + h / 2 + 4, 1) + "\">" + escaped(name) +
           "</text>\n";
  }
  return out + "</svg></div>\n";
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
  std::string note = std::to_string(run.results_in_place) + " results take the place of an operand.";
  if (is_planned_ahead(run)) {
    note = "This order of steps needs at least " + show_bytes(run.live_set_bytes) + "; " + note;
  } else {
    note += " A run plans it by its dims; this is the plan" + assumed + ".";
    if (std::any_of(run.buffers.begin(), run.buffers.end(), [](const rt::Buffer& b) { return b.late; }))
      note += " Values whose size the data decide are not shown.";
  }
  return fill_template("templates/pages/inspect.html", {{"title", escaped(title)},
                                                        {"facts", facts},
                                                        {"ports", ports(run)},
                                                        {"memory_note", note},
                                                        {"memory", memory(run)},
                                                        {"kernels", of_run.rows},
                                                        {"prepare", kernels(compiled, compiled.prepare, model).rows}});
}

}  // namespace metac
