#include "compiler/printing/kernel_source.h"

#include <algorithm>

#include "compiler/ir/walks.h"

namespace metac {

namespace {

std::string type_of_product(Expr e) {
  switch (e->fn) {
    case Fn::mul:
      return is_float(e->dtype) ? std::string(name_of(e->dtype)) : "";
    case Fn::dot_bf16:
      return std::string(name_of(DType::bf16));
    case Fn::dot_i16:
      return std::string(name_of(DType::i16));
    case Fn::dot_u8s8:
    case Fn::dot_s8u8:
    case Fn::pairs_s8u8:
    case Fn::pairs_s8s8:
      return std::string(name_of(DType::i8));
    default:
      return "";
  }
}

// TensorProduct::kind
std::string type_of_fragments(const std::string& kind) {
  if (kind == "f16") return std::string(name_of(DType::f16));
  if (kind == "bf16") return std::string(name_of(DType::bf16));
  if (kind == "f64") return std::string(name_of(DType::f64));
  return kind.find('8') != std::string::npos ? std::string(name_of(DType::i8)) : kind;
}

void note_products(const LoopNode& node, std::set<std::string>& types) {
  if (node.tensor) types.insert(type_of_fragments(node.tensor->kind));
  for (const Assign& assign : node.assigns)
    if (assign.update == Reduce::add)
      visit(assign.value, [&](Expr e) {
        if (e->kind == ExprKind::call) types.insert(type_of_product(e));
      });
  for (const LoopNode& child : node.children) note_products(child, types);
}

}  // namespace

KernelSource source_of(const Kernel& kernel, std::string text, const std::set<int>& symbols) {
  KernelSource source;
  source.name = kernel.name;
  source.text = std::move(text);
  source.nodes = kernel.nodes;
  source.schedule = kernel.schedule;
  source.symbols.assign(symbols.begin(), symbols.end());
  std::set<std::string> reads, writes, multiplies;
  for (const KernelArgument& argument : kernel.arguments)
    (argument.written ? writes : reads).insert(std::string(name_of(argument.var->dtype())));
  note_products(kernel.root, multiplies);
  for (const LibraryProduct& product : kernel.products) multiplies.insert(std::string(name_of(product.dtype)));
  if (kernel.convolution) multiplies.insert(std::string(name_of(kernel.convolution->dtype)));
  multiplies.erase("");
  source.reads.assign(reads.begin(), reads.end());
  source.writes.assign(writes.begin(), writes.end());
  source.multiplies.assign(multiplies.begin(), multiplies.end());
  return source;
}

Expr scratch_bytes(const Kernel& kernel) {
  Expr bytes = 0;
  for (const Local& l : kernel.scratch)
    bytes = bytes + ceil_div(l.count * Expr(static_cast<int64_t>(size_of(l.dtype))), 64) * Expr(64);
  return bytes;
}

std::string text_named(const KernelSource& kernel, const std::string& name) {
  std::string text;
  bool ours = true;  // what looks like a comment in the user's text may stand in a string
  for (size_t at = 0; at < kernel.text.size();) {
    const size_t end = std::min(kernel.text.find('\n', at), kernel.text.size());
    std::string line = kernel.text.substr(at, end - at);
    at = end + 1;
    if (line == users_code_mark) {
      ours = false;
    } else if (ours) {
      if (const size_t comment = line.find("//"); comment != std::string::npos) line.resize(comment);
      if (const size_t old = line.find(kernel.name); old != std::string::npos) line.replace(old, kernel.name.size(), name);
      if (line.empty()) continue;
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace metac
