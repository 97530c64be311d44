#include "compiler/target/cpu/integer_products.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/integer_factors.h"
#include "compiler/target/cpu/layouts/contraction_axes.h"
#include "compiler/target/cpu/word_operands.h"
#include "compiler/target/cpu/word_products.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/contraction.h"
#include "compiler/tensor/quantized_value.h"

namespace metac {
namespace {

Expr whole_number(int64_t value) { return int_constant(value, DType::i32); }
bool uses_axes(Expr e) {
  return any_of(e, [](Expr n) { return n->kind == ExprKind::axis; });
}

// A Var that is stored in fewer bits from now on.
struct Narrowed {
  Var* var = nullptr;
  Expr zero_point;          // value = scale * (int32(element) - zero_point), in the maker's axes
  Expr scale;               // empty: none
  bool by_position = true;  // the maker's axes are the Var's
  Definition* maker = nullptr;
  QuantizedValue value;  // as it was
};

// Of the lanes of a vector, so many that words of bytes, four products a lane, take no longer than real numbers with lanes
// along the points: their data is a quarter. A convolution of 64 channels to 3: 4.0 ms, against 6.9.
constexpr double least_filled = 3.0 / 16;

class IntegerProducts {
 public:
  explicit IntegerProducts(RegionState& s)
      : graph_(s.graph),
        region_(s.region),
        prepare_(s.prepare),
        needed_(s.needed),
        is_constant_(s.is_constant),
        cpu_(s.options.cpu),
        winograd_(s.options.winograd) {}

  std::vector<Var*> run() {
    for (FusedRegion* r : {&region_, &prepare_})
      for (Item& item : r->items)
        for (Definition& stage : item.group.stages)
          if (!item.op && !item.group.strategy && !item.group.internal.count(stage.out->id)) makers_[stage.out->id] = &stage;
    for (Item& item : region_.items) {
      items_.emplace_back();
      if (!item.op && item.group.stages.size() == 1 && rewrite_product(item.group.stages[0])) changed_ = true;
      items_.back().push_back(&item);
    }
    widen_in_registers();
    if (changed_) finish();
    return std::move(made_);
  }

 private:
  Var* var(int id) const { return graph_.vars()[static_cast<size_t>(id)].get(); }

  // ---- recognition ----
  std::optional<IntegerFactor> factor_of(const Operand& operand) {
    if (auto known = narrowed_.find(operand.load->id); known != narrowed_.end())
      return IntegerFactor{operand, known->second.maker, known->second.value};
    auto maker = makers_.find(operand.load->id);
    if (maker == makers_.end()) return factor_of_constant(operand, var(operand.load->id), constants_);
    if (maker->second->scatter) return std::nullopt;
    auto value = match_quantized(final_value(*maker->second));
    if (!value || !value->range) return std::nullopt;
    return IntegerFactor{operand, maker->second, *value};
  }

  // An expression of the maker's axes where the operand is read; empty where it changes along the sum.
  Expr at_operand(Expr e, const IntegerFactor& f, const Definition& d) const {
    if (!uses_axes(e)) return e;
    if (f.maker->out_index != identity_indices(f.maker->out->rank())) return {};
    Expr here = substitute_axes(e, f.operand.load->args);
    for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k)
      if (uses_axis(here, k)) return {};
    return here;
  }

  bool rewrite_product(Definition& d) {
    if (auto whole = contraction_of(d); !whole || whole->product != Fn::mul || !factor_of(whole->a) || !factor_of(whole->b))
      return false;
    bring_out_axes(d, graph_.symbols);
    drop_dead_taps(d, graph_.symbols);  // they count as zeros, not as zero points
    auto matched = contraction_of(d);
    if (!matched) return false;
    auto first = factor_of(matched->a), second = factor_of(matched->b);
    if (!first || !second || bool(first->value.scale) != bool(second->value.scale)) return false;
    if (bool(first->value.scale) && !sum_fits(d, *first->value.range, *second->value.range)) return false;
    // Two int16 products an instruction are as fast as real ones: fewer of those are faster.
    if (bool(first->value.scale) && !cpu_.byte_products && is_filtered_minimally(d, winograd_)) return false;
    bool swapped = is_constant_(var(first->operand.load->id)) && !is_constant_(var(second->operand.load->id));
    if (swapped) std::swap(first, second);
    const auto bytes = as_signed_bytes(*first), others = as_signed_bytes(*second);
    return (others && others->rest.is_int(0) && rewrite_words(d, *first, *others, 4)) ||
           (!swapped && bytes && bytes->rest.is_int(0) && rewrite_words(d, *second, *bytes, 4)) ||
           (others && !others->rest.is_int(0) && rewrite_words(d, *first, *others, 4)) ||
           rewrite_words(d, *first, {*second, whole_number(0)}, 2);
  }

