// Linear, Conv, ConvTranspose, Embedding and Dropout. Weights lie and are drawn as PyTorch's are, so that files of one fit
// the other; all are float32.
#pragma once
#include "initial.hpp"
#include "module.hpp"

namespace metac::nn {

struct LinearOptions {
  bool bias = true;
};

// x W^T + b along the last axis: [..., inputs] to [..., outputs].
class Linear : public Module {
 public:
  Linear(int64_t inputs, int64_t outputs, const LinearOptions& options = {}) {
    const double bound = 1 / std::sqrt(static_cast<double>(detail::positive(inputs, "the inputs of Linear")));
    weight = parameter("weight", uniform({outputs, inputs}, bound));
    if (options.bias) bias = parameter("bias", uniform({outputs}, bound));
  }
  Var operator()(const Var& x, Place where = Place::current()) const {
    const Var y = matmul({x, where}, transpose(weight, {}, where));
    return bias ? detail::Operand(y, where) + bias : y;
  }

  Var weight, bias;  // bias: Var() where there is none
};

// A number is for every axis; {3, 5} has one for each.
struct ConvOptions {
  Lengths stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
struct ConvTransposeOptions {
  Lengths stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

namespace detail {

// What both convolutions have: [n, channels, ...] over as many axes as the kernel has, 2 where it is one number.
template <class OpOptions>
class Convolution : public Module {
 public:
  Var weight, bias;  // bias: Var() where there is none

 protected:
  template <class Options>
  Convolution(int64_t inputs, int64_t outputs, const Lengths& kernel, const Options& given, bool transposed) {
    const size_t rank = kernel.rank(2);
    const int64_t groups = positive(given.groups, "groups");
    if (positive(inputs, "the inputs of a convolution") % groups || positive(outputs, "its outputs") % groups)
      throw Error(METAC_INVALID_ARGUMENT, std::to_string(inputs) + " channels to " + std::to_string(outputs) + " in " +
                                              std::to_string(groups) + " groups");
    std::vector<int64_t> shape = transposed ? std::vector{inputs, outputs / groups} : std::vector{outputs, inputs / groups};
    for (const int64_t length : kernel.of(rank, 1, "the kernel")) shape.push_back(length);
    const double bound = 1 / std::sqrt(static_cast<double>(product(shape) / shape[0]));
    options_.strides = given.stride.of(rank, 1, "stride");
    options_.dilations = given.dilation.of(rank, 1, "dilation");
    options_.pads = given.padding.of(rank, 0, "padding");
    options_.pads.insert(options_.pads.end(), options_.pads.begin(), options_.pads.begin() + static_cast<int64_t>(rank));
    options_.group = groups;
    weight = parameter("weight", uniform(shape, bound));
    if (given.bias) bias = parameter("bias", uniform({outputs}, bound));
  }
  OpOptions options_;
};

}  // namespace detail

// A convolution: Conv(1, 8, 3), Conv(4, 6, {5}) over one axis, Conv(4, 6, {3, 3, 3}, {.stride = 2, .groups = 2}).
class Conv : public detail::Convolution<op::ConvOptions> {
 public:
  Conv(int64_t inputs, int64_t outputs, const Lengths& kernel, const ConvOptions& options = {})
      : Convolution(inputs, outputs, kernel, options, false) {}
  Var operator()(const Var& x, Place where = Place::current()) const { return op::Conv(x, weight, bias, options_, where); }
};

// A transposed convolution.
class ConvTranspose : public detail::Convolution<op::ConvTransposeOptions> {
 public:
  ConvTranspose(int64_t inputs, int64_t outputs, const Lengths& kernel, const ConvTransposeOptions& options = {})
      : Convolution(inputs, outputs, kernel, options, true) {
    options_.output_padding = options.output_padding.of(kernel.rank(2), 0, "output_padding");
  }
  Var operator()(const Var& x, Place where = Place::current()) const {
    return op::ConvTranspose(x, weight, bias, options_, where);
  }
};

// Rows of a table of [count, width], by integers: [...] to [..., width].
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width) : weight(parameter("weight", normal({count, width}))) {}
  Var operator()(const Var& indices, Place where = Place::current()) const { return op::Gather(weight, indices, {}, where); }

  Var weight;
};

// In training, zeros with this probability and the rest scaled up: other ones in each call, by the module's own seed.
class Dropout : public Module {
 public:
  explicit Dropout(double probability = 0.5) : probability_(probability) {
    if (!(probability >= 0 && probability < 1))
      throw Error(METAC_INVALID_ARGUMENT,
                  "a probability of " + std::to_string(probability) + "; it is at least 0 and below 1");
  }
  Var operator()(const Var& x, Place where = Place::current()) const {
    if (!training() || probability_ == 0) return x;
    const Var call = array<int64_t>({++drawn_->calls}, {});
    const Var drawn =
        op::meta::random(array<int64_t>({drawn_->seed}, {}), call, {.shape = detail::texts_of(x.shape())}, where);
    const Var kept = (detail::Operand(drawn, where) >= probability_).cast(x.dtype(), where);
    return detail::Operand(detail::Operand(x, where) * kept, where) * (1 / (1 - probability_));
  }

 private:
  double probability_;
  std::shared_ptr<Draws> drawn_ = draws_of(static_cast<int64_t>(detail::drawn() * 0x1p31));
};

}  // namespace metac::nn
