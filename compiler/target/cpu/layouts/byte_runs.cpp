#include "compiler/target/cpu/layouts/byte_runs.h"

#include <algorithm>

#include "compiler/tensor/axes.h"

namespace metac {
namespace {

constexpr double largest = 127;
constexpr double smallest = 0x1p-119;  // below, runs are zeros: largest / magnitude might be infinite

// Is the sum of a run's products of such numbers and bytes exact in float32?
bool is_exact(const CompactForm& form) {
  constexpr int64_t longest_run = 1 << 12, exact = 1 << 24;
  return form.run <= longest_run && form.run * ((1 << form.bits) - 1) * static_cast<int64_t>(largest) <= exact;
}

// Does the sum's one axis go along x's last one, in order?
bool runs_along_rows(const Definition& d, const Operand& data, const Var* x) {
  const int last = static_cast<int>(d.domain.size()) - 1;
  if (d.reduced != 1 || !data.conditions.empty() || x->rank() == 0 || x->dtype() != DType::f32) return false;
  if (x->shape().back() != d.domain.back() || data.load->args.back() != axis(last)) return false;
  for (size_t k = 0; k + 1 < data.load->args.size(); ++k)
    if (uses_axis(data.load->args[k], last)) return false;
  return true;
}

Definition plain(Var* out, Expr body, const std::vector<int>& nodes) {
  Definition d;
  d.out = out;
  d.domain = out->shape();
  d.body = body;
  d.out_index = identity_indices(out->rank());
  d.nodes = nodes;
  return d;
}

// Along one more axis, of a run's steps, summed in float32: `value` is what is made of the sum.
Definition reduced(Definition d, int64_t run, Expr term, Reduce how, Expr value) {
  d.domain.push_back(run);
  d.reduced = 1;
  d.reduce = how;
  d.body = term;
  d.epilogue = value;
  return d;
}

ByteRuns round_to_bytes(Graph& graph, const Var* x, int64_t run, const std::vector<int>& nodes,
                        std::vector<Definition>& kernels) {
  const int rows = x->rank() - 1;
  const Expr sum = load(reduced_value, DType::f32, {}), zero = float_constant(0, DType::f32);
  Shape by_run(x->shape().begin(), x->shape().end() - 1);
  by_run.push_back(floor_div(x->shape().back(), run));
  Shape with_two = by_run;
  with_two.push_back(2);
  ByteRuns made;
  Var* const magnitudes = graph.make_var(Type{TypeKind::tensor, DType::f32, by_run});
  made.scales = graph.make_var(Type{TypeKind::tensor, DType::f32, with_two});
  made.bytes = graph.make_var(Type{TypeKind::tensor, DType::i8, x->shape()});
  // Element `step` of the run at axis `rows`, and what it is in units of the run's scale.
  const auto element = [&](Expr step) {
    std::vector<Expr> at = identity_indices(rows);
    at.push_back(axis(rows) * Expr(run) + step);
    return load(x->id, DType::f32, at);
  };
  const auto rounded = [&](Expr value, Expr of_run) {
    std::vector<Expr> at = identity_indices(rows);
    at.push_back(of_run);
    const Expr magnitude = load(magnitudes->id, DType::f32, at);
    const Expr units =
        select(magnitude < float_constant(smallest, DType::f32), zero, float_constant(largest, DType::f32) / magnitude);
    const Expr whole = call(Fn::rint, {value * units}), limit = float_constant(largest, DType::f32);
    return min(max(whole, float_constant(-largest, DType::f32)), limit);
  };
  kernels.push_back(reduced(plain(magnitudes, {}, nodes), run, call(Fn::abs, {element(axis(rows + 1))}), Reduce::max, sum));
  Definition scales = plain(made.scales, {}, nodes);
  std::vector<Expr> at = identity_indices(rows + 1);
  const Expr scale = load(magnitudes->id, DType::f32, at) / float_constant(largest, DType::f32);
  kernels.push_back(reduced(scales, run, rounded(element(axis(rows + 2)), axis(rows)), Reduce::add,
                            select(equal(axis(rows + 1), Expr(0)), scale, sum)));
  const Expr value = load(x->id, DType::f32, identity_indices(rows + 1));
  kernels.push_back(plain(made.bytes, cast(rounded(value, floor_div(axis(rows), run)), DType::i8), nodes));
  for (Definition& d : kernels) simplify(d, graph.symbols);
  return made;
}

// At the run of what `data` reads: its scale, the sum of its bytes.
Expr of_run(const ByteRuns& bytes, Expr data, const CompactForm& form, int64_t which) {
  std::vector<Expr> at = data->args;
  at.back() = floor_div(at.back(), form.run);
  at.push_back(which);
  return load(bytes.scales->id, DType::f32, at);
}

}  // namespace

bool ByteData::may_be_read(const Definition& d, const Operand& data, const Var* x, const CompactForm& form,
                           const CpuTarget& cpu) const {
  const bool pairs = cpu.vector_bytes == 32;  // pairs_s8u8, pairs_s8s8 (runtime/device/dot.h)
  const bool fills_words = form.bits < 8 || (form.bits == 8 && form.run % 4 == 0);
  return d.int8_data && (cpu.byte_products || pairs) && fills_words && is_exact(form) && runs_along_rows(d, data, x);
}

ByteRuns ByteData::of(const Var* x, int64_t run, const std::vector<int>& nodes, std::vector<Definition>& kernels) {
  const auto [known, fresh] = made_.try_emplace({x->id, run});
  if (fresh) known->second = round_to_bytes(graph_, x, run, nodes, kernels);
  return known->second;
}

Expr element_of(const ByteRuns& bytes, Expr data, const CompactForm& form) {
  return cast(load(bytes.bytes->id, DType::i8, data->args), DType::f32) * of_run(bytes, data, form, 0);
}

BytesOfRun product_of_bytes(const ByteRuns& bytes, Expr data, const CompactForm& form, const CompactOperand& compact,
                            int step, const CpuTarget& cpu) {
  constexpr int64_t low_bytes = 0x01010101;
  const bool four_bytes = form.bits == 8;  // a word of them is what is packed
  std::vector<Expr> word = data->args;
  word.back() = rewrite(word.back(), [&](Expr n) { return n == axis(step) ? axis(step) * Expr(4) : Expr(); });
  const Expr shift = cast(axis(step) * Expr(form.bits), DType::i32),
             sum = cast(load(reduced_value, DType::i32, {}), DType::f32);
  // Two products of unsigned bytes do not fit an int16. Those of bytes less 128 do, which are signed.
  const bool centred = four_bytes && !cpu.byte_products;
  constexpr int64_t middle = 128, middles = 0x80808080;
  const int64_t most = centred ? middle : (int64_t{1} << form.bits) - 1;
  BytesOfRun product;
  product.words = form.steps_in_word() / 4;
  product.data = load(bytes.bytes->id, DType::i32, word);
  product.numbers =
      four_bytes
          ? compact.words
          : call(Fn::bit_and, {call(Fn::shift_right, {compact.words, shift}), int_constant(most * low_bytes, DType::i32)});
  if (!cpu.byte_products) product.words_in_pairs = INT16_MAX / (2 * most * static_cast<int64_t>(largest));
  const Expr of_bytes = of_run(bytes, data, form, 1);
  Expr products = sum;
  if (centred) {
    product.pairs = Fn::pairs_s8s8;
    product.numbers =
        call(Fn::bit_xor, {product.numbers, int_constant(static_cast<int32_t>(static_cast<uint32_t>(middles)), DType::i32)});
    products = sum + float_constant(static_cast<double>(middle), DType::f32) * of_bytes;
  }
  product.sum = of_run(bytes, data, form, 0) * sum_of_run(compact, products, of_bytes);
  return product;
}

}  // namespace metac
