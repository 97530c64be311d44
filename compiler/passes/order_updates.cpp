#include "compiler/passes/order_updates.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "compiler/ir/reads.h"

namespace metac {
namespace {

constexpr int64_t most_elements_of_a_scalar = 64;
// So much of what processes exchange is under way while derivatives are computed: an update waits for so many bytes of
// gradients behind its own.
constexpr int64_t bytes_under_way = 8 << 20;

class Order {
 public:
  Order(Graph& graph, const std::vector<std::pair<size_t, size_t>>& next_values)
      : graph_(graph), next_values_(next_values), anchors_(graph.ops.size()) {
    for (size_t k = 0; k < graph.ops.size(); ++k) {
      for (const Var* out : graph.ops[k]->outputs) maker_[out] = k;
      for (int id : graph.ops[k]->symbols) binder_[id] = k;
      reads_.push_back(reads_of(*graph.ops[k]));
    }
  }

  int run() {
    find_updates();
    find_last_readers();
    for (size_t k = 0; k < graph_.ops.size(); ++k) anchors_[k] = anchor(k);
    delay_readers();
    if (!ready_.empty())
      for (size_t k = 0; k < graph_.ops.size(); ++k) anchors_[k] = anchor(k);
    std::vector<size_t> order(graph_.ops.size());
    std::iota(order.begin(), order.end(), size_t{0});
    find_turns();
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(anchors_[a], turns_[a]) < std::pair(anchors_[b], turns_[b]);
    });
    std::vector<Op*> sorted;
    int moved = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      sorted.push_back(graph_.ops[order[k]]);
      moved += anchors_[k] != static_cast<int64_t>(k);
    }
    graph_.ops = std::move(sorted);
    return moved;
  }

 private:
  // Element by element, or a move of them (a scalar repeated for each); from the same places in every run.
  bool is_movable(size_t k) const {
    const Op& op = *graph_.ops[k];
    if (op.kind != OpKind::elementwise && op.kind != OpKind::reindex) return false;
    return std::none_of(reads_[k].symbols.begin(), reads_[k].symbols.end(), [&](int id) { return binder_.count(id) > 0; }) &&
           std::all_of(op.outputs.begin(), op.outputs.end(), [](const Var* out) { return is_static(out->shape()); });
  }

  // Backwards: an op whose results only updates and the caller read.
  void find_updates() {
    std::unordered_set<const Var*> others;  // read by anything else
    std::unordered_set<const Var*> outputs(graph_.outputs.begin(), graph_.outputs.end()), read;
    for (size_t k = graph_.ops.size(); k-- > 0;) {
      const Op& op = *graph_.ops[k];
      bool update = is_movable(k);
      for (const Var* out : op.outputs) update = update && !others.count(out) && (outputs.count(out) || read.count(out));
      if (update) updates_.insert(&op);
      (update ? read : others).insert(reads_[k].vars.begin(), reads_[k].vars.end());
    }
  }

  // Where a state's next value is to overwrite it, the update stands behind whatever else reads the state, all of it: an
  // update in two places would be two kernels.
  void find_last_readers() {
    behind_readers_.assign(graph_.ops.size(), -1);
    if (next_values_.empty()) return;
    std::unordered_map<const Var*, std::vector<size_t>> readers;  // that are no updates
    for (size_t k = 0; k < graph_.ops.size(); ++k)
      if (!updates_.count(graph_.ops[k]))
        for (const Var* in : reads_[k].vars) readers[in].push_back(k);
    // Where the kernel is that has the op: what is element-wise or a move is fused with its readers.
    std::vector<int64_t> kernel(graph_.ops.size(), -1);
    for (size_t k = graph_.ops.size(); k-- > 0;) {
      kernel[k] = static_cast<int64_t>(k);
      for (const Var* out : graph_.ops[k]->outputs)
        if (auto found = readers.find(out); found != readers.end() && is_movable(k))
          for (size_t reader : found->second) kernel[k] = std::max(kernel[k], kernel[reader]);
    }
    std::unordered_map<const Var*, int64_t> last;
    for (const auto& [output, input] : next_values_)
      if (auto found = readers.find(graph_.inputs[input]); found != readers.end())
        for (size_t reader : found->second)
          last[graph_.outputs[output]] = std::max(last.emplace(graph_.outputs[output], -1).first->second, kernel[reader]);
    for (size_t k = graph_.ops.size(); k-- > 0;) {
      const Op& op = *graph_.ops[k];
      if (!updates_.count(&op)) continue;
      for (const Var* out : op.outputs)
        if (auto found = last.find(out); found != last.end())
          behind_readers_[k] = std::max(behind_readers_[k], found->second);
      for (const Var* in : op.inputs)
        if (auto made = maker_.find(in);
            made != maker_.end() && updates_.count(graph_.ops[made->second]) && !is_scalar(*graph_.ops[made->second])) {
          int64_t& part = last.emplace(in, -1).first->second;
          part = std::max(part, behind_readers_[k]);
        }
    }
  }

  // When what is exchanged may be read.
  void delay_readers() {
    std::vector<size_t> exchanges;
    for (size_t k = 0; k < graph_.ops.size(); ++k)
      for (const Var* out : graph_.ops[k]->outputs)
        if (out->exchanged >= 0 && is_static(out->shape())) exchanges.push_back(k);
    std::stable_sort(exchanges.begin(), exchanges.end(), [&](size_t a, size_t b) { return anchors_[a] < anchors_[b]; });
    for (size_t k = 0; k < exchanges.size(); ++k) {
      int64_t bytes = 0;
      size_t last = k;
      while (last + 1 < exchanges.size() && bytes < bytes_under_way) {
        const Var* const next = graph_.ops[exchanges[++last]]->outputs[0];
        bytes += element_count(next->shape()).as_int() * static_cast<int64_t>(size_of(next->dtype()));
      }
      ready_[exchanges[k]] = std::max(anchors_[exchanges[last]], anchors_[exchanges[k]]);
    }
  }

  // Updates that stand behind the same op take turns as what they read was sent out.
  void find_turns() {
    turns_.assign(graph_.ops.size(), -1);
    for (size_t k = 0; k < graph_.ops.size(); ++k)
      for (const Var* in : graph_.ops[k]->inputs)
        if (auto made = maker_.find(in);
            updates_.count(graph_.ops[k]) && graph_.ops[k]->outputs[0]->exchanged < 0 && made != maker_.end())
          turns_[k] = std::max(turns_[k], in->exchanged >= 0 ? anchors_[made->second] : turns_[made->second]);
  }

  // Behind which op it stands: -1 before all. Anchors of what it reads are known, as ops stand in order.
  int64_t anchor(size_t k) const {
    const Op& op = *graph_.ops[k];
    if (!is_movable(k)) return static_cast<int64_t>(k);
    int64_t behind = -1;
    for (const Var* in : op.inputs)
      if (auto made = maker_.find(in); made != maker_.end()) {
        const auto ready = ready_.find(made->second);
        behind = std::max(behind, ready == ready_.end() ? anchors_[made->second] : ready->second);
      }
    if (op.outputs[0]->exchanged >= 0) return behind;
    if (updates_.count(&op)) return std::max(behind, behind_readers_[k]);
    return is_scalar(op) && behind < 0 ? behind : static_cast<int64_t>(k);
  }

  static bool is_scalar(const Op& op) {
    return std::all_of(op.outputs.begin(), op.outputs.end(),
                       [](const Var* out) { return element_count(out->shape()).as_int() <= most_elements_of_a_scalar; });
  }

  Graph& graph_;
  const std::vector<std::pair<size_t, size_t>>& next_values_;
  std::vector<int64_t> anchors_, turns_;
  std::vector<int64_t> behind_readers_;  // of an update: the op behind which its states are not read; -1
  std::vector<Reads> reads_;
  std::unordered_map<const Var*, size_t> maker_;
  std::unordered_map<int, size_t> binder_;  // of symbols that a run decides
  std::unordered_set<const Op*> updates_;
  std::unordered_map<size_t, int64_t> ready_;  // op that makes what is exchanged -> behind which op it may be read
};

