// How many numbers have been drawn: the counter of random operators.
#pragma once
#include "../routine.h"

namespace METAC_RUNTIME_NAMESPACE {

inline bool draw_number(RoutineCall& call) {
  if (!call.prepare_outputs()) return false;
  *call.outputs[0].as<int64_t>() = (*call.draws)++;
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE
