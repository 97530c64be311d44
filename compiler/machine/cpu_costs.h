// What computing costs on a CPU, as the choices between schedules weigh it. Limits that are a matter of form (how many parts
// are worth code of their own) stand where they are used.
//
// Numbers were fitted to runs on processors with AVX-512 when the choices were made (docs/decisions); which run gave which
// is not written down for each, and no other processor has been fitted. Cycles are those of one core.
#pragma once
#include <cstdint>

namespace metac {

struct CpuCosts {
  // ---- caches ----
  int64_t line_bytes = 64;
  // Of the first level. Lines at distances of a way's bytes meet in the same set: more of them than ways push each other
  // out.
  int64_t cache_ways = 12, way_bytes = 4096;
  int64_t panel_bytes_kept = 28 << 10;  // of it, that stay while data passes through

  // ---- a step of a register tile ----
  double step = 0.6, load = 0.2;                   // each step; each load that the ports have room for
  double data_line = 2.0, panel_line = 0.5;        // a line from the second level, of data and of the lanes' operand
  double multiply_adds = 2, multiply_latency = 4;  // a cycle; cycles of one behind another
  double loads_a_cycle = 2, load_stall = 1.05;     // of it, by which loads that fill all ports are longer

  // ---- bytes a cycle, beside the products of minimal filtering ----
  double memory_bytes = 6;                                     // of a core, where two wait for memory together
  double stream_far = 15, stream_near = 40, data_beyond = 20;  // weights from beyond the second level and from it; data

  // ---- which axis has the lanes: in shares of lanes that are full (compiler/target/cpu/layouts/choose_lanes.cpp) ----
  double fuller_lanes = 1.5;        // times as full are worth lanes that are not the result's last axis
  double element_packed = 8;        // while running, for each product that uses it
  double images_in_lanes = 0.1;     // the result lies image beside image
  double lanes_apart = 0.4;         // elements of a vector lie apart in both operands
  double ready = 0.9, rows = 0.01;  // the operand is packed ahead, or needs no packing; the result is stored in rows

  // ---- an operand whose rows fall into the same sets of the first level is packed first ----
  int64_t colliding_bytes = 2048, colliding_steps = 64, colliding_uses = 256;  // apart; steps of the sum; points that use it

  // ---- parts of a sum ----
  int64_t chains = 4;            // additions side by side, each of about four cycles
  double parts_worth = 0.75;     // of the products, that parts of an image or of an axis with a stride may leave
  int64_t points_of_a_tile = 4;  // a part that has fewer points costs as much as one with so many
  double row_of_sums = 1.3, clearly_less = 1.1;  // steps for a row that is stored and read again; what is worth it

  // ---- pieces of memory, in bytes, that are read as slowly as four and two times as much ----
  int64_t short_piece = 128, middle_piece = 512;

  // ---- memory of one worker ----
  int64_t stack_bytes = 32 << 10, stack_bytes_of_rows = 16 << 10, row_bytes = 256 << 10;

  // ---- what is worth a thread ----
  int64_t work_of_a_task = 2048;  // operations

  // ---- chains of slices, in bytes from memory ----
  double slice_cached = 0.2, slice_shared = 0.6;  // of a byte that this worker wrote, that another did
  double slice_launch = 20e3;                     // a start of all threads
};

inline constexpr CpuCosts cpu_costs{};

}  // namespace metac
