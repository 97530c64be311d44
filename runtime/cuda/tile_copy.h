// Copies from memory into shared memory that go on while a thread does something else, so that a tile arrives while another
// one is worked on (cp.async, from compute capability 8.0 on).
#pragma once

namespace METAC_RUNTIME_NAMESPACE {

// `count` elements of together 4, 8 or 16 bytes, both places multiples of that; zeros, and nothing is read, where not
// `inside`. They are there for this thread behind wait_for_copies, for the others behind a barrier after that.
template <int count, class T>
static __device__ __forceinline__ void start_copy(T* to, const T* from, bool inside) {
  constexpr int bytes = count * static_cast<int>(sizeof(T));
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "what the instruction takes");
#ifdef METAC_STANDS_IN_FOR_CUDA
  shim_start_copy(to, from, bytes, inside);
#else
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int read = inside ? bytes : 0;
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(read) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(bytes == 16 ? 8 : bytes),
                 "r"(read)
                 : "memory");
#endif
}

// Until all copies that this thread has started are done.
static __device__ __forceinline__ void wait_for_copies() {
#ifdef METAC_STANDS_IN_FOR_CUDA
  shim_wait_for_copies();
#else
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace METAC_RUNTIME_NAMESPACE
