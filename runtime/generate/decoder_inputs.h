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
  adapter,         // which set of adapters: 0 for the model alone
};

inline const char* name_of(InputRole role) {
  static const char* const names[] = {
      "tokens",       "mask of all tokens", "mask of the new tokens",  "positions",      "last position",
      "total length", "past length",        "whether there is a past", "logits to keep", "zeros",
      "adapter"};
  return names[static_cast<int32_t>(role)];
}

struct DecoderInput {
  InputRole role;
  ScalarType dtype;
  int32_t rank;
  const int64_t* dims;  // -1: open
};

// What a run reads: behind `past` steps `count` new tokens of each of `rows` sequences.
struct DecoderRun {
  int64_t past, count;
  const int64_t* tokens;  // [rows, count]
  int64_t logits;         // of how many of each sequence's last tokens they are wanted
  int64_t rows = 1;
  const int64_t* begins = nullptr;  // where among the steps each sequence begins: what is before is none of it; null: at 0
  const int64_t* adapters = nullptr;  // of each sequence; null: the model alone. Where the model takes one, the first's
};

// How long the last axis is; 1 where it is one number, whatever its axes.
inline int64_t length_of(InputRole role, const DecoderRun& run) {
  switch (role) {
    case InputRole::mask_of_all:
      return run.past + run.count;
    case InputRole::tokens:
    case InputRole::mask_of_new:
    case InputRole::positions:
    case InputRole::zeros:
      return run.count;
    default:
      return 1;
  }
}

// Has the input values of each sequence? Its first axis is theirs then.
inline bool is_of_sequences(const DecoderInput& input) {
  const bool open = input.rank > 0 && input.dims[0] < 0;
  return open && (input.rank > 1 || input.role == InputRole::last_position || input.role == InputRole::adapter);
}

// The dims of a run's input: the first axis is the sequences' where it has one for them, the last is as long as it must be,
// others that are open are 1.
inline int64_t dims_of(const DecoderInput& input, const DecoderRun& run, int64_t* dims) {
  int64_t elements = 1;
  for (int32_t axis = 0; axis < input.rank; ++axis) {
    const int64_t fixed = input.dims[axis];
    dims[axis] = axis == 0 && is_of_sequences(input) ? run.rows
                 : axis == input.rank - 1            ? length_of(input.role, run)
                 : fixed >= 0                        ? fixed
                                                     : 1;
    elements *= dims[axis];
  }
  return elements;
}

// The elements. Axes between the first and the last repeat them.
inline void fill_input(const DecoderInput& input, const DecoderRun& run, void* to) {
  int64_t dims[64];
  const int64_t elements = dims_of(input, run, dims), length = length_of(input.role, run);
  const int64_t of_row = is_of_sequences(input) ? elements / run.rows : elements;
  with_element(input.dtype, [&](auto element) {
    using T = decltype(element);
    T* const out = static_cast<T*>(to);
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t row = i / of_row, at = i % length, begin = run.begins != nullptr ? run.begins[row] : 0;
      int64_t value = 0;
      switch (input.role) {
        case InputRole::tokens:
          value = run.tokens[row * run.count + at];
          break;
        case InputRole::mask_of_all:
          value = at >= begin;
          break;
        case InputRole::mask_of_new:
          value = 1;
          break;
        case InputRole::positions:
          value = run.past + at - begin;
          break;
        case InputRole::last_position:
          value = run.past + run.count - 1 - begin;
          break;
        case InputRole::total_length:
          value = run.past + run.count;
          break;
        case InputRole::past_length:
          value = run.past;
          break;
        case InputRole::has_past:
          value = run.past > 0;
          break;
        case InputRole::logits_to_keep:
          value = run.logits > 0 ? run.logits : 1;  // to models 0 means all
          break;
        case InputRole::zeros:
          break;
        case InputRole::adapter:
          value = run.adapters != nullptr ? run.adapters[row] : 0;
          break;
      }
      out[i] = to_element<T>(value);
    }
    return 0;
  });
}

}  // namespace METAC_RUNTIME_NAMESPACE
