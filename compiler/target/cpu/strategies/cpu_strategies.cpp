#include "compiler/target/cpu/strategies/cpu_strategies.h"

#include <algorithm>
#include <sstream>

#include "compiler/ir/walks.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/strategies/few_rows.h"
#include "compiler/target/cpu/strategies/lower_contraction.h"
#include "compiler/target/cpu/strategies/lower_group.h"
#include "compiler/target/cpu/strategies/lower_row_block.h"
#include "compiler/target/cpu/strategies/lower_winograd.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/contraction.h"

namespace metac {

// How many points the packed operand serves.
static Expr rows_of(const Definition& d) {
  const std::vector<int> in_operand = axes_used(d.body->args[1], 0, d.kept());
  Expr rows = 1;
  for (int k = 0; k < d.kept(); ++k)
    if (std::count(in_operand.begin(), in_operand.end(), k) == 0) rows = rows * d.domain[static_cast<size_t>(k)];
  return rows;
}

// Tiles run along the axis that takes fewer of them, where a run's sizes decide about two.
static Kernel lower_tiles(const Group& group, const ContractionPlan& plan, const LoweringContext& context, bool few_rows,
                          Kernel begun = {}) {
  TiledExtents extents;
  Kernel usual = lower_contraction(group, plan, context, few_rows, std::move(begun), Tiled::usual, &extents);
  if (!extents.other) return usual;
  Kernel other = lower_contraction(group, plan, context, few_rows, continued(usual), Tiled::other, nullptr);
  const auto tiles = [&](Expr along, Expr beside) { return ceil_div(along, Expr(plan.tile)) * beside; };
  return either_body(std::move(other), std::move(usual),
                     tiles(extents.other, extents.usual) < tiles(extents.usual, extents.other),
                     "points along the other axis");
}

Kernel ContractionPlan::lower(const Group& group, const LoweringContext& context) const {
  if (few_tile == 0) return lower_tiles(group, *this, context, false);
  const Expr rows = rows_of(group.stages[0]);
  ContractionPlan few = *this;
  few.tile = few_tile;
  if (rows.if_int()) return lower_tiles(group, few, context, true);
  Kernel many = lower_tiles(group, *this, context, false);
  Kernel begun = continued(many);
  return either_body(lower_tiles(group, few, context, true, std::move(begun)), std::move(many),
                     rows <= Expr(cpu_costs.few_rows), concat("up to ", cpu_costs.few_rows, " rows"));
}
Kernel WinogradPlan::lower(const Group& group, const LoweringContext& context) const {
  return lower_winograd(group, *this, context);
}
Kernel RowBlocks::lower(const Group& group, const LoweringContext& context) const {
  Kernel blocks = lower_row_block(group, by_words, context);
  const Expr rows = group.stages[0].domain[static_cast<size_t>(group.shared) - 1];
  return rows.if_int() ? blocks : with_few_rows(std::move(blocks), group, rows, context);
}
Kernel SumsByPoints::lower(const Group& group, const LoweringContext& context) const { return lower_group(group, context); }

std::vector<std::string> ContractionPlan::describe(const Group& group) const {
  std::vector<std::string> lines = {"a contraction in a register tile; what follows it is its epilogue"};
  for (std::string& line : describe_stages(group)) lines.push_back(std::move(line));
  return lines;
}

std::string ContractionPlan::to_string() const {
  return concat("contraction: lanes along i", lanes_axis, lanes_in_both ? " of both operands" : "", ", tiles of ", tile,
                " points x ", vectors, " vectors", packed < 0 ? "" : concat(", packed v", packed),
                run_axes == 0 ? "" : " in few bits", bytes ? ", multiplied as bytes" : "",
                few_tile == 0 ? "" : concat(", tiles of ", few_tile, " points where rows are few"),
                unrolled == 0 ? "" : concat(", ", unrolled, " reduced axes printed out"));
}
std::string WinogradPlan::to_string() const {
  std::string block;
  for (const FilterBlocks& b : by_size)
    block += concat(block.empty() ? "" : ", ", "at most ", b.tiles, " tiles",
                    b.lane_groups > 1 ? concat(" for ", b.lane_groups, " groups of lanes") : "",
                    &b == &by_size.back() ? "" : concat(" (of ", b.up_to, ")"));
  if (block.empty()) block = concat(rows, " rows");
  return concat("minimal filtering: F(", outputs, " x ", outputs, ", 3 x 3) along i", y, " and i", x, ", lanes along i",
                lanes_axis, ", weights v", transformed, ", tiles of ", tile, " x ", vectors, " vectors, blocks of ", block);
}

Schedule ContractionPlan::schedule() const {
  std::ostringstream share;
  share << cache_share;
  return {{"direct", ""}, tile_transform(tile, vectors), {"block", share.str()}};
}
Schedule WinogradPlan::schedule() const {
  Schedule schedule = {{"filter", std::to_string(outputs)}, tile_transform(tile, vectors)};
  if (by_size.empty() || whole_images) schedule.push_back({"rows", std::to_string(rows)});
  return schedule;
}

namespace {

bool is_kept(const Definition& d, int axis) { return 0 <= axis && axis < d.kept(); }
bool is_reduced(const Definition& d, int axis) { return d.kept() <= axis && axis < static_cast<int>(d.domain.size()); }

bool reads(const Definition& d, int var) {
  bool found = false;
  visit(d.body, [&](Expr e) { found |= e->kind == ExprKind::load && e->id == var; });
  return found;
}

// What a strategy for one sum of products needs.
std::string misfit_of_sum(const Group& group, int lanes_axis, int operand) {
  if (group.stages.size() != 1) return "it is for one definition";
  const Definition& d = group.stages[0];
  if (d.reduced == 0 || d.scatter) return "nothing is summed";
  if (!is_kept(d, lanes_axis)) return concat("no axis i", lanes_axis, " for the lanes");
  if (operand >= 0 && !reads(d, operand)) return concat("v", operand, ", which was packed for it, is not read");
  return "";
}

}  // namespace

std::string ContractionPlan::misfit(const Group& group) const {
  if (std::string wrong = misfit_of_sum(group, lanes_axis, packed); !wrong.empty()) return wrong;
  if (tile < 1 || vectors < 1 || cache_share <= 0) return "an empty tile or block";
  return unrolled <= group.stages[0].reduced ? "" : "more axes are printed out than are reduced";
}
std::string WinogradPlan::misfit(const Group& group) const {
  if (std::string wrong = misfit_of_sum(group, lanes_axis, transformed); !wrong.empty()) return wrong;
  const Definition& d = group.stages[0];
  if (tile < 1 || vectors < 1 || rows < 1 || lane_groups < 1) return "an empty tile or block";
  if (!is_kept(d, y) || !is_kept(d, x) || y == x || y == lanes_axis || x == lanes_axis)
    return "windows do not slide along two axes";
  for (int window : {window_y, window_x})
    if (!is_reduced(d, window) || !d.domain[static_cast<size_t>(window)].is_int(3)) return "a window is not of extent 3";
  return is_reduced(d, channel) ? "" : "there is no channel";
}
std::string RowBlocks::misfit(const Group& group) const {
  if (group.shared < 1 || group.stages.size() < 3) return "there are no rows that stages share";
  const Definition& last = group.stages.back();
  for (const Definition& d : group.stages) {
    if (d.scatter) return "a scatter";
    if (&d != &last && (!group.internal.count(d.out->id) || d.out->dtype() != DType::f32))
      return concat("v", d.out->id, " is read by others or no float32, and stays in the lanes");
  }
  const auto first =
      std::find_if(group.stages.begin(), group.stages.end() - 1, [](const Definition& d) { return d.reduce.has_value(); });
  const int row = group.shared - 1, column = group.shared;
  const auto makes = float_contraction_of(*first, by_words), sums = tiled_contraction_of(last, by_words);
  if (!makes || !sums) return concat(makes ? "the last" : "the first", " sum is no contraction");
  for (const auto* c : {&*makes, &*sums})
    if (!c->a.conditions.empty() || !c->b.conditions.empty()) return "a contraction has borders";
  if (first->kept() != column + 1 || first->out_index != identity_indices(column + 1))
    return concat("v", first->out->id, " has not one axis beside the shared ones");
  const bool rows_of_a = uses_axis(makes->a.load, row), columns_of_a = uses_axis(makes->a.load, column);
  if (rows_of_a == uses_axis(makes->b.load, row) || columns_of_a == uses_axis(makes->b.load, column) ||
      rows_of_a == columns_of_a)
    return "the rows and the columns of the first sum are not of one operand each";
  if (last.kept() != column + 1 || last.reduced != 1) return "the last sum is not along the rows";
  const bool weights_of_a = uses_axis(sums->a.load, row);
  if (weights_of_a == uses_axis(sums->b.load, row) ||
      !group.internal.count((weights_of_a ? sums->a.load : sums->b.load)->id))
    return "the last sum does not weigh with the rows";
  return "";
}
std::string SumsByPoints::misfit(const Group& group) const {
  const bool sums = std::all_of(group.stages.begin(), group.stages.end(), [](const Definition& d) { return !d.scatter; });
  return sums ? "" : "a scatter";
}

std::string RowBlocks::to_string() const {
  return concat("row blocks: rows along the lanes", by_words ? ", words of two bfloat16" : "");
}
std::string SumsByPoints::to_string() const { return "sums by points: in the order of memory"; }

}  // namespace metac
