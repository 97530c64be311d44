#include "compiler/target/cpu/word_products.h"

#include <algorithm>

#include "compiler/loops/loop_transforms.h"
#include "compiler/region/split_residues.h"
#include "compiler/target/cpu/layouts/contraction_axes.h"
#include "compiler/tensor/axes.h"

namespace metac {

void bring_out_axes(Definition& d, const std::vector<Symbol>& symbols) {
  drop_unit_axes(d, symbols);
  split_residues(d, symbols, [](const Definition&, int, Expr) { return nullptr; });
}

int word_axis(const Definition& d, const Operand& a, Expr b) {
  int best = -1;
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
    if (!extent || *extent < 2 || (best >= 0 && *extent <= d.domain[static_cast<size_t>(best)].as_int())) continue;
    int in_a = 0, in_b = 0;
    bool steps = true;
    for (Expr e : a.load->args) {
      if (!uses_axis(e, k)) continue;
      Expr step = stride_of(e, k);
      steps = steps && bool(step) && step.is_int(1);
      ++in_a;
    }
    for (Expr e : b->args) {
      if (!uses_axis(e, k)) continue;
      steps = steps && e == axis(k);
      ++in_b;
    }
    for (Expr c : a.conditions) steps = steps && !uses_axis(c, k);
    if (steps && in_a == 1 && in_b == 1) best = k;
  }
  return best;
}

bool has_lanes(const Definition& d, Expr a, Expr b, int vector_bytes, double filled) {
  for (int k : axes_used(b, 0, d.kept())) {
    const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
    if (!uses_axis(a, k) && (!extent || static_cast<double>(*extent * 4) >= filled * vector_bytes)) return true;
  }
  return false;
}

bool share_kept_axes(const Definition& d, Expr a, Expr b) {
  const std::vector<int> of_a = axes_used(a, 0, d.kept()), of_b = axes_used(b, 0, d.kept());
  return std::find_first_of(of_a.begin(), of_a.end(), of_b.begin(), of_b.end()) != of_a.end();
}

bool fills_lanes_by_groups(const Definition& d, Expr a, Expr b, int word, int vector_bytes) {
  constexpr int lanes = 16;  // of the vectors that the shuffles are for
  std::vector<int> groups = axes_used(a, 0, d.kept()), filters;
  const auto is_both = [&](int k) { return uses_axis(b, k); };
  groups.erase(std::remove_if(groups.begin(), groups.end(), [&](int k) { return !is_both(k); }), groups.end());
  for (int k : axes_used(b, 0, d.kept()))
    if (!uses_axis(a, k)) filters.push_back(k);
  if (vector_bytes != 4 * lanes || groups.size() != 1 || filters.size() != 1) return false;
  const int64_t *of_group = d.domain[static_cast<size_t>(filters[0])].if_int(),
                *count = d.domain[static_cast<size_t>(groups[0])].if_int();
  const int64_t channels = d.domain[static_cast<size_t>(word)].as_int();
  if (!of_group || !count || (*of_group != 4 && *of_group != 8) || channels % 4 != 0 || channels > *of_group ||
      *of_group * *count < lanes)
    return false;
  const Expr c = axis(groups[0]);
  const auto is_channel = [&](Expr index) { return index == c * Expr(channels) + axis(word); };
  const auto is_filter = [&](Expr index) { return index == c * Expr(*of_group) + axis(filters[0]); };
  return std::any_of(a->args.begin(), a->args.end(), is_channel) &&
         std::any_of(d.out_index.begin(), d.out_index.end(), is_filter);
}

bool is_matrix(const Operand& o) {
  return o.conditions.empty() && std::all_of(o.load->args.begin(), o.load->args.end(),
                                             [](Expr e) { return e->kind == ExprKind::axis || e.is_constant(); });
}

bool is_border(const Operand& a, Expr condition) {
  return std::any_of(condition->args.begin(), condition->args.end(),
                     [&](Expr side) { return std::count(a.load->args.begin(), a.load->args.end(), side) > 0; });
}

bool repeats_residues(const Definition& d, Expr load) {
  const auto is_among = [&](Fn fn, Expr e) {
    return std::any_of(load->args.begin(), load->args.end(), [&](Expr index) {
      return any_of(index, [&](Expr n) { return n->kind == ExprKind::call && n->fn == fn && n->args == e->args; });
    });
  };
  const auto repeats = [&](Expr e) {
    if (e->kind != ExprKind::call || e->fn != Fn::floor_mod || is_among(Fn::floor_div, e)) return false;
    for (int k : axes_used(e, 0, d.kept()))
      if (const Expr extent = d.domain[static_cast<size_t>(k)];
          !extent.if_int() || !e->args[1].if_int() || extent.as_int() > e->args[1].as_int())
        return true;
    return false;
  };
  return std::any_of(load->args.begin(), load->args.end(), [&](Expr index) { return any_of(index, repeats); });
}

Expr products_of_element(const Definition& d) {
  Expr products = 1;
  for (size_t k = static_cast<size_t>(d.kept()); k < d.domain.size(); ++k) products = products * d.domain[k];
  return products;
}

bool sum_fits(const Definition& d, const IntegerRange& a, const IntegerRange& b) {
  const auto size = [](const IntegerRange& r) { return static_cast<double>(std::max(std::abs(r.low), std::abs(r.high))); };
  double most = size(a) * size(b);
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    const int64_t* extent = d.domain[static_cast<size_t>(k)].if_int();
    if (!extent) return false;
    most *= static_cast<double>(*extent);
  }
  return most < 2147483648.0;
}

Expr word_of(const std::vector<Expr>& elements, int bits) {
  Expr word = elements.at(0);
  for (size_t k = 1; k < elements.size(); ++k) {
    const Expr shift = int_constant(bits * static_cast<int64_t>(k), DType::i32);
    word = call(Fn::bit_or, {word, call(Fn::shift_left, {elements[k], shift})});
  }
  return word;
}

bool is_read_elsewhere(const FusedRegion& region, const Definition& reader, Expr load) {
  bool reads = false;
  for (const Item& item : region.items) {
    if (item.op)
      for (const Var* in : item.op->inputs) reads = reads || (bool(in) && in->id == load->id);
    for (const Definition& d : item.group.stages)
      visit_loads(d, [&](Expr n) { reads = reads || (n->id == load->id && (&d != &reader || n != load)); });
  }
  return reads;
}

void replace_sum(Definition& d, Expr value) {
  d.epilogue =
      rewrite(d.epilogue, [&](Expr n) { return n->kind == ExprKind::load && n->id == reduced_value ? value : Expr(); });
}

void move_axis_last(Definition& d, int k) {
  std::vector<int> position;
  const int last = static_cast<int>(d.domain.size()) - 1;
  for (int n = 0; n <= last; ++n) position.push_back(n == k ? last : n > k ? n - 1 : n);
  permute_axes(d, position);
}

bool is_filtered_minimally(const Definition& d, int winograd) {
  if (winograd < 2) return false;
  const auto sum = sum_of_products(d);
  const auto one = [](const std::vector<AxisStep>& steps) {
    return steps.size() == 1 && bool(steps[0].step) && steps[0].step.is_int(1);
  };
  return sum && std::count_if(sum->windows.begin(), sum->windows.end(), [&](const WindowOfSum& w) {
                  return one(w.points) && one(w.taps) && d.domain[static_cast<size_t>(w.taps[0].axis)].is_int(3);
                }) >= 2;
}

}  // namespace metac
