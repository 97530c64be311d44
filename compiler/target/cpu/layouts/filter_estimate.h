// How long minimal filtering and the plain sum take, by a model, and in which blocks filtering is shared out.
#pragma once
#include <vector>

#include "compiler/machine/cpu_target.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/target/cpu/tiles/register_tile.h"
#include "compiler/tensor/definition.h"

namespace metac {

constexpr int64_t many_points = 840;  // which tiles of any size divide

// Core cycles, summed over the cores that share the work.
class FilterEstimate {
 public:
  // `times`: open sides are so many times as long as they typically are.
  FilterEstimate(const Definition& d, const WinogradPlan& w, const CpuTarget& cpu, const std::vector<Symbol>& symbols,
                 double times = 1);

  double direct() const;
  // Transforming the weights: nine products for each position, and what is packed and written to be read again.
  double transforming(int m) const;
  // Sets the plan's rows and groups of lanes. wanted: rows of a block, where there can be so many; 0: the best.
  double filtered(int m, WinogradPlan& plan, int64_t wanted = 0) const;
  // Of open sides: blocks for runs of ever more tiles, where those for more would take longer. Of an open batch: up to those
  // of many images, and of whole images where the sides are known.
  std::vector<FilterBlocks> blocks_by_size(int m) const;

 private:
  struct Blocks {
    double tiles = 0, cycles = -1;
    int64_t lane_groups = 1;
  };

  double all_tiles(int m) const;
  double together(int m) const;                 // tiles that are not parted: an image's, or one
  Blocks best_blocks(int m, double all) const;  // of any number of these, as even as can be
  // So many blocks of so many tiles, which are multiplied `at_once` by one another, or in tiles of any number (0).
  Blocks blocks_of(int m, double block_tiles, double blocks, double at_once) const;

  // In a register tile of so many points, as the filters (narrow groups) and the points allow.
  double products_a_cycle(double points) const;
  // In blocks whose length a run decides: in the tile for many points, and what is left by tiles of half as many, a quarter
  // and so on (tiled_sum.h).
  double products_in_any_block(double points) const;
  double products_at(double cost) const;                             // of a point, as cost_of_point has it
  double cost_of_point(int64_t tile_points, int64_t filters) const;  // of a reduction step, for each vector of filters
  Tile tile_of(int64_t points, int64_t filters) const;
  double rounded(double filters) const;
  // Few blocks are shared out by lanes; each share transforms the data again.
  static int64_t lane_groups(double blocks, int64_t lane_blocks, double products_per_transform);

  const CpuTarget& cpu_;
  double lanes_;
  int registers_;
  bool open_ = false, open_batch_ = false;  // a side is; the images are
  double height_ = 0, width_ = 0, channels_ = 0, filters_ = 0, images_ = 1, repeats_ = 1;
};

}  // namespace metac
