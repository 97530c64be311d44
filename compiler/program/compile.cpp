#include "compiler/program/compile.h"

#include <algorithm>
#include <chrono>

#include "compiler/ir/expr_table.h"
#include "compiler/ir/hints.h"
#include "compiler/ir/reads.h"
#include "compiler/passes/fill_empty.h"
#include "compiler/passes/fold_constants.h"
#include "compiler/passes/merge_equal_ops.h"
#include "compiler/passes/narrow_reads.h"
#include "compiler/passes/order_updates.h"
#include "compiler/passes/remove_dead_ops.h"
#include "compiler/passes/round_parts.h"
#include "compiler/passes/skip_copies.h"
#include "compiler/program/build_program.h"
#include "compiler/program/output_sets.h"
#include "compiler/program/pass_list.h"
#include "compiler/region/fusion/fusion_cost.h"
#include "compiler/region/recompute.h"
#include "compiler/region/verify_region.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/interruption.h"
#include "compiler/target/precision.h"
#include "compiler/target/target.h"

namespace metac {
namespace {

// What must be in memory after a list of ops: operands of host steps and whatever nested regions read.
void collect_needed(const std::vector<Op*>& ops, Needed& needed) {
  for (const Op* op : ops)
    if (op->kind != OpKind::elementwise && op->kind != OpKind::reindex && op->kind != OpKind::reindex_reduce)
      for (const Var* in : reads_of(*op).vars) needed.in_memory.insert(in);
}

class Compilation {
 public:
  Compilation(Graph& graph, const CompileOptions& options) : graph_(graph), options_(options) {}

  CompiledModel run() {
    if (!options_.print_after.empty()) check_pass_name(options_.print_after, *options_.target);
#define PASS(name, reason) run_timed(#name, [this] { name(); });
#include "compiler/program/passes.def"
#undef PASS
    model_.expressions = ExprTable::share_current();
    return std::move(model_);
  }

 private:
  // The target's own passes are timed one by one.
  template <typename F>
  void run_timed(std::string_view name, F f) {
    name == "target_passes" ? f() : timed(name, f);
  }
  template <typename F>
  void timed(std::string_view name, F f) {
    Interruption::check();
    auto start = std::chrono::steady_clock::now();
    f();
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (options_.time_passes && options_.trace) *options_.trace << name << ": " << ms << " ms\n";
    if (options_.print_after == name) trace(state_text());
  }

  // ---- the passes of passes.def ----
  void verify() { metac::verify(graph_); }
  void fill_empty() { metac::fill_empty(graph_); }
  void skip_copies() { metac::skip_copies(graph_); }
  void fold_constants() { metac::fold_constants(graph_); }
  void round_parts() { metac::round_parts(graph_); }
  void merge_equal_ops() { metac::merge_equal_ops(graph_); }
  void narrow_reads() { metac::narrow_reads(graph_); }
  void remove_dead_ops() {
    metac::remove_dead_ops(graph_);
    metac::verify(graph_);
    if (options_.emit == "meta") trace(to_string(graph_));
  }
  void order_updates() {
    metac::order_updates(graph_, next_values());
    metac::keep_sums_apart(graph_, options_.next_values);
    metac::verify(graph_);
  }
  void recompute() {
    if (options_.memory_budget > 0) keep_within_budget();
  }
  void fuse() {
    allow_int8_data(graph_, options_);
    place_states();
    fuse_all();
    fused_ = true;
  }
  void split_prepare() {
    split_prepare(top_, true);
    for (auto& [unused, region] : regions_) split_prepare(region, false);
    verify_region(prepare_, graph_, "split_prepare");
    count_fusion_cost();
  }
  // From here on each target has its own.
  void target_passes() {
    for (const TargetPass& pass : options_.target->passes())
      timed(pass.name, [&] {
        run_pass(pass, top_, needed_, true);
        for (auto& [of, region] : regions_) run_pass(pass, region, region_needs_.at(of), false);
      });
    if (options_.emit != "fused") return;
    trace(to_string(top_));
    trace(concat("cost: ", model_.fusion_cost_bytes,
                 " bytes on edges between groups; every operator on its own: ", model_.unfused_cost_bytes, "\n"));
  }
  void run_pass(const TargetPass& pass, FusedRegion& region, const Needed& needed, bool top) {
    RegionState state = state_of(region, needed, top);
    for (const Var* made : pass.run(state)) prepared_.insert(made->id);
    verify_region(region, graph_, pass.name);
  }
  void build_program() { build(); }