  // ---- the words ----
  // elements: 4 bytes or 2 int16 a word. a: read word by word from its storage, b: packed into words.
  bool rewrite_words(Definition& d, IntegerFactor a, const SignedBytes& whole_b, int elements) {
    bool bytes = elements == 4;
    IntegerFactor b = whole_b.factor;
    for (Expr c : b.operand.conditions)
      if (is_border(a.operand, c)) a.operand.conditions.push_back(c);
    const auto is_border_of_a = [&](Expr c) { return is_border(a.operand, c); };
    if (!std::all_of(a.operand.conditions.begin(), a.operand.conditions.end(), is_border_of_a)) return false;
    // Conditions of b are taps that a window does not have at each residue of its result, once these are axes of their own.
    if (repeats_residues(d, b.operand.load) || b.maker->reduce ||
        b.maker->out_index != identity_indices(b.maker->out->rank()))
      return false;
    if (bytes && !cpu_.byte_products) return false;
    if (!bytes && !(a.value.range->within(-32767, 32767) && b.value.range->within(-32767, 32767))) return false;
    const int word = word_axis(d, a.operand, b.operand.load);
    const double filled = bytes && !share_kept_axes(d, a.operand.load, b.operand.load) ? least_filled : 1;
    if (word < 0 || !(has_lanes(d, a.operand.load, b.operand.load, cpu_.vector_bytes, filled) ||
                      (bytes && fills_lanes_by_groups(d, a.operand.load, b.operand.load, word, cpu_.vector_bytes))))
      return false;
    Expr scale;
    if (a.value.scale) {
      Expr of_a = at_operand(a.value.scale, a, d), of_b = at_operand(b.value.scale, b, d);
      if (!of_a || !of_b) return false;
      scale = of_a * of_b;
    }
    auto planned = plan_storage(a, bytes);
    if (!planned) return false;
    Expr zero_point = at_operand(planned->zero_point, a, d);
    if (!zero_point || (!a.operand.conditions.empty() && !zero_point.if_int())) return false;
    const Expr rest = at_operand(whole_b.rest, b, d);
    if (!rest || (!rest.is_int(0) && !is_matrix(a.operand))) return false;
    bool corrected = !zero_point.is_int(0);
    for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k)
      if ((corrected && !uses_axis(b.operand.load, k)) || (!rest.is_int(0) && !uses_axis(a.operand.load, k))) return false;

    const int packed = bytes && rest.is_int(0) ? index_of_one_word(d, a, word) : -1;
    Var* stored = packed >= 0 ? store_words(*a.maker, packed, planned->value) : narrow(a, *planned);
    if (!stored) return false;
    bool constant = is_constant_(var(b.operand.load->id));
    if (!b.operand.conditions.empty()) b = without_dead_taps(d, b, constant);
    Var* words = pack_words(d, b, word, elements, constant);
    Expr value = load(reduced_value, DType::i32, {});
    if (corrected) value = value - zero_point * sum_of(d, b.operand.load, b.value.whole, constant);
    if (!rest.is_int(0)) {
      const Expr element = load(stored->id, stored->dtype(), identity_indices(stored->rank()));
      value = value - rest * sum_of(d, a.operand.load, cast(element, DType::i32) - planned->zero_point, false);
    }
    if (scale) value = cast(value, DType::f32) * scale;
    replace_sum(d, value);

