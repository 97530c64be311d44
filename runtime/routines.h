// External routines by name, as routines_contract.h describes them.
#pragma once
#include "routines/draw_number.h"
#include "routines/non_max_suppression.h"
#include "routines/nonzero.h"
#include "routines/reinterpret_bits.h"
#include "routines/top_k.h"
#include "routines/unique.h"

namespace METAC_RUNTIME_NAMESPACE {

inline const RoutineEntry* all_routines(int32_t* count) {
  static constexpr RoutineEntry table[] = {
      {"draw_number", &draw_number},
      {"non_max_suppression", &non_max_suppression},
      {"nonzero", &nonzero},
      {"reinterpret_bits", &reinterpret_bits},
      {"top_k", &top_k},
      {"unique", &unique},
  };
  *count = static_cast<int32_t>(sizeof(table) / sizeof(table[0]));
  return table;
}

}  // namespace METAC_RUNTIME_NAMESPACE
