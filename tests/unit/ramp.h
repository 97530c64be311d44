// Inputs of small tests.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/ir/tensor.h"

namespace metac {

// float32 values of both signs in a pattern of 23, by which `step` goes.
inline Tensor ramp(std::vector<int64_t> shape, int step) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<float> values;
  for (int64_t k = 0; k < n; ++k) values.push_back(static_cast<float>(k * step % 23 - 11) / 8);
  return make_tensor<float>(DType::f32, std::move(shape), values);
}

// Of the same pattern, from -0.5 to less than 0.9: sums of many stay small.
inline Tensor numbers(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  std::vector<float> values;
  for (int64_t k = 0; k < count; ++k) values.push_back(static_cast<float>(k * 7 % 23) / 16 - 0.5f);
  return make_tensor<float>(DType::f32, std::move(shape), values);
}

}  // namespace metac
