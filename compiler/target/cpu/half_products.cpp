#include "compiler/target/cpu/half_products.h"

#include <algorithm>
#include <set>

#include "compiler/ir/hints.h"
#include "compiler/support/node_patterns.h"
#include "compiler/target/cpu/layouts/plan_winograd.h"
#include "compiler/target/cpu/prepared_values.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/target/cpu/word_products.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/layout_rules.h"

namespace metac {
namespace {

constexpr int halves = 2;                // of a word
constexpr int64_t fewest_products = 16;  // of an element
constexpr double fewest_reads = 80;      // of each element of data that is copied to be rounded: with 72 nothing is won

// A sum that can read words.
struct Candidate {
  Definition* sum = nullptr;
  Operand data, weights;
  int word = -1;             // axis
  std::optional<Halo> copy;  // the data is not made here: a kernel rounds it into a copy with these zeros around it

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
    for (Item& item : s_.region.items)
      if (!item.op && may_be_rounded(item.group)) item.group.strategy = std::make_shared<RowBlocks>(true);
    while (drop_what_others_read()) {
    }
    store_columns_narrow();
    if (candidates_.empty() && narrow_.empty()) return {};
    for (const Candidate& candidate : candidates_)
      if (!candidate.copy) store_narrow(candidate.data_id());
    for (Candidate& candidate : candidates_) rewrite_sum(candidate);
    for (Item& item : s_.region.items)
      for (Definition& d : item.group.stages) widen_loads(d);
    s_.region.items.insert(s_.region.items.begin(), copies_.begin(), copies_.end());
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

  // Attention whose two sums may read what is rounded.
  bool may_be_rounded(const Group& group) const {
    return dynamic_cast<const RowBlocks*>(group.strategy.get()) && s_.options.precision == DType::bf16 &&
           std::none_of(group.stages.begin(), group.stages.end(), [&](const Definition& d) { return is_kept(d); });
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
    Candidate candidate{&d, c->a, c->b, -1, {}};
    if (is_filtered_minimally(d, *c)) return std::nullopt;
    if (can_be_copied(candidate.data_id())) {
      if (reads_of_data(d, c->a) < fewest_reads) return std::nullopt;
      candidate.copy = halo_that_serves(c->a, var(candidate.data_id())->shape(), d.domain, s_.graph.symbols);
      candidate.word = candidate.copy ? word_axis_of_copy(d, c->a.load, c->b.load) : -1;
    } else if (can_be_narrow(candidate.data_id())) {
      candidate.word = word_axis(d, c->a, c->b.load);
      if (candidate.word >= 0 && d.domain[static_cast<size_t>(candidate.word)].as_int() % halves != 0) return std::nullopt;
    }
    if (candidate.word < 0) return std::nullopt;
    if (const Expr products = products_of_element(d); !products.if_int() || products.as_int() < fewest_products)
      return std::nullopt;
    for (int k : axes_used(c->b.load, 0, static_cast<int>(d.domain.size())))
      if (!d.domain[static_cast<size_t>(k)].if_int()) return std::nullopt;
    return has_lanes(d, c->a.load, c->b.load, s_.options.cpu.vector_bytes) ? std::optional(candidate) : std::nullopt;
  }

  // What the model takes.
  bool can_be_copied(int id) const {
    const Var* v = var(id);
    return s_.region.repeats.empty() && v->producer == nullptr && v->dtype() == DType::f32 && !s_.is_constant(v) &&
           !s_.region.views.count(id);
  }
  double reads_of_data(const Definition& d, const Operand& data) const {
    double products = 1, elements = 1;
    for (const Expr extent : d.domain) products *= static_cast<double>(hinted_value(extent, s_.graph.symbols));
    for (const Expr extent : var(data.load->id)->shape())
      elements *= static_cast<double>(hinted_value(extent, s_.graph.symbols));
    return products / std::max(1.0, elements);
  }

  // Minimal filtering in float32 is faster than the plain sum with two products at a time.
  bool is_filtered_minimally(const Definition& d, Contraction c) const {
    c.a.conditions.clear();  // a border is laid around the data
    for (int k : axes_used(c.b.load, 0, d.kept()))
      if (!uses_axis(c.a.load, k))
        return plan_winograd(d, c, k, s_.options.cpu, s_.graph.symbols, s_.options.winograd, true, {}, 1.0 / halves)
            .has_value();
    return false;
  }

  bool can_be_narrow(int id) const {
    const Var* v = var(id);
    if (!makers_.count(id) || v->dtype() != DType::f32 || s_.needed.in_memory.count(v) || s_.is_constant(v)) return false;
    return std::none_of(s_.region.views.begin(), s_.region.views.end(),
                        [&](const auto& view) { return view.second->id == id || view.first == id; });
  }

  // Data that a sum reads which stays as it is, or a strategy that was chosen, stay float32: so do the sums that read them.
  bool drop_what_others_read() {
    const std::set<int> wide = read_wide();
    return std::erase_if(candidates_, [&](const Candidate& candidate) {
             return !candidate.copy && wide.count(candidate.data_id()) > 0;
           }) > 0;
  }
  std::set<int> read_wide() const {
    std::set<const Definition*> sums;
    for (const Candidate& candidate : candidates_) sums.insert(candidate.sum);
    std::set<int> wide;
    for (const Item& item : s_.region.items) {
      if (item.op)
        for (const Var* in : item.op->inputs)
          if (in) wide.insert(in->id);
      for (const Definition& d : item.group.stages) {
        if (sums.count(&d)) continue;
        if (item.group.strategy)
          visit_loads(d, [&](Expr n) {
            if (n->id != columns_of(item.group)) wide.insert(n->id);
          });
        if (item.group.strategy) continue;
        for (const auto& sum : sums_of_terms(d))
          for (const Factor& factor : sum->factors)
            visit(factor.value, [&](Expr n) {
              if (n->kind == ExprKind::load) wide.insert(n->id);
            });
      }
    }
    return wide;
  }

