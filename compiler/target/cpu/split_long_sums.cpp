#include "compiler/target/cpu/split_long_sums.h"

#include "compiler/support/checked.h"
#include "compiler/tensor/contraction.h"

namespace metac {
namespace {

constexpr int64_t most_parts = 8;

// The outermost reduced axis that both operands follow and that has the most parts.
std::pair<int, int64_t> axis_to_cut(const Definition& d, const Contraction& c) {
  std::pair<int, int64_t> best = {-1, 1};
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    if (!uses_axis(c.a.load, k) || !uses_axis(c.b.load, k)) continue;
    const int64_t parts = largest_divisor(d.domain[static_cast<size_t>(k)].as_int(), most_parts);
    if (parts > best.second) best = {k, parts};
  }
  return best;
}

// Loops over the parts outside, the rest of the axis where it was.
void cut(Definition& d, int k, int64_t parts, Var* sums, const std::vector<Symbol>& symbols) {
  std::vector<Expr> moved;
  for (int n = 0; n < static_cast<int>(d.domain.size()); ++n) moved.push_back(axis(n + 1));
  const int64_t rest = d.domain[static_cast<size_t>(k)].as_int() / parts;
  moved[static_cast<size_t>(k)] = axis(0) * Expr(rest) + axis(k + 1);
  d.domain[static_cast<size_t>(k)] = rest;
  d.domain.insert(d.domain.begin(), Expr(parts));
  if (d.products) d.products = floor_div(d.products, parts);
  d.body = substitute_axes(d.body, moved);
  for (Expr& e : d.out_index) e = substitute_axes(e, moved);
  d.out_index.insert(d.out_index.begin(), axis(0));
  d.out = sums;
  d.epilogue = load(reduced_value, d.accumulator, {});
  simplify(d, symbols);
}

}  // namespace

std::optional<Definition> split_long_sum(Graph& graph, Definition& d, int64_t cache_bytes) {
  auto c = float_contraction_of(d);
  if (!c || !is_static(d.domain) || !is_static(d.out->shape())) return std::nullopt;
  auto elements = [&](const Operand& operand) {
    Expr all = element_count(graph.vars()[static_cast<size_t>(operand.load->id)]->shape());
    return all.if_int() ? static_cast<double>(all.as_int()) : 0;
  };
  const double a = elements(c->a), b = elements(c->b), result = static_cast<double>(element_count(d.out->shape()).as_int());
  if (std::min(a, b) * 4 < 0.75 * static_cast<double>(cache_bytes)) return std::nullopt;
  const auto [k, parts] = axis_to_cut(d, *c);
  if (parts < 2 || result * static_cast<double>(parts) > (a + b) / 4) return std::nullopt;
  Type type{TypeKind::tensor, d.accumulator, d.out->shape()};
  type.shape.insert(type.shape.begin(), Expr(parts));
  Var* sums = graph.make_var(type);
  Definition total = d;
  total.domain = Shape(d.domain.begin(), d.domain.begin() + d.kept());
  total.domain.push_back(parts);
  total.reduced = 1;
  total.products = Expr();
  std::vector<Expr> at = d.out_index;
  at.insert(at.begin(), axis(d.kept()));
  total.body = load(sums->id, d.accumulator, at);
  simplify(total, graph.symbols);
  cut(d, k, parts, sums, graph.symbols);
  return total;
}

}  // namespace metac
