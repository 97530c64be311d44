#include "compiler/ops/layers/convolution.h"

#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {

Var* per_channel(Graph& g, Var* v, int rank) {
  std::vector<int> trailing;
  for (int i = 2; i < rank; ++i) trailing.push_back(i - 1);
  return trailing.empty() ? v : unsqueeze(g, v, trailing);
}

Var* convolve(Graph& g, Var* x, Var* w, const std::vector<Window>& windows, Expr groups) {
  const bool grouped = !groups.is_int(1);
  Dim batch = x->shape()[0], outputs = w->shape()[0], inputs = w->shape()[1];
  Shape domain{batch};
  if (grouped) domain.push_back(groups);
  domain.push_back(grouped ? floor_div(outputs, groups) : outputs);
  int first_out = static_cast<int>(domain.size());
  for (const Window& window : windows) domain.push_back(window.out);
  Shape result(domain.begin(), domain.end());
  int input_axis = static_cast<int>(domain.size());
  domain.push_back(inputs);
  for (const Window& window : windows) domain.push_back(window.kernel);

  Expr group = grouped ? axis(1) : Expr(0);
  std::vector<Expr> x_indices{axis(0), group * inputs + axis(input_axis)}, conditions;
  std::vector<Expr> w_indices{grouped ? group * domain[2] + axis(2) : axis(1), axis(input_axis)};
  for (size_t i = 0; i < windows.size(); ++i) {
    Expr out = axis(first_out + static_cast<int>(i)), kernel = axis(input_axis + 1 + static_cast<int>(i));
    Expr source = windows[i].source(out, kernel);
    x_indices.push_back(source);
    windows[i].add_conditions(source, false, conditions);
    w_indices.push_back(kernel);
  }
  Var* xx = g.reindex({x}, domain, x_indices, conditions);
  Var* ww = g.reindex({w}, domain, w_indices);
  int rank = static_cast<int>(domain.size());
  Var* products = g.elementwise({xx, ww}, domain,
                                load(0, x->dtype(), identity_indices(rank)) * load(1, w->dtype(), identity_indices(rank)));
  Var* sums = g.reindex_reduce({products}, result, identity_indices(input_axis), Reduce::add);
  if (!grouped) return sums;
  result.erase(result.begin() + 1);
  result[1] = outputs;
  return reshape(g, sums, result);
}

int64_t check_convolution(Lowering& n, Var* x, Var* w, Var* bias) {
  Graph& g = n.graph();
  require_rank_at_least(x, 3, "X");
  require_rank(w, x->rank(), concat("W (for X of shape ", to_string(x->shape()), ")"));
  int64_t groups = n.integer("group", 1);
  if (groups < 1) fail("group must be at least 1, found ", groups);
  const int64_t* outputs = w->shape()[0].if_int();
  if (outputs && *outputs % groups != 0) fail("group ", groups, " does not divide the ", *outputs, " output channels");
  if (!outputs)
    g.require(equal(floor_mod(w->shape()[0], groups), 0), concat("group ", groups, " must divide the output channels"));
  require_equal(g, x->shape()[1], w->shape()[1] * Expr(groups),
                concat("X ", to_string(x->shape()), " with W ", to_string(w->shape()), " in ", groups,
                       " groups: channels of X, channels of W times groups"));
  std::vector<int64_t> kernel = n.integers("kernel_shape");
  if (!kernel.empty() && kernel.size() + 2 != w->shape().size())
    fail("kernel_shape has ", kernel.size(), " values, W has shape ", to_string(w->shape()));
  for (size_t i = 0; i < kernel.size(); ++i)
    require_equal(g, w->shape()[2 + i], kernel[i],
                  concat("kernel_shape[", i, "] against W of shape ", to_string(w->shape())));
  if (bias) {
    require_rank(bias, 1, "B");
    require_equal(g, bias->shape()[0], w->shape()[0], "length of B against the output channels");
  }
  return groups;
}

Var* convolve_node(Lowering& n) { return convolve_node(n, n.input(0), n.input(1), n.optional_input(2)); }

Var* convolve_node(Lowering& n, Var* x, Var* w, Var* bias) {
  Graph& g = n.graph();
  require_float(x, "X");
  require_same_dtype(x, w, "X", "W");
  int64_t groups = check_convolution(n, x, w, bias);
  std::vector<Window> windows = plan_windows(n, g, spatial_dims(x->shape()), spatial_dims(w->shape()));
  Var* y = convolve(g, widen(g, x), widen(g, w), windows, groups);
  if (bias) {
    require_same_dtype(x, bias, "X", "B");
    y = map(g, Fn::add, y, per_channel(g, widen(g, bias), y->rank()));
  }
  return y;
}

static void lower_conv(Lowering& n) { n.set_output(0, cast(n.graph(), convolve_node(n), n.input(0)->dtype())); }

METAC_OPERATOR("Conv")
    .since({1, 11, 22})
    .inputs(2, 3)
    .outputs(1)
    .attribute("group", Attribute::Kind::integer)
    .attribute("pads", Attribute::Kind::integers)
    .attribute("auto_pad", Attribute::Kind::string)
    .attribute("strides", Attribute::Kind::integers)
    .attribute("dilations", Attribute::Kind::integers)
    .attribute("kernel_shape", Attribute::Kind::integers)
    .lower(lower_conv);

}  // namespace metac
