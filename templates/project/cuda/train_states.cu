// @name@_train: where its states live.
#include "runtime/cuda/state_memory.h"

extern const metac::train::StateMemory train_state_memory;
const metac::train::StateMemory train_state_memory = {metac::train::cuda::take, metac::train::cuda::give, metac::train::cuda::find_non_finite, metac::train::cuda::reason, metac::train::cuda::choose};
