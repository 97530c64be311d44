#include "compiler/target/gpu/vendor/library_convolution.h"

#include <algorithm>
#include <utility>

#include "compiler/loops/loop_transforms.h"
#include "compiler/target/gpu/vendor/library_finish.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/sum_of_products.h"

namespace metac {
namespace {

bool is_zero(Expr e) { return e.is_constant() && e->float_value == 0 && e->int_value == 0; }

class ConvolutionMatcher {
 public:
  ConvolutionMatcher(const Definition& d, const LoweringContext& context, const std::vector<KernelArgument>& arguments)
      : d_(d), context_(context), arguments_(arguments) {}

  std::optional<LibraryConvolution> run() {
    c_.dtype = d_.out->dtype();
    if (d_.scatter || d_.accumulator != DType::f32 || !is_library_type(c_.dtype)) return std::nullopt;
    const auto s = sum_of_products(d_);
    if (!s || s->of_words() || !s->conditions.empty() || !are_library_conversions(s->conversions, c_.dtype))
      return std::nullopt;
    for (size_t first : {0, 1}) {
      c_ = LibraryConvolution{};
      c_.dtype = d_.out->dtype();
      if (factors(s->factors[first], s->factors[1 - first])) return with_epilogue();
    }
    return std::nullopt;
  }

 private:
  std::optional<LibraryConvolution> with_epilogue() {
    const LibraryConvolution sums = c_;
    if (epilogue() && lie_alike(c_, arguments_)) return c_;
    if (!worth_finishing(d_)) return std::nullopt;
    c_ = sums;
    c_.sums_only = true;
    return lie_alike(c_, arguments_) ? std::optional(c_) : std::nullopt;
  }

  // An index as a sum of axes; those that run once do not count.
  struct Affine {
    std::vector<std::pair<int, int64_t>> terms;  // axis, factor; in the order of axes
    int64_t constant = 0;
  };

  std::optional<Affine> affine(const IndexForm& index) const {
    Affine a;
    for (const auto& [id, step] : index.steps) {
      if (!step || !step.if_int()) return std::nullopt;
      if (!extent(id).is_int(1)) a.terms.emplace_back(id, step.as_int());
    }
    if (!index.offset.if_int()) return std::nullopt;
    a.constant = index.offset.as_int();
    return a;
  }

  Expr extent(int axis_id) const { return axis_id < 0 ? Expr(1) : d_.domain[static_cast<size_t>(axis_id)]; }

  // Exactly one axis with factor 1 (or, where the extent is 1, none); its number or -1.
  bool one_axis(const IndexForm& index, Expr size, int& axis_id) const {
    const auto a = affine(index);
    if (!a || a->constant != 0 || a->terms.size() > 1 || (!a->terms.empty() && a->terms[0].second != 1)) return false;
    axis_id = a->terms.empty() ? -1 : a->terms[0].first;
    return extent(axis_id) == size;
  }

  Expr without_casts(Expr e) const {
    while (e->kind == ExprKind::cast && (e->dtype == c_.dtype || e->dtype == DType::f32)) e = e->args[0];
    return e;
  }
  bool is_element(Expr e) const { return e->kind == ExprKind::load && e->id >= 0 && e->dtype == c_.dtype; }

  int argument(int var) const {
    for (size_t k = 0; k < arguments_.size(); ++k)
      if (arguments_[k].var->id == var) return static_cast<int>(k);
    return -1;
  }

  // A condition that says no more than that the window lies within the data: what lies outside counts as zero.
  static bool is_padding(Expr condition, const std::vector<Expr>& indices, const Shape& shape) {
    if (condition->kind != ExprKind::call) return false;
    for (size_t k = 2; k < indices.size(); ++k) {
      if (condition->fn == Fn::le && condition->args[0].is_int(0) && condition->args[1] == indices[k]) return true;
      if (condition->fn == Fn::lt && condition->args[0] == indices[k] && condition->args[1] == shape[k]) return true;
    }
    return false;
  }

