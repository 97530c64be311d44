#include "compiler/ops/movement/resize_axes.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/movement/interpolation.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

constexpr DType f32 = DType::f32;
constexpr int64_t longest = int64_t{1} << 40;

Expr real(double value) { return float_constant(value, f32); }

struct Fraction {
  int64_t numerator, denominator;
};

// The simplest fraction that rounds to the float `x`: continued fractions.
Fraction simplest_fraction(float x) {
  int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  double rest = x;
  for (int round = 0; round < 40; ++round) {
    double whole = std::floor(rest);
    int64_t p2 = static_cast<int64_t>(whole) * p1 + p0, q2 = static_cast<int64_t>(whole) * q1 + q0;
    p0 = p1, q0 = q1, p1 = p2, q1 = q2;
    if (static_cast<float>(static_cast<double>(p1) / static_cast<double>(q1)) == x || rest == whole) break;
    rest = 1 / (rest - whole);
  }
  return {p1, q1};
}

void check_scale(double scale, int axis) {
  if (!(scale > 0) || scale > 1e9) fail("the scale of axis ", axis, " is ", scale, ", it must be positive and at most 1e9");
}

// floor(from * scale): in float32 where the extent is known, as other engines do; exactly where it is not.
Dim scaled_dim(const Graph& g, Dim from, float scale, int axis) {
  check_scale(scale, axis);
  if (from.if_int()) {
    float exact = static_cast<float>(from.as_int()) * scale;
    if (!(exact < 1e12f)) fail("axis ", axis, " of extent ", to_string(from), " would be resized to ", exact, " elements");
    return static_cast<int64_t>(exact);
  }
  Fraction f = simplest_fraction(scale);
  return simplified(g, floor_div(from * Expr(f.numerator), f.denominator));
}

// A whole number that the extent grows by, if it is one.
int64_t whole_factor(Dim from, Dim to) {
  if (from.is_int(0)) return 0;
  Expr q = floor_div(to, from);
  return q.if_int() && q.as_int() >= 1 && from * q == to ? q.as_int() : 0;
}

class Planner {
 public:
  explicit Planner(Lowering& n) : n_(n), g_(n.graph()), x_(n.input(0)) { plan_.shape = x_->shape(); }

  ResizePlan plan() {
    std::vector<int> axes = n_.has("axes") ? check_axes(n_.integers("axes"), x_->rank()) : all_axes(x_->rank());
    for (int k : axes) {
      AxisResize a;
      a.axis = k;
      a.from = x_->shape()[k];
      plan_.axes.push_back(a);
    }
    if (Var* sizes = sizes_operand())
      read_sizes(sizes);
    else
      read_scales();
    if (n_.string("coordinate_transformation_mode", "") == "tf_crop_and_resize") read_roi();
    for (AxisResize& a : plan_.axes) {
      plan_.shape[a.axis] = a.to;
      a.factor = a.scale.is_constant() ? whole_factor(a.from, a.to) : 0;
      if (a.scale.is_constant() && a.factor &&
          std::fabs(a.scale->float_value - static_cast<double>(a.factor)) > 1e-6 * static_cast<double>(a.factor))
        a.factor = 0;
      a.untouched = a.factor == 1 && !a.roi_start;
      g_.require(logical_or(Expr(1) <= a.from, equal(a.to, 0)),
                 concat("axis ", a.axis, " of ", to_string(x_->shape()), " has no elements to resize"));
    }
    return plan_;
  }

 private:
  static bool is_absent(const Var* x) { return !x || (x->rank() == 1 && x->shape()[0].is_int(0)); }

  Var* sizes_operand() const {
    if (n_.node().op_type == "Upsample" || n_.opset() < 11) return nullptr;
    Var* sizes = n_.optional_input(3);
    Var* scales = n_.optional_input(2);
    if (!is_absent(sizes) && !is_absent(scales)) fail("both scales and sizes are given");
    return is_absent(sizes) ? nullptr : sizes;
  }

  void read_sizes(Var* sizes) {
    std::vector<Expr> to = index_elements(g_, sizes, "a size", 0, longest);
    if (to.size() != plan_.axes.size()) fail("sizes has ", to.size(), " entries for ", plan_.axes.size(), " axes");
    for (size_t k = 0; k < to.size(); ++k) plan_.axes[k].to = to[k];
    std::string policy = n_.string("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") return keep_aspect_ratio(policy);
    for (AxisResize& a : plan_.axes) {
      a.exact_to = cast(a.to, f32);
      // The quotient itself and not a rounded 1 / scale is what counts; both are kept as floats.
      a.scale = a.to == a.from               ? real(1)
                : whole_factor(a.from, a.to) ? real(static_cast<double>(whole_factor(a.from, a.to)))
                                             : cast(a.to, f32) / cast(a.from, f32);
    }
  }

