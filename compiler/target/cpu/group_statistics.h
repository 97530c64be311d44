// Statistics of groups of channels, as group normalisation has them, by channels: sums over the points of each channel first,
// with channels in the lanes where these lie last, then over the channels of a group. What is one value for a group is stored
// for each of its channels, so that whoever normalises reads it beside the data:
//
//   mean[n, g] = sum over c < k, h, w of x[n, g*k + c, h, w] / count      y[n, i, h, w] = x[n, i, h, w] - mean[n, i/k]
//
//     part[n, i] = sum over h, w of x[n, i, h, w]
//     mean[n, i] = sum over c < k of part[n, i/k*k + c] / count           y[n, i, h, w] = x[n, i, h, w] - mean[n, i]
//
// Parameters that are read at i/k are stored for each channel as well, when the model is compiled.
#pragma once
#include "compiler/target/target.h"

namespace metac {

void group_statistics(RegionState& state);

}  // namespace metac
