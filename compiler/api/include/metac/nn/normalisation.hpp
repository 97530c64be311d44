// LayerNorm, GroupNorm, InstanceNorm and BatchNorm. Weights begin at 1, biases at 0.
#pragma once
#include "initial.hpp"
#include "module.hpp"

namespace metac::nn {

struct NormOptions {
  double epsilon = 1e-5;
};
struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  // the weight of a batch's statistics in the running ones
};

namespace detail {

class Normalisation : public Module {
 public:
  Var weight, bias;

 protected:
  Normalisation(const std::vector<int64_t>& shape, double epsilon)
      : weight(parameter("weight", filled(shape, 1))), bias(parameter("bias", filled(shape, 0))), epsilon_(epsilon) {}
  double epsilon_;
};

}  // namespace detail

// Over the last axes, of these lengths: LayerNorm(64), LayerNorm({6, 5}).
class LayerNorm : public detail::Normalisation {
 public:
  explicit LayerNorm(const Lengths& shape, const NormOptions& options = {})
      : Normalisation(shape.of(shape.rank(1), 1, "the shape of LayerNorm"), options.epsilon) {}
  Var operator()(const Var& x, Place where = Place::current()) const {
    const int64_t axis = -static_cast<int64_t>(weight.shape().size());
    op::LayerNormalizationOptions options;
    options.axis = axis, options.epsilon = epsilon_;
    return op::LayerNormalization(x, weight, bias, options, where)[0];
  }
};

// Over groups of channels of [n, channels, ...].
class GroupNorm : public detail::Normalisation {
 public:
  GroupNorm(int64_t groups, int64_t channels, const NormOptions& options = {})
      : Normalisation({channels}, options.epsilon), groups_(detail::positive(groups, "groups")) {
    if (channels % groups)
      throw Error(METAC_INVALID_ARGUMENT, std::to_string(channels) + " channels in " + std::to_string(groups) + " groups");
  }
  Var operator()(const Var& x, Place where = Place::current()) const {
    op::GroupNormalizationOptions options;
    options.num_groups = groups_, options.epsilon = epsilon_;
    return op::GroupNormalization(x, weight, bias, options, where);
  }

 private:
  int64_t groups_;
};

// Over the places of each channel of [n, channels, ...].
class InstanceNorm : public detail::Normalisation {
 public:
  explicit InstanceNorm(int64_t channels, const NormOptions& options = {}) : Normalisation({channels}, options.epsilon) {}
  Var operator()(const Var& x, Place where = Place::current()) const {
    return op::InstanceNormalization(x, weight, bias, {.epsilon = epsilon_}, where);
  }
};

// Over the batch and the places of each channel of [n, channels, ...]; in training by the batch's own statistics, of which
// running ones are kept for later (states running_mean and running_var).
class BatchNorm : public detail::Normalisation {
 public:
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {})
      : Normalisation({channels}, options.epsilon),
        running_mean(state("running_mean", filled({channels}, 0))),
        running_var(state("running_var", filled({channels}, 1))),
        momentum_(options.momentum) {}

  Var operator()(const Var& x, Place where = Place::current()) const {
    if (!training()) {
      op::BatchNormalizationOptions options;
      options.epsilon = epsilon_;
      return op::BatchNormalization(x, weight, bias, running_mean, running_var, options, where)[0];
    }
    using detail::Operand;
    const std::vector<int64_t> dims = x.shape();
    if (dims.size() < 2 || dims[1] != weight.shape()[0])
      throw Error(METAC_INVALID_ARGUMENT,
                  "BatchNorm of " + std::to_string(weight.shape()[0]) + " channels, given " + shape_text(dims));
    std::vector<int64_t> axes = {0}, shape(dims.size(), 1);
    for (size_t axis = 2; axis < dims.size(); ++axis) axes.push_back(static_cast<int64_t>(axis));
    shape[1] = -1;
    const Var average = mean(x, axes, true, where);
    const Var deviation = Operand(x, where) - average;
    const Var variance = mean(Operand(deviation, where) * deviation, axes, true, where);
    keep(average, variance, x.size() / dims[1], where);
    const Var root = sqrt(Operand(variance, where) + epsilon_, where);
    const Var scale = Operand(reshape(weight, shape, where), where) / root;
    return Operand(Operand(deviation, where) * scale, where) + reshape(bias, shape, where);
  }

  Var running_mean, running_var;

 private:
  void keep(const Var& average, const Var& variance, int64_t count, Place where) const {
    const NoGrad none;
    const double correction = static_cast<double>(count) / static_cast<double>(std::max<int64_t>(count - 1, 1));
    const auto move = [&](Var kept, const Var& now) {
      const Var before = kept * (1 - momentum_);
      kept.assign(detail::Operand(before, where) + reshape(now, {-1}, where) * momentum_, where);
    };
    move(running_mean, average);
    move(running_var, variance * correction);
  }
  double momentum_;
};

}  // namespace metac::nn
