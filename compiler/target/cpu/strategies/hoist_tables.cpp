#include "compiler/target/cpu/strategies/hoist_tables.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/support/checked.h"

namespace metac {
namespace {

constexpr int64_t most_points = 512, least_points = 64,
                  blocks_wanted = 32;  // of a block: tables of a dozen entries a point stay in the cache, threads have work
constexpr int64_t least_channels = 4;
constexpr int least_operations = 6;  // that the tables save for each element

class Hoisting {
 public:
  Hoisting(Kernel& kernel, const Stage& stage, const Bounds& bounds, size_t channel)
      : kernel_(kernel), s_(stage), bounds_(bounds), channel_(channel) {}

  std::optional<HoistedTables> run() {
    points_.assign(s_.kept.begin() + static_cast<int64_t>(channel_) + 1, s_.kept.end());
    out_.points = points_;
    out_.around.assign(s_.kept.begin(), s_.kept.begin() + static_cast<int64_t>(channel_));
    const Expr at = cut_into_blocks();
    Shape dims;
    std::vector<Expr> index;
    for (const Loop& l : out_.points) {
      dims.push_back(l.extent.if_int() ? l.extent : block_);
      index.push_back(axis(l.axis));
    }
    out_.place = linear_index(dims, index);
    count_ = element_count(dims);
    out_.channels = s_;
    out_.channels.body = with_tables(s_.body);
    if (saved_ < least_operations) return std::nullopt;
    out_.channels.kept = out_.points;
    out_.channels.kept.insert(out_.channels.kept.begin(), s_.kept[channel_]);
    const auto in_block = [&](Expr e) {
      return rewrite(e, [&](Expr n) { return n == axis(points_[0].axis) ? at : Expr(); });
    };
    for (Expr* e : out_.channels.expressions()) *e = in_block(*e);
    for (Expr& e : out_.entries) e = in_block(e);
    return std::move(out_);
  }

 private:
  // The outermost loop over points in blocks, which become one more loop around; returns where it is then.
  Expr cut_into_blocks() {
    int64_t inner = 1;
    for (size_t k = 1; k < points_.size(); ++k) inner = saturating_mul(inner, points_[k].extent.as_int());
    const Loop points = points_[0];
    const int64_t block = std::max<int64_t>(
        1, std::clamp(saturating_mul(points.extent.as_int(), inner) / blocks_wanted, least_points, most_points) / inner);
    block_ = Expr(block);
    if (points.extent.as_int() <= block) return axis(points.axis);
    const Loop blocks{kernel_.next_axis++, ceil_div(points.extent, block_), LoopKind::serial, {}};
    const Expr start = axis(blocks.axis) * block_;
    out_.points[0] = {kernel_.next_axis++,
                      points.extent.as_int() % block == 0 ? block_ : min(block_, points.extent - start),
                      LoopKind::serial,
                      {}};
    out_.around.push_back(blocks);
    return start + axis(out_.points[0].axis);
  }

  bool is_of_points(Expr e) const {
    return !uses_axis(e, s_.kept[channel_].axis) &&
           std::any_of(points_.begin(), points_.end(), [&](const Loop& l) { return uses_axis(e, l.axis); });
  }

  // Does it exist whatever conditions say?
  bool is_safe(Expr e) const {
    return !any_of(e, [&](Expr n) {
      if (n->kind != ExprKind::load) return false;
      if (n->id >= first_local || n->args.size() != 1 || n->args[0]->has_load) return true;
      const KernelArgument& argument = kernel_.arguments[static_cast<size_t>(n->id)];
      const Expr count = element_count(storage_shape(argument.var->shape(), argument.layout));
      const Interval range = bounds_.interval(n->args[0]);
      return !count.if_int() || range.low < 0 || range.high >= count.as_int();
    });
  }

  static int operations(Expr e) {
    int count = 0;
    visit(e, [&](Expr n) {
      if (n->has_load && (n->kind == ExprKind::call || n->kind == ExprKind::cast))
        count += n->kind == ExprKind::call && is_elementary(n->fn) ? 10 : 1;
    });
    return count;
  }

  // An address' terms: products with constants are multiplied out, as (c * height + y) * width + x has its y and x apart.
  // Addresses do not overflow. False: there are more than anybody wants apart; what is shared is a term each time.
  static bool collect_terms(Expr e, Expr factor, std::vector<Expr>& terms) {
    constexpr size_t most_terms = 64;
    if (e->has_load && e->kind == ExprKind::call && e->fn == Fn::add)
      return std::all_of(e->args.begin(), e->args.end(), [&](Expr a) { return collect_terms(a, factor, terms); });
    if (e->has_load && e->kind == ExprKind::call && e->fn == Fn::mul && e->args[1].if_int())
      return collect_terms(e->args[0], factor * e->args[1], terms);
    terms.push_back(e * factor);
    return terms.size() <= most_terms;
  }
  Expr with_table_of_places(Expr address) {
    std::vector<Expr> terms;
    if (!collect_terms(address, 1, terms)) return with_tables(address);
    Expr of_points, of_channels;
    for (Expr t : terms) {
      Expr& sum = uses_axis(t, s_.kept[channel_].axis) ? of_channels : of_points;
      sum = sum ? sum + t : t;
    }
    if (!of_points || !of_channels) return with_tables(of_points ? of_points : of_channels);
    return of_channels + with_tables(of_points);
  }

  // The largest parts that are of points alone become tables.
  Expr with_tables(Expr e) {
    if (auto found = replaced_.find(e); found != replaced_.end()) return found->second;
    Expr result = e;
    const int cost = e->has_load && is_of_points(e) && is_safe(e) ? operations(e) : 0;
    if (cost >= 2) {
      const Local table{kernel_.next_local++, e->dtype, count_};
      out_.tables.push_back(table);
      out_.entries.push_back(e);
      saved_ += cost - 1;
      result = load(first_local + table.id, e->dtype, {out_.place});
    } else if (e->kind == ExprKind::load && e->args.size() == 1 && e->args[0]->has_load) {
      result = load(e->id, e->dtype, {with_table_of_places(e->args[0])});
    } else if (!e->args.empty() && e->has_load) {
      result = rewrite(e, [&](Expr n) -> Expr {
        if (n == e) return {};
        return with_tables(n);
      });
    }
    return replaced_[e] = result;
  }

  Kernel& kernel_;
  const Stage& s_;
  const Bounds& bounds_;
  const size_t channel_;
  std::vector<Loop> points_;  // before they are cut
  HoistedTables out_;
  Expr block_, count_;
  int saved_ = 0;
  std::unordered_map<Expr, Expr> replaced_;
};

}  // namespace

std::optional<HoistedTables> hoist_tables(Kernel& kernel, const Stage& stage, const Bounds& bounds) {
  if (!stage.reduced.empty() ||
      !std::all_of(stage.kept.begin(), stage.kept.end(), [](const Loop& l) { return bool(l.extent.if_int()); }))
    return std::nullopt;
  for (size_t channel = 0; channel + 1 < stage.kept.size(); ++channel)
    if (stage.kept[channel].extent.as_int() >= least_channels)
      if (auto tables = Hoisting(kernel, stage, bounds, channel).run()) return tables;
  return std::nullopt;
}

}  // namespace metac
