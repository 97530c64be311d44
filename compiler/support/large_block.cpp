#include "compiler/support/large_block.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace metac {
namespace {

constexpr size_t alignment = 64, page = 4096, large_page = size_t{2} << 20;

}  // namespace

std::shared_ptr<std::byte> large_block(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  if (bytes < large_page) {
    const size_t size = (bytes + alignment) / alignment * alignment;
    void* const block = std::aligned_alloc(alignment, size);
    if (block == nullptr) return nullptr;
    std::memset(block, 0, size);
    return {static_cast<std::byte*>(block), [](std::byte* data) { std::free(data); }};
  }
  // From a boundary of large pages on; what is mapped before it and behind the end is given back.
  const size_t size = (bytes + page - 1) / page * page, mapped = size + large_page;
  void* const map = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  std::byte* const begin = static_cast<std::byte*>(map);
  const size_t lead = (large_page - reinterpret_cast<uintptr_t>(map) % large_page) % large_page;
  if (lead > 0) ::munmap(begin, lead);
  if (const size_t rest = mapped - lead - size; rest > 0) ::munmap(begin + lead + size, rest);
  ::madvise(begin + lead, size / large_page * large_page, MADV_HUGEPAGE);  // refused: pages are small
  return {begin + lead, [size](std::byte* data) { ::munmap(data, size); }};
}

}  // namespace metac
