// Weights of a softmax that only weigh sums (attention): those that are next to nothing are zeros. Masks of -100 make
// weights of 4e-44, and every product with a denormal takes as long as a hundred others.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// exp(x - max x) below e^-60 becomes 0 where nothing but kernels reads the weights and all that is made of them are sums
// of their multiples, divided or not. The largest weight of a sum is 1: what is left out changes no bit of it, unless it
// weighs numbers 1e19 times as large as all others.
void drop_tiny_weights(RegionState& state);

}  // namespace metac
