// Sums over all points of all images whose result is small (the gradient of a filter) in parts, summed side by side: each
// part reads its own images once and keeps its sums in the cache, where shares of the result would each read all images. The
// number of parts depends on shapes alone, so that the bits do not depend on the threads.
#pragma once
#include <optional>

#include "compiler/tensor/definition.h"

namespace metac {

// Where it pays, makes `d` the sums of the parts, in a Var of its own with the parts as its first axis, and returns what
// adds them up (with the epilogue of `d`) into the result that `d` had. cache_bytes: of the second level, one core's.
std::optional<Definition> split_long_sum(Graph& graph, Definition& d, int64_t cache_bytes);

}  // namespace metac