  // What attention's first sum reads for each row anew, the keys; -1: the group is none by words, or has another use for it.
  static int columns_of(const Group& group) {
    const auto* rows = dynamic_cast<const RowBlocks*>(group.strategy.get());
    if (!rows || !rows->by_words) return -1;
    const auto first = std::ranges::find_if(group.stages, [](const Definition& d) { return d.reduce.has_value(); });
    const auto c = float_contraction_of(*first, true);
    const Expr columns = uses_axis(c->a.load, group.shared - 1) ? c->b.load : c->a.load;
    int reads = 0;
    for (const Definition& d : group.stages) visit_loads(d, [&](Expr n) { reads += n->id == columns->id; });
    return reads == 1 ? columns->id : -1;
  }
  void store_columns_narrow() {
    const std::set<int> wide = read_wide();
    for (const Item& item : s_.region.items)
      if (const int id = item.op ? -1 : columns_of(item.group); id >= 0 && can_be_narrow(id) && !wide.count(id))
        store_narrow(id);
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

  // The axis of words of data that is copied as it lies: the one that leaves least of the last word empty, of these the one
  // that runs along the innermost index.
  static int word_axis_of_copy(const Definition& d, Expr data, Expr weights) {
    int best = -1;
    double most_filled = 0;
    for (size_t index = data->args.size(); index-- > 0;)
      for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
        const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
        const Expr step = stride_of(data->args[index], k);
        const auto uses = [&](Expr e) { return uses_axis(e, k); };
        if (!extent || *extent < halves || !step || !step.is_int(1) || std::ranges::count_if(data->args, uses) != 1 ||
            std::ranges::count_if(weights->args, uses) != 1 || std::ranges::count(weights->args, axis(k)) != 1)
          continue;
        const double filled = static_cast<double>(*extent) / static_cast<double>(halves * words_of(*extent));
        if (filled > most_filled) most_filled = filled, best = k;
      }
    return best;
  }
  static int64_t words_of(int64_t products) { return (products + halves - 1) / halves; }

  // The data rounded, with zeros around it, and one more behind an odd number along the axis of words.
  Var* rounded_copy(Candidate& c) {
    const Var* from = var(c.data_id());
    const bool odd = c.sum->domain[static_cast<size_t>(c.word)].as_int() % halves != 0;
    Definition p;
    std::vector<Expr> at, args;
    Expr inside = bool_constant(true);
    for (int k = 0; k < from->rank(); ++k) {
      const auto i = static_cast<size_t>(k);
      const Expr extent = from->shape()[i], before = c.copy->before[i];
      const int64_t after = c.copy->after[i] + (odd && uses_axis(c.data.load->args[i], c.word) ? 1 : 0);
      p.domain.push_back(before + extent + Expr(after));
      at.push_back(axis(k) - before);
      args.push_back(c.data.load->args[i] + before);
      if (!before.is_int(0)) inside = logical_and(inside, Expr(0) <= at.back());
      if (after != 0) inside = logical_and(inside, at.back() < extent);
    }
    p.out_index = identity_indices(from->rank());
    const Expr value = load(from->id, DType::f32, at);
    p.body = cast(inside.is_int(1) ? value : select(inside, value, float_constant(0, DType::f32)), DType::bf16);
    c.data.load = load(c.data_id(), DType::f32, args);
    c.data.conditions.clear();
    simplify(p, s_.graph.symbols);
    for (const Item& made : copies_)
      if (const Definition& same = made.group.stages[0]; same.body == p.body && same.domain == p.domain) return same.out;
    p.out = s_.graph.make_var(Type{TypeKind::tensor, DType::bf16, p.domain});
    p.nodes = c.sum->nodes;
    Var* out = p.out;
    copies_.push_back(item_of(std::move(p)));
    return out;
  }

  void rewrite_sum(Candidate& c) {
    Definition& d = *c.sum;
    std::vector<Expr> by_words = identity_indices(static_cast<int>(d.domain.size()));
    by_words[static_cast<size_t>(c.word)] = axis(c.word) * Expr(halves);
    const auto load_words = [&](const Var* stored, const std::vector<Expr>& args) {
      return substitute_axes(load(stored->id, DType::i32, args), by_words);
    };
    Var* const narrow = c.copy ? rounded_copy(c) : narrow_.at(c.data_id());
    Expr data = load_words(narrow, c.data.load->args);
    for (Expr condition : c.data.conditions) data = select(condition, data, int_constant(0, DType::i32));
    const auto [weights, at] = rounded(d, c);
    d.products = products_of_element(d);
    d.body = call(Fn::dot_bf16, {data, load_words(weights, at)});
    Expr& extent = d.domain[static_cast<size_t>(c.word)];
    extent = words_of(extent.as_int());
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
    Expr value = substitute_axes(c.weights.load, from);
    if (Expr& last = p.domain.back(); last.as_int() % halves != 0) {
      value = select(axis(static_cast<int>(p.domain.size()) - 1) < last, value, float_constant(0, DType::f32));
      last = last.as_int() + 1;
    }
    p.body = cast(value, DType::bf16);
    p.nodes = d.nodes;
    made_.push_back(add_to_prepare(s_, std::move(p), DType::bf16));
    return {made_.back(), at};
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
  std::vector<Item> copies_;  // kernels that round what the model takes
};

}  // namespace

std::vector<Var*> half_products(RegionState& state) {
  return state.options.cpu.bf16_products ? HalfProducts(state).run() : std::vector<Var*>();
}

}  // namespace metac