    int64_t extent = d.domain[static_cast<size_t>(word)].as_int();
    d.products = products_of_element(d);
    std::vector<Expr> by_words = identity_indices(static_cast<int>(d.domain.size()));
    by_words[static_cast<size_t>(word)] = axis(word) * Expr(elements);
    std::vector<Expr> at = a.operand.load->args;
    if (packed >= 0) at[static_cast<size_t>(packed)] = 0;
    Expr read = substitute_axes(load(stored->id, DType::i32, at), by_words);
    if (!a.operand.conditions.empty())
      read = select(all_of(a.operand.conditions), read, whole_number(zero_point.as_int() * 0x01010101));
    d.body = call(bytes ? Fn::dot_u8s8 : Fn::dot_i16, {read, load(words->id, DType::i32, b.operand.load->args)});
    d.domain[static_cast<size_t>(word)] = (extent + elements - 1) / elements;
    d.accumulator = DType::i32;
    move_axis_last(d, word);
    simplify(d, graph_.symbols);
    return true;
  }

  // How `a` would be stored, and the zero point that goes with it.
  struct Storage {
    DType dtype = DType::u8;
    Expr value;  // of that dtype, in the maker's axes
    Expr zero_point;
  };
  std::optional<Storage> plan_storage(const IntegerFactor& a, bool bytes) const {
    if (auto known = narrowed_.find(a.operand.load->id); known != narrowed_.end()) {
      DType dtype = known->second.var->dtype();
      if (dtype != (bytes ? DType::u8 : DType::i16)) return std::nullopt;
      return Storage{dtype, {}, known->second.zero_point};
    }
    const QuantizedValue& v = a.value;
    if (!bytes) return Storage{DType::i16, cast(v.whole, DType::i16), whole_number(0)};
    if (bool(v.stored) && v.stored->dtype == DType::u8) return Storage{DType::u8, v.stored, v.zero_point};
    if (v.stored)
      return Storage{DType::u8, cast(cast(v.stored, DType::i32) + whole_number(128), DType::u8),
                     v.zero_point + whole_number(128)};
    if (v.range->within(0, 255)) return Storage{DType::u8, cast(v.whole, DType::u8), whole_number(0)};
    if (v.range->within(-128, 127))
      return Storage{DType::u8, cast(v.whole + whole_number(128), DType::u8), whole_number(128)};
    return std::nullopt;
  }

  // The Var that holds `a` in that form: what it was made of, or its maker stores that from now on. Null where the
  // value must stay what it is.
  Var* narrow(const IntegerFactor& a, const Storage& s) {
    int id = a.operand.load->id;
    if (auto known = narrowed_.find(id); known != narrowed_.end()) return known->second.var;
    Definition& maker = *a.maker;
    bool by_position = maker.out_index == identity_indices(maker.out->rank());
    Narrowed n{nullptr, s.zero_point, a.value.scale, by_position, &maker, a.value};
    if (s.value->kind == ExprKind::load && by_position && !maker.reduce &&
        s.value->args == identity_indices(maker.out->rank()) && var(s.value->id)->shape() == maker.out->shape() &&
        var(s.value->id)->dtype() == s.dtype) {
      n.var = var(s.value->id);
    } else {
      if (must_stay(maker.out) || !(by_position || (!uses_axes(s.zero_point) && (!n.scale || !uses_axes(n.scale)))))
        return nullptr;
      Type type = maker.out->type;
      type.dtype = s.dtype;
      n.var = graph_.make_var(type);
      final_value(maker) = s.value;
      maker.out = n.var;
      makers_[n.var->id] = &maker;
      makers_.erase(id);
    }
    narrowed_[id] = n;
    return n.var;
  }

  // ---- data of one word ----
  // The index of `a` along which its maker may store whole words: the channels of an image, of which only this sum reads the
  // few that there are; -1: it has none.
  int index_of_one_word(const Definition& d, const IntegerFactor& a, int word) const {
    const int id = a.operand.load->id;
    const std::vector<Expr>& args = a.operand.load->args;
    if (a.maker->reduce || a.maker->out_index != identity_indices(a.maker->out->rank()) || narrowed_.count(id) ||
        !makers_.count(id) || must_stay(a.maker->out) || d.domain[static_cast<size_t>(word)].as_int() > 4)
      return -1;
    const auto at = static_cast<size_t>(std::find(args.begin(), args.end(), axis(word)) - args.begin());
    if (at == args.size() || var(id)->shape()[at] != d.domain[static_cast<size_t>(word)]) return -1;
    if (is_read_elsewhere(region_, d, a.operand.load)) return -1;
    return static_cast<int>(at);
  }

  // The bytes along an index as one word.
  Var* store_words(Definition& maker, int index, Expr byte) {
    const auto k = static_cast<size_t>(index);
    std::vector<Expr> bytes;
    for (int64_t n = 0; n < maker.domain[k].as_int(); ++n) {
      std::vector<Expr> here = identity_indices(maker.out->rank());
      here[k] = n;
      bytes.push_back(cast(substitute_axes(byte, here), DType::i32));
    }
    makers_.erase(maker.out->id);
    Type type{TypeKind::tensor, DType::i32, maker.out->shape()};
    maker.domain[k] = type.shape[k] = 1;
    maker.body = word_of(bytes, 8);
    maker.out = graph_.make_var(type);
    makers_[maker.out->id] = &maker;
    return maker.out;
  }

  bool must_stay(const Var* v) const {
    if (needed_.in_memory.count(v) || is_constant_(v)) return true;
    for (auto& [view, source] : region_.views)
      if (source == v) return true;
    return false;
  }

  // ---- what has no words ----
  // Products whose neighbours along a sum lie apart (depthwise convolutions), of what is rounded to a byte before: it is
  // stored as the integers they are, read as numbers and multiplied by those of the weights, all exact. After the others,
  // which say in how many bits a value is stored.
  void widen_in_registers() {
    for (const std::vector<Item*>& list : items_) {
      Item& item = *list.back();
      if (!item.op && item.group.stages.size() == 1 && rewrite_widened(item.group.stages[0])) changed_ = true;
    }
  }

  bool rewrite_widened(Definition& d) {
    auto matched = contraction_of(d);
    if (!matched || matched->product != Fn::mul || d.accumulator != DType::f32) return false;
    auto a = factor_of(matched->a), b = factor_of(matched->b);
    if (!a || !b || !a->value.scale || !b->value.scale) return false;
    if (is_constant_(var(a->operand.load->id))) std::swap(a, b);
    if (is_constant_(var(a->operand.load->id)) || !is_constant_(var(b->operand.load->id))) return false;
    if (!b->operand.conditions.empty() || b->maker->reduce ||
        b->maker->out_index != identity_indices(b->maker->out->rank()) || word_axis(d, a->operand, b->operand.load) >= 0)
      return false;
    Expr of_a = at_operand(a->value.scale, *a, d), of_b = at_operand(b->value.scale, *b, d);
    if (!of_a || !of_b) return false;
    const auto planned = plan_whole_numbers(*a);
    Var* stored = planned ? narrow(*a, *planned) : nullptr;
    if (!stored) return false;

    Definition whole;
    whole.domain = var(b->operand.load->id)->shape();
    whole.out_index = identity_indices(static_cast<int>(whole.domain.size()));
    whole.body = cast(b->value.whole, DType::f32);
    whole.out = graph_.make_var(Type{TypeKind::tensor, DType::f32, whole.domain});
    whole.nodes = b->maker->nodes;
    Var* weights = emit(std::move(whole), true);

    Expr read = load(stored->id, DType::f32, a->operand.load->args);
    if (!a->operand.conditions.empty()) read = select(all_of(a->operand.conditions), read, float_constant(0, DType::f32));
    d.body = read * load(weights->id, DType::f32, b->operand.load->args);
    replace_sum(d, load(reduced_value, DType::f32, {}) * (of_a * of_b));
    simplify(d, graph_.symbols);
    return true;
  }

