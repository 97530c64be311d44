// What program.cpp and prepare.cpp define and api.cpp reads.
#pragma once
#define METAC_RUNTIME_NAMESPACE @namespace@
#include "../include/@name@.h"
#include "runtime/routine.h"

namespace METAC_RUNTIME_NAMESPACE {

// Where a piece of the weights block comes from: raw parameter `parameter`, or output `prepare_output` of prepare_program.
struct WeightSource {
  int32_t parameter, prepare_output;
  int64_t offset, bytes;
};

extern const Program run_program;      // the model
extern const Program prepare_program;  // from the model's parameters to what the weights block holds
extern const WeightSource weight_sources[];
extern const int32_t weight_source_count;
extern const char weights_layout[];    // 64 hexadecimal digits: which program a weights block belongs to
extern const @name@_port input_ports[], output_ports[], parameter_ports[];
extern const RoutineEntry routines[];
extern const int32_t routine_count;

}  // namespace METAC_RUNTIME_NAMESPACE
