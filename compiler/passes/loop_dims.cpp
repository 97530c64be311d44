#include "compiler/passes/loop_dims.h"

#include <algorithm>

namespace metac {

LoopDims loop_dims(const Op& op) {
  LoopDims dims;
  const Region& body = op.regions[0];
  const size_t carried = body.params.size();
  std::set<int> named;
  for (size_t k = 0; k < carried; ++k)
    for (size_t d = 0; d < body.params[k]->shape().size(); ++d) {
      const Expr dim = body.params[k]->shape()[d], initial = op.inputs[2 + k]->shape()[d];
      if (dim->kind != ExprKind::symbol || dim == initial) continue;
      dims.carried.push_back({dim->id, initial, body.results[1 + k]->shape()[d]});
      named.insert(dim->id);
    }
  for (size_t k = carried; k < op.outputs.size(); ++k)
    for (size_t d = 1; d < op.outputs[k]->shape().size(); ++d) {
      const Expr dim = op.outputs[k]->shape()[d];
      if (dim->kind != ExprKind::symbol || !std::count(op.symbols.begin(), op.symbols.end(), dim->id)) continue;
      if (!named.insert(dim->id).second) continue;
      dims.rows.push_back({dim->id, 0, body.results[1 + k]->shape()[d - 1]});
    }
  for (int id : op.symbols)
    if (dims.iterations < 0 && !named.count(id)) dims.iterations = id;
  return dims;
}

}  // namespace metac
