#include "compiler/target/gpu/vendor/library_gradient.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/reads.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/oracle/evaluate_scalar.h"
#include "compiler/target/gpu/vendor/library_convolution.h"
#include "compiler/target/gpu/vendor/library_finish.h"
#include "compiler/tensor/sum_of_products.h"

namespace metac {
namespace {

constexpr int64_t most_meetings = 1 << 18;  // counted out along an axis

// Along one spatial axis: element `data` meets element `out` of the result at tap `tap` of the window.
struct Meeting {
  int64_t data, out, tap;
};

class GradientMatcher {
 public:
  GradientMatcher(const Definition& d, const std::function<const Var*(int)>& var) : d_(d), var_(var) {}

  std::optional<LibraryConvolution> run() {
    c_.dtype = d_.out->dtype();
    if (d_.scatter || d_.accumulator != DType::f32 || !is_library_type(c_.dtype)) return std::nullopt;
    if (d_.out->rank() < 3 || d_.out->rank() > 5) return std::nullopt;
    const auto s = sum_of_products(d_);
    if (!s || s->of_words() || !are_library_conversions(s->conversions, c_.dtype)) return std::nullopt;
    conditions_ = s->conditions;
    for (const Factor& f : s->factors) {
      if (!f.load || bool(f.scale) || bool(f.zero_point) || f.outside != 0 || f.load->dtype != c_.dtype ||
          !are_library_conversions(f.conversions, c_.dtype) || static_cast<int>(f.load->args.size()) != d_.out->rank())
        return std::nullopt;
      conditions_.insert(conditions_.end(), f.conditions.begin(), f.conditions.end());
    }
    const Expr first = s->factors[0].load, second = s->factors[1].load;
    if (static_cast<int>(d_.out_index.size()) != d_.out->rank() || first->id == second->id) return std::nullopt;
    for (ConvolutionKind kind : {ConvolutionKind::data_gradient, ConvolutionKind::weights_gradient})
      for (bool turned : {false, true})
        if (match(kind, turned ? second : first, turned ? first : second)) return finished();
    return std::nullopt;
  }

 private:
  Expr extent(int axis_id) const { return axis_id < 0 ? Expr(1) : d_.domain[static_cast<size_t>(axis_id)]; }

  // The axis that an index is, -1 where there is but one element; false: it is something else.
  bool one_axis(Expr index, Expr size, int& axis_id) const {
    axis_id = index->kind == ExprKind::axis ? index->id : -1;
    return (axis_id >= 0 || index.is_int(0)) && extent(axis_id) == size;
  }

  // `result`: the gradient of the result, which both kinds read. The other operand is the weights or the data.
  bool match(ConvolutionKind kind, Expr result, Expr other) {
    const bool by_data = kind == ConvolutionKind::data_gradient;
    const std::vector<Expr>& written = d_.out_index;
    const Shape &y = var_(result->id)->shape(), &o = var_(other->id)->shape(), &w = by_data ? o : d_.out->shape(),
                &x = by_data ? d_.out->shape() : o;
    const std::vector<Expr>&in = by_data ? written : other->args, &window = by_data ? other->args : written;
    int image = -1;
    if (!one_axis(in[0], x[0], image) || result->args[0] != in[0] || y[0] != x[0] || result->args[1] != window[0] ||
        y[1] != w[0])
      return false;
    c_.kind = kind;
    c_.windows.clear();
    std::vector<char> told(conditions_.size(), 0);
    std::vector<int> used = {image};
    if (w[1] == x[1] ? !all_channels(in[1], window, w, used) : !channels_of_groups(in[1], window, x[1], w, used, told))
      return false;
    for (size_t k = 2; k < y.size(); ++k) {
      int kept = -1, reduced = -1;
      if (!one_axis(written[k], d_.out->shape()[k], kept) || !other_axis(kept, {in[k], result->args[k], window[k]}, reduced))
        return false;
      LibraryWindow found;
      if (!window_of(kept, reduced, in[k], result->args[k], window[k], x[k], y[k], w[k], told, found)) return false;
      c_.windows.push_back(found);
      used.push_back(kept);
      used.push_back(reduced);
    }
    // Every condition speaks of one spatial axis, and every axis that runs is one of these.
    if (std::count(told.begin(), told.end(), 0) != 0) return false;
    for (int k = 0; k < static_cast<int>(d_.domain.size()); ++k)
      if (!d_.domain[static_cast<size_t>(k)].is_int(1) && std::count(used.begin(), used.end(), k) != 1) return false;
    c_.images = x[0];
    c_.channels = x[1];
    c_.features = w[0];
    c_.result = result->id;
    c_.data = by_data ? d_.out->id : other->id;
    c_.weights = by_data ? other->id : d_.out->id;
    return true;
  }

  // One group: every channel meets every feature.
  bool all_channels(Expr data, const std::vector<Expr>& window, const Shape& w, std::vector<int>& used) {
    int channel = -1, feature = -1;
    if (window[1] != data || !one_axis(data, w[1], channel) || !one_axis(window[0], w[0], feature)) return false;
    c_.groups = 1;
    used.insert(used.end(), {channel, feature});
    return true;
  }

