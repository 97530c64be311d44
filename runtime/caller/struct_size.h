// Structs of the interface that begin with their size (metac_model.h), whose caller may be older or newer than this library.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "../metac_model.h"
#include "../status.h"

namespace METAC_RUNTIME_NAMESPACE {

constexpr size_t most_struct_bytes = 4096;  // a size beyond is memory that nobody has set

// `first`: what the struct had when the interface began.
inline bool check_size(const char* name, size_t size, size_t first, Failure& failure) {
  return (size >= first && size <= most_struct_bytes) ||
         failure.set(Status::invalid_argument, "%s.size is %zu; set it to the size of the struct, which is %zu or more",
                     name, size, first);
}

// The members of `given` that this library knows. What it does not know must be zero.
template <class Struct>
bool take_struct(const char* name, const Struct& given, size_t first, Struct& known, Failure& failure) {
  if (!check_size(name, given.size, first, failure)) return false;
  for (size_t at = sizeof known; at < given.size; ++at)
    if (reinterpret_cast<const char*>(&given)[at] != 0)
      return failure.set(Status::invalid_argument,
                         "%s of %zu bytes set byte %zu, which this library has no member for: it knows %zu", name,
                         given.size, at, sizeof known);
  std::memcpy(static_cast<void*>(&known), &given, std::min(given.size, sizeof known));
  return true;
}

inline bool take_options(const metac_model_options& given, metac_model_options& known, Failure& failure) {
  constexpr size_t first = offsetof(metac_model_options, private_threads) + sizeof(int32_t);
  if (!take_struct("options", given, first, known, failure)) return false;
  if (known.threads < 0)
    return failure.set(Status::invalid_argument, "threads is %d; expected 0 (one per CPU) or more", known.threads);
  constexpr int32_t copy_and_map = METAC_MODEL_WEIGHTS_COPY | METAC_MODEL_WEIGHTS_MAP;
  if ((known.weights_flags & copy_and_map) == copy_and_map)
    return failure.set(Status::invalid_argument, "weights_flags is %d: weights are copied or mapped, not both",
                       known.weights_flags);
  if ((known.weights_flags & ~(copy_and_map | METAC_MODEL_WEIGHTS_UNCHECKED)) != 0)
    return failure.set(Status::invalid_argument, "weights_flags is %d, of which not all is known", known.weights_flags);
  if (known.most_specialisations < 0)
    return failure.set(Status::invalid_argument, "most_specialisations is %d; expected 0 (64) or more",
                       known.most_specialisations);
  if (known.priority < METAC_MODEL_BACKGROUND || known.priority > METAC_MODEL_URGENT)
    return failure.set(Status::invalid_argument, "priority is %d; expected -1 (background), 0 (usual) or 1 (urgent)",
                       known.priority);
  if ((known.allocate == nullptr) != (known.release == nullptr))
    return failure.set(Status::invalid_argument, "options.%s is set without the other of allocate and release",
                       known.allocate == nullptr ? "release" : "allocate");
  return true;
}

// Writes what of `told` the caller's struct has room for; what it has beyond is zero. Both begin with their size.
template <class Struct>
void give_struct(const Struct& told, Struct* result) {
  const size_t size = result->size;
  std::memset(static_cast<void*>(result), 0, size);
  std::memcpy(static_cast<void*>(result), &told, std::min(size, sizeof told));
  result->size = size;
}

}  // namespace METAC_RUNTIME_NAMESPACE
