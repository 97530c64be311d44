// Attention with several heads.
#pragma once
#include "layers.hpp"

namespace metac::nn {

struct AttentionOptions {
  bool causal = false;  // a step sees none behind it
};

// Of [n, steps, width]; keys and values from `memory` where it is given.
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(int64_t width, int64_t heads, const AttentionOptions& options = {})
      : query(projection("query", width, heads)),
        key(projection("key", width, heads)),
        value(projection("value", width, heads)),
        output(projection("output", width, heads)) {
    options_.q_num_heads = options_.kv_num_heads = heads;
    options_.is_causal = options.causal;
  }
  Var operator()(const Var& x, const Var& memory = {}, Place where = Place::current()) const {
    const Var& from = memory ? memory : x;
    return output(op::Attention(query(x, where), key(from, where), value(from, where), options_, where)[0], where);
  }

  Linear query, key, value, output;

 private:
  Linear projection(const char* name, int64_t width, int64_t heads) {
    if (width % detail::positive(heads, "heads"))
      throw Error(METAC_INVALID_ARGUMENT, "a width of " + std::to_string(width) + " in " + std::to_string(heads) + " heads");
    return add(name, Linear(width, width));
  }
  op::AttentionOptions options_;
};

}  // namespace metac::nn
