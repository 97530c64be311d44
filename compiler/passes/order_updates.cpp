#include "compiler/passes/order_updates.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace metac {
namespace {

constexpr int64_t most_elements_of_a_scalar = 64;

class Order {
 public:
  explicit Order(Graph& graph) : graph_(graph), anchors_(graph.ops.size()) {
    for (size_t k = 0; k < graph.ops.size(); ++k)
      for (const Var* out : graph.ops[k]->outputs) maker_[out] = k;
  }

  int run() {
    find_updates();
    for (size_t k = 0; k < graph_.ops.size(); ++k) anchors_[k] = anchor(k);
    std::vector<size_t> order(graph_.ops.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return anchors_[a] < anchors_[b]; });
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
  // Element by element, or a move of them (a scalar repeated for each).
  static bool is_movable(const Op& op) {
    if (op.kind != OpKind::elementwise && op.kind != OpKind::reindex) return false;
    return std::all_of(op.outputs.begin(), op.outputs.end(), [](const Var* out) { return is_static(out->shape()); }) &&
           std::none_of(op.bodies.begin(), op.bodies.end(), [](Expr body) { return any_of(body, [](Expr n) { return n->kind == ExprKind::symbol; }); });
  }

  // Backwards: an op whose results only updates and the caller read.
  void find_updates() {
    std::unordered_set<const Var*> others;  // read by anything else
    std::unordered_set<const Var*> outputs(graph_.outputs.begin(), graph_.outputs.end()), read;
    for (size_t k = graph_.ops.size(); k-- > 0;) {
      const Op& op = *graph_.ops[k];
      bool update = is_movable(op);
      for (const Var* out : op.outputs) update = update && !others.count(out) && (outputs.count(out) || read.count(out));
      if (update) updates_.insert(&op);
      note_reads(op, update ? read : others);
    }
  }

  static void note_reads(const Op& op, std::unordered_set<const Var*>& read) {
    read.insert(op.inputs.begin(), op.inputs.end());
    for (const Region& region : op.regions) {
      for (const Op* inner : region.ops) note_reads(*inner, read);
      read.insert(region.results.begin(), region.results.end());
    }
  }

  // Behind which op it stands: -1 before all. Anchors of what it reads are known, as ops stand in order.
  int64_t anchor(size_t k) const {
    const Op& op = *graph_.ops[k];
    if (!is_movable(op)) return static_cast<int64_t>(k);
    int64_t behind = -1;
    for (const Var* in : op.inputs)
      if (auto made = maker_.find(in); made != maker_.end()) behind = std::max(behind, anchors_[made->second]);
    const bool scalar = std::all_of(op.outputs.begin(), op.outputs.end(), [](const Var* out) { return element_count(out->shape()).as_int() <= most_elements_of_a_scalar; });
    return updates_.count(&op) || (scalar && behind < 0) ? behind : static_cast<int64_t>(k);
  }

  Graph& graph_;
  std::vector<int64_t> anchors_;
  std::unordered_map<const Var*, size_t> maker_;
  std::unordered_set<const Op*> updates_;
};

}  // namespace

int order_updates(Graph& graph) { return Order(graph).run(); }

}  // namespace metac