  bool runs(int axis_id) const { return !d_.domain[static_cast<size_t>(axis_id)].is_int(1); }
  bool uses_any(Expr e, const std::vector<int>& axes) const {
    return std::any_of(axes.begin(), axes.end(), [&](int k) { return uses_axis(e, k); });
  }

  // Channels meet the features of their group. Which axes say so, and whether conditions do, does not matter: these meetings
  // are counted out too.
  bool channels_of_groups(Expr data, const std::vector<Expr>& window, Expr all, const Shape& w, std::vector<int>& used,
                          std::vector<char>& told) {
    for (Expr size : {all, w[0], w[1]})
      if (!size.if_int() || size.as_int() < 1) return false;
    const int64_t channels = all.as_int(), features = w[0].as_int(), own = w[1].as_int();
    if (channels % own != 0 || features % (channels / own) != 0 || own > most_meetings / features) return false;
    c_.groups = channels / own;
    for (Expr e : {data, window[0], window[1]})
      if (e->has_load || has_symbol(e)) return false;
    // Axes of conditions run outside, so that few others run where nothing meets.
    std::vector<int> axes, others;
    for (int k = 0; k < static_cast<int>(d_.domain.size()); ++k)
      if (runs(k) && (uses_axis(data, k) || uses_axis(window[0], k) || uses_axis(window[1], k))) others.push_back(k);
    std::vector<Expr> conditions;
    for (size_t k = 0; k < conditions_.size(); ++k)
      if (uses_any(conditions_[k], others) && !conditions_[k]->has_load && !has_symbol(conditions_[k])) {
        told[k] = 1;
        conditions.push_back(conditions_[k]);
      }
    for (int k = 0; k < static_cast<int>(d_.domain.size()); ++k)
      if (runs(k) && std::any_of(conditions.begin(), conditions.end(), [&](Expr e) { return uses_axis(e, k); }))
        axes.push_back(k);
    int64_t outside = 1;
    for (int k : axes) {
      if (!extent(k).if_int() || outside > most_meetings / extent(k).as_int()) return false;
      outside *= extent(k).as_int();
    }
    const size_t first_other = axes.size();
    for (int k : others)
      if (std::count(axes.begin(), axes.end(), k) == 0) axes.push_back(k);
    used.insert(used.end(), axes.begin(), axes.end());

    std::vector<char> met(static_cast<size_t>(features * own), 0);
    std::vector<int64_t> at(d_.domain.size(), 0);
    int64_t count = 0;
    auto value = [&](Expr e) { return evaluate_scalar(e, at.data(), nullptr).integer; };
    std::function<bool(size_t)> walk = [&](size_t depth) {
      if (depth == first_other && !std::all_of(conditions.begin(), conditions.end(), [&](Expr e) { return value(e) != 0; }))
        return true;
      if (depth < axes.size()) {
        if (!extent(axes[depth]).if_int()) return false;
        for (int64_t k = 0; k < extent(axes[depth]).as_int(); ++k) {
          at[static_cast<size_t>(axes[depth])] = k;
          if (!walk(depth + 1)) return false;
        }
        return true;
      }
      const int64_t feature = value(window[0]), channel = value(window[1]);
      if (feature < 0 || feature >= features || channel < 0 || channel >= own ||
          value(data) != feature / (features / c_.groups) * own + channel)
        return false;
      ++count;
      return std::exchange(met[static_cast<size_t>(feature * own + channel)], 1) == 0;  // as soon as one meets twice
    };
    return walk(0) && count == features * own;
  }

  // The one axis beside `kept` that runs in these indices; -1: there is none.
  bool other_axis(int kept, std::initializer_list<Expr> indices, int& found) const {
    for (int k = 0; k < static_cast<int>(d_.domain.size()); ++k) {
      if (k == kept || d_.domain[static_cast<size_t>(k)].is_int(1) ||
          std::none_of(indices.begin(), indices.end(), [&](Expr e) { return uses_axis(e, k); }))
        continue;
      if (found >= 0 || k < d_.kept()) return false;
      found = k;
    }
    return true;
  }

