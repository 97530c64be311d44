// A reduction over a window of several axes as one after the other: first what lies above each other, then what lies side by
// side.
//
//   out[w] = max over p, q of f(p, w + r q)   becomes   row[u] = max over p of f(p, u);  out[w] = max over q of row[w + r q]
//
// P x Q steps an element become about P + Q. What is computed of neighbouring windows is the same, and is done once.
#pragma once
#include <optional>

#include "compiler/loops/stage_lowering.h"

namespace metac {

struct SeparatedWindow {
  size_t around = 0;  // kept loops that run around both
  Local row;
  Stage above, beside;  // without the loops around them
};

// `accumulator` is the reduced value's local. Empty where the body is not that of a window, or the steps saved do not pay
// for the row.
std::optional<SeparatedWindow> separate_window(Kernel& kernel, const Stage& stage, int accumulator, DType dtype);

}  // namespace metac
