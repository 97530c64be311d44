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

// How an operand comes to be words.
enum class Words {
  prepared,  // it depends on parameters alone, and is rounded once
  stored,    // whoever makes it stores it rounded
  copied,    // a kernel rounds it into a copy, with zeros around it
  paired,    // a kernel rounds two neighbours along one of its axes into each int32 of a copy
};

struct Side {
  Operand operand;
  Words words = Words::prepared;
  Halo halo = {};  // of a copy: the zeros around it

  int id() const { return operand.load->id; }
};

// A sum that can read words.
struct Candidate {
  Definition* sum = nullptr;
  Side data, other;
  int word = -1;  // axis
};

class HalfProducts {
 public:
  explicit HalfProducts(RegionState& s) : s_(s), keep_(s.options.keep) {
    for (const Op* op : s.graph.ops) origins_[op->origin.node] = &op->origin;
  }

  std::vector<Var*> run() {
    // Strategies that were chosen before lower the last stage's value whatever it is.
    for (size_t i = 0; i < s_.region.items.size(); ++i)
      for (const Definition& stage : s_.region.items[i].group.stages) made_at_[stage.out->id] = i;
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
      for (const Side* side : {&candidate.data, &candidate.other})
        if (side->words == Words::stored) store_narrow(side->id());
    for (Candidate& candidate : candidates_) rewrite_sum(candidate);
    insert_copies();
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
    if (is_constant(c->a) != is_constant(c->b)) {
      bring_out_axes(d, s_.graph.symbols);
      c = float_contraction_of(d);
      if (!c) return std::nullopt;
    }
    if (is_constant(c->a)) std::swap(c->a, c->b);
    if (is_constant(c->b) && repeats_residues(d, c->b.load)) return std::nullopt;
    if (is_constant(c->a) || is_filtered_minimally(d, *c)) return std::nullopt;
    if (const Expr products = products_of_element(d); !products.if_int() || products.as_int() < fewest_products)
      return std::nullopt;
    for (int k : axes_used(c->b.load, 0, static_cast<int>(d.domain.size())))
      if (!d.domain[static_cast<size_t>(k)].if_int()) return std::nullopt;
    std::optional<Candidate> candidate = is_constant(c->b) ? by_parameters(d, *c) : by_data(d, *c);
    return candidate &&
                   has_lanes(d, candidate->data.operand.load, candidate->other.operand.load, s_.options.cpu.vector_bytes)
               ? candidate
               : std::nullopt;
  }

  std::optional<Candidate> by_parameters(Definition& d, const Contraction& c) const {
    if (!c.b.conditions.empty()) return std::nullopt;
    Candidate candidate{&d, {c.a, Words::stored}, {c.b, Words::prepared}, -1};
    if (is_input(candidate.data.id())) return by_copy(candidate, c);
    if (can_be_narrow(candidate.data.id())) {
      candidate.word = word_axis(d, c.a, c.b.load);
      if (candidate.word >= 0 && !is_even(d, candidate.word)) return by_copy(candidate, c);
    } else if (s_.region.repeats.empty() && s_.needed.in_memory.count(var(candidate.data.id()))) {
      // An output of the model stays float32, whoever else reads it.
      candidate.data.words = Words::paired;
      candidate.word = word_axis(d, c.a, c.b.load);
      if (candidate.word >= 0 && !can_be_paired(d, c.a, candidate.word)) return std::nullopt;
    }
    return candidate.word >= 0 ? std::optional(candidate) : std::nullopt;
  }

  // Of data that cannot be stored in words where it is made: a model's input, and what has an odd number of elements along
  // the axis of words.
  std::optional<Candidate> by_copy(Candidate candidate, const Contraction& c) const {
    const Definition& d = *candidate.sum;
    if (!s_.region.repeats.empty() || !is_read_often(d, c.a)) return std::nullopt;
    const auto halo = halo_that_serves(c.a, var(candidate.data.id())->shape(), d.domain, s_.graph.symbols);
    if (!halo) return std::nullopt;
    candidate.data = {c.a, Words::copied, *halo};
    candidate.word = word_axis_of_copy(d, c.a.load, c.b.load);
    return candidate.word >= 0 ? std::optional(candidate) : std::nullopt;
  }

