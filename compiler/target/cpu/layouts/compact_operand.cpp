#include "compiler/target/cpu/layouts/compact_operand.h"

#include <algorithm>

#include "compiler/ir/walks.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/quantized_value.h"

namespace metac {
namespace {

// How many bits hold the number that `e` converts to float32; 0: it is none of few bits.
int bits_of_number(Expr e) {
  if (e->kind == ExprKind::load && is_half(e->dtype)) return 16;
  if (e->kind == ExprKind::load && (e->dtype == DType::u8 || e->dtype == DType::i8)) return 8;
  if (e->dtype != DType::i32) return 0;
  const auto range = integer_range(e);
  if (!range || range->low < 0) return 0;
  for (int bits : {2, 4})
    if (range->high < (1 << bits)) return bits;
  return 0;
}

// Integers of 8 bits are converted through int32, or not.
Expr stored_bytes(Expr e) { return e->kind == ExprKind::cast && e->args[0]->kind == ExprKind::load ? e->args[0] : e; }

// The one number that is converted to float32 and changes along `step`, under sums, differences and products with what does
// not. Empty where nothing changes, or the value is something else.
Expr changing_number(Expr value, int step) {
  Expr number;
  const bool found = answer_once<bool>(value, [&](Expr e, const auto& of) {
    if (!uses_axis(e, step)) return true;
    if (e->kind == ExprKind::cast && e->dtype == DType::f32) {
      const Expr whole = e->args[0], bytes = stored_bytes(whole), inner = bits_of_number(bytes) >= 8 ? bytes : whole;
      if (bits_of_number(inner) == 0 || (bool(number) && number != inner)) return false;
      number = inner;
      return true;
    }
    const bool linear =
        e->kind == ExprKind::call && e->dtype == DType::f32 && (e->fn == Fn::add || e->fn == Fn::sub || e->fn == Fn::mul);
    return linear && of(e->args[0]) && of(e->args[1]);
  });
  return found ? number : Expr();
}

// Without casts between integers that change no value that the operand can have.
Expr without_idle_casts(Expr e) {
  while (e->kind == ExprKind::cast && is_integer(e->dtype) && is_integer(e->args[0]->dtype) &&
         e->args[0]->kind != ExprKind::load) {
    const auto range = integer_range(e->args[0]);
    const int bits = 8 * static_cast<int>(size_of(e->dtype));
    if (!range || bits > 32) break;
    const int64_t below = is_signed(e->dtype) ? -(int64_t{1} << (bits - 1)) : 0;
    if (!range->within(below, below + (int64_t{1} << bits) - 1)) break;
    e = e->args[0];
  }
  return e;
}

// Differences of small integers are exact in float32, before and behind the conversion: of a number less its zero point the
// number is to be found.
Expr as_float(Expr converted) {
  return answer_once<Expr>(converted, [](Expr n, const auto& of) {
    const Expr e = without_idle_casts(n);
    if (e->dtype != DType::i32 || e->kind != ExprKind::call || (e->fn != Fn::sub && e->fn != Fn::add))
      return cast(e, DType::f32);
    for (Expr a : e->args)
      if (const auto range = integer_range(a); !range || !range->within(-65536, 65536)) return cast(e, DType::f32);
    return call(e->fn, {of(e->args[0]), of(e->args[1])});
  });
}
Expr with_float_differences(Expr value) {
  return rewrite(value, [](Expr n) -> Expr {
    const bool converts = n->kind == ExprKind::cast && n->dtype == DType::f32 && is_integer(n->args[0]->dtype);
    return converts ? as_float(n->args[0]) : Expr();
  });
}

// The axes after the last one is split: runs of `run` steps, words of `steps`.
struct SplitAxis {
  Shape extents;   // without those of extent 1
  Expr place;      // of a step, in them
  int inside = 0;  // how many of the axes lie within a run
};
SplitAxis split_axis(int axis_id, int64_t extent, int64_t run, int64_t steps) {
  SplitAxis split;
  split.place = 0;
  int64_t factors[] = {extent / run, run / steps, steps};
  for (int k = 0; k < 3; ++k) {
    split.place = split.place * Expr(factors[k]);
    if (factors[k] == 1) continue;
    split.place = split.place + axis(axis_id + static_cast<int>(split.extents.size()));
    split.extents.push_back(factors[k]);
    split.inside += k > 0;
  }
  return split;
}

// Numbers of 8 bits as int32, without a sign.
constexpr int below_zero = 128;
Expr as_unsigned(Expr number) {
  if (number->dtype == DType::i32) return number;
  const Expr wide = cast(number, DType::i32);
  return number->dtype == DType::i8 ? wide + int_constant(below_zero, DType::i32) : wide;
}

Expr with_axis(Expr e, int axis_id, Expr place) {
  return rewrite(e, [&](Expr n) { return n->kind == ExprKind::axis && n->id == axis_id ? place : Expr(); });
}

}  // namespace

std::optional<CompactForm> compact_form(const Definition& d, const Operand& operand, const Definition& made,
                                        const std::vector<Symbol>& symbols) {
  const int last = static_cast<int>(d.domain.size()) - 1;
  if (d.accumulator != DType::f32 || d.reduced == 0 || !operand.conditions.empty() || !made.is_plain()) return std::nullopt;
  const int64_t* extent = d.domain.back().if_int();
  if (!extent || *extent < 2) return std::nullopt;
  for (size_t k = 0; k < made.out_index.size(); ++k)
    if (made.out_index[k] != axis(static_cast<int>(k))) return std::nullopt;
  CompactForm form;
  form.value = simplify(with_float_differences(substitute_axes(made.body, operand.load->args)), Bounds(symbols, d.domain));
  constexpr int64_t longest = 1 << 14, shortest = 16;
  std::vector<int64_t> runs = {*extent};
  for (int64_t run = longest; run >= shortest; run /= 2)
    if (run < *extent && *extent % run == 0) runs.push_back(run);
  for (int64_t run : runs) {  // does all but one number stay along a run?
    Shape domain = d.domain;
    domain.back() = *extent / run;
    domain.push_back(run);
    const Expr value =
        simplify(with_axis(form.value, last, axis(last) * Expr(run) + axis(last + 1)), Bounds(symbols, domain));
    const Expr number = changing_number(value, last + 1);
    if (!number) continue;
    form.run = run;
    form.bits = bits_of_number(number);
    if (run % form.steps_in_word() != 0) continue;
    return form;
  }
  return std::nullopt;
}

int split_into_runs(Definition& d, Contraction& c, CompactForm& form, const std::vector<Symbol>& symbols) {
  const int last = static_cast<int>(d.domain.size()) - 1;
  const SplitAxis split = split_axis(last, d.domain.back().as_int(), form.run, form.steps_in_word());
  d.domain.pop_back();
  d.domain.insert(d.domain.end(), split.extents.begin(), split.extents.end());
  d.reduced += static_cast<int>(split.extents.size()) - 1;
  const Bounds bounds(symbols, d.domain);
  for (Expr* e : {&c.a.load, &c.b.load, &form.value}) *e = simplify(with_axis(*e, last, split.place), bounds);
  for (Expr& e : c.a.conditions) e = simplify(with_axis(e, last, split.place), bounds);
  d.body = c.body();
  return split.inside;
}

CompactOperand pack_compact(Graph& graph, const Definition& d, const CompactForm& form, int lanes_axis, int64_t block) {
  CompactOperand compact;
  auto packed = [&](Expr value) {
    PackedOperand p = pack_value(graph, d, value, lanes_axis, block);
    compact.kernels.push_back(std::move(p.kernel));
    return p.load;
  };
  const int last = static_cast<int>(d.domain.size()) - 1, steps = form.steps_in_word();
  const Expr stored = changing_number(form.value, last);
  Expr number;
  if (steps == 1) {
    number = packed(stored);
  } else {
    const Bounds bounds(graph.symbols, d.domain);
    const Expr unsigned_number = as_unsigned(stored);
    Expr word = int_constant(0, DType::i32);
    for (int k = 0; k < steps; ++k) {
      const Expr one = simplify(with_axis(unsigned_number, last, Expr(k)), bounds);
      word = call(Fn::bit_or, {word, call(Fn::shift_left, {one, int_constant(form.place_in_word(k), DType::i32)})});
    }
    const Expr step = axis(last),
               shift = cast(floor_mod(step, 4) * Expr(8) + floor_div(step, 4) * Expr(form.bits), DType::i32);
    compact.words = packed(word);
    number =
        call(Fn::bit_and, {call(Fn::shift_right, {compact.words, shift}), int_constant((1 << form.bits) - 1, DType::i32)});
  }
  compact.number = cast(number, DType::f32);
  const bool moved = steps > 1 && stored->dtype == DType::i8;  // by as_unsigned()
  const Expr made = moved ? compact.number - float_constant(below_zero, DType::f32) : compact.number;
  // What stays along a run is packed as narrow as it is before it is converted, unless it is the same for all lanes.
  compact.value = answer_once<Expr>(form.value, [&](Expr e, const auto& of) -> Expr {
    if (uses_axis(e, last)) {
      if (e->kind == ExprKind::cast) return made;
      return call(e->fn, {of(e->args[0]), of(e->args[1])});
    }
    if (!uses_axis(e, lanes_axis)) return e;
    if (e->kind == ExprKind::cast && e->dtype == DType::f32) {
      const Expr from = e->args[0];
      if (is_half(from->dtype)) return cast(packed(from), DType::f32);
      const auto range = is_integer(from->dtype) ? integer_range(from) : std::nullopt;
      if (range && range->within(0, 255)) return cast(packed(cast(from, DType::u8)), DType::f32);
      if (range && range->within(-128, 127)) return cast(packed(cast(from, DType::i8)), DType::f32);
    }
    return packed(e);
  });
  return compact;
}

// Along sums, differences and products with what stays the same.
Expr sum_of_run(const CompactOperand& compact, Expr products, Expr factors) {
  const auto changes = [&](Expr e) { return any_of(e, [&](Expr n) { return n == compact.number; }); };
  return answer_once<Expr>(compact.value, [&](Expr e, const auto& of) -> Expr {
    if (e == compact.number) return products;
    if (!changes(e)) return e * factors;
    const Expr a = e->args[0], b = e->args[1];
    if (e->fn != Fn::mul) return call(e->fn, {of(a), of(b)});
    return changes(a) ? of(a) * b : a * of(b);
  });
}

}  // namespace metac
