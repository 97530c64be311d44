#include "compiler/kernel/layout.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {

bool Layout::has_halo() const {
  auto nonzero = [](int64_t h) { return h != 0; };
  return std::any_of(before.begin(), before.end(), nonzero) || std::any_of(after.begin(), after.end(), nonzero);
}

bool Layout::operator==(const Layout& other) const {
  if (blocked_axis != other.blocked_axis || (blocked_axis >= 0 && block != other.block)) return false;
  if (!has_halo() && !other.has_halo()) return true;
  return before == other.before && after == other.after;
}

Shape storage_shape(const Shape& shape, const Layout& layout) {
  Shape out;
  for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
    Expr extent = shape[k];
    if (layout.has_halo()) extent = extent + Expr(layout.before[k] + layout.after[k]);
    out.push_back(k == layout.blocked_axis ? ceil_div(extent, layout.block) : extent);
  }
  if (layout.blocked_axis >= 0) out.push_back(layout.block);
  return out;
}

Expr storage_elements(const Shape& shape, const Layout& layout) { return element_count(storage_shape(shape, layout)); }

Expr storage_address(const Shape& shape, const Layout& layout, const std::vector<Expr>& indices) {
  METAC_ASSERT(indices.size() == shape.size());
  std::vector<Expr> at = indices;
  if (layout.has_halo())
    for (size_t k = 0; k < at.size(); ++k) at[k] = at[k] + Expr(layout.before[k]);
  if (layout.blocked_axis >= 0) {
    Expr channel = at[layout.blocked_axis];
    at[layout.blocked_axis] = floor_div(channel, layout.block);
    at.push_back(floor_mod(channel, layout.block));
  }
  return linear_index(storage_shape(shape, layout), at);
}

}  // namespace metac
