#include "compiler/ops/layers/windows.h"

namespace metac {

// Larger numbers than any real model has; they keep products of attributes inside int64.
static constexpr int64_t attribute_limit = int64_t{1} << 31;

void Window::add_conditions(Expr source_index, bool can_overhang, std::vector<Expr>& conditions) const {
  if (!pad_before.is_int(0)) conditions.push_back(Expr(0) <= source_index);
  if (can_overhang || !pad_after.is_int(0) || !pad_before.is_int(0)) conditions.push_back(source_index < in);
}

std::vector<int64_t> spatial_attribute(const Lowering& n, const char* name, size_t axes, int64_t otherwise, int64_t least) {
  std::vector<int64_t> values = n.integers(name);
  if (values.empty()) return std::vector<int64_t>(axes, otherwise);
  if (values.size() != axes) fail(name, " has ", values.size(), " values, the operand has ", axes, " spatial axes");
  for (size_t i = 0; i < axes; ++i)
    if (values[i] < least || values[i] >= attribute_limit)
      fail(name, "[", i, "] is ", values[i], ", allowed are ", least, " to ", attribute_limit - 1);
  return values;
}

static void set_pads(const Lowering& n, std::vector<Window>& windows) {
  std::string mode = n.string("auto_pad", "NOTSET");
  if (mode.empty()) mode = "NOTSET";
  size_t axes = windows.size();
  if (mode == "NOTSET") {
    std::vector<int64_t> pads = n.integers("pads");
    if (pads.empty()) return;
    if (pads.size() != 2 * axes) fail("pads has ", pads.size(), " values, ", axes, " spatial axes need ", 2 * axes);
    for (size_t i = 0; i < pads.size(); ++i)
      if (pads[i] < 0 || pads[i] >= attribute_limit)
        fail("pads[", i, "] is ", pads[i], ", allowed are 0 to ", attribute_limit - 1);
    for (size_t i = 0; i < axes; ++i) {
      windows[i].pad_before = pads[i];
      windows[i].pad_after = pads[axes + i];
    }
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    for (Window& w : windows) {
      Expr total = max((ceil_div(w.in, w.stride) - Expr(1)) * Expr(w.stride) + w.span() - w.in, Expr(0));
      Expr half = floor_div(total, 2);
      w.pad_before = mode == "SAME_UPPER" ? half : total - half;
      w.pad_after = mode == "SAME_UPPER" ? total - half : half;
    }
  } else if (mode != "VALID") {
    fail("auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, found ", quoted(mode));
  }
}

std::vector<Window> plan_windows(const Lowering& n, Graph& g, const Shape& spatial, const std::vector<Dim>& kernel) {
  size_t axes = spatial.size();
  if (kernel.size() != axes) fail("the kernel has ", kernel.size(), " axes, the operand has ", axes, " spatial axes");
  std::vector<int64_t> strides = spatial_attribute(n, "strides", axes, 1),
                       dilations = spatial_attribute(n, "dilations", axes, 1);
  std::vector<Window> windows(axes);
  for (size_t i = 0; i < axes; ++i) {
    if (const int64_t* k = kernel[i].if_int(); k && (*k < 1 || *k >= attribute_limit))
      fail("kernel extent ", *k, " in spatial axis ", i, ", allowed are 1 to ", attribute_limit - 1);
    windows[i].in = spatial[i];
    windows[i].kernel = kernel[i];
    windows[i].stride = strides[i];
    windows[i].dilation = dilations[i];
  }
  set_pads(n, windows);
  bool ceil_mode = n.integer("ceil_mode", 0) != 0;
  std::string auto_pad = n.string("auto_pad", "NOTSET");
  bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  for (size_t i = 0; i < axes; ++i) {
    Window& w = windows[i];
    if (same) {
      w.out = ceil_div(w.in, w.stride);
      continue;
    }
    Expr padded = w.in + w.pad_before + w.pad_after;
    g.require(w.span() <= padded,
              concat("the kernel spans ", to_string(w.span()), " elements of spatial axis ", i, " which has ",
                     to_string(w.in), " and ", to_string(w.pad_before + w.pad_after), " of padding"));
    w.out = floor_div(padded - w.span(), w.stride) + Expr(1);
    // The last window must start inside the operand or the padding before it.
    if (ceil_mode) w.out = min(ceil_div(padded - w.span(), w.stride) + Expr(1), ceil_div(w.in + w.pad_before, w.stride));
  }
  return windows;
}

std::vector<Window> plan_windows(const Lowering& n, Graph& g, const Shape& spatial) {
  std::vector<int64_t> kernel = n.integers("kernel_shape");
  if (kernel.empty()) fail("kernel_shape is missing");
  return plan_windows(n, g, spatial, std::vector<Dim>(kernel.begin(), kernel.end()));
}

}  // namespace metac
