// What starting workers costs, as the choice of what runs side by side weighs it (compiler/program/place_chains.h).
#pragma once
#include <cstdint>

namespace metac {

struct ChainCosts {
  int64_t alone_ns, share_ns;  // a launch of less has one worker; a worker has no less than a share
  double launch_ns;            // of a launch by several workers behind another: they are awake, and wait for the last
  double start_ns;             // of chains: of all workers, which may not be awake
  double worth;                // times shorter is worth it
  int64_t byte_operations;     // that take as long as a byte that moves, where what tasks cost at other sizes is estimated
};

}  // namespace metac
