// The same bytes as another type.
#pragma once
#include "../routine.h"

namespace METAC_RUNTIME_NAMESPACE {

inline bool reinterpret_bits(RoutineCall& call) {
  if (!call.prepare_outputs()) return false;
  const int64_t bytes = call.inputs[0].count * size_of(call.inputs[0].dtype);
  if (bytes > 0) std::memcpy(call.outputs[0].data, call.inputs[0].data, static_cast<size_t>(bytes));
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE
