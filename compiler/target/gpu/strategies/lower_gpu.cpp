#include "compiler/target/gpu/strategies/lower_gpu.h"

#include <algorithm>

#include "compiler/loops/loop_transforms.h"
#include "compiler/loops/stage_lowering.h"
#include "compiler/machine/gpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/gpu/strategies/gpu_strategies.h"
#include "compiler/target/gpu/strategies/lower_gpu_move.h"
#include "compiler/target/gpu/vendor/library_beside.h"
#include "compiler/target/gpu/vendor/library_convolution.h"
#include "compiler/target/gpu/vendor/library_finish.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

// An extent that is not known counts as large.
int64_t size_or(const std::vector<Loop>& loops, int64_t unknown) {
  int64_t size = 1;
  for (const Loop& l : loops) {
    if (!l.extent.if_int()) return unknown;
    size = std::min<int64_t>(size * std::max<int64_t>(1, l.extent.as_int()), int64_t{1} << 40);
  }
  return size;
}

class GpuLowering : private StageLowering {
 public:
  using StageLowering::StageLowering;

  Kernel run() {
    kernel_.block = gpu_costs.block_of_elements;
    bool single = group_.stages.size() == 1 && group_.shared == 0;
    if (single)
      lower_single(group_.stages[0]);
    else
      lower_rows();
    for (const Definition& d : group_.stages) merge_nodes(kernel_.nodes, d.nodes);
    return std::move(kernel_);
  }

 private:
  struct Lowered {
    Stage stage;
    int accumulator = -1;
    int64_t pack = 1;  // neighbouring elements that a thread does at once
  };

  Lowered lower(const Definition& d) {
    Lowered l;
    std::vector<Expr> renamed = make_axes(d, l.stage);
    l.accumulator = d.reduce ? kernel_.next_local++ : -1;
    l.stage.body = addressed(substitute_axes(d.body, renamed), l.accumulator);
    if (d.epilogue) l.stage.epilogue = addressed(substitute_axes(d.epilogue, renamed), l.accumulator);
    set_target(d, l.stage, renamed);
    size_t said = kernel_.schedule.size();
    simplify_stage(l.stage);
    drop_unit_loops(l.stage);
    order_loops(l.stage);
    collapse(l.stage, l.stage.kept);
    collapse(l.stage, l.stage.reduced);
    kernel_.schedule.resize(said);  // a GPU's threads count elements in any case
    return l;
  }

  void lower_single(const Definition& d) {
    Lowered l = lower(d);
    if (!d.reduce && lower_gpu_move(kernel_, l.stage, *context_.symbols)) return;
    cooperative_ = d.reduce && wants_block(l.stage);
    kernel_.root.loops = l.stage.kept;
    l.stage.kept.clear();
    for (Loop& loop : kernel_.root.loops) loop.kind = cooperative_ ? LoopKind::parallel : LoopKind::grid;
    if (!cooperative_ && kernel_.root.loops.empty())
      kernel_.root.loops.push_back({kernel_.next_axis++, 1, LoopKind::grid, {}});
    if (!d.reduce)
      if (const int64_t pack = pack_of(l.stage, kernel_.root.loops, gpu_costs.threads_of_sums); pack > 1)
        return lower_packs(l.stage, pack);
    if (cooperative_) {
      l.pack = pack_of(l.stage, l.stage.reduced, gpu_machine.warp);
      // Of sums of few rows there are many, and to add up what threads have takes longer than a step.
      const int64_t each = strategy_as<UntiledSum>(group_) ? std::max(l.pack, gpu_costs.steps_of_untiled) : l.pack;
      kernel_.block = block_for(size_or(l.stage.reduced, gpu_costs.unknown_extent) / each);
    }
    kernel_.schedule.push_back(cooperative_
                                   ? concat("one block of ", kernel_.block, " threads per element", read_at_once(l.pack))
                                   : "one thread per element");
    kernel_.root.children.push_back(stage_node(d, l));
  }

  static std::string read_at_once(int64_t pack) {
    return pack > 1 ? concat(", which read ", pack, " neighbouring elements at once") : "";
  }

