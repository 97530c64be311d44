#include "compiler/region/fusion/fuse.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/hints.h"
#include "compiler/ir/walks.h"
#include "compiler/region/fusion/fuse_paper.h"
#include "compiler/region/fusion/fuse_rows.h"
#include "compiler/region/fusion/fusion_cost.h"
#include "compiler/region/fusion/fusion_facts.h"
#include "compiler/region/split_parts.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tensor/contraction.h"

namespace metac {
namespace {

// A definition on its way: alive, or absorbed by another.
struct Candidate {
  Definition d;
  int position = 0;  // in the op list
  bool alive = true;
  bool has_many_loads = false;  // moves are put in all at once
  std::map<int, Expr> moves;    // by Var
};

class Fuser {
 public:
  Fuser(const Needed& needed, const std::function<bool(const Var*)>& is_constant, const std::vector<Symbol>& symbols,
        bool free_widening)
      : needed_(needed),
        is_constant_(is_constant),
        symbols_(symbols),
        simplify_(symbols),
        free_widening_(free_widening),
        is_open_(!symbols.empty()) {}

  FusedRegion run(const std::vector<Op*>& ops) {
    for (size_t k = 0; k < ops.size(); ++k) {
      const Op* op = ops[k];
      if (op->kind != OpKind::elementwise && op->kind != OpKind::reindex && op->kind != OpKind::reindex_reduce) continue;
      for (Definition& d : definitions_of(op, symbols_)) {
        producer_[d.out->id] = static_cast<int>(candidates_.size());
        vars_[d.out->id] = d.out;
        for (Var* in : op->inputs) vars_[in->id] = in;
        const bool many = op->inputs.size() > 32;
        candidates_.push_back({std::move(d), static_cast<int>(k), true, many, {}});
      }
    }
    remove_dead();
    for (size_t k = 0; k < candidates_.size(); ++k) {
      if (!candidates_[k].alive) continue;
      if (absorb_into_reduction(k)) continue;
      if (make_view(k)) continue;
      inline_into_readers(k);
    }
    remove_dead();
    FusedRegion region;
    region.views = views_;
    collect_items(ops, region);
    fuse_rows(region, needed_.in_memory, symbols_);
    return region;
  }

 private:
  Definition& def(size_t k) {
    if (!candidates_[k].moves.empty()) put_moves_in(k);
    return candidates_[k].d;
  }

  // A concatenation of thousands of parts takes them all at once: each rewrites its whole body.
  void put_moves_in(size_t k) {
    const std::map<int, Expr> moves = std::exchange(candidates_[k].moves, {});
    Definition& d = candidates_[k].d;
    const auto put = [&](Expr e) {
      return rewrite_loads(e, [&](Expr n, const std::vector<Expr>& at) {
        const auto found = moves.find(n->id);
        return found == moves.end() ? Expr() : substitute_axes(found->second, at);
      });
    };
    d.body = put(d.body);
    if (d.epilogue) d.epilogue = put(d.epilogue);
    for (std::vector<Expr>* list : {&d.conditions, &d.out_index})
      for (Expr& e : *list) e = put(e);
    simplify_(d);
    index_readers(k);
  }

  // The definitions that load Var `id`.
  std::vector<size_t> readers_of(int id) const {
    auto found = readers_.find(id);
    std::vector<size_t> out;
    if (found == readers_.end()) return out;
    for (size_t k : found->second)
      if (candidates_[k].alive) out.push_back(k);
    return out;
  }

  void index_readers(size_t k) {
    visit_loads(candidates_[k].d, [&](Expr n) {
      auto& list = readers_[n->id];
      if (!std::count(list.begin(), list.end(), k)) list.push_back(k);
    });
  }

  bool loads(size_t k, int id) const {
    bool found = false;
    visit_loads(candidates_[k].d, [&](Expr n) { found |= n->id == id; });
    return found;
  }

  bool is_needed(const Var* var) const {
    if (needed_.in_memory.count(var) || var->exchanged >= 0 || var->stop_fuse) return true;
    for (auto& [view, source] : views_)
      if (source == var) return true;
    return false;
  }

  void remove_dead() {
    std::set<int> live;
    for (const Var* var : needed_.in_memory) live.insert(var->id);
    for (auto& [view, source] : views_) live.insert(source->id);
    readers_.clear();
    for (size_t k = candidates_.size(); k-- > 0;) {
      Candidate& c = candidates_[k];
      if (!c.alive) continue;
      c.alive = live.count(c.d.out->id) > 0;
      if (c.alive) visit_loads(c.d, [&](Expr n) { live.insert(n->id); });
    }
    for (size_t k = 0; k < candidates_.size(); ++k)
      if (candidates_[k].alive) index_readers(k);
  }

