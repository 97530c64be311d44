#include "compiler/target/gpu/strategies/lower_gpu_flat.h"

#include <algorithm>

#include "compiler/loops/stage_lowering.h"
#include "compiler/machine/gpu_costs.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class FlatLowering : private StageLowering {
 public:
  using StageLowering::StageLowering;

  std::optional<FlatKernel> run() {
    kernel_.block = gpu_costs.block_of_elements;
    LoopNode node;
    for (const Definition& d : group_.stages) {
      std::optional<Assign> assign = place_by_place(d);
      if (!assign) return std::nullopt;
      node.assigns.push_back(*assign);
      merge_nodes(kernel_.nodes, d.nodes);
    }
    kernel_.root.loops = {{0, count_, LoopKind::grid, {}}};
    kernel_.root.children.push_back(std::move(node));
    const bool plain = std::all_of(kernel_.arguments.begin(), kernel_.arguments.end(),
                                   [](const KernelArgument& a) { return a.layout.is_plain(); });
    return plain ? std::optional(FlatKernel{kernel_, pack()}) : std::nullopt;
  }

 private:
  std::optional<Assign> place_by_place(const Definition& d) {
    if (!d.is_plain() || !is_static(d.domain) || !d.conditions.empty()) return std::nullopt;
    Stage s;
    const std::vector<Expr> renamed = make_axes(d, s);
    s.body = addressed(substitute_axes(d.body, renamed), -1);
    set_target(d, s, renamed);
    simplify_stage(s);
    drop_unit_loops(s);
    order_loops(s);
    collapse(s, s.kept);
    if (s.kept.size() != 1 || (bool(count_) && s.kept[0].extent != count_)) return std::nullopt;
    count_ = s.kept[0].extent;
    const int loop = s.kept[0].axis;
    auto numbered = [&](Expr e) {
      return rewrite(e, [&](Expr n) { return n->kind == ExprKind::axis && n->id == loop ? axis(0) : Expr(); });
    };
    Assign assign{s.target, numbered(s.offset), numbered(s.body), {}};
    bool good = assign.offset == axis(0);
    visit(assign.value, [&](Expr n) {
      if (n->kind == ExprKind::symbol) good = false;
      if (n->kind != ExprKind::load) return;
      good = good && n->args.size() == 1 && (n->args[0] == axis(0) || n->args[0].is_int(0)) &&
             n->dtype == kernel_.arguments[static_cast<size_t>(n->id)].var->dtype();
    });
    // What a thread makes it reads again at its own place only.
    visit(assign.value, [&](Expr n) {
      if (n->kind == ExprKind::load && kernel_.arguments[static_cast<size_t>(n->id)].written && n->args[0] != axis(0))
        good = false;
    });
    return good ? std::optional(assign) : std::nullopt;
  }

  // Neighbouring elements that a thread does at once: what one access holds of the widest type.
  int64_t pack() const {
    int64_t widest = 1;
    for (const KernelArgument& a : kernel_.arguments)
      widest = std::max<int64_t>(widest, static_cast<int64_t>(size_of(a.var->dtype())));
    return widest <= 8 ? gpu_machine.access_bytes / widest : 1;
  }

  void place_local(const Local&) override { METAC_ASSERT(false, "a flat kernel with locals"); }

  Expr count_;
};

}  // namespace

std::optional<FlatKernel> lower_gpu_flat(const Group& group, const LoweringContext& context) {
  if (group.stages.empty() || !group.internal.empty() || group.strategy) return std::nullopt;
  Group alone = group;  // stages share nothing but their places
  alone.shared = 0;
  return FlatLowering(alone, context).run();
}

bool do_the_same(const FlatKernel& a, const FlatKernel& b) {
  const std::vector<KernelArgument>&mine = a.kernel.arguments, &others = b.kernel.arguments;
  const auto alike = [](const KernelArgument& x, const KernelArgument& y) {
    return x.written == y.written && x.var->dtype() == y.var->dtype();
  };
  const std::vector<Assign>&left = a.kernel.root.children[0].assigns, &right = b.kernel.root.children[0].assigns;
  const auto equal = [](const Assign& x, const Assign& y) { return x.target == y.target && x.value == y.value; };
  return a.pack == b.pack && std::equal(mine.begin(), mine.end(), others.begin(), others.end(), alike) &&
         std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
}

Kernel join_members(const std::vector<FlatKernel>& members) {
  Kernel all;
  all.block = gpu_costs.block_of_elements;
  all.schedule.push_back(
      concat("one start for ", members.size(), " members: one thread per ", members[0].pack, " neighbouring elements"));
  int64_t blocks = 0;
  for (const FlatKernel& member : members) {
    const Kernel& kernel = member.kernel;
    all.arguments.insert(all.arguments.end(), kernel.arguments.begin(), kernel.arguments.end());
    merge_nodes(all.nodes, kernel.nodes);
    blocks += member.blocks();
  }
  all.root.loops = {{0, Expr(blocks), LoopKind::parallel, {}}};
  return all;
}

int64_t bytes_of_members(size_t members, size_t arguments) {
  return static_cast<int64_t>(members * (8 * arguments + 8) + 16);
}

}  // namespace metac
