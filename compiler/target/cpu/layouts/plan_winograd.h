// Which convolutions are worth minimal filtering (target/cpu/strategies/lower_winograd.h), with how large tiles and in which
// blocks.
#pragma once
#include "compiler/machine/cpu_target.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/tensor/contraction.h"

namespace metac {

// What is asked for instead of the model's choice; 0: the model's. What cannot be done stays the model's too.
struct FilterWish {
  int outputs = 0;            // m
  int tile = 0, vectors = 0;  // register tile of the products
  int64_t rows = 0;           // of tiles in a block
};

// For a contraction without conditions whose second operand has the lanes. Two reduced axes of extent 3 must be windows of
// kept axes of stride and dilation 1; of the others one is an index of the data (the channel). Empty where filtering
// directly is faster. Open dims count as their hints. largest: the largest m of F(m x m, 3 x 3) allowed; below 2 means none.
// wish: what to take wherever it can be done. prepared: the weights are transformed by `prepare`; else in
// every run (a step of training), which counts. direct_time: of filtering directly, where it has faster products than
// filtering minimally, 1 being the time with the same ones.
std::optional<WinogradPlan> plan_winograd(const Definition& d, const Contraction& c, int lanes_axis, const CpuTarget& cpu,
                                          const std::vector<Symbol>& symbols, int largest, bool prepared,
                                          const FilterWish& wish = {}, double direct_time = 1);

// The plan's blocks again, for the domain as it is now (a slice of the batch).
void choose_tile_blocks(const Definition& d, WinogradPlan& plan, const CpuTarget& cpu, const std::vector<Symbol>& symbols);

struct TileReach {
  int y_index = 0, x_index = 0;  // of the data's load
  int64_t y = 0, x = 0;
};

// How far behind the data the last tile reads, along y and x: at most, where dims are open. Empty: nobody knows.
std::optional<TileReach> reach_beyond_data(const Definition& d, const Contraction& c, const WinogradPlan& plan,
                                           const Shape& data);

}  // namespace metac