  // How many neighbouring elements of the given loops a thread does at once, as wide loads and stores: as many as one
  // access holds of the widest type that is read or written along the last loop. 1: an access steps otherwise (it would be
  // read with gaps between the threads), places are not known to be aligned, something is loaded under a condition or at an
  // address out of memory, or there would be fewer threads than `least`.
  int64_t pack_of(const Stage& s, const std::vector<Loop>& loops, int64_t least) const {
    if (loops.empty() || !loops.back().extent.if_int()) return 1;
    const int axis_id = loops.back().axis;
    int64_t widest = 0;
    Bounds bounds = stage_bounds(s);
    for (const Loop& l : kernel_.root.loops) bounds.set_axis(l.axis, l.extent);
    std::vector<Expr> places;
    auto access = [&](Expr offset, DType dtype) {
      if (offset->has_load) return false;
      Expr step = stride_of(offset, axis_id);
      if (!step || !(step.is_int(0) || step.is_int(1))) return false;
      if (step.is_int(0)) return true;
      widest = std::max(widest, static_cast<int64_t>(size_of(dtype)));
      places.push_back(offset);
      return true;
    };
    const bool sums = !s.reduced.empty();
    bool good = sums || (bool(s.offset) && access(s.offset, s.body->dtype) && stride_of(s.offset, axis_id).is_int(1));
    visit(s.body, [&](Expr n) {
      if (n->kind == ExprKind::load && n->id >= first_local && n->args.empty()) return;  // what every thread has for itself
      if (n->kind == ExprKind::load)
        good = good && n->args.size() == 1 &&
               (n->id >= first_local || n->dtype == kernel_.arguments[static_cast<size_t>(n->id)].var->dtype()) &&
               access(n->args[0], n->dtype);
      if (n->kind == ExprKind::call && n->fn == Fn::select) good = good && !n->args[1]->has_load && !n->args[2]->has_load;
    });
    if (!good || widest == 0 || widest > 8) return 1;
    const int64_t pack = gpu_machine.access_bytes / widest, last = loops.back().extent.as_int();
    if (last % pack != 0 || size_or(loops, least * pack) < least * pack) return 1;
    for (Expr offset : places) {
      Expr first =
          rewrite(offset, [&](Expr n) { return n->kind == ExprKind::axis && n->id == axis_id ? n * Expr(pack) : Expr(); });
      Bounds packed = bounds;
      packed.set_axis(axis_id, Expr(last / pack));
      if (!simplify(floor_mod(first, Expr(pack)), packed).is_int(0)) return 1;
    }
    return pack;
  }

  // The last of the loops becomes one over packs, and a loop over the elements of one, which is returned. What is in `split`
  // is over both then.
  Loop cut_packs(std::vector<Loop>& loops, int64_t pack, std::initializer_list<Expr*> split) {
    Loop& outer = loops.back();
    const Loop inner{kernel_.next_axis++, Expr(pack), LoopKind::vector, {}};
    outer.extent = Expr(outer.extent.as_int() / pack);
    Bounds bounds(*context_.symbols);
    for (const std::vector<Loop>* all : {&kernel_.root.loops, &loops})
      for (const Loop& l : *all) bounds.set_axis(l.axis, l.extent);
    bounds.set_axis(inner.axis, inner.extent);
    for (Expr* e : split)
      if (*e)
        *e = simplify(rewrite(*e,
                              [&](Expr n) {
                                return n->kind == ExprKind::axis && n->id == outer.axis
                                           ? axis(outer.axis) * Expr(pack) + axis(inner.axis)
                                           : Expr();
                              }),
                      bounds);
    return inner;
  }

  void lower_packs(const Stage& s, int64_t pack) {
    Assign store{s.target, s.offset, s.body, {}};
    LoopNode node;
    node.loops = {cut_packs(kernel_.root.loops, pack, {&store.offset, &store.value})};
    node.assigns = {store};
    kernel_.root.children.push_back(std::move(node));
    kernel_.schedule.push_back(concat("one thread per ", pack, " neighbouring elements, read and written at once"));
  }

  // A block for an element: few elements; or neighbours in memory are steps of its sum, not elements (where all elements
  // read the same it does not matter).
  static bool wants_block(const Stage& s) {
    if (size_or(s.reduced, gpu_costs.unknown_extent) <= gpu_costs.elements_of_one_thread) return false;
    if (size_or(s.kept, gpu_costs.threads_of_sums) < gpu_costs.threads_of_sums) return true;
    bool neighbours = false, apart = false;
    visit(s.body, [&](Expr n) {
      if (n->kind != ExprKind::load || n->args.size() != 1) return;
      const Expr step = stride_of(n->args[0], s.kept.back().axis);
      neighbours |= bool(step) && step.is_int(1);
      apart |= bool(step) && !step.is_int(1) && !step.is_int(0);
    });
    return apart || !neighbours;
  }