  // What outside of it counts as 0 is stored without its zero point.
  std::optional<Storage> plan_whole_numbers(const IntegerFactor& a) const {
    if (auto known = narrowed_.find(a.operand.load->id); known != narrowed_.end()) {
      if (!known->second.zero_point.is_int(0)) return std::nullopt;
      return Storage{known->second.var->dtype(), {}, known->second.zero_point};
    }
    const QuantizedValue& v = a.value;
    if (bool(v.stored) && v.zero_point.is_int(0)) return Storage{v.stored->dtype, v.stored, v.zero_point};
    if (!v.range->within(-32768, 32767)) return std::nullopt;
    return Storage{DType::i16, cast(v.whole, DType::i16), whole_number(0)};
  }

  // ---- what is made of b ----
  Var* emit(Definition d, bool constant) {
    simplify(d, graph_.symbols);
    Var* out = d.out;
    added_.emplace_back();
    added_.back().group.stages = {std::move(d)};
    if (constant) {
      prepared_.push_back(std::move(added_.back()));
      added_.pop_back();
      made_.push_back(out);
    } else {
      items_.back().push_back(&added_.back());
    }
    return out;
  }

  // The weights for each place where they are read, without taps that a window does not have there.
  IntegerFactor without_dead_taps(const Definition& d, const IntegerFactor& b, bool constant) {
    Definition w = elements_read(d, b);
    w.out = graph_.make_var(Type{TypeKind::tensor, DType::i32, w.domain});
    IntegerFactor dense{{load(w.out->id, DType::i32, places_read(d, b)), {}, 0, {}}, b.maker, b.value};
    dense.value.whole = load(w.out->id, DType::i32, w.out_index);
    emit(std::move(w), constant);
    return dense;
  }

  Var* pack_words(const Definition& d, const IntegerFactor& b, int word, int elements, bool constant) {
    Definition p = words_along(d, b, var(b.operand.load->id)->shape(), word, elements);
    p.out = graph_.make_var(Type{TypeKind::tensor, DType::i32, p.domain});
    return emit(std::move(p), constant);
  }

  // The sum over all reduced axes of what `whole` makes of the indices that are read, as a load at the kept axes of the
  // read.
  Expr sum_of(const Definition& d, Expr read, Expr whole, bool constant) {
    Definition s = sums_read(d, read, whole);
    std::vector<Expr> at;
    for (int k : axes_used(read, 0, d.kept())) at.push_back(axis(k));
    const Shape shape(s.domain.begin(), s.domain.begin() + s.kept());
    Var*& known = sums_[s.body];  // of one matrix that several products read
    if (known && known->shape() == shape) return load(known->id, DType::i32, at);
    s.out = graph_.make_var(Type{TypeKind::tensor, DType::i32, shape});
    s.nodes = d.nodes;
    known = emit(std::move(s), constant);
    return load(known->id, DType::i32, at);
  }

  // ---- everybody else ----
  void finish() {
    std::vector<Item> all;
    for (std::vector<Item*>& list : items_)
      for (Item* item : list) all.push_back(std::move(*item));
    std::set<int> wide;  // narrowed values that products of real numbers read
    for (Item& item : all)
      for (Definition& d : item.group.stages) {
        const std::set<int> own = read_by_product(d);
        widen_loads(d, own);
        wide.insert(own.begin(), own.end());
      }
    for (const int id : wide) store_wide(id, all);
    remove_unread(all);
    region_.items = std::move(all);
    for (Item& item : prepared_) prepare_.items.push_back(std::move(item));
    store_what_others_read(region_.items);
    for (const int id : store_what_others_read(prepare_.items)) made_.push_back(var(id));
  }

  // Narrowed values that a product reads which stays one of real numbers: a convolution that was left out of quantising
  // beside one that was not. Converting each element where a product reads it would cost it its tiles.
  std::set<int> read_by_product(const Definition& d) const {
    std::set<int> read;
    const auto matched = contraction_of(d);
    if (!matched || matched->product != Fn::mul) return read;
    for (const auto& [own, other] : {std::pair(matched->a, matched->b), std::pair(matched->b, matched->a)})
      if (narrowed_.count(own.load->id) > 0 && word_axis(d, own, other.load) >= 0) read.insert(own.load->id);
    return read;
  }