  bool factors(const Factor& data_factor, const Factor& weights_factor) {
    const Expr data = data_factor.load, weights = weights_factor.load;
    const int rank = d_.out->rank();
    for (const Factor* f : {&data_factor, &weights_factor})
      if (!f->load || !is_element(f->load) || !are_library_conversions(f->conversions, c_.dtype) || bool(f->scale) ||
          bool(f->zero_point) || static_cast<int>(f->load->args.size()) != rank)
        return false;
    if (rank < 3 || rank > 5 || data->id == weights->id || !weights_factor.conditions.empty() || data_factor.outside != 0)
      return false;
    const std::vector<Expr>&x = data->args, &w = weights->args;
    const std::vector<IndexForm>&x_form = data_factor.indices, &w_form = weights_factor.indices;
    if (static_cast<int>(d_.out_index.size()) != rank) return false;
    const Shape &in = context_.var(data->id)->shape(), &window = context_.var(weights->id)->shape(), &out = d_.out->shape();
    for (Expr condition : data_factor.conditions)
      if (!is_padding(condition, x, in)) return false;
    c_.data = argument(data->id);
    c_.weights = argument(weights->id);
    c_.result = argument(d_.out->id);
    if (c_.data < 0 || c_.weights < 0 || c_.result < 0) return false;

    int image = -1, channel = -1;
    if (!one_axis(x_form[0], in[0], image) || d_.out_index[0] != x[0] || !one_axis(w_form[1], window[1], channel))
      return false;
    if (channel >= 0 && channel < d_.kept()) return false;
    if (!groups(x_form[1], w_form[0], in[1], window[0], window[1], channel) || d_.out_index[1] != w[0] ||
        out[1] != window[0])
      return false;
    std::vector<int> reduced;
    if (channel >= 0) reduced.push_back(channel);
    for (int k = 2; k < rank; ++k) {
      const size_t s = static_cast<size_t>(k);
      int tap = -1, place = -1;
      if (!one_axis(w_form[s], window[s], tap) || !one_axis(index_form(d_.out_index[s]), out[s], place)) return false;
      const auto a = affine(x_form[s]);
      if (!a || a->constant > 0) return false;
      LibraryWindow o{in[s], window[s], out[s], 1, 1, -a->constant};
      size_t found = 0;
      for (auto [id, factor] : a->terms) {
        if (factor < 1 || id < 0 || (id != tap && id != place)) return false;
        (id == tap ? o.dilation : o.stride) = factor;
        ++found;
      }
      if (found != static_cast<size_t>(tap >= 0) + static_cast<size_t>(place >= 0)) return false;
      if (tap >= 0) reduced.push_back(tap);
      c_.windows.push_back(o);
    }
    // Every reduced axis that runs is one of these.
    for (size_t k = static_cast<size_t>(d_.kept()); k < d_.domain.size(); ++k)
      if (!d_.domain[k].is_int(1) && std::count(reduced.begin(), reduced.end(), static_cast<int>(k)) != 1) return false;
    c_.images = in[0];
    c_.channels = in[1];
    c_.features = window[0];
    return true;
  }

  // Channels are group * channels of a group + channel, features likewise of the same group.
  bool groups(const IndexForm& channels, const IndexForm& features, Expr all_channels, Expr all_features, Expr own_channels,
              int channel) {
    if (!all_channels.if_int() || !all_features.if_int() || !own_channels.if_int() ||
        all_channels.as_int() % own_channels.as_int() != 0)
      return false;
    c_.groups = all_channels.as_int() / own_channels.as_int();
    const auto x = affine(channels), w = affine(features);
    if (!x || !w || x->constant != 0 || w->constant != 0 || all_features.as_int() % c_.groups != 0) return false;
    const int64_t own_features = all_features.as_int() / c_.groups;
    int group = -1, feature = -1;
    for (auto [id, factor] : x->terms) {
      if (id == channel && factor == 1) continue;
      if (group >= 0 || id >= d_.kept() || factor != own_channels.as_int()) return false;
      group = id;
    }
    if (channel >= 0 && std::none_of(x->terms.begin(), x->terms.end(), [&](const auto& t) { return t.first == channel; }))
      return false;
    if (extent(group) != Expr(c_.groups)) return false;
    for (auto [id, factor] : w->terms) {
      if (id == group && factor == own_features) continue;
      if (feature >= 0 || id >= d_.kept() || factor != 1) return false;
      feature = id;
    }
    if (group >= 0 && std::none_of(w->terms.begin(), w->terms.end(), [&](const auto& t) { return t.first == group; }))
      return false;
    return extent(feature) == Expr(own_features);
  }

