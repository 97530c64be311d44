#include "compiler/tensor/layout.h"

#include <algorithm>
#include <functional>

#include "compiler/support/diagnostic.h"

namespace metac {

bool Layout::has_halo() const {
  auto nonzero = [](int64_t h) { return h != 0; };
  return std::any_of(before.begin(), before.end(), nonzero) || std::any_of(after.begin(), after.end(), nonzero);
}

bool Layout::holds_halo_of(const Layout& other) const {
  auto holds = [](const std::vector<int64_t>& mine, const std::vector<int64_t>& wanted) {
    return std::equal(wanted.begin(), wanted.end(), mine.begin(), std::less_equal<>());
  };
  return !other.has_halo() || (has_halo() && fill == other.fill && holds(before, other.before) && holds(after, other.after));
}

static size_t axis_at(const Layout& layout, size_t position) {
  return layout.order.empty() ? position : static_cast<size_t>(layout.order[position]);
}

int innermost_axis(const Layout& layout, int rank) {
  return static_cast<int>(axis_at(layout, static_cast<size_t>(rank - 1)));
}

Shape storage_shape(const Shape& shape, const Layout& layout) {
  Shape out;
  for (size_t k = 0; k < shape.size(); ++k) {
    size_t a = axis_at(layout, k);
    Expr extent = shape[a];
    if (layout.grown_axis == static_cast<int>(a)) extent = layout.capacity;
    if (layout.has_halo()) extent = extent + Expr(layout.before[a] + layout.after[a]);
    out.push_back(extent);
  }
  if (!out.empty()) out.back() = out.back() + Expr(layout.gap);
  return out;
}

Expr storage_elements(const Shape& shape, const Layout& layout) {
  return element_count(storage_shape(shape, layout)) + Expr(layout.behind);
}

Expr storage_address(const Shape& shape, const Layout& layout, const std::vector<Expr>& indices) {
  METAC_ASSERT(indices.size() == shape.size());
  std::vector<Expr> at;
  for (size_t k = 0; k < indices.size(); ++k) {
    size_t a = axis_at(layout, k);
    at.push_back(layout.has_halo() ? indices[a] + Expr(layout.before[a]) : indices[a]);
  }
  return linear_index(storage_shape(shape, layout), at);
}

}  // namespace metac