// Sums over so many axes, those of a batch and of places, may be added up in memory.
constexpr int least_axes_summed = 3;

bool is_added_up_in_memory(const Var* var) {
  const Op* const op = var->producer;
  return op && op->kind == OpKind::reindex_reduce && !op->inputs.empty() && op->inputs[0] &&
         op->inputs[0]->rank() - var->rank() >= least_axes_summed && element_count(var->shape()).if_int();
}

}  // namespace

int keep_sums_apart(Graph& graph, const std::vector<std::pair<size_t, size_t>>& next_values) {
  int apart = 0;
  for (const auto& [output, input] : next_values) {
    std::vector<Var*> way{graph.outputs[output]};
    for (size_t at = 0; at < way.size(); ++at) {
      Var* const var = way[at];
      if (is_added_up_in_memory(var)) {
        apart += !var->stop_fuse;
        var->stop_fuse = true;
        continue;
      }
      if (!var->producer || var->producer->kind != OpKind::elementwise) continue;
      for (Var* in : var->producer->inputs)
        if (in && in->shape() == var->shape() && std::find(way.begin(), way.end(), in) == way.end()) way.push_back(in);
    }
  }
  return apart;
}

int order_updates(Graph& graph, const std::vector<std::pair<size_t, size_t>>& next_values) {
  return Order(graph, next_values).run();
}

}  // namespace metac
