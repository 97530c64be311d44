// What a kernel of several members is told: element-wise work on values of several sizes in one start. Member m has the
// blocks from first_block[m] on and `counts[m]` elements.
#pragma once

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

template <int members, int arguments>
struct Members {
  int counts[members], first_block[members];
  void* data[members][arguments];
};

}  // namespace METAC_RUNTIME_NAMESPACE
