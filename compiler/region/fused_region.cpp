#include "compiler/region/fused_region.h"

#include <sstream>

namespace metac {

std::string to_string(const FusedRegion& region) {
  std::ostringstream out;
  for (const Item& item : region.items) {
    if (item.op) {
      out << name_of(item.op->kind) << " " << item.op->routine << "\n";
      continue;
    }
    out << "kernel sharing " << item.group.shared << " loops\n";
    if (item.group.strategy) out << "  strategy: " << item.group.strategy->to_string() << "\n";
    for (const Definition& d : item.group.stages)
      out << "  " << (item.group.internal.count(d.out->id) ? "internal " : "") << to_string(d) << "\n";
  }
  for (auto& [view, source] : region.views) out << "view v" << view << " of v" << source->id << "\n";
  return out.str();
}

}  // namespace metac
