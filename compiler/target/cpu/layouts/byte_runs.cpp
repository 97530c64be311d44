#include "compiler/target/cpu/layouts/byte_runs.h"

#include "compiler/tensor/axes.h"

namespace metac {
namespace {

constexpr double largest = 127;

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

}  // namespace

bool runs_along_rows(const Definition& d, const Operand& data, const Var* x) {
  const int last = static_cast<int>(d.domain.size()) - 1;
  if (d.reduced != 1 || !data.conditions.empty() || x->rank() == 0 || x->dtype() != DType::f32) return false;
  if (x->shape().back() != d.domain.back() || data.load->args.back() != axis(last)) return false;
  for (size_t k = 0; k + 1 < data.load->args.size(); ++k)
    if (uses_axis(data.load->args[k], last)) return false;
  return true;
}

ByteRuns round_to_bytes(Graph& graph, const Var* x, int64_t run, const std::vector<int>& nodes) {
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
    const Expr units = select(equal(magnitude, zero), zero, float_constant(largest, DType::f32) / magnitude);
    const Expr whole = call(Fn::rint, {value * units}), limit = float_constant(largest, DType::f32);
    return min(max(whole, float_constant(-largest, DType::f32)), limit);
  };
  made.kernels.push_back(
      reduced(plain(magnitudes, {}, nodes), run, call(Fn::abs, {element(axis(rows + 1))}), Reduce::max, sum));
  Definition scales = plain(made.scales, {}, nodes);
  std::vector<Expr> at = identity_indices(rows + 1);
  const Expr scale = load(magnitudes->id, DType::f32, at) / float_constant(largest, DType::f32);
  made.kernels.push_back(reduced(scales, run, rounded(element(axis(rows + 2)), axis(rows)), Reduce::add,
                                 select(equal(axis(rows + 1), Expr(0)), scale, sum)));
  const Expr value = load(x->id, DType::f32, identity_indices(rows + 1));
  made.kernels.push_back(plain(made.bytes, cast(rounded(value, floor_div(axis(rows), run)), DType::i8), nodes));
  for (Definition& d : made.kernels) simplify(d, graph.symbols);
  return made;
}

}  // namespace metac
