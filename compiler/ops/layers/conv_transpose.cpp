// ConvTranspose: input i reaches output y = i*s + k*d - p through weight k. That scatter is what is written here; whoever
// compiles it inverts it to gather form (tensor/invert_scatter.h).
#include "compiler/ops/layers/convolution.h"
#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// Window::in is the operand's extent, out the result's; pads cut the full result [0, (in-1)*s + span + output_padding).
std::vector<Window> plan_transposed(Lowering& n, const Shape& spatial, const Shape& kernel) {
  Graph& g = n.graph();
  size_t axes = spatial.size();
  std::vector<int64_t> strides = spatial_attribute(n, "strides", axes, 1),
                       dilations = spatial_attribute(n, "dilations", axes, 1);
  std::vector<int64_t> extra = spatial_attribute(n, "output_padding", axes, 0, 0);
  std::vector<int64_t> wanted = n.integers("output_shape"), pads = n.integers("pads");
  std::string mode = n.string("auto_pad", "NOTSET");
  if (mode.empty()) mode = "NOTSET";
  if (mode != "NOTSET" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID")
    fail("auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, found ", quoted(mode));
  if (wanted.size() == axes + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != axes) fail("output_shape has ", wanted.size(), " values, expected ", axes);
  if (!pads.empty() && pads.size() != 2 * axes)
    fail("pads has ", pads.size(), " values, ", axes, " spatial axes need ", 2 * axes);
  std::vector<Window> windows(axes);
  for (size_t i = 0; i < axes; ++i) {
    Window& w = windows[i];
    w.in = spatial[i];
    w.kernel = kernel[i];
    if (w.kernel.is_int(0)) fail("W has no elements in spatial axis ", i);
    w.stride = strides[i];
    w.dilation = dilations[i];
    Expr full = (w.in - Expr(1)) * Expr(w.stride) + w.span() + Expr(extra[i]);
    bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (!wanted.empty() || same) {
      if (!wanted.empty() && (wanted[i] < 1 || wanted[i] >= int64_t{1} << 40)) fail("output_shape[", i, "] is ", wanted[i]);
      w.out = wanted.empty() ? w.in * Expr(w.stride) : Expr(wanted[i]);
      Expr total = full - w.out, half = floor_div(total, 2);
      w.pad_before = mode == "SAME_UPPER" ? half : total - half;
      w.pad_after = total - w.pad_before;
    } else {
      for (size_t k : {i, axes + i})
        if (!pads.empty() && (pads[k] < 0 || pads[k] >= int64_t{1} << 31)) fail("pads[", k, "] is ", pads[k]);
      if (!pads.empty() && mode == "NOTSET") {
        w.pad_before = pads[i];
        w.pad_after = pads[axes + i];
      }
      w.out = full - w.pad_before - w.pad_after;
    }
    g.require(Expr(1) <= w.out, concat("the result has extent ", to_string(w.out), " in spatial axis ", i));
  }
  return windows;
}

// x [N, C, spatial...], w [C, O/groups, kernel...] -> [N, O, out...]
Var* convolve_transposed(Graph& g, Var* x, Var* w, const std::vector<Window>& windows, int64_t groups) {
  int spatial = static_cast<int>(windows.size());
  Dim per_group = w->shape()[1], inputs = floor_div(w->shape()[0], groups);
  Shape domain{x->shape()[0], groups, per_group}, merged{x->shape()[0], per_group * Expr(groups)};
  Shape result = domain;
  for (const Window& v : windows) domain.push_back(v.in);
  int input_axis = static_cast<int>(domain.size());
  domain.push_back(inputs);
  for (const Window& v : windows) domain.push_back(v.kernel);

  Expr channel = axis(1) * inputs + axis(input_axis);
  std::vector<Expr> x_indices{axis(0), channel}, w_indices{channel, axis(2)}, y_indices = identity_indices(3), inside;
  for (int k = 0; k < spatial; ++k) {
    const Window& v = windows[static_cast<size_t>(k)];
    Expr i = axis(3 + k), tap = axis(input_axis + 1 + k), y = i * Expr(v.stride) + tap * Expr(v.dilation) - v.pad_before;
    x_indices.push_back(i);
    w_indices.push_back(tap);
    y_indices.push_back(y);
    inside.push_back(Expr(0) <= y);
    inside.push_back(y < v.out);
    result.push_back(v.out);
    merged.push_back(v.out);
  }
  std::vector<Expr> all = identity_indices(static_cast<int>(domain.size()));
  Var* xx = g.reindex({x}, domain, x_indices);
  Var* ww = g.reindex({w}, domain, w_indices);
  Var* products = g.elementwise({xx, ww}, domain, load(0, x->dtype(), all) * load(1, w->dtype(), all));
  return reshape(g, g.reindex_reduce({products}, result, y_indices, Reduce::add, inside), merged);
}

void lower_conv_transpose(Lowering& n) {
  Graph& g = n.graph();
  Var *x = n.input(0), *w = n.input(1), *bias = n.optional_input(2);
  require_float(x, "X");
  require_same_dtype(x, w, "X", "W");
  require_rank_at_least(x, 3, "X");
  require_rank(w, x->rank(), concat("W (for X of shape ", to_string(x->shape()), ")"));
  int64_t groups = n.integer("group", 1);
  if (groups < 1) fail("group must be at least 1, found ", groups);
  require_equal(g, x->shape()[1], w->shape()[0],
                concat("channels of X ", to_string(x->shape()), " and W ", to_string(w->shape())));
  g.require(equal(floor_mod(w->shape()[0], groups), 0),
            concat("group ", groups, " must divide the ", to_string(w->shape()[0]), " channels"));
  std::vector<int64_t> kernel = n.integers("kernel_shape");
  if (!kernel.empty() && kernel.size() + 2 != w->shape().size())
    fail("kernel_shape has ", kernel.size(), " values, W has shape ", to_string(w->shape()));
  for (size_t i = 0; i < kernel.size(); ++i)
    require_equal(g, w->shape()[2 + i], kernel[i],
                  concat("kernel_shape[", i, "] against W of shape ", to_string(w->shape())));
  Var* y = convolve_transposed(g, widen(g, x), widen(g, w),
                               plan_transposed(n, spatial_dims(x->shape()), spatial_dims(w->shape())), groups);
  if (bias) {
    require_same_dtype(x, bias, "X", "B");
    require_rank(bias, 1, "B");
    require_equal(g, bias->shape()[0], y->shape()[1], "length of B against the output channels");
    y = map(g, Fn::add, y, per_channel(g, widen(g, bias), y->rank()));
  }
  n.set_output(0, cast(g, y, x->dtype()));
}

METAC_OPERATOR("ConvTranspose")
    .since({1, 11, 22})
    .inputs(2, 3)
    .outputs(1)
    .attribute("group", Kind::integer)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("dilations", Kind::integers)
    .attribute("kernel_shape", Kind::integers)
    .attribute("output_padding", Kind::integers)
    .attribute("output_shape", Kind::integers)
    .lower(lower_conv_transpose);

}  // namespace
}  // namespace metac
