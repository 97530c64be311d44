// nonzero(x) -> indices int64 [rank, n]; binds n.
#pragma once
#include "order.h"

namespace METAC_RUNTIME_NAMESPACE {

inline bool nonzero(RoutineCall& call) {
  const RoutineTensor& x = call.inputs[0];
  return with_element(x.dtype, [&](auto element) {
    using T = decltype(element);
    const T* data = x.as<T>();
    int64_t found = 0;
    for (int64_t i = 0; i < x.count; ++i) found += value_of(data[i]) != 0;
    if (call.symbol_count > 0) call.symbols[0] = found;
    if (!call.prepare_outputs()) return false;
    int64_t* indices = call.outputs[0].as<int64_t>();
    int64_t column = 0;
    for (int64_t i = 0; i < x.count; ++i) {
      if (value_of(data[i]) == 0) continue;
      int64_t rest = i;
      for (int32_t d = x.rank - 1; d >= 0; --d) {
        indices[d * found + column] = rest % x.dims[d];
        rest /= x.dims[d];
      }
      ++column;
    }
    return true;
  });
}

}  // namespace METAC_RUNTIME_NAMESPACE
