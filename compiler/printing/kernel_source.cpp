#include "compiler/printing/kernel_source.h"

namespace metac {

KernelSource source_of(const Kernel& kernel, std::string text, const std::set<int>& symbols) {
  KernelSource source;
  source.name = kernel.name;
  source.text = std::move(text);
  source.nodes = kernel.nodes;
  source.schedule = kernel.schedule;
  source.symbols.assign(symbols.begin(), symbols.end());
  return source;
}

Expr scratch_bytes(const Kernel& kernel) {
  Expr bytes = 0;
  for (const Local& l : kernel.scratch)
    bytes = bytes + ceil_div(l.count * Expr(static_cast<int64_t>(size_of(l.dtype))), 64) * Expr(64);
  return bytes;
}

std::string key_of(const KernelSource& kernel) {
  std::string key;
  size_t at = 0;
  while (at < kernel.text.size()) {
    size_t end = kernel.text.find('\n', at);
    std::string line = kernel.text.substr(at, end - at);
    at = end + 1;
    if (size_t comment = line.find("//"); comment != std::string::npos) line.resize(comment);
    if (size_t name = line.find(kernel.name); name != std::string::npos) line.erase(name, kernel.name.size());
    key += line + "\n";
  }
  return key;
}

}  // namespace metac
