#include "compiler/target/cpu/layouts/contraction_choices.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "compiler/machine/cpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/layouts/contraction_axes.h"
#include "compiler/target/cpu/layouts/plan_winograd.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac {
namespace {

// What `choices` takes of a transform's kind, unless it is refused there.
const Transform* asked(Choices* choices, const std::string& subject, const std::string& kind,
                       const std::vector<Transform>& candidates) {
  return choices ? choices->ask(subject, kind, candidates) : nullptr;
}

// Sets the register tile. `plan.about` is known.
void set_tile(ContractionPlan& plan, const SumShape& sum, int lanes, int registers, Choices* choices) {
  std::vector<Tile> tiles;
  std::vector<Transform> names;
  for (int vectors = 0; vectors <= sum.most_vectors; ++vectors) {  // 0: as many as the model wants
    SumShape with = sum;
    with.only_vectors = vectors;
    const Tile tile = choose_tile(with, lanes, registers);
    if (tile.cycles < 0) continue;
    tiles.push_back(tile);
    names.push_back(tile_transform(tile.points, tile.vectors));
  }
  METAC_ASSERT(!tiles.empty(), "a contraction without a tile");
  plan.vectors = tiles[0].vectors;
  plan.tile = tiles[0].points;
  if (const Transform* taken = asked(choices, plan.about, "tile", names)) {
    const auto [points, vectors] = read_tile(taken->argument);
    const std::string misfit = misfit_of(sum, points, vectors, lanes, registers);
    if (misfit.empty())
      plan.tile = points, plan.vectors = vectors;
    else
      choices->refuse(plan.about, *taken, misfit);
  }
}

// Sets the share of the cache that blocks of points are cut for.
void set_block(ContractionPlan& plan, Choices* choices) {
  if (const Transform* taken =
          asked(choices, plan.about, "block", {{"block", "1"}, {"block", "0.5"}, {"block", "2"}, {"block", "0.25"}})) {
    double share = 0;
    const char* const end = taken->argument.data() + taken->argument.size();
    const auto read = std::from_chars(taken->argument.data(), end, share);
    if (read.ec == std::errc() && read.ptr == end && 0 < share && share <= 16)
      plan.cache_share = share;
    else
      choices->refuse(plan.about, *taken, "a block is a share of the second-level cache, more than 0 and at most 16");
  }
}

// The points of a tile in whose registers an operand of few bits is widened, where rows may be few.
void set_few_tile(ContractionPlan& plan, const SumShape& sum, int registers) {
  if (sum.runs) plan.few_tile = plan.tile;
  if (sum.points > 0) return;
  const auto fits = [&](int points) { return 2 * points * plan.vectors + plan.vectors + 1 <= registers; };
  for (plan.few_tile = most_points_of_runs; plan.few_tile > 1 && !fits(plan.few_tile);) --plan.few_tile;
}

// The points that an operand serves; 0 where a run alone knows, however many the hints say.
int64_t points_or_open(const Definition& d, Expr operand, int64_t points) {
  for (int k = 0; k < d.kept(); ++k)
    if (!uses_axis(operand, k) && !d.domain[static_cast<size_t>(k)].if_int()) return 0;
  return points;
}

}  // namespace

