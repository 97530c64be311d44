#include "compiler/target/cpu/softmax_weights.h"

#include <map>
#include <set>

#include "compiler/ir/walks.h"

namespace metac {
namespace {

// Is it element i of something else for each element i?
bool is_at_own_place(const std::vector<Expr>& index) {
  for (size_t k = 0; k < index.size(); ++k)
    if (index[k] != axis(static_cast<int>(k))) return false;
  return true;
}

class SoftmaxWeights {
 public:
  explicit SoftmaxWeights(RegionState& state) : state_(state) {
    for (Item& item : state.region.items) {
      if (item.op)
        for (const Var* in : item.op->inputs) seen_.insert(in->id);
      for (Definition& d : item.group.stages) visit_loads(d, [&](Expr n) { users_[n->id].push_back(&d); });
    }
    for (const Var* v : state.needed.in_memory) seen_.insert(v->id);
    for (const auto& [view, source] : state.region.views) seen_.insert(source->id);
  }

  void drop_tiny_ones() {
    constexpr double next_to_nothing = -60;
    for (Item& item : state_.region.items)
      for (Definition& d : item.group.stages) {
        if (d.reduce == Reduce::max && d.body->kind == ExprKind::load) largest_[d.out->id] = {d.body->id, along(d, d.body)};
        const std::vector<bool>* const summed = summed_of_weights(d);
        if (!summed || !weighs_sums_alone(d.out->id, *summed)) continue;
        const Expr tiny = call(Fn::lt, {d.body->args[0], float_constant(next_to_nothing, DType::f32)});
        d.body = select(tiny, float_constant(0, DType::f32), d.body);
      }
  }

 private:
  struct Largest {
    int score = -1;           // of which Var
    std::vector<bool> along;  // which of its axes
  };

  // The axes of what is loaded that a reduction goes along.
  static std::vector<bool> along(const Definition& d, Expr load) {
    std::vector<bool> found;
    for (Expr index : load->args)
      found.push_back(any_of(index, [&](Expr n) { return n->kind == ExprKind::axis && n->id >= d.kept(); }));
    return found;
  }

  // Of exp(x - largest x), or of what is chosen from that where a row has none: along which axes; null: it is no such.
  const std::vector<bool>* summed_of_weights(const Definition& d) const {
    const Expr power = d.body, difference = power->kind == ExprKind::call ? power->args[0] : power;
    if (d.reduce || d.scatter || power->kind != ExprKind::call || power->fn != Fn::exp || power->dtype != DType::f32 ||
        difference->kind != ExprKind::call || difference->fn != Fn::sub || !is_at_own_place(d.out_index))
      return nullptr;
    const Expr score = difference->args[0];
    if (score->kind != ExprKind::load || !is_at_own_place(score->args)) return nullptr;
    const std::vector<bool>* found = nullptr;
    visit(difference->args[1], [&](Expr n) {
      const auto largest = n->kind == ExprKind::load ? largest_.find(n->id) : largest_.end();
      if (largest != largest_.end() && largest->second.score == score->id) found = &largest->second.along;
    });
    return found;
  }

  // Is all that is made of the Var sums along the axes of which the largest weight is 1, divided or not before?
  bool weighs_sums_alone(int weights, const std::vector<bool>& summed) const {
    std::vector<int> left = {weights};
    while (!left.empty()) {
      const int id = left.back();
      left.pop_back();
      const auto users = users_.find(id);
      if (seen_.count(id) > 0 || users == users_.end()) return false;
      for (const Definition* d : users->second) {
        bool good = !d->scatter;
        visit_loads(*d, [&](Expr n) {
          if (n->id == id) good = good && (d->reduce ? along(*d, n) == summed : is_at_own_place(n->args));
        });
        if (!good || (d->reduce ? d->reduce != Reduce::add : !is_at_own_place(d->out_index))) return false;
        if (!d->reduce) left.push_back(d->out->id);
      }
    }
    return true;
  }

  RegionState& state_;
  std::map<int, std::vector<const Definition*>> users_;  // by Var
  std::set<int> seen_;                                   // by others than kernels
  std::map<int, Largest> largest_;
};

}  // namespace

void drop_tiny_weights(RegionState& state) { SoftmaxWeights(state).drop_tiny_ones(); }

}  // namespace metac