  bool depends_on_constants_only(const Definition& d) const {
    bool constant = true, any = false;
    visit_loads(d, [&](Expr n) {
      any = true;
      auto produced = producer_.find(n->id);
      constant &= is_constant_(vars_.at(n->id)) || (produced != producer_.end() && constant_out_.count(n->id));
    });
    return any && constant && is_static(d.domain);
  }

  bool is_move(Expr body) const { return metac::is_move(body, free_widening_); }
  bool is_free_widening(Expr body) const { return free_widening_ && metac::is_free_widening(body); }

  // ---- a reduction takes what follows it ----
  bool absorb_into_reduction(size_t k) {
    Definition& e = def(k);
    if (!e.is_plain() || is_free_widening(e.body)) return false;
    // An element-wise op with one element-wise reader goes into that reader first, unless the sum before it would be stored
    // as float32 for that, or the reader finishes another sum.
    std::vector<size_t> readers = readers_of(e.out->id);
    bool move = e.body->kind == ExprKind::load;
    if (readers.size() == 1 && candidates_[readers[0]].has_many_loads && is_move(e.body) && !is_needed(e.out)) return false;
    if (!move && readers.size() == 1 && !rounds_sum(e) && !is_needed(e.out) && def(readers[0]).is_plain() &&
        same_points(e, def(readers[0])) && reads_once(readers[0], e.out->id) && !is_another_sums_bias(e, def(readers[0])))
      return false;
    int best = -1;
    Expr the_load;
    visit_loads(e, [&](Expr n) {
      auto found = producer_.find(n->id);
      if (found == producer_.end()) return;
      const Candidate& p = candidates_[found->second];
      if (!p.alive || p.d.out->id != n->id || !p.d.reduce || p.d.scatter || is_needed(p.d.out)) return;
      if (readers_of(n->id).size() != 1 || !reads_once(k, n->id)) return;
      if (p.position > best) best = found->second, the_load = n;
    });
    if (best < 0) return false;
    Definition& r = def(static_cast<size_t>(best));
    std::vector<Expr> stored;  // e's axes as functions of r's
    if (the_load->args == identity_indices(e.out->rank()) && e.domain == r.out->shape()) {
      stored = r.out_index;
    } else {
      std::vector<int> axes;
      if (is_permutation(the_load->args, &axes) && axes.size() == e.domain.size() && reads_all(*r.out, e.domain, axes)) {
        stored.resize(axes.size());
        for (size_t a = 0; a < axes.size(); ++a) stored[axes[a]] = r.out_index[a];
      } else if ((move || loads_of(e) == 1) && is_reshape(r.out->shape(), e.domain, the_load->args, symbols_)) {
        Shape kept(r.domain.begin(), r.domain.begin() + r.kept());
        Bounds bounds(symbols_, kept);
        stored = simplify(unravel_index(e.domain, simplify(linear_index(r.out->shape(), r.out_index), bounds)), bounds);
      } else {
        return false;
      }
    }
    // The other operands must exist when the merged kernel runs: it takes e's place in the order.
    int old = r.out->id;
    Expr value = r.epilogue;
    Definition merged = r;
    merged.out = e.out;
    merged.out_index = stored;
    merged.epilogue = rewrite(substitute_axes(e.body, stored),
                              [&](Expr n) -> Expr { return n->kind == ExprKind::load && n->id == old ? value : Expr(); });
    if (contraction_of(r) && picks_by_position(merged.epilogue)) return false;
    // What lanes of words cannot compute stays a kernel of its own: it would take the tile from the sum. A GPU has none.
    if (!free_widening_ && !has_lanes_of_words(merged.epilogue) && tiled_contraction_of(r)) return false;
    merge_nodes(merged.nodes, e.nodes);
    simplify_(merged);
    candidates_[static_cast<size_t>(best)].alive = false;
    e = std::move(merged);
    producer_.erase(old);
    index_readers(k);
    return false;  // what is now a reduction may still be read by others; nothing more to do for it
  }

  // The candidate that makes what is loaded; null: none does.
  const Candidate* maker_of(Expr element) const {
    const auto made = producer_.find(element->id);
    if (made == producer_.end()) return nullptr;
    const Candidate& p = candidates_[static_cast<size_t>(made->second)];
    return p.alive && p.d.out->id == element->id ? &p : nullptr;
  }
  bool is_sum(Expr element) const {
    const Candidate* made = maker_of(element);
    return made && made->d.reduce.has_value();
  }
  bool follows_sum(Expr element) const {
    const Candidate* made = maker_of(element);
    if (!made || made->d.reduce) return made != nullptr;
    bool found = false;
    if (made->d.is_plain()) visit_loads(made->d, [&](Expr n) { found |= is_sum(n); });
    return found;
  }