  bool window_of(int kept, int reduced, Expr data, Expr out, Expr tap, Expr size, Expr results, Expr taps,
                 std::vector<char>& told, LibraryWindow& found) const {
    for (Expr e : {size, results, taps, extent(kept), extent(reduced)})
      if (!e.if_int()) return false;
    for (Expr e : {data, out, tap})
      if (e->has_load || has_symbol(e)) return false;
    std::vector<Expr> conditions;
    for (size_t k = 0; k < conditions_.size(); ++k) {
      const bool mine =
          (kept >= 0 && uses_axis(conditions_[k], kept)) || (reduced >= 0 && uses_axis(conditions_[k], reduced));
      if (!mine) continue;
      for (int a = 0; a < static_cast<int>(d_.domain.size()); ++a)
        if (a != kept && a != reduced && uses_axis(conditions_[k], a)) return false;
      if (conditions_[k]->has_load || has_symbol(conditions_[k])) return false;
      told[k] = 1;
      conditions.push_back(conditions_[k]);
    }
    const int64_t rows = extent(kept).as_int(), columns = extent(reduced).as_int(), n = size.as_int(), m = results.as_int(),
                  t = taps.as_int();
    if (rows < 1 || columns < 1 || n < 1 || m < 1 || t < 1 || rows > most_meetings / columns || m > most_meetings / t)
      return false;
    std::vector<int64_t> axes(d_.domain.size(), 0);
    auto value = [&](Expr e) { return evaluate_scalar(e, axes.data(), nullptr).integer; };
    std::vector<Meeting> meetings;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        if (kept >= 0) axes[static_cast<size_t>(kept)] = row;
        if (reduced >= 0) axes[static_cast<size_t>(reduced)] = column;
        if (!std::all_of(conditions.begin(), conditions.end(), [&](Expr e) { return value(e) != 0; })) continue;
        meetings.push_back({value(data), value(out), value(tap)});
        const Meeting& b = meetings.back();
        if (b.data < 0 || b.data >= n || b.out < 0 || b.out >= m || b.tap < 0 || b.tap >= t) return false;
      }
    found = {size, results, taps, 1, 1, 0};
    found.window = taps;
    found.out = results;
    return fit(meetings, n, m, t, found);
  }

  // data = out * stride + tap * dilation - before, for all that lie within the data, each once.
  static bool fit(const std::vector<Meeting>& meetings, int64_t n, int64_t m, int64_t t, LibraryWindow& w) {
    std::vector<int64_t> at(static_cast<size_t>(m * t), -1);  // the data that they meet in
    for (const Meeting& b : meetings) {
      int64_t& place = at[static_cast<size_t>(b.out * t + b.tap)];
      if (place >= 0) return false;
      place = b.data;
    }
    int64_t stride = 0, dilation = 0;
    for (int64_t o = 0; o < m; ++o)
      for (int64_t k = 0; k < t; ++k) {
        const int64_t here = at[static_cast<size_t>(o * t + k)];
        if (here < 0) continue;
        if (o + 1 < m && stride == 0 && at[static_cast<size_t>((o + 1) * t + k)] >= 0)
          stride = at[static_cast<size_t>((o + 1) * t + k)] - here;
        if (k + 1 < t && dilation == 0 && at[static_cast<size_t>(o * t + k + 1)] >= 0)
          dilation = at[static_cast<size_t>(o * t + k + 1)] - here;
      }
    if (t == 1) dilation = 1;
    if (meetings.empty() || dilation < 1 || (m > 1 && stride < 1)) return false;
    w.dilation = dilation;
    w.before = meetings[0].out * stride + meetings[0].tap * dilation - meetings[0].data;
    const int64_t read = (t - 1) * dilation + 1;
    if (m == 1)
      stride = std::max<int64_t>(1, n + std::max<int64_t>(0, w.before) - read + 1);  // no step leads to a second result
    w.stride = stride;
    int64_t expected = 0;
    for (int64_t o = 0; o < m; ++o)
      for (int64_t k = 0; k < t; ++k) {
        const int64_t data = o * stride + k * dilation - w.before;
        const bool inside = data >= 0 && data < n;
        expected += inside;
        if (inside && at[static_cast<size_t>(o * t + k)] != data) return false;
      }
    // As many results as a library makes of these numbers: it pads by as much as the last one needs.
    const int64_t after = std::max<int64_t>(0, (m - 1) * stride + read - w.before - n);
    return w.before >= 0 && expected == static_cast<int64_t>(meetings.size()) &&
           (n + w.before + after - read) / stride + 1 == m;
  }

  std::optional<LibraryConvolution> finished() {
    Expr e = d_.epilogue;
    while (e->kind == ExprKind::cast && (e->dtype == c_.dtype || e->dtype == DType::f32)) e = e->args[0];
    c_.sums_only = e->kind != ExprKind::load || e->id != reduced_value;
    if (c_.sums_only && !worth_finishing(d_)) return std::nullopt;
    return c_;
  }

  const Definition& d_;
  const std::function<const Var*(int)>& var_;
  std::vector<Expr> conditions_;
  LibraryConvolution c_;
};

}  // namespace

std::optional<LibraryConvolution> match_library_gradient(const Definition& d, const std::function<const Var*(int)>& var,
                                                         const std::vector<Symbol>& symbols) {
  if (!d.reduce || d.scatter) return std::nullopt;
  // Axes that run once say nothing: the groups of a convolution that has one.
  Definition plain = d;
  std::vector<Expr> at = identity_indices(static_cast<int>(d.domain.size()));
  for (size_t k = 0; k < at.size(); ++k)
    if (d.domain[k].is_int(1)) at[k] = 0;
  plain.body = substitute_axes(d.body, at);
  plain.epilogue = substitute_axes(d.epilogue, at);
  for (Expr& e : plain.out_index) e = substitute_axes(e, at);
  simplify(plain, symbols);
  return GradientMatcher(plain, var).run();
}

}  // namespace metac
