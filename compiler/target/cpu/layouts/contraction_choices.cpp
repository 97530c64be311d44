#include "compiler/target/cpu/layouts/contraction_choices.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/layouts/contraction_axes.h"
#include "compiler/target/cpu/layouts/plan_winograd.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac {
namespace {

// Sets the register tile and the share of the cache. `plan.about` is known.
void choose_tile_and_cache(ContractionPlan& plan, const SumShape& sum, int lanes, int registers, Choices* choices) {
  std::vector<Tile> tiles;
  std::vector<std::string> names;
  for (int vectors = 0; vectors <= 4; ++vectors) {  // 0: as many as the model wants
    SumShape with = sum;
    with.only_vectors = vectors;
    const Tile tile = choose_tile(with, lanes, registers);
    if (tile.cycles < 0) continue;
    tiles.push_back(tile);
    names.push_back(concat(tile.points, " points by ", tile.vectors, " vectors"));
  }
  METAC_ASSERT(!tiles.empty(), "a contraction without a tile");
  const Tile& tile = tiles[choose(choices, plan.about, "tile", names)];
  plan.vectors = tile.vectors;
  plan.tile = tile.points;
  static const double shares[] = {1, 0.5, 2, 0.25};
  plan.cache_share = shares[choose(choices, plan.about, "block",
                                   {"whole cache", "half the cache", "twice the cache", "quarter of the cache"})];
}

}  // namespace

std::optional<WinogradPlan> choose_algorithm(const Definition& d, const LaneChoice& w, bool prepared,
                                             const CompileOptions& options, const std::vector<Symbol>& symbols) {
  auto planned = [&](int m) {
    return plan_winograd(d, w.c, w.lanes_axis, options.cpu, symbols, options.winograd, prepared, m);
  };
  auto name = [](const std::optional<WinogradPlan>& plan) {
    return plan ? concat("F(", plan->outputs, "x", plan->outputs, ", 3x3)") : std::string("direct");
  };
  std::vector<std::optional<WinogradPlan>> plans = {planned(0), std::nullopt};
  if (options.choices)
    for (int m = 2; m <= options.winograd; m += 2)
      if (auto plan = planned(m)) plans.push_back(plan);
  std::vector<std::string> names;
  for (const auto& plan : plans) names.push_back(name(plan));
  const std::string subject = subject_of(d, w.c, w.lanes_axis);
  auto plan = plans[choose(options.choices, subject, "algorithm", names)];
  if (plan) plan->about = subject;
  return plan;
}

std::optional<ContractionPlan> plan_contraction(const Definition& d, const LaneChoice& w, bool narrow, Expr data, int lanes,
                                                int registers, const std::vector<Symbol>& symbols, const std::string& about,
                                                Choices* choices) {
  ContractionPlan plan;
  plan.lanes_axis = w.lanes_axis;
  plan.lanes_in_both = w.lanes_in_both;
  plan.about = about;
  const int64_t last_extent = d.reduced > 0 && d.domain.back().if_int() ? d.domain.back().as_int() : 0;
  if (w.lanes_in_both) plan.unrolled = last_extent > 0 && last_extent <= (narrow ? lanes : 7) ? 1 : 0;
  SumShape sum = sum_shape(d, w.c, w.lanes_axis, data, symbols);
  sum.lanes_in_both = w.lanes_in_both;
  sum.taps = plan.unrolled && !narrow ? static_cast<int>(last_extent) : 1;
  choose_tile_and_cache(plan, sum, lanes, registers, choices);
  if (narrow && w.lanes_in_both) {
    if (plan.unrolled == 0) return std::nullopt;
    // The data of a tile waits in registers beside its sums while the steps that are printed out use it element by element.
    const int sums = registers < 32 ? registers / 2 : 24;
    plan.vectors = std::min(plan.vectors, 2);
    plan.tile = std::min({plan.tile, 12, sums / plan.vectors});
  }
  return plan;
}

}  // namespace metac