  // Outputs whose memory may be that of an input: what the caller says, and states.
  std::vector<std::pair<size_t, size_t>> next_values() const {
    std::vector<std::pair<size_t, size_t>> pairs = options_.next_values;
    for (const State& s : graph_.states)
      if (s.capacity < 0) pairs.push_back({s.output, s.input});
    return pairs;
  }

  // States that grow in their place lie so before any pass looks at how values lie.
  void place_states() {
    for (const State& s : graph_.states) {
      if (s.capacity < 0) continue;
      Layout grown;
      grown.grown_axis = s.axis;
      grown.capacity = symbol(s.capacity);
      layouts_[graph_.inputs[s.input]->id] = layouts_[graph_.outputs[s.output]->id] = grown;
    }
  }

  // What the last pass left: the graph, the groups, or the steps.
  std::string state_text() const {
    if (!fused_) return to_string(graph_);
    std::string text;
    if (model_.run.steps.empty()) {
      text = to_string(top_);
      if (!prepare_.items.empty()) text += "prepared when compiling:\n" + to_string(prepare_);
      return text;
    }
    for (const std::string& step : model_.run.step_comments) text += step + "\n";
    return text;
  }

  RegionState state_of(FusedRegion& region, const Needed& needed, bool top) {
    return {graph_, region, prepare_, layouts_, needed, is_constant(), options_, top};
  }

  void trace(const std::string& text) {
    if (options_.trace) *options_.trace << text;
  }

  std::function<bool(const Var*)> is_constant() {
    return [this](const Var* var) { return var->constant.has_value() || prepared_.count(var->id) > 0; };
  }

  // Bytes of a run that no order of kernels changes: the caller's tensors and the weights.
  int64_t fixed_bytes() const {
    int64_t bytes = 0;
    std::set<const Var*> seen;
    for (const auto& [output, input] : options_.next_values)
      seen.insert(graph_.outputs[output]);  // it will overwrite its input
    auto add = [&](const Var* var) {
      if (seen.insert(var).second) bytes = add_costs(bytes, hinted_bytes(var, graph_.symbols));
    };
    for (const Var* var : graph_.inputs) add(var);
    for (const Var* var : graph_.outputs) add(var);
    for (const Op* op : graph_.ops)
      for (const Var* var : op->inputs)
        if (var && var->constant) add(var);
    return bytes;
  }

