#include <algorithm>
#include <set>

#include "compiler/region/fusion/fuse_row_blocks.h"
#include "compiler/region/split_parts.h"
#include "compiler/region/split_residues.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/gpu/channels_last.h"
#include "compiler/target/gpu/cpp_cuda.h"
#include "compiler/target/gpu/gather_alike.h"
#include "compiler/target/gpu/join_beside.h"
#include "compiler/target/gpu/keep_narrow.h"
#include "compiler/target/gpu/narrow_values.h"
#include "compiler/target/gpu/project_parts.h"
#include "compiler/target/gpu/split_reductions.h"
#include "compiler/target/gpu/strategies/gpu_strategies.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"
#include "compiler/target/gpu/vendor/library_gradient.h"
#include "compiler/target/target.h"

namespace metac {
namespace {

LoweringContext context_of(const RegionState& s) {
  return target_named("cuda").lowering_context(s.graph, s.layouts, s.options);
}

// Values stay row-major, so what packing does for the CPU is not done; residues and parts come apart as they do there.
std::vector<Var*> run_cut_parts(RegionState& s) {
  std::vector<Item> items;
  const std::function<const Var*(int)> var = [&s](int id) { return s.graph.vars()[static_cast<size_t>(id)].get(); };
  for (Item& item : s.region.items) {
    std::shared_ptr<LibraryGradient> gradient;
    if (!item.op && item.group.stages.size() == 1) {
      Definition& d = item.group.stages[0];
      if (s.options.external.convolutions)
        if (auto found = match_library_gradient(d, var, s.graph.symbols)) {
          gradient = std::make_shared<LibraryGradient>();
          gradient->convolution = *found;
          gradient->definition = d;
        }
      split_residues(d, s.graph.symbols, [](const Definition&, int, Expr) -> Var* { return nullptr; });
    }
    const size_t before = items.size();
    split_parts(std::move(item), s.graph.symbols, items);
    if (gradient && items.size() == before + 1) items.back().group.strategy = std::move(gradient);
  }
  s.region.items = std::move(items);
  return {};
}

std::vector<Var*> run_channels_last(RegionState& s) {
  if (!s.options.external.convolutions || s.options.fusion != Fusion::best) return {};
  return store_channels_last(s, context_of(s));
}

std::vector<Var*> run_join_beside(RegionState& s) {
  if (s.options.external.products) s.region = join_beside(std::move(s.region), context_of(s));
  return {};
}

std::vector<Var*> run_split_reductions(RegionState& s) {
  if (s.options.fusion == Fusion::best) split_reductions(s.graph, s.region, context_of(s));
  return {};
}

std::vector<Var*> run_keep_narrow(RegionState& s) {
  if (s.options.fusion == Fusion::best) keep_weights_narrow(s);
  return {};
}

// The host looks at what a symbol is bound to as soon as it is there: what comes behind is recorded (executor/replay.h).
std::vector<Var*> run_bind_early(RegionState& s) {
  std::vector<Item>& items = s.region.items;
  const auto other = [](const Item& item) { return item.op && item.op->kind != OpKind::bind; };
  if (!s.top || !s.region.repeats.empty() || std::any_of(items.begin(), items.end(), other)) return {};
  const auto source = [&s](int id) {
    for (auto found = s.region.views.find(id); found != s.region.views.end(); found = s.region.views.find(id))
      id = found->second->id;
    return id;
  };
  std::set<int> wanted, outputs;  // by who binds; the graph's, which may take an input's place
  for (const Var* out : s.graph.outputs) outputs.insert(source(out->id));
  std::vector<Item> first, rest;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    const std::vector<Definition>& stages = item->group.stages;
    const bool goes = item->op || std::any_of(stages.begin(), stages.end(), [&](const Definition& d) {
      return wanted.count(source(d.out->id)) > 0;
    });
    (goes ? first : rest).push_back(*item);
    if (!goes) continue;
    if (item->op) wanted.insert(source(item->op->inputs[0]->id));
    for (const Definition& d : stages) {
      if (outputs.count(source(d.out->id)) > 0) return {};
      visit_loads(d, [&](Expr load) { wanted.insert(source(load->id)); });
    }
  }
  items.assign(first.rbegin(), first.rend());
  items.insert(items.end(), rest.rbegin(), rest.rend());
  return {};
}

// Kernels are CUDA, started by the host; vendor libraries do what they know.
class TargetGpu final : public Target {
 public:
  std::string_view name() const override { return "cuda"; }
  bool runs_users_code() const override { return false; }
  bool copies_weights_in() const override { return true; }
  bool opens_a_device() const override { return true; }
  bool takes_schedules() const override { return false; }
  ProjectParts project_parts(const std::string& architectures) const override { return cuda_project_parts(architectures); }
  // By default all that there are. Where the toolkit lacks one, kernels do its work.
  ExternalLibraries external_libraries(const std::string& asked, bool tf32) const override {
    const bool all = asked.empty() || asked == "auto";
    if (!all && asked != "none" && asked != "cublas" && asked != "cudnn")
      fail("--external ", asked, ": --target cuda has cublas and cudnn; expected one of them, auto or none");
    return {all || asked == "cublas", all || asked == "cudnn", tf32};
  }
  std::string_view default_libraries() const override { return "auto"; }

