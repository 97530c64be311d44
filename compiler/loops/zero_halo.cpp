#include "compiler/loops/zero_halo.h"

namespace metac {

// Storage axes up to the first one with a halo are parallel. For each axis with a halo: its borders, over the whole of
// the axes behind it and the interior of those before it.
Kernel zero_halo(Var* var, const Layout& layout) {
  Kernel kernel;
  int target = kernel.argument(var, layout, true);
  Shape storage = storage_shape(var->shape(), layout);
  int rank = static_cast<int>(storage.size());
  auto logical = [&](int k) { return static_cast<size_t>(layout.order.empty() ? k : layout.order[static_cast<size_t>(k)]); };
  int first = 0;
  while (layout.before[logical(first)] == 0 && layout.after[logical(first)] == 0) ++first;
  std::vector<Expr> at(static_cast<size_t>(rank));
  for (int k = 0; k < first; ++k) {
    kernel.root.loops.push_back({kernel.next_axis, storage[static_cast<size_t>(k)], LoopKind::parallel, {}});
    at[static_cast<size_t>(k)] = axis(kernel.next_axis++);
  }
  for (int k = first; k < rank; ++k) {
    int64_t before = layout.before[logical(k)], after = layout.after[logical(k)];
    for (bool below : {true, false}) {
      int64_t width = below ? before : after;
      if (width == 0) continue;
      LoopNode nest;
      nest.comment = "halo of storage axis " + std::to_string(k) + (below ? ", below" : ", above");
      std::vector<Expr> index = at;
      for (int n = first; n < rank; ++n) {
        size_t own = static_cast<size_t>(n);
        Expr extent = storage[own], start = 0;
        if (n == k) {
          start = below ? Expr(0) : extent - Expr(width);
          extent = width;
        } else if (n < k) {
          start = layout.before[logical(n)];
          extent = extent - Expr(layout.before[logical(n)] + layout.after[logical(n)]);
        }
        nest.loops.push_back({kernel.next_axis,
                              extent,
                              n == rank - 1 && n != k && var->dtype() == DType::f32 ? LoopKind::vector : LoopKind::serial,
                              {}});
        index[own] = start + axis(kernel.next_axis++);
      }
      nest.assigns.push_back(
          {target, linear_index(storage, index), constant_of(var->dtype(), static_cast<double>(layout.fill)), {}});
      kernel.root.children.push_back(std::move(nest));
    }
  }
  kernel.schedule.push_back("zero the halo");
  kernel.cost = 500;
  return kernel;
}

}  // namespace metac
