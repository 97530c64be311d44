// Elements of tensors by dtype: the classes of runtime/element.h, which compiler and generated code share.
#pragma once
#include "compiler/ir/dtype.h"
#include "runtime/element.h"

namespace metac {

using metac_runtime::bfloat16_to_float;
using metac_runtime::float_to_bfloat16;
using metac_runtime::float_to_half;
using metac_runtime::half_to_float;
using metac_runtime::odd_float;
using metac_runtime::to_element;
using metac_runtime::value_of;
using metac_runtime::ValueOf;

template <class T>
constexpr bool is_real_element = std::is_floating_point_v<ValueOf<T>>;
template <class T>
constexpr bool is_truth_element = std::is_same_v<ValueOf<T>, bool>;

// f(T{}) with the class in memory of a numeric dtype.
template <class F>
auto with_element(DType dtype, F&& f) -> decltype(f(float{})) {
  return metac_runtime::with_element(static_cast<metac_runtime::ScalarType>(dtype), f);
}

// What a kernel's arithmetic leaves in that float dtype: computed in float32 (float64 in float64), then rounded.
inline double round_to(DType dtype, double value) {
  return with_element(dtype, [&](auto zero) -> double {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, double>)
      return value;
    else
      return static_cast<double>(value_of(to_element<T>(static_cast<float>(value))));
  });
}

}  // namespace metac