  // Does it round what a reduction has summed up to bytes (on a GPU: to a half type)? The sum stores that.
  bool rounds_sum(const Definition& e) const {
    const DType to = e.out->dtype();
    if (is_bool(to) || (size_of(to) != 1 && !(free_widening_ && size_of(to) == 2 && is_float(to)))) return false;
    return any_of(e.body, [&](Expr n) { return n->kind == ExprKind::load && size_of(n->dtype) == 4 && is_sum(n); });
  }

  // On a GPU, where a library adds one bias to a sum: does `e` add constants to one, and `reader` the result to another?
  bool is_another_sums_bias(const Definition& e, const Definition& reader) const {
    if (!free_widening_) return false;
    int sums = 0;
    bool constants = true, another = false;
    visit_loads(e, [&](Expr n) {
      sums += is_sum(n);
      constants &= is_sum(n) || is_constant_(vars_.at(n->id));
    });
    visit_loads(reader, [&](Expr n) { another |= n->id != e.out->id && follows_sum(n); });
    return sums == 1 && constants && another;
  }

  // A slice reads in order, too, but not everything: the reduction would store beyond its end.
  static bool reads_all(const Var& from, const Shape& domain, const std::vector<int>& axes) {
    for (size_t a = 0; a < axes.size(); ++a)
      if (from.shape()[a] != domain[static_cast<size_t>(axes[a])]) return false;
    return true;
  }

  static bool same_points(const Definition& a, const Definition& b) {
    return element_count(a.domain) == element_count(b.domain);
  }

  bool reads_once(size_t k, int id) const {
    int loads = 0;
    visit_loads(candidates_[k].d, [&](Expr n) { loads += n->id == id; });
    return loads == 1;
  }

  // ---- a reshape that a host step reads shares its operand's memory ----
  bool make_view(size_t k) {
    Definition& d = def(k);
    if (!needed_.in_memory.count(d.out) || needed_.own_memory.count(d.out)) return false;
    if (!d.is_plain() || d.body->kind != ExprKind::load) return false;
    Var* source = vars_.at(d.body->id);
    if (!is_reshape(source->shape(), d.domain, d.body->args, symbols_)) return false;
    while (views_.count(source->id)) source = views_.at(source->id);
    views_[d.out->id] = source;
    if (is_constant_(source)) constant_out_.insert(d.out->id);
    candidates_[k].alive = false;
    // Other readers read the operand itself.
    for (size_t reader : readers_of(d.out->id)) {
      replace_loads(def(reader), d.out->id, [&](const std::vector<Expr>& at) { return substitute_axes(d.body, at); });
      simplify_(def(reader));
      index_readers(reader);
    }
    return true;
  }

  // ---- inlining ----
  void inline_into_readers(size_t k) {
    Definition& d = def(k);
    if (!d.is_plain() || d.out->stop_fuse) return;
    bool move = is_move(d.body);
    if (!move && depends_on_constants_only(d)) return note_constant(k);
    bool needed = is_needed(d.out);
    std::vector<size_t> readers = readers_of(d.out->id);
    if (needed && !(move && !d.body->has_load)) return;
    bool all = true;
    for (size_t reader : readers)
      all = all && (move ? move_goes_into(d, reader) : compute_goes_into(d, reader, readers.size()));
    if (!all) return;
    for (size_t reader : readers)
      if (move && candidates_[reader].has_many_loads)
        put_later(k, reader);
      else
        put_into(k, reader);
    if (!needed) candidates_[k].alive = false;
  }

  // What is behind a constant was not looked at yet, and neither was what that reads beside it: scales, spread over blocks.
  bool is_made_of_constants(const Definition& d, int deep = 0) const {
    bool constant = deep < 4;
    visit_loads(d, [&](Expr n) {
      if (!constant || is_constant_(vars_.at(n->id)) || constant_out_.count(n->id)) return;
      const auto produced = producer_.find(n->id);
      constant = produced != producer_.end() && is_made_of_constants(candidates_[produced->second].d, deep + 1);
    });
    return constant;
  }