  bool widens_freely() const override { return true; }
  void fuse_further(RegionState& s, const std::vector<Op*>& ops) const override {
    if (s.options.fusion == Fusion::best) {
      const auto is_parameter = [&s](int id) { return s.is_constant(s.graph.vars()[static_cast<size_t>(id)].get()); };
      const bool tf32 = s.options.external.tf32;
      fuse_row_blocks(s.region, s.needed.in_memory, is_parameter, 1, s.graph.symbols, std::make_shared<Attention>(),
                      [tf32](const Group& group) { return is_gpu_attention(group, tf32); });
    }
    narrow_values(s.region, ops, s.needed, s.graph.symbols, nullptr);
  }
  void finish_fusion(RegionState& s, const std::vector<Op*>& ops) const override {
    narrow_values(s.region, ops, s.needed, s.graph.symbols, &s.graph);
  }
  const std::vector<TargetPass>& passes() const override {
    static const std::vector<TargetPass> list = {
        {"cut_parts", "gradients of strided windows and concatenations come apart into parts without conditions",
         run_cut_parts},
        {"channels_last", "what convolutions on tensor cores read and write has the channels of a point side by side",
         run_channels_last},
        {"join_beside", "what a vendor library does in the call of a product is one step with it", run_join_beside},
        {"split_reductions", "reductions to few results go in two passes, so that all of the card is busy",
         run_split_reductions},
        {"keep_narrow", "weights of few bits are widened where few rows read them, or behind that", run_keep_narrow},
        {"bind_early", "what the host reads while running is read first, so that the rest is recorded", run_bind_early},
    };
    return list;
  }

  LoweringContext lowering_context(const Graph& graph, const Layouts& layouts,
                                   const CompileOptions& options) const override {
    LoweringContext context = Target::lowering_context(graph, layouts, options);
    context.library_products = options.external.products;
    context.tf32 = options.external.tf32;
    context.library_convolutions = options.external.convolutions;
    return context;
  }
  Kernel lower_plainly(const Group& group, const LoweringContext& context) const override {
    return lower_gpu(group, context);
  }
  GatheredRegion gather(const FusedRegion& region, const LoweringContext& context) const override {
    return gather_alike(region, context);
  }
  Launch lower_together(const std::vector<Item>& items, size_t first, int count,
                        const LoweringContext& context) const override {
    Launch launch;
    const std::vector<FlatKernel> members = lower_members(items, first, count, context, launch.group);
    launch.kernel = join_members(members);
    launch.pack = members[0].pack;
    for (const FlatKernel& member : members) launch.members.push_back(member.kernel);
    return launch;
  }
  KernelSource print(const Launch& launch, const std::vector<Symbol>& symbols,
                     const CompileOptions& options) const override {
    const KernelPrinting printing{&symbols, options.cpu.vector_bytes, options.external.tf32};
    if (launch.members.empty()) return print_cuda_kernel(launch.kernel, printing);
    std::vector<FlatKernel> members;
    for (const Kernel& member : launch.members) members.push_back({member, launch.pack});
    return print_members(launch.kernel, members, printing);
  }
};

}  // namespace

const Target& target_gpu() {
  static const TargetGpu target;
  return target;
}

}  // namespace metac
