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

  // ---- chains of slices, in bytes from memory ----
  double slice_cached = 0.2, slice_shared = 0.6;  // of a byte that this worker wrote, that another did
  double slice_launch = 20e3;                     // a start of all threads
};

inline constexpr CpuCosts cpu_costs{};

}  // namespace metac
