// A scatter applies its points in order, so that the bits do not depend on who comes first. Axes of the domain that are an
// axis of the result never meet: each of their points is a separate scatter. Within one, threads own the elements of the
// result by their index modulo the number of owners; every owner walks all points in order and applies those that fall on
// its elements. Atomic updates would be faster and order floating-point sums anew in every run.
#include <algorithm>

#include "compiler/loops/stage_lowering.h"
#include "compiler/machine/gpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"

namespace metac {
namespace {

class GpuScatter : private StageLowering {
 public:
  using StageLowering::StageLowering;

  Kernel run() {
    const Definition& d = group_.stages[0];
    METAC_ASSERT(layout_of(d.out->id).is_plain(), "a scatter into a layout");
    kernel_.nodes = d.nodes;
    kernel_.block = gpu_costs.scatter_block;
    Stage s;
    std::vector<Expr> renamed = make_axes(d, s);
    std::vector<Loop> loops = s.kept;
    loops.insert(loops.end(), s.reduced.begin(), s.reduced.end());
    const Shape& dims = d.out->shape();

    std::vector<int> separate(dims.size(), -1);  // per axis of the result: the axis of the domain that it is
    std::vector<char> taken(loops.size(), 0);
    for (size_t k = 0; k < dims.size(); ++k) {
      Expr index = d.out_index[k];
      if (index->kind != ExprKind::axis || taken[static_cast<size_t>(index->id)] ||
          d.domain[static_cast<size_t>(index->id)] != dims[k])
        continue;
      separate[k] = index->id;
      taken[static_cast<size_t>(index->id)] = 1;
    }
    int64_t points = 1;
    for (size_t k = 0; k < dims.size(); ++k)
      if (separate[k] >= 0)
        points *= dims[k].if_int() ? std::clamp<int64_t>(dims[k].as_int(), 1, gpu_costs.scatter_threads)
                                   : gpu_costs.unknown_scatter_extent;
    Shape rest;
    for (size_t k = 0; k < dims.size(); ++k)
      if (separate[k] < 0) rest.push_back(dims[k]);
    Expr all = element_count(rest);
    int64_t owners = std::max<int64_t>(1, gpu_costs.scatter_threads / points);
    if (all.if_int()) owners = std::min(owners, std::max<int64_t>(1, all.as_int()));

    for (size_t k = 0; k < loops.size(); ++k)
      if (taken[k]) kernel_.root.loops.push_back({loops[k].axis, loops[k].extent, LoopKind::grid, {}});
    Loop owner{kernel_.next_axis++, Expr(owners), LoopKind::grid, {}};
    kernel_.root.loops.push_back(owner);
    kernel_.schedule.push_back(concat("each point of ", kernel_.root.loops.size() - 1,
                                      " axes is a scatter of its own, shared by ", owners, " threads that own elements"));

    int target = kernel_.argument(d.out, Layout(), true);
    Loop step{kernel_.next_axis++, ceil_div(all - axis(owner.axis), Expr(owners)), LoopKind::serial, {}};
    LoopNode clear;
    clear.comment = concat("v", d.out->id, ": what this thread owns");
    clear.loops = {step};
    Expr element = axis(owner.axis) + axis(step.axis) * Expr(owners);
    std::vector<Expr> at(dims.size());
    Expr inner = 1;
    for (size_t k = dims.size(); k-- > 0;) {
      if (separate[k] >= 0) {
        at[k] = renamed[static_cast<size_t>(separate[k])];
        continue;
      }
      at[k] = floor_mod(floor_div(element, inner), dims[k]);
      inner = inner * dims[k];
    }
    clear.assigns.push_back({target, linear_index(dims, at), identity_of(*d.reduce, d.out->dtype()), {}});

    LoopNode walk;
    walk.comment = concat("v", d.out->id, ", scattered in order");
    for (size_t k = 0; k < loops.size(); ++k)
      if (!taken[k]) walk.loops.push_back(loops[k]);
    std::vector<Expr> index, rest_index;
    for (Expr e : d.out_index) index.push_back(addressed(substitute_axes(e, renamed), -1));
    for (size_t k = 0; k < dims.size(); ++k)
      if (separate[k] < 0) rest_index.push_back(index[k]);
    Expr valid = bool_constant(true), own = bool_constant(true);
    for (Expr c : d.conditions) valid = logical_and(valid, addressed(substitute_axes(c, renamed), -1));
    if (owners > 1) own = equal(floor_mod(linear_index(rest, rest_index), Expr(owners)), axis(owner.axis));
    LoopNode held, mine;
    Bounds bounds(*context_.symbols);
    for (const Loop& l : loops) bounds.set_axis(l.axis, l.extent);
    bounds.set_axis(owner.axis, owner.extent);
    auto guard = [&](LoopNode& node, Expr condition) {
      condition = simplify(condition, bounds);
      if (!condition.is_int(1)) node.guard = condition;
    };
    guard(held, valid);
    guard(mine, own);
    Expr body = addressed(substitute_axes(d.body, renamed), -1);
    mine.assigns.push_back(
        {target, simplify(linear_index(dims, index), bounds), simplify(cast(body, d.out->dtype()), bounds), d.reduce});
    held.children.push_back(std::move(mine));
    walk.children.push_back(std::move(held));
    bounds.set_axis(step.axis, step.extent);
    kernel_.root.children = {std::move(clear), std::move(walk)};
    return std::move(kernel_);
  }

 private:
  void place_local(const Local&) override { METAC_ASSERT(false, "a scatter's result is no local"); }
};

}  // namespace

Kernel lower_gpu_scatter(const Group& group, const LoweringContext& context) { return GpuScatter(group, context).run(); }

}  // namespace metac
