// Offsets in the arena: blocks whose lifetimes overlap must not share bytes. Largest blocks first, each at the lowest
// offset that is free for its whole life; within a few percent of the live-set bound on the networks tried.
#pragma once
#include <cstdint>
#include <vector>

namespace metac {

struct ArenaBlock {
  int64_t bytes = 0;
  int first = 0, last = 0;   // life in steps, inclusive
  int64_t offset = -1;       // the answer, a multiple of 64
};

// Returns the arena's size.
int64_t plan_memory(std::vector<ArenaBlock>& blocks);
// The most bytes alive at one step: no plan can be smaller.
int64_t live_set_bytes(const std::vector<ArenaBlock>& blocks);

}  // namespace metac