  // What is made again makes the rest look different: kernels are formed anew and looked at again.
  void keep_within_budget() {
    model_.memory_budget = options_.memory_budget;
    const int64_t fixed = fixed_bytes();
    int64_t bound = static_cast<int64_t>(static_cast<double>(options_.memory_budget) * (1 - options_.budget_margin)) - fixed;
    for (int round = 0; round < 6; ++round) {
      Needed needed;
      collect_needed(graph_.ops, needed);
      for (const Var* out : graph_.outputs) {
        needed.in_memory.insert(out);
        needed.own_memory.insert(out);
      }
      const FusedRegion region = fuse_region(graph_.ops, needed);
      const KeptRegion kept = kept_values(graph_, region, is_constant());
      const int64_t peak = plan_of(kept.values, std::vector<bool>(kept.values.size()), kept.steps).peak;
      if (options_.trace && options_.time_passes)
        *options_.trace << "recompute round " << round << ": " << kept.steps << " steps, fixed " << fixed << ", peak "
                        << peak << ", bound " << bound << "\n";
      if (peak <= bound) return;
      RecomputePlan plan = choose_recomputed(kept.values, kept.steps, bound);
      if (!plan.fits && round == 0) {  // as near as it goes: what comes of it says what the least is
        bound = std::max(bound, least_bound(kept.values, kept.steps));
        plan = choose_recomputed(kept.values, kept.steps, bound);
        model_.fits_budget = false;
      }
      model_.recomputed_seconds += plan.cost;
      const size_t chosen =
          static_cast<size_t>(std::count_if(plan.again.begin(), plan.again.end(), [](int step) { return step >= 0; }));
      if (options_.trace && options_.time_passes)
        *options_.trace << "  chosen " << chosen << ", peak " << plan.peak << ", cost " << plan.cost << "\n";
      model_.recomputed_values += static_cast<int64_t>(chosen);
      if (chosen == 0) break;
      metac::recompute(graph_, region, kept, plan.again);
      metac::remove_dead_ops(graph_);
      order_updates();  // what is made again may read a state that its update was to overwrite before
    }
  }

  void fuse_all() {
    Needed& needed = needed_;
    collect_needed(graph_.ops, needed);
    for (const Var* out : graph_.outputs) {
      needed.in_memory.insert(out);
      needed.own_memory.insert(out);
    }
    top_ = fuse_region(graph_.ops, needed);
    model_.unfused_cost_bytes = unfused_cost(graph_.ops, graph_.symbols, is_constant());
    RegionState state = state_of(top_, needed, true);
    options_.target->finish_fusion(state, graph_.ops);
    verify_region(top_, graph_, "fuse");
    fuse_regions(graph_.ops);
  }

  FusedRegion fuse_region(const std::vector<Op*>& ops, const Needed& needed) {
    FusedRegion fused =
        metac::fuse(ops, needed, is_constant(), graph_.symbols, options_.fusion, options_.target->widens_freely());
    std::erase_if(fused.items, [](const Item& item) { return !item.op && writes_nothing(item.group); });
    RegionState state = state_of(fused, needed, &needed == &needed_);
    options_.target->fuse_further(state, ops);
    verify_region(fused, graph_, "fuse");
    return fused;
  }

  // What processes exchange is written even so: they wait for each other there.
  static bool writes_nothing(const Group& group) {
    return std::all_of(group.stages.begin(), group.stages.end(),
                       [](const Definition& d) { return is_empty(d.out->shape()) && d.out->exchanged < 0; });
  }

  void fuse_regions(const std::vector<Op*>& ops) {
    for (const Op* op : ops)
      for (const Region& region : op->regions) {
        Needed& needed = region_needs_[&region];
        collect_needed(region.ops, needed);
        for (const Var* result : region.results)
          if (result) needed.in_memory.insert(result);
        model_.unfused_cost_bytes =
            add_costs(model_.unfused_cost_bytes, unfused_cost(region.ops, graph_.symbols, is_constant()));
        regions_.add(region, fuse_region(region.ops, needed));
        fuse_regions(region.ops);
      }
  }

  // After what `prepare` computes has left, before layouts bring copies of their own.
  void count_fusion_cost() {
    auto var = [this](int id) { return graph_.vars()[static_cast<size_t>(id)].get(); };
    model_.fusion_cost_bytes = fusion_cost(top_, graph_.symbols, var);
    for (auto& [unused, region] : regions_)
      model_.fusion_cost_bytes = add_costs(model_.fusion_cost_bytes, fusion_cost(region, graph_.symbols, var));
    for (size_t k = 0; k < graph_.symbols.size(); ++k) {
      const auto is_room = [k](const State& s) { return s.capacity == static_cast<int>(k); };
      if (graph_.symbols[k].from_input && std::none_of(graph_.states.begin(), graph_.states.end(), is_room))
        model_.assumed += concat(model_.assumed.empty() ? "" : ", ", shown(graph_.symbols[k].name), " = ",
                                 hinted_value(symbol(static_cast<int>(k)), graph_.symbols));
    }
  }

