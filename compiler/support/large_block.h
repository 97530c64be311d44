// Blocks of zeros for what is large and stays: weights. Their pages are large ones where the system has them, which is
// fewer faults when they are first written and fewer misses when they are read.
#pragma once
#include <cstddef>
#include <memory>

namespace metac {

// 64-byte aligned; null where there is no memory.
std::shared_ptr<std::byte> large_block(size_t bytes);

}  // namespace metac