  // Neither operand is known when the model is compiled: training. What a parameter is multiplied with is stored in words by
  // its maker, along its channels; parameters are paired, and both operands of their derivatives, which are summed over the
  // batch.
  std::optional<Candidate> by_data(Definition& d, Contraction c) const {
    if (!s_.region.repeats.empty()) return std::nullopt;
    hand_over_borders(c.a, c.b);
    hand_over_borders(c.b, c.a);
    std::optional<Candidate> best;
    for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k)
      for (const auto& [data, other] : {std::pair(c.a, c.b), std::pair(c.b, c.a)}) {
        if (!can_be_paired(d, other, k)) continue;
        const Candidate candidate{&d, {data, Words::stored}, {other, Words::paired}, k};
        if (is_input(other.load->id) && can_be_narrow(data.load->id) && !uses_axis(data.load->args[0], k) &&
            lies_along(data, k))
          return candidate;
        if (best || !can_be_paired(d, data, k)) continue;
        best = candidate;
        best->data.words = Words::paired;
      }
    return best;
  }

  // Conditions that bound an index of `to` are its own: axes that are divided in them, by the strides of a convolution's
  // derivative, are taken apart later (region/split_residues.h). Those that bound one of both stay with both.
  static void hand_over_borders(Operand& from, Operand& to) {
    std::erase_if(from.conditions, [&](Expr condition) {
      if (!bounds_index(to.load, condition)) return false;
      if (std::ranges::count(to.conditions, condition) == 0) to.conditions.push_back(condition);
      return !bounds_index(from.load, condition);
    });
  }

  static bool is_even(const Definition& d, int k) {
    const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
    return extent && *extent % halves == 0;
  }
  // One of its axes is axis k of the sum.
  static bool lies_along(const Operand& o, int k) {
    const auto uses = [&](Expr e) { return uses_axis(e, k); };
    return std::ranges::count_if(o.load->args, uses) == 1 && std::ranges::count(o.load->args, axis(k)) == 1 &&
           std::ranges::none_of(o.conditions, uses);
  }
  bool can_be_paired(const Definition& d, const Operand& o, int k) const {
    const int id = o.load->id;
    return is_even(d, k) && lies_along(o, k) && var(id)->dtype() == DType::f32 && (is_input(id) || makers_.count(id) > 0) &&
           is_read_often(d, o);
  }

  // What the model takes.
  bool is_input(int id) const {
    const Var* v = var(id);
    return v->producer == nullptr && v->dtype() == DType::f32 && !s_.is_constant(v) && !s_.region.views.count(id);
  }
  bool is_read_often(const Definition& d, const Operand& data) const { return reads_of_data(d, data) >= fewest_reads; }
  double reads_of_data(const Definition& d, const Operand& data) const {
    double products = 1, elements = 1;
    for (const Expr extent : d.domain) products *= static_cast<double>(hinted_value(extent, s_.graph.symbols));
    for (const Expr extent : var(data.load->id)->shape())
      elements *= static_cast<double>(hinted_value(extent, s_.graph.symbols));
    return products / std::max(1.0, elements);
  }

  // What a plain sum takes of float32's time.
  double time_of_sums() const {
    constexpr double in_tile_registers = 1.0 / 8;  // a sixteenth where operands come from the first-level cache
    return s_.options.cpu.matrix_products ? in_tile_registers : 1.0 / halves;
  }
  // Minimal filtering in float32 is faster than the plain sum with two products at a time.
  bool is_filtered_minimally(const Definition& d, Contraction c) const {
    for (int turn = 0; turn < 2; ++turn, std::swap(c.a, c.b)) {
      Contraction bordered = c;
      bordered.a.conditions.clear();  // a border is laid around the data
      for (int k : axes_used(c.b.load, 0, d.kept()))
        if (!uses_axis(c.a.load, k)) {
          if (plan_winograd(d, bordered, k, s_.options.cpu, s_.graph.symbols, s_.options.winograd, true, {}, time_of_sums()))
            return true;
          break;
        }
      if (is_constant(c.b)) break;
    }
    return false;
  }

  bool can_be_narrow(int id) const {
    const Var* v = var(id);
    if (!makers_.count(id) || v->dtype() != DType::f32 || s_.needed.in_memory.count(v) || s_.is_constant(v)) return false;
    return std::none_of(s_.region.views.begin(), s_.region.views.end(),
                        [&](const auto& view) { return view.second->id == id || view.first == id; });
  }

  // Data that a sum reads which stays as it is, or a strategy that was chosen, stay float32: so do the sums that read them.
  // Pairs are made of whatever is stored.
  bool drop_what_others_read() {
    const std::set<int> wide = read_wide();
    return std::erase_if(candidates_, [&](Candidate& candidate) {
             Side& data = candidate.data;
             if (data.words != Words::stored || !wide.count(data.id())) return false;
             if (candidate.other.words == Words::prepared) return true;
             data.words = Words::paired;
             return !can_be_paired(*candidate.sum, data.operand, candidate.word);
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
  Var* rounded_copy(const Definition& sum, Side& side, int word) {
    const Var* from = var(side.id());
    Expr& read = side.operand.load;
    const bool odd = !is_even(sum, word);
    Definition p;
    std::vector<Expr> at, args;
    Expr inside = bool_constant(true);
    for (int k = 0; k < from->rank(); ++k) {
      const auto i = static_cast<size_t>(k);
      const Expr extent = from->shape()[i], before = side.halo.before[i];
      const int64_t after = side.halo.after[i] + (odd && uses_axis(read->args[i], word) ? 1 : 0);
      p.domain.push_back(before + extent + Expr(after));
      at.push_back(axis(k) - before);
      args.push_back(read->args[i] + before);
      if (!before.is_int(0)) inside = logical_and(inside, Expr(0) <= at.back());
      if (after != 0) inside = logical_and(inside, at.back() < extent);
    }
    const Expr value = load(from->id, DType::f32, at);
    p.body = cast(inside.is_int(1) ? value : select(inside, value, float_constant(0, DType::f32)), DType::bf16);
    read = load(side.id(), DType::f32, args);
    side.operand.conditions.clear();
    return copied(from->id, std::move(p), sum);
  }

  // Words of neighbours along the operand's axis that is the axis of words, each at half the index of its elements.
  Var* pairs_of(const Definition& sum, const Side& side, int word) {
    const Var* from = var(side.id());
    const auto& read = side.operand.load->args;
    const auto own = static_cast<size_t>(std::ranges::find(read, axis(word)) - read.begin());
    Definition p;
    p.domain = from->shape();
    p.domain[own] = ceil_div(p.domain[own], halves);
    std::vector<Expr> at = identity_indices(from->rank());
    const auto element = [&](int64_t of_word) {
      at[own] = axis(static_cast<int>(own)) * Expr(halves) + Expr(of_word);
      const Expr value = load(from->id, DType::f32, at), zero = float_constant(0, DType::f32);
      const bool exists = of_word == 0 || floor_mod(from->shape()[own], halves).is_int(0);
      return exists ? value : select(at[own] < from->shape()[own], value, zero);
    };
    p.body = call(Fn::bf16_word, {element(0), element(1)});
    return copied(from->id, std::move(p), sum);
  }

  // The Var that a kernel makes of Var `of`: one for all sums that want the same.
  Var* copied(int of, Definition p, const Definition& sum) {
    p.out_index = identity_indices(static_cast<int>(p.domain.size()));
    simplify(p, s_.graph.symbols);
    for (const Copy& made : copies_)
      if (const Definition& same = made.item.group.stages[0]; same.body == p.body && same.domain == p.domain)
        return same.out;
    p.out = s_.graph.make_var(Type{TypeKind::tensor, p.body->dtype, p.domain});
    p.nodes = sum.nodes;
    Var* const out = p.out;
    copies_.push_back({of, item_of(std::move(p))});
    return out;
  }

  // Each behind what makes what it copies, those of the model's inputs first.
  void insert_copies() {
    if (copies_.empty()) return;
    std::vector<Item> items;
    for (const Copy& copy : copies_)
      if (!made_at_.count(copy.of)) items.push_back(copy.item);
    for (size_t i = 0; i < s_.region.items.size(); ++i) {
      items.push_back(std::move(s_.region.items[i]));
      for (const Copy& copy : copies_)
        if (const auto at = made_at_.find(copy.of); at != made_at_.end() && at->second == i) items.push_back(copy.item);
    }
    s_.region.items = std::move(items);
  }

  // The words of an operand where the sum reads them.
  Expr words_of_side(Definition& d, Side& side, int word) {
    std::vector<Expr> by_words = identity_indices(static_cast<int>(d.domain.size()));
    by_words[static_cast<size_t>(word)] = axis(word) * Expr(halves);
    if (side.words == Words::prepared) {
      const auto [stored, at] = rounded(d, side.operand.load, word);
      return substitute_axes(load(stored->id, DType::i32, at), by_words);
    }
    if (side.words == Words::paired) {
      const Var* const pairs = pairs_of(d, side, word);
      return with_conditions(load(pairs->id, DType::i32, side.operand.load->args), side.operand);
    }
    const Var* const stored = side.words == Words::copied ? rounded_copy(d, side, word) : narrow_.at(side.id());
    const Expr words = load(stored->id, DType::i32, side.operand.load->args);
    return with_conditions(substitute_axes(words, by_words), side.operand);
  }
  static Expr with_conditions(Expr words, const Operand& operand) {
    for (Expr condition : operand.conditions) words = select(condition, words, int_constant(0, DType::i32));
    return words;
  }

  void rewrite_sum(Candidate& c) {
    Definition& d = *c.sum;
    const Expr data = words_of_side(d, c.data, c.word), other = words_of_side(d, c.other, c.word);
    d.products = products_of_element(d);
    d.body = call(Fn::dot_bf16, {data, other});
    Expr& extent = d.domain[static_cast<size_t>(c.word)];
    extent = words_of(extent.as_int());
    move_axis_last(d, c.word);
    simplify(d, s_.graph.symbols);
  }

  // The weights in bfloat16, neighbours along the axis of words side by side, and the indices where the sum reads them.
  std::pair<Var*, std::vector<Expr>> rounded(const Definition& d, Expr weights, int word) {
    std::vector<int> axes = axes_used(weights, 0, static_cast<int>(d.domain.size()));
    axes.erase(std::find(axes.begin(), axes.end(), word));
    axes.push_back(word);
    Definition p;
    std::vector<Expr> from = identity_indices(static_cast<int>(d.domain.size())), at;
    for (int k : axes) {
      from[static_cast<size_t>(k)] = axis(static_cast<int>(p.domain.size()));
      p.domain.push_back(d.domain[static_cast<size_t>(k)]);
      at.push_back(axis(k));
    }
    Expr value = substitute_axes(weights, from);
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
  struct Copy {
    int of;  // Var
    Item item;
  };
  std::vector<Copy> copies_;       // kernels that round what is stored in float32
  std::map<int, size_t> made_at_;  // Var id -> the item that stores it
};

}  // namespace

std::vector<Var*> half_products(RegionState& state) {
  return state.options.cpu.bf16_products ? HalfProducts(state).run() : std::vector<Var*>();
}

}  // namespace metac
