// What Resize and Upsample do to each axis: the new extent, the scale, and the coordinate map.
#pragma once
#include <string>
#include <vector>

#include "compiler/ops/registry.h"

namespace metac {

struct AxisResize {
  int axis = 0;
  Dim from, to;
  // float32 Exprs of rank-0 values: constants, or loads of `operands` where only data knows them.
  Expr scale;               // to / from, as the model gives it
  Expr exact_to;            // scale * from before rounding
  Expr roi_start, roi_end;  // tf_crop_and_resize only, in units of the axis
  int64_t factor = 0;       // the scale where it is known to be this whole number, else 0
  bool untouched = false;   // scale 1
};

struct ResizePlan {
  std::vector<AxisResize> axes;
  std::vector<Var*> operands;  // scales, roi: as far as they are not constants
  Shape shape;                 // of the output
};

// Reads scales, sizes, roi, axes and keep_aspect_ratio_policy of every opset of Resize and Upsample.
ResizePlan plan_resize(Lowering& n);

// The coordinate in the input that output position axis(0) of `a` shows, as a float32 Expr.
Expr source_coordinate(const AxisResize& a, const std::string& mode);

}  // namespace metac