  // One scale for all: the least or the greatest of those asked for.
  void keep_aspect_ratio(const std::string& policy) {
    if (policy != "not_larger" && policy != "not_smaller")
      fail("keep_aspect_ratio_policy ", quoted(policy), " is not known");
    auto wide = [](Expr e) { return cast(e, DType::f64); };
    Expr scale;
    for (const AxisResize& a : plan_.axes) {
      g_.require(Expr(1) <= a.from, concat("axis ", a.axis, " has no elements to resize"));
      Expr own = wide(a.to) / wide(a.from);
      scale = !scale ? own : policy == "not_larger" ? min(scale, own) : max(scale, own);
    }
    for (AxisResize& a : plan_.axes) {
      Expr exact = scale * wide(a.from);
      Var* rounded = g_.elementwise({}, Shape{}, cast(floor_of(exact + float_constant(0.5, DType::f64)), DType::i64));
      a.to = index_scalar(g_, rounded, concat("the resized axis ", a.axis), 0, longest);
      a.scale = cast(scale, f32);
      a.exact_to = cast(exact, f32);
    }
  }

  void read_scales() {
    std::vector<double> known;
    Var* scales = nullptr;
    if (n_.node().op_type == "Upsample" && n_.opset() < 7)
      known = {1, 1, n_.real("height_scale", 1), n_.real("width_scale", 1)};
    else if (n_.node().op_type == "Upsample" && n_.opset() < 9)
      known = n_.reals("scales");
    else {
      scales = n_.optional_input(n_.node().op_type == "Upsample" || n_.opset() < 11 ? 1 : 2);
      if (is_absent(scales)) fail("neither scales nor sizes are given");
      if (scales->rank() != 1 || !is_float(scales->dtype()))
        fail("scales must be a float vector, found ", name_of(scales->dtype()), " ", to_string(scales->shape()));
      if (auto numbers = known_numbers(scales)) known = *numbers;
    }
    if (!known.empty()) {
      if (known.size() != plan_.axes.size()) fail("scales has ", known.size(), " entries for ", plan_.axes.size(), " axes");
      for (size_t k = 0; k < known.size(); ++k) {
        AxisResize& a = plan_.axes[k];
        a.to = scaled_dim(g_, a.from, static_cast<float>(known[k]), a.axis);
        a.scale = real(known[k]);
        a.exact_to = a.scale * cast(a.from, f32);
      }
      return;
    }
    g_.require(equal(scales->shape()[0], Expr(static_cast<int64_t>(plan_.axes.size()))),
               concat("scales must have ", plan_.axes.size(), " entries"));
    int operand = add_operand(scales);
    for (size_t k = 0; k < plan_.axes.size(); ++k) {
      AxisResize& a = plan_.axes[k];
      a.scale = cast(load(operand, scales->dtype(), {Expr(static_cast<int64_t>(k))}), f32);
      a.exact_to = a.scale * cast(a.from, f32);
      Expr own = cast(load(0, scales->dtype(), {Expr(static_cast<int64_t>(k))}), f32) * cast(a.from, f32);
      Var* extent = g_.elementwise({scales}, Shape{}, cast(floor_of(own), DType::i64));
      a.to = index_scalar(g_, extent, concat("the resized axis ", a.axis), 0, longest);
    }
  }

  void read_roi() {
    Var* roi = n_.optional_input(1);
    if (is_absent(roi)) fail("tf_crop_and_resize needs a roi");
    int64_t count = static_cast<int64_t>(plan_.axes.size());
    if (roi->rank() != 1) fail("roi must be a vector, its shape is ", to_string(roi->shape()));
    g_.require(equal(roi->shape()[0], Expr(2 * count)),
               concat("roi must have ", 2 * count, " entries, its shape is ", to_string(roi->shape())));
    if (!is_float(roi->dtype())) fail("roi must be float, not ", name_of(roi->dtype()));
    auto known = known_numbers(roi);
    int operand = known ? -1 : add_operand(roi);
    auto entry = [&](int64_t at) { return known ? real((*known)[at]) : cast(load(operand, roi->dtype(), {Expr(at)}), f32); };
    for (int64_t k = 0; k < count; ++k) {
      plan_.axes[k].roi_start = entry(k);
      plan_.axes[k].roi_end = entry(count + k);
    }
  }

  int add_operand(Var* x) {
    plan_.operands.push_back(x);
    return static_cast<int>(plan_.operands.size()) - 1;
  }

  Lowering& n_;
  Graph& g_;
  Var* x_;
  ResizePlan plan_;
};

}  // namespace

ResizePlan plan_resize(Lowering& n) { return Planner(n).plan(); }

Expr source_coordinate(const AxisResize& a, const std::string& mode) {
  Expr i = cast(axis(0), f32), from = cast(a.from, f32), one = real(1), half = real(0.5);
  if (mode == "align_corners") return select(equal(a.exact_to, one), real(0), i * (from - one) / (a.exact_to - one));
  if (mode == "asymmetric") return i / a.scale;
  if (mode == "tf_crop_and_resize") {
    Expr width = (a.roi_end - a.roi_start) * (from - one);
    return select(equal(a.exact_to, one), width * half, i * width / (a.exact_to - one)) + a.roi_start * (from - one);
  }
  Expr centred = (i + half) / a.scale - half;
  if (mode == "half_pixel") return centred;
  if (mode == "pytorch_half_pixel") return select(equal(a.exact_to, one), -half, centred);
  if (mode == "half_pixel_symmetric") return from * half * (one - cast(a.to, f32) / a.exact_to) + centred;
  fail("coordinate_transformation_mode ", quoted(mode), " is not known");
}

}  // namespace metac
