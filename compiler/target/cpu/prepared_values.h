// Definitions that a pass of the CPU adds to `prepare`.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// Makes `d` store to a new Var of its domain, in the order of its axes.
inline Var* add_to_prepare(RegionState& state, Definition d, DType dtype) {
  d.out = state.graph.make_var(Type{TypeKind::tensor, dtype, d.domain});
  d.out_index = identity_indices(static_cast<int>(d.domain.size()));
  simplify(d, state.graph.symbols);
  Var* const out = d.out;
  Item item;
  item.group.stages = {std::move(d)};
  state.prepare.items.push_back(std::move(item));
  return out;
}

}  // namespace metac