  // As many threads as have the same number of iterations, nearly.
  static int block_for(int64_t length) {
    length = std::max<int64_t>(1, length);
    const int64_t turns = (length + gpu_costs.block_of_row_most - 1) / gpu_costs.block_of_row_most,
                  each = (length + turns - 1) / turns;
    return static_cast<int>((each + gpu_machine.warp - 1) / gpu_machine.warp * gpu_machine.warp);
  }

  void lower_rows() {
    for (const Definition& d : group_.stages) {
      std::vector<Loop> kept, reduced;
      for (int k = group_.shared; k < static_cast<int>(d.domain.size()); ++k)
        (k < d.kept() ? kept : reduced).push_back({0, d.domain[static_cast<size_t>(k)], LoopKind::serial, {}});
      int64_t own = size_or(kept, gpu_costs.unknown_extent), sum = size_or(reduced, gpu_costs.unknown_extent);
      if (own * sum > gpu_costs.elements_of_one_thread) cooperative_ = true;
    }
    for (int k = 0; k < group_.shared; ++k)
      kernel_.root.loops.push_back({kernel_.next_axis++,
                                    group_.stages[0].domain[static_cast<size_t>(k)],
                                    cooperative_ ? LoopKind::parallel : LoopKind::grid,
                                    {}});
    if (!cooperative_ && kernel_.root.loops.empty())
      kernel_.root.loops.push_back({kernel_.next_axis++, 1, LoopKind::grid, {}});
    std::vector<Lowered> stages;
    int64_t longest = 1, widest = 1;  // iterations that threads share; elements of one
    for (const Definition& d : group_.stages) {
      Lowered& l = stages.emplace_back(lower(d));
      if (!cooperative_) continue;
      const std::vector<Loop>& shared_out = l.stage.kept.empty() ? l.stage.reduced : l.stage.kept;
      if (!d.reduce || l.stage.kept.empty()) l.pack = pack_of(l.stage, shared_out, gpu_machine.warp);
      longest = std::max(longest, size_or(shared_out, gpu_costs.unknown_extent) / l.pack);
      widest = std::max(widest, l.pack);
    }
    if (cooperative_) kernel_.block = block_for(longest);
    kernel_.schedule.push_back(cooperative_
                                   ? concat("one block of ", kernel_.block, " threads per row", read_at_once(widest))
                                   : "one thread per row");
    for (size_t k = 0; k < stages.size(); ++k) {
      LoopNode node = stage_node(group_.stages[k], stages[k]);
      bool in_memory = stages[k].stage.target < first_local || bool(stages[k].stage.offset);
      node.barrier = cooperative_ && in_memory && k + 1 < stages.size();
      kernel_.root.children.push_back(std::move(node));
    }
  }

  // A row's values are shared by its block; what only one thread works on is its own.
  void place_local(const Local& given) override {
    Local local = given;
    local.shared = cooperative_ && bool(local.count);
    int64_t bytes = !local.count           ? 0
                    : local.count.if_int() ? local.count.as_int() * static_cast<int64_t>(size_of(local.dtype))
                                           : gpu_costs.shared_bytes_of_rows + 1;
    if (shared_bytes_ + bytes <= gpu_costs.shared_bytes_of_rows) {
      shared_bytes_ += bytes;
      kernel_.root.locals.push_back(local);
    } else {
      kernel_.scratch.push_back(local);
    }
  }

  LoopNode stage_node(const Definition& d, const Lowered& l) {
    const Stage& s = l.stage;
    LoopNode node;
    node.comment = concat("v", d.out->id);
    node.loops = s.kept;
    if (cooperative_)
      for (Loop& loop : node.loops) loop.kind = LoopKind::thread;
    Assign store{s.target, s.offset, s.body, {}};
    if (!d.reduce) {
      if (l.pack > 1) node.loops.push_back(cut_packs(node.loops, l.pack, {&store.offset, &store.value}));
      node.assigns = {store};
      if (node.loops.empty()) by_one_thread(node, s);
      return node;
    }
    node.locals.push_back({l.accumulator, d.accumulator, {}});
    node.assigns.push_back({first_local + l.accumulator, {}, identity_of(*d.reduce, d.accumulator), {}});
    LoopNode sum;
    sum.loops = s.reduced;
    Assign added{first_local + l.accumulator, {}, s.body, d.reduce};
    if (cooperative_ && s.kept.empty() && !s.reduced.empty()) {
      for (Loop& loop : sum.loops) loop.kind = LoopKind::thread;
      sum.lane_reduced = l.accumulator;
      sum.combined_in = reduction_buffer(d.accumulator);
      if (l.pack > 1) sum.loops.push_back(cut_packs(sum.loops, l.pack, {&added.value}));
    }
    sum.assigns.push_back(std::move(added));
    node.children.push_back(std::move(sum));
    LoopNode last;
    store.value = s.epilogue;
    last.assigns = {store};
    if (node.loops.empty()) by_one_thread(last, s);
    node.children.push_back(std::move(last));
    return node;
  }

