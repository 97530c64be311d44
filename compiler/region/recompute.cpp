#include "compiler/region/recompute.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "compiler/ir/hints.h"
#include "compiler/ir/reads.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/tensor/work.h"

namespace metac {
namespace {

class Reader {
 public:
  Reader(const Graph& graph, const FusedRegion& region, const std::function<bool(const Var*)>& is_constant)
      : graph_(graph), region_(region), is_constant_(is_constant) {}

  KeptRegion read() {
    out_.steps = static_cast<int>(region_.items.size());
    for (const Var* output : graph_.outputs) outputs_.insert(output);
    for (int step = 0; step < out_.steps; ++step) {
      const Item& item = region_.items[static_cast<size_t>(step)];
      if (item.op)
        read_host(*item.op, step);
      else
        read_kernel(item.group, step);
    }
    return std::move(out_);
  }

 private:
  const Var* var(int id) const { return graph_.vars()[static_cast<size_t>(id)].get(); }

  // The value whose memory a Var is in; -1: none of the arena's.
  int value_of(int id) const {
    auto view = region_.views.find(id);
    auto found = values_.find(view == region_.views.end() ? id : view->second->id);
    return found == values_.end() ? -1 : found->second;
  }

  void note_read(int id, int step) {
    const int value = value_of(id);
    if (value < 0) return;
    std::vector<int>& readers = out_.values[static_cast<size_t>(value)].readers;
    if (readers.empty() || readers.back() != step) readers.push_back(step);
  }

  int add(Var* made, int step) {
    if (outputs_.count(made) || values_.count(made->id)) return -1;  // outputs are the caller's memory
    values_[made->id] = static_cast<int>(out_.values.size());
    KeptValue value;
    value.bytes = (hinted_bytes(made, graph_.symbols) + 127) / 64 * 64;
    value.maker = step;
    out_.values.push_back(value);
    out_.vars.push_back(made);
    return values_[made->id];
  }

  void read_host(const Op& op, int step) {
    for (const Var* in : reads_of(op).vars) note_read(in->id, step);
    // What bodies read stays where it is: loads inside of them are not rewritten.
    for (const Region& body : op.regions)
      for (const Var* in : reads_of(body).vars)
        if (int value = value_of(in->id); value >= 0) out_.values[static_cast<size_t>(value)].repeatable = false;
    for (Var* made : op.outputs) add(made, step);
  }

  void read_kernel(const Group& group, int step) {
    bool constant = true;
    for (const Definition& d : group.stages)
      visit_loads(d, [&](Expr n) {
        constant = constant && (group.internal.count(n->id) || constants_.count(n->id) || is_constant_(var(n->id)));
        if (!group.internal.count(n->id)) note_read(n->id, step);
      });
    for (const Definition& d : group.stages) {
      if (group.internal.count(d.out->id)) continue;
      if (constant) {
        constants_.insert(d.out->id);
        continue;
      }
      const int value = add(d.out, step);
      if (value >= 0) describe(group, d, out_.values[static_cast<size_t>(value)]);
    }
  }

  // The stages that `wanted` cannot do without: those that make what it reads inside the kernel.
  static std::vector<Definition> stages_behind(const Group& group, const Definition& wanted) {
    std::set<int> ids = {wanted.out->id};
    std::vector<Definition> stages;
    for (size_t k = group.stages.size(); k-- > 0;) {
      const Definition& d = group.stages[k];
      if (!ids.count(d.out->id)) continue;
      stages.insert(stages.begin(), d);
      visit_loads(d, [&](Expr n) {
        if (group.internal.count(n->id)) ids.insert(n->id);
      });
    }
    return stages;
  }

  void describe(const Group& group, const Definition& d, KeptValue& value) {
    const std::vector<Definition> stages = stages_behind(group, d);
    value.repeatable = std::all_of(stages.begin(), stages.end(), [](const Definition& s) {
      return is_static(s.domain) && s.out->exchanged < 0 && s.out->producer && is_meta(s.out->producer->kind);
    });
    for (const Definition& s : stages)
      visit_loads(s, [&](Expr n) {
        if (group.internal.count(n->id)) return;
        const int operand = value_of(n->id);
        if (operand >= 0 && !std::count(value.operands.begin(), value.operands.end(), operand))
          value.operands.push_back(operand);
      });
    const Work work = kernel_work(stages, group.internal, [this](int id) { return var(id); });
    auto typical = [&](Expr e) { return e ? static_cast<double>(hinted_value(e, graph_.symbols)) : 0.0; };
    value.cost = typical(work.operations) * cpu_costs.seconds_of_operation +
                 typical(work.bytes) * cpu_costs.seconds_of_byte + cpu_costs.seconds_of_kernel;
    if (group.stages.size() > 1 || d.scatter) return;
    auto note_place = [&](Expr e) {
      if (!e) return;
      visit(e, [&](Expr n) {
        if (n->kind != ExprKind::load || n->id < 0 || n->args != d.out_index) return;
        const int operand = value_of(n->id);
        if (operand >= 0 && out_.values[static_cast<size_t>(operand)].bytes == value.bytes &&
            var(n->id)->dtype() == d.out->dtype())
          value.dies_into.push_back(operand);
      });
    };
    note_place(d.reduce ? d.epilogue : d.body);
  }

