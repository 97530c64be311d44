#include "compiler/quantize/accuracy/error_compensation.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int64_t most_moment_bytes = int64_t{1} << 30;  // held at once
constexpr int64_t most_depth = 16384;                    // whose moments take 2 GiB

}  // namespace

void SecondMoments::add(const Tensor& rows) {
  if (rows.shape.empty() || rows.shape.back() != depth_ || rows.dtype != DType::f32) return;
  const int64_t n = depth_, count = rows.element_count() / n;
  const float* x = rows.data<float>();
  for (int64_t r = 0; r < count; ++r, x += n)
    for (int64_t i = 0; i < n; ++i) {
      const double each = x[i];
      if (each == 0) continue;
      double* sums = sums_.data() + i * n;
      for (int64_t k = i; k < n; ++k) sums[k] += each * x[k];  // the upper half
    }
}

std::vector<double> SecondMoments::inverse_factor() const {
  const int64_t n = depth_;
  std::vector<double> a = sums_;
  const auto at = [n](std::vector<double>& m, int64_t i, int64_t k) -> double& { return m[static_cast<size_t>(i * n + k)]; };
  double trace = 0;
  for (int64_t i = 0; i < n; ++i) trace += at(a, i, i);
  if (!(trace > 0) || !std::isfinite(trace)) return {};
  // One hundredth of the mean on the diagonal, as in the paper: what the data does not show is not to be relied on.
  for (int64_t i = 0; i < n; ++i) at(a, i, i) += 0.01 * trace / static_cast<double>(n);
  // U^T U = (J (L L^T) J)^-1 with A = J L L^T J: factor A with rows and columns turned around, invert the triangle, turn
  // back.
  std::vector<double> l(a.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k <= i; ++k) {
      const int64_t p = n - 1 - i, q = n - 1 - k;  // p <= q: the upper half
      double sum = at(a, p, q);
      const double *x = &at(l, i, 0), *y = &at(l, k, 0);
      for (int64_t j = 0; j < k; ++j) sum -= x[j] * y[j];
      if (i != k) {
        at(l, i, k) = sum / at(l, k, k);
      } else if (sum > 0) {
        at(l, i, i) = std::sqrt(sum);
      } else {
        return {};
      }
    }
  // M = L^-1, lower. A^-1 = J M^T M J, so U = J M J is upper with U^T U = J M^T M J.
  std::vector<double> u(a.size());
  std::vector<double> m(static_cast<size_t>(n));
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t i = column; i < n; ++i) {
      double sum = i == column ? 1 : 0;
      const double* row = &at(l, i, 0);
      for (int64_t j = column; j < i; ++j) sum -= row[j] * m[static_cast<size_t>(j)];
      m[static_cast<size_t>(i)] = sum / row[i];
      at(u, n - 1 - i, n - 1 - column) = m[static_cast<size_t>(i)];
    }
  }
  return u;
}

BlockWeights compensate(std::vector<float> values, int64_t columns, const SecondMoments& moments, int bits, int64_t block) {
  const int64_t depth = moments.depth();
  const std::vector<double> factor = moments.inverse_factor();
  if (factor.empty()) return round_to_blocks(values, columns, depth, bits, block);
  BlockWeights w{bits, columns, depth, block, std::vector<uint8_t>(values.size()), {}, {}};
  std::vector<double> row(static_cast<size_t>(depth));
  std::vector<float> part(static_cast<size_t>(block));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t k = 0; k < depth; ++k) row[static_cast<size_t>(k)] = values[static_cast<size_t>(c * depth + k)];
    BlockScale scale;
    for (int64_t k = 0; k < depth; ++k) {
      if (k % block == 0) {
        const int64_t count = std::min(block, depth - k);
        for (int64_t j = 0; j < count; ++j)
          part[static_cast<size_t>(j)] = static_cast<float>(row[static_cast<size_t>(k + j)]);
        scale = block_scale(part.data(), count, bits);
        w.scales.push_back(scale.scale);
        w.zeros.push_back(scale.zero);
      }
      const double value = row[static_cast<size_t>(k)];
      const uint8_t integer = scale.nearest(static_cast<float>(value), bits);
      w.integers[static_cast<size_t>(c * depth + k)] = integer;
      const double* u = factor.data() + k * depth;
      const double error = (value - (integer - static_cast<double>(scale.zero)) * scale.scale) / u[k];
      for (int64_t j = k + 1; j < depth; ++j) row[static_cast<size_t>(j)] -= error * u[j];
    }
  }
  return w;
}

std::map<int, BlockWeights> compensated_weights(const Model& model, const std::vector<BlockProduct>& products, int bits,
                                                int64_t block, const CalibrationData& data, const SessionOptions& options) {
  std::map<int, BlockWeights> result;
  std::map<std::string, std::vector<const BlockProduct*>> by_operand;
  const auto values_of = [&](const BlockProduct& product) {
    return at_node(model, product.node, [&] { return product.values(); });
  };
  for (const BlockProduct& product : products) {
    const std::string& operand = model.graph.nodes[static_cast<size_t>(product.node)].inputs[0];
    if (product.depth > most_depth)
      result[product.node] = round_to_blocks(values_of(product), product.columns, product.depth, bits, block);
    else
      by_operand[operand].push_back(&product);
  }
  for (auto next = by_operand.begin(); next != by_operand.end();) {
    std::map<std::string, SecondMoments> moments;
    std::vector<std::string> watched;
    const auto first = next;
    for (int64_t bytes = 0; next != by_operand.end() && (next == first || bytes < most_moment_bytes); ++next) {
      const int64_t depth = next->second[0]->depth;
      bytes += depth * depth * 8;
      moments.emplace(next->first, SecondMoments(depth));
      watched.push_back(next->first);
    }
    ObservedModel observed(model, watched, options);
    data.for_each([&](const NamedTensors& inputs) {
      const NamedTensors found = observed.run(inputs);
      for (auto& [name, sums] : moments) sums.add(found.at(name));
    });
    for (auto part = first; part != next; ++part)
      for (const BlockProduct* product : part->second)
        result[product->node] = compensate(values_of(*product), product->columns, moments.at(part->first), bits, block);
  }
  return result;
}

}  // namespace metac
