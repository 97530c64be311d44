#include "compiler/target/cpu/strategies/keys_in_sight.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/ir/walks.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

bool is_call(Expr e, Fn fn) { return e->kind == ExprKind::call && e->fn == fn; }
bool is_minus_infinity(Expr e) {
  return e->kind == ExprKind::float_constant && std::isinf(e->float_value) && e->float_value < 0;
}

std::vector<Expr> all_of(Expr condition) {
  std::vector<Expr> found;
  conjuncts(condition, found);
  return found;
}

// What a value is at keys that are not seen.
enum class Unseen { anything, minus_infinity, zero };

class Finder {
 public:
  explicit Finder(const Group& group) : group_(group) {}

  std::optional<KeysInSight> find() {
    if (!name_keys() || !find_limits()) return std::nullopt;
    for (size_t k = 0; k < group_.stages.size(); ++k)
      if (!passes(k)) return std::nullopt;
    return std::move(found_);
  }

 private:
  // Every stage reads what has keys along one axis of its own.
  bool name_keys() {
    const auto scores =
        std::find_if(group_.stages.begin(), group_.stages.end(), [](const Definition& d) { return bool(d.reduce); });
    if (scores == group_.stages.end() || scores->kept() != group_.shared + 1) return false;
    found_.keys = scores->domain[static_cast<size_t>(group_.shared)];
    for (const Definition& d : group_.stages) {
      int key = &d == &*scores ? group_.shared : -1;
      bool plain = true;
      visit_loads(d, [&](Expr read) {
        const auto place = place_of_key_.find(read->id);
        if (place == place_of_key_.end()) return;
        const Expr at = read->args[place->second];
        plain = plain && at->kind == ExprKind::axis && at->id >= group_.shared && (key < 0 || key == at->id);
        if (plain) key = at->id;
      });
      if (!plain || (key >= 0 && d.domain[static_cast<size_t>(key)] != found_.keys)) return false;
      found_.key_axis.push_back(key);
      if (key < 0 || key >= d.kept()) continue;
      size_t places = 0;
      for (size_t k = 0; k < d.out_index.size(); ++k)
        if (uses_axis(d.out_index[k], key)) place_of_key_[d.out->id] = k, ++places;
      if (places != 1 || d.out_index[place_of_key_[d.out->id]] != axis(key) || !group_.internal.count(d.out->id))
        return false;
    }
    return true;
  }

  // The key up to which `condition` may hold, where it says so and rows see no less than those before them.
  Expr limit_of(Expr condition, int key) const {
    if (!is_call(condition, Fn::le) && !is_call(condition, Fn::lt)) return {};
    if (condition->args[0]->dtype != DType::i64) return {};  // no position
    const Expr less(is_call(condition, Fn::lt) ? 1 : 0);
    Expr limit;
    if (condition->args[0] == axis(key)) {
      limit = condition->args[1] - less;
    } else {
      const Expr room = condition->args[1] - condition->args[0], step = stride_of(room, key);
      if (!step || !step.is_int(-1)) return {};
      limit = rewrite(room, [&](Expr n) { return n == axis(key) ? Expr(0) : Expr(); }) - less;
    }
    if (uses_axis(limit, key)) return {};
    const Expr by_row = stride_of(limit, group_.shared - 1);
    const auto inner = axes_used(limit, group_.shared, key_end);
    return bool(by_row) && by_row.if_int() && by_row.as_int() >= 0 && inner.empty() ? limit : Expr();
  }

  bool find_limits() {
    for (size_t k = 0; k < group_.stages.size() && found_.limits.empty(); ++k) {
      const Definition& d = group_.stages[k];
      const int key = found_.key_axis[k];
      if (key < 0 || key >= d.kept()) continue;
      const Expr value = d.reduce ? d.epilogue : d.body;
      visit(value, [&](Expr n) {
        if (!found_.limits.empty() || !is_call(n, Fn::select) || !is_minus_infinity(n->args[2])) return;
        const std::vector<Expr> conditions = all_of(n->args[0]);
        for (Expr c : conditions)
          if (const Expr limit = limit_of(c, key)) {
            found_.limits.push_back(limit);
            masks_.push_back(c);
          }
        found_.masked = static_cast<int>(k);
        found_.only_masked = n == value && conditions.size() == masks_.size() && n->args[1]->kind == ExprKind::load &&
                             d.reduce.has_value() == (n->args[1]->id == reduced_value);
      });
    }
    return !found_.limits.empty();
  }

  // What `e` is at a key that is not seen.
  Unseen unseen(Expr e) const {
    return answer_once<Unseen>(e, [&](Expr n, const auto& of) {
      if (is_minus_infinity(n)) return Unseen::minus_infinity;
      if (n->kind == ExprKind::float_constant && n->float_value == 0) return Unseen::zero;
      if (n->kind == ExprKind::load) {
        const auto known = values_.find(n->id);
        return known == values_.end() ? Unseen::anything : known->second;
      }
      if (n->kind == ExprKind::cast) return is_float(n->dtype) ? of(n->args[0]) : Unseen::anything;
      if (n->kind != ExprKind::call) return Unseen::anything;
      if (n->fn == Fn::select) {
        const std::vector<Expr> all = all_of(n->args[0]);
        const Unseen otherwise = of(n->args[2]);
        // Not seen is what is behind any of the limits.
        const bool masks = std::all_of(masks_.begin(), masks_.end(),
                                       [&](Expr c) { return std::find(all.begin(), all.end(), c) != all.end(); });
        return masks || of(n->args[1]) == otherwise ? otherwise : Unseen::anything;
      }
      const Unseen first = of(n->args[0]);
      if (n->fn == Fn::exp && first == Unseen::minus_infinity) return Unseen::zero;
      if (n->fn == Fn::sub && first == Unseen::minus_infinity) return Unseen::minus_infinity;
      if (n->fn == Fn::div && first == Unseen::zero) return Unseen::zero;
      if (n->fn == Fn::mul && (first == Unseen::zero || of(n->args[1]) == Unseen::zero)) return Unseen::zero;
      return Unseen::anything;
    });
  }

  // Nothing becomes of keys that are not seen, be they summed or kept by the stage.
  bool passes(size_t k) {
    const Definition& d = group_.stages[k];
    const int key = found_.key_axis[k];
    if (key < 0) return true;
    if (key < d.kept()) {
      values_[d.out->id] = unseen(d.reduce ? d.epilogue : d.body);
      return true;
    }
    const Unseen summed = unseen(d.body);
    return (d.reduce == Reduce::max && summed == Unseen::minus_infinity) ||
           (d.reduce == Reduce::add && summed == Unseen::zero);
  }

  static constexpr int key_end = 1 << 30;
  const Group& group_;
  KeysInSight found_;
  std::vector<Expr> masks_;             // the conditions that say so
  std::map<int, size_t> place_of_key_;  // by Var: which of its axes
  std::map<int, Unseen> values_;
};

}  // namespace

std::optional<KeysInSight> keys_in_sight(const Group& group) { return Finder(group).find(); }

}  // namespace metac
