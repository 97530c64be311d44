// ConvTranspose in gather form: every element of the result sums what reaches it, so that no scatter is needed.
//
// Input i reaches output y = i*s + k*d - p through weight k. For a given y the pairs (i, k) solve i*s + k*d = y + p.
//   s = 1:  i = y + p - k*d, a convolution with reversed weights.
//   d = 1:  write y = q*s + r with r in [0, s). Only the weights k = (r + p) mod s + s*t reach it, from
//           i = q + floor((r + p) / s) - t. So the domain is split by residue: [q, r, t] instead of [y, k], with no
//           divisibility test and no multiplication by zero inside.
//   else:   all k, under the condition that s divides y + p - k*d.
#include "compiler/ops/arithmetic.h"
#include "compiler/ops/convolution.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// Window::in is the operand's extent, out the result's; pads cut the full result [0, (in-1)*s + span + output_padding).
std::vector<Window> plan_transposed(Lowering& n, const Shape& spatial, const Shape& kernel) {
  Graph& g = n.graph();
  size_t axes = spatial.size();
  std::vector<int64_t> strides = spatial_attribute(n, "strides", axes, 1), dilations = spatial_attribute(n, "dilations", axes, 1);
  std::vector<int64_t> extra = spatial_attribute(n, "output_padding", axes, 0, 0);
  std::vector<int64_t> wanted = n.integers("output_shape"), pads = n.integers("pads");
  std::string mode = n.string("auto_pad", "NOTSET");
  if (mode.empty()) mode = "NOTSET";
  if (mode != "NOTSET" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID")
    fail("auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, found ", quoted(mode));
  if (wanted.size() == axes + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != axes) fail("output_shape has ", wanted.size(), " values, expected ", axes);
  if (!pads.empty() && pads.size() != 2 * axes) fail("pads has ", pads.size(), " values, ", axes, " spatial axes need ", 2 * axes);
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

// How one spatial axis enters the iteration domain.
struct AxisPlan {
  bool split;      // by residue: domain axes q, r in the result and t in the sum; else y and k
  Shape result, sum;
};
AxisPlan plan_axis(const Window& w) {
  if (w.stride == 1 || w.dilation != 1) return {false, {w.out}, {w.kernel}};
  return {true, {ceil_div(w.out, w.stride), w.stride}, {ceil_div(w.kernel, w.stride)}};
}

// x [N, C, spatial...], w [C, O/groups, kernel...] -> [N, O, out...]
Var* convolve_transposed(Graph& g, Var* x, Var* w, const std::vector<Window>& windows, int64_t groups) {
  Dim per_group = w->shape()[1], inputs = floor_div(w->shape()[0], groups);
  Shape domain{x->shape()[0]};
  if (groups > 1) domain.push_back(groups);
  domain.push_back(per_group);
  int output_axis = static_cast<int>(domain.size()) - 1, at = output_axis + 1;
  Shape merged{x->shape()[0], per_group * Expr(groups)};
  std::vector<AxisPlan> plans;
  for (const Window& window : windows) {
    plans.push_back(plan_axis(window));
    domain.insert(domain.end(), plans.back().result.begin(), plans.back().result.end());
    merged.push_back(element_count(plans.back().result));
  }
  Shape result = domain;
  int input_axis = static_cast<int>(domain.size()), sum_axis = input_axis + 1;
  domain.push_back(inputs);
  for (const AxisPlan& plan : plans) domain.insert(domain.end(), plan.sum.begin(), plan.sum.end());

  Expr group = groups > 1 ? axis(1) : Expr(0), channel = group * inputs + axis(input_axis);
  std::vector<Expr> x_indices{axis(0), channel}, w_indices{channel, axis(output_axis)}, x_conditions, w_conditions;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& v = windows[i];
    Expr source, kernel, t = axis(sum_axis + static_cast<int>(i));
    if (plans[i].split) {
      Expr reach = axis(at + 1) + v.pad_before;
      source = axis(at) + floor_div(reach, v.stride) - t;
      kernel = floor_mod(reach, v.stride) + t * Expr(v.stride);
      w_conditions.push_back(kernel < v.kernel);
      at += 2;
    } else {
      kernel = t;
      Expr distance = axis(at) + v.pad_before - t * Expr(v.dilation);
      source = floor_div(distance, v.stride);
      if (v.stride > 1) x_conditions.push_back(equal(floor_mod(distance, v.stride), 0));
      at += 1;
    }
    x_conditions.push_back(Expr(0) <= source);
    x_conditions.push_back(source < v.in);
    x_indices.push_back(source);
    w_indices.push_back(kernel);
  }
  int rank = static_cast<int>(domain.size());
  Var* xx = g.reindex({x}, domain, x_indices, x_conditions);
  Var* ww = g.reindex({w}, domain, w_indices, w_conditions);
  Var* products = g.elementwise({xx, ww}, domain, load(0, x->dtype(), identity_indices(rank)) * load(1, w->dtype(), identity_indices(rank)));
  Var* y = g.reindex_reduce({products}, result, identity_indices(input_axis), Reduce::add);
  y = reshape(g, y, merged);
  std::vector<int> cut;
  std::vector<Expr> zeros, extents, ones;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (merged[2 + i] == windows[i].out) continue;
    cut.push_back(2 + static_cast<int>(i));
    zeros.push_back(0);
    ones.push_back(1);
    extents.push_back(windows[i].out);
  }
  return cut.empty() ? y : slice(g, y, cut, zeros, extents, ones);
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
  require_equal(g, x->shape()[1], w->shape()[0], concat("channels of X ", to_string(x->shape()), " and W ", to_string(w->shape())));
  g.require(equal(floor_mod(w->shape()[0], groups), 0), concat("group ", groups, " must divide the ", to_string(w->shape()[0]), " channels"));
  std::vector<int64_t> kernel = n.integers("kernel_shape");
  if (!kernel.empty() && kernel.size() + 2 != w->shape().size())
    fail("kernel_shape has ", kernel.size(), " values, W has shape ", to_string(w->shape()));
  for (size_t i = 0; i < kernel.size(); ++i)
    require_equal(g, w->shape()[2 + i], kernel[i], concat("kernel_shape[", i, "] against W of shape ", to_string(w->shape())));
  Var* y = convolve_transposed(g, widen(g, x), widen(g, w), plan_transposed(n, spatial_dims(x->shape()), spatial_dims(w->shape())), groups);
  if (bias) {
    require_same_dtype(x, bias, "X", "B");
    require_rank(bias, 1, "B");
    require_equal(g, bias->shape()[0], y->shape()[1], "length of B against the output channels");
    y = map(g, Fn::add, y, per_channel(g, widen(g, bias), y->rank()));
  }
  n.set_output(0, cast(g, y, x->dtype()));
}

METAC_OPERATOR("ConvTranspose").since({1, 11, 22}).inputs(2, 3).outputs(1).attribute("group", Kind::integer)
    .attribute("pads", Kind::integers).attribute("auto_pad", Kind::string).attribute("strides", Kind::integers)
    .attribute("dilations", Kind::integers).attribute("kernel_shape", Kind::integers).attribute("output_padding", Kind::integers)
    .attribute("output_shape", Kind::integers).lower(lower_conv_transpose);

}  // namespace
}  // namespace metac
