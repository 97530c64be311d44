#include "compiler/loops/loop_tree.h"

#include <sstream>

#include "compiler/support/diagnostic.h"

namespace metac {

int Kernel::argument(Var* var, const Layout& layout, bool written) {
  for (size_t k = 0; k < arguments.size(); ++k) {
    if (arguments[k].var != var) continue;
    arguments[k].written |= written;
    return static_cast<int>(k);
  }
  arguments.push_back({var, written, layout});
  return static_cast<int>(arguments.size()) - 1;
}

Expr parallel_extent(const Kernel& kernel) {
  Expr count = 1;
  for (const Loop& loop : kernel.root.loops)
    if (loop.kind == LoopKind::parallel || loop.kind == LoopKind::grid) count = count * loop.extent;
  bool grid = !kernel.root.loops.empty() && kernel.root.loops[0].kind == LoopKind::grid;
  return grid ? ceil_div(count, Expr(kernel.block)) : count;
}

static void collect(const std::vector<IndexName>& names, Bounds& bounds) {
  for (const IndexName& name : names) bounds.set_range(name.axis, bounds.interval(name.value));
}

static void collect(const LoopNode& node, Bounds& bounds) {
  for (const Loop& loop : node.loops) bounds.set_axis(loop.axis, loop.extent);
  for (const Loop& loop : node.loops) collect(loop.names, bounds);
  for (const LoopNode& child : node.children) collect(child, bounds);
}

Bounds bounds_of(const Kernel& kernel, const std::vector<Symbol>& symbols) {
  Bounds bounds(symbols);
  collect(kernel.names, bounds);
  collect(kernel.root, bounds);
  return bounds;
}

static std::string target_text(int target) {
  return target >= first_local ? concat("t", target - first_local) : concat("b", target);
}

static void print(std::ostream& out, const LoopNode& node, int depth) {
  static constexpr const char* kinds[] = {"for", "parallel", "vector", "unrolled", "unroll_hint", "grid", "thread"};
  auto indent = [&] { return std::string(2 * depth, ' '); };
  if (!node.comment.empty()) out << indent() << "# " << node.comment << "\n";
  if (node.empties_registers) out << indent() << "registers emptied\n";
  if (node.guard) {
    out << indent() << "if " << to_string(node.guard) << "\n";
    ++depth;
  }
  for (const Loop& loop : node.loops) {
    out << indent() << kinds[static_cast<int>(loop.kind)] << " i" << loop.axis << " < " << to_string(loop.extent) << "\n";
    ++depth;
    for (const IndexName& name : loop.names) out << indent() << "i" << name.axis << " = " << to_string(name.value) << "\n";
  }
  for (const Local& local : node.locals)
    out << indent() << (local.shared ? "shared t" : "local t") << local.id << ": " << name_of(local.dtype)
        << (local.count ? " x " + to_string(local.count) : "") << "\n";
  for (const Prefetch& f : node.prefetches)
    out << indent() << "prefetch b" << f.argument << "[" << to_string(f.offset) << "]\n";
  if (node.transposed >= 0) out << indent() << "transpose t" << node.transposed << "\n";
  if (node.matrix) {
    static constexpr const char* does[] = {"cleared", "resumed", "multiplied", "taken"};
    const MatrixTile& m = *node.matrix;
    out << indent() << "tiles of t" << m.sums << " " << does[static_cast<int>(m.does)] << ": " << m.points << " points by "
        << m.vectors << " vectors, " << m.words << " words\n";
  }
  for (const Assign& a : node.assigns) {
    out << indent() << target_text(a.target) << (a.offset ? "[" + to_string(a.offset) + "]" : "") << " ";
    if (a.update) out << name_of(*a.update);
    if (a.copied > 0) out << "copies " << a.copied << " ";
    out << "= " << to_string(a.value) << "\n";
  }
  for (const LoopNode& child : node.children) print(out, child, depth);
  if (node.combined_in >= 0) out << indent() << "combine t" << node.lane_reduced << " over the block\n";
  if (node.copies_done) out << indent() << "copies done\n";
  if (node.barrier) out << indent() << "barrier\n";
}

std::string to_string(const Kernel& kernel) {
  std::ostringstream out;
  out << "kernel " << kernel.name << "\n";
  for (size_t k = 0; k < kernel.arguments.size(); ++k)
    out << "  b" << k << ": v" << kernel.arguments[k].var->id << " " << name_of(kernel.arguments[k].var->dtype())
        << to_string(kernel.arguments[k].var->shape()) << (kernel.arguments[k].written ? " out" : "")
        << (kernel.arguments[k].layout.is_plain() ? "" : " reordered") << "\n";
  for (const std::string& line : kernel.schedule) out << "  schedule " << line << "\n";
  for (const IndexName& name : kernel.names) out << "  i" << name.axis << " = " << to_string(name.value) << "\n";
  print(out, kernel.root, 1);
  return out.str();
}

}  // namespace metac
