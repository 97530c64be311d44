#include "compiler/tensor/layout_rules.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/ir/walks.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/group.h"

namespace metac {

// Elements to leave after each row.
static int64_t gap_for(Expr extent) { return extent.if_int() && extent.as_int() % 1024 == 0 ? 16 : 0; }

Layout last(const Shape& shape, int the_axis) {
  Layout layout;
  for (int k = 0; k < static_cast<int>(shape.size()); ++k)
    if (k != the_axis) layout.order.push_back(k);
  layout.order.push_back(the_axis);
  layout.gap = gap_for(shape[static_cast<size_t>(the_axis)]);
  return layout;
}

std::optional<Layout> order_of_loops(const Definition& d) {
  int rank = d.out->rank();
  std::vector<std::pair<int, int>> axes;  // of the loops, of the result
  for (int k = 0; k < rank; ++k) {
    Expr e = d.out_index[static_cast<size_t>(k)];
    if (e->kind == ExprKind::axis)
      axes.push_back({e->id, k});
    else if (!e.is_int(0))
      return std::nullopt;
    else
      axes.push_back({-1, k});
  }
  std::sort(axes.begin(), axes.end());
  if (rank == 0 || axes.back().second == rank - 1) return std::nullopt;
  Layout layout;
  for (auto& [loop, k] : axes) layout.order.push_back(k);
  layout.gap = gap_for(d.out->shape()[static_cast<size_t>(layout.order.back())]);
  return layout;
}

// The stored axis that is last in memory of what a load reads; -1: none, or it lies plain.
static int last_stored(Expr load, const Layouts& layouts) {
  auto layout = layouts.find(load->id);
  return layout == layouts.end() || layout->second.order.empty() ? -1 : layout->second.order.back();
}

std::optional<Layout> stored_as_read(const Definition& d, const Layouts& layouts) {
  if (d.out->rank() < 3) return std::nullopt;
  auto places = [](const std::vector<Expr>& indices) {
    std::vector<Expr> out;
    std::copy_if(indices.begin(), indices.end(), std::back_inserter(out), [](Expr e) { return !e.is_constant(); });
    return out;
  };
  std::optional<Layout> found;
  visit_loads(d, [&](Expr n) {
    const int inner = last_stored(n, layouts);
    if (found || inner < 0 || places(n->args) != places(d.out_index)) return;
    auto at = std::find(d.out_index.begin(), d.out_index.end(), n->args[static_cast<size_t>(inner)]);
    if (at != d.out_index.end()) found = last(d.out->shape(), static_cast<int>(at - d.out_index.begin()));
  });
  return found;
}

// Does the result have an axis for each dim of what a load reads, which slides along it, and the windows' own axes behind?
static bool unfolds_windows(const Definition& d, Expr load) {
  const int rank = static_cast<int>(load->args.size());
  if (rank >= d.out->rank()) return false;
  for (int k = 0; k < rank; ++k) {
    const Expr step = stride_of(load->args[static_cast<size_t>(k)], k);
    if (!step || !step.if_int() || step.as_int() < 1) return false;
  }
  return true;
}

std::optional<Layout> stored_along_windows(const Definition& d, const Layouts& layouts) {
  if (d.out->rank() < 3 || d.out_index != identity_indices(d.out->rank())) return std::nullopt;
  std::optional<Layout> found;
  visit_loads(d, [&](Expr n) {
    const int inner = last_stored(n, layouts);
    if (found || inner < 0) return;
    if (static_cast<int>(n->args.size()) != d.out->rank() && !unfolds_windows(d, n)) return;
    // Every r*r-th channel becomes a pixel's where a DepthToSpace of blocks of r takes the channels apart.
    Expr step = stride_of(n->args[static_cast<size_t>(inner)], inner);
    if (bool(step) && step.if_int() && step.as_int() >= 1) found = last(d.out->shape(), inner);
  });
  return found;
}

bool runs_along_sum(Expr index, int kept) {
  int reduced = 0, slides = 0;
  for (auto& [term, step] : linear_form(index).terms) {
    if (term->kind != ExprKind::axis) return false;
    reduced += term->id >= kept && step == 1;
    slides += step > -8 && step < 8;
  }
  return reduced == 1 && slides == 1;
}

bool lanes_are_near(const Definition& d, int lanes_axis, int lanes, Expr load, Expr address,
                    const std::vector<Symbol>& symbols) {
  if (byte_looked_up(load)) return true;  // out of registers
  int block = static_cast<int>(d.domain.size());
  Bounds bounds(symbols, d.domain);
  bounds.set_axis(block, ceil_div(d.domain[static_cast<size_t>(lanes_axis)], lanes));
  for (Expr e : load->args)
    if (e->has_load) return false;
  address = simplify(address, bounds);
  auto at = [&](int lane) {
    return simplify(
        rewrite(address, [&](Expr x) { return x == axis(lanes_axis) ? axis(block) * Expr(lanes) + Expr(lane) : Expr(); }),
        bounds);
  };
  Expr first = at(0);
  for (int lane = 1; lane < lanes; ++lane) {
    Expr gap = simplify(at(lane) - first, bounds);
    if (!gap.if_int() || gap.as_int() < 0 || gap.as_int() >= lanes) return false;
  }
  return true;
}

// How far `index` overhangs below 0 and beyond `extent`; -1: not known.
static int64_t overhang(const Bounds& bounds, Expr index, Expr extent, bool below) {
  auto serves = [&](int64_t h) {
    return below ? bounds.proves_at_least(index + Expr(h), 0) : bounds.proves_less(index, extent + Expr(h));
  };
  constexpr int64_t most = 512;  // of dilated windows
  Interval range = bounds.interval(below ? index : index - extent);
  // As far as the interval says, which is the least where extents are known; with open ones the interval may be as wide as
  // their range.
  const int64_t farthest = std::max<int64_t>(0, below ? -range.low.clamped(most + 1) : range.high.clamped(most) + 1);
  const bool known = farthest <= most && serves(farthest);
  for (int64_t h : {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 24, 32, 48, 64, 96, 128})
    if ((!known || h < farthest) && serves(h)) return h;
  return known ? farthest : -1;
}

int64_t room_for_words(const Definition& d, Expr words, int inner, const Type& source, const std::vector<Symbol>& symbols) {
  const auto k = static_cast<size_t>(inner);
  const auto elements = 4 / static_cast<int64_t>(size_of(source.dtype));
  const int64_t beyond = overhang(Bounds(symbols, d.domain), words->args[k] + Expr(elements - 1), source.shape[k], false);
  return beyond < 0 ? elements : beyond;
}

int64_t room_for_groups(const Var& source, int inner, int lanes) {
  const int64_t channels = source.shape()[static_cast<size_t>(inner)].as_int();
  return (channels + lanes - 1) / lanes * lanes - channels;
}

std::optional<Halo> halo_that_serves(const Operand& operand, const Shape& shape, const std::vector<Expr>& domain,
                                     const std::vector<Symbol>& symbols) {
  const Bounds bounds(symbols, domain);
  Expr read = operand.load;
  Halo halo;
  std::vector<Expr> implied;
  double growth = 1;
  for (size_t k = 0; k < read->args.size(); ++k) {
    halo.before.push_back(overhang(bounds, read->args[k], shape[k], true));
    halo.after.push_back(overhang(bounds, read->args[k], shape[k], false));
    if (halo.before.back() < 0 || halo.after.back() < 0) return std::nullopt;
    const int64_t typical = std::max<int64_t>(1, hinted_value(shape[k], symbols));
    growth *= static_cast<double>(typical + halo.before.back() + halo.after.back()) / static_cast<double>(typical);
    implied.push_back(Expr(0) <= read->args[k]);
    implied.push_back(read->args[k] < shape[k]);
  }
  for (Expr c : operand.conditions)
    if (std::find(implied.begin(), implied.end(), c) == implied.end()) return std::nullopt;
  constexpr double most_growth = 16;
  if (growth > most_growth) return std::nullopt;
  return halo;
}

void read_instead(Definition& reader, int whole, int own) {
  const auto other = [&](Expr e) {
    return rewrite_loads(
        e, [&](Expr n, const std::vector<Expr>& at) { return n->id == whole ? load(own, n->dtype, at) : Expr(); });
  };
  reader.body = other(reader.body);
  if (reader.epilogue) reader.epilogue = other(reader.epilogue);
  for (std::vector<Expr>* list : {&reader.conditions, &reader.out_index})
    for (Expr& e : *list) e = other(e);
}

}  // namespace metac
