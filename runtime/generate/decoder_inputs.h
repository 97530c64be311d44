// What the inputs of a decoder are for. The compiler finds it out by names, dtypes and shapes
// (compiler/ops/decoder_ports.h); a run's values follow from its tokens and from how many came before them.
#pragma once
#include "../memory.h"

namespace METAC_RUNTIME_NAMESPACE {

enum class InputRole : int32_t {
  tokens,          // the new ones
  mask_of_all,     // 1 for each token, those before and the new ones: none is padding
  mask_of_new,     // 1 for each new token
  positions,       // of the new tokens: past, past + 1, ...
  last_position,   // past + new - 1: seqlens_k of GroupQueryAttention
  total_length,    // past + new
  past_length,     // past
  has_past,        // whether there is a past
  logits_to_keep,  // of how many of the last tokens logits are wanted
  zeros,           // one for each new token, as token types are
};

inline const char* name_of(InputRole role) {
  static const char* const names[] = {
      "tokens",       "mask of all tokens", "mask of the new tokens",  "positions",      "last position",
      "total length", "past length",        "whether there is a past", "logits to keep", "zeros"};
  return names[static_cast<int32_t>(role)];
}

struct DecoderInput {
  InputRole role;
  ScalarType dtype;
  int32_t rank;
  const int64_t* dims;  // -1: open
};

// How long the last axis is for so many tokens; 1 where it is one number, whatever its axes.
inline int64_t length_of(InputRole role, int64_t past, int64_t count) {
  switch (role) {
    case InputRole::mask_of_all:
      return past + count;
    case InputRole::tokens:
    case InputRole::mask_of_new:
    case InputRole::positions:
    case InputRole::zeros:
      return count;
    default:
      return 1;
  }
}

// The dims of a run's input: the last axis is as long as it must be, others that are open are 1.
inline int64_t dims_of(const DecoderInput& input, int64_t past, int64_t count, int64_t* dims) {
  int64_t elements = 1;
  for (int32_t axis = 0; axis < input.rank; ++axis) {
    const int64_t fixed = input.dims[axis];
    dims[axis] = axis == input.rank - 1 ? length_of(input.role, past, count) : fixed >= 0 ? fixed : 1;
    elements *= dims[axis];
  }
  return elements;
}

// The elements; rows of the input beyond the first repeat it. `rows`: of logits that are wanted.
inline void fill_input(const DecoderInput& input, int64_t past, const int64_t* tokens, int64_t count, int64_t rows,
                       void* to) {
  int64_t dims[64];
  const int64_t elements = dims_of(input, past, count, dims), length = length_of(input.role, past, count);
  with_element(input.dtype, [&](auto element) {
    using T = decltype(element);
    T* const out = static_cast<T*>(to);
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t at = i % length;
      int64_t value = 0;
      switch (input.role) {
        case InputRole::tokens:
          value = tokens[at];
          break;
        case InputRole::mask_of_all:
        case InputRole::mask_of_new:
          value = 1;
          break;
        case InputRole::positions:
          value = past + at;
          break;
        case InputRole::last_position:
          value = past + count - 1;
          break;
        case InputRole::total_length:
          value = past + count;
          break;
        case InputRole::past_length:
          value = past;
          break;
        case InputRole::has_past:
          value = past > 0;
          break;
        case InputRole::logits_to_keep:
          value = rows > 0 ? rows : 1;  // to models 0 means all
          break;
        case InputRole::zeros:
          break;
      }
      out[i] = to_element<T>(value);
    }
    return 0;
  });
}

}  // namespace METAC_RUNTIME_NAMESPACE
