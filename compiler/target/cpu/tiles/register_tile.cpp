#include "compiler/target/cpu/tiles/register_tile.h"

#include <algorithm>
#include <numeric>

#include "compiler/machine/cpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tensor/definition.h"

namespace metac {
namespace {

constexpr const CpuCosts& cost = cpu_costs;

// Lines that one step brings from the second-level cache. Data is read along the sum, a line for 16 steps, unless more
// points than the cache has ways lie at distances that map them to the same ones: then each step brings its line anew.
double data_lines(const SumShape& sum, int points) {
  double per_step = 4.0 / cost.line_bytes;
  if (sum.point_bytes <= 0) return points * per_step;
  if (sum.point_bytes < cost.line_bytes) return static_cast<double>(points * sum.point_bytes) / cost.line_bytes * per_step;
  int64_t places = sum.point_bytes % cost.line_bytes == 0 ? cost.way_bytes / std::gcd(sum.point_bytes, cost.way_bytes)
                                                          : cost.way_bytes / cost.line_bytes;
  bool collide = (points + places - 1) / places > cost.cache_ways - 2;
  return collide ? points : points * per_step;
}

// The lanes' operand is read in order, panel by panel: a panel that stays in the first-level cache comes once.
double panel_lines(const SumShape& sum, int vectors, int vector_lanes) {
  int64_t bytes_per_step = int64_t{4} * vectors * vector_lanes;
  bool stays = sum.steps > 0 && sum.steps <= cost.panel_bytes_kept / bytes_per_step;
  return stays ? 0 : static_cast<double>(bytes_per_step) / cost.line_bytes;
}

int registers_of_sums(const SumShape& sum, int points, int vectors) {
  return (sum.words ? 1 : 0) + points * vectors * (sum.bytes || (sum.runs && points <= most_points_of_runs) ? 2 : 1);
}

// What a tile leaves free. Compilers bring loads of the next step forward: of tiles that leave one register of 32 (9 points
// by 3 vectors, 14 by 2) LLVM 19 often keeps all sums in memory, at half the speed; of those that leave two it does not.
// With 16 registers the fullest tiles are the fastest.
constexpr int spare_registers(int registers) { return registers >= 32 ? 2 : 0; }

}  // namespace

// Loads that the ports have room for still cost, and so
// do lines from the second-level cache; the weights are fitted to measurements.
double tile_cycles(const SumShape& sum, int points, int vectors, int vector_lanes) {
  const int taps = sum.taps;
  double products = taps * points * vectors / cost.multiply_adds, chain = cost.multiply_latency * taps;
  if (sum.lanes_in_both)
    return std::max(
               {products, ((points + taps - 1) * vectors + taps * vectors) / cost.loads_a_cycle * cost.load_stall, chain}) +
           cost.step;
  double loads = points + vectors;
  return std::max({products, loads / cost.loads_a_cycle * cost.load_stall, chain}) + cost.step + cost.load * loads +
         cost.data_line * data_lines(sum, points) + cost.panel_line * panel_lines(sum, vectors, vector_lanes);
}

std::string misfit_of(const SumShape& sum, int points, int vectors, int vector_lanes, int registers) {
  const int64_t blocks = sum.lanes > 0 ? (sum.lanes + vector_lanes - 1) / vector_lanes : 0;
  if (sum.points > 0 && points > sum.points) return concat("there are ", sum.points, " points");
  if (vectors > sum.most_vectors) return concat("at most ", sum.most_vectors, " vectors");
  if (blocks > 0 && vectors > blocks) return concat("the lanes fill ", blocks, " vectors");
  if (sum.whole_panels && blocks % vectors != 0) return concat("the ", blocks, " vectors of the lanes are no multiple");
  const int wanted =
      registers_of_sums(sum, points, vectors) + vectors + (sum.taps > 1 ? (points + sum.taps - 1) * vectors : 1);
  if (wanted > registers) return concat("it wants ", wanted, " registers of ", registers);
  return "";
}

Tile choose_tile(const SumShape& sum, int vector_lanes, int registers) {
  Tile best;
  best.cycles = -1;
  int64_t points = sum.points > 0 ? sum.points : 56, lanes = sum.lanes > 0 ? sum.lanes : 256;
  int64_t blocks = std::max<int64_t>(1, (lanes + vector_lanes - 1) / vector_lanes);
  for (int vectors = 1; vectors <= sum.most_vectors && vectors <= blocks; ++vectors) {
    if ((sum.whole_panels && blocks % vectors != 0) || (sum.only_vectors != 0 && vectors != sum.only_vectors)) continue;
    for (int t = 1; t <= 28 && t <= points; ++t) {
      int held = sum.taps > 1 ? (t + sum.taps - 1) * vectors : 1;
      if (registers_of_sums(sum, t, vectors) + vectors + held > registers - spare_registers(registers)) break;
      auto row = [&](int v) {
        double full = static_cast<double>(points / t) * tile_cycles(sum, t, v, vector_lanes);
        return points % t ? full + tile_cycles(sum, static_cast<int>(points % t), v, vector_lanes) : full;
      };
      int last = static_cast<int>(blocks % vectors);  // vectors of the last panel, where they are fewer
      double cycles = static_cast<double>(blocks / vectors) * row(vectors) + (last ? row(last) : 0);
      if (best.cycles < 0 || cycles < best.cycles * 0.995) best = {t, vectors, cycles};
    }
  }
  return best;
}

bool needs_registers(Expr epilogue) {
  constexpr int many = 4;
  int values = 0;
  visit(epilogue, [&](Expr n) { values += n->kind == ExprKind::load && n->id != reduced_value; });
  return values >= many || calls_elementary(epilogue);
}

size_t choose_tiled_axis(const std::vector<int64_t>& extents) {
  constexpr int64_t unknown = 4;  // an open batch is often short, and what is left of it is done point by point
  auto points = [&](size_t k) { return extents[k] > 0 ? extents[k] : unknown; };
  size_t best = extents.size() - 1;
  if (points(best) >= few_tiled_points) return best;
  for (size_t k = extents.size() - 1; k-- > 0;)
    if (points(k) > points(best)) best = k;
  return best;
}

}  // namespace metac
