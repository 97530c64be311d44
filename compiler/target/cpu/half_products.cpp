#include "compiler/target/cpu/half_products.h"

#include <algorithm>
#include <set>

#include "compiler/support/node_patterns.h"
#include "compiler/target/cpu/word_products.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

constexpr int halves = 2;                // of a word
constexpr int64_t fewest_products = 16;  // along the axis of words

// A sum that can read words.
struct Candidate {
  Definition* sum = nullptr;
  Operand data, weights;
  int word = -1;  // axis

  int data_id() const { return data.load->id; }
};

class HalfProducts {
 public:
  explicit HalfProducts(RegionState& s) : s_(s), keep_(s.options.keep) {
    for (const Op* op : s.graph.ops) origins_[op->origin.node] = &op->origin;
  }

  std::vector<Var*> run() {
    // Strategies that were chosen before lower the last stage's value whatever it is.
    for (Item& item : s_.region.items)
      for (Definition& stage : item.group.stages)
        if (!item.op && (!item.group.strategy || &stage == &item.group.stages.back()) &&
            !item.group.internal.count(stage.out->id) && !stage.scatter)
          makers_[stage.out->id] = &stage;
    for (Item& item : s_.prepare.items)
      for (Definition& stage : item.group.stages) prepared_[stage.out->id] = &stage;
    for (Item& item : s_.region.items)
      if (!item.op && !item.group.strategy && item.group.stages.size() == 1)
        if (auto candidate = candidate_of(item.group.stages[0])) candidates_.push_back(*candidate);
    while (drop_what_others_read()) {
    }
    if (candidates_.empty()) return {};
    for (const Candidate& candidate : candidates_) store_narrow(candidate.data_id());
    for (Candidate& candidate : candidates_) rewrite_sum(candidate);
    for (Item& item : s_.region.items)
      for (Definition& d : item.group.stages) widen_loads(d);
    return std::move(made_);
  }

 private:
  Var* var(int id) const { return s_.graph.vars()[static_cast<size_t>(id)].get(); }
  bool is_constant(const Operand& o) const { return s_.is_constant(var(o.load->id)); }

  // Bfloat16 that was widened: nothing is lost where it is stored so.
  bool is_half(int id) const {
    for (const auto* makers : {&makers_, &prepared_})
      if (const auto maker = makers->find(id); maker != makers->end()) {
        const Expr value = final_value(*maker->second);
        return value->kind == ExprKind::cast && value->args[0]->dtype == DType::bf16;
      }
    return false;
  }
  bool may_be_rounded(const Definition& d, const Contraction& c) const {
    if (is_half(c.a.load->id) && is_half(c.b.load->id)) return true;
    return s_.options.precision == DType::bf16 && !is_kept(d);
  }

  bool is_kept(const Definition& d) const {
    return std::any_of(d.nodes.begin(), d.nodes.end(), [&](int node) {
      const auto origin = origins_.find(node);
      return origin != origins_.end() && keep_.match(origin->second->name, origin->second->op_type);
    });
  }

  std::optional<Candidate> candidate_of(Definition& d) const {
    auto c = float_contraction_of(d);
    if (!c || c->product != Fn::mul || !may_be_rounded(d, *c)) return std::nullopt;
    if (is_constant(c->a)) std::swap(c->a, c->b);
    if (is_constant(c->a) || !is_constant(c->b) || !c->b.conditions.empty()) return std::nullopt;
    Candidate candidate{&d, c->a, c->b, word_axis(d, c->a, c->b.load)};
    if (candidate.word < 0 || !can_be_narrow(candidate.data_id()) || is_filtered_minimally(d, s_.options.winograd))
      return std::nullopt;
    const int64_t extent = d.domain[static_cast<size_t>(candidate.word)].as_int();
    if (extent < fewest_products || extent % halves != 0) return std::nullopt;
    for (int k : axes_used(c->b.load, 0, static_cast<int>(d.domain.size())))
      if (!d.domain[static_cast<size_t>(k)].if_int()) return std::nullopt;
    return has_lanes(d, c->a.load, c->b.load, s_.options.cpu.vector_bytes) ? std::optional(candidate) : std::nullopt;
  }

  bool can_be_narrow(int id) const {
    const Var* v = var(id);
    if (!makers_.count(id) || v->dtype() != DType::f32 || s_.needed.in_memory.count(v) || s_.is_constant(v)) return false;
    return std::none_of(s_.region.views.begin(), s_.region.views.end(),
                        [&](const auto& view) { return view.second->id == id || view.first == id; });
  }

