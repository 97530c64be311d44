// States of sessions in a GPU's memory, by the driver: copies are ordered behind kernels of the default stream.
#pragma once
#include "runtime/executor/state_place.h"

namespace metac {

// Of the first device, which has been opened.
metac_runtime::StatePlace cuda_state_place();

}  // namespace metac
