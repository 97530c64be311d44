// The windows that convolutions and pools slide over the spatial axes, as ONNX's attributes kernel_shape, strides,
// dilations, pads, auto_pad and ceil_mode say. All extents may be symbolic.
#pragma once
#include "compiler/ops/registry.h"
#include "compiler/support/diagnostic.h"

namespace metac {

// One spatial axis. Position o of the result looks at the inputs o*stride + k*dilation - pad_before, k in [0, kernel);
// what falls outside [0, in) is padding.
struct Window {
  Dim in, kernel, out;
  int64_t stride = 1, dilation = 1;
  Expr pad_before = 0, pad_after = 0;

  Expr span() const { return (kernel - Expr(1)) * Expr(dilation) + Expr(1); }
  Expr source(Expr out_index, Expr kernel_index) const {
    return out_index * Expr(stride) + kernel_index * Expr(dilation) - pad_before;
  }
  // The conditions under which source() is inside; none where nothing is padded. `can_overhang`: the last window may
  // reach beyond the padding (ceil_mode).
  void add_conditions(Expr source_index, bool can_overhang, std::vector<Expr>& conditions) const;
};

// strides, dilations or another list of one positive number per spatial axis; absent: all `otherwise`.
std::vector<int64_t> spatial_attribute(const Lowering& n, const char* name, size_t axes, int64_t otherwise,
                                       int64_t least = 1);
// Reads the attributes and computes `out`. Throws with the values on anything that ONNX does not allow, a kernel larger
// than its padded input included.
std::vector<Window> plan_windows(const Lowering& n, Graph& g, const Shape& spatial, const std::vector<Dim>& kernel);
// As above with `kernel_shape` read from the node (pools).
std::vector<Window> plan_windows(const Lowering& n, Graph& g, const Shape& spatial);

// The spatial dims of a tensor [N, C, spatial...].
inline Shape spatial_dims(const Shape& shape) { return Shape(shape.begin() + 2, shape.end()); }

}  // namespace metac
