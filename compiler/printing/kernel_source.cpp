#include "compiler/printing/kernel_source.h"

#include <algorithm>

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
