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
        for (const Var* in : item.op->inputs)
          if (in) seen_.insert(in->id);
      for (Definition& d : item.group.stages) visit_loads(d, [&](Expr n) { users_[n->id].push_back(&d); });
    }
    for (const Var* v : state.needed.in_memory) seen_.insert(v->id);
    for (const auto& [view, source] : state.region.views) seen_.insert(source->id);
  }

  void drop_tiny_ones() {
    constexpr double next_to_nothing = -60;
    for (Item& item : state_.region.items)
      for (Definition& d : item.group.stages) {
        if (d.reduce == Reduce::max && d.body->kind == ExprKind::load)
          largest_[d.out->id] = {d.body, d.kept(), along(d, d.body)};
        const std::vector<bool> summed = summed_of_weights(d);
        if (summed.empty() || !weighs_sums_alone(d.out->id, summed)) continue;
        const Expr tiny = call(Fn::lt, {d.body->args[0], float_constant(next_to_nothing, DType::f32)});
        d.body = select(tiny, float_constant(0, DType::f32), d.body);
      }
  }

 private:
  struct Largest {
    Expr score;               // of what is loaded here
    int kept = 0;             // axes from here on are those of a row
    std::vector<bool> along;  // which axes of what is loaded a row goes along
  };

  // The axes of what is loaded that a reduction goes along.
  static std::vector<bool> along(const Definition& d, Expr load) {
    std::vector<bool> found;
    for (Expr index : load->args)
      found.push_back(any_of(index, [&](Expr n) { return n->kind == ExprKind::axis && n->id >= d.kept(); }));
    return found;
  }

  // Of exp(x - the largest x of its row), or of what is chosen from that where a row has none: which axes rows go along;
  // empty: it is something else.
  std::vector<bool> summed_of_weights(const Definition& d) const {
    const Expr power = d.body, difference = power->kind == ExprKind::call ? power->args[0] : power;
    if (d.reduce || d.scatter || power->kind != ExprKind::call || power->fn != Fn::exp || power->dtype != DType::f32 ||
        difference->kind != ExprKind::call || difference->fn != Fn::sub || !is_at_own_place(d.out_index))
      return {};
    const Expr score = difference->args[0];
    std::vector<bool> found;
    visit(difference->args[1], [&](Expr n) {
      const auto known = n->kind == ExprKind::load ? largest_.find(n->id) : largest_.end();
      if (known == largest_.end() || score->kind != ExprKind::load) return;
      const Largest& largest = known->second;
      std::vector<bool> rows;
      if (score == largest.score)
        for (int k = 0; k < static_cast<int>(d.domain.size()); ++k) rows.push_back(k >= largest.kept);
      else if (score->id == largest.score->id && is_at_own_place(score->args))
        rows = largest.along;
      if (is_of_own_row(n->args, rows)) found = rows;
    });
    return found;
  }

  // The axes that rows do not go along, in order, and constants.
  static bool is_of_own_row(const std::vector<Expr>& index, const std::vector<bool>& rows) {
    std::vector<Expr> wanted, there;
    for (size_t k = 0; k < rows.size(); ++k)
      if (!rows[k]) wanted.push_back(axis(static_cast<int>(k)));
    for (Expr e : index)
      if (!e.if_int()) there.push_back(e);
    return !rows.empty() && wanted == there;
  }

  // Is it a multiple of the Var: 0 where that is 0? Of anything else (an entropy's logarithm) the weight counts, not its
  // size.
  static bool is_multiple_of(Expr e, int id) {
    return answer_once<bool>(e, [&](Expr n, const auto& of) {
      if (n->kind == ExprKind::load) return n->id == id;
      if (n->kind == ExprKind::cast) return is_float(n->dtype) && of(n->args[0]);
      if (n->kind != ExprKind::call) return false;
      const auto is_free = [&](Expr other) {
        return !any_of(other, [&](Expr m) { return m->kind == ExprKind::load && m->id == id; });
      };
      if (n->fn == Fn::mul) return (of(n->args[0]) && is_free(n->args[1])) || (of(n->args[1]) && is_free(n->args[0]));
      return n->fn == Fn::div && of(n->args[0]) && is_free(n->args[1]);
    });
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
        bool good = !d->scatter && is_multiple_of(d->body, id);
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