  // A constant stays by itself; but numbers that are unpacked go into the one that alone reads them, so that a product finds
  // the packed ones in it (target/cpu/layouts/compact_operand.h).
  void note_constant(size_t k) {
    const Definition& d = candidates_[k].d;
    const std::vector<size_t> readers = readers_of(d.out->id);
    constant_out_.insert(d.out->id);
    if (!unpacks(d, [this](int id) { return vars_.at(id); }) || is_needed(d.out) || readers.size() != 1 ||
        !def(readers[0]).is_plain() || !reads_once(readers[0], d.out->id) || !is_static(def(readers[0]).domain) ||
        !is_made_of_constants(def(readers[0])))
      return;
    put_into(k, readers[0]);
    constant_out_.erase(d.out->id);
    candidates_[k].alive = false;
  }

  void put_into(size_t k, size_t reader) {
    const Definition& d = candidates_[k].d;
    Definition& r = def(reader);
    replace_loads(r, d.out->id, [&](const std::vector<Expr>& at) { return substitute_axes(d.body, at); });
    simplify_(r);
    merge_nodes(r.nodes, d.nodes);
    index_readers(reader);
  }

  void put_later(size_t k, size_t reader) {
    const Definition& d = candidates_[k].d;
    Candidate& r = candidates_[reader];
    r.moves.emplace(d.out->id, d.body);
    merge_nodes(r.d.nodes, d.nodes);
    visit_loads(d, [&](Expr n) {
      auto& list = readers_[n->id];
      if (!std::count(list.begin(), list.end(), reader)) list.push_back(reader);
    });
  }

  // Moves go everywhere, but not where their places would be worked out more often than they have elements: below a
  // window, a reflected border is stored once and read in order.
  bool move_goes_into(const Definition& d, size_t reader) {
    // A concatenation is read from one place by whoever reads it more than once.
    const bool parts = loads_of(d) > 1;
    if (!parts && no_more_elements(candidates_[reader].d, d, symbols_)) return true;
    const Definition& r = def(reader);
    if (parts && nodes_of(d.body) + nodes_of(r.body) > 400) return false;
    return no_more_elements(r, d, symbols_) || !(parts || has_folded_index(d) || is_costly_table(d, symbols_) ||
                                                 has_divided_sum(d, r, symbols_) || divides_summed_axis(d, reader));
  }

  // Would a sum of products read d's operand at floor(k/2) and k mod 2 of an axis k it sums over, as the channels that a
  // rearrangement of pixels makes? A flatten divides too, but reads in the order of memory, and of constants an order can be
  // prepared.
  bool divides_summed_axis(const Definition& d, size_t reader) const {
    const auto first = first_summed_axis(reader);
    if (!first || depends_on_constants_only(d)) return false;
    if (d.body->kind == ExprKind::load && is_reshape(vars_.at(d.body->id)->shape(), d.domain, d.body->args, symbols_))
      return false;
    return brings_division(d, candidates_[reader].d, symbols_, [&](Expr e) {
      return any_of(e->args[0], [&](Expr n) { return n->kind == ExprKind::axis && n->id >= *first; });
    });
  }

  // Of a sum, or of the operands and products that are read by nothing but a sum, point by point; empty: there is none.
  std::optional<int> first_summed_axis(size_t k) const {
    for (const Definition* d = &candidates_[k].d;;) {
      if (d->scatter) return std::nullopt;
      if (d->reduce) return d->kept();
      const std::vector<size_t> readers = readers_of(d->out->id);
      if (readers.size() != 1 || !reads_once(readers[0], d->out->id)) return std::nullopt;
      const Definition& next = candidates_[readers[0]].d;
      bool same = next.domain == d->domain;
      visit_loads(next,
                  [&](Expr n) { same = same && (n->id != d->out->id || n->args == identity_indices(d->out->rank())); });
      if (!same) return std::nullopt;
      d = &next;
    }
  }

  bool compute_goes_into(const Definition& d, size_t reader, size_t readers) {
    const Definition& r = def(reader);
    if (r.scatter) return false;
    if (!reads_once(reader, d.out->id)) {
      // Several loads of the same Var at different indices would compute it several times.
      if (nodes_of(d.body) > 12) return false;
      if (r.reduce) return false;
    }
    if (readers == 1 && flattens_for_several(reader) && !worth_repeating(d)) return false;
    // Never computed more often than it has elements: a broadcast of a computed value is not inlined. But the product that
    // a sum reads belongs into the sum, of which it may see a border more.
    bool summand = r.reduce && readers == 1 && (is_product(d) || (is_simple(d.body) && outgrows_its_sources(d)));
    if (!summand && !no_more_elements(r, d, symbols_)) return false;
    if (readers > 1 && (readers > 4 || !worth_repeating(d))) return false;
    if (summand) return true;
    // Each step rewrites the whole body. What is plain to the end is cut into the parts of its concatenations again.
    const int nodes = nodes_of(d.body) + nodes_of(r.body);
    return nodes < 48 || (nodes < 1500 && d.is_plain() && r.is_plain() &&
                          nodes_of_largest_part(typical(d.body)) + nodes_of_largest_part(typical(r.body)) < 48);
  }

