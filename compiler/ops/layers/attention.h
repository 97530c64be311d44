// The parts of attention, shared by Attention, FlexAttention and the fused ones.
#pragma once
#include <optional>
#include <string_view>

#include "compiler/ir/graph.h"

namespace metac {

// [B, own heads, S, D] as [B, heads, S, D]: head h reads h / (heads / own heads). `heads` must be a multiple.
Var* repeat_heads(Graph& g, Var* x, Dim heads);
// (q * scale) * k' over [B, heads, queries, keys]; the scale is 1/sqrt(head size) where none is given.
Var* attention_scores(Graph& g, Var* q, Var* k, std::optional<double> scale);
// [B, S, heads*D] -> [B, heads, S, D]; [B, heads, S, D] stays.
Var* split_heads(Graph& g, Var* x, int64_t heads, std::string_view what);
// [B, heads, S, D] -> [B, S, heads*D]
Var* merge_heads(Graph& g, Var* x);
// Softmax of the last of four axes in which a row of -inf alone becomes 0.
Var* masked_softmax(Graph& g, Var* x);
// Softmax of the last of four axes, [B, heads, queries, keys], in which every row has one score more that stands for no key:
// that of its head, sink [heads], or 0 (null).
Var* softmax_with_sink(Graph& g, Var* x, Var* sink);

}  // namespace metac
