// The clock that generations are timed by.
#pragma once
#include <ctime>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

inline double seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace METAC_RUNTIME_NAMESPACE