  // relu( sum + residual + bias ), residual and relu absent or not, the terms in any order; or nothing. cuDNN has engines
  // for these alone (9.19 for an H100: none without a bias or with two, and for a relu with an upper bound the one engine
  // that takes everything).
  bool epilogue() {
    Expr e = without_casts(d_.epilogue);
    if (e->kind == ExprKind::call && e->fn == Fn::max && (is_zero(e->args[0]) || is_zero(e->args[1]))) {
      c_.relu = true;
      e = e->args[is_zero(e->args[0]) ? 1 : 0];
    }
    return terms(e) && summed_ && (c_.bias >= 0 || (c_.residual < 0 && !c_.relu));
  }

  bool terms(Expr e) {
    e = without_casts(e);
    if (e->kind == ExprKind::call && e->fn == Fn::add) return terms(e->args[0]) && terms(e->args[1]);
    if (e->kind == ExprKind::load && e->id == reduced_value) return !std::exchange(summed_, true);
    if (!is_element(e)) return false;
    const Shape& shape = context_.var(e->id)->shape();
    const int place = argument(e->id);
    if (place < 0) return false;
    if (c_.residual < 0 && e->args == d_.out_index && shape == d_.out->shape()) {
      c_.residual = place;
      return true;
    }
    if (c_.bias >= 0) return false;
    size_t features = 0;
    for (size_t k = 0; k < e->args.size(); ++k) {
      if (e->args[k] == d_.out_index[1] && shape[k] == c_.features)
        ++features;
      else if (!e->args[k].is_int(0) || !shape[k].is_int(1))
        return false;
    }
    c_.bias = place;
    return features == 1;
  }

  const Definition& d_;
  const LoweringContext& context_;
  const std::vector<KernelArgument>& arguments_;
  LibraryConvolution c_;
  bool summed_ = false;
};

}  // namespace

bool is_library_type(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

bool are_library_conversions(const std::vector<DType>& conversions, DType dtype) {
  return std::all_of(conversions.begin(), conversions.end(), [&](DType t) { return t == dtype || t == DType::f32; });
}

bool lie_alike(LibraryConvolution& c, const std::vector<KernelArgument>& arguments) {
  bool rows = true, channels = true;
  for (const int argument : {c.data, c.weights, c.result, c.residual}) {
    if (argument < 0) continue;
    const KernelArgument& a = arguments[static_cast<size_t>(argument)];
    if (a.layout.has_halo() || a.layout.gap != 0) return false;
    std::vector<int> order = a.layout.order;
    for (int k = 0; a.layout.order.empty() && k < a.var->rank(); ++k) order.push_back(k);
    std::erase_if(order, [&](int k) { return a.var->shape()[static_cast<size_t>(k)].is_int(1); });
    const auto place = [](int axis) { return axis == 1 ? 100 : axis; };
    rows = rows && std::is_sorted(order.begin(), order.end());
    channels = channels && std::is_sorted(order.begin(), order.end(), [&](int x, int y) { return place(x) < place(y); });
  }
  c.channels_last = !rows;
  return rows || channels;
}

std::optional<LibraryConvolution> match_library_convolution(const Group& group, const LoweringContext& context,
                                                            const std::vector<KernelArgument>& arguments) {
  if (group.stages.size() != 1 || group.shared != 0) return std::nullopt;
  return ConvolutionMatcher(group.stages[0], context, arguments).run();
}

}  // namespace metac
