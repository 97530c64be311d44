// The contractions of attention, shared by Attention, FlexAttention and the fused ones.
#pragma once
#include <optional>

#include "compiler/ir/graph.h"

namespace metac {

// [B, own heads, S, D] as [B, heads, S, D]: head h reads h / (heads / own heads). `heads` must be a multiple.
Var* repeat_heads(Graph& g, Var* x, Dim heads);
// (q * scale) * k' over [B, heads, queries, keys]; the scale is 1/sqrt(head size) where none is given.
Var* attention_scores(Graph& g, Var* q, Var* k, std::optional<double> scale);

}  // namespace metac
