#include <set>

#include "compiler/ir/code_op.h"
#include "compiler/ir/reads.h"
#include "compiler/printing/cpp_text.h"
#include "compiler/printing/kernel_source.h"
#include "compiler/support/diagnostic.h"

namespace metac {

const char* const users_code_mark = "// the model's own C++:";

KernelSource print_code(const Op& op, const std::string& name, const std::vector<Symbol>& symbols) {
  const CodeBody body = code_of(op);
  KernelSource kernel;
  kernel.name = name;
  if (op.origin.node >= 0) kernel.nodes.push_back(op.origin.node);
  const Bounds bounds(symbols, {});
  std::string text = concat("// ", name, ": model node ", op.origin.node, "\nextern \"C\" void ", name,
                            "(void* const* b, const int64_t* s, void* scratch, int64_t begin, int64_t end) {\n");
  text += "  (void)b, (void)s, (void)scratch, (void)begin, (void)end;\n";
  std::set<int> used;
  std::string names;
  const auto declare = [&](const std::string& operand, const Var* var, size_t place, bool written) {
    const std::string type = concat(written ? "" : "const ", info(var->dtype()).cpp_name, "*");
    names += concat("  ", type, " const ", operand, " = (", type, ")b[", place, "];\n");
    for (int k = 0; k < var->rank(); ++k) {
      const Expr dim = var->shape()[static_cast<size_t>(k)];
      visit_symbols(dim, [&](int id) { used.insert(id); });
      names += concat("  const int64_t ", operand, "_shape", k, " = ", index_expression_text(dim, bounds), ";\n");
      names += concat("  (void)", operand, "_shape", k, ";\n");
    }
    names += concat("  (void)", operand, ";\n");
  };
  for (size_t k = 0; k < op.inputs.size(); ++k) declare(body.operands[k], op.inputs[k], k, false);
  declare("out", op.outputs[0], op.inputs.size(), true);
  for (int id : used) text += concat("  const int64_t n", id, " = s[", id, "];\n");
  kernel.symbols.assign(used.begin(), used.end());
  kernel.text = text + names + "  {\n" + users_code_mark + "\n" + body.source + "\n  }\n}\n";
  return kernel;
}

}  // namespace metac