  // Memory that all threads share is written once; a scalar local every thread has for itself.
  void by_one_thread(LoopNode& node, const Stage& s) {
    if (cooperative_ && (s.target < first_local || bool(s.offset)))
      node.loops.push_back({kernel_.next_axis++, 1, LoopKind::thread, {}});
  }

  int reduction_buffer(DType dtype) {
    auto [found, fresh] = reduction_buffers_.emplace(dtype, kernel_.next_local);
    if (fresh) kernel_.root.locals.push_back({kernel_.next_local++, dtype, Expr(kernel_.block / gpu_machine.warp), 0, true});
    return found->second;
  }

  bool cooperative_ = false;  // a block per iteration of the root's loops, not a thread
  int64_t shared_bytes_ = 0;
  std::map<DType, int> reduction_buffers_;
};

// A gradient of a convolution, with the kernel's arguments for operands. Nothing where the kernel has others.
std::optional<LibraryConvolution> with_arguments(LibraryConvolution c, const Kernel& kernel) {
  for (int* operand : {&c.data, &c.weights, &c.result}) {
    auto found = std::find_if(kernel.arguments.begin(), kernel.arguments.end(),
                              [&](const KernelArgument& a) { return a.var->id == *operand; });
    if (found == kernel.arguments.end()) return std::nullopt;
    *operand = static_cast<int>(found - kernel.arguments.begin());
  }
  return lie_alike(c, kernel.arguments) ? std::optional(c) : std::nullopt;
}

bool finishes(const Kernel& kernel) {
  return std::any_of(kernel.products.begin(), kernel.products.end(), [](const LibraryProduct& p) { return p.sums_only; }) ||
         (kernel.convolution && kernel.convolution->sums_only);
}

}  // namespace

std::optional<Kernel> lower_gpu_beside(const Definition& product, const Definition& other, const LoweringContext& context) {
  const auto alone = [](const Definition& d) {
    Group group;
    group.stages = {d};
    return group;
  };
  Kernel kernel = lower_gpu(alone(product), context);
  if (!add_beside(kernel, product, other, context)) return std::nullopt;
  kernel.beside = std::make_shared<Kernel>(lower_gpu(alone(other), context));
  METAC_ASSERT(kernel.beside->scratch.empty(), "a kernel beside a product has scratch of its own");
  for (const KernelArgument& a : kernel.beside->arguments) kernel.argument(a.var, a.layout, a.written);
  merge_nodes(kernel.nodes, kernel.beside->nodes);
  return kernel;
}

Kernel lower_gpu_plainly(const Group& group, const LoweringContext& context) { return GpuLowering(group, context).run(); }

Kernel lower_gpu(const Group& group, const LoweringContext& context) {
  const auto* gradient = strategy_as<LibraryGradient>(group);
  if (group.stages.size() == 1 && group.stages[0].scatter) return lower_gpu_scatter(group, context);
  std::optional<Kernel> contraction = lower_gpu_contraction(group, context);
  Kernel kernel = contraction ? std::move(*contraction) : GpuLowering(group, context).run();
  if (context.library_convolutions) {
    kernel.convolution = match_library_convolution(group, context, kernel.arguments);
    if (!kernel.convolution && gradient) kernel.convolution = with_arguments(gradient->convolution, kernel);
  }
  // With a stride a product is of small matrices, one for each row of an image: such products, of 7 rows of 1024 elements,
  // were 0.37 ms of ResNet-50's 2.9 (H100, 32 images, TF32).
  const auto strided = [](const LibraryWindow& window) { return window.stride > 1; };
  if (kernel.convolution && std::ranges::any_of(kernel.convolution->windows, strided)) kernel.products.clear();
  // A product that the library finishes by itself is the better one of two.
  if (!kernel.products.empty() && kernel.convolution && kernel.products[0].sums_only != kernel.convolution->sums_only) {
    if (kernel.products[0].sums_only)
      kernel.products.clear();
    else
      kernel.convolution.reset();
  }
  if (finishes(kernel)) {
    Group rest;
    rest.stages = {finishing(gradient ? gradient->definition : group.stages[0])};
    kernel.finish = std::make_shared<Kernel>(GpuLowering(rest, context).run());
  }
  return kernel;
}

}  // namespace metac