  // The value once more, in four bytes: behind what stores it narrow, unless who made it of that is still there.
  void store_wide(int id, std::vector<Item>& items) {
    const Narrowed& n = narrowed_.at(id);
    Var* const out = var(id);
    const auto stores = [](const Item& item, const Var* v) {
      return std::any_of(item.group.stages.begin(), item.group.stages.end(),
                         [&](const Definition& d) { return d.out == v; });
    };
    if (is_constant_(out) || std::any_of(items.begin(), items.end(), [&](const Item& item) { return stores(item, out); }))
      return;
    const auto maker = std::find_if(items.begin(), items.end(), [&](const Item& item) { return stores(item, n.var); });
    METAC_ASSERT(maker != items.end(), "nobody stores a narrowed value");
    Definition d;
    d.domain = out->shape();
    d.out_index = identity_indices(out->rank());
    d.out = out;
    d.body = load(out->id, out->dtype(), d.out_index);
    d.nodes = n.maker->nodes;
    widen_loads(d, {});
    Item item;
    item.group.stages = {std::move(d)};
    items.insert(maker + 1, std::move(item));
  }

  // `kept`: narrowed values that it reads as they were.
  void widen_loads(Definition& d, const std::set<int>& kept) {
    bool any = false;
    for (auto& [id, n] : narrowed_) {
      if (d.out == n.var || kept.count(id) > 0) continue;
      const Narrowed& narrowed = n;
      replace_loads(d, id, [&](const std::vector<Expr>& at) {
        auto here = [&](Expr e) { return narrowed.by_position ? substitute_axes(e, at) : e; };
        any = true;
        Expr whole = cast(load(narrowed.var->id, narrowed.var->dtype(), at), DType::i32) - here(narrowed.zero_point);
        return narrowed.scale ? cast(whole, DType::f32) * here(narrowed.scale) : whole;
      });
    }
    if (any) simplify(d, graph_.symbols);
  }

  // Dequantised values that only products read.
  void remove_unread(std::vector<Item>& items) {
    std::set<int> read;
    for (const Item& item : items) {
      for (const Definition& d : item.group.stages) visit_loads(d, [&](Expr n) { read.insert(n->id); });
      if (!item.op) continue;
      for (const Var* in : item.op->inputs)
        if (in) read.insert(in->id);
    }
    std::erase_if(items, [&](const Item& item) {
      if (item.op || item.group.stages.size() != 1) return false;
      const Var* out = item.group.stages[0].out;
      return narrowed_.count(out->id) > 0 && !read.count(out->id) && !must_stay(out);
    });
  }

  // Zero points and scales that lived only inside of the kernel that found them; returns which.
  std::vector<int> store_what_others_read(std::vector<Item>& items) const {
    std::vector<int> stored;
    for (Item& item : items)
      for (const FusedRegion* r : {&region_, &prepare_})
        for (const Item& reader : r->items) {
          if (item.group.internal.empty()) break;
          if (&reader == &item) continue;
          for (const Definition& d : reader.group.stages)
            visit_loads(d, [&](Expr n) {
              if (item.group.internal.erase(n->id)) stored.push_back(n->id);
            });
        }
    return stored;
  }

  Graph& graph_;
  FusedRegion &region_, &prepare_;
  const Needed& needed_;
  const std::function<bool(const Var*)>& is_constant_;
  const CpuTarget& cpu_;
  const int winograd_;
  std::map<int, Definition*> makers_;      // Var id -> the definition that stores it
  std::deque<Definition> constants_;       // of folded ones, as if they had one
  std::map<int, Narrowed> narrowed_;       // by the id of what was stored before
  std::vector<std::vector<Item*>> items_;  // per item of the region: what comes before it, and it
  std::deque<Item> added_, prepared_;      // of the region and of `prepare`; pointers to them stay
  std::unordered_map<Expr, Var*> sums_;    // by what they add up
  std::vector<Var*> made_;
  bool changed_ = false;
};

}  // namespace

std::vector<Var*> integer_products(RegionState& state) { return IntegerProducts(state).run(); }

}  // namespace metac
