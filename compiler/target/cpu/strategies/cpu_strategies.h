// The strategies of the CPU: what its passes decide about a group beyond the plain schedule (lower_group.h).
#pragma once
#include <algorithm>
#include <optional>

#include "compiler/loops/loop_tree.h"
#include "compiler/target/cpu/tiles/matrix_sum.h"
#include "compiler/tensor/group.h"

namespace metac {

// Of a sum whose factors are multiplied byte by byte (target/cpu/layouts/byte_runs.h), in axes of its Definition, the last
// of which goes through the `words` of four steps that one packed word has.
struct BytesOfRun {
  Expr data, numbers;         // words of four bytes: signed ones, and unsigned ones that have the lanes
  Fn pairs = Fn::pairs_s8u8;  // of words_in_pairs; pairs_s8s8: the numbers are signed, too
  Expr sum;                   // what a run comes to, load(reduced_value) being the sum of its products, an int32
  int64_t words = 1;
  int64_t words_in_pairs =
      0;  // so many words' products fit two int16, in which they are added up first; 0: in int32 at once
};

// A sum of products in a register tile (contraction.h; chosen by target/cpu/layouts/choose_layouts.cpp), in axes of its
// Definition.
struct ContractionPlan : Strategy {
  int lanes_axis = 0;               // kept axis that vectors run along
  int vectors = 1;                  // how many vectors of it a tile holds
  int tile = 1;                     // how many points of the tiled axes a tile holds
  int packed = -1;                  // Var id of the packed operand; -1: none
  std::vector<int> beside;          // of a packed operand of few bits: Var ids of what goes with runs of its numbers
  int run_axes = 0;                 // and how many of the innermost reduced axes lie within a run; 0: there are none
  int few_tile = 0;                 // and tiles of so many points widen it in their registers, where a run has
                                    // CpuCosts::few_rows of them or fewer; otherwise it is widened panel by panel
  std::optional<BytesOfRun> bytes;  // runs are sums of products of bytes, for any number of rows
  bool lanes_in_both = false;       // the axis is in both operands (depthwise)
  int unrolled = 0;                 // how many of the innermost reduced axes are printed out
  bool matrix = false;              // tiles are in the processor's tile registers where the operands lie so (matrix_sum.h)
  double cache_share = 1;           // of the second-level cache: what blocks of points are cut for
  std::string about;                // the subject of decisions about it

  Kernel lower(const Group& group, const LoweringContext& context) const override;
  std::string to_string() const override;
  std::vector<std::string> describe(const Group& group) const override;
  bool holds_axis(int axis) const override { return axis == lanes_axis; }
  std::string subject() const override { return about; }
  Schedule schedule() const override;
  std::string misfit(const Group& group) const override;
  int most_points() const { return matrix ? std::max(tile, most_matrix_points) : tile; }  // of a tile
};

// How minimal filtering of a run is shared out, where the number of its tiles is at most `up_to`.
struct FilterBlocks {
  int64_t up_to = 0;        // tiles of all images
  int64_t tiles = 0;        // in a block, at most
  int64_t lane_groups = 1;  // as WinogradPlan::lane_groups
};

// A convolution by minimal filtering (lower_winograd.h). Axes are the Definition's. Its body is data * U, the data read at
// (y + window_y, x + window_x), U at position 0.
struct WinogradPlan : Strategy {
  int outputs = 4;                 // m
  int y = 0, x = 0;                // kept axes that the window slides along
  int window_y = 0, window_x = 0;  // reduced axes of extent 3
  int channel = -1;                // the reduced axis whose elements lie together in the data
  std::vector<int> taps;           // the other reduced axes (the window of a third dimension)
  int image = -1;                  // a kept axis of the data alone whose rows of tiles share blocks; -1: none
  int lanes_axis = 0;
  int transformed = -1;       // Var id of U: [outer axes..., lane blocks, positions, taps..., channels, lanes of a block]
  int vectors = 1, tile = 1;  // register tile of the products
  int64_t rows = 1;           // rows of tiles in a block
  int64_t lane_groups = 1;    // a block's lanes are shared among this many iterations; divides the lane blocks
  std::vector<FilterBlocks> by_size;  // where rows are as long as a run has them, blocks are of tiles, by how many there
                                      // are: up_to ascends, the last has no end. Empty: blocks are of rows
  std::string about;                  // the subject of decisions about it
  bool whole_images = false;          // of an open batch: blocks by_size are of images, each of `rows` rows of tiles

  Kernel lower(const Group& group, const LoweringContext& context) const override;
  std::string to_string() const override;
  bool holds_axis(int axis) const override { return axis == lanes_axis || axis == y || axis == x; }
  std::string subject() const override { return about; }
  Schedule schedule() const override;
  std::string misfit(const Group& group) const override;
};

// The first reduction and the last stage are contractions over rows: rows run in blocks along the lanes (lower_row_block.h;
// region/fusion/fuse_row_blocks.h has the conditions).
struct RowBlocks : Strategy {
  explicit RowBlocks(bool by_words = false) : by_words(by_words) {}
  const bool by_words;  // both sums multiply words of two bfloat16 to which their operands are rounded

  Kernel lower(const Group& group, const LoweringContext& context) const override;
  std::string to_string() const override;
  std::string misfit(const Group& group) const override;
};

// Sums for channels that lie side by side, in the order of memory (sum_by_points.h; chosen by
// target/cpu/split_statistics.h).
struct SumsByPoints : Strategy {
  Kernel lower(const Group& group, const LoweringContext& context) const override;
  std::string to_string() const override;
  std::string misfit(const Group& group) const override;
};

}  // namespace metac