  // Kernels that depend on constants alone move to `prepare`.
  void split_prepare(FusedRegion& region, bool top) {
    auto constant = is_constant();
    std::set<const Var*> outputs(graph_.outputs.begin(), graph_.outputs.end());
    std::vector<Item> kept;
    for (Item& item : region.items) {
      if (item.op || !depends_on_constants(item.group, region, constant) || (top && makes_any(item.group, outputs))) {
        kept.push_back(std::move(item));
        continue;
      }
      for (const Definition& d : item.group.stages) prepared_.insert(d.out->id);
      prepare_.items.push_back(std::move(item));
    }
    region.items = std::move(kept);
    for (auto& [view, source] : region.views)
      if (constant(source)) {
        prepare_.views[view] = source;
        prepared_.insert(view);
      }
  }

  bool depends_on_constants(const Group& group, const FusedRegion&, const std::function<bool(const Var*)>& constant) const {
    bool all = true, any = false;
    for (const Definition& d : group.stages) {
      visit_symbols(d, [&all](int) { all = false; });
      visit_loads(d, [&](Expr n) {
        bool inside =
            std::any_of(group.stages.begin(), group.stages.end(), [&](const Definition& s) { return s.out->id == n->id; });
        any |= !inside;
        all &= inside || constant(graph_.vars()[static_cast<size_t>(n->id)].get());
      });
    }
    constexpr int64_t small =
        1 << 20;  // what reads nothing (a fill, a grid of indices) is as soon made as read where it is larger
    return all && (any || std::all_of(group.stages.begin(), group.stages.end(), [&](const Definition& d) {
                     return hinted_bytes(d.out, graph_.symbols) <= small || is_costly_table(d, graph_.symbols);
                   }));
  }

  static bool makes_any(const Group& group, const std::set<const Var*>& vars) {
    return std::any_of(group.stages.begin(), group.stages.end(), [&](const Definition& d) { return vars.count(d.out) > 0; });
  }

  // ---- weights ----
  void note_reads(const FusedRegion& region, std::set<int>& read) const {
    auto note = [&](int id) {
      if (auto view = region.views.find(id); view != region.views.end()) read.insert(view->second->id);
      read.insert(id);
    };
    for (const Item& item : region.items) {
      for (const Definition& d : item.group.stages) visit_loads(d, [&](Expr n) { note(n->id); });
      if (!item.op) continue;
      for (const Var* in : item.op->inputs)
        if (in) note(in->id);
      for (const Region& r : item.op->regions)
        for (const Var* result : r.results)
          if (result) note(result->id);
    }
    for (auto& [view, source] : region.views) read.insert(source->id);
  }

  // What was prepared for a reader that now reads something else.
  void drop_unread(std::set<int> read) {
    for (auto& [view, source] : prepare_.views) read.insert(source->id);
    std::vector<Item> kept;
    while (!prepare_.items.empty()) {
      Item item = std::move(prepare_.items.back());
      prepare_.items.pop_back();
      if (std::none_of(item.group.stages.begin(), item.group.stages.end(),
                       [&](const Definition& d) { return read.count(d.out->id) > 0; }))
        continue;
      for (const Definition& d : item.group.stages) visit_loads(d, [&](Expr n) { read.insert(n->id); });
      kept.push_back(std::move(item));
    }
    prepare_.items.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  }

  int parameter_of(const Var* var) {
    auto [found, fresh] = parameters_.emplace(var->id, static_cast<int>(model_.parameters.size()));
    if (fresh) model_.parameters.push_back({var->name, *var->constant});
    return found->second;
  }