  const Graph& graph_;
  const FusedRegion& region_;
  const std::function<bool(const Var*)>& is_constant_;
  KeptRegion out_;
  std::map<int, int> values_;  // Var id -> value
  std::set<int> constants_;    // made of constants alone
  std::unordered_set<const Var*> outputs_;
};

class Rewriter {
 public:
  Rewriter(Graph& graph, const FusedRegion& region, const KeptRegion& kept, const std::vector<int>& again)
      : graph_(graph), region_(region) {
    for (size_t v = 0; v < again.size(); ++v)
      if (again[v] >= 0) again_[kept.vars[v]] = again[v];
    for (const Item& item : region.items)
      for (const Definition& d : item.group.stages)
        if (!item.group.internal.count(d.out->id)) stored_.insert(d.out);
  }

  void run() {
    for (size_t step = 0; step < region_.items.size(); ++step) {
      step_ = static_cast<int>(step);
      for (auto& [var, at] : again_)
        if (at == step_) late_.clear();  // what was cloned before it still reads the first life
      const Item& item = region_.items[step];
      if (item.op) {
        redirect(*const_cast<Op*>(item.op));
        continue;
      }
      for (const Definition& d : item.group.stages)
        if (!item.group.internal.count(d.out->id) && d.out->producer) redirect(*d.out->producer);
    }
    arrange();
  }

 private:
  bool is_again(const Var* var) const {
    auto found = again_.find(const_cast<Var*>(var));
    return found != again_.end() && found->second <= step_;
  }
  bool is_stored(const Var* var) const { return !var->producer || !is_meta(var->producer->kind) || stored_.count(var); }

  void redirect(Op& op) {
    before_ = &op;
    for (Var*& in : op.inputs)
      if (in) in = late(in);
  }

  // What a late reader reads instead of `var`.
  Var* late(Var* var) {
    if (is_again(var)) return second(var);
    if (is_stored(var)) return var;
    if (auto found = late_.find(var); found != late_.end()) return found->second;
    std::vector<Var*> inputs;
    for (Var* in : var->producer->inputs) inputs.push_back(late(in));
    Var* out = inputs == var->producer->inputs ? var : clone(var, std::move(inputs));
    return late_[var] = out;
  }

  Var* second(Var* var) {
    if (auto found = second_.find(var); found != second_.end()) return found->second;
    std::unordered_map<Var*, Var*> own;
    Var* out = made_again(var, own);
    return second_[var] = out;
  }

  // With ops of its own for all that lies between it and what is stored: a value shared with the first life would be stored
  // for both.
  Var* made_again(Var* var, std::unordered_map<Var*, Var*>& own) {
    std::vector<Var*> inputs;
    for (Var* in : var->producer->inputs) {
      if (is_again(in))
        inputs.push_back(second(in));
      else if (is_stored(in))
        inputs.push_back(in);
      else if (auto found = own.find(in); found != own.end())
        inputs.push_back(found->second);
      else
        inputs.push_back(own[in] = made_again(in, own));
    }
    return clone(var, std::move(inputs));
  }

  Var* clone(Var* var, std::vector<Var*> inputs) {
    const Op& op = *var->producer;
    std::vector<Type> types;
    for (const Var* out : op.outputs) types.push_back(out->type);
    Op* copy = graph_.detached_op(op.kind, std::move(inputs), std::move(types));
    copy->origin = op.origin;
    copy->bodies = op.bodies;
    copy->indices = op.indices;
    copy->conditions = op.conditions;
    copy->fill = op.fill;
    copy->reduce = op.reduce;
    copy->accumulator = op.accumulator;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      copy->outputs[k]->name = op.outputs[k]->name;
      copy->outputs[k]->stop_grad = op.outputs[k]->stop_grad;
      copy->outputs[k]->stop_fuse = op.outputs[k]->stop_fuse;
      if (op.outputs[k]->carried_elements())
        copy->outputs[k]->carry_elements(*op.outputs[k]->carried_elements(), {op.outputs[k]});
    }
    inserted_[before_].push_back(copy);
    return copy->outputs[static_cast<size_t>(var->output_index)];
  }

  // The ops with the clones in front of the first that reads them, and everything behind what it reads.
  void arrange() {
    std::vector<Op*> old = std::move(graph_.ops);
    graph_.ops.clear();
    std::unordered_set<const Op*> open, done;
    std::unordered_map<int, Op*> binders;
    for (Op* op : old) {
      open.insert(op);
      for (int id : op->symbols) binders[id] = op;
    }
    for (auto& [unused, clones] : inserted_) open.insert(clones.begin(), clones.end());
    std::function<void(Op*)> place = [&](Op* op) {
      if (!open.count(op) || !done.insert(op).second) return;
      if (auto found = inserted_.find(op); found != inserted_.end())
        for (Op* copy : found->second) place(copy);
      const Reads reads = reads_of(*op);
      for (const Var* in : reads.vars)
        if (in->producer) place(in->producer);
      for (int id : reads.symbols)
        if (auto found = binders.find(id); found != binders.end()) place(found->second);
      graph_.ops.push_back(op);
    };
    for (Op* op : old) place(op);
  }

  Graph& graph_;
  const FusedRegion& region_;
  std::map<Var*, int, bool (*)(const Var*, const Var*)> again_{[](const Var* a, const Var* b) { return a->id < b->id; }};
  std::unordered_set<const Var*> stored_;
  std::unordered_map<Var*, Var*> late_, second_;
  std::unordered_map<const Op*, std::vector<Op*>> inserted_;
  Op* before_ = nullptr;
  int step_ = 0;
};

}  // namespace

KeptRegion kept_values(const Graph& graph, const FusedRegion& region, const std::function<bool(const Var*)>& is_constant) {
  return Reader(graph, region, is_constant).read();
}

void recompute(Graph& graph, const FusedRegion& region, const KeptRegion& kept, const std::vector<int>& again) {
  Rewriter(graph, region, kept, again).run();
}

}  // namespace metac