  // Data that a sum reads which stays as it is, or a strategy that was chosen, stay float32: so do the sums that read them.
  bool drop_what_others_read() {
    std::set<const Definition*> sums;
    for (const Candidate& candidate : candidates_) sums.insert(candidate.sum);
    std::set<int> wide;
    for (const Item& item : s_.region.items) {
      if (item.op)
        for (const Var* in : item.op->inputs)
          if (in) wide.insert(in->id);
      for (const Definition& d : item.group.stages) {
        if (sums.count(&d)) continue;
        if (item.group.strategy) visit_loads(d, [&](Expr n) { wide.insert(n->id); });
        for (const auto& sum : sums_of_terms(d))
          for (const Factor& factor : sum->factors)
            visit(factor.value, [&](Expr n) {
              if (n->kind == ExprKind::load) wide.insert(n->id);
            });
      }
    }
    return std::erase_if(candidates_, [&](const Candidate& candidate) { return wide.count(candidate.data_id()) > 0; }) > 0;
  }
  void store_narrow(int id) {
    if (narrow_.count(id)) return;
    Definition& maker = *makers_.at(id);
    Type type = maker.out->type;
    type.dtype = DType::bf16;
    Expr& value = final_value(maker);
    value = cast(value, DType::bf16);
    narrow_[id] = maker.out = s_.graph.make_var(type);
  }

  void rewrite_sum(Candidate& c) {
    Definition& d = *c.sum;
    std::vector<Expr> by_words = identity_indices(static_cast<int>(d.domain.size()));
    by_words[static_cast<size_t>(c.word)] = axis(c.word) * Expr(halves);
    const auto words_of = [&](const Var* stored, const std::vector<Expr>& args) {
      return substitute_axes(load(stored->id, DType::i32, args), by_words);
    };
    Expr data = words_of(narrow_.at(c.data_id()), c.data.load->args);
    for (Expr condition : c.data.conditions) data = select(condition, data, int_constant(0, DType::i32));
    const auto [weights, at] = rounded(d, c);
    d.products = products_of_element(d);
    d.body = call(Fn::dot_bf16, {data, words_of(weights, at)});
    Expr& extent = d.domain[static_cast<size_t>(c.word)];
    extent = extent.as_int() / halves;
    move_axis_last(d, c.word);
    simplify(d, s_.graph.symbols);
  }

  // The weights in bfloat16, neighbours along the axis of words side by side, and the indices where the sum reads them.
  std::pair<Var*, std::vector<Expr>> rounded(const Definition& d, const Candidate& c) {
    std::vector<int> axes = axes_used(c.weights.load, 0, static_cast<int>(d.domain.size()));
    axes.erase(std::find(axes.begin(), axes.end(), c.word));
    axes.push_back(c.word);
    Definition p;
    std::vector<Expr> from = identity_indices(static_cast<int>(d.domain.size())), at;
    for (int k : axes) {
      from[static_cast<size_t>(k)] = axis(static_cast<int>(p.domain.size()));
      p.domain.push_back(d.domain[static_cast<size_t>(k)]);
      at.push_back(axis(k));
    }
    p.body = cast(substitute_axes(c.weights.load, from), DType::bf16);
    p.out_index = identity_indices(static_cast<int>(p.domain.size()));
    p.out = s_.graph.make_var(Type{TypeKind::tensor, DType::bf16, p.domain});
    p.nodes = d.nodes;
    simplify(p, s_.graph.symbols);
    Var* out = p.out;
    Item item;
    item.group.stages = {std::move(p)};
    s_.prepare.items.push_back(std::move(item));
    made_.push_back(out);
    return {out, at};
  }

  void widen_loads(Definition& d) {
    bool any = false;
    for (const auto& [id, stored] : narrow_)
      replace_loads(d, id, [&, narrow = stored](const std::vector<Expr>& at) {
        any = true;
        return cast(load(narrow->id, DType::bf16, at), DType::f32);
      });
    if (any) simplify(d, s_.graph.symbols);
  }

  RegionState& s_;
  const NodePatterns keep_;
  std::map<int, const Origin*> origins_;  // by model node
  std::map<int, Definition*> makers_;     // Var id -> the definition that stores it
  std::map<int, Definition*> prepared_;   // the same of `prepare`
  std::vector<Candidate> candidates_;
  std::map<int, Var*> narrow_;  // by the id of what was stored before
  std::vector<Var*> made_;
};

}  // namespace

std::vector<Var*> half_products(RegionState& state) {
  return state.options.cpu.bf16_products ? HalfProducts(state).run() : std::vector<Var*>();
}

}  // namespace metac
