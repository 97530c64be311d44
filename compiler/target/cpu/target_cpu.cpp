#include <set>

#include "compiler/loops/name_indices.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/region/fusion/fuse_row_blocks.h"
#include "compiler/region/fusion/fusion_facts.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/byte_tables.h"
#include "compiler/target/cpu/cpp_kernel.h"
#include "compiler/target/cpu/group_statistics.h"
#include "compiler/target/cpu/half_products.h"
#include "compiler/target/cpu/integer_products.h"
#include "compiler/target/cpu/layouts/choose_layouts.h"
#include "compiler/target/cpu/rounded_quotients.h"
#include "compiler/target/cpu/slice_batches.h"
#include "compiler/target/cpu/softmax_weights.h"
#include "compiler/target/cpu/split_statistics.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/target/cpu/strategies/lower_group.h"
#include "compiler/target/target.h"
#include "compiler/tensor/split_digits.h"

namespace metac {
namespace {

std::vector<Var*> run_split_statistics(RegionState& s) {
  if (s.options.fusion == Fusion::best) split_statistics(s.graph, s.region, s.layouts, s.options.cpu.l2_bytes);
  return {};
}

std::vector<Var*> run_slice_batches(RegionState& s) {
  if (s.top && s.options.fusion == Fusion::best) slice_batches(s);
  return {};
}

std::vector<Var*> run_softmax_weights(RegionState& s) {
  drop_tiny_weights(s);
  return {};
}

// Does a Var depend on parameters alone: is it one, what `prepare` will make of some, or such a one in another shape?
class MadeOfParameters {
 public:
  explicit MadeOfParameters(const RegionState& s) : s_(s) {
    for (const Item& item : s.region.items)
      for (const Definition& d : item.group.stages) {
        bool all = true, any = false;
        visit_loads(d, [&](Expr n) { any = true, all = all && (*this)(n->id); });
        if (any && all) made_.insert(d.out->id);
      }
  }
  bool operator()(int id) const {
    if (made_.count(id) > 0 || s_.is_constant(s_.graph.vars()[static_cast<size_t>(id)].get())) return true;
    const auto view = s_.region.views.find(id);
    return view != s_.region.views.end() && (*this)(view->second->id);
  }

 private:
  const RegionState& s_;
  std::set<int> made_;
};

// Kernels run on the host's processors, one loop tree on all threads.
class TargetCpu final : public Target {
 public:
  std::string_view name() const override { return "cpu"; }
  bool runs_users_code() const override { return true; }
  bool takes_schedules() const override { return true; }
  std::optional<ChainCosts> chain_costs() const override { return cpu_costs.beside; }

  bool widens_freely() const override { return false; }
  void fuse_further(RegionState& s, const std::vector<Op*>&) const override {
    if (s.options.fusion != Fusion::best) return;
    fuse_row_blocks(s.region, s.needed.in_memory, MadeOfParameters(s), s.options.cpu.vector_bytes / 4, s.graph.symbols,
                    std::make_shared<RowBlocks>());
    for (Item& item : s.region.items)
      for (Definition& d : item.group.stages)
        if (!item.group.strategy && !is_contraction(d)) split_summed_digits(d, s.graph.symbols);
  }
  void finish_fusion(RegionState& s, const std::vector<Op*>&) const override {
    if (s.options.fusion == Fusion::best) group_statistics(s);
  }
  const std::vector<TargetPass>& passes() const override {
    static const std::vector<TargetPass> list = {
        {"byte_tables", "what follows from one byte by a long computation is looked up", byte_tables},
        {"integer_products",
         "sums of products of small integers are computed a word at a time; scales that leave a sum make it one",
         integer_products},
        {"rounded_quotients", "what is divided by a parameter and rounded to a byte is multiplied by prepared factors",
         rounded_quotients},
        {"half_products", "sums of products that may read bfloat16 are computed two products at a time", half_products},
        {"choose_layouts", "convolutions and matrix products read packed weights and channels last", choose_layouts},
        {"split_statistics",
         "sums of channels over many images walk memory in order, and what follows them runs on all threads",
         run_split_statistics},
        {"softmax_weights", "weights of sums that are next to nothing are zeros: products with denormals take long",
         run_softmax_weights},
        {"slice_batches", "chains of kernels run slice by slice of the batch where values would outgrow the cache",
         run_slice_batches},
    };
    return list;
  }

  Kernel lower_plainly(const Group& group, const LoweringContext& context) const override {
    return lower_group(group, context);
  }
  GatheredRegion gather(const FusedRegion& region, const LoweringContext&) const override { return {region, {}}; }
  Launch lower_together(const std::vector<Item>&, size_t, int, const LoweringContext&) const override {
    METAC_ASSERT(false, "kernels of the CPU are started one by one");
    return {};
  }
  KernelSource print(const Launch& launch, const std::vector<Symbol>& symbols,
                     const CompileOptions& options) const override {
    Kernel kernel = launch.kernel;
    name_indices(kernel);
    return print_kernel(kernel, {&symbols, options.cpu.vector_bytes});
  }
};

}  // namespace

const Target& target_cpu() {
  static const TargetCpu target;
  return target;
}

}  // namespace metac