std::optional<WinogradPlan> choose_algorithm(const Definition& d, const LaneChoice& w, bool prepared,
                                             const CompileOptions& options, const std::vector<Symbol>& symbols) {
  auto planned = [&](FilterWish wish) {
    return plan_winograd(d, w.c, w.lanes_axis, options.cpu, symbols, options.winograd, prepared, wish);
  };
  auto plan = planned({});
  const std::string subject = subject_of(d, w.c, w.lanes_axis);
  if (plan) plan->about = subject;
  if (!options.choices) return plan;
  auto transform = [](int m) { return m > 0 ? Transform{"filter", std::to_string(m)} : Transform{"direct", ""}; };
  std::vector<Transform> candidates = {transform(plan ? plan->outputs : 0), transform(0)};
  for (int m = 2; m <= options.winograd; m += 2)
    if (planned({.outputs = m})) candidates.push_back(transform(m));
  FilterWish wish;
  if (const Transform* algorithm = asked(options.choices, subject, "algorithm", candidates)) {
    if (*algorithm == transform(0)) return std::nullopt;
    if (std::find(candidates.begin(), candidates.end(), *algorithm) == candidates.end()) {
      options.choices->refuse(subject, *algorithm, "this sum cannot be filtered so");
      return plan;
    }
    wish.outputs = std::stoi(algorithm->argument);
  } else if (plan) {
    wish.outputs = plan->outputs;
  }
  if (wish.outputs == 0) return std::nullopt;
  const Transform* tile = asked(options.choices, subject, "tile", {});
  if (tile) std::tie(wish.tile, wish.vectors) = read_tile(tile->argument);
  const Transform* rows = asked(options.choices, subject, "rows", {});
  if (rows &&
      (std::from_chars(rows->argument.data(), rows->argument.data() + rows->argument.size(), wish.rows).ec != std::errc() ||
       wish.rows < 1))
    options.choices->refuse(subject, *rows, "a number of rows is at least 1");
  plan = planned(wish);
  METAC_ASSERT(plan, "minimal filtering that was offered");
  if (tile && (plan->tile != wish.tile || plan->vectors != wish.vectors))
    options.choices->refuse(subject, *tile, "its registers or the blocks of lanes do not allow it");
  if (rows && plan->rows != wish.rows) options.choices->refuse(subject, *rows, "blocks are smaller");
  plan->about = subject;
  return plan;
}

std::optional<ContractionPlan> plan_contraction(const Definition& d, const LaneChoice& w, bool narrow, Runs runs, Expr data,
                                                const CpuTarget& cpu, const std::vector<Symbol>& symbols,
                                                const std::string& about, Choices* choices) {
  const int lanes = cpu.vector_bytes / 4, registers = cpu.vector_registers;
  ContractionPlan plan;
  plan.lanes_axis = w.lanes_axis;
  plan.lanes_in_both = w.lanes_in_both;
  plan.about = about;
  const int64_t last_extent = d.reduced > 0 && d.domain.back().if_int() ? d.domain.back().as_int() : 0;
  if (w.lanes_in_both) plan.unrolled = last_extent > 0 && last_extent <= (narrow ? lanes : 7) ? 1 : 0;
  SumShape sum = sum_shape(d, w.c, w.lanes_axis, data, symbols);
  sum.lanes_in_both = w.lanes_in_both;
  if (runs != Runs::none) sum.points = points_or_open(d, w.c.b.load, sum.points);
  sum.runs = runs == Runs::scaled && 0 < sum.points && sum.points <= cpu_costs.few_rows;
  sum.bytes = runs == Runs::of_bytes;
  plan.matrix = cpu.matrix_products && runs == Runs::none && !narrow && !w.lanes_in_both && has_matrix_product(w.c.product);
  if (plan.matrix) sum.most_vectors = most_matrix_vectors;
  sum.words = registers < 32 && w.c.product != Fn::mul;
  sum.taps = plan.unrolled && !narrow ? static_cast<int>(last_extent) : 1;
  if (const Transform* algorithm = asked(choices, about, "algorithm", {{"direct", ""}});
      algorithm && algorithm->name != "direct")
    choices->refuse(about, *algorithm, "this sum cannot be filtered so");
  set_tile(plan, sum, lanes, registers, choices);
  set_block(plan, choices);
  if (runs == Runs::scaled) set_few_tile(plan, sum, registers);
  if (narrow && w.lanes_in_both) {
    if (plan.unrolled == 0) return std::nullopt;
    // The data of a tile waits in registers beside its sums while the steps that are printed out use it element by element.
    const int sums = registers < 32 ? registers / 2 : 24;
    plan.vectors = std::min(plan.vectors, 2);
    plan.tile = std::min({plan.tile, 12, sums / plan.vectors});
    if (const Transform* taken = asked(choices, about, "tile", {});
        taken && *taken != tile_transform(plan.tile, plan.vectors))
      choices->refuse(about, *taken, concat("a group narrower than a vector has at most 12x2, and ", sums, " sums"));
  }
  return plan;
}

}  // namespace metac
