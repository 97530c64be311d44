// From a fusion group (definitions that become one kernel) to a loop tree with the default schedule: collapse axes that
// are one run of memory, vectorise along the contiguous axis or along a reduction, parallelise the outermost loops.
// Contractions get their own schedule (compiler/kernel/contraction.h).
#pragma once
#include <map>
#include <set>

#include "compiler/kernel/definition.h"
#include "compiler/kernel/loop_tree.h"

namespace metac {

// The decisions about one contraction (compiler/passes/choose_layouts.cpp), in axes of its Definition.
struct ContractionPlan {
  int lanes_axis = 0;          // kept axis that vectors run along
  int vectors = 1;             // how many vectors of it a tile holds
  int tile = 1;                // how many points of the tiled axes a tile holds
  int packed = -1;             // Var id of the packed operand; -1: none
  bool lanes_in_both = false;  // the axis is in both operands (depthwise)
  int unrolled = 0;            // how many of the innermost reduced axes are printed out
  double cache_share = 1;      // of the second-level cache: what blocks of points are cut for
  std::string subject;         // of decisions about it (passes/choices.h)
};

// A convolution by minimal filtering (lower_winograd.h). Axes are the Definition's. Its body is data * U, the data read at
// (y + window_y, x + window_x), U at position 0.
struct WinogradPlan {
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
  std::string subject;        // of decisions about it (passes/choices.h)
};

// A gradient of a convolution as a library computes it (library_gradient.h): operands are Var ids, and the definition is the
// whole one, before it is split by residue.
struct LibraryGradient {
  LibraryConvolution convolution;
  Definition definition;
};

struct Group {
  std::vector<Definition> stages;  // in execution order
  std::optional<ContractionPlan> contraction;
  std::optional<WinogradPlan> winograd;
  int shared = 0;          // the first axes of every stage are the same loops
  std::set<int> internal;  // Vars (by id) that live only inside: scoped locals
  // The first reduction and the last stage are contractions over rows: rows run in blocks along the lanes
  // (lower_row_block.h).
  bool row_blocks = false;
  bool by_points = false;  // sums for channels that lie side by side, in the order of memory (sum_by_points.h)
  std::optional<LibraryGradient> library_gradient;
  bool beside = false;  // a library may do the second of two stages in its call for the first (library_beside.h)
};

using Layouts = std::map<int, Layout>;  // by Var id; absent: plain

struct LoweringContext {
  const std::vector<Symbol>* symbols = nullptr;
  const Layouts* layouts = nullptr;
  std::function<Var*(int)> var;  // by id
  int vector_bytes = 64;
  int64_t l2_bytes = 1 << 20;
  bool library_products = false;      // GPU kernels that are matrix products say so (Kernel::product)
  bool tf32 = false;                  // GPU kernels may round float32 operands of products for tensor cores
  bool library_convolutions = false;  // and those that are convolutions (Kernel::convolution)
};

Kernel lower_group(const Group& group, const LoweringContext& context);

}  // namespace metac
