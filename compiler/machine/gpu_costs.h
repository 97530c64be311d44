// What is worth while on a GPU, as the choices between schedules weigh it (docs/decisions/cuda_target.md).
//
// Where numbers come from: [form] follows from a rule of the machine (gpu_machine.h) or of another number here; [guess] is
// an estimate that no measurement backs. None is fitted to runs on a card yet; who measures one writes the card and the
// command beside it.
#pragma once
#include <array>
#include <cstdint>

#include "compiler/machine/gpu_machine.h"

namespace metac {

struct AttentionTile {
  int64_t rows, columns;  // of scores
};
using AttentionTiles = std::array<AttentionTile, 5>;

struct GpuCosts {
  // ---- an extent that is not known ----
  int64_t unknown_extent = 1024;         // [guess] of a loop, a side, a row
  int64_t unknown_scatter_extent = 256;  // [guess] of an axis that scatters do not meet along

  // ---- threads of a block ----
  int block_of_elements = 256;          // [guess] a thread for an element, or for some neighbours
  int block_of_row_most = 512;          // [guess] threads that share a row or a sum
  int64_t elements_of_one_thread = 32;  // [guess] a row of so many is one thread's; above, a block's
  int64_t threads_of_sums = 2048;       // [guess] as many sums are a thread's each; fewer leave most of the card idle
  int64_t shared_bytes_of_rows = gpu_machine.shared_bytes - (12 << 10);  // [form] less what combining warps needs

  // ---- products with weights of few bits ----
  int64_t rows_that_widen = 8;  // [guess] so many rows widen what they read; more find it widened
  int64_t steps_of_untiled = 8;  // [guess] of such a sum, that a thread has

  // ---- tiles of products: a block of edge x edge threads ----
  int64_t edge = 16;                             // [guess] 256 threads; tiles are whole multiples of it
  int64_t least_side = 16, least_sum = 8;        // [guess] of rows and columns, of steps: shorter ones have no tile
  int64_t tile_most = 128, tile_most_wide = 64;  // [form] elements of a side that registers hold: 4 bytes a sum, 8 bytes
  int64_t tile_middle = 64, tile_small = 32;     // [guess] taken in turn while there are fewer blocks than `blocks_of_tiles`
  int64_t blocks_of_tiles = 128;                 // [guess] fewer leave processors idle
  int64_t steps_of_tile = 16, steps_of_large_tile = 8;  // [guess] of the sum in shared memory; where a side has more than
                                                        // `tile_middle`
  int64_t neighbours_of_thread = gpu_machine.access_bytes / gpu_machine.word_bytes;  // [form] what one access reads

  // ---- tiles on tensor cores ----
  int64_t tensor_side = 2 * gpu_machine.fragment.rows;  // [form] four warps have a fragment each
  int64_t tensor_words = 16;  // [guess] of 4 bytes (float64: 8) of the sum in shared memory at once
  // [form] From row to row, so that the 8 rows that a warp reads lie in different banks. Behind rows that lie across the
  // sum: more where elements have 4 or 8 bytes.
  int64_t tensor_pad_bytes = gpu_machine.access_bytes, tensor_pad_bytes_wide = 2 * gpu_machine.access_bytes;
  int64_t tensor_stride_words = tensor_words + tensor_pad_bytes / gpu_machine.word_bytes;
  int64_t warps_down = 2, warps_down_tall = 4;  // [guess] of eight; of a tile with more rows than columns

  // ---- attention in one kernel ----
  int64_t attention_depth = 128;  // [form] of q, k and v: registers hold the sums of a row
  int64_t attention_shared_bytes = gpu_machine.shared_bytes - (2 << 10);  // [form] less what the compiler takes

  // [guess] The largest first; the first that fits into shared memory and gives enough blocks is taken.
  AttentionTiles attention_plain = {{{64, 32}, {64, 16}, {32, 32}, {32, 16}, {16, 16}}};
  AttentionTiles attention_tensor = {{{128, 64}, {64, 64}, {64, 32}, {32, 32}, {16, 32}}};

  // ---- tiles of what only moves ----
  int64_t move_tile = gpu_machine.warp;  // [form] a warp reads a row and writes a column
  int move_threads = 256;                // [guess]
  int64_t move_operands = 4;             // [form] tiles of 8 bytes an element that shared memory holds

  // ---- scatters in order ----
  int64_t scatter_threads = 16384;  // [guess] that own elements: more walk the points more often
  int scatter_block = 128;          // [guess]

  // ---- reductions in two passes ----
  int64_t split_threads = 65536, split_blocks = 512, split_tiles = 128;  // [guess] fill a card
  int64_t split_tile = tile_most * tile_most;                            // [form] the largest tile of a product
  int64_t least_parts = 4;                                               // [guess] fewer are not worth a second kernel
  int64_t part_of_thread = 48;  // [guess] elements; more than `elements_of_one_thread`, which a thread would take anyway
  int64_t part_of_block = 8192, part_of_tile = 512;  // [guess] elements; steps of the sum
  int64_t part_of_operands = 4;  // [guess] reading the parts costs at most this share of reading the operands: a quarter
  int64_t few_results = gpu_machine.warp;             // [form] as many as a warp has threads may be read side by side
  int64_t few_rows = 128, long_row = 65536;           // [guess] so few rows of so many elements are cut
  int64_t long_across = 256, large_across = 1 << 20;  // [guess] a row and all rows, whose neighbours are other rows'

  // ---- several members in one start ----
  int64_t member_bytes = 4 << 20;                         // [guess] a member that moves more fills the card alone
  int64_t put_off_bytes = 32 << 20;                       // [guess] of memory that waits for the start
  int64_t told_bytes = gpu_machine.argument_bytes - 196;  // [form] less what the start itself passes

  // ---- calls of vendor libraries ----
  int64_t finish_steps = 32;  // [guess] of a sum: an additional pass over the result costs as much
};

inline constexpr GpuCosts gpu_costs{};

}  // namespace metac
