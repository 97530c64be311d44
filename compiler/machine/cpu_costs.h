// What computing costs on a CPU, as the choices between schedules weigh it. Limits that are a matter of form (how many parts
// are worth code of their own) stand where they are used. Cycles are those of one core.
//
// Where a number comes from stands behind it:
//   [peak]   `metac bench --peak` measures it (docs/adding_a_cpu.md). Behind it what was seen on an AMD EPYC with AVX-512,
//   48
//            KiB, 1 MiB and 32 MiB of caches, 2 cores, beside other work; where that is not the number, the number was
//            fitted when the choice was made, for a processor with AVX-512 whose run is not written down.
//   [page]   the page of that name in docs/decisions has the runs that gave it.
//   [fit]    fitted to times of kernels when the choice was made; which run gave it is not written down.
//   [guess]  no measurement backs it.
#pragma once
#include <cstdint>

#include "compiler/machine/chain_costs.h"

namespace metac {

struct CpuCosts {
  // ---- caches ----
  int64_t line_bytes = 64;  // [peak: 64]
  // Of the first level. Lines at distances of a way's bytes meet in the same set: more of them than ways push each other
  // out.
  int64_t cache_ways = 12, way_bytes = 4096;  // [peak: 12, 4096]
  int64_t panel_bytes_kept = 28 << 10;        // of it, that stay while data passes through [fit]

  // ---- a step of a register tile ----
  double step = 0.6, load = 0.2;  // each step; each load that the ports have room for [fit]
  // A line from the second level, of data and of the lanes' operand. [peak: 3.1, 0.54, at most: products hide part of it]
  double data_line = 2.0, panel_line = 0.5;
  double multiply_adds = 2, multiply_latency = 4;  // a cycle; cycles of one behind another [peak: 1.99, 4.0]
  double loads_a_cycle = 2;                        // [peak: 1.98]
  double load_stall = 1.05;                        // by which loads that fill all ports are longer [fit]

  // ---- bytes a cycle, beside the products of minimal filtering ----
  double memory_bytes = 6;                   // of a core, where two wait for memory together [peak: 2.6 to 6.1]
  double stream_far = 15, stream_near = 40;  // weights from beyond the second level and from it [peak: 28, 42 to 61]
  double data_beyond = 20;                   // data and products that do not stay there [fit]

  // ---- which axis has the lanes (target/cpu/layouts/choose_lanes.cpp): in shares of lanes that are full [fit] ----
  double fuller_lanes = 1.5;        // times as full are worth lanes that are not the result's last axis
  double element_packed = 8;        // while running, for each product that uses it
  double images_in_lanes = 0.1;     // the result lies image beside image
  double lanes_apart = 0.4;         // elements of a vector lie apart in both operands
  double ready = 0.9, rows = 0.01;  // the operand is packed ahead, or needs no packing; the result is stored in rows

  // ---- an operand whose rows fall into the same sets of the first level is packed first [training_kernels] ----
  int64_t colliding_bytes = 2048, colliding_steps = 64, colliding_uses = 256;  // apart; steps of the sum; points that use it

  // ---- parts of a sum ----
  int64_t chains = 4;             // additions side by side: as many as the cycles of one [guess for more than one a cycle]
  int64_t sums_side_by_side = 8;  // vectors of sums that one pass over the terms adds to: half of AVX2's registers [guess]
  double parts_worth = 0.85;      // of the products, that parts of an image or of an axis with a stride may leave [fit]
  int64_t points_of_a_tile = 4;   // a part that has fewer points costs as much as one with so many [guess]
  double row_of_sums = 1.3;       // steps for a row that is stored and read again [fit]
  double clearly_less = 1.1;      // times less work is worth it [guess]

  // ---- pieces of memory, in bytes, that are read as slowly as four and two times as much ----
  int64_t short_piece = 128, middle_piece = 512;  // [peak: 256 to 1024, 256 to 2048]

  // ---- rows of an open number that are computed one by one rather than as a block of two vectors of them ----
  int64_t few_rows = 8;  // [attention_kernel]

  // ---- values in lanes that take as long as so many additions [guess; int8 has what look-ups won] ----
  double steps_of_a_division = 10, steps_of_a_function = 20, steps_of_a_look_up = 24;

  // ---- memory of one worker [guess: within the stack of any thread, within a second level] ----
  int64_t stack_bytes = 32 << 10, stack_bytes_of_rows = 16 << 10, row_bytes = 256 << 10;

  // ---- what is worth a thread ----
  int64_t work_of_a_task = 2048;  // operations [guess]

  // ---- chains of slices, in bytes from memory ----
  double slice_cached = 0.2, slice_shared = 0.6;  // of a byte that this worker wrote, that another did
                                                  // [cache_blocks; peak: 0.04 to 0.06, 0.04 to 0.4]
  double slice_launch = 20e3;                     // a start of all threads [peak: 16e3 to 17e3, undisturbed]
  double slice_beyond = 0.7, slice_far_beyond = 0.9;  // of a byte that this worker wrote, in a slice that just outgrows
  double slice_octaves = 4;                           // the cache, in one of 2^slice_octaves times its size [guess]
  double slice_worth = 1.05;                          // times less must be moved [guess]

  // ---- chains of launches side by side: as WorkerThreads has them; [threads]; estimates of kernels, a byte [guess] ----
  ChainCosts beside = {8000, 4000, 1500, 4000, 1.1, 4};

  // ---- statistics over the points of images, channel beside channel, are added up in parts ----
  int64_t points_of_statistics = 64;  // from so many for each channel on [guess]

  // ---- what a training step keeps or computes again, in seconds of a core: only their ratio matters [guess] ----
  double seconds_of_operation = 1e-11, seconds_of_byte = 1e-10, seconds_of_kernel = 2e-6;
};

inline constexpr CpuCosts cpu_costs{};

}  // namespace metac