  void place_weights() {
    std::set<int> run_reads, prepare_reads;
    note_reads(top_, run_reads);
    for (auto& [unused, region] : regions_) note_reads(region, run_reads);
    for (const Var* out : graph_.outputs) run_reads.insert(out->id);
    drop_unread(run_reads);
    note_reads(prepare_, prepare_reads);
    auto var_of = [&](int id) { return graph_.vars()[static_cast<size_t>(id)].get(); };
    auto place = [&](const Var* var, WeightSource source) {
      Layout layout = layouts_.count(var->id) ? layouts_.at(var->id) : Layout();
      source.bytes = storage_elements(var->shape(), layout).as_int() * static_cast<int64_t>(size_of(var->dtype()));
      source.offset = weight_bytes_;
      offsets_[var->id] = weight_bytes_;
      weight_bytes_ += (source.bytes + 127) / 64 * 64;
      model_.weights.push_back(source);
    };
    for (int id : run_reads) {
      const Var* var = var_of(id);
      if (var->constant) place(var, {parameter_of(var), -1, 0, 0});
    }
    for (auto& [view, source] : prepare_.views)
      if (run_reads.count(view)) run_reads.insert(source->id);
    for (int id : run_reads) {
      Var* var = var_of(id);
      if (var->constant || !prepared_.count(id) || prepare_.views.count(id)) continue;
      place(var, {-1, static_cast<int>(prepare_outputs_.size()), 0, 0});
      prepare_outputs_.push_back({var, "p" + std::to_string(id)});
    }
    for (int id : prepare_reads) {
      Var* var = var_of(id);
      if (var->constant) parameter_of(var);
    }
  }

  void build() {
    ProgramRequest run;
    run.graph = &graph_;
    run.regions = &regions_;
    run.top = &top_;
    for (Var* in : graph_.inputs) run.inputs.push_back({in, in->name});
    for (size_t k = 0; k < graph_.outputs.size(); ++k)
      run.outputs.push_back(
          {graph_.outputs[k], k < graph_.output_names.size() ? graph_.output_names[k] : graph_.outputs[k]->name});
    run.weight_offsets = offsets_;
    run.weight_bytes = weight_bytes_;
    run.layouts = &layouts_;
    run.options = &options_;
    run.target = options_.target;
    run.next_values = next_values();
    for (auto& [view, source] : prepare_.views) top_.views[view] = source;
    model_.run = metac::build_program(run);
    model_.run.needs = output_sets(model_.run);

    static const NestedRegions no_regions;
    ProgramRequest prepare;
    prepare.graph = &graph_;
    prepare.regions = &no_regions;
    prepare.top = &prepare_;
    prepare.inputs.resize(model_.parameters.size());
    for (auto& [id, index] : parameters_) {
      Var* var = graph_.vars()[static_cast<size_t>(id)].get();
      prepare.inputs[static_cast<size_t>(index)] = {var, var->name};
    }
    prepare.outputs = prepare_outputs_;
    prepare.layouts = &layouts_;
    prepare.options = &options_;
    prepare.with_requirements = false;
    prepare.kernel_prefix = "p";
    model_.prepare = metac::build_program(prepare);
    for (const auto& var : graph_.vars())
      if (var->is_parameter && var->is_relied_on && !var->name.empty()) model_.relied_on.insert(var->name);
    for (RawParameter& parameter : model_.parameters)
      if (model_.relied_on.count(parameter.name)) parameter.name.clear();
  }

  Graph& graph_;
  const CompileOptions& options_;
  FusedRegion top_, prepare_;
  bool fused_ = false;
  Needed needed_;
  std::map<const Region*, Needed> region_needs_;
  NestedRegions regions_;
  std::set<int> prepared_;
  Layouts layouts_;
  std::map<int, int> parameters_;
  std::vector<ProgramInput> prepare_outputs_;
  std::map<int, int64_t> offsets_;
  int64_t weight_bytes_ = 0;
  CompiledModel model_;
};

}  // namespace

CompiledModel compile_graph(Graph& graph, const CompileOptions& options) { return Compilation(graph, options).run(); }

}  // namespace metac
