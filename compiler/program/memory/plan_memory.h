// Offsets in the arena: blocks whose lifetimes overlap must not share bytes. Blocks are placed one after the other, each at
// the lowest offset that is free for its whole life; of a few orders (largest first, longest-lived bytes first, first used
// first) the one that needs least is kept.
#pragma once
#include <cstdint>
#include <vector>

#include "compiler/program/program.h"

namespace metac {

struct ArenaBlock {
  int64_t bytes = 0;
  int first = 0, last = 0;  // life in steps, inclusive
  int64_t offset = -1;      // the answer, a multiple of 64
  // Of a value that begins and ends within one of several chains side by side: when the first of them begins, the last ends,
  // and which it is. No order holds between two chains.
  int section_first = -1, section_last = -1, chain = -1;

  bool lives_with(const ArenaBlock& other) const {
    if (chain >= 0 && section_first == other.section_first && chain != other.chain) return true;
    return first <= other.last && other.first <= last;
  }
};

// Returns the arena's size.
int64_t plan_memory(std::vector<ArenaBlock>& blocks);
// The most bytes alive at one step: no plan can be smaller.
int64_t live_set_bytes(const std::vector<ArenaBlock>& blocks);

// Sets the lifetimes of a program's buffers and the offsets of those whose size is known, its arena_bytes and
// live_set_bytes. Views live as long as what they share memory with.
void plan_buffers(CompiledProgram& program);

}  // namespace metac