  // A dim that is worked out from open ones counts as one number, as it would where the shape is fixed: the same is fused.
  Expr typical(Expr body) const { return is_open_ ? at_hints(body, symbols_) : body; }
  int nodes_of(Expr body) const { return count_nodes(typical(body)); }

  // A reshape that several read, and that takes its own index apart: what is stored for them is stored in the shape that it
  // has before, which none of them divides for.
  bool flattens_for_several(size_t k) {
    const Definition& d = def(k);
    if (d.body->kind != ExprKind::load || is_needed(d.out) || readers_of(d.out->id).size() < 2) return false;
    const auto divides = [](Expr e) { return e->kind == ExprKind::call && e->fn == Fn::floor_mod; };
    return std::any_of(d.body->args.begin(), d.body->args.end(), [&](Expr index) { return any_of(index, divides); }) &&
           reads_in_order(vars_.at(d.body->id)->shape(), d, symbols_);
  }

  // One multiplication of moved operands: a sum of it would be a sum of products.
  bool is_product(const Definition& d) const {
    const auto s = sum_of_products(d.body, 0, static_cast<int>(d.domain.size()));
    return s && !s->of_words() && s->is_bare() && is_move(s->factors[0].value) && is_move(s->factors[1].value);
  }

  // Worth computing again in each of a few readers rather than storing: what is read for it is little more than the value
  // itself (one value of its size, and scales of its channels), or less; and always from the same place.
  bool worth_repeating(const Definition& d) const {
    if (!is_simple(d.body) || picks_by_position(d.body)) return false;
    const int64_t own = hinted_bytes(d.out, symbols_);
    int large = 0;
    visit_loads(d, [&](Expr n) { large += hinted_bytes(vars_.at(n->id), symbols_) > own / 16; });
    return large <= 1 || outgrows_its_sources(d);
  }

  // The elements that attain the maximum of their window: as many as all windows together have, made of what has fewer.
  bool outgrows_its_sources(const Definition& d) const {
    std::set<int> sources;
    visit_loads(d, [&](Expr n) { sources.insert(n->id); });
    int64_t read = 0;
    for (int id : sources) read = add_costs(read, hinted_bytes(vars_.at(id), symbols_));
    return loads_of(d) <= 3 && hinted_bytes(d.out, symbols_) > read;
  }

  void collect_items(const std::vector<Op*>& ops, FusedRegion& region) {
    std::vector<std::vector<size_t>> at(ops.size());
    for (size_t k = 0; k < candidates_.size(); ++k)
      if (candidates_[k].alive) at[static_cast<size_t>(candidates_[k].position)].push_back(k);
    for (size_t p = 0; p < ops.size(); ++p) {
      for (size_t k : at[p]) {
        Item item;
        Definition& d = def(k);
        item.group.stages = {d};
        region.items.push_back(std::move(item));
      }
      const Op* op = ops[p];
      if (is_meta(op->kind)) continue;
      Item item;
      item.op = op;
      region.items.push_back(std::move(item));
    }
  }

  const Needed& needed_;
  const std::function<bool(const Var*)>& is_constant_;
  const std::vector<Symbol>& symbols_;
  DefinitionSimplifier simplify_;
  const bool free_widening_;
  const bool is_open_;
  std::vector<Candidate> candidates_;
  std::map<int, int> producer_;  // Var id -> candidate
  std::map<int, std::vector<size_t>> readers_;
  std::map<int, Var*> vars_;
  std::map<int, Var*> views_;
  std::set<int> constant_out_;  // Vars of this region that prepare computes
};

}  // namespace

bool is_costly_table(const Definition& d, const std::vector<Symbol>& symbols) {
  constexpr int64_t most = 64 << 20;
  return d.is_plain() && !d.body->has_load && is_static(d.domain) && calls_elementary(d.body) &&
         hinted_bytes(d.out, symbols) <= most;
}

FusedRegion fuse(const std::vector<Op*>& ops, const Needed& needed, const std::function<bool(const Var*)>& is_constant,
                 const std::vector<Symbol>& symbols, Fusion fusion, bool free_widening) {
  if (fusion != Fusion::best) return fuse_paper(ops, needed, is_constant, symbols, fusion);
  return Fuser(needed, is_constant, symbols, free_widening).run(ops);
}

}  // namespace metac
