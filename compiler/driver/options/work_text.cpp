#include "compiler/driver/options/work_text.h"

#include <cctype>
#include <nlohmann/json.hpp>

#include "compiler/driver/options/quantities.h"
#include "compiler/program/memory/run_memory.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// The expression with the dims' names in the place of n0, n1, ...
std::string with_names(Expr e, const CompiledProgram& program) {
  const std::string text = to_string(e);
  std::string out;
  for (size_t k = 0; k < text.size();) {
    size_t end = k + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    const bool starts = k == 0 || !(std::isalnum(static_cast<unsigned char>(text[k - 1])) || text[k - 1] == '_');
    const size_t id = text[k] == 'n' && starts && end > k + 1 && end - k < 9 ? std::stoul(text.substr(k + 1, end - k - 1))
                                                                             : program.symbols.size();
    if (id < program.symbols.size())
      out += program.symbols[id].name;
    else
      out += text.substr(k, end - k);
    k = end;
  }
  return out;
}

}  // namespace

std::string work_text(Expr amount, const CompiledProgram& program, const std::function<std::string(double)>& unit) {
  if (!amount) return "-";
  const Linear form = linear_form(amount);
  if (form.terms.size() > 2) return "by the dims";
  std::string text = form.constant != 0 || form.terms.empty() ? unit(static_cast<double>(form.constant)) : "";
  for (const auto& [dims, factor] : form.terms)
    text += (text.empty() ? "" : " + ") + unit(static_cast<double>(factor)) + " x " + with_names(dims, program);
  return text.size() > 80 ? "by the dims" : text;
}

nlohmann::ordered_json work_json(Expr amount, const CompiledProgram& program) {
  if (!amount) return nullptr;
  if (const int64_t* value = amount.if_int()) return *value;
  return with_names(amount, program);
}

std::string show_operations(double operations) {
  char text[32];
  const char* unit = operations >= 1e9 ? "GFLOP" : operations >= 1e6 ? "MFLOP" : "kFLOP";
  std::snprintf(text, sizeof text, "%.4g %s", operations / (operations >= 1e9 ? 1e9 : operations >= 1e6 ? 1e6 : 1e3), unit);
  return text;
}

std::string open_memory_text(int64_t typical_bytes, const std::string& assumed, const std::string& depends_on) {
  return concat(show_bytes(typical_bytes), assumed.empty() ? "" : " for " + assumed, " (depends on ", depends_on, ")");
}

std::string arena_text(const CompiledProgram& program, const std::string& assumed) {
  return is_planned_ahead(program) ? show_bytes(program.arena_bytes)
                                   : open_memory_text(typical_arena_bytes(program), assumed, arena_depends_on(program));
}

std::string scratch_text(const CompiledProgram& program) {
  return has_known_scratch(program) ? show_bytes(most_scratch_bytes(program))
                                    : concat(show_bytes(most_scratch_bytes(program)), " or more, by the dims,");
}

}  // namespace metac
