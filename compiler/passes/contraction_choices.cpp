#include "compiler/passes/contraction_choices.h"

#include "compiler/passes/plan_winograd.h"
#include "compiler/support/diagnostic.h"

namespace metac {

std::optional<WinogradPlan> choose_algorithm(const Definition& d, const LaneChoice& w, bool prepared,
                                             const CompileOptions& options) {
  auto planned = [&](int m) { return plan_winograd(d, w.c, w.lanes_axis, options.cpu, options.winograd, prepared, m); };
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
  if (plan) plan->subject = subject;
  return plan;
}

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

}  // namespace metac
